//! The fold of one server: keeps what it is told, for the world to look at after the turn.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use kallisto_store::{Batch, Error, Fold, Position, Records, Replaced, StoreOp, Visit};

/// Every key with its value and the position that wrote it.
pub(crate) type StoredState = BTreeMap<Vec<u8>, (Vec<u8>, u64)>;
/// What a batch leaves under each of its keys.
pub(crate) type MirrorChanges = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

/// What a fold was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FoldEvent {
    /// Everything, as of a position.
    Loaded(u64, StoredState),
    /// The next batch.
    Folded(u64, MirrorChanges),
    /// A snapshot took the place of everything: the fold is to be attached anew.
    Replaced,
}

/// A fold that remembers.
#[derive(Debug, Default)]
pub(crate) struct Mirror(Mutex<Vec<FoldEvent>>);

impl Mirror {
    /// What it was told since it was last asked.
    pub(crate) fn take(&self) -> Vec<FoldEvent> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn note(&self, told: FoldEvent) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(told);
    }
}

/// Everything that a store holds.
pub(crate) fn state_of(records: &dyn Records) -> Result<StoredState, Error> {
    let mut state = StoredState::new();
    records.scan(&[], &mut |key, record| {
        state.insert(key.to_vec(), (record.value.to_vec(), record.seqno.0));
        Visit::Continue
    })?;
    Ok(state)
}

/// What a batch leaves.
pub(crate) fn changes_of(batch: &Batch) -> MirrorChanges {
    let change = |op: &StoreOp| match op {
        StoreOp::Put { key, value } => (key.clone(), Some(value.to_vec())),
        StoreOp::Delete { key, .. } => (key.clone(), None),
    };
    batch.ops().iter().map(change).collect()
}

impl Fold for Mirror {
    fn load(&self, position: Position, records: &dyn Records) -> Result<(), Error> {
        self.note(FoldEvent::Loaded(position.0, state_of(records)?));
        Ok(())
    }

    fn fold(&self, position: Position, batch: &Batch, _records: &dyn Records) {
        self.note(FoldEvent::Folded(position.0, changes_of(batch)));
    }

    fn replaced(&self, _why: Replaced) {
        self.note(FoldEvent::Replaced);
    }
}
