//! How a store begins, on whatever database: connects, prepares, reads all records; and what runs its tasks then.
//!
//! A server has a thread with a runtime that runs both ([`run_on`]). The simulator polls them itself ([`StoreTasks::poll`]), whenever
//! something has come that they may wait for.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};
use std::thread::JoinHandle;
use std::time::Duration;

use kallisto_lsm::clock::Clock;
use kallisto_store::{AsOf, Candidacy, Error, OnFatal, Peer, Transport};
use tokio::runtime::Runtime;
use tokio::sync::Notify;

use crate::database::{DatabaseFailure, DatabaseSession, StoreDatabase};
use crate::driver::PgDriver;
use crate::keeper::LeaseKeeper;
use crate::lease::LeaseWatch;
use crate::limits::{BEAT, LEASE, PAUSE_FIRST, PAUSE_LONGEST};
use crate::records::MemoryRecords;
use crate::shared::{LeadState, PgCounters, PgShared, lock};
use crate::{PostgresStore, Sharing};

/// What a store on a database is begun with.
pub struct StoreBeginning {
    /// Whether other servers use the database.
    pub sharing: Sharing,
    /// How often a connection is tried.
    pub connects_max: u32,
    /// This server, as the others are to know it. Its number is its own: another one each time it starts.
    pub own: Peer,
    /// Tells who the peers are.
    pub transport: Arc<dyn Transport>,
    /// How often it is asked whether everything is here.
    pub confirm_every: Duration,
    /// This server's clock.
    pub clock: Arc<dyn Clock>,
}

type StoreTask = Pin<Box<dyn Future<Output = ()> + Send>>;

/// What a store does by itself. It ends when the store is closed and what waited is answered.
pub struct StoreTasks {
    driver: Option<StoreTask>,
    keeper: Option<StoreTask>,
}

impl StoreTasks {
    /// Lets both go on as far as they can; whether there is nothing left of them. No waker is kept: whoever polls knows when.
    pub fn poll(&mut self) -> bool {
        for task in [&mut self.driver, &mut self.keeper] {
            let polled = task.as_mut().map(|future| {
                future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready()
            });
            if polled == Some(true) {
                *task = None;
            }
        }
        self.driver.is_none() && self.keeper.is_none()
    }
}

/// Connects, makes the tables if they are missing, and reads all records.
///
/// # Errors
/// See [`PostgresStore::open`].
pub async fn begin<D: StoreDatabase>(
    database: D,
    beginning: StoreBeginning,
) -> Result<(Arc<PostgresStore>, StoreTasks), Error> {
    let StoreBeginning { sharing, connects_max, clock, .. } = &beginning;
    let (wake, keeper_wake) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let session = connect(&database, *connects_max, &wake).await?;
    let store_id = session.prepare().await.map_err(DatabaseFailure::into_error)?;
    if let Some(why) = session.forgets().await.map_err(DatabaseFailure::into_error)? {
        tracing::warn!(why, "the database may lose what it acknowledged");
    }
    let watch = match sharing {
        Sharing::Alone => wait_alone(&database, &session, &**clock, SHARED).await?,
        Sharing::Stopped => wait_alone(&database, &session, &**clock, RUNNING).await?,
        Sharing::Many => LeaseWatch::default(),
    };
    let keeping = connect(&database, *connects_max, &keeper_wake).await?;
    let asked = clock.now();
    let loaded = session.load().await.map_err(DatabaseFailure::into_error)?;
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
    let shared = PgShared {
        clock: Arc::clone(clock),
        own: beginning.own,
        is_ha: beginning.sharing == Sharing::Many,
        store_id,
        transport: beginning.transport,
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
        confirm_every: beginning.confirm_every,
        closing: AtomicBool::new(false),
        drained: AtomicBool::new(false),
    };
    lock(&shared.lead).is_blank = loaded.position == 0;
    session.listen().await.map_err(DatabaseFailure::into_error)?;
    let shared = Arc::new(shared);
    let driver = PgDriver::new(Arc::clone(&shared), database.clone(), session);
    let keeper = LeaseKeeper::new(Arc::clone(&shared), database, keeping, watch);
    let tasks =
        StoreTasks { driver: Some(Box::pin(driver.run())), keeper: Some(Box::pin(keeper.run())) };
    Ok((Arc::new(PostgresStore { shared, thread: Mutex::new(None) }), tasks))
}

/// Connects as often as it is to be tried.
async fn connect<D: StoreDatabase>(
    database: &D,
    tries: u32,
    wake: &Arc<Notify>,
) -> Result<D::Session, Error> {
    let mut pause = PAUSE_FIRST;
    let mut tried = 1;
    loop {
        match database.open(wake).await {
            Ok(session) => return Ok(session),
            Err(failure) if tried >= tries.max(1) => return Err(failure.into_error()),
            Err(failure) => {
                let error = failure.into_error();
                tracing::warn!(%error, tried, "the database is not reached, trying again");
            }
        }
        tried += 1;
        database.sleep(pause).await;
        pause = (pause * 2).min(PAUSE_LONGEST);
    }
}

/// What a server is told, and a command that copies, where another server goes on using the database.
const SHARED: &str = "another server uses this database: set ha_enabled = \"true\" on both, or give this one another table";
const RUNNING: &str =
    "a server uses this database: stop all servers that use it, and run the command again";

/// Waits until the lease of whoever used the database before is over; refuses where it is renewed.
async fn wait_alone<D: StoreDatabase>(
    database: &D,
    session: &D::Session,
    clock: &dyn Clock,
    why: &str,
) -> Result<LeaseWatch, Error> {
    let mut watch = LeaseWatch::default();
    let rounds = 2 * LEASE.as_millis() / BEAT.as_millis();
    for _ in 0..rounds {
        let look = session.look().await.map_err(DatabaseFailure::into_error)?;
        let heard = clock.now();
        if look.holder == 0 || heard.saturating_sub(watch.note(&look, heard)) >= LEASE {
            return Ok(watch);
        }
        database.sleep(BEAT).await;
    }
    Err(Error::Unavailable(why.to_owned()))
}

/// Runs both tasks on a runtime, in a thread, until the store is closed.
pub(crate) fn run_on(
    runtime: Runtime,
    tasks: StoreTasks,
    shared: Arc<PgShared>,
    on_fatal: OnFatal,
) -> Result<JoinHandle<()>, Error> {
    let run = move || {
        runtime.block_on(async {
            for task in [tasks.driver, tasks.keeper].map(|task| task.map(tokio::spawn)) {
                if let Some(task) = task
                    && task.await.is_err()
                {
                    // What is in memory can not be believed any more; the database has all that was acknowledged.
                    lock(&shared.queue).close();
                    on_fatal.call(&Error::Poisoned("a task of the storage panicked".to_owned()));
                }
            }
        });
        runtime.shutdown_background();
    };
    std::thread::Builder::new()
        .name("store".into())
        .spawn(run)
        .map_err(|error| Error::Unavailable(format!("no thread for the database: {error}")))
}
