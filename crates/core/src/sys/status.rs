//! Seal status, unsealing and leadership (API.md A2, A4).

use crate::error::Error;
use crate::fields::Fields;
use crate::json::{Json, Map};
use crate::request::Request;
use crate::response::Response;
use crate::seal::parse_share;
use crate::state::Core;

const OK: u16 = 200;

pub(super) fn seal_status(core: &Core) -> Result<Response, Error> {
    let status = core.seal_status()?;
    let view = core.view();
    let cluster = view.as_ref().and_then(|view| view.cluster());
    let mut body: Map = Map::new();
    let mut put = |name: &str, value: Json| body.insert(name.to_owned(), value);
    put("type", status.scheme.into());
    put("initialized", status.initialized.into());
    put("sealed", cluster.is_none().into());
    put("t", u64::from(status.threshold).into());
    put("n", u64::from(status.shares).into());
    put("progress", (status.given as u64).into());
    put("nonce", status.nonce.into());
    put("recovery_seal", status.recovery.into());
    put("version", core.info.version.as_str().into());
    put("build_date", core.info.build_date.as_str().into());
    put("commit_date", core.info.build_date.as_str().into());
    put("migration", false.into());
    put("storage_type", core.info.storage_type.as_str().into());
    if let Some(cluster) = cluster {
        put("cluster_name", cluster.name.as_str().into());
        put("cluster_id", cluster.id.as_str().into());
    }
    Ok(Response::Bare { code: OK, body: body.into() })
}

/// Takes a share. The answer is the status, whatever the share led to.
pub(super) async fn unseal(core: &Core, request: &Request<'_>) -> Result<Response, Error> {
    let body = request.object()?;
    let fields = Fields::new(&body);
    let reset = fields.boolean("reset")?.unwrap_or(false);
    let key = zeroize::Zeroizing::new(fields.string("key")?.unwrap_or_default());
    if key.is_empty() && !reset {
        return Err(Error::invalid(
            "'key' must be specified in request body as JSON, or 'reset' set to true",
        ));
    }
    if reset {
        core.forget_shares();
    } else {
        core.give_share(parse_share(&key)?).await?;
    }
    seal_status(core)
}

pub(super) fn leader(core: &Core) -> Result<Response, Error> {
    if core.is_sealed() {
        return Err(Error::Sealed);
    }
    let body = Json::object([
        ("ha_enabled", false.into()),
        ("is_self", false.into()),
        ("leader_address", core.info.api_addr.as_deref().unwrap_or_default().into()),
        ("leader_cluster_address", core.info.cluster_addr.as_deref().unwrap_or_default().into()),
        ("performance_standby", false.into()),
        ("performance_standby_last_remote_wal", 0_u64.into()),
    ]);
    Ok(Response::Bare { code: OK, body })
}

/// The servers of the cluster: this one.
pub(super) fn ha_status(core: &Core) -> Response {
    let node = Json::object([
        ("hostname", "".into()),
        ("api_address", core.info.api_addr.as_deref().unwrap_or_default().into()),
        ("cluster_address", core.info.cluster_addr.as_deref().unwrap_or_default().into()),
        ("active_node", true.into()),
        ("last_echo", Json::Null),
        ("version", core.info.version.as_str().into()),
    ]);
    Response::merged(&Json::object([("nodes", Json::Array(vec![node]))]))
}
