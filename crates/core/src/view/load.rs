//! Filling an empty view: one streaming scan over everything committed.
//!
//! Kinds come in the order of their numbers, so mounts are there before their secrets, and a
//! secret's metadata is followed by its versions (see `keys`). Three threads share the work, in the
//! order of the records: one reads them from the store, one opens them, this one folds them. What is
//! held in the clear at a time is a few chunks, and the paths that wait for their index. What is inside
//! namespaces comes last, one namespace after another, each into its own view.

use std::ops::{Deref, Range};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{Builder, Scope, ScopedJoinHandle};

use kallisto_barrier::Keyring;
use kallisto_cuckoo::Hand;
use kallisto_store::{Batch, Error as StoreError, Position, Record, Records, Visit};

use super::View;
use super::fold::{Damaged, Folding};
use crate::clear::ClearRecords;
use crate::keys::{self, MountId, NamespaceNumber, Parsed};
use crate::kv::record::Metadata;

/// Records between two looks at the memory budget.
const BUDGET_RECORDS: u64 = 1024;
/// Paths sorted at a time; bounds the memory of the load.
const PATHS_MAX: usize = 1 << 18;
/// Records between two progress lines in the log.
const PROGRESS_RECORDS: u64 = 250_000;
/// Records that go from one thread to the next together.
const CHUNK_RECORDS: usize = 256;
/// Chunks that may wait between two threads.
const CHUNKS_WAITING_MAX: usize = 4;

/// Some records and their keys: storage keys before they are opened, logical ones after.
type Chunk = Vec<(Vec<u8>, Record)>;

/// A secret whose metadata was met and whose current version comes next.
struct Pending {
    mount: MountId,
    path: String,
    metadata: Metadata,
}

/// A scan under way.
struct Loading<'v> {
    root: Load<&'v View>,
    /// The namespace whose records come now; nothing is loaded of one that was deleted.
    inside: Option<(NamespaceNumber, Option<Load<Arc<View>>>)>,
    position: Position,
}

/// What of a scan goes into one view.
struct Load<V> {
    view: V,
    pending: Option<Pending>,
    records: u64,
    hand: Hand,
    paths: Paths,
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
                open_all(&ClearRecords::new(records, keyring), &stored, &to_fold)
            })?;
            let load = Loading { root: Load::new(self), inside: None, position };
            let folded = load.fold_all(opened, &ClearRecords::new(records, keyring));
            // Who fails ends the others, and what failed first is what there is to tell.
            ended(reader)?;
            ended(opener)?;
            folded.map_err(|Damaged(what)| {
                StoreError::Damaged(format!("a record says nothing sound: {what}"))
            })
        })?;
        tracing::info!(records = loaded, position = position.0, "view loaded");
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

/// Reads everything and hands it on, until nobody wants it any more.
fn read_all(records: &dyn Records, onward: &SyncSender<Chunk>) -> Result<(), StoreError> {
    let mut chunk = Chunk::with_capacity(CHUNK_RECORDS);
    records.scan(&[], &mut |storage, record| {
        chunk.push((storage.to_vec(), record.clone()));
        if chunk.len() < CHUNK_RECORDS {
            return Visit::Continue;
        }
        let full = std::mem::replace(&mut chunk, Chunk::with_capacity(CHUNK_RECORDS));
        if onward.send(full).is_ok() { Visit::Continue } else { Visit::Stop }
    })?;
    // Who does not want the rest has failed, and says so.
    let _ = onward.send(chunk);
    Ok(())
}

/// Opens what was read and hands it on.
fn open_all(
    clear: &ClearRecords<'_>,
    stored: &Receiver<Chunk>,
    onward: &SyncSender<Chunk>,
) -> Result<(), StoreError> {
    for chunk in stored {
        let mut opened = Chunk::with_capacity(chunk.len());
        for (storage, record) in chunk {
            opened.extend(clear.open(&storage, &record)?);
        }
        if onward.send(opened).is_err() {
            break;
        }
    }
    Ok(())
}

impl Loading<'_> {
    /// Folds what was opened, and says how many records it was.
    fn fold_all(
        mut self,
        opened: Receiver<Chunk>,
        records: &ClearRecords<'_>,
    ) -> Result<u64, Damaged> {
        for chunk in &opened {
            for (key, record) in &chunk {
                self.take(key, record, records)?;
            }
        }
        self.end_inside()?;
        self.root.end(self.position)?;
        Ok(self.root.records)
    }

    fn take(
        &mut self,
        key: &[u8],
        record: &Record,
        records: &ClearRecords<'_>,
    ) -> Result<(), Damaged> {
        let Parsed::Inside(number, inner) = keys::parse(key) else {
            return self.root.take(key, record, records);
        };
        if self.inside.as_ref().is_none_or(|(known, _)| *known != number) {
            self.end_inside()?;
            let view = self.root.view.namespaces.view(number);
            self.inside = Some((number, view.map(Load::new)));
        }
        match &mut self.inside {
            Some((_, Some(load))) => load.take(inner, record, &records.inside(number)),
            _ => Ok(()),
        }
    }

    fn end_inside(&mut self) -> Result<(), Damaged> {
        match self.inside.take() {
            Some((_, Some(mut load))) => load.end(self.position),
            _ => Ok(()),
        }
    }
}

impl<V: Deref<Target = View>> Load<V> {
    fn new(view: V) -> Self {
        Self { view, pending: None, records: 0, hand: Hand::default(), paths: Paths::default() }
    }

    fn end(&mut self, position: Position) -> Result<(), Damaged> {
        self.settle()?;
        self.index_paths()?;
        self.view.feed.start(position);
        Ok(())
    }

    fn take(
        &mut self,
        key: &[u8],
        record: &Record,
        records: &ClearRecords<'_>,
    ) -> Result<(), Damaged> {
        let value = &*record.value;
        self.records += 1;
        if self.records.is_multiple_of(BUDGET_RECORDS) {
            self.view.keep_to_budget(&mut self.hand);
        }
        if self.records.is_multiple_of(PROGRESS_RECORDS) {
            tracing::info!(records = self.records, "loading");
        }
        match keys::parse(key) {
            Parsed::KvVersion(mount, path, version) => {
                self.take_version(mount, path, version, value)
            }
            Parsed::KvMeta(mount, path) => {
                self.settle()?;
                let metadata = Metadata::decode(value).map_err(|_| Damaged("kv metadata"))?;
                self.pending = Some(Pending { mount, path: path.to_owned(), metadata });
                Ok(())
            }
            Parsed::KvOne(mount, _) if self.view.is_versioned(mount) => Ok(()),
            Parsed::KvOne(mount, path) => {
                self.settle()?;
                self.view.put_one(mount, path, record.seqno, value)?;
                self.take_path(mount, path)
            }
            Parsed::Shelf(mount, name) => {
                self.settle()?;
                self.view.put_shelf(mount, name, value)?;
                self.take_path(mount, name)
            }
            _ => {
                self.settle()?;
                let batch = Batch::new();
                let mut at =
                    Folding { seqno: record.seqno, batch: &batch, records, changes: Vec::new() };
                self.view.fold_put(key, value, &mut at)
            }
        }
    }

    /// Completes the pending secret if this is its current version; others stay in the store.
    fn take_version(
        &mut self,
        mount: MountId,
        path: &str,
        version: u64,
        value: &[u8],
    ) -> Result<(), Damaged> {
        let current = self.pending.take_if(|pending| {
            pending.mount == mount
                && pending.path == path
                && pending.metadata.current_version == version
        });
        match current {
            Some(Pending { metadata, .. }) => {
                let live = metadata.version(version).is_some_and(|info| !info.destroyed);
                self.view.put_secret(mount, path, &metadata, live.then_some(value))?;
                self.take_path(mount, path)
            }
            None => Ok(()),
        }
    }

    /// Ends a secret whose current version has no record: destroyed, or metadata alone.
    fn settle(&mut self) -> Result<(), Damaged> {
        let Some(Pending { mount, path, metadata }) = self.pending.take() else { return Ok(()) };
        let current = metadata.version(metadata.current_version);
        if current.is_some_and(|info| !info.destroyed) {
            return Err(Damaged("kv version missing"));
        }
        self.view.put_secret(mount, &path, &metadata, None)?;
        self.take_path(mount, &path)
    }

    /// Keeps a path for its index. Records come in the order of hidden names, which is none; sorted
    /// paths go into an index several times faster.
    fn take_path(&mut self, mount: MountId, path: &str) -> Result<(), Damaged> {
        self.paths.push(mount, path);
        if self.paths.places.len() < PATHS_MAX { Ok(()) } else { self.index_paths() }
    }

    fn index_paths(&mut self) -> Result<(), Damaged> {
        let Self { view, paths, .. } = self;
        paths.sorted().try_for_each(|(mount, path)| view.put_path(mount, path))?;
        paths.clear();
        Ok(())
    }
}

/// Paths that are in the table and not in their index yet: one text, and where in it they are. A
/// text for each would leave the memory they took in pieces.
#[derive(Default)]
struct Paths {
    text: String,
    places: Vec<(MountId, Range<usize>)>,
}

impl Paths {
    fn push(&mut self, mount: MountId, path: &str) {
        let start = self.text.len();
        self.text.push_str(path);
        self.places.push((mount, start..self.text.len()));
    }

    /// All of them, by mount and path.
    fn sorted(&mut self) -> impl Iterator<Item = (MountId, &str)> {
        let Self { text, places } = self;
        let text = &*text;
        let path = move |place: &Range<usize>| &text[place.clone()];
        places.sort_unstable_by(|a, b| (a.0, path(&a.1)).cmp(&(b.0, path(&b.1))));
        places.iter().map(move |(mount, place)| (*mount, path(place)))
    }

    fn clear(&mut self) {
        self.text.clear();
        self.places.clear();
    }
}
