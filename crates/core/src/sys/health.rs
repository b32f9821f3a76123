//! `sys/health`: the state of this server, for load balancers (API.md A3).

use crate::error::Error;
use crate::fields::Fields;
use crate::json::{Json, Map};
use crate::request::Request;
use crate::response::Response;
use crate::state::Core;

const ACTIVE: u16 = 200;
const UNINITIALIZED: u16 = 501;

pub(super) fn read(core: &Core, request: &Request<'_>) -> Result<Response, Error> {
    let query = request.query_fields();
    let cluster = core.view.cluster();
    let (parameter, default) = match cluster {
        Some(_) => ("activecode", ACTIVE),
        None => ("uninitcode", UNINITIALIZED),
    };
    let code = asked_code(&query, parameter)?.unwrap_or(default);
    let modes = if cluster.is_some() { "disabled" } else { "unknown" };
    let Json::Object(mut body) = Json::object([
        ("initialized", cluster.is_some().into()),
        ("sealed", cluster.is_none().into()),
        ("standby", cluster.is_none().into()),
        ("performance_standby", false.into()),
        ("replication_performance_mode", modes.into()),
        ("replication_dr_mode", modes.into()),
        ("server_time_utc", request.now.as_second().into()),
        ("version", core.info.version.as_str().into()),
        ("enterprise", false.into()),
        ("echo_duration_ms", 0_u64.into()),
        ("clock_skew_ms", 0_u64.into()),
        ("replication_primary_canary_age_ms", 0_u64.into()),
    ]) else {
        unreachable!("an object was made of pairs");
    };
    if let Some(cluster) = cluster {
        body.insert("cluster_name".into(), cluster.name.as_str().into());
        body.insert("cluster_id".into(), cluster.id.as_str().into());
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
