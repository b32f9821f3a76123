//! Whether this server is about to join a cluster.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::attempts::RunningAttempts;
use crate::platform::cluster_port::JoinTarget;
use crate::state::seal::SealConfig;

/// A cluster that this server is about to join.
#[derive(Clone)]
pub(crate) struct PendingJoin {
    pub(crate) target: JoinTarget,
    pub(crate) config: SealConfig,
}

/// Whether this server is about to join a cluster.
#[derive(Default)]
pub(crate) struct Joining {
    pending: Mutex<Option<PendingJoin>>,
    pub(crate) attempts: RunningAttempts,
}

impl Joining {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Option<PendingJoin>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The cluster that is to be joined.
    pub(crate) fn pending(&self) -> Option<PendingJoin> {
        self.lock().clone()
    }

    /// It has been joined.
    pub(crate) fn done(&self) {
        *self.lock() = None;
    }
}
