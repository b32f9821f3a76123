//! A store in memory that can be made a follower.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use kallisto_store::{
    Batch, Commit, Durability, Error, Fold, MemoryStore, Position, Record, Records, Store,
    StoreStats, Visit,
};

/// A store that follows once it is told to.
#[derive(Default)]
pub(super) struct Follows {
    inner: MemoryStore,
    pub(super) follows: AtomicBool,
}

impl Records for Follows {
    fn get(&self, key: &[u8]) -> Result<Option<Record>, Error> {
        self.inner.get(key)
    }

    fn scan(
        &self,
        prefix: &[u8],
        visit: &mut dyn FnMut(&[u8], &Record) -> Visit,
    ) -> Result<(), Error> {
        self.inner.scan(prefix, visit)
    }

    fn approximate_len(&self) -> u64 {
        self.inner.approximate_len()
    }
}

impl Store for Follows {
    fn commit(&self, batch: Batch) -> Commit {
        match self.follows.load(Ordering::SeqCst) {
            true => Commit::decided(Err(Error::NotLeader)),
            false => self.inner.commit(batch),
        }
    }

    fn position(&self) -> Position {
        self.inner.position()
    }

    fn attach(&self, fold: Arc<dyn Fold>) -> Result<Position, Error> {
        self.inner.attach(fold)
    }

    fn detach(&self) {
        self.inner.detach();
    }

    fn durability(&self) -> Durability {
        self.inner.durability()
    }

    fn set_durability(&self, durability: Durability) -> Commit {
        self.inner.set_durability(durability)
    }

    fn save(&self) -> Commit {
        self.inner.save()
    }

    fn leads(&self) -> bool {
        !self.follows.load(Ordering::SeqCst)
    }

    fn stats(&self) -> StoreStats {
        self.inner.stats()
    }

    fn close(&self) -> Result<(), Error> {
        self.inner.close()
    }
}
