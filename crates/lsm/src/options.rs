//! What an engine is opened with.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use crate::clock::{Clock, RealClock};
use crate::error::{Error, Result};
use crate::limits::SEGMENT_BYTES_MAX;

/// When a commit reaches the disk. Whatever the mode, a commit that returned survives the death of the process; the
/// modes differ in what a power cut may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncMode {
    /// Before it returns: a power cut takes nothing that returned.
    EveryCommit,
    /// After so many operations or so much time: a power cut takes at most these.
    Every {
        /// Operations between syncs.
        ops: u64,
        /// Time between syncs.
        interval: Duration,
    },
    /// When the caller says so, with a sync commit or [`crate::Engine::sync`].
    OnDemand,
}

impl SyncMode {
    /// Operations between syncs where nobody asked for another number: of a server in batch mode and of a store of files alike.
    pub const BATCH_OPS: u64 = 10_000;
    /// Time between syncs where nobody asked for another.
    pub const BATCH_INTERVAL: Duration = Duration::from_millis(100);
}

/// Who keeps commits that are not in SSTs yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogKeeping {
    /// The engine's own write-ahead log.
    Wal(SyncMode),
    /// An outer log (Raft's, say) that replays what lies above [`crate::Engine::flushed_position`] after a crash.
    External,
}

/// What the engine asks of the outer log of [`LogKeeping::External`].
pub trait OuterLog: Debug + Send + Sync {
    /// Makes the log durable at least up to `position`. Called before a flush makes files live that hold what was
    /// written up to there: an engine that is ahead of its log after a power cut would have no past.
    ///
    /// # Errors
    /// What the log's sync said; the flush does not happen and the engine is poisoned.
    fn sync_to(&self, position: u64) -> Result<()>;
}

/// Who does flushes and compactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Background {
    /// Threads: one for flushes, this many for compactions.
    Threads(usize),
    /// The writer that made the work necessary; for tests that must be repeatable.
    Inline,
}

/// How an engine behaves. Start from [`Options::default`].
#[derive(Clone, Debug)]
pub struct Options {
    /// Who keeps unflushed commits.
    pub durability: LogKeeping,
    /// The outer log, for [`LogKeeping::External`]; `None` if whatever was written to the engine is durable there.
    pub outer_log: Option<Arc<dyn OuterLog>>,
    /// Who does background work.
    pub background: Background,
    /// A memtable freezes at about this size, in bytes.
    pub memtable_bytes: usize,
    /// Frozen memtables that may wait for their flush before writers wait too.
    pub frozen_max: usize,
    /// Size of a WAL segment, in bytes.
    pub wal_segment_bytes: u64,
    /// Size at which a data block ends, in bytes.
    pub block_bytes: usize,
    /// Size at which a compaction starts a new SST, in bytes.
    pub sst_bytes: u64,
    /// A level between L0 and the deepest comes into being when it would hold half of this, in bytes; each level holds
    /// ten times what the one above does.
    pub level_base_bytes: u64,
    /// Size of the block cache, in bytes.
    pub cache_bytes: u64,
    /// SSTs that may be open at a time.
    pub open_files_max: usize,
    /// Whether it opens on a file system that is another machine's. Locks and syncs mean less there: two machines may open
    /// one store, and a sync may return before a disk has the bytes. Only for a caller who knows that this one keeps its
    /// promises.
    pub allows_network_disks: bool,
    /// Where time comes from.
    pub clock: Arc<dyn Clock>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            durability: LogKeeping::Wal(SyncMode::EveryCommit),
            outer_log: None,
            background: Background::Threads(2),
            memtable_bytes: 64 << 20,
            frozen_max: 3,
            wal_segment_bytes: 16 << 20,
            block_bytes: 4 << 10,
            sst_bytes: 64 << 20,
            level_base_bytes: 256 << 20,
            cache_bytes: 64 << 20,
            open_files_max: 512,
            allows_network_disks: false,
            clock: Arc::new(RealClock::new()),
        }
    }
}

impl Options {
    pub(crate) fn check(&self) -> Result<()> {
        let sound = self.memtable_bytes >= 1 << 10
            && self.memtable_bytes <= 4 << 30
            && self.frozen_max >= 1
            && (512..=SEGMENT_BYTES_MAX).contains(&self.wal_segment_bytes)
            && (128..=1 << 20).contains(&self.block_bytes)
            && self.sst_bytes >= 1 << 10
            && self.level_base_bytes >= self.sst_bytes
            && self.open_files_max >= 1
            && self.background != Background::Threads(0);
        if sound { Ok(()) } else { Err(Error::Invalid("an option is out of its range")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_option_has_its_range() {
        let good = Options::default;
        let with = |change: fn(&mut Options)| {
            let mut options = good();
            change(&mut options);
            options.check().is_ok()
        };
        assert_eq!(good().check(), Ok(()));
        assert!(with(|o| o.memtable_bytes = 1 << 10) && with(|o| o.memtable_bytes = 4 << 30));
        assert!(!with(|o| o.memtable_bytes = (1 << 10) - 1));
        assert!(!with(|o| o.memtable_bytes = (4 << 30) + 1));
        assert!(with(|o| o.frozen_max = 1) && !with(|o| o.frozen_max = 0));
        assert!(with(|o| o.wal_segment_bytes = 512) && !with(|o| o.wal_segment_bytes = 511));
        assert!(with(|o| o.wal_segment_bytes = SEGMENT_BYTES_MAX));
        assert!(!with(|o| o.wal_segment_bytes = SEGMENT_BYTES_MAX + 1));
        assert!(with(|o| o.block_bytes = 128) && !with(|o| o.block_bytes = 127));
        assert!(with(|o| o.block_bytes = 1 << 20) && !with(|o| o.block_bytes = (1 << 20) + 1));
        assert!(with(|o| o.sst_bytes = 1 << 10) && !with(|o| o.sst_bytes = (1 << 10) - 1));
        assert!(with(|o| o.level_base_bytes = o.sst_bytes));
        assert!(!with(|o| o.level_base_bytes = o.sst_bytes - 1));
        assert!(with(|o| o.open_files_max = 1) && !with(|o| o.open_files_max = 0));
        assert!(with(|o| o.background = Background::Inline));
        assert!(with(|o| o.background = Background::Threads(1)));
        assert!(!with(|o| o.background = Background::Threads(0)));
    }
}
