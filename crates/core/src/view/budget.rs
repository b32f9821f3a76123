//! The memory budget of the hot table: what leaves it, and how it comes back.
//!
//! Past its budget the table gives up the entries that were not read lately (CLOCK); the index keeps
//! every path. A read of one that left goes to the store and offers what it found back. An offer
//! counts only if nothing was folded since before the store was read: then it cannot be older than
//! what the fold would have put there.
//!
//! The budget is one for all namespaces: each view counts what it holds into a [`MemoryPool`], and whoever
//! finds the pool over its size gives up entries of its own.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kallisto_cuckoo::Hand;

/// The part of the budget that is freed at once, so that not every write has to look for room.
pub(crate) const SLACK: usize = 64;

/// How many batches were folded when a read began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Folds(pub(super) u64);

/// What the hot tables of all namespaces may hold together, and hold.
pub(crate) struct MemoryPool {
    pub(crate) bytes_max: usize,
    bytes: AtomicUsize,
}

impl MemoryPool {
    pub(super) fn new(bytes_max: usize) -> Arc<Self> {
        Arc::new(Self { bytes_max, bytes: AtomicUsize::new(0) })
    }
}

/// What the hot table may hold, and the turn of those who write to it.
pub(super) struct Budget {
    pub(crate) pool: Arc<MemoryPool>,
    /// What this view counted into the pool.
    counted: AtomicUsize,
    pub(crate) folds: AtomicU64,
    pub(crate) evicted: AtomicUsize,
    pub(crate) offered: AtomicU64,
    /// Whether values are read into memory after an unseal; in the view of the root namespace, for all.
    pub(super) warming: AtomicBool,
    pub(crate) hand: Mutex<Hand>,
}

impl Budget {
    pub(super) fn new(pool: Arc<MemoryPool>) -> Self {
        Self {
            pool,
            counted: AtomicUsize::new(0),
            folds: AtomicU64::new(0),
            evicted: AtomicUsize::new(0),
            offered: AtomicU64::new(0),
            warming: AtomicBool::new(false),
            hand: Mutex::default(),
        }
    }

    /// The pool, for another view.
    pub(super) fn pool(&self) -> Arc<MemoryPool> {
        Arc::clone(&self.pool)
    }

    /// Counts what the view holds now; how many bytes the pool is over its size.
    pub(crate) fn count(&self, live: usize) -> usize {
        // Relaxed: sums that lag a little only move the moment of an eviction.
        let before = self.counted.swap(live, Ordering::Relaxed);
        let change = live.wrapping_sub(before);
        let all = self.pool.bytes.fetch_add(change, Ordering::Relaxed).wrapping_add(change);
        all.saturating_sub(self.pool.bytes_max)
    }

    /// Whether the pool has room for so many bytes more.
    pub(super) fn has_room_for(&self, bytes: usize) -> bool {
        self.pool.bytes.load(Ordering::Relaxed).saturating_add(bytes) <= self.pool.bytes_max
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn views_share_one_pool_and_give_back_what_they_counted() {
        let pool = MemoryPool::new(100);
        let (one, two) = (Budget::new(Arc::clone(&pool)), Budget::new(Arc::clone(&pool)));
        assert_eq!(one.count(60), 0);
        assert_eq!(two.count(40), 0);
        assert_eq!(two.count(55), 15);
        assert_eq!(one.count(10), 0);
        assert_eq!(one.count(70), 25);
        drop(two);
        assert_eq!(one.count(100), 0);
        assert_eq!(one.count(101), 1);
    }
}
