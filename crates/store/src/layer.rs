//! A store over another one that does one thing differently: for tests and the simulator.

use std::sync::Arc;

use crate::{
    Batch, Commit, Durability, Error, Fold, Position, Record, RecordVisitor, Records, Replicated,
    Seqno, Store, StoreStats, Visit,
};

/// A store that hands on to [`StoreLayer::inner`] whatever it does not answer itself.
pub trait StoreLayer: Send + Sync {
    /// The store below.
    fn inner(&self) -> &dyn Store;

    /// See [`Store::commit`].
    fn commit(&self, batch: Batch) -> Commit {
        self.inner().commit(batch)
    }

    /// See [`Store::attach`].
    ///
    /// # Errors
    /// As there.
    fn attach(&self, fold: Arc<dyn Fold>) -> Result<Position, Error> {
        self.inner().attach(fold)
    }

    /// See [`Store::detach`].
    fn detach(&self) {
        self.inner().detach();
    }

    /// See [`Store::replicated`].
    fn replicated(&self) -> Option<&dyn Replicated> {
        self.inner().replicated()
    }

    /// See [`Store::generation`].
    fn generation(&self) -> Seqno {
        self.inner().generation()
    }

    /// See [`Store::leads`].
    fn leads(&self) -> bool {
        self.replicated().is_none_or(|cluster| cluster.leadership().is_mine())
    }
}

impl<L: StoreLayer> Records for L {
    fn get(&self, key: &[u8]) -> Result<Option<Record>, Error> {
        self.inner().get(key)
    }

    fn scan(
        &self,
        prefix: &[u8],
        visit: &mut dyn FnMut(&[u8], &Record) -> Visit,
    ) -> Result<(), Error> {
        self.inner().scan(prefix, visit)
    }

    fn scan_borrowed(&self, prefix: &[u8], visit: &mut RecordVisitor<'_>) -> Result<(), Error> {
        self.inner().scan_borrowed(prefix, visit)
    }

    fn approximate_len(&self) -> u64 {
        self.inner().approximate_len()
    }
}

impl<L: StoreLayer> Store for L {
    fn commit(&self, batch: Batch) -> Commit {
        StoreLayer::commit(self, batch)
    }

    fn position(&self) -> Position {
        self.inner().position()
    }

    fn attach(&self, fold: Arc<dyn Fold>) -> Result<Position, Error> {
        StoreLayer::attach(self, fold)
    }

    fn detach(&self) {
        StoreLayer::detach(self);
    }

    fn durability(&self) -> Durability {
        self.inner().durability()
    }

    fn set_durability(&self, durability: Durability) -> Commit {
        self.inner().set_durability(durability)
    }

    fn save(&self) -> Commit {
        self.inner().save()
    }

    fn replicated(&self) -> Option<&dyn Replicated> {
        StoreLayer::replicated(self)
    }

    fn generation(&self) -> Seqno {
        StoreLayer::generation(self)
    }

    fn leads(&self) -> bool {
        StoreLayer::leads(self)
    }

    fn stats(&self) -> StoreStats {
        self.inner().stats()
    }

    fn close(&self) -> Result<(), Error> {
        self.inner().close()
    }
}
