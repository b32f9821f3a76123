//! What the server says of itself, its process and its machine.

mod counters;
mod host;
mod jobs;
mod loggers;
mod metrics;
mod monitor;
mod plugins;

use kallisto_auth::Operation;

use crate::api::error::Error;
use crate::api::response::Response;
use crate::pipeline::spelling::below;
use crate::pipeline::state::{Call, Core, NamespaceContext};

/// Answers the routes of this room; `None` for all others.
pub(super) fn answer(
    core: &Core,
    unsealed: &NamespaceContext,
    call: &Call<'_, '_>,
    path: &str,
) -> Option<Result<Response, Error>> {
    use Operation::{Delete, List, Read, Update};
    if let Some(name) = path.strip_prefix("loggers/") {
        return Some(match call.operation {
            Read => loggers::read(core, name),
            Update => loggers::write(core, call, Some(name)),
            Delete => loggers::reset(core, Some(name)),
            _ => Err(Error::UnsupportedOperation),
        });
    }
    if let Some(rest) = below("plugins/catalog", path) {
        return Some(plugins::catalog(call, rest));
    }
    Some(match (path, call.operation) {
        ("plugins/reload/backend", Update) => plugins::reload(unsealed, call),
        ("metrics", Read) => metrics::answer(core, call),
        ("monitor", Read) => monitor::open(core, call),
        ("host-info", Read) => host::info(core, call.now),
        ("in-flight-req", Read) => Ok(host::in_flight(core)),
        ("loggers", Read) => loggers::read_all(core),
        ("loggers", Update) => loggers::write(core, call, None),
        ("loggers", Delete) => loggers::reset(core, None),
        ("version-history", List) => counters::versions(unsealed),
        ("replication/status", Read) => Ok(counters::replication()),
        ("internal/counters/tokens", Read) => Ok(counters::tokens(unsealed)),
        ("internal/counters/entities", Read) => Ok(counters::entities(unsealed)),
        ("internal/jobs", Read) => Ok(jobs::read(core, call.now)),
        ("config/state/sanitized", Read) => Ok(counters::configuration(core)),
        (
            "plugins/reload/backend"
            | "metrics"
            | "host-info"
            | "monitor"
            | "in-flight-req"
            | "loggers"
            | "version-history"
            | "replication/status"
            | "internal/counters/tokens"
            | "internal/counters/entities"
            | "internal/jobs"
            | "config/state/sanitized",
            _,
        ) => Err(Error::UnsupportedOperation),
        _ => return None,
    })
}
