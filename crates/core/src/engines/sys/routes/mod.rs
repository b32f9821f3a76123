//! The routes of the system, at `sys/`, a file for each subject.

mod audit;
mod leases;
mod mfa;
mod mounts;
mod namespaces;
mod observe;
mod page;
mod policies;
pub(crate) mod raft;
mod seal;
mod secrets;
mod settings;
mod wrapping;

use kallisto_engine::{RouteRows, RowIndex};

use crate::dispatch::route_handler::RouteTable;

/// `sys/`.
pub(crate) static SYSTEM: RouteTable = RouteRows {
    index: RowIndex::new(),
    name: "system",
    tag: "system",
    about: "The server itself: its seal and keys, mounts, policies, and what it says of itself.",
    groups: &[
        seal::STATUS,
        seal::KEYS,
        seal::REKEY,
        seal::REKEY_RECOVERY,
        seal::RECOVERY_BACKUP,
        seal::ROTATE_ROOT,
        seal::ROTATE_RECOVERY,
        seal::GENERATE_ROOT,
        seal::GENERATE_ROOT_TOKEN,
        seal::DECODE_TOKEN,
        mounts::MOUNTS,
        mounts::LOGINS,
        mounts::MOVES,
        namespaces::NAMESPACES,
        policies::POLICIES,
        policies::CAPABILITIES,
        wrapping::WRAPPING,
        mfa::MFA,
        leases::LEASES,
        audit::DEVICES,
        audit::RECORDS,
        audit::HEADERS,
        settings::QUOTAS,
        settings::WEB,
        settings::PASSWORDS,
        settings::TOOLS,
        observe::STATE,
        observe::INTERNAL,
        raft::MEMBERS,
        raft::AUTOPILOT,
        raft::SNAPSHOTS,
        secrets::SECRETS,
        page::PAGE,
    ],
};
