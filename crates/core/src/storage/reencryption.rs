//! How far the re-encryption of old records is.

use std::sync::atomic::AtomicU64;

/// How far the re-encryption of old records is.
#[derive(Debug, Default)]
pub(crate) struct Reencryption {
    /// Records written back since the server was unsealed.
    pub(crate) done: AtomicU64,
    /// Records that are left, as far as they are counted: at the begin of a run, and less by each that is written back.
    pub(crate) left: AtomicU64,
    /// Those of them that were found to be damaged, so that they stay as they are.
    pub(crate) damaged: AtomicU64,
    /// 1 while it runs.
    pub(crate) running: AtomicU64,
    /// The key under which this server has seen all records; 0 for none.
    pub(crate) finished: AtomicU64,
}
