//! The store that keeps everything in memory: `server -dev`, tests and the in-process benchmark.
//!
//! It promises order and atomicity, and no durability. Writers are serialised by the lock; the fold
//! runs under it, so that folds happen in position order. Invariant: `position` counts committed
//! batches, and each record's seqno is the position of the batch that wrote it.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::batch::{Batch, Position, Record, Seqno, StoreOp};
use crate::{
    Commit, Durability, Error, Fold, RecordVisitor, Records, Store, StoreStats, Visit,
    start_of_scan,
};

/// An ordered map behind a lock, feeding a fold.
pub struct MemoryStore {
    state: RwLock<MemoryState>,
    /// Asked for and remembered; nothing here outlives the process whatever it says.
    durability: Mutex<Durability>,
}

/// Bytes of a key that stands in the map itself: a record of an engine has 21, one inside a namespace 25, a version of a secret 8 more.
const SHORT_KEY_BYTES: usize = 38;

/// A key. A short one stands in the map: each comparison on the way down would follow a pointer otherwise, and miss the cache.
enum MapKey {
    Short(u8, [u8; SHORT_KEY_BYTES]),
    Long(Box<[u8]>),
}

impl MapKey {
    fn new(key: &[u8]) -> Self {
        let mut bytes = [0; SHORT_KEY_BYTES];
        match (bytes.get_mut(..key.len()), u8::try_from(key.len())) {
            (Some(room), Ok(length)) => {
                room.copy_from_slice(key);
                Self::Short(length, bytes)
            }
            _ => Self::Long(key.into()),
        }
    }
}

impl Borrow<[u8]> for MapKey {
    fn borrow(&self) -> &[u8] {
        match self {
            Self::Short(length, bytes) => &bytes[..usize::from(*length)],
            Self::Long(bytes) => bytes,
        }
    }
}

impl Ord for MapKey {
    fn cmp(&self, other: &Self) -> Ordering {
        let (ours, theirs): (&[u8], &[u8]) = (self.borrow(), other.borrow());
        ours.cmp(theirs)
    }
}

impl PartialOrd for MapKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for MapKey {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for MapKey {}

#[derive(Default)]
struct MemoryState {
    records: BTreeMap<MapKey, Record>,
    position: Position,
    fold: Option<Arc<dyn Fold>>,
    closed: bool,
}

impl MemoryStore {
    /// An empty store without a fold.
    pub fn new() -> Self {
        Self { state: RwLock::default(), durability: Mutex::new(Durability::Strict) }
    }

    fn commit_now(&self, batch: &Batch) -> Result<Position, Error> {
        batch.check_limits()?;
        let mut state = self.write()?;
        if state.closed {
            return Err(closed());
        }
        for expectation in batch.expectations() {
            let record = state.records.get(expectation.key.as_slice());
            if record.map_or(Seqno::ABSENT, |record| record.seqno) != expectation.seqno {
                return Err(Error::Conflict);
            }
        }
        state.apply(batch);
        if let Some(fold) = &state.fold {
            fold.fold(state.position, batch, &*state);
        }
        Ok(state.position)
    }

    fn read(&self) -> Result<RwLockReadGuard<'_, MemoryState>, Error> {
        self.state.read().map_err(poisoned)
    }

    fn write(&self) -> Result<RwLockWriteGuard<'_, MemoryState>, Error> {
        self.state.write().map_err(poisoned)
    }

    /// Nothing waits here, so whatever was committed is as safe as it ever will be.
    fn settled(&self) -> Commit {
        Commit::decided(self.read().map(|state| state.position))
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

fn poisoned<T>(_: PoisonError<T>) -> Error {
    Error::Unavailable("a writer panicked".into())
}

fn closed() -> Error {
    Error::Unavailable("the store is closed".into())
}

impl MemoryState {
    fn visit(
        &self,
        from: Bound<&[u8]>,
        prefix: &[u8],
        visit: &mut dyn FnMut(&[u8], &Record) -> Visit,
    ) {
        for (key, record) in self.records.range::<[u8], _>((from, Bound::Unbounded)) {
            let key: &[u8] = key.borrow();
            if !key.starts_with(prefix) || visit(key, record) == Visit::Stop {
                break;
            }
        }
    }

    fn apply(&mut self, batch: &Batch) {
        self.position.0 += 1;
        let seqno = Seqno(self.position.0);
        for op in batch.ops() {
            match op {
                StoreOp::Put { key, value } => {
                    let record = Record { value: value.clone(), seqno };
                    self.records.insert(MapKey::new(key), record);
                }
                StoreOp::Delete { key, .. } => {
                    self.records.remove(key.as_slice());
                }
            }
        }
    }
}

impl Records for MemoryState {
    fn get(&self, key: &[u8]) -> Result<Option<Record>, Error> {
        Ok(self.records.get(key).cloned())
    }

    fn scan(
        &self,
        prefix: &[u8],
        visit: &mut dyn FnMut(&[u8], &Record) -> Visit,
    ) -> Result<(), Error> {
        self.visit(Bound::Included(prefix), prefix, visit);
        Ok(())
    }

    fn scan_borrowed(
        &self,
        prefix: &[u8],
        behind: Option<&[u8]>,
        visit: &mut RecordVisitor<'_>,
    ) -> Result<(), Error> {
        self.visit(start_of_scan(prefix, behind), prefix, &mut |key, record| {
            visit(key, record.seqno, &record.value)
        });
        Ok(())
    }

    fn approximate_len(&self) -> u64 {
        self.records.len() as u64
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

    fn scan_borrowed(
        &self,
        prefix: &[u8],
        behind: Option<&[u8]>,
        visit: &mut RecordVisitor<'_>,
    ) -> Result<(), Error> {
        self.read()?.scan_borrowed(prefix, behind, visit)
    }

    fn approximate_len(&self) -> u64 {
        self.read().map_or(0, |state| state.approximate_len())
    }
}

impl Store for MemoryStore {
    fn commit(&self, batch: Batch) -> Commit {
        Commit::decided(self.commit_now(&batch))
    }

    fn position(&self) -> Position {
        self.read().map(|state| state.position).unwrap_or_default()
    }

    fn attach(&self, fold: Arc<dyn Fold>) -> Result<Position, Error> {
        let mut state = self.write()?;
        state.fold = None;
        fold.load(state.position, &*state)?;
        state.fold = Some(fold);
        Ok(state.position)
    }

    fn detach(&self) {
        if let Ok(mut state) = self.write() {
            state.fold = None;
        }
    }

    fn durability(&self) -> Durability {
        *self.durability.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set_durability(&self, durability: Durability) -> Commit {
        *self.durability.lock().unwrap_or_else(PoisonError::into_inner) = durability;
        self.settled()
    }

    fn save(&self) -> Commit {
        self.settled()
    }

    fn stats(&self) -> StoreStats {
        StoreStats {
            position: self.position(),
            durability: self.durability(),
            records: self.approximate_len(),
            raft: None,
            database: None,
        }
    }

    fn close(&self) -> Result<(), Error> {
        self.write()?.closed = true;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::KEY_BYTES_MAX;

    /// Remembers what it was told.
    #[derive(Default)]
    struct Journal(Mutex<Vec<(Position, usize)>>);

    impl Fold for Journal {
        fn load(&self, position: Position, records: &dyn Records) -> Result<(), Error> {
            let records = usize::try_from(records.approximate_len()).unwrap();
            self.0.lock().unwrap().push((position, records));
            Ok(())
        }

        fn fold(&self, position: Position, batch: &Batch, records: &dyn Records) {
            for op in batch.ops() {
                if let StoreOp::Put { key, value } = op {
                    assert_eq!(&records.get(key).unwrap().unwrap().value, value);
                }
            }
            self.0.lock().unwrap().push((position, batch.ops().len()));
        }
    }

    struct Unwilling;

    impl Fold for Unwilling {
        fn load(&self, _: Position, _: &dyn Records) -> Result<(), Error> {
            Err(Error::Damaged("a record".into()))
        }

        fn fold(&self, _: Position, _: &Batch, _: &dyn Records) {
            panic!("a fold that did not load is not fed");
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
        let store = MemoryStore::new();
        assert_eq!(store.attach(journal.clone()), Ok(Position(0)));
        assert_eq!(store.commit(put("a", "1")).wait(), Ok(Position(1)));
        assert_eq!(store.commit(put("b", "2")).wait(), Ok(Position(2)));
        let told = [(Position(0), 0), (Position(1), 1), (Position(2), 1)];
        assert_eq!(*journal.0.lock().unwrap(), told);
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
    fn keys_of_any_length_are_in_the_order_of_their_bytes() {
        let store = MemoryStore::new();
        let lengths = [0, 1, 21, SHORT_KEY_BYTES - 1, SHORT_KEY_BYTES, SHORT_KEY_BYTES + 1, 300];
        let mut keys: Vec<Vec<u8>> = Vec::new();
        for byte in [0, 7, 255] {
            keys.extend(lengths.map(|length| vec![byte; length]));
            keys.extend(lengths.map(|length| [vec![7; length], vec![byte]].concat()));
        }
        for key in &keys {
            let mut batch = Batch::new();
            batch.put(key.clone(), key.clone());
            store.commit(batch).wait().unwrap();
        }
        keys.sort();
        keys.dedup();
        let mut seen = Vec::new();
        let mut see = |key: &[u8], record: &Record| {
            assert_eq!(record.value, key);
            seen.push(key.to_vec());
            Visit::Continue
        };
        store.scan(b"", &mut see).unwrap();
        assert_eq!(seen, keys);
        for key in &keys {
            assert_eq!(store.get(key).unwrap().unwrap().value, key.as_slice());
            let mut batch = Batch::new();
            batch.delete(key.clone());
            store.commit(batch).wait().unwrap();
            assert_eq!(store.get(key), Ok(None));
        }
    }

    #[test]
    fn keys_are_compared_alike_by_every_operator() {
        let lengths = [0, 1, SHORT_KEY_BYTES, SHORT_KEY_BYTES + 1];
        let keys: Vec<Vec<u8>> = lengths.iter().flat_map(|&n| [vec![0; n], vec![7; n]]).collect();
        for ours in &keys {
            for theirs in &keys {
                let (left, right) = (MapKey::new(ours), MapKey::new(theirs));
                assert_eq!(left.cmp(&right), ours.cmp(theirs));
                assert_eq!(left.partial_cmp(&right), Some(ours.cmp(theirs)));
                assert_eq!(left == right, ours == theirs);
            }
        }
        assert_eq!(MemoryStore::default().position(), Position(0));
    }

    #[test]
    fn a_fold_is_loaded_once_and_left_alone_after_it_is_detached() {
        let (first, second) = (Arc::new(Journal::default()), Arc::new(Journal::default()));
        let store = MemoryStore::new();
        store.commit(put("a", "1")).wait().unwrap();
        store.attach(first.clone()).unwrap();
        store.commit(put("b", "2")).wait().unwrap();
        store.attach(second.clone()).unwrap();
        store.commit(put("c", "3")).wait().unwrap();
        store.detach();
        store.commit(put("d", "4")).wait().unwrap();
        assert_eq!(*first.0.lock().unwrap(), [(Position(1), 1), (Position(2), 1)]);
        assert_eq!(*second.0.lock().unwrap(), [(Position(2), 2), (Position(3), 1)]);
    }

    #[test]
    fn a_fold_that_cannot_load_is_not_attached() {
        let store = MemoryStore::new();
        assert_eq!(store.attach(Arc::new(Unwilling)), Err(Error::Damaged("a record".into())));
        assert_eq!(store.commit(put("a", "1")).wait(), Ok(Position(1)));
    }

    #[test]
    fn of_two_writers_with_one_expectation_one_wins() {
        let store = MemoryStore::new();
        let mut first = put("a", "1");
        first.expect(b"a".to_vec(), Seqno::ABSENT);
        let second = first.clone();
        assert_eq!(store.commit(first).wait(), Ok(Position(1)));
        assert_eq!(store.commit(second).wait(), Err(Error::Conflict));
        assert_eq!(store.position(), Position(1));
    }

    #[test]
    fn a_refused_batch_changes_nothing() {
        let store = MemoryStore::new();
        let mut batch = put("a", "1");
        batch.put(vec![0; KEY_BYTES_MAX + 1], Vec::new());
        assert_eq!(store.commit(batch).wait(), Err(Error::TooLarge("bytes of a key")));
        assert_eq!(store.get(b"a"), Ok(None));
        store.close().unwrap();
        assert!(matches!(store.commit(put("a", "1")).wait(), Err(Error::Unavailable(_))));
    }
}
