//! The store on PostgreSQL: the database orders batches and keeps them, every server holds the records in memory.
//!
//! A commit goes: limits in the caller > `shared`'s queue > `driver`, which judges a `group` on its records and sends it as one
//! statement that is fenced by the writer's epoch > applied and folded here, and at every follower once it read the `change` row.
//! `keeper` holds the `lease`, `follow` reads what others wrote, `tables` judges what is there at the start. `schema` has the tables and all statements. Why it is so: `docs/decisions/0325-storage-on-postgresql.md`.
//!
//! Invariants:
//! - a commit of an epoch that is over changes nothing, whenever it arrives;
//! - nobody is told that a batch failed while it may still commit;
//! - the records are those of the database at the position, and only the driver changes them;
//! - what leaves for the database is envelopes under hashed names.
#![forbid(unsafe_code)]

mod cells;
mod change;
mod connection;
mod driver;
mod follow;
mod group;
mod keeper;
mod lease;
mod limits;
mod load;
mod probe;
mod records;
mod replicated;
mod restore;
mod schema;
mod shared;
mod tables;
mod url;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use kallisto_engine::far_end::FarEndTls;
use kallisto_lsm::clock::{Clock, RealClock};
use kallisto_store::{
    AsOf, Batch, Candidacy, Commit, Durability, Error, Fold, OnFatal, Peer, Position, Record,
    RecordVisitor, Records, Replicated, Seqno, Store, StoreStats, Transport, Visit,
};
use tokio::runtime::Runtime;
use tokio::sync::Notify;

use crate::connection::{PgConnector, PgFailure, PgSession};
use crate::driver::PgDriver;
use crate::keeper::LeaseKeeper;
use crate::lease::LeaseWatch;
use crate::limits::{PAUSE_FIRST, PAUSE_LONGEST};
use crate::load::load;
use crate::records::MemoryRecords;
use crate::schema::PgStatements;
use crate::shared::{
    LeadState, PgCounters, PgRequest, PgRestoreStep, PgShared, WaitingBatch, lock,
};

pub use probe::{DatabaseFinding, FindingKind, probe};
pub use schema::is_table_name;
pub use url::PostgresUrl;

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
    /// How often a follower asks whether it holds everything.
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
        let on_fatal = options.on_fatal.clone();
        let begun = runtime.block_on(begin(options))?;
        let (shared, thread) = start(runtime, begun, on_fatal)?;
        Ok(Arc::new(Self { shared, thread: Mutex::new(Some(thread)) }))
    }

    pub(crate) fn step(&self, step: PgRestoreStep) -> Commit {
        let (promise, commit) = Commit::promised();
        let now = self.shared.clock.now();
        self.shared.push(PgRequest::Step(step, promise, now));
        commit
    }
}

/// Runs both tasks until the store is closed.
fn start(
    runtime: Runtime,
    begun: PgBeginning,
    on_fatal: OnFatal,
) -> Result<(Arc<PgShared>, JoinHandle<()>), Error> {
    let PgBeginning { shared, connector, session, keeping, watch } = begun;
    let shared = Arc::new(shared);
    let (ended, outer) = (Arc::clone(&shared), Arc::clone(&shared));
    let run = move || {
        runtime.block_on(async {
            let driver = PgDriver::new(Arc::clone(&shared), connector.clone(), session);
            let driver = tokio::spawn(driver.run());
            let keeper = tokio::spawn(LeaseKeeper::new(shared, connector, keeping, watch).run());
            for task in [driver, keeper] {
                if task.await.is_err() {
                    // What is in memory can not be believed any more; the database has all that was acknowledged.
                    lock(&ended.queue).close();
                    on_fatal.call(&Error::Poisoned("a task of the storage panicked".to_owned()));
                }
            }
        });
        runtime.shutdown_background();
    };
    std::thread::Builder::new()
        .name("store".into())
        .spawn(run)
        .map(|thread| (outer, thread))
        .map_err(|error| Error::Unavailable(format!("no thread for the database: {error}")))
}

/// Connects as often as it is to be tried.
async fn connect(
    connector: &PgConnector,
    tries: u32,
    wake: &Arc<Notify>,
) -> Result<PgSession, Error> {
    let mut pause = PAUSE_FIRST;
    let mut tried = 1;
    loop {
        match connector.open(wake).await {
            Ok(session) => return Ok(session),
            Err(failure) if tried >= tries.max(1) => return Err(failure.into_error()),
            Err(failure) => {
                let error = failure.into_error();
                tracing::warn!(%error, tried, "the database is not reached, trying again");
            }
        }
        tried += 1;
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(PAUSE_LONGEST);
    }
}

/// Says so where the database acknowledges what a power cut takes.
async fn warn_of_durability(session: &PgSession) -> Result<(), PgFailure> {
    if let Some(why) = probe::forgets(session).await? {
        tracing::warn!(why, "the database may lose what it acknowledged");
    }
    Ok(())
}

/// What the tasks of a store begin with.
struct PgBeginning {
    shared: PgShared,
    connector: PgConnector,
    session: PgSession,
    keeping: PgSession,
    watch: LeaseWatch,
}

async fn begin(options: PostgresOptions) -> Result<PgBeginning, Error> {
    let statements = PgStatements::new(&options.table, &options.ha_table);
    let statements =
        statements.ok_or_else(|| Error::Unavailable("a name of a table is none".to_owned()))?;
    let connector = PgConnector { config: options.url.config.clone(), tls: options.tls.clone() };
    let (wake, keeper_wake) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let session = connect(&connector, options.connects_max, &wake).await?;
    let store_id = tables::prepare(&session, &statements, options.sharing, options.missing).await;
    let store_id = store_id.map_err(PgFailure::into_error)?;
    warn_of_durability(&session).await.map_err(PgFailure::into_error)?;
    let clock: Arc<dyn Clock> = Arc::new(RealClock::new());
    let watch = match options.sharing {
        Sharing::Alone => tables::wait_alone(&session, &statements, &*clock).await?,
        Sharing::Many => LeaseWatch::default(),
    };
    let keeping = connect(&connector, options.connects_max, &keeper_wake).await?;
    let asked = clock.now();
    let loaded = load(&session, &statements).await.map_err(PgFailure::into_error)?;
    let took = clock.now().saturating_sub(asked);
    tracing::info!(
        records = loaded.records.len(),
        position = loaded.position,
        epoch = loaded.epoch,
        ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
        "read the records from the database"
    );
    let records = MemoryRecords::default();
    records.replace(loaded.records);
    // Numbers of servers are positive in the database.
    let own = Peer { id: fastrand::u64(1..=i64::MAX.cast_unsigned()), ..options.peer };
    let shared = PgShared {
        statements,
        clock,
        own,
        is_ha: options.sharing == Sharing::Many,
        store_id,
        transport: options.transport,
        records,
        feed: Mutex::new(None),
        position: AtomicU64::new(loaded.position),
        generation: AtomicU64::new(loaded.generation),
        lead: Mutex::new(LeadState::new()),
        members: Mutex::default(),
        candidacy: Mutex::new(Candidacy::Reluctant),
        transfer: Mutex::new(None),
        confirmed: AtomicU64::new(AsOf::at(asked).to_bits()),
        in_flight: AtomicU64::new(0),
        queue: Mutex::default(),
        wake,
        keeper_wake,
        on_leadership: Mutex::new(None),
        commits: Mutex::default(),
        counters: PgCounters {
            is_connected: AtomicBool::new(true),
            loads: AtomicU64::new(1),
            ..PgCounters::default()
        },
        confirm_every: options.confirm_every,
        closing: AtomicBool::new(false),
        drained: AtomicBool::new(false),
    };
    lock(&shared.lead).is_blank = loaded.position == 0;
    driver::listen(&session, &shared).await.map_err(PgFailure::into_error)?;
    Ok(PgBeginning { shared, connector, session, keeping, watch })
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

    fn scan_borrowed(&self, prefix: &[u8], visit: &mut RecordVisitor<'_>) -> Result<(), Error> {
        self.shared.records.scan_borrowed(prefix, visit)
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
        let mut feed = lock(&self.shared.feed);
        *feed = None;
        let position = self.shared.position();
        fold.load(position, &self.shared.records)?;
        *feed = Some(fold);
        Ok(position)
    }

    fn detach(&self) {
        *lock(&self.shared.feed) = None;
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
