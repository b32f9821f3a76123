//! The memory budget of the hot table: what leaves it, and how it comes back.
//!
//! Past its budget the table gives up the entries that were not read lately (CLOCK); the index keeps
//! every path. A read of one that left goes to the store and offers what it found back. An offer
//! counts only if nothing was folded since before the store was read: then it cannot be older than
//! what the fold would have put there.
//!
//! The budget is one for all namespaces: each view counts what it holds into a [`Pool`], and whoever
//! finds the pool over its size gives up entries of its own.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use kallisto_cuckoo::Hand;
use kallisto_store::Record;

use super::View;
use super::fold::Damaged;
use crate::engines::kv::record::Metadata;
use crate::storage::keys::MountId;

/// The part of the budget that is freed at once, so that not every write has to look for room.
const SLACK: usize = 64;

/// How many batches were folded when a read began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Folds(u64);

/// What the hot tables of all namespaces may hold together, and hold.
pub(crate) struct Pool {
    bytes_max: usize,
    bytes: AtomicUsize,
}

impl Pool {
    pub(super) fn new(bytes_max: usize) -> Arc<Self> {
        Arc::new(Self { bytes_max, bytes: AtomicUsize::new(0) })
    }
}

/// What the hot table may hold, and the turn of those who write to it.
pub(super) struct Budget {
    pool: Arc<Pool>,
    /// What this view counted into the pool.
    counted: AtomicUsize,
    folds: AtomicU64,
    evicted: AtomicUsize,
    offered: AtomicU64,
    hand: Mutex<Hand>,
}

impl Budget {
    pub(super) fn new(pool: Arc<Pool>) -> Self {
        Self {
            pool,
            counted: AtomicUsize::new(0),
            folds: AtomicU64::new(0),
            evicted: AtomicUsize::new(0),
            offered: AtomicU64::new(0),
            hand: Mutex::default(),
        }
    }

    /// The pool, for another view.
    pub(super) fn pool(&self) -> Arc<Pool> {
        Arc::clone(&self.pool)
    }

    /// Counts what the view holds now; how many bytes the pool is over its size.
    fn count(&self, live: usize) -> usize {
        // Relaxed: sums that lag a little only move the moment of an eviction.
        let before = self.counted.swap(live, Ordering::Relaxed);
        let change = live.wrapping_sub(before);
        let all = self.pool.bytes.fetch_add(change, Ordering::Relaxed).wrapping_add(change);
        all.saturating_sub(self.pool.bytes_max)
    }

    /// The turn of the fold; counts a batch.
    pub(super) fn fold(&self) -> MutexGuard<'_, Hand> {
        let hand = self.hand.lock().unwrap_or_else(PoisonError::into_inner);
        // Release: whoever reads the store after seeing this count finds the batch there already.
        self.folds.fetch_add(1, Ordering::Release);
        hand
    }
}

impl Drop for Budget {
    fn drop(&mut self) {
        self.count(0);
    }
}

impl View {
    /// How many batches were folded so far: to be asked before the store is read.
    pub(crate) fn folds(&self) -> Folds {
        Folds(self.budget.folds.load(Ordering::Acquire))
    }

    /// Entries that left the hot table to make room.
    pub fn evicted(&self) -> usize {
        self.budget.evicted.load(Ordering::Relaxed)
    }

    /// Entries that were read from the store and offered to the table again.
    pub(crate) fn offered(&self) -> u64 {
        self.budget.offered.load(Ordering::Relaxed)
    }

    /// Makes the hot table large enough for `secrets` secrets, or for as many as the budget has room for if they are as
    /// large as those it holds.
    pub(super) fn reserve(&self, secrets: usize) -> Result<(), kallisto_cuckoo::Error> {
        let mean = (self.hot.memory().entry_bytes / self.hot.len().max(1)).max(1);
        self.hot.reserve(secrets.min(self.budget.pool.bytes_max / mean))
    }

    /// Makes room, if the table holds more than it may.
    pub(super) fn keep_to_budget(&self, hand: &mut Hand) {
        let memory = self.hot.memory();
        let live = memory.entry_bytes - memory.retired_bytes;
        let over = self.budget.count(live);
        if over == 0 || live == 0 {
            return;
        }
        let wanted = (over + self.budget.pool.bytes_max / SLACK).min(live);
        let before = self.hot.len();
        self.hot.evict(hand, wanted, |slot| slot.take_used());
        self.budget.evicted.fetch_add(before.saturating_sub(self.hot.len()), Ordering::Relaxed);
    }

    /// Takes a KV v2 secret back that was read from the store after `folds` were counted. Does
    /// nothing when somebody writes to the view or did since then: the next read will offer again.
    pub(crate) fn offer_secret(
        &self,
        folds: Folds,
        id: MountId,
        path: &str,
        metadata: &Metadata,
        record: Option<&[u8]>,
    ) {
        self.offer(folds, || self.put_secret(id, path, metadata, record));
    }

    /// The same for a KV v1 secret.
    pub(crate) fn offer_one(&self, folds: Folds, id: MountId, path: &str, record: &Record) {
        self.offer(folds, || self.put_one(id, path, record.seqno, &record.value));
    }

    fn offer(&self, folds: Folds, put: impl FnOnce() -> Result<(), Damaged>) {
        self.budget.offered.fetch_add(1, Ordering::Relaxed);
        let mut hand = match self.budget.hand.try_lock() {
            Ok(hand) => hand,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        if self.folds() != folds {
            return;
        }
        // What was read and answered is sound; a table that refuses it only stays without.
        if put().is_ok() {
            self.keep_to_budget(&mut hand);
        }
    }
}
