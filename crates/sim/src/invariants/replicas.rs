//! Replicas are equal at equal positions, and what is committed never changes: every fold is of one log, without a gap, and what
//! a server holds at a position is what that log makes of it. The oracle keeps the log.

use super::{InvariantViolation, violated};
use crate::mirror::{MirrorChanges, StoredState};
use crate::oracle::Oracle;

const NAME: &str = "replicas are equal";

/// The log that all replicas are of.
#[derive(Debug, Default)]
pub(crate) struct Replicas(Oracle);

impl Replicas {
    /// A server's fold that had come to `previous` was given a batch.
    pub(crate) fn folded(
        &mut self,
        server: u64,
        previous: u64,
        position: u64,
        changes: &MirrorChanges,
    ) -> Result<(), InvariantViolation> {
        self.0.folded(previous, position, changes).map_err(|what| Self::differs(server, &what))
    }

    /// A server's fold was loaded.
    pub(crate) fn loaded(
        &mut self,
        server: u64,
        position: u64,
        state: &StoredState,
    ) -> Result<(), InvariantViolation> {
        self.0.loaded(position, state).map_err(|what| Self::differs(server, &what))
    }

    /// A client was told that its batch is at `position`.
    pub(crate) fn learn(
        &mut self,
        position: u64,
        changes: &MirrorChanges,
    ) -> Result<(), InvariantViolation> {
        let differs = |what: String| violated(NAME)(format!("a client was told: {what}"));
        self.0.learn(position, changes).map_err(differs)
    }

    /// A server holds this.
    pub(crate) fn holds(
        &self,
        server: u64,
        position: u64,
        state: &StoredState,
    ) -> Result<(), InvariantViolation> {
        self.0.compare(position, state).map_err(|what| Self::differs(server, &what))
    }

    /// The log, for other invariants.
    pub(crate) fn log(&self) -> &Oracle {
        &self.0
    }

    fn differs(server: u64, what: &str) -> InvariantViolation {
        violated(NAME)(format!("server {server}: {what}"))
    }
}
