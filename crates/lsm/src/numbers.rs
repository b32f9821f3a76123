//! The counter that numbers a store's files.

use std::sync::atomic::{AtomicU64, Ordering};

/// Hands out file numbers, each once.
#[derive(Debug)]
pub(crate) struct FileNumbers(AtomicU64);

impl FileNumbers {
    /// Starts at `next`.
    pub(crate) fn new(next: u64) -> Self {
        Self(AtomicU64::new(next))
    }

    /// The next number.
    pub(crate) fn next(&self) -> u64 {
        // Relaxed: uniqueness needs atomicity only; files are ordered by locks and by the disk.
        self.0.fetch_add(1, Ordering::Relaxed)
    }

    /// What `next` would return.
    pub(crate) fn peek(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
