//! Login by the client certificate of the connection.
//!
//! The listener asks clients for a certificate and makes them prove that its key is theirs; whether
//! anybody trusts it is decided here, by the roles at `certs/NAME` alone, and never when an
//! authority took it back (`crls/NAME`). A token remembers
//! which certificate it was for, and is renewed over a connection with that one only.

mod config;
mod direct;
mod extensions;
mod names;
mod revoked;
mod role;
mod routes;

use std::future::ready;

use aws_lc_rs::digest;
use data_encoding::HEXLOWER;
use kallisto_api::{Error, Fields, Json, Map, Request, Response};
use kallisto_engine::{
    Call, EngineContext, EngineSpec, Login, LoginMethod, Renewal, RenewalCall, address,
};

use crate::names::role_name;
use crate::records::{self, FieldsRecord, Roles};
use config::CertConfig;
use names::CertificateNames;
use role::CertRole;

/// Where the roles are.
const ROLES: Roles = Roles { folder: "cert/" };
/// Most roles that are tried when a login names none.
const TRIED_MAX: usize = 64;

/// Shows what holds for all logins, written or not.
fn read_config(run: &Call<'_>) -> Result<Response, Error> {
    let config = records::config::<CertConfig>(&run.storage)?.unwrap_or_default();
    Ok(Response::data(&config.shown().into()))
}

/// The role of a login: the one that is named, or the first by name whose names the certificate has.
/// Whether it trusts the certificate costs signatures, and is not asked.
fn role_of(
    context: &EngineContext<'_>,
    request: &Request<'_>,
    fields: Fields<'_>,
) -> Option<String> {
    if let Some(name) = fields.string("name").ok().flatten().filter(|name| !name.is_empty()) {
        return role_name(&name).ok();
    }
    let names = CertificateNames::read(request.client_chain.first()?)?;
    let storage = &context.storage;
    let mut tried = storage.list_some(ROLES.folder, TRIED_MAX).into_iter();
    let load = |name: &str| ROLES.load::<CertRole>(storage, name).ok().flatten();
    tried.find(|name| load(name).is_some_and(|role| role.admits(&names)))
}

/// Logs in.
async fn log_in(run: Call<'_>) -> Result<Response, Error> {
    let request = run.request;
    let body = request.object()?;
    let named = Fields::new(&body).string("name")?.filter(|name| !name.is_empty());
    let Some(leaf) = request.client_chain.first() else {
        return Err(Error::invalid("client certificate must be supplied"));
    };
    let wrong = || Error::invalid("invalid certificate or no client certificate supplied");
    let names = CertificateNames::read(leaf).ok_or_else(wrong)?;
    if revoked::any(&run.storage, request.client_chain)? {
        return Err(wrong());
    }
    let (name, role) = find(&run, named, &names).await?.ok_or_else(wrong)?;
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
    run.logins()?.grant(login).await
}

/// The role that a certificate is good for: the one that is named, or the first by name.
///
/// Chains are verified on the threads of hashing: anyone may present one, and each role costs
/// signatures.
async fn find(
    run: &Call<'_>,
    named: Option<String>,
    names: &CertificateNames,
) -> Result<Option<(String, CertRole)>, Error> {
    let tried = match named {
        Some(name) => role_name(&name).into_iter().collect(),
        None => run.storage.list_some(ROLES.folder, TRIED_MAX),
    };
    let mut admitting = Vec::new();
    for name in tried {
        if let Some(role) = ROLES.load::<CertRole>(&run.storage, &name)?
            && role.admits(names)
        {
            admitting.push((name, role));
        }
    }
    let (chain, now_secs) = (run.request.client_chain.to_vec(), run.now.as_second());
    let trusting = move || admitting.into_iter().find(|(_, role)| role.trusts(&chain, now_secs));
    run.run_heavy(trusting).await
}

fn fingerprint(certificate: &[u8]) -> String {
    HEXLOWER.encode(digest::digest(&digest::SHA256, certificate).as_ref())
}

/// A token is renewed with the certificate it was made for, while its role would still make it.
///
/// # Errors
/// [`Error::Invalid`] saying what is not so.
fn check_renewal(renewal: &RenewalCall<'_>) -> Result<Renewal, Error> {
    let kept = |name: &str| renewal.kept.get(name).and_then(Json::as_str).unwrap_or_default();
    let storage = renewal.storage;
    let config = records::config::<CertConfig>(&storage)?.unwrap_or_default();
    if config.disables_binding {
        return match ROLES.load::<CertRole>(&storage, kept("cert"))? {
            Some(role) => renewal.with_same_policies(role.params),
            None => Err(Error::invalid("the certificate role does not exist any more")),
        };
    }
    let shown = renewal.request.client_chain.first();
    let names = shown.and_then(|leaf| CertificateNames::read(leaf)).unwrap_or_default();
    if shown.map(|leaf| fingerprint(leaf)).as_deref() != Some(kept("fingerprint")) {
        return Err(Error::invalid(
            "client identity during renewal not matching client identity used during login",
        ));
    }
    let role = ROLES.load::<CertRole>(&storage, kept("cert"))?;
    let role =
        role.ok_or_else(|| Error::invalid("the certificate role does not exist any more"))?;
    let chain = renewal.request.client_chain;
    let is_good = role.admits(&names) && role.trusts(chain, renewal.request.now.as_second());
    if revoked::any(&storage, chain)? || !is_good {
        return Err(Error::invalid("the certificate is not trusted any more"));
    }
    renewal.with_same_policies(role.params)
}

/// Client certificates.
pub(crate) const METHOD: EngineSpec = EngineSpec {
    caseless_folders: &["certs/", "crls/"],
    ..EngineSpec::login_method(
        "cert",
        &routes::CERT,
        LoginMethod {
            check_renewal: |call| Box::pin(ready(check_renewal(&call))),
            role_of: Some(role_of),
        },
    )
};
