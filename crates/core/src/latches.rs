//! One writer at a time per path, among the writers of this process.
//!
//! The store's preconditions already make racing writers safe; latches only keep them from losing
//! races over and over. Paths share [`STRIPES`] latches by a keyed hash, so no one can aim at
//! another's. A latch is held while a commit is awaited, hence an async mutex.

use std::hash::{BuildHasher, RandomState};

use tokio::sync::{Mutex, MutexGuard};

const STRIPES: usize = 256;

/// The latches of a core.
pub(crate) struct Latches {
    stripes: Vec<Mutex<()>>,
    hasher: RandomState,
}

impl Latches {
    pub(crate) fn new() -> Self {
        Self { stripes: (0..STRIPES).map(|_| Mutex::new(())).collect(), hasher: RandomState::new() }
    }

    /// Waits for the latch of `key`.
    pub(crate) async fn hold(&self, key: &[u8]) -> MutexGuard<'_, ()> {
        let stripe = &self.stripes[self.hasher.hash_one(key) as usize % STRIPES];
        // Nearly always free, and then there is no place in a queue to set up.
        match stripe.try_lock() {
            Ok(guard) => guard,
            Err(_) => stripe.lock().await,
        }
    }
}
