//! The engine: the public API, and the state behind it.
//!
//! Who runs what: writers form groups (`commit`), one of them leads and commits (`write.rs`); readers load the current
//! [`ReadView`] and never wait (`read.rs`); a flush thread and compaction threads do the rest (`background.rs`). `open.rs`
//! recovers, `upkeep.rs` holds checkpoint, check and stats.
//!
//! Locks, in the order in which they may be taken: `writer`, `manifest`, `work`. The read path takes none.
//!
//! Invariants:
//! - an entry is visible when `visible` has reached its sequence number, which happens after its group is durable as
//!   the mode asks and inserted;
//! - a reader loads the view first and `visible` second, so the view holds all that may be asked of it: entries leave a
//!   view only for files that hold what the reader may see;
//! - a failed write, sync or damaged input of background work is remembered in `failure`: from then on nothing is
//!   written. A full disk is remembered in `work` and tried again.

mod background;
mod open;
mod read;
mod upkeep;
mod write;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Condvar, Mutex, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

use arc_swap::ArcSwap;

pub use self::read::{ReadPoint, Scan};
pub use self::upkeep::{CheckReport, LevelStats, Stats};
use crate::commit::CommitQueue;
use crate::disk::{Disk, DiskLock};
use crate::error::Error;
use crate::levels::{Levels, ObsoleteFiles, Probes};
use crate::manifest::Manifest;
use crate::memtable::{Memtable, MemtableWriter};
use crate::numbers::FileNumbers;
use crate::options::Options;
use crate::sst::SstShared;
use crate::wal::{SegmentPool, WalWriter};

/// An open store. Share it behind an `Arc`; every method takes `&self` and may be called from any thread.
///
/// Dropping it stops the background threads; [`Engine::close`] also flushes, which makes the next open fast.
#[derive(Debug)]
pub struct Engine {
    inner: Arc<EngineShared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// What all threads share.
#[derive(Debug)]
struct EngineShared {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    options: Options,
    numbers: Arc<FileNumbers>,
    shared: Arc<SstShared>,
    obsolete_files: Arc<ObsoleteFiles>,
    pool: Arc<SegmentPool>,
    queue: CommitQueue,
    writer: Mutex<EngineWriter>,
    manifest: Mutex<Manifested>,
    work: Mutex<BackgroundWork>,
    /// There may be something to do.
    work_came: Condvar,
    /// Something was done.
    work_done: Condvar,
    view: ArcSwap<ReadView>,
    points: Arc<ReadPoints>,
    failure: OnceLock<Error>,
    closed: AtomicBool,
    /// How long a writer of one MiB is held back, in nanoseconds.
    pressure: AtomicU64,
    probes: Probes,
    counters: EngineCounters,
    /// Inline background work is done by one thread at a time.
    inline: Mutex<()>,
    _lock: Box<dyn DiskLock>,
}

/// The commit leader's own.
#[derive(Debug)]
struct EngineWriter {
    wal: WalWriter,
    memtable: MemtableWriter,
    seqno_last: u64,
    /// The highest outer position in the memtable.
    position: u64,
    ops_unsynced: u64,
    synced_at: Duration,
    /// How long writers still have to be held back, in nanoseconds.
    debt: u64,
}

/// What the manifest says beside the files.
#[derive(Debug)]
struct Manifested {
    manifest: Manifest,
    wal_floor: u64,
    seqno_flushed: u64,
    position: u64,
}

/// What is to be done in the background, and the live state it changes.
#[derive(Debug)]
struct BackgroundWork {
    active: Arc<Memtable>,
    /// Oldest first.
    frozen: VecDeque<Frozen>,
    levels: Arc<Levels>,
    /// Files of running compactions.
    busy: BTreeSet<u64>,
    flushing: bool,
    compacting: usize,
    /// Why background work waits for space.
    full: Option<Error>,
    stop: bool,
}

/// A memtable that waits for its flush.
#[derive(Clone, Debug)]
struct Frozen {
    table: Arc<Memtable>,
    /// The first WAL segment that is needed once this is flushed.
    floor_after: u64,
    seqno_last: u64,
    position: u64,
}

/// Everything a reader looks at, newest first.
#[derive(Debug)]
struct ReadView {
    active: Arc<Memtable>,
    /// Newest first.
    frozen: Vec<Arc<Memtable>>,
    levels: Arc<Levels>,
}

/// The sequence numbers that readers hold.
#[derive(Debug, Default)]
struct ReadPoints {
    visible: AtomicU64,
    held: Mutex<BTreeMap<u64, usize>>,
}

/// Counters for people.
#[derive(Debug, Default)]
struct EngineCounters {
    wal_bytes: AtomicU64,
    syncs: AtomicU64,
    groups: AtomicU64,
    operations: AtomicU64,
    flushes: AtomicU64,
    flush_bytes: AtomicU64,
    compactions: AtomicU64,
    moves: AtomicU64,
    compaction_read_bytes: AtomicU64,
    compaction_write_bytes: AtomicU64,
    user_bytes: AtomicU64,
}
