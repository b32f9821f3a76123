//! `sys/health`: the state of this server, for load balancers.

use crate::api::error::Error;
use crate::api::fields::Fields;
use crate::api::json::{Json, Map};
use crate::api::request::Request;
use crate::api::response::Response;
use crate::state::Core;

const ACTIVE: u16 = 200;
const UNINITIALIZED: u16 = 501;
const STANDBY: u16 = 429;
const SEALED: u16 = 503;
/// That of Vault for a standby that does not reach the active node.
const STALE: u16 = 474;
/// That of Vault for a server that its cluster let go.
const REMOVED: u16 = 530;

pub(super) fn read(core: &Core, request: &Request<'_>) -> Result<Response, Error> {
    let query = request.query_fields();
    let view = core.view();
    let cluster = view.as_ref().and_then(|view| view.cluster());
    let initialized = cluster.is_some() || core.seal_status()?.initialized;
    let standby = cluster.is_some() && !core.store.leads();
    let fields = Fields::new(&query);
    let passes = |name| fields.boolean(name).ok().flatten().unwrap_or(false);
    let passes = passes("standbyok") || passes("perfstandbyok");
    let is_stale = cluster.is_some() && !core.is_fresh();
    let is_removed = core.is_removed();
    let (parameter, default) = match (cluster, initialized) {
        _ if is_removed => ("removedcode", REMOVED),
        // Whoever takes standbys takes them for what they answer, and this one does not.
        (Some(_), _) if is_stale => ("haunhealthycode", STALE),
        (Some(_), _) if standby && !passes => ("standbycode", STANDBY),
        (Some(_), _) => ("activecode", ACTIVE),
        (None, true) => ("sealedcode", SEALED),
        (None, false) => ("uninitcode", UNINITIALIZED),
    };
    let code = asked_code(&query, parameter)?.unwrap_or(default);
    let modes = if cluster.is_some() { "disabled" } else { "unknown" };
    let mut body = Map::new();
    let mut put = |name: &str, value: Json| body.insert(name.to_owned(), value);
    put("initialized", initialized.into());
    put("sealed", cluster.is_none().into());
    put("standby", (cluster.is_none() || standby).into());
    put("performance_standby", false.into());
    put("replication_performance_mode", modes.into());
    put("replication_dr_mode", modes.into());
    put("server_time_utc", request.now.as_second().into());
    put("version", core.info.version.as_str().into());
    put("enterprise", false.into());
    put("echo_duration_ms", 0_u64.into());
    put("clock_skew_ms", 0_u64.into());
    put("replication_primary_canary_age_ms", 0_u64.into());
    if is_removed {
        put("removed_from_cluster", true.into());
    }
    if cluster.is_some() && core.cluster().is_some() {
        put("ha_connection_healthy", (!is_stale).into());
        let age = core.age().map(|age| u64::try_from(age.as_millis()).unwrap_or(u64::MAX));
        put("last_request_forwarding_heartbeat_ms", age.map_or(Json::Null, Json::from));
    }
    if let Some(cluster) = cluster {
        put("cluster_name", cluster.name.as_str().into());
        put("cluster_id", cluster.id.as_str().into());
    }
    Ok(Response::Bare { code, body: body.into() })
}

/// The status code a load balancer asks to hear for a state.
///
/// # Errors
/// [`Error::InvalidSilently`] when it is no code: the contract's body is empty then.
fn asked_code(query: &Map, parameter: &str) -> Result<Option<u16>, Error> {
    let code = Fields::new(query).int(parameter).map_err(|_| Error::InvalidSilently)?;
    match code {
        None => Ok(None),
        Some(code) => match u16::try_from(code) {
            Ok(code @ 200..=599) => Ok(Some(code)),
            _ => Err(Error::InvalidSilently),
        },
    }
}
