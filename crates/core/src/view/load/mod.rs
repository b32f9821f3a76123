//! Filling an empty view: one streaming scan over everything committed.
//!
//! Of secrets it takes the paths alone: with them a server can answer, and values come into memory as they are
//! asked for and behind a load (`warm`). So a secret's versions are passed over unopened.
//!
//! Kinds come in the order of their numbers, so mounts are there before their secrets (see `keys`). Three threads
//! share the work, in the order of the records: one reads them from the store, one opens them and makes of them
//! what the view holds (`prepare`), this one puts that in. What is held in the clear at a time is a record, the few
//! chunks that are no secrets, and the paths that wait for their index (`paths`). What is inside
//! namespaces comes last, one namespace after another, each into its own view.
//!
//! What is sorted is sorted at the end and built at once: ordered sets that grow by a million in no order
//! spend most of the time of a load looking for places.

mod paths;
mod prepare;

use std::ops::Deref;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{Builder, Scope, ScopedJoinHandle};

use kallisto_barrier::Keyring;
use kallisto_store::{Batch, Error as StoreError, Position, Record, Records, Seqno, Visit};
use zeroize::Zeroizing;

use super::View;
use super::fold::Folding;
use super::mounts::Mount;
use super::token_relations::GatheredTokens;
use crate::storage::barrier_store::BarrierRecords;
use crate::storage::keys::{self, MountId, NamespaceNumber, ParsedKey};
use crate::view::damaged::{DamagedRecord, unsound};
use paths::WaitingPaths;
use prepare::{PreparedItem, PreparedRecords, SecretPath};

/// Records between two progress lines in the log.
const PROGRESS_RECORDS: u64 = 250_000;
/// Records that go from one thread to the next together.
const CHUNK_RECORDS: usize = 512;
/// Chunks that may wait between two threads.
const CHUNKS_WAITING_MAX: usize = 4;

/// Some records as the store has them, one behind the other.
#[derive(Default)]
struct RecordChunk {
    bytes: Vec<u8>,
    /// Where in the bytes each key and each value ends, and the record's seqno.
    ends: Vec<(usize, usize, Seqno)>,
}

/// A scan under way.
struct Loading<'v> {
    root: Load<&'v View>,
    /// The namespace whose records come now; nothing is loaded of one that was deleted.
    inside: Option<(NamespaceNumber, Option<NamespaceLoad>)>,
    position: Position,
    records: u64,
}

/// The load of a namespace's view, which prepares by itself.
struct NamespaceLoad {
    load: Load<Arc<View>>,
    prepared: PreparedRecords,
}

/// What of a scan goes into one view.
struct Load<V> {
    view: V,
    paths: WaitingPaths,
    relations: GatheredTokens,
    leases: kallisto_leases::GatheredLeases,
    /// The mount asked for last: a mount's secrets come together.
    mount: Option<Arc<Mount>>,
}

impl View {
    /// Fills this empty view with everything in `records`.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] when a record cannot be read, [`StoreError::Damaged`] when one does
    /// not open or says nothing sound.
    pub(super) fn load(
        &self,
        position: Position,
        records: &dyn Records,
        keyring: &Keyring,
    ) -> Result<(), StoreError> {
        let (to_open, stored) = sync_channel(CHUNKS_WAITING_MAX);
        let (to_fold, opened) = sync_channel(CHUNKS_WAITING_MAX);
        let loaded = std::thread::scope(|scope| {
            let reader = start(scope, "load-read", move || read_all(records, &to_open))?;
            let opener = start(scope, "load-open", move || {
                open_all(self, &BarrierRecords::new(records, keyring), &stored, &to_fold)
            })?;
            let load = Loading { root: Load::new(self), inside: None, position, records: 0 };
            let clear = BarrierRecords::new(records, keyring);
            let folded = load.fold_all(opened, &clear);
            // Who fails ends the others, and what failed first is what there is to tell.
            ended(reader)?;
            ended(opener)?;
            folded.map_err(|damaged| unsound(&damaged))
        })?;
        tracing::info!(
            records = loaded,
            position = position.0,
            "view loaded, without the values of secrets"
        );
        Ok(())
    }
}

fn start<'s, T: Send + 's>(
    scope: &'s Scope<'s, '_>,
    name: &str,
    run: impl FnOnce() -> T + Send + 's,
) -> Result<ScopedJoinHandle<'s, T>, StoreError> {
    let started = Builder::new().name(name.to_owned()).spawn_scoped(scope, run);
    started.map_err(|error| StoreError::Unavailable(format!("no thread to load on: {error}")))
}

fn ended(thread: ScopedJoinHandle<'_, Result<(), StoreError>>) -> Result<(), StoreError> {
    let panicked = || StoreError::Unavailable("a thread of the load panicked".into());
    thread.join().map_err(|_| panicked())?
}

/// Reads everything but versions of secrets and hands it on, until nobody wants it any more.
fn read_all(records: &dyn Records, onward: &SyncSender<RecordChunk>) -> Result<(), StoreError> {
    let mut chunk = RecordChunk::default();
    records.scan_borrowed(&[], None, &mut |storage, seqno, value| {
        if keys::version_of(storage).is_some() {
            return Visit::Continue;
        }
        chunk.push(storage, seqno, value);
        if chunk.ends.len() < CHUNK_RECORDS {
            return Visit::Continue;
        }
        // The next one will be about as large.
        let next = RecordChunk::with_capacity(chunk.bytes.len() + chunk.bytes.len() / 16);
        let full = std::mem::replace(&mut chunk, next);
        if onward.send(full).is_ok() { Visit::Continue } else { Visit::Stop }
    })?;
    // Who does not want the rest has failed, and says so.
    let _ = onward.send(chunk);
    Ok(())
}

/// Opens what was read, prepares it for the view and hands it on.
fn open_all(
    view: &View,
    clear: &BarrierRecords<'_>,
    stored: &Receiver<RecordChunk>,
    onward: &SyncSender<PreparedRecords>,
) -> Result<(), StoreError> {
    let mut plain = Zeroizing::new(Vec::new());
    let mut prepared = PreparedRecords::default();
    for chunk in stored {
        for (storage, seqno, envelope) in chunk.records() {
            // Of a secret the path is wanted alone.
            let opened = match keys::is_kv_meta(storage) {
                true => Some((clear.open_key(storage, envelope, &mut plain)?, &[][..])),
                false => clear.open_into(storage, envelope, &mut plain)?,
            };
            let Some((key, value)) = opened else { continue };
            prepared.records += 1;
            let taken = prepared.take(view, key, seqno, value);
            taken.map_err(|damaged| unsound(&damaged))?;
        }
        // The next ones will come to about as much.
        let next = prepared.like();
        if onward.send(std::mem::replace(&mut prepared, next)).is_err() {
            return Ok(());
        }
    }
    // As above: who does not want it has failed.
    let _ = onward.send(prepared);
    Ok(())
}

impl RecordChunk {
    fn with_capacity(bytes: usize) -> Self {
        Self { bytes: Vec::with_capacity(bytes), ends: Vec::with_capacity(CHUNK_RECORDS) }
    }

    fn push(&mut self, key: &[u8], seqno: Seqno, value: &[u8]) {
        self.bytes.extend_from_slice(key);
        let key_end = self.bytes.len();
        self.bytes.extend_from_slice(value);
        self.ends.push((key_end, self.bytes.len(), seqno));
    }

    /// Key, seqno and value of each.
    fn records(&self) -> impl Iterator<Item = (&[u8], Seqno, &[u8])> {
        let mut start = 0;
        self.ends.iter().map(move |&(key_end, end, seqno)| {
            let record = (&self.bytes[start..key_end], seqno, &self.bytes[key_end..end]);
            start = end;
            record
        })
    }
}

impl Loading<'_> {
    /// Puts in what was prepared, and says of how many records it was.
    fn fold_all(
        mut self,
        opened: Receiver<PreparedRecords>,
        records: &BarrierRecords<'_>,
    ) -> Result<u64, DamagedRecord> {
        for mut prepared in &opened {
            for item in std::mem::take(&mut prepared.items) {
                match item {
                    PreparedItem::Other(key, record) => self.take(&key, &record, records)?,
                    item => self.root.put(item, &prepared, records)?,
                }
            }
            let before = self.records;
            self.records += prepared.records;
            if self.records / PROGRESS_RECORDS > before / PROGRESS_RECORDS {
                tracing::info!(records = self.records, "loading");
            }
        }
        self.end_inside()?;
        self.root.end(self.position)?;
        Ok(self.records)
    }

    /// Puts in a record that was not prepared: of a namespace, or of a kind that is folded as it is.
    fn take(
        &mut self,
        key: &[u8],
        record: &Record,
        records: &BarrierRecords<'_>,
    ) -> Result<(), DamagedRecord> {
        let ParsedKey::Inside(number, inner) = keys::parse(key) else {
            return self.root.take_other(key, record, records);
        };
        if self.inside.as_ref().is_none_or(|(known, _)| *known != number) {
            self.end_inside()?;
            let view = self.root.view.namespaces.view(number);
            self.inside = Some((number, view.map(NamespaceLoad::new)));
        }
        match &mut self.inside {
            Some((_, Some(inside))) => inside.take(inner, record, &records.inside(number)),
            _ => Ok(()),
        }
    }

    fn end_inside(&mut self) -> Result<(), DamagedRecord> {
        match self.inside.take() {
            Some((_, Some(inside))) => inside.end(self.position),
            _ => Ok(()),
        }
    }
}

impl NamespaceLoad {
    fn new(view: Arc<View>) -> Self {
        Self { load: Load::new(view), prepared: PreparedRecords::default() }
    }

    fn take(
        &mut self,
        key: &[u8],
        record: &Record,
        records: &BarrierRecords<'_>,
    ) -> Result<(), DamagedRecord> {
        let Self { load, prepared } = self;
        prepared.take(&load.view, key, record.seqno, &record.value)?;
        for item in std::mem::take(&mut prepared.items) {
            load.put(item, prepared, records)?;
        }
        prepared.clear();
        Ok(())
    }

    fn end(self, position: Position) -> Result<(), DamagedRecord> {
        self.load.end(position)
    }
}

impl<V: Deref<Target = View>> Load<V> {
    fn new(view: V) -> Self {
        Self {
            view,
            paths: WaitingPaths::default(),
            relations: GatheredTokens::default(),
            leases: kallisto_leases::GatheredLeases::default(),
            mount: None,
        }
    }

    fn end(mut self, position: Position) -> Result<(), DamagedRecord> {
        self.index_paths()?;
        self.view.tokens.settle(self.relations);
        if self.view.inside.is_none() {
            self.view.leases.settle(self.leases);
        }
        self.view.feed.start(position);
        Ok(())
    }

    fn put(
        &mut self,
        item: PreparedItem,
        prepared: &PreparedRecords,
        records: &BarrierRecords<'_>,
    ) -> Result<(), DamagedRecord> {
        match item {
            PreparedItem::One(secret) if self.view.is_versioned(secret.mount) => Ok(()),
            PreparedItem::Versioned(secret) | PreparedItem::One(secret) => {
                self.put_secret(&secret, prepared)
            }
            PreparedItem::Token(hash, live) => {
                let put = self.view.tokens.put_loaded(hash, live, &mut self.relations);
                put.map_err(|_| DamagedRecord("token over the table's limits"))
            }
            PreparedItem::Other(key, record) => self.take_other(&key, &record, records),
        }
    }

    fn put_secret(
        &mut self,
        secret: &SecretPath,
        prepared: &PreparedRecords,
    ) -> Result<(), DamagedRecord> {
        match self.mount(secret.mount) {
            Some(_) => self.take_path(secret.mount, prepared.path(secret)),
            None => Ok(()),
        }
    }

    fn take_other(
        &mut self,
        key: &[u8],
        record: &Record,
        records: &BarrierRecords<'_>,
    ) -> Result<(), DamagedRecord> {
        if let ParsedKey::EngineStorage(mount, name) = keys::parse(key) {
            self.view.put_shelf(mount, name, &record.value)?;
            return self.take_path(mount, name);
        }
        // Those of namespaces go into the same table one by one: sorting it again for each would take longer.
        if let (ParsedKey::Lease(id), None) = (keys::parse(key), &self.view.inside) {
            let gathered = self.view.leases.gather(id, &record.value, &mut self.leases);
            return gathered.then_some(()).ok_or(DamagedRecord("lease"));
        }
        let batch = Batch::new();
        let seqno = record.seqno;
        let mut at = Folding { seqno, batch: &batch, place: 0, records, changes: Vec::new() };
        self.view.fold_put(key, &record.value, &mut at)
    }

    /// The mount with an id, if there is one.
    fn mount(&mut self, id: MountId) -> Option<&Mount> {
        if self.mount.as_ref().is_none_or(|mount| mount.entry.id != id) {
            self.mount = self.view.mounts.with_id(id);
        }
        self.mount.as_deref()
    }

    fn take_path(&mut self, mount: MountId, path: &str) -> Result<(), DamagedRecord> {
        self.paths.push(mount, path);
        if self.paths.are_many() { self.index_paths() } else { Ok(()) }
    }

    fn index_paths(&mut self) -> Result<(), DamagedRecord> {
        let mut paths = std::mem::take(&mut self.paths);
        for of_mount in paths.sorted() {
            let Some(mount) = self.mount(of_mount.id()) else { continue };
            let filled = mount.index.fill(of_mount.iter());
            filled.map_err(|_| DamagedRecord("path over the index's limits"))?;
        }
        paths.clear();
        self.paths = paths;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use kallisto_store::RecordVisitor;

    use super::*;

    #[test]
    fn records_are_read_some_at_a_time_and_none_is_left_out() {
        use kallisto_store::{MemoryStore, Store};
        let store = MemoryStore::new();
        let mut batch = Batch::new();
        for at in 0..2 * CHUNK_RECORDS + 7 {
            batch.put(at.to_be_bytes().to_vec(), vec![1; 3]);
        }
        pollster::block_on(store.commit(batch)).unwrap();
        let (onward, stored) = sync_channel(9);
        read_all(&store, &onward).unwrap();
        drop(onward);
        let chunks: Vec<RecordChunk> = stored.into_iter().collect();
        let lengths: Vec<usize> = chunks.iter().map(|chunk| chunk.records().count()).collect();
        assert_eq!(lengths, [CHUNK_RECORDS, CHUNK_RECORDS, 7]);
        let keys = chunks.iter().flat_map(|chunk| chunk.records().map(|record| record.0));
        assert!(keys.enumerate().all(|(at, key)| key == at.to_be_bytes()));
    }

    /// Records that cannot be read.
    struct Unreadable;

    impl Records for Unreadable {
        fn get(&self, _: &[u8]) -> Result<Option<Record>, StoreError> {
            Ok(None)
        }

        fn scan(
            &self,
            _: &[u8],
            _: &mut dyn FnMut(&[u8], &Record) -> Visit,
        ) -> Result<(), StoreError> {
            Err(StoreError::Unavailable("a disk".into()))
        }

        fn scan_borrowed(
            &self,
            _: &[u8],
            _: Option<&[u8]>,
            _: &mut RecordVisitor<'_>,
        ) -> Result<(), StoreError> {
            Err(StoreError::Unavailable("a disk".into()))
        }

        fn approximate_len(&self) -> u64 {
            0
        }
    }

    fn empty_view() -> (View, Arc<Keyring>) {
        let keyring = Arc::new(Keyring::generate([1; 16], 0).unwrap());
        let keys = Arc::new(arc_swap::ArcSwap::new(Arc::clone(&keyring)));
        (View::new(1 << 30, keys, Vec::new()).unwrap(), keyring)
    }

    #[test]
    fn a_view_of_records_that_cannot_be_read_is_not_loaded() {
        let (view, keyring) = empty_view();
        let loaded = view.load(Position(1), &Unreadable, &keyring);
        assert_eq!(loaded, Err(StoreError::Unavailable("a disk".into())));
    }

    #[test]
    fn what_an_upgrade_passed_by_is_nobodys_after_a_load() {
        use crate::platform::server_info::RouteAccess;
        use crate::routes::tests::{ROOT, ask, open_core};
        let core = open_core(RouteAccess::Token);
        let data = r#"{"data":{"v":1}}"#;
        ask(&core, Some(ROOT), kallisto_auth::Operation::Update, "secret/data/a", data).unwrap();
        let context = core.context.load_full().unwrap();
        let (mount, _) = context.view.mounts.route("secret/").unwrap();
        let mut batch = Batch::new();
        batch
            .put(keys::kv_one(mount.entry.id, "late"), crate::records::kv::encode_one(None, b"{}"));
        let position = pollster::block_on(context.store.commit(batch)).unwrap();
        let keyring = Arc::clone(&context.view.keys);
        let fresh = View::new(1 << 20, Arc::clone(&keyring), Vec::new()).unwrap();
        fresh.load(position, &*core.store, &keyring.load()).unwrap();
        let (mount, _) = fresh.mounts.route("secret/").unwrap();
        assert!(mount.index.contains("a") && !mount.index.contains("late"));
        assert_eq!(fresh.hot_stats().0, 0, "a load reads no values");
    }
}
