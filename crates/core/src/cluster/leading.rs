//! Which requests belong to the leader: decided here, from the row of the route, and nowhere else.
//!
//! Every unsealed server answers reads from its own view. What may write belongs to the leader, and so does what is about
//! things that only one server keeps: shares collected for a rekey, or what the leader knows of the members. A server
//! that does not lead says [`Error::NotLeader`] before it did anything, and the listener relays the whole request, to be
//! handled there. A read that turns out to write, as a limited token's does, says so when it commits.
//!
//! Rows of what operators mount are found by the view. It may not know yet of what was mounted a moment ago: what has no row is
//! the leader's, unless it reads.

use kallisto_auth::Operation;
use kallisto_engine::{Route, ServedBy};

use crate::api::error::Error;
use crate::api::request::Request;
use crate::registry;
use crate::state::Core;

/// Who the members are, which a server without a leader says as it knows it.
pub(crate) const MEMBERS: &str = "sys/storage/raft/configuration";

impl Core {
    /// Whether this server answers a request that is the leader's while there is one, since there is none.
    pub fn stands_in(&self, request: &Request<'_>) -> bool {
        nobody_leads(self) && check(self, request).is_ok()
    }
}

/// Whether any server answers a request as it knows it while nobody leads, however old that is.
pub(crate) fn needs_no_leader(request: &Request<'_>) -> bool {
    request.operation == Operation::Read
        && request.wrap_ttl_secs == 0
        && registry::builtin_route(request.path.as_str())
            .is_some_and(|route| route.served_by == ServedBy::LeaderIfAny)
}

/// Refuses what another server has to answer. A sealed server refuses in its own words.
pub(crate) fn check(core: &Core, request: &Request<'_>) -> Result<(), Error> {
    if core.store.leads() || core.is_sealed() || !is_leaders(core, request) {
        return Ok(());
    }
    Err(Error::NotLeader)
}

/// Whether the server that is asked reads what is at a route from its own view, whoever leads.
pub(crate) const fn reads_here(route: &Route) -> bool {
    match route.served_by {
        ServedBy::LeaderToWrite | ServedBy::LeaderOrRecentView | ServedBy::AnyServer => true,
        ServedBy::Leader | ServedBy::LeaderIfAny => false,
    }
}

/// Whether only the leader answers a request.
pub(crate) fn is_leaders(core: &Core, request: &Request<'_>) -> bool {
    // A wrapped reply is a record.
    // A loaded snapshot is in the memory of the leader alone.
    if request.wrap_ttl_secs > 0 || request.read_snapshot().is_some() {
        return true;
    }
    let writes = request.operation.writes();
    match served_by(core, request) {
        ServedBy::LeaderToWrite => writes,
        ServedBy::Leader => true,
        ServedBy::LeaderIfAny => writes || !nobody_leads(core),
        ServedBy::LeaderOrRecentView => writes && !nobody_leads(core),
        ServedBy::AnyServer => false,
    }
}

fn nobody_leads(core: &Core) -> bool {
    core.store.replicated().is_some_and(|cluster| cluster.leadership().leader_id == 0)
}

/// Which servers answer at a path.
fn served_by(core: &Core, request: &Request<'_>) -> ServedBy {
    let route = registry::builtin_route(request.path.as_str()).or_else(|| found(core, request));
    route.map_or(ServedBy::LeaderToWrite, |route| route.served_by)
}

/// The row of a route that is found by the view alone: below what is mounted, or in a namespace that the path names.
fn found(core: &Core, request: &Request<'_>) -> Option<&'static Route> {
    let placed = core.place(request).ok()?;
    let placed = placed.as_ref().map(|placed| placed.request(request));
    let request = placed.as_ref().unwrap_or(request);
    let path = request.path.as_str();
    registry::builtin_route(path).or_else(|| {
        let context = core.namespace_context(request.namespace).ok()?;
        let (mount, inside) = context.view.mounts.route(path)?;
        // A list is spelled with a slash at its end.
        let inside = inside.strip_suffix('/').unwrap_or(inside);
        registry::driver(mount.entry.kind).routes().find(inside)
    })
}
