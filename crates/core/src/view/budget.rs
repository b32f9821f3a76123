//! The memory budget of the hot table: what leaves it, and how it comes back.
//!
//! Past its budget the table gives up the entries that were not read lately (CLOCK); the index keeps
//! every path. A read of one that left goes to the store and offers what it found back. An offer
//! counts only if nothing was folded since before the store was read: then it cannot be older than
//! what the fold would have put there.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use kallisto_cuckoo::Hand;
use kallisto_store::Record;

use super::View;
use super::fold::Damaged;
use crate::keys::MountId;
use crate::kv::record::Metadata;

/// The part of the budget that is freed at once, so that not every write has to look for room.
const SLACK: usize = 64;

/// How many batches were folded when a read began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Folds(u64);

/// What the hot table may hold, and the turn of those who write to it.
pub(super) struct Budget {
    bytes_max: usize,
    folds: AtomicU64,
    evicted: AtomicUsize,
    offered: AtomicU64,
    hand: Mutex<Hand>,
}

impl Budget {
    pub(super) fn new(bytes_max: usize) -> Self {
        Self {
            bytes_max,
            folds: AtomicU64::new(0),
            evicted: AtomicUsize::new(0),
            offered: AtomicU64::new(0),
            hand: Mutex::default(),
        }
    }

    /// The turn of the fold; counts a batch.
    pub(super) fn fold(&self) -> MutexGuard<'_, Hand> {
        let hand = self.hand.lock().unwrap_or_else(PoisonError::into_inner);
        // Release: whoever reads the store after seeing this count finds the batch there already.
        self.folds.fetch_add(1, Ordering::Release);
        hand
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

    /// Makes room, if the table holds more than it may.
    pub(super) fn keep_to_budget(&self, hand: &mut Hand) {
        let memory = self.hot.memory();
        let live = memory.entry_bytes - memory.retired_bytes;
        if live <= self.budget.bytes_max {
            return;
        }
        let wanted = live - self.budget.bytes_max + self.budget.bytes_max / SLACK;
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
