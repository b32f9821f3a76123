//! `sys/storage/raft/snapshot-load`: a snapshot next to the running state.
//!
//! The file is read as it comes. What can be recovered of it (mounts, namespaces and the secrets of KV) stays in memory as it is stored,
//! which is ciphertext; the rest is checked and forgotten. When the file has proven whole, a view is built over those records as
//! unsealing builds one, and reads go to it by the same handlers.
//!
//! It comes as the body of a request, or from where a schedule puts its snapshots, with the credentials that the schedule has.
//!
//! The keyring of the snapshot opens under the root key of the cluster, which a rekey and a rotation leave as it is. So any snapshot of
//! this cluster can be loaded, and none of another.

use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwap;
use bytes::Bytes;
use jiff::Timestamp;
use kallisto_backup::{FilePart, FileReader, TAG};
use kallisto_barrier::Keyring;
use kallisto_store::{Batch, MemoryStore, Store};
use tokio::sync::oneshot;

use super::schedule::ScheduledFile;
use crate::api::BoxFuture;
use crate::api::error::Error;
use crate::api::json::{self, Json, Map};
use crate::api::response::{Response, Upload};
use crate::limits::{LOADED_BYTES_MAX, LOADED_RECORD_BYTES, LOADED_SECS};
use crate::platform::snapshot_storage::SnapshotStorage;
use crate::platform::threads::{give_way, outcome_of};
use crate::random::make_uuid;
use crate::state::Core;
use crate::state::loaded::{LoadedSnapshot, LoadingSnapshot};
use crate::storage::barrier_store::{BarrierStore, KeysInUse};
use crate::storage::keys::{self, kind};
use crate::storage::latches::Latches;
use crate::storage::reencryption::Reencryption;
use crate::view::{NamespaceContext, View, ViewFold};

/// Records that go into the memory together.
const RECORDS_TOGETHER: usize = 1024;
/// Bytes of a stored file that are read at once.
const READ_BYTES: usize = 1 << 20;
/// What the view of a snapshot may keep decoded; the rest is read from its records.
const HOT_BYTES_MAX: usize = 1 << 20;
/// Bytes of a namespace's number, behind which its keys have their kind.
const NUMBER_BYTES: usize = 4;

const OTHER_KEYS: &str =
    "its keys do not open under this cluster's root key: it is of another cluster";

/// What a snapshot's context is made of, besides its own.
struct ContextParts {
    live: LiveParts,
    keys: KeysInUse,
    store: Arc<MemoryStore>,
}

/// What it shares with the running state. The context itself is not held: sealing waits for whoever does.
struct LiveParts {
    root: Arc<kallisto_barrier::RootKey>,
    ticket_secret: Arc<kallisto_barrier::SecretKey>,
    info: Arc<crate::platform::server_info::ServerInfo>,
    services: Arc<crate::platform::engine_services::EngineServices>,
    threads: Arc<dyn crate::platform::threads::Threads>,
    leases: crate::records::mount::LeaseTimes,
}

/// A snapshot on its way in.
struct SnapshotLoad {
    loading: LoadingSnapshot,
    live: LiveParts,
    now: Timestamp,
    reader: FileReader,
    meta: Map,
    keys: Option<KeysInUse>,
    is_ours: bool,
    store: Arc<MemoryStore>,
    records: u64,
    bytes: usize,
}

/// Begins to load: the answer takes the file.
///
/// # Errors
/// [`Error::Invalid`] while another snapshot is loaded.
pub(crate) fn begin(
    core: &Core,
    context: &NamespaceContext,
    now: Timestamp,
) -> Result<Response, Error> {
    Ok(Response::Upload(Box::new(SnapshotLoad::begin(core, context, now)?)))
}

/// Loads a file of a schedule, from where that puts its files; the answer comes when it is loaded.
///
/// # Errors
/// [`Error::Invalid`] while another snapshot is loaded and for a file that is none, [`Error::Unavailable`] where it cannot be read.
pub(crate) async fn load_scheduled(
    core: &Core,
    context: &NamespaceContext,
    file: ScheduledFile,
    now: Timestamp,
) -> Result<Response, Error> {
    let stored = core.services.snapshots().cloned().ok_or(Error::UnsupportedPath)?;
    let mut load = SnapshotLoad::begin(core, context, now)?;
    let threads = Arc::clone(&load.live.threads);
    let (tell, told) = oneshot::channel();
    let run = move || {
        give_way();
        let read = read_all(&mut load, &*stored, &file, &tell);
        // Nobody may be left to hear it.
        let _ = tell.send(read.map(|()| load));
    };
    let started = threads.start("snapshot-load", Box::new(run));
    started.map_err(|error| Error::Unavailable(format!("no thread to load on: {error}")))?;
    let load = told.await.map_err(|_| Error::internal(&"loading ended early"))??;
    load.open().await
}

/// Reads a stored file to its end, unless nobody waits for it any more.
fn read_all<T>(
    load: &mut SnapshotLoad,
    stored: &dyn SnapshotStorage,
    file: &ScheduledFile,
    tell: &oneshot::Sender<T>,
) -> Result<(), Error> {
    let unread = |why: &dyn fmt::Display| {
        Error::Unavailable(format!("{} is not read from where it is stored: {why}", file.name))
    };
    let found = stored.list(&file.target, &file.name).map_err(|why| unread(&why))?;
    let found = found.into_iter().find(|found| found.name == file.name);
    let found = found.ok_or_else(|| Error::invalid(format!("{} is not there", file.name)))?;
    let mut from =
        stored.open(&file.target, &file.name, found.bytes).map_err(|why| unread(&why))?;
    let threads = Arc::clone(&load.live.threads);
    let mut buffer = vec![0; READ_BYTES];
    while !tell.is_closed() {
        let read = from.read(&mut buffer).map_err(|why| unread(&why))?;
        if read == 0 {
            break;
        }
        let taken = outcome_of(&*threads, load.take_bytes(buffer.get(..read).unwrap_or_default()));
        taken.ok_or_else(|| Error::internal(&"no outcome"))??;
    }
    Ok(())
}

impl SnapshotLoad {
    /// Takes the place for a snapshot that comes.
    fn begin(core: &Core, context: &NamespaceContext, now: Timestamp) -> Result<Self, Error> {
        let live = LiveParts {
            root: Arc::clone(&context.root),
            ticket_secret: Arc::clone(&context.ticket_secret),
            info: Arc::clone(&context.info),
            services: Arc::clone(&context.services),
            threads: Arc::clone(&context.threads),
            leases: context.leases,
        };
        Ok(Self {
            loading: core.loaded.begin(make_uuid()?)?,
            live,
            now,
            reader: FileReader::default(),
            meta: Map::new(),
            keys: None,
            is_ours: false,
            store: Arc::new(MemoryStore::new()),
            records: 0,
            bytes: 0,
        })
    }
}

/// The loaded snapshots, by their ids.
pub(crate) fn list(core: &Core, now: Timestamp) -> Result<Response, Error> {
    let (id, _) = core.loaded.current(now).ok_or(Error::NotFound)?;
    Ok(Response::data(&Json::object([("keys", Json::Array(vec![id.into()]))])))
}

/// What is loaded under an id.
pub(crate) fn read(core: &Core, id: &str, now: Timestamp) -> Result<Response, Error> {
    match core.loaded.current(now) {
        Some((current, true)) if current == id => Ok(Response::data(&Json::object([
            ("snapshot_id", id.into()),
            ("status", "loading".into()),
        ]))),
        Some((current, false)) if current == id => {
            let found = core.loaded.find(id, now)?;
            Ok(shown(&found))
        }
        _ => Err(Error::NotFound),
    }
}

/// Unloads.
pub(crate) fn unload(core: &Core, id: &str) -> Result<Response, Error> {
    if core.loaded.unload(id) {
        tracing::info!(id, "a snapshot was unloaded");
        return Ok(Response::Empty);
    }
    Err(Error::NotFound)
}

/// Unloads what is over, and what nobody can ask for any more since another server leads.
pub(crate) fn end_due(core: &Core, now: Timestamp) {
    let is_over = match core.loaded.any() {
        None => return,
        Some(snapshot) => snapshot.expires <= now,
    };
    if is_over || !core.store.leads() {
        core.loaded.clear();
        tracing::info!(is_over, "the loaded snapshot was unloaded");
    }
}

fn shown(snapshot: &LoadedSnapshot) -> Response {
    let root = snapshot.context_in("");
    let cluster = root.as_ref().and_then(|root| root.view.cluster());
    Response::data(&Json::object([
        ("snapshot_id", snapshot.id.as_str().into()),
        ("cluster_id", cluster.map_or("", |cluster| cluster.id.as_str()).into()),
        ("status", "ready".into()),
        ("created_at", snapshot.created.to_string().into()),
        ("expires_at", snapshot.expires.to_string().into()),
        ("index", snapshot.index.into()),
        ("records", snapshot.records.into()),
        ("bytes", snapshot.bytes.into()),
    ]))
}

fn refuse(why: impl fmt::Display) -> Error {
    Error::invalid(format!("the snapshot is not loaded: {why}"))
}

/// Whether a record stays: what is needed to find and read the secrets of KV.
fn is_kept(storage: &[u8]) -> bool {
    let inner = match storage.first() {
        Some(&kind::INSIDE) => storage.get(1 + NUMBER_BYTES..).unwrap_or_default(),
        _ => storage,
    };
    matches!(
        inner.first(),
        Some(
            &(kind::CLUSTER
                | kind::MOUNT
                | kind::NAMESPACE
                | kind::NAMESPACE_LIFE
                | kind::KV_CONFIG
                | kind::KV_META
                | kind::KV_VERSION
                | kind::KV_ONE)
        )
    )
}

impl SnapshotLoad {
    async fn take_bytes(&mut self, bytes: &[u8]) -> Result<(), Error> {
        for part in self.reader.take(bytes).map_err(refuse)? {
            match part {
                FilePart::Meta(bytes) => {
                    self.meta =
                        json::parse_object(&bytes).map_err(|_| refuse("it is of another kind"))?;
                }
                FilePart::Records(records) => self.keep(records).await?,
                FilePart::Tag(tag) => self.check_tag(&tag)?,
            }
        }
        Ok(())
    }

    async fn keep(&mut self, records: Vec<(Bytes, Bytes)>) -> Result<(), Error> {
        let mut batch = Batch::new();
        for (key, value) in records {
            if *key == *keys::keyring() {
                let keyring =
                    Keyring::open(&value, &self.live.root).map_err(|_| refuse(OTHER_KEYS))?;
                self.keys = Some(Arc::new(ArcSwap::from_pointee(keyring)));
            }
            if !is_kept(&key) {
                continue;
            }
            self.records += 1;
            self.bytes += key.len() + value.len() + LOADED_RECORD_BYTES;
            if self.bytes > LOADED_BYTES_MAX {
                return Err(Error::TooLarge(format!(
                    "the snapshot is not loaded: its secrets take more than {LOADED_BYTES_MAX} bytes; restore it at a server of its own"
                )));
            }
            // Copied: what was read came in chunks, of which not everything stays.
            batch.put(key.to_vec(), Bytes::copy_from_slice(&value));
            if batch.ops().len() == RECORDS_TOGETHER {
                self.store.commit(std::mem::take(&mut batch)).await?;
            }
        }
        if !batch.ops().is_empty() {
            self.store.commit(batch).await?;
        }
        Ok(())
    }

    fn check_tag(&mut self, tag: &[u8]) -> Result<(), Error> {
        let key = self.live.root.tag_key(TAG).map_err(|error| Error::internal(&error))?;
        self.is_ours = key.verify(self.reader.sums().as_bytes(), tag);
        if !self.is_ours {
            return Err(refuse("its tag is not one of this cluster's keys: it was changed"));
        }
        Ok(())
    }

    async fn open(self) -> Result<Response, Error> {
        self.reader.records().map_err(refuse)?;
        let keys = self.keys.filter(|_| self.is_ours).ok_or_else(|| refuse(OTHER_KEYS))?;
        let expires = self.now.checked_add(jiff::SignedDuration::from_secs(LOADED_SECS));
        let times = (self.now, expires.unwrap_or(Timestamp::MAX));
        let index = match self.meta.get("Index") {
            Some(Json::Number(text)) => text.parse().unwrap_or_default(),
            _ => 0,
        };
        let facts = (self.records, self.bytes as u64, index);
        let threads = Arc::clone(&self.live.threads);
        let parts = ContextParts { live: self.live, keys, store: self.store };
        let (tell, told) = oneshot::channel();
        let run = move || {
            give_way();
            // Nobody may be left to hear it.
            let _ = tell.send(parts.context());
        };
        let started = threads.start("snapshot-load", Box::new(run));
        started.map_err(|error| Error::Unavailable(format!("no thread to load on: {error}")))?;
        let ended = told.await.map_err(|_| Error::internal(&"loading ended early"))?;
        let id = self.loading.id.clone();
        let snapshot = Arc::new(LoadedSnapshot::new(id, times, facts, ended?));
        self.loading.finish(Arc::clone(&snapshot))?;
        tracing::warn!(
            id = snapshot.id,
            records = snapshot.records,
            index = snapshot.index,
            "a snapshot was loaded to be read from"
        );
        Ok(shown(&snapshot))
    }
}

impl ContextParts {
    /// What handlers run with over the records of the snapshot.
    fn context(self) -> Result<Arc<NamespaceContext>, Error> {
        let Self { live, keys, store } = self;
        let LiveParts { root, ticket_secret, info, services, threads, leases } = live;
        let view = Arc::new(View::new(HOT_BYTES_MAX, Arc::clone(&keys), Vec::new())?);
        let follower = ViewFold {
            view: Arc::clone(&view),
            keys: Arc::clone(&keys),
            root: Arc::clone(&root),
            // Of devices no record was kept.
            audit: Arc::default(),
            ask_rebuild: Box::new(|_| {}),
        };
        store.attach(Arc::new(follower))?;
        let generation = store.generation();
        let store = BarrierStore::new(store, keys, generation);
        let latches = Arc::new(Latches::new()?);
        Ok(Arc::new_cyclic(|top| NamespaceContext {
            view,
            store,
            latches,
            root,
            ticket_secret,
            info,
            leases,
            services,
            reencryption: Reencryption::default(),
            threads,
            outdated: Arc::default(),
            swept: 0.into(),
            upgraded: 0.into(),
            top: top.clone(),
        }))
    }
}

impl Upload for SnapshotLoad {
    fn take<'a>(&'a mut self, bytes: &'a [u8]) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(self.take_bytes(bytes))
    }

    fn finish(self: Box<Self>) -> BoxFuture<'static, Result<Response, Error>> {
        Box::pin(self.open())
    }
}

impl fmt::Debug for SnapshotLoad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SnapshotLoad").field("id", &self.loading.id).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
