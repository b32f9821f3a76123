//! What a store is opened with. Start from [`DbOptions::default`].

use std::sync::Arc;
use std::time::Duration;

use kallisto_lsm::disk::{Disk, RealDisk};
use kallisto_lsm::{LogKeeping as EngineDurability, Options as EngineOptions, SyncMode};

/// When an acknowledged write is on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteDurability {
    /// Before it is acknowledged: a power cut takes nothing.
    Strict,
    /// After [`DbOptions::batch_ops`] operations or [`DbOptions::batch_interval`]: a power cut may take at most these. The death
    /// of the process takes nothing.
    Batch,
}

/// How a store behaves.
#[derive(Clone, Debug)]
pub struct DbOptions {
    /// When writes are on the disk; can be changed while the store is open.
    pub durability: WriteDurability,
    /// In batch, operations between syncs.
    pub batch_ops: u64,
    /// In batch, the longest time between syncs.
    pub batch_interval: Duration,
    /// Where the store lies.
    pub disk: Arc<dyn Disk>,
    /// The engine's own; its `durability` is set by the above.
    pub engine: EngineOptions,
    /// Where the time of day comes from, in seconds since 1970: keys are stamped with it.
    pub now_unix: fn() -> i64,
}

impl Default for DbOptions {
    fn default() -> Self {
        Self {
            durability: WriteDurability::Strict,
            batch_ops: SyncMode::BATCH_OPS,
            batch_interval: SyncMode::BATCH_INTERVAL,
            disk: RealDisk::shared(),
            engine: EngineOptions::default(),
            now_unix: wall_clock,
        }
    }
}

impl DbOptions {
    /// What the engine is opened with. Its mode is that of batch; strict asks for a sync with each commit.
    pub(crate) fn for_engine(&self) -> EngineOptions {
        let mode = SyncMode::Every { ops: self.batch_ops, interval: self.batch_interval };
        EngineOptions { durability: EngineDurability::Wal(mode), ..self.engine.clone() }
    }
}

/// The clock seam.
#[expect(clippy::disallowed_methods, reason = "this is the clock seam")]
fn wall_clock() -> i64 {
    let now = std::time::SystemTime::now();
    let since = now.duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}
