//! The store as a core sees it: the server's own, with the world's mirror beside the core's fold, and broken where a run is sabotaged.

use std::sync::Arc;
use std::time::Duration;

use kallisto_store::{
    Batch, Commit, Error, Fold, Position, Records, Replaced, Store, StoreLayer, StoreOp,
};

use super::background::pause;
use crate::mirror::Mirror;
use crate::sabotage::Sabotage;
use crate::server::ServerStore;

/// A task pauses so long before and behind what it attaches, so that others come in between.
const ATTACH_PAUSE: Duration = Duration::from_millis(2);

/// A store with a mirror.
pub(crate) struct MirroredStore {
    inner: Arc<dyn ServerStore>,
    mirror: Arc<Mirror>,
    sabotage: Option<Sabotage>,
}

impl MirroredStore {
    /// Watches `inner`.
    pub(crate) fn new(
        inner: Arc<dyn ServerStore>,
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

impl StoreLayer for MirroredStore {
    fn inner(&self) -> &dyn Store {
        &*self.inner
    }

    fn commit(&self, batch: Batch) -> Commit {
        self.inner.commit(self.sabotaged(batch))
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
