//! The store as a core sees it: the server's own, with the world's mirror beside the core's fold, and broken where a run is sabotaged.

use std::sync::Arc;
use std::time::Duration;

use kallisto_store::{
    Batch, Commit, Durability, Error, Fold, Position, RaftStore, Record, Records, Replaced,
    Replicated, Seqno, Store, StoreOp, StoreStats, Visit,
};

use super::background::pause;
use crate::mirror::Mirror;
use crate::sabotage::Sabotage;

/// A task pauses so long before and behind what it attaches, so that others come in between.
const ATTACH_PAUSE: Duration = Duration::from_millis(2);

/// A store with a mirror.
pub(crate) struct MirroredStore {
    inner: Arc<RaftStore>,
    mirror: Arc<Mirror>,
    sabotage: Option<Sabotage>,
}

impl MirroredStore {
    /// Watches `inner`.
    pub(crate) fn new(
        inner: Arc<RaftStore>,
        mirror: Arc<Mirror>,
        sabotage: Option<Sabotage>,
    ) -> Self {
        Self { inner, mirror, sabotage }
    }

    /// What becomes of a batch on its way to the log.
    fn sabotaged(&self, batch: Batch) -> Batch {
        let (expects, deletes) = match self.sabotage {
            Some(Sabotage::NoExpectations) => (false, true),
            Some(Sabotage::NoDeletes) => (true, false),
            _ => return batch,
        };
        let mut left = Batch::new();
        for expectation in batch.expectations().iter().filter(|_| expects) {
            left.expect(expectation.key.clone(), expectation.seqno);
        }
        for op in batch.ops() {
            match op {
                StoreOp::Put { key, value } => {
                    left.put(key.clone(), value.clone());
                }
                StoreOp::Delete { key, note } if deletes => {
                    left.delete_noted(key.clone(), note.clone());
                }
                StoreOp::Delete { .. } => {}
            }
        }
        left
    }
}

impl Records for MirroredStore {
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

impl Store for MirroredStore {
    fn commit(&self, batch: Batch) -> Commit {
        self.inner.commit(self.sabotaged(batch))
    }

    fn position(&self) -> Position {
        self.inner.position()
    }

    fn attach(&self, fold: Arc<dyn Fold>) -> Result<Position, Error> {
        pause(ATTACH_PAUSE);
        let mirror = Arc::clone(&self.mirror);
        let attached = self.inner.attach(Arc::new(Both { mirror, fold }));
        pause(ATTACH_PAUSE);
        attached
    }

    fn detach(&self) {
        self.inner.detach();
        // A store that cannot be read any more ends by itself; the world hears of that.
        let _ = self.inner.attach(Arc::clone(&self.mirror) as _);
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

    fn replicated(&self) -> Option<&dyn Replicated> {
        self.inner.replicated()
    }

    fn generation(&self) -> Seqno {
        self.inner.generation()
    }

    fn leads(&self) -> bool {
        self.inner.leads()
    }

    fn stats(&self) -> StoreStats {
        self.inner.stats()
    }

    fn close(&self) -> Result<(), Error> {
        self.inner.close()
    }
}

/// The mirror first, then the core's fold.
struct Both {
    mirror: Arc<Mirror>,
    fold: Arc<dyn Fold>,
}

impl Fold for Both {
    fn load(&self, position: Position, records: &dyn Records) -> Result<(), Error> {
        self.mirror.load(position, records)?;
        self.fold.load(position, records)
    }

    fn fold(&self, position: Position, batch: &Batch, records: &dyn Records) {
        self.mirror.fold(position, batch, records);
        self.fold.fold(position, batch, records);
    }

    fn replaced(&self, why: Replaced) {
        self.mirror.replaced(why);
        self.fold.replaced(why);
    }
}
