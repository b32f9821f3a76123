//! One server of the simulation: the real store over a disk, a clock and wires that are not.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kallisto_lsm::Background;
use kallisto_lsm::disk::{Disk, DiskFault, FaultKind, FaultyDisk, UnsyncedTail};
use kallisto_store::{
    Durability, Error, Losses, OnFatal, Peer, RaftOptions, RaftStore, Replicated, Store,
};

use crate::clock::SimClock;
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
}

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
    pub(crate) store: Option<Arc<RaftStore>>,
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
        if setup.subject == SimSubject::Core {
            self.site = Some(CoreSite::open(&store, &self.mirror, setup.sabotage));
        }
        self.store = Some(store);
        if self.joined { self.attach() } else { Ok(()) }
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
        let leader = self.store.as_ref()?.leadership().leader_id;
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

    /// The server is switched off. Nothing of it is needed any more.
    pub(crate) fn switch_off(&mut self) {
        if let Some(site) = self.site.take() {
            site.end();
        }
        self.store = None;
    }

    /// The server is stopped as an operator does it.
    pub(crate) fn stop(&mut self) -> Result<(), Error> {
        if let Some(site) = self.site.take() {
            site.end();
        }
        let closed = self.store.take().map_or(Ok(()), |store| store.close());
        self.end = Arc::default();
        closed
    }
}
