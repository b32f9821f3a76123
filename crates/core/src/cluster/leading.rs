//! Which requests belong to the leader.
//!
//! Every unsealed server answers reads from its own view. What may write belongs to the leader, and so does what is about
//! things that only one server keeps: shares collected for a rekey, or what the leader knows of the members. A server
//! that does not lead says [`Error::NotLeader`] before it did anything, and the listener relays the whole request, to be
//! handled there. A read that turns out to write, as a limited token's does, says so when it commits.

use kallisto_auth::Operation;
use kallisto_engine::ServedBy;

use crate::api::error::Error;
use crate::api::request::Request;
use crate::registry;
use crate::state::Core;

/// Who the members are, which a server without a leader says as it knows it.
pub(crate) const MEMBERS: &str = "sys/storage/raft/configuration";

/// Whether any server answers a request as it knows it while nobody leads.
pub(crate) fn needs_no_leader(request: &Request<'_>) -> bool {
    request.operation == Operation::Read
        && request.wrap_ttl_secs == 0
        && served_by(request.path.as_str()) == ServedBy::LeaderIfAny
}

/// Refuses what another server has to answer. A sealed server refuses in its own words.
pub(crate) fn check(core: &Core, request: &Request<'_>) -> Result<(), Error> {
    let nobody_leads =
        || core.store.replicated().is_some_and(|cluster| cluster.leadership().leader_id == 0);
    if needs_no_leader(request) && nobody_leads() {
        return Ok(());
    }
    if is_leaders(request) && !core.store.leads() && !core.is_sealed() {
        return Err(Error::NotLeader);
    }
    Ok(())
}

/// Whether only the leader answers a request.
pub(crate) fn is_leaders(request: &Request<'_>) -> bool {
    // A wrapped reply is a record.
    let wraps = request.wrap_ttl_secs > 0;
    wraps || belongs_to_leader(request.operation, request.path.as_str())
}

fn belongs_to_leader(operation: Operation, path: &str) -> bool {
    match served_by(path) {
        ServedBy::LeaderToWrite => operation.writes(),
        ServedBy::Leader | ServedBy::LeaderIfAny => true,
        ServedBy::AnyServer => false,
    }
}

/// Which servers answer at a path. It is asked before the namespace is known: what is mounted is written at the leader.
fn served_by(path: &str) -> ServedBy {
    registry::builtin_route(path).map_or(ServedBy::LeaderToWrite, |route| route.served_by)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_are_everybodys_and_writes_the_leaders() {
        for (operation, path, leaders) in [
            (Operation::Read, "secret/data/a", false),
            (Operation::List, "secret/metadata", false),
            (Operation::Update, "secret/data/a", true),
            (Operation::Read, "sys/mounts", false),
            (Operation::Read, "sys/storage/raft/configuration", true),
            (Operation::Update, "sys/storage/raft/join", false),
            (Operation::Read, "sys/rekey/init", true),
            (Operation::Read, "sys/storage/raft/snapshot", false),
            (Operation::Update, "sys/storage/raft/snapshot", true),
            (Operation::Update, "sys/seal", false),
            (Operation::Update, "sys/wrapping/unwrap", true),
            (Operation::Delete, "secret/metadata/a", true),
        ] {
            assert_eq!(belongs_to_leader(operation, path), leaders, "{path}");
        }
    }
}
