//! What must hold whatever happens, one file each.
//!
//! An invariant is shown what it needs while the world goes on, and says no at once or not at all: [`InvariantViolation`] names it and what
//! it saw. The run ends there, and its seed repeats it.

pub(crate) mod acknowledged;
pub(crate) mod credentials;
pub(crate) mod fresh;
pub(crate) mod kept;
pub(crate) mod leaders;
pub(crate) mod lifetimes;
pub(crate) mod order;
pub(crate) mod own;
pub(crate) mod progress;
pub(crate) mod reads;
pub(crate) mod replicas;
pub(crate) mod revoked;
pub(crate) mod single_use;
pub(crate) mod versions;
pub(crate) mod votes;

use std::fmt;

/// An invariant that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct InvariantViolation {
    /// Which.
    pub(crate) invariant: &'static str,
    /// What was seen.
    pub(crate) what: String,
}

impl fmt::Display for InvariantViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.invariant, self.what)
    }
}

/// Makes what was seen a violation.
pub(crate) fn violated(invariant: &'static str) -> impl Fn(String) -> InvariantViolation {
    move |what| InvariantViolation { invariant, what }
}

/// All of them, with what they have been shown.
#[derive(Debug, Default)]
pub(crate) struct Invariants {
    pub(crate) acknowledged: acknowledged::AcknowledgedWrites,
    pub(crate) credentials: credentials::CredentialsOracle,
    pub(crate) fresh: fresh::FreshnessOracle,
    pub(crate) leaders: leaders::Leaders,
    pub(crate) lifetimes: lifetimes::Lifetimes,
    pub(crate) order: order::ClientOrder,
    pub(crate) reads: reads::ClientReads,
    pub(crate) replicas: replicas::Replicas,
    pub(crate) single_use: single_use::SingleUse,
    pub(crate) versions: versions::VersionsOracle,
    pub(crate) votes: votes::Votes,
}
