//! Which requests belong to the leader.
//!
//! Every unsealed server answers reads from its own view. What may write belongs to the leader, and so does what is about
//! things that only one server keeps: shares collected for a rekey, or what the leader knows of the members. A server
//! that does not lead says [`Error::NotLeader`] before it did anything, and the listener relays the whole request, to be
//! handled at the leader's door. A read that turns out to write, as a limited token's does, says so when it commits.

use kallisto_auth::Operation;

use crate::api::error::Error;
use crate::api::request::Request;
use crate::pipeline::state::Core;

/// Paths whose state is the leader's, whatever is asked there.
const OF_LEADER: [&str; 7] = [
    "sys/rekey",
    "sys/rotate",
    "sys/generate-root",
    "sys/storage/raft/",
    "sys/step-down",
    "sys/decode-token",
    "sys/locked-users",
];
/// Every server reads a backup of its own state, once that holds everything that was committed.
const BACKUP: &str = "sys/storage/raft/snapshot";
/// Paths that are written to and change only this server, or nothing at all.
const LOCAL_WRITES: [&str; 12] = [
    "sys/seal",
    "sys/unseal",
    "sys/durability",
    "sys/save",
    "sys/capabilities",
    "sys/policies/explain",
    "sys/storage/raft/join",
    "sys/storage/raft/certificate/",
    "sys/init",
    "auth/token/lookup",
    "sys/tools/",
    "sys/audit-hash/",
];

/// Who the members are, which a server without a leader says as it knows it.
pub(crate) const MEMBERS: &str = "sys/storage/raft/configuration";

/// Whether a request asks who the members are.
pub(crate) fn asks_members(request: &Request<'_>) -> bool {
    request.operation == Operation::Read
        && request.path.as_str() == MEMBERS
        && request.wrap_ttl_secs == 0
}

/// Refuses what another server has to answer. A sealed server refuses in its own words.
pub(crate) fn check(core: &Core, request: &Request<'_>) -> Result<(), Error> {
    let nobody_leads =
        || core.store.replicated().is_some_and(|cluster| cluster.leadership().leader_id == 0);
    if asks_members(request) && nobody_leads() {
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
    let starts = |prefix: &&str| path.starts_with(*prefix);
    if operation == Operation::Read && !path.starts_with("sys/") {
        return false;
    }
    if LOCAL_WRITES.iter().any(starts) || (operation == Operation::Read && path == BACKUP) {
        return false;
    }
    operation.writes() || OF_LEADER.iter().any(starts)
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
            (Operation::Read, BACKUP, false),
            (Operation::Update, BACKUP, true),
            (Operation::Update, "sys/seal", false),
            (Operation::Update, "sys/wrapping/unwrap", true),
            (Operation::Delete, "secret/metadata/a", true),
        ] {
            assert_eq!(belongs_to_leader(operation, path), leaders, "{path}");
        }
    }
}
