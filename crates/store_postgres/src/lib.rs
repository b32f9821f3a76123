//! The store on PostgreSQL: the database orders batches and keeps them, every server holds the records in memory.
//!
//! A commit goes: limits in the caller > `shared`'s queue > `commit`, which judges a `group` on its records and sends it as one
//! statement that is fenced by the writer's epoch > applied and folded here, and at every follower once it read the `change` row.
//! `keeper` holds the `lease`, `follow` reads what others wrote, `opening` begins. All of that speaks to a [`database`] by its operations;
//! `sql` is the one that is PostgreSQL, with all statements. Why it is so: `docs/decisions/0325-storage-on-postgresql.md`, and for the
//! seam `0540-the-database-behind-a-seam.md`.
//!
//! Invariants:
//! - a commit of an epoch that is over changes nothing, whenever it arrives;
//! - nobody is told that a batch failed while it may still commit;
//! - the records are those of the database at the position, and only the driver changes them;
//! - what leaves for the database is envelopes under hashed names.
#![forbid(unsafe_code)]

mod change;
mod commit;
pub mod database;
mod driver;
mod follow;
mod group;
mod keeper;
mod lease;
pub mod limits;
mod opening;
mod records;
mod replicated;
mod restore;
mod shared;
mod sql;

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use kallisto_engine::far_end::FarEndTls;
use kallisto_lsm::clock::RealClock;
use kallisto_store::{
    Batch, Commit, Durability, Error, Fold, OnFatal, Peer, Position, Record, RecordVisitor,
    Records, Replicated, Seqno, Store, StoreStats, Transport, Visit,
};

use crate::shared::{PgRequest, PgRestoreStep, PgShared, WaitingBatch, lock, lock_feed};
use crate::sql::SqlDatabase;

pub use change::decode as decode_changes;
pub use opening::{StoreBeginning, StoreTasks, begin};
pub use sql::{DatabaseFinding, FindingKind, PostgresUrl, is_table_name, probe};

/// Whether tables that are missing are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MissingTables {
    /// They are.
    Make,
    /// Somebody else makes them: their absence is an error.
    Refuse,
}

/// Whether other servers use the same database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// They may: one leads, the others follow.
    Many,
    /// None does.
    Alone,
    /// None does while a command copies what is there: servers have to be stopped before.
    Stopped,
}

/// What a store on PostgreSQL is opened with.
pub struct PostgresOptions {
    /// How the database is reached.
    pub url: PostgresUrl,
    /// How TLS is spoken, with the contents of the URL's files.
    pub tls: FarEndTls,
    /// The table of the records.
    pub table: String,
    /// The table of the servers.
    pub ha_table: String,
    /// Whether other servers use the database.
    pub sharing: Sharing,
    /// Whether tables are made.
    pub missing: MissingTables,
    /// How often a connection is tried at the start.
    pub connects_max: u32,
    /// This server, as the others are to know it; its number is drawn.
    pub peer: Peer,
    /// Tells who the peers are.
    pub transport: Arc<dyn Transport>,
    /// How often a server asks whether it holds everything, where no commit of its own says so.
    pub confirm_every: Duration,
    /// What to do when a failure ends the store.
    pub on_fatal: OnFatal,
}

/// The store. Share it behind its `Arc`; any thread may use it.
pub struct PostgresStore {
    pub(crate) shared: Arc<PgShared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl PostgresStore {
    /// Connects, makes the tables if they are missing, and reads all records.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when the database is not reached or refuses; [`Error::Damaged`] when the tables are of another
    /// layout; [`Error::Locked`] when another server uses the database and this one says that none does.
    pub fn open(options: PostgresOptions) -> Result<Arc<Self>, Error> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("postgres")
            .enable_all()
            .build()
            .map_err(|error| Error::Unavailable(format!("no threads for the database: {error}")))?;
        let PostgresOptions { sharing, on_fatal, .. } = options;
        let names = (options.table.as_str(), options.ha_table.as_str());
        let database =
            SqlDatabase::new(&options.url, &options.tls, names, sharing, options.missing);
        let database =
            database.ok_or_else(|| Error::Unavailable("a name of a table is none".to_owned()))?;
        // Numbers of servers are positive in the database.
        let own = Peer { id: fastrand::u64(1..=i64::MAX.cast_unsigned()), ..options.peer };
        let beginning = StoreBeginning {
            sharing,
            connects_max: options.connects_max,
            own,
            transport: options.transport,
            confirm_every: options.confirm_every,
            clock: Arc::new(RealClock::new()),
        };
        let (store, tasks) = runtime.block_on(begin(database, beginning))?;
        let thread = opening::run_on(runtime, tasks, Arc::clone(&store.shared), on_fatal)?;
        *lock(&store.thread) = Some(thread);
        Ok(store)
    }

    pub(crate) fn step(&self, step: PgRestoreStep) -> Commit {
        let (promise, commit) = Commit::promised();
        let now = self.shared.clock.now();
        self.shared.push(PgRequest::Step(step, promise, now));
        commit
    }
}

impl Records for PostgresStore {
    fn get(&self, key: &[u8]) -> Result<Option<Record>, Error> {
        self.shared.records.get(key)
    }

    fn scan(
        &self,
        prefix: &[u8],
        visit: &mut dyn FnMut(&[u8], &Record) -> Visit,
    ) -> Result<(), Error> {
        self.shared.records.scan(prefix, visit)
    }

    fn scan_borrowed(
        &self,
        prefix: &[u8],
        behind: Option<&[u8]>,
        visit: &mut RecordVisitor<'_>,
    ) -> Result<(), Error> {
        self.shared.records.scan_borrowed(prefix, behind, visit)
    }

    fn approximate_len(&self) -> u64 {
        self.shared.records.approximate_len()
    }
}

impl Store for PostgresStore {
    fn commit(&self, batch: Batch) -> Commit {
        if let Err(error) = batch.check_limits() {
            return Commit::decided(Err(error));
        }
        let (promise, commit) = Commit::promised();
        let bytes = batch.ops().iter().map(op_bytes).sum();
        let since = self.shared.clock.now();
        self.shared.push(PgRequest::Commit(WaitingBatch { batch, promise, since, bytes }));
        commit
    }

    fn position(&self) -> Position {
        self.shared.position()
    }

    fn attach(&self, fold: Arc<dyn Fold>) -> Result<Position, Error> {
        let mut feed = lock_feed(&self.shared);
        *feed = None;
        let position = self.shared.position();
        fold.load(position, &self.shared.records)?;
        *feed = Some(fold);
        Ok(position)
    }

    fn detach(&self) {
        *lock_feed(&self.shared) = None;
    }

    fn durability(&self) -> Durability {
        Durability::Strict
    }

    fn set_durability(&self, durability: Durability) -> Commit {
        match durability {
            Durability::Strict => self.save(),
            Durability::Batch { .. } => Commit::decided(Err(Error::Unavailable(
                "what is acknowledged is committed in the database: batch durability is of storage on a disk".to_owned(),
            ))),
        }
    }

    fn save(&self) -> Commit {
        if !self.leads() {
            // Nothing waits here.
            return Commit::decided(Ok(self.position()));
        }
        let (promise, commit) = Commit::promised();
        self.shared.push(PgRequest::Save(promise));
        commit
    }

    fn replicated(&self) -> Option<&dyn Replicated> {
        Some(self)
    }

    fn generation(&self) -> Seqno {
        Seqno(self.shared.generation.load(Ordering::Acquire))
    }

    fn leads(&self) -> bool {
        self.shared.leadership().is_mine()
    }

    fn stats(&self) -> StoreStats {
        StoreStats {
            position: self.position(),
            durability: Durability::Strict,
            records: self.approximate_len(),
            raft: None,
            database: Some(self.shared.stats()),
        }
    }

    fn close(&self) -> Result<(), Error> {
        lock(&self.shared.queue).close();
        self.shared.closing.store(true, Ordering::Release);
        self.shared.wake.notify_one();
        self.shared.keeper_wake.notify_one();
        let thread = lock(&self.thread).take();
        if let Some(thread) = thread {
            // It reports a panic itself.
            let _ = thread.join();
        }
        Ok(())
    }
}

impl Drop for PostgresStore {
    fn drop(&mut self) {
        let _ = self.close();
    }
}

fn op_bytes(op: &kallisto_store::StoreOp) -> usize {
    match op {
        kallisto_store::StoreOp::Put { key, value: rest }
        | kallisto_store::StoreOp::Delete { key, note: rest } => key.len() + rest.len(),
    }
}
