//! A store in memory that can be made a follower.

use std::sync::atomic::{AtomicBool, Ordering};

use kallisto_store::{Batch, Commit, Error, MemoryStore, Store, StoreLayer};

/// A store that follows once it is told to.
#[derive(Default)]
pub(super) struct Follows {
    inner: MemoryStore,
    pub(super) follows: AtomicBool,
}

impl StoreLayer for Follows {
    fn inner(&self) -> &dyn Store {
        &self.inner
    }

    fn commit(&self, batch: Batch) -> Commit {
        match self.follows.load(Ordering::SeqCst) {
            true => Commit::decided(Err(Error::NotLeader)),
            false => self.inner.commit(batch),
        }
    }

    fn leads(&self) -> bool {
        !self.follows.load(Ordering::SeqCst)
    }
}
