//! Login by a signed JWT: one that is shown, or one that a provider issues to whoever logs in there with a browser ([`oidc`]).
//!
//! The mount types `jwt` and `oidc` are the same. In the engine storage are `config`, `role/NAME` and what [`oidc::record`] lists. A role is
//! of one kind: its login shows a JWT, or goes through a browser. The signature of a JWT is found good under a key of the configuration
//! before any claim is looked at but the key's id.

mod claims;
mod config;
#[cfg(any(test, feature = "fuzz"))]
pub(crate) mod fuzz;
mod memory;
mod oidc;
mod provider;
mod role;
mod routes;
pub(crate) mod token;

use std::future::ready;

use kallisto_api::{Error, Fields, Json, Map, Request, Response};
use kallisto_engine::{
    Call, EngineContext, EngineJob, EngineSpec, Login, LoginMethod, Renewal, RenewalCall, address,
};

use crate::records::{self, Roles};
use config::{JwtConfig, ProviderKind};
use memory::JwtMemory;
use role::JwtRole;
use token::Jwt;

pub(crate) use config::{check_keys, check_url};

/// Where the roles are.
const ROLES: Roles = Roles { folder: "role/" };

/// The role of a login that names it, or does not.
fn role_of(
    context: &EngineContext<'_>,
    _request: &Request<'_>,
    fields: Fields<'_>,
) -> Option<String> {
    let named = fields.string("role").ok().flatten().filter(|name| !name.is_empty());
    let config = || records::config::<JwtConfig>(&context.storage).ok().flatten();
    let name = named.or_else(|| config().map(|config| config.default_role))?;
    Some(name.to_ascii_lowercase()).filter(|name| !name.is_empty())
}

/// The role that a login names, or the one of those that name none.
///
/// # Errors
/// [`Error::Invalid`] where there is neither.
fn named_role(fields: Fields<'_>, config: &JwtConfig) -> Result<String, Error> {
    let name = fields.string("role")?.filter(|name| !name.is_empty());
    let name = name.unwrap_or_else(|| config.default_role.clone()).to_ascii_lowercase();
    if name.is_empty() { Err(Error::invalid("missing role")) } else { Ok(name) }
}

/// Sets the configuration. A provider is asked who it is before it is believed.
async fn write_config(run: Call<'_>) -> Result<Response, Error> {
    let body = run.request.object()?;
    let config = <JwtConfig as records::FieldsRecord>::written(None, Fields::new(&body))?;
    let skips = Fields::new(&body).boolean("skip_jwks_validation")? == Some(true);
    if let Some((url, authorities)) = config.discovery().filter(|_| !skips) {
        let found = provider::discover(&run.context, url, authorities).await;
        found.map_err(|why| {
            Error::invalid(format!("error checking oidc discovery URL: {}", public_reason(&why)))
        })?;
    }
    if !skips {
        let found = provider::check_key_set(&run.context, &config).await;
        found.map_err(|why| {
            Error::invalid(format!("error checking jwks URL: {}", public_reason(&why)))
        })?;
    }
    records::write_config::<JwtConfig>(&run).await
}

/// Shows the configuration, and whether its provider is of use.
async fn read_config(run: Call<'_>) -> Result<Response, Error> {
    let config = records::config::<JwtConfig>(&run.storage)?.ok_or(Error::NotFound)?;
    let mut shown = config.to_map();
    let status = match config.discovery() {
        None => "valid".to_owned(),
        Some((url, authorities)) => {
            match provider::provider(&run.context, url, authorities).await {
                Ok(_) => "valid".to_owned(),
                Err(why) => format!("invalid: {}", public_reason(&why)),
            }
        }
    };
    shown.insert("status".to_owned(), status.into());
    Ok(Response::data(&shown.into()))
}

/// What may be said of a provider that is of no use.
fn public_reason(why: &Error) -> String {
    match why {
        Error::Unavailable(why) | Error::Invalid(why) => why.clone(),
        _ => "it cannot be asked now".to_owned(),
    }
}

/// Logs in.
async fn log_in(run: Call<'_>) -> Result<Response, Error> {
    let request = run.request;
    let config = records::config::<JwtConfig>(&run.storage)?.unwrap_or_default();
    let body = request.object()?;
    let fields = Fields::new(&body);
    let name = named_role(fields, &config)?;
    let text = fields.string("jwt")?.filter(|text| !text.is_empty());
    let text = text.ok_or_else(|| Error::invalid("missing token"))?;
    let role = ROLES.load::<JwtRole>(&run.storage, &name)?;
    let role = role.ok_or_else(|| Error::invalid(format!("role {name:?} could not be found")))?;
    if !role.takes_jwt {
        return Err(Error::invalid("role with oidc role_type is not allowed"));
    }
    address::check(&role.params.bound_cidrs, request.remote)?;
    let jwt = verified(&run, &config, &text).await?;
    let refuse = |why: String| Error::invalid(format!("error validating token: {why}"));
    let is_issuer = |said: Option<&str>| config.is_issuer(said);
    claims::check(&jwt.claims, &role, is_issuer, request.now).map_err(refuse)?;
    let login = login(&name, role, config.provider_kind, &jwt.claims).map_err(Error::invalid)?;
    run.logins()?.grant(login).await
}

/// The JWT of a login, once its signature was found good.
async fn verified<'t>(run: &Call<'_>, config: &JwtConfig, text: &'t str) -> Result<Jwt<'t>, Error> {
    let refuse = |why: &str| Error::invalid(format!("error validating token: {why}"));
    let jwt = Jwt::parse(text).ok_or_else(|| refuse("it is no signed JWT"))?;
    if !config.algorithms.is_empty() && !config.algorithms.contains(&jwt.algorithm) {
        return Err(refuse("its algorithm is not one of jwt_supported_algs"));
    }
    if !provider::has_signed(&run.context, config, &jwt).await? {
        return Err(refuse("no known key successfully validated the token signature"));
    }
    Ok(jwt)
}

/// Who the claims say it is.
fn login(name: &str, role: JwtRole, kind: ProviderKind, claims: &Map) -> Result<Login, String> {
    let user = match role.user_claim_json_pointer {
        true => claims::find(claims, &role.user_claim),
        false => claims.get(&role.user_claim),
    };
    let user = user.and_then(Json::as_str);
    let user = user.filter(|user| !user.is_empty());
    let user = user.ok_or_else(|| format!("claim {:?} not found in token", role.user_claim))?;
    let groups = match &role.groups_claim[..] {
        "" => Vec::new(),
        claim => claims::groups(claims, claim, kind)?,
    };
    let mut metadata = claims::metadata(claims, &role.claim_mappings)?;
    metadata.insert("role".into(), name.into());
    Ok(Login {
        alias: user.to_owned(),
        display_name: user.to_owned(),
        metadata,
        groups,
        params: role.params,
        kept: Map::from([("role".to_owned(), name.into())]),
    })
}

/// A role that is gone renews no token.
///
/// # Errors
/// [`Error::Invalid`] saying so.
fn check_renewal(renewal: &RenewalCall<'_>) -> Result<Renewal, Error> {
    let name = renewal.kept.get("role").and_then(Json::as_str).unwrap_or_default();
    match ROLES.load::<JwtRole>(&renewal.storage, name)? {
        Some(role) => Ok(Renewal::by(role.params)),
        None => Err(Error::invalid("role does not exist during renewal")),
    }
}

/// What the mount types have in common.
const fn method(
    name: &'static str,
    routes: &'static kallisto_engine::RouteRows<kallisto_engine::Handler>,
) -> EngineSpec {
    EngineSpec {
        caseless_folders: &["role/"],
        memory: Some(|| Box::new(JwtMemory::default())),
        jobs: &[EngineJob {
            name: "login_sweep",
            about: "Deletes what is remembered of logins through a browser that have ended.",
            period_secs: 60,
            run: oidc::sweep,
        }],
        ..EngineSpec::login_method(
            name,
            routes,
            LoginMethod {
                check_renewal: |call| Box::pin(ready(check_renewal(&call))),
                role_of: Some(role_of),
            },
        )
    }
}

/// Signed JWTs.
pub(crate) const METHOD: EngineSpec = method("jwt", &routes::JWT);
/// The same, by the name of what is done with it.
pub(crate) const OIDC_METHOD: EngineSpec = method("oidc", &routes::OIDC);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::FieldsRecord;
    use kallisto_api::json;

    #[test]
    fn a_user_claim_is_a_name_unless_it_is_said_to_be_a_pointer() {
        let claims = br#"{"a":{"b":"deep"},"/a/b":"flat"}"#;
        let claims = json::parse_object(claims).unwrap();
        let alias = |claim: &str, more: &str| {
            let body = format!(
                r#"{{"role_type":"jwt","user_claim":"{claim}","bound_audiences":"x"{more}}}"#
            );
            let body = json::parse_object(body.as_bytes()).unwrap();
            let role = JwtRole::written(None, Fields::new(&body)).unwrap();
            login("r", role, ProviderKind::Any, &claims).map(|login| login.alias)
        };
        let pointer = r#","user_claim_json_pointer":true"#;
        assert_eq!(alias("/a/b", pointer).as_deref(), Ok("deep"));
        assert_eq!(alias("/a/b", "").as_deref(), Ok("flat"));
        assert!(alias("/a/c", pointer).is_err() && alias("a", pointer).is_err());
    }
}
