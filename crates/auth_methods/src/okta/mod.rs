//! Login with the password of Okta: the password is Okta's, and so are the groups.
//!
//! ```text
//! 1. authn    name and password, and the code of a second factor where Okta asks for one
//! 2. groups   asked with the API token of the configuration; without one there are only those of `users/`
//! 3. token    with the policies of the configuration, of the groups and of the user
//! ```
//!
//! The groups and users that policies are given to here are those of [`crate::local`].
//!
//! Invariants:
//! - However a name is spelled, whoever it leads to has one alias: the login that Okta has of them.
//! - `users/:name` counts for that login, and for the part of it before the `@` where that is what was typed. No other spelling that Okta
//!   takes for them counts, since people may choose some of those themselves.
//! - No password is kept. A renewal asks Okta by the API token, if there is one.
//! - What is wrong with a name or a password is told in one sentence, and counted.

mod config;
mod routes;
mod transaction;

use kallisto_api::{BoxFuture, Denial, Error, Fields, Json, Map, Response};
use kallisto_engine::{
    Authorization, Call, EngineContext, EngineSpec, Login, LoginMethod, Renewal, RenewalCall,
    Storage, TokenParams, address,
};
use kallisto_ldap::text;
use secrecy::{ExposeSecret, SecretString};

use crate::local::{LocalGroups, LocalNames, NameCase};
use crate::password::PASSWORD_BYTES_MAX;
use crate::records;
use crate::rest::{self, RestService, inner};
use config::OktaConfig;
use transaction::{OktaUser, SignIn};

const fn names(folder: &'static str, groups: LocalGroups) -> LocalNames {
    LocalNames { folder, groups, case_of: |_: &Storage<'_>| Ok(NameCase::Folded) }
}

/// The groups that policies are given to.
const GROUPS: LocalNames = names("group/", LocalGroups::Nothing);
/// The users that policies and groups are given to.
const USERS: LocalNames = names("user/", LocalGroups::List);
/// Longest name that logs in, in bytes.
const NAME_BYTES_MAX: usize = 256;
/// What every wrong name and password are told.
const WRONG: &str = "okta auth failed: wrong user name or password";

/// Okta, asked as nobody: a password proves who it is.
fn as_nobody<'a>(context: &EngineContext<'a>, config: &'a OktaConfig) -> RestService<'a> {
    RestService {
        outbound: context.outbound,
        name: "Okta",
        base: &config.address,
        authorization: Authorization::None,
        refused: Some(WRONG),
    }
}

/// Okta, asked with the API token, if there is one.
fn as_operator<'a>(context: &EngineContext<'a>, config: &'a OktaConfig) -> Option<RestService<'a>> {
    let has_token = !config.api_token.expose_secret().is_empty();
    has_token.then(|| RestService {
        authorization: Authorization::Ssws(config.api_token.clone()),
        refused: None,
        ..as_nobody(context, config)
    })
}

/// The names of the groups of a user.
async fn groups(service: &RestService<'_>, id: &str) -> Result<Vec<String>, Error> {
    let found = service.list(&format!("api/v1/users/{id}/groups")).await?;
    let names = found.iter().filter_map(|group| {
        Some(rest::text(inner(group, "profile")?, "name")).filter(|name| !name.is_empty())
    });
    Ok(names.map(str::to_owned).collect())
}

/// The names in `users/` of somebody who typed a name.
fn local_names(typed: &str, login: &str) -> Vec<String> {
    let (typed, login) = (text::canonical(typed), text::canonical(login));
    let is_short = login.split_once('@').is_some_and(|(short, _)| short == typed);
    let mut names = vec![login];
    names.extend(is_short.then_some(typed));
    names
}

/// What a token of a user in these groups is like, and all groups that they are in.
fn granted(
    context: &EngineContext<'_>,
    config: &OktaConfig,
    names: &[String],
    mut groups: Vec<String>,
) -> Result<(TokenParams, Vec<String>), Error> {
    let mut params = config.params.clone();
    for name in names {
        let known = USERS.find(&context.storage, NameCase::Folded, name)?.unwrap_or_default();
        groups.extend(known.groups);
        params.policies.extend(known.policies);
    }
    groups.sort();
    groups.dedup();
    for group in &groups {
        let known = GROUPS.find(&context.storage, NameCase::Folded, group)?.unwrap_or_default();
        params.policies.extend(known.policies);
    }
    params.policies.sort();
    params.policies.dedup();
    Ok((params, groups))
}

fn configured(context: &EngineContext<'_>) -> Result<OktaConfig, Error> {
    records::config::<OktaConfig>(&context.storage)?
        .ok_or_else(|| Error::invalid("Okta auth method not configured"))
}

async fn log_in(run: Call<'_>) -> Result<Response, Error> {
    let config = configured(&run)?;
    address::check(&config.params.bound_cidrs, run.request.remote)?;
    let typed = run.params.get("name").trim().to_owned();
    let body = run.request.object()?;
    let fields = Fields::new(&body);
    let password = SecretString::from(fields.string("password")?.unwrap_or_default());
    if password.expose_secret().is_empty() {
        return Err(Error::invalid("missing password"));
    }
    if password.expose_secret().len() > PASSWORD_BYTES_MAX {
        return Err(Error::invalid(format!("password is over {PASSWORD_BYTES_MAX} bytes")));
    }
    if typed.len() > NAME_BYTES_MAX || !text::is_name(&typed) {
        return Err(Error::invalid(WRONG));
    }
    let attempts = run.logins()?.attempts(&text::canonical(&typed));
    if attempts.is_locked() {
        return Err(Error::Denied(Denial::BadToken));
    }
    let service = as_nobody(&run, &config);
    let sign_in = SignIn {
        service: &service,
        far_ends: run.far_ends,
        bypasses_mfa: config.bypasses_mfa,
        code: fields.string("totp")?.filter(|code| !code.is_empty()).map(SecretString::from),
        provider: fields.string("provider")?.unwrap_or_default(),
    };
    let outcome = sign_in.run(&typed, &password).await;
    if outcome == Err(Error::invalid(WRONG)) {
        attempts.fail(USERS.find(&run.storage, NameCase::Folded, &typed)?.is_some());
    }
    let (user, mut warnings) = outcome?;
    attempts.forget();
    let asks = as_operator(&run, &config);
    let found = match &asks {
        Some(service) => groups(service, &user.id).await?,
        None => Vec::new(),
    };
    if asks.is_some() && found.is_empty() {
        warnings.push(
            "no Okta groups found; only policies from locally-configured groups available"
                .to_owned(),
        );
    }
    let names = local_names(&typed, &user.login);
    let (params, groups) = granted(&run, &config, &names, found)?;
    let mut answer = run.logins()?.grant(login(user, names, groups, params)).await?;
    if let Response::Logical(reply) = &mut answer {
        reply.warnings.append(&mut warnings);
    }
    Ok(answer)
}

fn login(user: OktaUser, names: Vec<String>, groups: Vec<String>, params: TokenParams) -> Login {
    let alias = text::canonical(&user.login);
    Login {
        metadata: Map::from([
            ("policies".to_owned(), params.policies.join(",").into()),
            ("username".to_owned(), alias.as_str().into()),
        ]),
        display_name: alias.clone(),
        alias,
        groups,
        params,
        kept: Map::from([
            ("id".to_owned(), user.id.into()),
            ("names".to_owned(), Json::strings(names)),
        ]),
    }
}

/// A user who is not active in Okta renews no token, nor one whose policies are others now.
async fn check_renewal(renewal: RenewalCall<'_>) -> Result<Renewal, Error> {
    let config = configured(&renewal)?;
    let kept = Fields::new(renewal.kept);
    let id = kept.string("id")?.unwrap_or_default();
    let names = kept.strings("names")?.unwrap_or_default();
    let found = match as_operator(&renewal, &config) {
        None => Vec::new(),
        Some(service) => {
            let user = service.find(&format!("api/v1/users/{id}")).await?;
            let is_active = user.is_some_and(|user| rest::text(&user, "status") == "ACTIVE");
            if !is_active {
                return Err(Error::invalid("the user is not active in Okta any more"));
            }
            groups(&service, &id).await?
        }
    };
    let (params, groups) = granted(&renewal, &config, &names, found)?;
    Ok(renewal.with_same_policies(params)?.in_groups(groups))
}

/// Users of an organization at Okta.
pub(crate) const METHOD: EngineSpec = EngineSpec {
    caseless_folders: &["login/", "groups/", "users/"],
    ..EngineSpec::login_method(
        "okta",
        &routes::OKTA,
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

    #[test]
    fn a_name_counts_where_nobody_else_can_have_it() {
        let names = |typed: &str| local_names(typed, "Ada@example.org");
        assert_eq!(names("ADA@example.org"), ["ada@example.org"]);
        assert_eq!(names("ada"), ["ada@example.org", "ada"]);
        for chosen in ["root", "admin@example.org", "ada@other.example", "", "ad"] {
            assert_eq!(names(chosen), ["ada@example.org"], "{chosen}");
        }
    }
}
