//! The store that keeps everything in memory: `server -dev`, tests and the in-process benchmark.
//!
//! It promises order and atomicity, and no durability. Writers are serialised by the lock; the fold
//! runs under it, so that folds happen in position order. Invariant: `position` counts committed
//! batches, and each record's seqno is the position of the batch that wrote it.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use crate::batch::{BATCH_OPS_MAX, Batch, KEY_BYTES_MAX, Op, Position, Record, Seqno};
use crate::{Commit, Error, Fold, Records, Store, Visit};

/// An ordered map behind a lock, feeding a fold.
pub struct MemoryStore {
    state: RwLock<State>,
    fold: Arc<dyn Fold>,
}

#[derive(Default)]
struct State {
    records: BTreeMap<Vec<u8>, Record>,
    position: Position,
}

impl MemoryStore {
    /// An empty store that hands its committed batches to `fold`.
    pub fn new(fold: Arc<dyn Fold>) -> Self {
        Self { state: RwLock::default(), fold }
    }

    fn commit_now(&self, batch: &Batch) -> Result<Position, Error> {
        check_limits(batch)?;
        let mut state = self.state.write().map_err(poisoned)?;
        for expectation in batch.expectations() {
            let record = state.records.get(&expectation.key);
            if record.map_or(Seqno::ABSENT, |record| record.seqno) != expectation.seqno {
                return Err(Error::Conflict);
            }
        }
        state.apply(batch);
        self.fold.fold(state.position, batch, &*state);
        Ok(state.position)
    }

    fn read(&self) -> Result<RwLockReadGuard<'_, State>, Error> {
        self.state.read().map_err(poisoned)
    }
}

fn poisoned<T>(_: PoisonError<T>) -> Error {
    Error::Unavailable("a writer panicked".into())
}

fn check_limits(batch: &Batch) -> Result<(), Error> {
    if batch.ops().len() > BATCH_OPS_MAX {
        return Err(Error::TooLarge("operations in a batch"));
    }
    let long = |op: &Op| match op {
        Op::Put { key, .. } | Op::Delete { key } => key.len() > KEY_BYTES_MAX,
    };
    if batch.ops().iter().any(long) {
        return Err(Error::TooLarge("bytes of a key"));
    }
    Ok(())
}

impl State {
    fn apply(&mut self, batch: &Batch) {
        self.position.0 += 1;
        let seqno = Seqno(self.position.0);
        for op in batch.ops() {
            match op {
                Op::Put { key, value } => {
                    let record = Record { value: value.clone(), seqno };
                    self.records.insert(key.clone(), record);
                }
                Op::Delete { key } => {
                    self.records.remove(key);
                }
            }
        }
    }
}

impl Records for State {
    fn get(&self, key: &[u8]) -> Result<Option<Record>, Error> {
        Ok(self.records.get(key).cloned())
    }

    fn scan(
        &self,
        prefix: &[u8],
        visit: &mut dyn FnMut(&[u8], &Record) -> Visit,
    ) -> Result<(), Error> {
        let from = (Bound::Included(prefix), Bound::Unbounded);
        for (key, record) in self.records.range::<[u8], _>(from) {
            if !key.starts_with(prefix) || visit(key, record) == Visit::Stop {
                break;
            }
        }
        Ok(())
    }
}

impl Records for MemoryStore {
    fn get(&self, key: &[u8]) -> Result<Option<Record>, Error> {
        self.read()?.get(key)
    }

    fn scan(
        &self,
        prefix: &[u8],
        visit: &mut dyn FnMut(&[u8], &Record) -> Visit,
    ) -> Result<(), Error> {
        self.read()?.scan(prefix, visit)
    }
}

impl Store for MemoryStore {
    fn commit(&self, batch: Batch) -> Commit {
        Commit::decided(self.commit_now(&batch))
    }

    fn position(&self) -> Position {
        self.read().map(|state| state.position).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::Mutex;
    use std::task::{Context, Poll, Waker};

    use super::*;

    #[derive(Default)]
    struct Journal(Mutex<Vec<(Position, usize)>>);

    impl Fold for Journal {
        fn fold(&self, position: Position, batch: &Batch, records: &dyn Records) {
            for op in batch.ops() {
                if let Op::Put { key, value } = op {
                    assert_eq!(&records.get(key).unwrap().unwrap().value, value);
                }
            }
            self.0.lock().unwrap().push((position, batch.ops().len()));
        }
    }

    fn now<T>(future: impl Future<Output = T>) -> T {
        match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(value) => value,
            Poll::Pending => panic!("the memory store never waits"),
        }
    }

    fn put(key: &str, value: &str) -> Batch {
        let mut batch = Batch::new();
        batch.put(key.into(), value.as_bytes().to_vec());
        batch
    }

    #[test]
    fn a_commit_is_folded_in_order_and_read_back() {
        let journal = Arc::new(Journal::default());
        let store = MemoryStore::new(journal.clone());
        assert_eq!(now(store.commit(put("a", "1"))), Ok(Position(1)));
        assert_eq!(now(store.commit(put("b", "2"))), Ok(Position(2)));
        assert_eq!(*journal.0.lock().unwrap(), [(Position(1), 1), (Position(2), 1)]);
        let record = store.get(b"b").unwrap().unwrap();
        assert_eq!((&record.value[..], record.seqno), (&b"2"[..], Seqno(2)));
        let mut seen = Vec::new();
        store
            .scan(b"a", &mut |key, _| {
                seen.push(key.to_vec());
                Visit::Continue
            })
            .unwrap();
        assert_eq!(seen, [b"a".to_vec()]);
    }

    #[test]
    fn of_two_writers_with_one_expectation_one_wins() {
        let store = MemoryStore::new(Arc::new(Journal::default()));
        let mut first = put("a", "1");
        first.expect(b"a".to_vec(), Seqno::ABSENT);
        let second = first.clone();
        assert_eq!(now(store.commit(first)), Ok(Position(1)));
        assert_eq!(now(store.commit(second)), Err(Error::Conflict));
        assert_eq!(store.position(), Position(1));
    }

    #[test]
    fn a_refused_batch_changes_nothing() {
        let store = MemoryStore::new(Arc::new(Journal::default()));
        let mut batch = put("a", "1");
        batch.put(vec![0; KEY_BYTES_MAX + 1], Vec::new());
        assert_eq!(now(store.commit(batch)), Err(Error::TooLarge("bytes of a key")));
        assert_eq!(store.get(b"a"), Ok(None));
    }
}
