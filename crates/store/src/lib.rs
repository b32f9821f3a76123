//! Order and durability: batches of writes go in, and committed batches come out, in order.
//!
//! `core` builds a [`Batch`] of puts and deletes with preconditions and calls [`Store::commit`]. The store checks the
//! preconditions, gives the batch its [`Position`], makes it as durable as the store promises, and passes it to the
//! attached [`Fold`], which updates the server's memory. Only then is the commit acknowledged. The same code feeds the
//! memory at start, on a leader and on a follower.
//!
//! Invariants:
//! - A batch is applied completely or not at all. Of two batches with the same precondition, at most one commits.
//! - An attached fold gets the whole state once, when it is attached, and then every committed batch exactly once, in
//!   order of positions.
//! - When [`Store::commit`] resolves, the fold has applied the batch: a writer reads its own write.
#![forbid(unsafe_code)]

mod batch;
mod cluster;
mod codec;
mod commit;
mod error;
#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz;
mod layer;
mod memory;
mod raft;
mod stats;

use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use kallisto_lsm::SyncMode;

pub use batch::{
    BATCH_BYTES_MAX, BATCH_OPS_MAX, Batch, Expectation, KEY_BYTES_MAX, NOTE_BYTES_MAX, Need,
    Position, Record, Seqno, StoreOp, VALUE_BYTES_MAX,
};
pub use cluster::{
    Announcement, AsOf, CHUNK_BYTES_MAX, Candidacy, ChunkSink, Chunks, Invitation, Leadership,
    MESSAGE_BYTES_MAX, Member, MemberChange, MemberRole, NoPeers, PEER_TEXT_BYTES_MAX, Peer,
    PeerClash, Replicated, Transport,
};
pub use codec::{decode_batch, encode_batch};
pub use commit::{Commit, CommitOutcome, Promise};
pub use error::Error;
pub use layer::StoreLayer;
pub use memory::MemoryStore;
pub use raft::{BackupHead, BackupReader, BackupWriter, Losses, OnFatal, RaftOptions, RaftStore};
pub use stats::{
    COMMIT_BUCKET_ENDS_US, CommitStats, DatabaseStats, EngineLevelStats, EngineStats, RaftStats,
    StoreStats,
};

/// The bytes of a record's value, shared and immutable.
pub type Value = Bytes;

/// Is shown the key, the seqno and the bytes of a record, which are borrowed for as long as it looks.
pub type RecordVisitor<'l> = dyn FnMut(&[u8], Seqno, &[u8]) -> Visit + 'l;

/// Read access to committed records, from any number of threads.
pub trait Records: Sync {
    /// The record under `key`, or `None`.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when the record cannot be read.
    fn get(&self, key: &[u8]) -> Result<Option<Record>, Error>;

    /// Visits the records whose key starts with `prefix`, in key order, until `visit` says stop.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when a record cannot be read.
    fn scan(
        &self,
        prefix: &[u8],
        visit: &mut dyn FnMut(&[u8], &Record) -> Visit,
    ) -> Result<(), Error>;

    /// The same without a [`Record`] for each: what is visited is borrowed for as long as the visit, so a
    /// scan of everything need not take memory for every record. Where it goes on behind a key, that and what comes before
    /// it is left out.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when a record cannot be read.
    fn scan_borrowed(
        &self,
        prefix: &[u8],
        behind: Option<&[u8]>,
        visit: &mut RecordVisitor<'_>,
    ) -> Result<(), Error>;

    /// About how many records there are, for showing progress. Cheap, and wrong by what was
    /// overwritten or removed lately.
    fn approximate_len(&self) -> u64;
}

/// Where a scan of the keys with a prefix begins, if it goes on behind a key.
pub fn start_of_scan<'k>(prefix: &'k [u8], behind: Option<&'k [u8]>) -> Bound<&'k [u8]> {
    // A key before the first with the prefix leaves nothing out.
    match behind.filter(|&behind| behind >= prefix) {
        Some(behind) => Bound::Excluded(behind),
        None => Bound::Included(prefix),
    }
}

/// Why a view is of the past.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replaced {
    /// This server had fallen behind the log and was sent the state: what its view shows was true once.
    CaughtUp,
    /// A backup took the place of everything: the view shows what is no more.
    Restored,
}

/// A batch that expects this key at [`Store::generation`] commits only while nothing was restored since.
pub const GENERATION_KEY: &[u8] = b"";

/// Whether a scan goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visit {
    /// Give me the next record.
    Continue,
    /// Enough.
    Stop,
}

/// What a store calls with every committed batch, in order.
pub trait Fold: Send + Sync {
    /// Builds the view from nothing: `records` holds what was committed up to `position`. Called
    /// once, by [`Store::attach`], before any batch is folded; nothing commits meanwhile.
    ///
    /// # Errors
    /// Whatever makes the view unusable; [`Store::attach`] returns it and nothing is attached.
    fn load(&self, position: Position, records: &dyn Records) -> Result<(), Error>;

    /// Updates the view. `records` shows the state with this batch applied.
    fn fold(&self, position: Position, batch: &Batch, records: &dyn Records);

    /// A snapshot took the place of everything, so that the view is of the past: whoever owns it attaches a new one. Called
    /// instead of any further fold, under the store's lock: it must not call the store, but for what [`Replicated`] calls cheap.
    fn replaced(&self, _why: Replaced) {}
}

/// When a commit is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Once it is on the disk (on a majority's, when clustered): a power cut takes nothing that
    /// was acknowledged.
    Strict,
    /// Once it is with the operating system: the death of the process takes nothing that was
    /// acknowledged, a power cut at most what these bounds say.
    Batch {
        /// Fewer commits than this are acknowledged and not yet on the disk.
        ops: u64,
        /// A commit waits at most this long, and the time of one sync, for the disk.
        interval: Duration,
    },
}

impl Durability {
    /// The bounds of batch mode where nobody says others.
    pub const OPS_DEFAULT: u64 = SyncMode::BATCH_OPS;
    /// The same of time.
    pub const INTERVAL_DEFAULT: Duration = SyncMode::BATCH_INTERVAL;
    /// The widest that may be asked for: what a power cut may take stays bounded.
    pub const OPS_MAX: u64 = 10_000_000;
    /// The same of time.
    pub const INTERVAL_MAX: Duration = Duration::from_secs(3600);
    /// Batch mode with its usual bounds.
    pub const BATCH: Self =
        Self::Batch { ops: Self::OPS_DEFAULT, interval: Self::INTERVAL_DEFAULT };
}

/// A place that orders batches and keeps them.
pub trait Store: Records + Send + Sync {
    /// Commits `batch`; resolves when it is as durable as this store promises and folded.
    fn commit(&self, batch: Batch) -> Commit;

    /// The position up to which everything committed has been applied and folded.
    fn position(&self) -> Position;

    /// Makes `fold` the one that is fed: loads it with the state as it is, then hands it every
    /// batch committed after that; none is missed and none comes twice. Commits wait until it has
    /// loaded. A fold attached before is replaced. Returns the position it was loaded at.
    ///
    /// Blocks for as long as the load takes: call it where that is no harm.
    ///
    /// # Errors
    /// What [`Fold::load`] said; the store then has no fold.
    fn attach(&self, fold: Arc<dyn Fold>) -> Result<Position, Error>;

    /// Stops feeding the attached fold, if there is one. When it returns, the fold is not running
    /// and never will be again.
    fn detach(&self);

    /// When commits are acknowledged now.
    fn durability(&self) -> Durability;

    /// Changes when commits are acknowledged. Resolves when it holds for every commit made from
    /// then on; after a switch to [`Durability::Strict`], all that was committed before is on the
    /// disk.
    fn set_durability(&self, durability: Durability) -> Commit;

    /// Resolves when everything committed before the call, acknowledged or still waiting, is on
    /// the disk and folded.
    fn save(&self) -> Commit;

    /// The cluster side, of a store that replicates.
    fn replicated(&self) -> Option<&dyn Replicated> {
        None
    }

    /// Which restore the records are of; [`Seqno::ABSENT`] where there was none. What was decided on the records of one is
    /// expected of the same by [`GENERATION_KEY`].
    fn generation(&self) -> Seqno {
        Seqno::ABSENT
    }

    /// Whether commits are taken here and not at another server. Cheap.
    fn leads(&self) -> bool {
        self.replicated().is_none_or(|cluster| cluster.leadership().is_mine())
    }

    /// Figures for operators.
    fn stats(&self) -> StoreStats;

    /// Finishes what was begun and refuses everything from then on. A second close does nothing. A directory is free for who opens it next when
    /// the last who holds the store lets go of it: a core holds it until it is sealed and dropped.
    ///
    /// # Errors
    /// What the last writes to the disk said; the store is closed either way.
    fn close(&self) -> Result<(), Error>;
}
