//! Seal status, initialisation and leadership, as a server without a seal tells them: it was
//! initialised when it started and stays unsealed until it stops (API.md A1, A2, A4).

use crate::error::Error;
use crate::fields::Fields;
use crate::json::Json;
use crate::request::Request;
use crate::response::Response;
use crate::state::Core;

const OK: u16 = 200;

pub(super) fn seal_status(core: &Core) -> Response {
    let cluster = core.view.cluster();
    let shares = u64::from(cluster.is_some());
    let Json::Object(mut body) = Json::object([
        ("type", "shamir".into()),
        ("initialized", cluster.is_some().into()),
        ("sealed", cluster.is_none().into()),
        ("t", shares.into()),
        ("n", shares.into()),
        ("progress", 0_u64.into()),
        ("nonce", "".into()),
        ("recovery_seal", false.into()),
        ("version", core.info.version.as_str().into()),
        ("build_date", core.info.build_date.as_str().into()),
        ("commit_date", core.info.build_date.as_str().into()),
        ("migration", false.into()),
        ("storage_type", core.info.storage_type.as_str().into()),
    ]) else {
        unreachable!("an object was made of pairs");
    };
    if let Some(cluster) = cluster {
        body.insert("cluster_name".into(), cluster.name.as_str().into());
        body.insert("cluster_id".into(), cluster.id.as_str().into());
    }
    Response::Bare { code: OK, body: body.into() }
}

pub(super) fn init(core: &Core) -> Response {
    let initialized = core.view.cluster().is_some();
    Response::Bare { code: OK, body: Json::object([("initialized", initialized.into())]) }
}

pub(super) fn refuse_init(core: &Core, request: &Request<'_>) -> Result<Response, Error> {
    request.object()?;
    Err(match core.view.cluster() {
        Some(_) => Error::invalid("Vault is already initialized"),
        None => Error::Unavailable("this server has no storage to initialize".into()),
    })
}

/// Nothing to unseal: answers the status, as for a share given too many.
pub(super) fn unseal(core: &Core, request: &Request<'_>) -> Result<Response, Error> {
    let body = request.object()?;
    let fields = Fields::new(&body);
    let reset = fields.boolean("reset")?.unwrap_or(false);
    let key = fields.string("key")?.unwrap_or_default();
    if key.is_empty() && !reset {
        return Err(Error::invalid(
            "'key' must be specified in request body as JSON, or 'reset' set to true",
        ));
    }
    Ok(seal_status(core))
}

pub(super) fn leader(core: &Core) -> Result<Response, Error> {
    if core.view.cluster().is_none() {
        return Err(Error::Sealed);
    }
    let body = Json::object([
        ("ha_enabled", false.into()),
        ("is_self", false.into()),
        ("leader_address", "".into()),
        ("leader_cluster_address", "".into()),
        ("performance_standby", false.into()),
        ("performance_standby_last_remote_wal", 0_u64.into()),
    ]);
    Ok(Response::Bare { code: OK, body })
}
