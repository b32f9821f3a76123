//! The clear side of the barrier: records in logical keys and plaintext over a store of ciphertext.
//!
//! Everything above works with [`BarrierStore`] and [`BarrierRecords`]; everything below sees storage
//! keys and envelopes. A record's plaintext starts with its logical key, so that a scan can tell
//! whose record it met; its envelope is bound to its storage key, so that it opens nowhere else. A
//! delete carries the logical key sealed in its note, for the fold alone.
//!
//! Invariant: nothing passes from above to below in the clear, and no value from below is believed
//! before it was opened and its logical key was found to belong to its storage key.

use std::borrow::Cow;
use std::sync::Arc;

use arc_swap::ArcSwap;
use kallisto_barrier::Keyring;
use kallisto_store::{
    Batch, Commit, Error, GENERATION_KEY, Record, Records, Seqno, Store, StoreOp, Visit,
};
use kallisto_traces::SpanKind;

use crate::counts::Counts;
use crate::storage::envelopes::{self, KeyValue};
use crate::storage::keys::{self, NamespaceNumber, ParsedKey, StorageKeys, StoredSecretKey, kind};

/// The keys in use; replaced whole when they are rotated.
pub(crate) type KeysInUse = Arc<ArcSwap<Keyring>>;

/// A store seen from above the barrier, by one namespace: no key of another can be spelled.
pub(crate) struct BarrierStore {
    store: Arc<dyn Store>,
    keys: KeysInUse,
    /// Which restore the view was loaded after.
    generation: Seqno,
    counts: Counts<4>,
    /// `None` for the root namespace.
    inside: Option<NamespaceLife>,
}

/// That a namespace lives, as what is written inside depends on it: since which write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NamespaceLife {
    pub(crate) number: NamespaceNumber,
    pub(crate) since: Seqno,
}

/// A condition on a record of any namespace: the key as the root namespace spells it.
pub(crate) struct RecordCondition {
    key: Vec<u8>,
    seqno: Seqno,
}

/// Places of what is counted.
const GETS: usize = 0;
const PUTS: usize = 1;
const DELETES: usize = 2;
const SCANS: usize = 3;

impl BarrierStore {
    /// The clear side of `store`, for what a view that was loaded after the restore `generation` shows.
    pub(crate) fn new(store: Arc<dyn Store>, keys: KeysInUse, generation: Seqno) -> Self {
        Self { store, keys, generation, counts: Counts::default(), inside: None }
    }

    /// The same store as a namespace sees it.
    pub(crate) fn inside(&self, life: NamespaceLife) -> Self {
        Self {
            store: Arc::clone(&self.store),
            keys: Arc::clone(&self.keys),
            generation: self.generation,
            counts: Counts::default(),
            inside: Some(life),
        }
    }

    /// That the record under a key of this namespace was last written at `seqno`.
    pub(crate) fn condition(&self, key: &[u8], seqno: Seqno) -> RecordCondition {
        let key = absolute(self.inside.map(|life| life.number), key).into_owned();
        RecordCondition { key, seqno }
    }

    /// Records read, written and deleted, and scans, since the server was unsealed.
    pub(crate) fn counts(&self) -> [u64; 4] {
        self.counts.sums()
    }

    /// The record under a logical key.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when it cannot be read, [`Error::Damaged`] when it does not open.
    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<Record>, Error> {
        self.counts.add(GETS, 1);
        self.records(&self.keys.load()).get(key)
    }

    /// About how many bytes the record under a logical key has: what reading it takes. It is not opened.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when it cannot be read.
    pub(crate) fn size_of(&self, key: &[u8]) -> Result<Option<usize>, Error> {
        let keyring = self.keys.load();
        let records = self.records(&keyring);
        let key = absolute(records.inside, key);
        let record = records.records.get(&records.keys.of(&key))?;
        Ok(record.map(|record| record.value.len()))
    }

    /// One of its [`BarrierStore::records`], of at most so many bytes: a longer one is not opened.
    ///
    /// # Errors
    /// As [`BarrierStore::get`]; [`Error::TooLarge`].
    pub(crate) fn get_within(
        &self,
        records: &BarrierRecords<'_>,
        key: &[u8],
        bytes_max: usize,
    ) -> Result<Option<Record>, Error> {
        self.counts.add(GETS, 1);
        records.get_within(key, bytes_max)
    }

    /// The records under these keys.
    pub(crate) fn records<'a>(&'a self, keyring: &'a Keyring) -> BarrierRecords<'a> {
        let records = BarrierRecords::new(&*self.store, keyring);
        BarrierRecords { inside: self.inside.map(|life| life.number), ..records }
    }

    /// The logical key and record under a storage key.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when it cannot be read, [`Error::Damaged`] when it does not open.
    pub(crate) fn get_stored(&self, storage: &[u8]) -> Result<Option<(Vec<u8>, Record)>, Error> {
        let Some(record) = self.store.get(storage)? else { return Ok(None) };
        let (key, value) =
            envelopes::open_checked(storage, &record.value, &StorageKeys::new(&self.keys.load()))?;
        Ok(Some((key, Record { value, seqno: record.seqno })))
    }

    /// Visits the records under a prefix of *storage* keys by their logical keys.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when one cannot be read, [`Error::Damaged`] when one does not open.
    pub(crate) fn scan(
        &self,
        prefix: &[u8],
        visit: &mut dyn FnMut(&[u8], &Record) -> Visit,
    ) -> Result<(), Error> {
        self.counts.add(SCANS, 1);
        self.records(&self.keys.load()).scan(prefix, visit)
    }

    /// Whether it is the store of a namespace below the root one.
    pub(crate) const fn is_inside(&self) -> bool {
        self.inside.is_some()
    }

    /// Seals a batch of logical keys and plaintext and commits it, if the namespace lives.
    pub(crate) fn commit(&self, batch: Batch) -> Commit {
        self.commit_if(batch, None)
    }

    /// The same, if a condition holds besides.
    pub(crate) fn commit_if(&self, batch: Batch, condition: Option<RecordCondition>) -> Commit {
        let mut batch = self.spelled_by_root(batch);
        if let Some(RecordCondition { key, seqno }) = condition {
            batch.expect(key, seqno);
        }
        self.commit_spelled(&batch)
    }

    /// Commits a batch of this namespace and one of the root namespace as one.
    pub(crate) fn commit_beside(&self, batch: Batch, of_root: &Batch) -> Commit {
        let mut batch = self.spelled_by_root(batch);
        for expectation in of_root.expectations() {
            batch.expect(expectation.key.clone(), expectation.seqno);
        }
        for op in of_root.ops() {
            match op {
                StoreOp::Put { key, value } => batch.put(key.clone(), value.clone()),
                StoreOp::Delete { key, note } => batch.delete_noted(key.clone(), note.clone()),
            };
        }
        self.commit_spelled(&batch)
    }

    fn spelled_by_root(&self, batch: Batch) -> Batch {
        match self.inside {
            Some(life) => moved_inside(&batch, life),
            None => batch,
        }
    }

    fn commit_spelled(&self, batch: &Batch) -> Commit {
        match seal_batch(batch, &self.keys.load()) {
            Ok(sealed) => self.commit_sealed(sealed),
            Err(error) => Commit::decided(Err(error)),
        }
    }

    /// Commits what was sealed.
    pub(crate) fn commit_sealed(&self, mut sealed: Batch) -> Commit {
        let puts = sealed.ops().iter().filter(|op| matches!(op, StoreOp::Put { .. })).count();
        self.counts.add(PUTS, puts as u64);
        self.counts.add(DELETES, (sealed.ops().len() - puts) as u64);
        // What was decided on a state that a backup took the place of comes to nothing.
        sealed.expect(GENERATION_KEY.to_vec(), self.generation);
        match kallisto_traces::child("commit", SpanKind::Internal) {
            None => self.store.commit(sealed),
            Some(span) => self.store.commit(sealed).watched(span),
        }
    }

    /// Which restore the view was loaded after.
    pub(crate) const fn generation(&self) -> Seqno {
        self.generation
    }

    /// The store below.
    pub(crate) fn below(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// The term in which this server leads or follows; always the same where nobody else does.
    pub(crate) fn term(&self) -> u64 {
        self.store.replicated().map_or(1, |cluster| cluster.leadership().term.max(1))
    }

    /// The keys in use.
    pub(crate) const fn keys(&self) -> &KeysInUse {
        &self.keys
    }
}

/// Records seen from above the barrier.
pub(crate) struct BarrierRecords<'a> {
    records: &'a dyn Records,
    keys: StorageKeys<'a>,
    /// Whose keys they are; `None` for all, as the root namespace spells them.
    inside: Option<NamespaceNumber>,
}

impl<'a> BarrierRecords<'a> {
    pub(crate) fn new(records: &'a dyn Records, keyring: &'a Keyring) -> Self {
        Self { records, keys: StorageKeys::new(keyring), inside: None }
    }

    /// The same records as a namespace sees them.
    pub(crate) fn inside(&self, number: NamespaceNumber) -> Self {
        let keys = StorageKeys::new(self.keys.keyring());
        Self { records: self.records, keys, inside: Some(number) }
    }

    /// The same records, of which a secret's name is known: by the logical key of its metadata, and the storage key.
    pub(crate) fn knowing(self, kv_meta: &[u8], storage: &StoredSecretKey) -> Self {
        let keys = StorageKeys::knowing(self.keys.keyring(), kv_meta, storage);
        Self { keys, ..self }
    }

    /// The batch that the store gets for a batch of logical keys and plaintext.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when there is no randomness, [`Error::TooLarge`].
    pub(crate) fn seal(&self, batch: &Batch) -> Result<Batch, Error> {
        seal_batch_by(batch, &self.keys)
    }

    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<Record>, Error> {
        self.get_within(key, usize::MAX)
    }

    fn get_within(&self, key: &[u8], bytes_max: usize) -> Result<Option<Record>, Error> {
        let key = absolute(self.inside, key);
        let storage = self.keys.of(&key);
        let Some(record) = self.records.get(&storage)? else { return Ok(None) };
        if record.value.len() > bytes_max {
            return Err(Error::TooLarge("bytes of a record"));
        }
        let (found, value) = envelopes::open(&storage, &record.value, self.keys.keyring())?;
        if found != *key {
            return Err(envelopes::damaged(&storage, "it holds another record's key"));
        }
        Ok(Some(Record { value, seqno: record.seqno }))
    }

    /// The logical key and record of what the store has under a storage key; `None` for what the barrier
    /// keeps for itself.
    pub(crate) fn open(
        &self,
        storage: &[u8],
        record: &Record,
    ) -> Result<Option<(Vec<u8>, Record)>, Error> {
        if storage.first() == Some(&kind::BARRIER) {
            return Ok(None);
        }
        let (key, value) = envelopes::open_checked(storage, &record.value, &self.keys)?;
        Ok(Some((key, Record { value, seqno: record.seqno })))
    }

    /// The same from bytes into a buffer that is used for one record after another: whatever it held is
    /// overwritten, and key and value are found in it.
    pub(crate) fn open_into<'p>(
        &self,
        storage: &[u8],
        envelope: &[u8],
        plain: &'p mut Vec<u8>,
    ) -> Result<Option<KeyValue<'p>>, Error> {
        if storage.first() == Some(&kind::BARRIER) {
            return Ok(None);
        }
        let (key, value) = self.open_bound(storage, envelope, plain)?;
        if self.keys.of(key) != storage {
            return Err(envelopes::damaged(storage, "its key belongs elsewhere"));
        }
        Ok(Some((key, value)))
    }

    /// The logical key of a record of which nothing else is wanted now. Its name is not hidden anew to be compared with the
    /// storage key: the envelope was made for that, and whoever reads the record by its name looks where the name says.
    pub(crate) fn open_key<'p>(
        &self,
        storage: &[u8],
        envelope: &[u8],
        plain: &'p mut Vec<u8>,
    ) -> Result<&'p [u8], Error> {
        self.open_bound(storage, envelope, plain).map(|(key, _)| key)
    }

    /// What an envelope holds that was made for a storage key.
    fn open_bound<'p>(
        &self,
        storage: &[u8],
        envelope: &[u8],
        plain: &'p mut Vec<u8>,
    ) -> Result<KeyValue<'p>, Error> {
        plain.clear();
        plain.reserve(envelope.len());
        let keyring = self.keys.keyring();
        keyring
            .open_record(storage, envelope, plain)
            .map_err(|error| envelopes::unopened(storage, &error, keyring))?;
        envelopes::split(storage, plain)
    }

    pub(crate) fn scan(
        &self,
        prefix: &[u8],
        visit: &mut dyn FnMut(&[u8], &Record) -> Visit,
    ) -> Result<(), Error> {
        let mut failed = None;
        let prefix = absolute(self.inside, prefix);
        self.records.scan(&prefix, &mut |storage, record| match self.open(storage, record) {
            Ok(None) => Visit::Continue,
            Ok(Some((key, record))) => {
                let key = match (self.inside, keys::parse(&key)) {
                    (Some(_), ParsedKey::Inside(_, inner)) => inner,
                    _ => &key,
                };
                visit(key, &record)
            }
            Err(error) => {
                failed = Some(error);
                Visit::Stop
            }
        })?;
        failed.map_or(Ok(()), Err)
    }
}

/// A key of a namespace as the root namespace spells it.
fn absolute(inside: Option<NamespaceNumber>, key: &[u8]) -> Cow<'_, [u8]> {
    match inside {
        Some(number) if !keys::is_shared(key) => keys::inside(number, key).into(),
        Some(_) | None => key.into(),
    }
}

/// A namespace's batch as the root namespace spells it, which commits only while the namespace lives.
fn moved_inside(batch: &Batch, life: NamespaceLife) -> Batch {
    let key_of = |key: &[u8]| absolute(Some(life.number), key).into_owned();
    let mut moved = Batch::new();
    moved.set_need(batch.need());
    moved.expect(keys::namespace_life(life.number), life.since);
    for expectation in batch.expectations() {
        moved.expect(key_of(&expectation.key), expectation.seqno);
    }
    for op in batch.ops() {
        match op {
            StoreOp::Put { key, value } => moved.put(key_of(key), value.clone()),
            StoreOp::Delete { key, note } => moved.delete_noted(key_of(key), note.clone()),
        };
    }
    moved
}

/// The batch that the store gets for a batch of logical keys and plaintext.
pub(crate) fn seal_batch(batch: &Batch, keyring: &Keyring) -> Result<Batch, Error> {
    seal_batch_by(batch, &StorageKeys::new(keyring))
}

/// The same with these storage keys.
fn seal_batch_by(batch: &Batch, keys: &StorageKeys<'_>) -> Result<Batch, Error> {
    let mut sealed = Batch::new();
    sealed.set_need(batch.need());
    let mut expectations = batch.expectations().iter().peekable();
    for op in batch.ops() {
        let (StoreOp::Put { key, .. } | StoreOp::Delete { key, .. }) = op;
        let storage = keys.of(key);
        // Most records are expected as they were before they change, in the order in which they do; a name is hidden once.
        if let Some(expected) = expectations.next_if(|expected| expected.key == *key) {
            sealed.expect(storage.clone(), expected.seqno);
        }
        match op {
            StoreOp::Put { key, value } => {
                let envelope = envelopes::seal(&storage, key, value, keys.keyring())?;
                sealed.put(storage, envelope);
            }
            StoreOp::Delete { key, .. } => {
                let note = envelopes::seal(&storage, key, &[], keys.keyring())?;
                sealed.delete_noted(storage, note);
            }
        }
    }
    for expected in expectations {
        sealed.expect(keys.of(&expected.key), expected.seqno);
    }
    Ok(sealed)
}

/// The batch of logical keys and plaintext that a committed batch holds, for a view. What the barrier keeps
/// for itself is left out, and so are versions that go: nothing shows them but the metadata that goes on without them.
///
/// # Errors
/// [`Error::Damaged`] naming the first record that does not open.
pub(crate) fn open_batch(batch: &Batch, keyring: &Keyring) -> Result<Batch, Error> {
    let keys = StorageKeys::new(keyring);
    let mut clear = Batch::new();
    for op in batch.ops() {
        let (storage, bytes) = match op {
            StoreOp::Put { key, value } => (key, value),
            StoreOp::Delete { key, note } => (key, note),
        };
        let goes = matches!(op, StoreOp::Delete { .. });
        if storage.first() == Some(&kind::BARRIER) || (goes && keys::version_of(storage).is_some())
        {
            continue;
        }
        let (key, value) = envelopes::open_checked(storage, bytes, &keys)?;
        match op {
            StoreOp::Put { .. } => clear.put(key, value),
            StoreOp::Delete { .. } => clear.delete(key),
        };
    }
    Ok(clear)
}

#[cfg(test)]
mod tests {
    use crate::platform::server_info::RouteAccess;
    use crate::routes::tests::open_core;
    use crate::storage::keys::{self, MountId};

    use super::*;

    /// Found by the simulator (`--core`, seed 62030): a server that missed a rotation and was sent the state from after it.
    #[test]
    fn a_record_under_a_key_of_the_future_is_not_damaged() {
        let core = open_core(RouteAccess::Token);
        let old = core.context.load_full().unwrap().store.keys().load_full();
        let new = old.rotated(0).unwrap();
        let key = keys::storage(MountId::CUBBYHOLE, "a");
        let storage = StorageKeys::new(&new).of(&key);
        let envelope = envelopes::seal(&storage, &key, b"value", &new).unwrap();
        assert_eq!(envelopes::open(&storage, &envelope, &new).unwrap().1, &b"value"[..]);
        let early = envelopes::open(&storage, &envelope, &old);
        assert!(matches!(early, Err(Error::Unavailable(_))), "{early:?}");
        let mut wrong = envelopes::seal(&storage, &key, b"value", &old).unwrap();
        *wrong.last_mut().unwrap() ^= 1;
        for keyring in [&*old, &new] {
            let damaged = envelopes::open(&storage, &wrong, keyring);
            assert!(matches!(damaged, Err(Error::Damaged(_))), "{damaged:?}");
        }
    }

    #[test]
    fn all_that_a_batch_expects_is_expected_of_what_is_stored() {
        let core = open_core(RouteAccess::Token);
        let keyring = core.context.load_full().unwrap().store.keys().load_full();
        let storage = StorageKeys::new(&keyring);
        let key = |name: &str| keys::storage(MountId::CUBBYHOLE, name);
        for order in [["a", "b", "c"], ["c", "a", "b"], ["elsewhere", "a", "c"], ["b", "b", "a"]] {
            let mut batch = Batch::new();
            for (name, seqno) in order.iter().zip(1..) {
                batch.expect(key(name), Seqno(seqno));
            }
            batch.put(key("a"), vec![1]).delete(key("b")).put(key("c"), vec![2]);
            let sealed = seal_batch(&batch, &keyring).unwrap();
            let sorted = |batch: &Batch, of: &dyn Fn(&[u8]) -> Vec<u8>| {
                let expected = batch.expectations().iter();
                let mut all: Vec<_> = expected.map(|one| (of(&one.key), one.seqno)).collect();
                all.sort();
                all
            };
            let expected = sorted(&batch, &|key| storage.of(key));
            assert_eq!(sorted(&sealed, &<[u8]>::to_vec), expected, "{order:?}");
            assert_eq!(open_batch(&sealed, &keyring).unwrap().ops().len(), 3);
        }
    }

    #[test]
    fn records_that_are_read_written_and_deleted_are_counted() {
        let core = open_core(RouteAccess::Token);
        let context = core.context.load_full().unwrap();
        let store = &context.store;
        let since = |before: [u64; 4]| {
            let after = store.counts();
            [GETS, PUTS, DELETES, SCANS].map(|at| after[at] - before[at])
        };
        let (a, b, c) = (
            keys::storage(MountId::CUBBYHOLE, "a"),
            keys::storage(MountId::CUBBYHOLE, "b"),
            keys::storage(MountId::CUBBYHOLE, "c"),
        );
        let before = store.counts();
        let mut batch = Batch::new();
        batch.put(a.clone(), vec![1]);
        batch.put(b, vec![2]);
        batch.delete(c);
        pollster::block_on(store.commit(batch)).unwrap();
        assert_eq!(since(before), [0, 2, 1, 0]);
        assert_eq!(store.get(&a).unwrap().unwrap().value, vec![1]);
        assert_eq!(since(before), [1, 2, 1, 0]);
        store.scan(&[keys::kind::CLUSTER], &mut |_, _| Visit::Continue).unwrap();
        assert_eq!(since(before), [1, 2, 1, 1]);
    }
}
