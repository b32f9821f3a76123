//! One server of the simulation: the real store over a disk, a clock and wires that are not.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use kallisto_lsm::Background;
use kallisto_lsm::disk::{Disk, DiskFault, FaultKind, FaultyDisk, UnsyncedTail};
use kallisto_store::{
    Candidacy, Durability, Error, Losses, OnFatal, Peer, RaftOptions, RaftStore, Replicated, Store,
};
use kallisto_store_postgres::{PostgresStore, Sharing, StoreBeginning, StoreTasks};

use crate::clock::SimClock;
use crate::database::DatabaseEnd;
use crate::disk::{self, Lying};
use crate::mirror::Mirror;
use crate::network::NetworkEnd;
use crate::sabotage::Sabotage;
use crate::site::{CoreSite, Wall};

/// A sync of fewer bytes than this may be that of a term and a vote alone.
const VOTE_BYTES_MAX: usize = 600;

/// How often a server asks whether its view holds everything.
const CONFIRM_EVERY: Duration = Duration::from_millis(100);

/// How all servers of a run are set up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setup {
    pub(crate) durability: Durability,
    pub(crate) tick: Duration,
    pub(crate) sabotage: Option<Sabotage>,
    pub(crate) subject: SimSubject,
    pub(crate) storage: SimStorage,
}

/// What keeps the records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SimStorage {
    /// The servers' own disks, with Raft between them.
    Raft,
    /// A database that they share.
    Database,
}

/// The store of a server, whichever it is.
pub(crate) trait ServerStore: Store + Replicated {}

impl<S: Store + Replicated> ServerStore for S {}

/// A store on a database that is on its way.
type OpeningStore =
    Pin<Box<dyn Future<Output = Result<(Arc<PostgresStore>, StoreTasks), Error>> + Send>>;

/// What came of a server's start.
pub(crate) enum StartStep {
    None,
    /// Its store is there now.
    Opened,
    Failed(Error),
}

/// So much lies between the numbers of one server's lives, as the database lists them.
const LIVES: u64 = 1000;
/// How often a server that starts tries to connect.
const CONNECTS_MAX: u32 = 3;
/// Tasks wait for each other: so often are they polled at a time.
const POLLS: usize = 3;

/// What a run is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SimSubject {
    /// Servers' stores, with clients that write their batches.
    Store,
    /// Servers' cores over their stores, with clients that send requests.
    Core,
}

/// A server, running or not.
pub(crate) struct SimServer {
    pub(crate) id: u64,
    seed: u64,
    pub(crate) store: Option<Arc<dyn ServerStore>>,
    /// The same, where it is Raft's.
    raft: Option<Arc<RaftStore>>,
    /// What a store on a database does by itself, also when it is on its way out.
    tasks: Option<StoreTasks>,
    starting: Option<OpeningStore>,
    /// Its end of connections to the database.
    pub(crate) database: Option<DatabaseEnd>,
    /// The core over it, where a run is about cores.
    pub(crate) site: Option<CoreSite>,
    pub(crate) disk: Arc<FaultyDisk>,
    pub(crate) clock: Arc<SimClock>,
    /// The machine's clock of the day, which outlives the processes.
    pub(crate) wall: Wall,
    pub(crate) end: Arc<NetworkEnd>,
    pub(crate) mirror: Arc<Mirror>,
    /// Why the store ended, if it did.
    fatal: Arc<Mutex<Option<Error>>>,
    /// Whether the disk was planned to fail in this life.
    pub(crate) excused: bool,
    /// How often it was started.
    pub(crate) life: u64,
    /// Whether it belongs to the cluster, and was not a cluster of its own.
    pub(crate) joined: bool,
    /// Whether the cluster has let it go.
    pub(crate) removed: bool,
    /// It does nothing until then.
    pub(crate) paused_until: Duration,
    /// Up to where its fold came.
    pub(crate) folded: u64,
}

impl SimServer {
    /// A server that was never started.
    pub(crate) fn new(id: u64, seed: u64) -> Self {
        Self {
            id,
            seed,
            store: None,
            raft: None,
            tasks: None,
            starting: None,
            database: None,
            site: None,
            disk: FaultyDisk::shared(),
            clock: Arc::new(SimClock::new(Duration::ZERO, Duration::ZERO)),
            wall: Wall::new(0, Duration::ZERO),
            end: Arc::default(),
            mirror: Arc::default(),
            fatal: Arc::default(),
            excused: false,
            life: 0,
            joined: false,
            removed: false,
            paused_until: Duration::ZERO,
            folded: 0,
        }
    }

    /// What its peers know of it.
    pub(crate) fn peer(id: u64) -> Peer {
        let (name, cluster_address) = (format!("server-{id}"), format!("127.0.0.1:{id}"));
        Peer { id, name, cluster_address, ..Peer::default() }
    }

    /// Opens the store.
    pub(crate) fn start(&mut self, setup: &Setup, now: Duration) -> Result<(), Error> {
        self.life += 1;
        self.disk.plan(None);
        self.end = Arc::default();
        self.mirror = Arc::default();
        self.fatal = Arc::default();
        self.excused = false;
        self.paused_until = now;
        self.clock = Arc::new(SimClock::new(Duration::from_secs(1), now));
        if setup.storage == SimStorage::Database {
            self.begin(setup);
            return Ok(());
        }
        let fatal = Arc::clone(&self.fatal);
        let on_fatal = OnFatal::new(move |error| {
            let mut fatal = fatal.lock().unwrap_or_else(PoisonError::into_inner);
            fatal.get_or_insert_with(|| error.clone());
        });
        let options = RaftOptions {
            node_id: self.id,
            peer: Self::peer(self.id),
            transport: Arc::clone(&self.end) as _,
            durability: setup.durability,
            engine: kallisto_lsm::Options {
                background: Background::Inline,
                memtable_bytes: 16 << 10,
                block_bytes: 512,
                sst_bytes: 8 << 10,
                level_base_bytes: 16 << 10,
                cache_bytes: 16 << 10,
                open_files_max: 8,
                ..kallisto_lsm::Options::default()
            },
            log_segment_bytes: 8 << 10,
            tick: setup.tick,
            confirm_every: CONFIRM_EVERY,
            seed: self.seed.wrapping_add(self.life),
            has_threads: false,
            clock: Arc::clone(&self.clock) as _,
            only_member: false,
            losses: Losses::Refused,
            on_fatal,
        };
        let store = RaftStore::open(self.seen_disk(setup), "store", options)?;
        self.raft = Some(Arc::clone(&store));
        self.opened(store, setup)
    }

    /// The store is there.
    fn opened(&mut self, store: Arc<dyn ServerStore>, setup: &Setup) -> Result<(), Error> {
        if setup.subject == SimSubject::Core {
            self.site = Some(CoreSite::open(&store, &self.mirror, setup.sabotage));
        }
        self.store = Some(store);
        if self.joined { self.attach() } else { Ok(()) }
    }

    /// Sets out to open a store on the database.
    fn begin(&mut self, setup: &Setup) {
        let end = DatabaseEnd::new(Arc::clone(&self.clock), setup.sabotage);
        let own = Peer { id: self.id + LIVES * self.life, ..Self::peer(self.id) };
        let beginning = StoreBeginning {
            sharing: Sharing::Many,
            connects_max: CONNECTS_MAX,
            own,
            transport: Arc::clone(&self.end) as _,
            confirm_every: CONFIRM_EVERY,
            clock: Arc::clone(&self.clock) as _,
        };
        // What was on its way out is gone.
        self.tasks = None;
        self.starting = Some(Box::pin(kallisto_store_postgres::begin(end.clone(), beginning)));
        self.database = Some(end);
    }

    /// Whether there is anything of it that goes on.
    pub(crate) fn has_turns(&self) -> bool {
        self.is_on() || self.tasks.is_some()
    }

    /// Whether it was started and not stopped.
    pub(crate) fn is_on(&self) -> bool {
        self.store.is_some() || self.starting.is_some()
    }

    /// Lets what is its own go on.
    pub(crate) fn drive(&mut self, setup: &Setup) -> StartStep {
        if let Some(raft) = &self.raft {
            raft.turn();
            return StartStep::None;
        }
        let mut step = StartStep::None;
        if let Some(starting) = &mut self.starting
            && let Poll::Ready(begun) =
                starting.as_mut().poll(&mut Context::from_waker(Waker::noop()))
        {
            self.starting = None;
            let opened = begun.and_then(|(store, tasks)| {
                if setup.subject == SimSubject::Store {
                    store.stand(Candidacy::Willing);
                }
                self.tasks = Some(tasks);
                self.opened(store, setup)
            });
            step = opened.map_or_else(StartStep::Failed, |()| StartStep::Opened);
        }
        for _ in 0..POLLS {
            if self.tasks.as_mut().is_some_and(StoreTasks::poll) {
                self.tasks = None;
            }
        }
        step
    }

    /// The disk as the store sees it.
    fn seen_disk(&self, setup: &Setup) -> Arc<dyn Disk> {
        let disk = Arc::clone(&self.disk);
        match setup.sabotage {
            Some(Sabotage::LostSyncs) => Arc::new(Lying::new(disk, usize::MAX)),
            Some(Sabotage::LostVotes) => Arc::new(Lying::new(disk, VOTE_BYTES_MAX)),
            _ => disk,
        }
    }

    /// Has the mirror follow the store from here on.
    pub(crate) fn attach(&self) -> Result<(), Error> {
        match &self.store {
            Some(store) => store.attach(Arc::clone(&self.mirror) as _).map(|_| ()),
            None => Ok(()),
        }
    }

    /// Whether it can be asked for something at `now`.
    pub(crate) fn serves(&self, now: Duration) -> bool {
        self.store.is_some() && self.joined && !self.removed && self.paused_until <= now
    }

    /// Who leads, as it believes.
    pub(crate) fn leader(&self) -> Option<u64> {
        let leader = self.store.as_ref()?.leadership().leader_id % LIVES;
        (leader != 0).then_some(leader)
    }

    /// Why the store ended, if it did.
    pub(crate) fn fatal(&self) -> Option<Error> {
        self.fatal.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Has the disk fail: from so many changes on, or for good.
    pub(crate) fn fail_disk(&mut self, kind: FaultKind, after: u64, count: u64) {
        let from = self.disk.operations() + after;
        self.disk.plan(Some(DiskFault { kind, from, until: from.saturating_add(count) }));
        // A full disk is no reason to end.
        self.excused |= kind != FaultKind::NoSpace;
    }

    /// The power goes. What was not synced is as `tail` says.
    pub(crate) fn power_off(&mut self, tail: UnsyncedTail, seed: u64) -> std::io::Result<()> {
        self.disk.plan(Some(DiskFault { kind: FaultKind::Crash, from: 0, until: u64::MAX }));
        // What core and store say and write on their way out reaches nobody.
        self.switch_off();
        self.end = Arc::default();
        self.disk = disk::after_power_cut(&self.disk, tail, seed)?;
        Ok(())
    }

    /// Has what is on its way out go on.
    fn drive_out(&mut self) {
        if self.tasks.as_mut().is_some_and(StoreTasks::poll) {
            self.tasks = None;
        }
    }

    /// The server is switched off. Nothing of it is needed any more.
    pub(crate) fn switch_off(&mut self) {
        if let Some(site) = self.site.take() {
            site.end();
        }
        self.forget();
        (self.tasks, self.starting, self.database) = (None, None, None);
    }

    fn forget(&mut self) {
        (self.store, self.raft) = (None, None);
    }

    /// The server is stopped as an operator does it.
    pub(crate) fn stop(&mut self) -> Result<(), Error> {
        if let Some(site) = self.site.take() {
            site.end();
        }
        self.starting = None;
        let closed = self.store.as_ref().map_or(Ok(()), |store| store.close());
        self.forget();
        self.end = Arc::default();
        // A store on a database goes once it has said so there.
        self.drive_out();
        closed
    }
}
