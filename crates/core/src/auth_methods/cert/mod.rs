//! Login by the client certificate of the connection.
//!
//! The listener asks clients for a certificate and makes them prove that its key is theirs; whether
//! anybody trusts it is decided here, by the roles at `certs/NAME` alone, and never when an
//! authority took it back (`crls/NAME`). A token remembers
//! which certificate it was for, and is renewed over a connection with that one only.

mod config;
mod extensions;
mod names;
mod revoked;
mod role;
mod routes;

use crate::engines::route_handler::{self, RouteCall};
use crate::engines::server_engine::{
    Answer, EngineFacts, OpenRun, Renewal, Run, ServerEngine, Weighed,
};
use aws_lc_rs::digest;
use data_encoding::HEXLOWER;
use kallisto_engine::{Class, Routes};

use super::records::{self, Record, Roles};
use super::{Login, check_policies, grant, role_name};
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
use names::Names;
use role::Role;

/// Where the roles are.
const ROLES: Roles = Roles { folder: "cert/" };
/// Most roles that are tried when a login names none.
const TRIED_MAX: usize = 64;

/// Shows what holds for all logins, written or not.
fn read_config(run: &RouteCall<'_>) -> Result<Response, Error> {
    let config = records::config::<Config>(&run.storage())?.unwrap_or_default();
    Ok(Response::data(&config.shown().into()))
}

/// The role of a login: the one that is named, or the first by name whose names the certificate has.
/// Whether it trusts the certificate costs signatures, and is not asked.
fn role_of(
    unsealed: &NamespaceContext,
    request: &Request<'_>,
    mount: &Mount,
    named: Option<String>,
) -> Option<String> {
    if let Some(name) = named {
        return role_name(&name).ok();
    }
    let names = Names::read(request.client_chain.first()?)?;
    let storage = EngineStorage::of(unsealed, mount);
    let mut tried = storage.list_some(ROLES.folder, TRIED_MAX).into_iter();
    let load = |name: &str| ROLES.load::<Role>(&storage, name).ok().flatten();
    tried.find(|name| load(name).is_some_and(|role| role.admits(&names)))
}

/// Logs in.
async fn log_in(
    core: &Core,
    unsealed: &NamespaceContext,
    request: &Request<'_>,
    mount: &Mount,
) -> Result<Response, Error> {
    let body = request.object()?;
    let named = Fields::new(&body).string("name")?.filter(|name| !name.is_empty());
    let Some(leaf) = request.client_chain.first() else {
        return Err(Error::invalid("client certificate must be supplied"));
    };
    let wrong = || Error::invalid("invalid certificate or no client certificate supplied");
    let names = Names::read(leaf).ok_or_else(wrong)?;
    let storage = EngineStorage::of(unsealed, mount);
    if revoked::any(&storage, request.client_chain)? {
        return Err(wrong());
    }
    let (name, role) = find(core, &storage, named, request, &names).await?.ok_or_else(wrong)?;
    address::check(&role.params.bound_cidrs, request.remote)?;
    let noted = role.noted(&names);
    let metadata = [
        ("authority_key_id", names.authority_key_id.as_str()),
        ("cert_name", &name),
        ("common_name", &names.common_name),
        ("serial_number", &names.serial),
        ("subject_key_id", &names.subject_key_id),
    ];
    let print = fingerprint(leaf);
    let login = Login {
        // Without a common name the certificate itself is who it is.
        alias: if names.common_name.is_empty() { print.clone() } else { names.common_name.clone() },
        display_name: if role.display_name.is_empty() { name.clone() } else { role.display_name },
        metadata: metadata
            .into_iter()
            .map(|(name, text)| (name.to_owned(), text.into()))
            .chain(noted)
            .collect(),
        groups: Vec::new(),
        params: role.params,
        kept: Map::from([
            ("cert".to_owned(), name.as_str().into()),
            ("fingerprint".to_owned(), print.into()),
        ]),
    };
    grant(unsealed, request, mount, login).await
}

/// The role that a certificate is good for: the one that is named, or the first by name.
///
/// Chains are verified on the threads of hashing: anyone may present one, and each role costs
/// signatures.
async fn find(
    core: &Core,
    storage: &EngineStorage<'_>,
    named: Option<String>,
    request: &Request<'_>,
    names: &Names,
) -> Result<Option<(String, Role)>, Error> {
    let tried = match named {
        Some(name) => role_name(&name).into_iter().collect(),
        None => storage.list_some("cert/", TRIED_MAX),
    };
    let mut admitting = Vec::new();
    for name in tried {
        if let Some(role) = ROLES.load::<Role>(storage, &name)?
            && role.admits(names)
        {
            admitting.push((name, role));
        }
    }
    let (chain, now_secs) = (request.client_chain.to_vec(), request.now.as_second());
    let trusting = move || admitting.into_iter().find(|(_, role)| role.trusts(&chain, now_secs));
    core.logins.hashers.run(request.flow(), trusting).await
}

fn fingerprint(certificate: &[u8]) -> String {
    HEXLOWER.encode(digest::digest(&digest::SHA256, certificate).as_ref())
}

/// A token is renewed with the certificate it was made for, while its role would still make it.
///
/// # Errors
/// [`Error::Invalid`] saying what is not so.
fn check_renewal(renewal: &Renewal<'_, '_>) -> Result<(), Error> {
    let kept = |name: &str| renewal.entry.kept.get(name).and_then(Json::as_str).unwrap_or_default();
    let storage = EngineStorage::of(renewal.unsealed, renewal.mount);
    let config = records::config::<Config>(&storage)?.unwrap_or_default();
    if config.disables_binding {
        return match ROLES.load::<Role>(&storage, kept("cert"))? {
            Some(role) => check_policies(renewal, &role.params),
            None => Err(Error::invalid("the certificate role does not exist any more")),
        };
    }
    let shown = renewal.request.client_chain.first();
    let names = shown.and_then(|leaf| Names::read(leaf)).unwrap_or_default();
    if shown.map(|leaf| fingerprint(leaf)).as_deref() != Some(kept("fingerprint")) {
        return Err(Error::invalid(
            "client identity during renewal not matching client identity used during login",
        ));
    }
    let role = ROLES.load::<Role>(&storage, kept("cert"))?;
    let role =
        role.ok_or_else(|| Error::invalid("the certificate role does not exist any more"))?;
    let chain = renewal.request.client_chain;
    let is_good = role.admits(&names) && role.trusts(chain, renewal.request.now.as_second());
    if revoked::any(&storage, chain)? || !is_good {
        return Err(Error::invalid("the certificate is not trusted any more"));
    }
    check_policies(renewal, &role.params)
}

/// Client certificates.
pub(crate) struct Cert;

impl ServerEngine for Cert {
    fn facts(&self) -> EngineFacts {
        let caseless_folders = &["certs/", "crls/"];
        EngineFacts { caseless_folders, ..EngineFacts::mountable("cert", Class::Auth) }
    }

    fn routes(&self) -> &'static dyn Routes {
        &routes::CERT
    }

    fn handle<'a>(&self, run: Run<'a>) -> Answer<'a> {
        route_handler::answer(&routes::CERT, run)
    }

    fn handle_open<'a>(&self, run: OpenRun<'a>) -> Answer<'a> {
        route_handler::answer_open(&routes::CERT, run)
    }

    fn check_renewal(&self, renewal: &Renewal<'_, '_>) -> Result<(), Error> {
        check_renewal(renewal)
    }

    fn has_roles(&self) -> bool {
        true
    }

    fn role_of(&self, login: &OpenRun<'_>, fields: Fields<'_>) -> Option<String> {
        let named = fields.string("name").ok().flatten().filter(|name| !name.is_empty());
        role_of(login.unsealed, login.request, login.mount, named)
    }

    /// Chains of certificates take long.
    fn is_light(&self, _weighed: &Weighed<'_>) -> bool {
        false
    }
}
