//! A budget of bytes shared by all connections: what request bodies may hold at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes that may be held, and those that are.
#[derive(Debug)]
pub(crate) struct Budget {
    held: AtomicUsize,
    max: usize,
}

/// Bytes held by one request; given back on drop.
#[derive(Debug)]
pub(crate) struct Share {
    budget: Arc<Budget>,
    bytes: usize,
}

impl Budget {
    pub(crate) fn new(max: usize) -> Arc<Self> {
        Arc::new(Self { held: AtomicUsize::new(0), max })
    }

    /// A share that holds nothing yet.
    pub(crate) fn share(self: &Arc<Self>) -> Share {
        Share { budget: Arc::clone(self), bytes: 0 }
    }
}

impl Share {
    /// Takes `bytes` more; false when the budget has not that much left.
    #[must_use]
    pub(crate) fn grow(&mut self, bytes: usize) -> bool {
        // The counter guards no other memory, so no ordering is needed.
        let take = |held: usize| held.checked_add(bytes).filter(|&held| held <= self.budget.max);
        let taken =
            self.budget.held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok();
        if taken {
            self.bytes += bytes;
        }
        taken
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.budget.held.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_never_exceed_the_budget_and_come_back() {
        let budget = Budget::new(10);
        let (mut a, mut b) = (budget.share(), budget.share());
        assert!(a.grow(6));
        assert!(!b.grow(5));
        assert!(b.grow(4));
        assert!(!a.grow(usize::MAX));
        drop(a);
        assert!(b.grow(6));
        drop(b);
        assert_eq!(budget.held.load(Ordering::Relaxed), 0);
    }
}
