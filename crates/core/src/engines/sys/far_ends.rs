//! `sys/kallisto/far-ends`: the databases, directories, brokers and clusters that engines of this server asked, and how each is doing.
//!
//! The server that leads asks them, so it is the one that knows. Where that is wanted each is tried: by a new session, all at once, with a
//! deadline.

use std::collections::BTreeMap;

use kallisto_engine::far_end::FarEndStatus;

use crate::api::error::Error;
use crate::api::fields::Fields;
use crate::api::json::{Json, Map};
use crate::api::response::Response;
use crate::dispatch::route_handler::RouteCall;
use crate::leases::revoke::join_all;

/// Most far ends that one request tries.
const TRIED_MAX: usize = 64;

/// Answers `GET sys/kallisto/far-ends`.
///
/// # Errors
/// [`Error::Invalid`] for a flag that is none.
pub(super) async fn read(run: &RouteCall<'_>) -> Result<Response, Error> {
    let query = run.call.query_fields();
    let is_tried = Fields::new(&query).boolean("try")?.unwrap_or(false);
    let far_ends = run.core.services.far_ends();
    let statuses = far_ends.statuses();
    let tried = statuses.iter().take(if is_tried { TRIED_MAX } else { 0 });
    let tries = tried.map(|status| far_ends.check(&status.mount, &status.name));
    let outcomes = join_all(tries).await;
    let paths = mount_paths(run);
    let shown = statuses.iter().enumerate().map(|(at, status)| {
        let mut map = show(status, paths.get(&status.mount).map_or("", String::as_str));
        match outcomes.get(at) {
            Some(Ok(())) => map.insert("answers".into(), true.into()),
            Some(Err(failure)) => {
                map.insert("error".into(), failure.words().into());
                map.insert("answers".into(), false.into())
            }
            None => None,
        };
        Json::Object(map)
    });
    let shown: Vec<Json> = shown.collect();
    Ok(Response::data(&Json::object([("far_ends", Json::Array(shown))])))
}

/// The paths of all mounts, with that of their namespace, by their accessors.
fn mount_paths(run: &RouteCall<'_>) -> BTreeMap<String, String> {
    let view = &run.context.view;
    let below = view.namespaces.views();
    let mut paths = BTreeMap::new();
    for view in std::iter::once(&**view).chain(below.iter().map(|view| &**view)) {
        for mount in view.mounts.all().iter() {
            let path = format!("{}{}", view.namespace_path(), mount.entry.path);
            paths.insert(mount.entry.accessor.to_string(), path);
        }
    }
    paths
}

fn show(status: &FarEndStatus, path: &str) -> Map {
    [
        ("broken", status.is_broken.into()),
        ("calls", status.calls.into()),
        ("failures", status.failures.into()),
        ("last_failure", status.last_failure.as_str().into()),
        ("micros", status.micros.into()),
        ("mount", path.into()),
        ("mount_accessor", status.mount.as_str().into()),
        ("name", status.name.as_str().into()),
        ("open", status.open.into()),
        ("protocol", status.protocol.into()),
        ("waiting", status.waiting.into()),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value))
    .collect()
}
