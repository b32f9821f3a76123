//! Login by a token of GitHub: who it is, and in which teams of one organization, is what GitHub says when it is asked with that token.
//!
//! ```text
//! config   which organization, and where GitHub is
//! teams    policies of teams, by slug or name
//! users    policies of people, by their login
//! ```
//!
//! In the storage of the mount are `config`, `map/teams/NAME` and `map/users/NAME`.
//!
//! Invariants:
//! - The organization is known by its number: whoever takes a name that was given up is in another one.
//! - Teams of other organizations give nothing.
//! - The token of a login goes to the address of the configuration and nowhere else. It is kept with the token that is made, to look again
//!   at a renewal, and is in no answer and no log.
//! - Only a token that GitHub refuses is the fault of who logs in.

mod config;
mod mapping;
mod routes;

use std::slice;

use kallisto_api::{BoxFuture, Error, Expected, Fields, Map, Response};
use kallisto_engine::{
    Authorization, Call, EngineContext, EngineSpec, Login, LoginMethod, Renewal, RenewalCall,
    TokenParams, address,
};
use secrecy::{ExposeSecret, SecretString};

use crate::records;
use crate::rest::{RestService, id_of, inner, text};
use config::GithubConfig;
use mapping::{TEAMS, USERS};

/// Longest token, in bytes.
const TOKEN_BYTES_MAX: usize = 1024;
/// Items of a page.
const PAGE_SIZE: u32 = 100;
/// What a token that GitHub refuses is told.
const REFUSED: &str = "GitHub refuses the token";

/// GitHub, asked as the bearer of a token, or as nobody.
fn github<'a>(
    context: &EngineContext<'a>,
    base: &'a str,
    token: Option<SecretString>,
) -> RestService<'a> {
    RestService {
        outbound: context.outbound,
        name: "GitHub",
        base,
        refused: token.is_some().then_some(REFUSED),
        authorization: token.map_or(Authorization::None, Authorization::Bearer),
    }
}

/// Who bears a token.
#[derive(Debug, PartialEq, Eq)]
struct OrganizationMember {
    login: String,
    /// What the organization is called now.
    organization: String,
    /// Names and slugs of the teams.
    teams: Vec<String>,
}

/// Asks GitHub who bears a token.
///
/// # Errors
/// [`Expected::NotInOrganization`]; [`Error::Invalid`] for a token that it refuses; [`Error::Unavailable`] for all that is wrong with GitHub.
async fn member(
    service: &RestService<'_>,
    organization_id: i64,
) -> Result<OrganizationMember, Error> {
    let user = service.object("user").await?;
    let login = text(&user, "login");
    if login.is_empty() {
        return Err(service.failed("does not say whose token it is"));
    }
    let organizations = service.list(&format!("user/orgs?per_page={PAGE_SIZE}")).await?;
    // An organization without a number is none: 0 is no number of any.
    let own = organizations.iter().find(|own| id_of(own) == organization_id);
    let own = own.filter(|_| organization_id != 0);
    let own = own.ok_or(Error::Expected(Expected::NotInOrganization))?;
    let mut teams = Vec::new();
    for team in service.list(&format!("user/teams?per_page={PAGE_SIZE}")).await? {
        if inner(&team, "organization").map(id_of) == Some(organization_id) {
            let names = [text(&team, "name"), text(&team, "slug")];
            teams.extend(names.into_iter().filter(|name| !name.is_empty()).map(str::to_owned));
        }
    }
    teams.sort();
    teams.dedup();
    Ok(OrganizationMember {
        login: login.to_owned(),
        organization: text(own, "login").to_owned(),
        teams,
    })
}

/// What a token of a member is like.
fn granted(
    context: &EngineContext<'_>,
    config: &GithubConfig,
    member: &OrganizationMember,
) -> Result<TokenParams, Error> {
    let mut params = config.params.clone();
    params.policies.extend(TEAMS.policies(&context.storage, &member.teams)?);
    params.policies.extend(USERS.policies(&context.storage, slice::from_ref(&member.login))?);
    params.policies.sort();
    params.policies.dedup();
    Ok(params)
}

fn configured(context: &EngineContext<'_>) -> Result<GithubConfig, Error> {
    records::config::<GithubConfig>(&context.storage)?
        .ok_or_else(|| Error::invalid("configuration has not been set"))
}

/// A token that can stand in a header.
fn given_token(fields: Fields<'_>) -> Result<SecretString, Error> {
    let token = fields.string("token")?.filter(|token| !token.is_empty());
    let token = SecretString::from(token.ok_or_else(|| Error::invalid("missing token"))?);
    let exposed = token.expose_secret();
    match exposed.len() <= TOKEN_BYTES_MAX && exposed.bytes().all(|byte| byte.is_ascii_graphic()) {
        true => Ok(token),
        false => Err(Error::invalid(REFUSED)),
    }
}

async fn log_in(run: Call<'_>) -> Result<Response, Error> {
    let config = configured(&run)?;
    address::check(&config.params.bound_cidrs, run.request.remote)?;
    let body = run.request.object()?;
    let token = given_token(Fields::new(&body))?;
    let service = github(&run, &config.base_url, Some(token.clone()));
    let member = member(&service, config.organization_id).await?;
    let params = granted(&run, &config, &member)?;
    let metadata = [("org", &member.organization), ("username", &member.login)];
    let metadata = metadata.map(|(name, text)| (name.to_owned(), text.as_str().into()));
    let warning = config.warning_of_login(&member.organization);
    let login = Login {
        alias: member.login.clone(),
        display_name: member.login,
        metadata: metadata.into_iter().collect(),
        groups: member.teams,
        params,
        kept: Map::from([("token".to_owned(), token.expose_secret().into())]),
    };
    let mut answer = run.logins()?.grant(login).await?;
    if let Response::Logical(reply) = &mut answer {
        reply.warnings.extend(warning);
    }
    Ok(answer)
}

/// Who is out of the organization renews no token, nor one whose policies are others now.
async fn check_renewal(renewal: RenewalCall<'_>) -> Result<Renewal, Error> {
    let config = configured(&renewal)?;
    let token = given_token(Fields::new(renewal.kept))?;
    let service = github(&renewal, &config.base_url, Some(token));
    let member = member(&service, config.organization_id).await?;
    let renewed = renewal.with_same_policies(granted(&renewal, &config, &member)?)?;
    Ok(renewed.in_groups(member.teams))
}

/// Members of an organization at GitHub.
pub(crate) const METHOD: EngineSpec = EngineSpec {
    caseless_folders: &["map/teams/", "map/users/"],
    ..EngineSpec::login_method(
        "github",
        &routes::GITHUB,
        LoginMethod {
            check_renewal: |call| -> BoxFuture<'_, Result<Renewal, Error>> {
                Box::pin(check_renewal(call))
            },
            role_of: None,
        },
    )
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rest::tests::{Script, run};

    const USER: (u16, &str, &str) = (200, "", r#"{"login":"Octo","id":7}"#);

    fn asked(answers: Vec<(u16, &str, &str)>) -> Result<OrganizationMember, Error> {
        let script = Script::new(answers);
        let service = RestService {
            outbound: &script,
            name: "GitHub",
            base: "https://api.github.com/",
            authorization: Authorization::None,
            refused: Some(REFUSED),
        };
        run(member(&service, 42))
    }

    #[test]
    fn teams_of_other_organizations_give_nothing() {
        let teams = r#"[{"name":"Dev Team","slug":"dev-team","organization":{"id":42}},
            {"name":"admins","slug":"admins","organization":{"id":43}},
            {"name":"stray","slug":"stray"},{"organization":{"id":42}}]"#;
        let orgs = r#"[{"login":"other","id":43},{"login":"Acme","id":42}]"#;
        let found = asked(vec![USER, (200, "", orgs), (200, "", teams)]).unwrap();
        let teams = vec!["Dev Team".to_owned(), "dev-team".to_owned()];
        let (login, organization) = ("Octo".to_owned(), "Acme".to_owned());
        assert_eq!(found, OrganizationMember { login, organization, teams });
    }

    #[test]
    fn who_is_not_in_the_organization_is_refused() {
        for orgs in ["", "[]", r#"[{"login":"acme","id":43}]"#, r#"[{"login":"acme"}]"#] {
            let refused = asked(vec![USER, (200, "", orgs)]).unwrap_err();
            assert_eq!(refused, Error::Expected(Expected::NotInOrganization), "{orgs}");
        }
    }

    #[test]
    fn an_organization_without_a_number_lets_nobody_in() {
        let script = Script::new(vec![USER, (200, "", r#"[{"login":"acme"}]"#)]);
        let service = RestService {
            outbound: &script,
            name: "GitHub",
            base: "https://api.github.com/",
            authorization: Authorization::None,
            refused: None,
        };
        let refused = run(member(&service, 0)).unwrap_err();
        assert_eq!(refused, Error::Expected(Expected::NotInOrganization));
    }

    #[test]
    fn a_github_that_is_half_there_lets_nobody_in() {
        let orgs = (200, "", r#"[{"login":"acme","id":42}]"#);
        for answers in [
            vec![(0, "", "")],
            vec![(200, "", "{}")],
            vec![(200, "", "")],
            vec![(200, "", r#"{"login":["x"]}"#)],
            vec![(403, "", "")],
            vec![USER, (500, "", "")],
            vec![USER, (200, "", r#"{"login":"acme","id":42}"#)],
            vec![USER, orgs, (502, "", "")],
            vec![USER, orgs, (200, "", "[1]")],
            vec![USER, (200, "<https://evil.example/>; rel=\"next\"", "[]")],
        ] {
            let last = answers.last().map(|answer| (answer.0, answer.2.to_owned()));
            assert!(matches!(asked(answers), Err(Error::Unavailable(_))), "{last:?}");
        }
        assert_eq!(asked(vec![(401, "", "Bad credentials")]), Err(Error::invalid(REFUSED)));
    }

    #[test]
    fn a_token_that_is_none_is_not_sent() {
        let read = |token: &str| {
            let body = Map::from([("token".to_owned(), token.into())]);
            given_token(Fields::new(&body)).map(|_| ())
        };
        assert!(read("ghp_abc").is_ok());
        for bad in ["", "a b", "a\r\nX-Evil: 1", "gh\u{e9}", &"a".repeat(TOKEN_BYTES_MAX + 1)] {
            assert!(matches!(read(bad), Err(Error::Invalid(_))), "{bad:?}");
        }
    }
}
