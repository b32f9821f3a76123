//! Whether this server is about to join a cluster.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::attempts::Attempts;
use crate::platform::cluster_port::JoinTarget;
use crate::state::seal::SealConfig;

/// A cluster that this server is about to join.
#[derive(Clone)]
pub(crate) struct Pending {
    pub(crate) target: JoinTarget,
    pub(crate) config: SealConfig,
}

/// Whether this server is about to join a cluster.
#[derive(Default)]
pub(crate) struct Joining {
    pending: Mutex<Option<Pending>>,
    pub(crate) attempts: Attempts,
}

impl Joining {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Option<Pending>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The cluster that is to be joined.
    pub(crate) fn pending(&self) -> Option<Pending> {
        self.lock().clone()
    }

    /// It has been joined.
    pub(crate) fn done(&self) {
        *self.lock() = None;
    }
}
