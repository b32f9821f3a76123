//! Login by a signed JWT.
//!
//! In the engine storage are `config` and `role/NAME`. A login names a role and shows a JWT; its signature is
//! found good under a key of the configuration before any claim is looked at but the key's id.

mod claims;
mod config;
mod keys;
mod role;
mod routes;
pub(super) mod token;

use crate::engines::route_handler;
use crate::engines::server_engine::{
    Answer, EngineFacts, OpenRun, Renewal, Run, ServerEngine, Weighed,
};
use kallisto_engine::{Class, Routes};

use super::records::{self, Roles};
use super::{Login, grant};
use crate::api::error::Error;
use crate::api::fields::Fields;
use crate::api::json::{Json, Map};
use crate::api::request::Request;
use crate::api::response::Response;
use crate::pipeline::address;
use crate::pipeline::state::{Core, NamespaceContext};
use crate::storage::engine_storage::EngineStorage;
use crate::view::Mount;

use config::Config;
use role::Role;
use token::Jwt;

pub(super) use config::{check_keys, check_url};
pub(crate) use keys::KeySets;

/// Where the roles are.
const ROLES: Roles = Roles { folder: "role/" };

/// The role of a login that names it, or does not.
fn role_of(unsealed: &NamespaceContext, mount: &Mount, named: Option<String>) -> Option<String> {
    let config = || records::config::<Config>(&EngineStorage::of(unsealed, mount)).ok().flatten();
    let name = named.or_else(|| config().map(|config| config.default_role))?;
    Some(name.to_ascii_lowercase()).filter(|name| !name.is_empty())
}

/// Logs in.
async fn log_in(
    core: &Core,
    unsealed: &NamespaceContext,
    request: &Request<'_>,
    mount: &Mount,
) -> Result<Response, Error> {
    let storage = EngineStorage::of(unsealed, mount);
    let config = records::config::<Config>(&storage)?.unwrap_or_default();
    let body = request.object()?;
    let fields = Fields::new(&body);
    let name = fields.string("role")?.filter(|name| !name.is_empty());
    let name = name.unwrap_or_else(|| config.default_role.clone()).to_ascii_lowercase();
    if name.is_empty() {
        return Err(Error::invalid("missing role"));
    }
    let text = fields.string("jwt")?.filter(|text| !text.is_empty());
    let text = text.ok_or_else(|| Error::invalid("missing token"))?;
    let role = ROLES.load::<Role>(&storage, &name)?;
    let role = role.ok_or_else(|| Error::invalid(format!("role {name:?} could not be found")))?;
    address::check(&role.params.bound_cidrs, request.remote)?;
    let jwt = verified(core, mount, &config, request, &text).await?;
    let refuse = |why: String| Error::invalid(format!("error validating token: {why}"));
    claims::check(&jwt.claims, &role, config.issuer(), request.now).map_err(refuse)?;
    let login = login(&name, role, &jwt.claims).map_err(Error::invalid)?;
    grant(unsealed, request, mount, login).await
}

/// The JWT of a login, once its signature was found good.
async fn verified<'t>(
    core: &Core,
    mount: &Mount,
    config: &Config,
    request: &Request<'_>,
    text: &'t str,
) -> Result<Jwt<'t>, Error> {
    let refuse = |why: &str| Error::invalid(format!("error validating token: {why}"));
    let jwt = Jwt::parse(text).ok_or_else(|| refuse("it is no signed JWT"))?;
    if !config.algorithms.is_empty() && !config.algorithms.contains(&jwt.algorithm) {
        return Err(refuse("its algorithm is not one of jwt_supported_algs"));
    }
    let keys = keys::keys_for(&core.logins, mount.entry.id, config, &jwt, request.now).await?;
    if !jwt.is_signed_by(&keys) {
        return Err(refuse("no known key successfully validated the token signature"));
    }
    Ok(jwt)
}

/// Who the claims say it is.
fn login(name: &str, role: Role, claims: &Map) -> Result<Login, String> {
    let user = match role.user_claim_json_pointer {
        true => claims::find(claims, &role.user_claim),
        false => claims.get(&role.user_claim),
    };
    let user = user.and_then(Json::as_str);
    let user = user.filter(|user| !user.is_empty());
    let user = user.ok_or_else(|| format!("claim {:?} not found in token", role.user_claim))?;
    let groups = match &role.groups_claim[..] {
        "" => Vec::new(),
        claim => claims::groups(claims, claim)?,
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
fn check_renewal(renewal: &Renewal<'_, '_>) -> Result<(), Error> {
    let name = renewal.entry.kept.get("role").and_then(Json::as_str).unwrap_or_default();
    match ROLES.load::<Role>(&EngineStorage::of(renewal.unsealed, renewal.mount), name)? {
        Some(_) => Ok(()),
        None => Err(Error::invalid("role does not exist during renewal")),
    }
}

/// Signed JWTs.
pub(crate) struct JwtEngine;

impl ServerEngine for JwtEngine {
    fn facts(&self) -> EngineFacts {
        let caseless_folders = &["role/"];
        EngineFacts { caseless_folders, ..EngineFacts::mountable("jwt", Class::Auth) }
    }

    fn routes(&self) -> &'static dyn Routes {
        &routes::JWT
    }

    fn handle<'a>(&self, run: Run<'a>) -> Answer<'a> {
        route_handler::answer(&routes::JWT, run)
    }

    fn handle_open<'a>(&self, run: OpenRun<'a>) -> Answer<'a> {
        route_handler::answer_open(&routes::JWT, run)
    }

    fn check_renewal(&self, renewal: &Renewal<'_, '_>) -> Result<(), Error> {
        check_renewal(renewal)
    }

    fn has_roles(&self) -> bool {
        true
    }

    fn role_of(&self, login: &OpenRun<'_>, fields: Fields<'_>) -> Option<String> {
        let named = fields.string("role").ok().flatten().filter(|name| !name.is_empty());
        role_of(login.unsealed, login.mount, named)
    }

    /// Sets of keys take long.
    fn is_light(&self, _weighed: &Weighed<'_>) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::json;
    use crate::auth_methods::records::Record;

    #[test]
    fn a_user_claim_is_a_name_unless_it_is_said_to_be_a_pointer() {
        let claims = br#"{"a":{"b":"deep"},"/a/b":"flat"}"#;
        let claims = json::parse_object(claims).unwrap();
        let alias = |claim: &str, more: &str| {
            let body = format!(r#"{{"user_claim":"{claim}","bound_audiences":"x"{more}}}"#);
            let body = json::parse_object(body.as_bytes()).unwrap();
            let role = Role::written(None, Fields::new(&body)).unwrap();
            login("r", role, &claims).map(|login| login.alias)
        };
        let pointer = r#","user_claim_json_pointer":true"#;
        assert_eq!(alias("/a/b", pointer).as_deref(), Ok("deep"));
        assert_eq!(alias("/a/b", "").as_deref(), Ok("flat"));
        assert!(alias("/a/c", pointer).is_err() && alias("a", pointer).is_err());
    }
}
