//! The durable store: Raft orders and keeps batches, the engine holds the records.
//!
//! A commit goes: limits and encoding in the caller > [`requests`] > [`driver`], which proposes a group, writes it to
//! the [`log`] and syncs once > [`tasks`] > [`applier`], which writes to the engine ([`machine`]), folds, and resolves the
//! commit. [`node`] is Raft itself, without I/O. Messages to peers ([`wire`]) leave through a [`crate::Transport`]; a server that
//! fell behind the log fetches a [`snapshot`], which becomes an engine beside the one in use. Why it is so:
//! `docs/decisions/0030-raft-store.md` and `0050-cluster.md`; the bytes: `docs/format.md`.
//!
//! In a store's directory: `REMOVED` once the cluster has let its server go, `LOCK`, `SYNCED` (how far the log was synced, [`log::mark`]), `raft_log/` (the log's segments) and `engine/`, or `engine-N/` after N replacements.
//!
//! Invariants:
//! - what the engine has in files, the log has synced; what the log has purged, the engine has in files. So the engine
//!   and the log together always know everything that was acknowledged;
//! - an entry that is committed is applied: back-pressure stops what is taken in, never what was taken;
//! - a failed write or sync, and a log that cannot be read, end the store for good.

mod applier;
mod driver;
mod lease;
mod limits;
mod log;
mod machine;
mod members;
mod node;
mod options;
mod recover;
mod replicated;
mod requests;
mod restore;
mod shared;
mod snapshot;
mod tasks;
mod threads;
mod wire;

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use kallisto_lsm::Engine;
use kallisto_lsm::disk::{Disk, DiskLock, create_dir_durably, directory_of};
use raft::eraftpb::{ConfState, HardState};

use self::applier::Applier;
use self::driver::Driver;
use self::limits::{BATCH_KEPT_BYTES_MAX, ESSENTIAL_BYTES_MAX};
pub use self::log::Losses;
use self::log::index::LogIndex;
use self::log::mark::Mark;
use self::log::record::{LogIdentity, SegmentState};
use self::log::{LogSync, OpenedLog, RaftLog};
use self::machine::{EngineHome, Replacement, StateMachine};
use self::node::RaftNode;
pub use self::options::{OnFatal, RaftOptions};
use self::requests::DriverRequest;
use self::restore::RestoreStep;
use self::shared::{OpenedParts, REMOVED_FILE, StoreShared};
pub use self::snapshot::{BackupHead, BackupReader, BackupWriter};
use crate::codec::encode_batch;
use crate::{
    Batch, Commit, Durability, Error, Fold, Need, Peer, PeerClash, Position, RaftStats, Record,
    RecordVisitor, Records, Replicated, Seqno, Store, StoreStats, Visit,
};

/// A new log begins as if one entry had been there, which made its first member: so a server that joins later is sent a
/// snapshot and learns from it who the members are.
const FIRST_INDEX: u64 = 1;
/// The term of that entry.
const FIRST_TERM: u64 = 1;

/// Engines before and after the one in use that a crash may have left.
const REPLACED_MAX: u64 = 4;

/// The durable store. Share it behind its `Arc`; any thread may use it.
///
/// Dropping it finishes what was begun, as [`Store::close`] does, without the flush that makes the next open fast.
pub struct RaftStore {
    shared: Arc<StoreShared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// What its log lost, where that was accepted.
    lost: Option<String>,
    /// See [`RaftStore::undecided`].
    undecided: u64,
    /// Of a store without threads.
    inline: Option<Mutex<(Driver, Applier)>>,
    closed: Mutex<bool>,
    _lock: Box<dyn DiskLock>,
}

impl RaftStore {
    /// Opens the store in `dir`. In an empty directory it makes a new one, whose only member is this server. Returns when
    /// everything in the log is applied.
    ///
    /// # Errors
    /// [`Error::Locked`] if someone has it open; [`Error::Damaged`] if something on the disk is damaged or belongs to
    /// another store; [`Error::Lost`] if the log ends before what was synced, unless that is accepted; [`Error::Full`];
    /// [`Error::Unavailable`].
    pub fn open(
        disk: Arc<dyn Disk>,
        dir: impl Into<PathBuf>,
        options: RaftOptions,
    ) -> Result<Arc<Self>, Error> {
        let dir = dir.into();
        if options.node_id == 0 {
            return Err(Error::Unavailable("a node id of 0 names nobody".into()));
        }
        let (log_dir, engine_dir) = (dir.join("raft_log"), dir.join("engine"));
        let held = make_dirs(&*disk, &dir, [&log_dir, &engine_dir])?;
        let mut mark = Mark::open(Arc::clone(&disk), &dir)?;
        let known = (&mark, options.losses);
        let OpenedLog { log, mut index, keeper, identity, engine, loss } =
            RaftLog::open(Arc::clone(&disk), &log_dir, options.log_segment_bytes, known, || {
                refuse_orphan(&*disk, &engine_dir)?;
                Ok(first_state(&options))
            })?;
        let log = Arc::new(Mutex::new(log));
        let log_sync = Arc::<LogSync>::default();
        log_sync.set(Arc::clone(&log));
        let home = EngineHome {
            disk,
            dir,
            options: kallisto_lsm::Options {
                durability: kallisto_lsm::LogKeeping::External,
                outer_log: Some(log_sync),
                ..options.engine.clone()
            },
        };
        remove_replaced(&home, engine);
        let was_removed = was_removed(&home)?;
        let own = Peer { id: identity.node_id, ..options.peer.clone() };
        let first = first_engine(engine, identity.store_id, &index, &own);
        let floor = index.floor().0;
        // A log begins behind its first entry, or behind nothing; the engine knows of what was purged later.
        let applied = |engine: &Engine| engine.flushed_position().max(floor.min(FIRST_INDEX));
        let machine = StateMachine::open(home, first, applied)?;
        let applied = machine.position().0;
        if let Some(membership) = machine.stored_membership()? {
            // As of the engine's files: entries that changed the members since are applied again.
            index.set_membership(membership);
        }
        let short = shortfall(&index, applied);
        if let Some(short) = &short {
            if options.losses == Losses::Refused {
                return Err(Error::Lost(short.clone()));
            }
            index = lock(&log).restart_behind(applied, &index)?;
        }
        if options.only_member {
            index = recover::become_only_member(&log, &index, &machine, own.clone())?;
        }
        refuse_taken_name(&machine.directory(), &own)?;
        let applied = machine.position().0;
        machine.set_term(raft::Storage::term(&index, applied).unwrap_or_default());
        if loss.is_some() || short.is_some() {
            mark.give_up(lock(&log).reach())?;
        }
        let undecided = recover::undecided(&index, applied)?;
        let parts =
            OpenedParts { machine, log, mark, keeper, own, was_removed, fault: index.fault() };
        let node = RaftNode::new(identity.node_id, index, applied, options.seed)?;
        options.transport.know(&parts.machine.directory());
        let shared = Arc::new(StoreShared::new(parts, &options));
        let driver = Driver::new(Arc::clone(&shared), node, options.durability, options.seed);
        let applier = Applier::new(Arc::clone(&shared));
        let (threads, inline) = if options.has_threads {
            (threads::start(&shared, driver, applier)?, None)
        } else {
            (Vec::new(), Some(Mutex::new((driver, applier))))
        };
        let (threads, closed) = (Mutex::new(threads), Mutex::new(false));
        let lost = loss.map(|loss| loss.to_string()).or(short);
        let mut store = Self { shared, threads, lost, undecided, inline, closed, _lock: held };
        if let Err(error) = store.apply_all() {
            // A thread that ended says why on its way out.
            store.stop();
            return Err(store.shared.fatal.get().cloned().unwrap_or(error));
        }
        if store.is_alone() {
            // Then it has decided all of them.
            store.undecided = 0;
        }
        Ok(Arc::new(store))
    }

    /// Returns when everything in the log is applied, of a server with peers everything that it knows to be committed.
    fn apply_all(&self) -> Result<(), Error> {
        // What is known to be committed comes first: with a change of the members among it, not even a lone voter leads
        // before it is applied. The second finds a lone voter leading, which is what commits the rest.
        self.save().wait()?;
        self.save().wait()?;
        Ok(())
    }

    fn step(&self, step: &RestoreStep) -> Commit {
        if let Err(error) = step.check_limits() {
            return Commit::decided(Err(error));
        }
        let data = step.encode();
        self.request(|promise| DriverRequest::Commit { data, need: Need::Usual, promise })
    }

    fn request(&self, make: impl FnOnce(crate::commit::Promise) -> DriverRequest) -> Commit {
        let (promise, commit) = Commit::promised();
        self.shared.requests.push(make(promise));
        self.turn_inline();
        commit
    }

    /// Does what there is to do, if that is the caller's business.
    fn turn_inline(&self) {
        let Some(inline) = &self.inline else { return };
        let mut inline = lock(inline);
        let (driver, applier) = &mut *inline;
        if let Err(error) = self.turns(driver, applier) {
            self.shared.poison(&error);
        }
    }

    fn turns(&self, driver: &mut Driver, applier: &mut Applier) -> Result<(), Error> {
        let shared = &self.shared;
        let mut taken = Vec::new();
        loop {
            if shared.fatal.get().is_some() {
                return Ok(());
            }
            applier.turn()?;
            let _ = shared.requests.take(&mut taken, shared.backpressure());
            driver.turn(&mut taken)?;
            shared.tasks.take(applier.backlog(), Some(std::time::Duration::ZERO));
            applier.turn()?;
            shared.follow_mark()?;
            if shared.chores.take() {
                shared.do_chores()?;
            } else if shared.requests.len() == 0
                || shared.backpressure() == requests::Backpressure::On
            {
                return Ok(());
            }
        }
    }

    /// What its log lost, if it did and that was accepted at this start.
    #[must_use]
    pub fn lost(&self) -> Option<&str> {
        self.lost.as_deref()
    }

    /// Batches that its log held when it was opened, and of which only others could say whether they are committed: none, if it has no
    /// peers. They are not among the records before that is known.
    #[must_use]
    pub const fn undecided(&self) -> u64 {
        self.undecided
    }

    /// Has a store without threads do what is due: its clock went on, or messages came.
    pub fn turn(&self) {
        self.turn_inline();
    }

    /// Finishes what was begun. Whoever calls it second finds nothing to do.
    fn stop(&self) {
        self.end();
        if self.shared.fatal.get().is_none()
            && let Err(error) = self.shared.leave_mark()
        {
            self.shared.poison(&error);
        }
    }

    fn end(&self) {
        let shared = &self.shared;
        shared.closing.store(true, Ordering::Release);
        shared.requests.close(Error::Unavailable("the store is closed".into()));
        shared.held.clear();
        self.turn_inline();
        if let Some(inline) = &self.inline {
            if let Err(error) = lock(inline).0.finish() {
                shared.poison(&error);
            }
            shared.tasks.abandon();
            return;
        }
        let mut threads = std::mem::take(&mut *lock(&self.threads)).into_iter();
        let here = std::thread::current().id();
        let join = |thread: Option<JoinHandle<()>>| {
            // A promise's waker may drop the store on a thread of its own, which cannot wait for itself. A panic has
            // been reported by the thread.
            if let Some(thread) = thread.filter(|thread| thread.thread().id() != here) {
                let _ = thread.join();
            }
        };
        join(threads.next());
        shared.tasks.close();
        join(threads.next());
        shared.chores.end();
        join(threads.next());
    }
}

impl Drop for RaftStore {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Removes what a crash left of engines before and after the one that the log goes with.
fn remove_replaced(home: &EngineHome, engine: u64) {
    let near = engine.saturating_sub(REPLACED_MAX)..=engine.saturating_add(REPLACED_MAX);
    near.filter(|&other| other != engine).for_each(|other| home.remove(other));
}

/// See [`crate::fuzz`].
#[cfg(any(test, feature = "fuzz"))]
pub(crate) fn read_hostile_message(bytes: &[u8]) -> usize {
    wire::decode_hostile(bytes)
}

/// See [`crate::fuzz`].
#[cfg(any(test, feature = "fuzz"))]
pub(crate) fn read_hostile_chunk(bytes: &[u8]) -> usize {
    snapshot::read_hostile(bytes)
}

/// See [`crate::fuzz`].
#[cfg(any(test, feature = "fuzz"))]
pub(crate) fn read_hostile_payload(bytes: &[u8]) -> usize {
    log::record::read_hostile(bytes)
}

/// Whether the cluster has let the server of this store go.
fn was_removed(home: &EngineHome) -> Result<bool, Error> {
    let listed = home.disk.list(&home.dir);
    let listed = listed.map_err(|error| failed("list", &home.dir, &error))?;
    Ok(listed.iter().any(|name| name == REMOVED_FILE))
}

/// What an engine that is new is told of where the log begins.
fn first_engine(engine: u64, store_id: [u8; 16], index: &LogIndex, own: &Peer) -> Replacement {
    let (floor, term) = index.floor();
    let membership = index.membership().clone();
    let directory = if membership.voters.is_empty() { Vec::new() } else { vec![own.clone()] };
    Replacement { engine, store_id, index: floor, term, membership, directory }
}

/// A server that would take a new name does not start under that of another member.
fn refuse_taken_name(directory: &[Peer], own: &Peer) -> Result<(), Error> {
    let is_renamed = directory.iter().any(|peer| peer.id == own.id && peer.name != own.name);
    let by = own.clash(directory).filter(|(what, _)| is_renamed && *what == PeerClash::Name);
    let Some((_, by)) = by else { return Ok(()) };
    Err(Error::Unavailable(format!(
        "a server named {} is a member, and is reached at {}: this server needs another name (node_id)",
        own.name, by.cluster_address
    )))
}

/// What to say of a log that ends before what the engine has.
fn shortfall(index: &LogIndex, applied: u64) -> Option<String> {
    let (last, _) = index.last();
    (applied > last).then(|| {
        format!("the raft log lost what was on the disk: it ends at entry {last}, and the engine has all up to {applied}")
    })
}

/// Makes a store's directories durable and keeps everybody else out of them.
fn make_dirs(disk: &dyn Disk, dir: &Path, parts: [&Path; 2]) -> Result<Box<dyn DiskLock>, Error> {
    for path in [dir, parts[0], parts[1]] {
        create_dir_durably(disk, path).map_err(|error| failed("create", path, &error))?;
    }
    let held = disk.lock(&dir.join("LOCK")).map_err(|error| match error.kind() {
        std::io::ErrorKind::WouldBlock => Error::Locked(dir.to_owned()),
        _ => failed("lock", dir, &error),
    })?;
    for path in [dir, directory_of(dir)] {
        disk.sync_dir(path).map_err(|error| failed("sync", path, &error))?;
    }
    Ok(held)
}

/// The log is made before the engine: an engine without a log has lost it.
fn refuse_orphan(disk: &dyn Disk, engine_dir: &Path) -> Result<(), Error> {
    let listed = disk.list(engine_dir);
    let names = listed.map_err(|error| failed("list", engine_dir, &error))?;
    if names.iter().all(|name| name == "LOCK") {
        return Ok(());
    }
    Err(Error::Damaged(format!("{} has lost its raft log", engine_dir.display())))
}

fn failed(what: &str, path: &Path, error: &std::io::Error) -> Error {
    Error::Io(format!("{what} {}: {error}", path.display()))
}

/// How the log of a new store begins.
fn first_state(options: &RaftOptions) -> SegmentState {
    let mut dice = fastrand::Rng::with_seed(options.seed);
    let mut store_id = [0; 16];
    dice.fill(&mut store_id);
    let hard_state = HardState { term: FIRST_TERM, commit: FIRST_INDEX, ..HardState::default() };
    let membership = ConfState { voters: vec![options.node_id], ..ConfState::default() };
    SegmentState {
        identity: LogIdentity { store_id, node_id: options.node_id },
        engine: 0,
        last_index: FIRST_INDEX,
        last_term: FIRST_TERM,
        hard_state,
        membership,
    }
}

/// Takes a lock. A panic of a holder has poisoned the store already; what the lock guards is read no further than to
/// say so.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl From<kallisto_lsm::Error> for Error {
    fn from(error: kallisto_lsm::Error) -> Self {
        use kallisto_lsm::Error as Lsm;
        match error {
            Lsm::Locked(path) => Self::Locked(path),
            Lsm::Full(what) => Self::Full(what),
            Lsm::Poisoned(what) => Self::Poisoned(what),
            Lsm::Corrupt { .. } => Self::Damaged(error.to_string()),
            Lsm::Io(_) => Self::Io(error.to_string()),
            Lsm::Invalid(_) | Lsm::Unsupported { .. } | Lsm::Closed => {
                Self::Unavailable(error.to_string())
            }
        }
    }
}

impl Records for RaftStore {
    fn get(&self, key: &[u8]) -> Result<Option<Record>, Error> {
        self.shared.machine.records().get(key)
    }

    fn scan(
        &self,
        prefix: &[u8],
        visit: &mut dyn FnMut(&[u8], &Record) -> Visit,
    ) -> Result<(), Error> {
        self.shared.machine.records().scan(prefix, visit)
    }

    fn scan_borrowed(
        &self,
        prefix: &[u8],
        behind: Option<&[u8]>,
        visit: &mut RecordVisitor<'_>,
    ) -> Result<(), Error> {
        self.shared.machine.records().scan_borrowed(prefix, behind, visit)
    }

    fn approximate_len(&self) -> u64 {
        self.shared.machine.records().approximate_len()
    }
}

impl Store for RaftStore {
    fn commit(&self, batch: Batch) -> Commit {
        if let Err(error) = batch.check_limits() {
            return Commit::decided(Err(error));
        }
        let data = encode_batch(&batch);
        // A large one would take the reserve from all others.
        let need = if data.len() > ESSENTIAL_BYTES_MAX { Need::Usual } else { batch.need() };
        self.request(|promise| {
            // A longer one is decoded again rather than held twice.
            let promise = match data.len() <= BATCH_KEPT_BYTES_MAX {
                true => promise.with_batch(batch),
                false => promise,
            };
            DriverRequest::Commit { data, need, promise }
        })
    }

    fn position(&self) -> Position {
        self.shared.machine.position()
    }

    fn attach(&self, fold: Arc<dyn Fold>) -> Result<Position, Error> {
        self.shared.machine.attach(fold)
    }

    fn detach(&self) {
        self.shared.machine.detach();
    }

    fn durability(&self) -> Durability {
        *lock(&self.shared.mode)
    }

    fn set_durability(&self, durability: Durability) -> Commit {
        self.request(|promise| DriverRequest::SetDurability(durability, promise))
    }

    fn save(&self) -> Commit {
        self.request(DriverRequest::Save)
    }

    fn replicated(&self) -> Option<&dyn Replicated> {
        Some(self)
    }

    fn leads(&self) -> bool {
        self.leadership().is_mine()
    }

    fn generation(&self) -> Seqno {
        self.shared.machine.generation()
    }

    fn stats(&self) -> StoreStats {
        let shared = &self.shared;
        let standing = *lock(&shared.standing);
        let (unsynced, counters, node_id) = {
            let log = lock(&shared.log);
            (log.unsynced(), log.counters(), log.node_id())
        };
        let raft = RaftStats {
            node_id,
            leader_id: standing.leader_id,
            term: standing.term,
            last_index: standing.last_index,
            last_term: standing.last_term,
            commit_index: standing.commit_index,
            applied_index: self.position().0,
            flushed_index: shared.machine.records().0.flushed_position(),
            unsynced,
            waiting: shared.requests.len(),
            log_bytes: shared.keeper.in_use_bytes(),
            log_syncs: counters.syncs,
            log_entries: counters.entries,
            commits: *lock(&shared.commits),
            engine: shared.machine.records().0.stats(),
        };
        StoreStats {
            position: self.position(),
            durability: self.durability(),
            records: self.approximate_len(),
            raft: Some(raft),
            database: None,
        }
    }

    fn close(&self) -> Result<(), Error> {
        if std::mem::replace(&mut *lock(&self.closed), true) {
            return Ok(());
        }
        self.stop();
        let engine = self.shared.machine.records();
        let reached = engine.0.flush_to(self.position().0);
        let flushed = engine.0.close().and(reached).map_err(Error::from);
        if flushed.is_ok() {
            // A log that stays longer than it need be costs the next start some time and nothing else.
            let _ = self.shared.leave_short_log();
        }
        match self.shared.fatal.get() {
            Some(error) => Err(error.clone()),
            None => flushed.and(self.shared.leave_mark()),
        }
    }
}
