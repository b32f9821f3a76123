//! What the store's threads share.
//!
//! Locks, in the order in which they may be taken: the machine's order, `log`, then any of the rest, which are held for
//! a moment only. The driver never waits for the applier, and nobody waits for the driver while holding a lock.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use kallisto_lsm::clock::Clock;
use kallisto_lsm::segment_log::Keeper;

use super::lease::Lease;
use super::limits::RESTING_BYTES_MAX;
use super::lock;
use super::log::RaftLog;
use super::log::index::ReadFault;
use super::log::mark::{Followed, Mark};
use super::machine::{EngineHome, StateMachine};
use super::node::{MemberProgress, RaftStatus, is_alone};
use super::options::{OnFatal, RaftOptions};
use super::requests::{Backpressure, Requests};
use super::snapshot::HeldMoments;
use super::tasks::Tasks;
use raft::eraftpb::ConfState;

use crate::{Candidacy, CommitStats, Durability, Error, Peer, Position, Transport};

/// Stands in the directory of a store whose server the cluster has let go.
pub(crate) const REMOVED_FILE: &str = "REMOVED";

/// What the store's threads share.
pub(crate) struct StoreShared {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) tick: Duration,
    /// How often the lease is to be renewed.
    pub(crate) confirm_every: Duration,
    /// The cluster has let this server go.
    pub(crate) removed: AtomicBool,
    /// Up to when the state holds everything.
    pub(crate) lease: Lease,
    pub(crate) machine: StateMachine,
    pub(crate) log: Arc<Mutex<RaftLog>>,
    /// How far the log was synced, as the disk has it.
    pub(crate) mark: Mutex<Mark>,
    /// Whether the keeper looks after the mark soon.
    pub(crate) marking: AtomicBool,
    pub(crate) keeper: Keeper,
    pub(crate) requests: Requests,
    pub(crate) tasks: Tasks,
    pub(crate) chores: Chores,
    /// When commits are acknowledged, as told to callers.
    pub(crate) mode: Mutex<Durability>,
    /// Whether this server stands for leadership.
    pub(crate) candidacy: Mutex<Candidacy>,
    /// How peers are reached.
    pub(crate) transport: Arc<dyn Transport>,
    /// Where the node stood after the last turn.
    pub(crate) standing: Mutex<RaftStatus>,
    /// How long commits took.
    pub(crate) commits: Mutex<CommitStats>,
    /// The members as the driver knows them.
    pub(crate) members: Mutex<KnownMembers>,
    /// The leader as of the last turn, and this server: read before every write.
    pub(crate) leader_id: AtomicU64,
    pub(crate) node_id: AtomicU64,
    /// Who hears that somebody else leads.
    pub(crate) on_leadership: Mutex<Option<Arc<dyn Fn() + Send + Sync>>>,
    /// Snapshots that members were sent a moment ago.
    pub(crate) held: HeldMoments,
    /// The full disk that stalls the applier.
    pub(crate) full: Mutex<Option<Error>>,
    /// Up to where the engine has everything in files.
    pub(crate) flushed: AtomicU64,
    /// Up to where the log in memory has forgotten its entries.
    pub(crate) compacted: AtomicU64,
    /// This server as its peers should know it.
    pub(crate) own: Peer,
    pub(crate) closing: AtomicBool,
    pub(crate) fatal: OnceLock<Error>,
    /// Why an entry of the log could not be read.
    pub(crate) fault: ReadFault,
    pub(crate) on_fatal: OnFatal,
}

/// What opening a store finds.
pub(crate) struct OpenedParts {
    pub(crate) machine: StateMachine,
    pub(crate) log: Arc<Mutex<RaftLog>>,
    pub(crate) mark: Mark,
    pub(crate) keeper: Keeper,
    /// This server as its peers should know it.
    pub(crate) own: Peer,
    /// The cluster has let this server go.
    pub(crate) was_removed: bool,
    /// Why an entry of the log cannot be read.
    pub(crate) fault: ReadFault,
}

/// The members, and what is known of each.
#[derive(Debug, Default)]
pub(crate) struct KnownMembers {
    pub(crate) membership: ConfState,
    pub(crate) progress: Vec<MemberProgress>,
    /// When each was last heard.
    pub(crate) heard: BTreeMap<u64, Duration>,
}

/// Wakes the thread that keeps the segments.
#[derive(Debug, Default)]
pub(crate) struct Chores {
    state: Mutex<MarkDemand>,
    came: Condvar,
}

/// What the thread that keeps the segments has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SegmentWork {
    /// Chores.
    Chores,
    /// The mark.
    Mark,
    /// To look whether the store is at rest.
    Look,
    /// Nothing more.
    End,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum MarkDemand {
    #[default]
    Nothing,
    Mark,
    Chores,
    End,
}

impl StoreShared {
    pub(crate) fn new(parts: OpenedParts, options: &RaftOptions) -> Self {
        let OpenedParts { machine, log, mark, keeper, own, was_removed, fault } = parts;
        Self {
            clock: Arc::clone(&options.clock),
            tick: options.tick,
            confirm_every: options.confirm_every,
            lease: Lease::default(),
            removed: AtomicBool::new(was_removed),
            machine,
            log,
            mark: Mutex::new(mark),
            marking: AtomicBool::new(false),
            keeper,
            requests: Requests::default(),
            tasks: Tasks::default(),
            chores: Chores::default(),
            mode: Mutex::new(options.durability),
            candidacy: Mutex::new(Candidacy::Willing),
            transport: Arc::clone(&options.transport),
            standing: Mutex::default(),
            commits: Mutex::default(),
            members: Mutex::default(),
            leader_id: AtomicU64::new(0),
            node_id: AtomicU64::new(own.id),
            on_leadership: Mutex::new(None),
            held: HeldMoments::default(),
            full: Mutex::new(None),
            flushed: AtomicU64::new(0),
            compacted: AtomicU64::new(0),
            own,
            closing: AtomicBool::new(false),
            fatal: OnceLock::new(),
            fault,
            on_fatal: options.on_fatal.clone(),
        }
    }

    /// Ends the store: nothing more is written, everyone hears why.
    pub(crate) fn poison(&self, error: &Error) {
        if self.fatal.set(error.clone()).is_ok() {
            self.requests.abandon(error);
            self.on_fatal.call(error);
        }
    }

    /// Remembers, over restarts too, that the cluster has let this server go.
    pub(crate) fn note_removed(&self) {
        self.lease.forget();
        if self.removed.swap(true, Ordering::Relaxed) {
            return;
        }
        let EngineHome { disk, dir, .. } = self.machine.home();
        // A server that cannot write it down is told again after its next start.
        let _ = disk
            .create(&dir.join(REMOVED_FILE))
            .and_then(|file| file.sync_data())
            .and_then(|()| disk.sync_dir(dir));
    }

    /// The disk had space again.
    pub(crate) fn note_space(&self) {
        let mut full = lock(&self.full);
        if full.is_some() {
            *full = None;
        }
    }

    /// Whether commits have to wait: while the applier is behind, but not while a full disk stalls it, since then they are
    /// refused at once.
    pub(crate) fn backpressure(&self) -> Backpressure {
        if self.stalled().is_some() { Backpressure::Off } else { self.tasks.backpressure() }
    }

    /// Why nothing is applied for now.
    pub(crate) fn stalled(&self) -> Option<Error> {
        lock(&self.full).clone()
    }

    /// Brings the mark up to date, if its time has come.
    pub(crate) fn follow_mark(&self) -> Result<(), Error> {
        // Before the look: whoever syncs after it says so again.
        self.marking.store(false, Ordering::Release);
        let reach = lock(&self.log).reach();
        if lock(&self.mark).follow(reach, self.clock.now())? == Followed::Behind {
            self.marking.store(true, Ordering::Release);
        }
        Ok(())
    }

    /// Leaves a mark that says all there is.
    pub(crate) fn leave_mark(&self) -> Result<(), Error> {
        let reach = lock(&self.log).reach();
        lock(&self.mark).catch_up(reach)
    }

    /// Has the keeper bring the mark up to date, unless it is about to.
    pub(crate) fn want_mark(&self) {
        if !self.marking.swap(true, Ordering::AcqRel) {
            self.chores.want_mark();
        }
    }

    /// Gives segments back that nobody needs, and prepares the next.
    pub(crate) fn do_chores(&self) -> Result<(), Error> {
        // Release and acquire: see `Driver::compact`.
        self.flushed.store(self.machine.records().0.flushed_position(), Ordering::Release);
        self.machine.bury();
        match self.machine.sweep() {
            Ok(true) => self.chores.want(),
            // Nobody waits for it; the chores of a disk that has space again go on with it.
            Ok(false) | Err(Error::Full(_)) => {}
            Err(error) => return Err(error),
        }
        let compacted = self.compacted.load(Ordering::Acquire);
        if compacted < self.flushed.load(Ordering::Acquire) {
            self.requests.nudge();
        }
        self.release_log(compacted)?;
        match self.keeper.prepare() {
            // The next segment is made when it is needed, or the write that needs it hears that the disk is full.
            Err(kallisto_lsm::Error::Full(_)) | Ok(()) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

impl StoreShared {
    /// Gives back the segments of the log that hold nothing above `index`.
    fn release_log(&self, index: u64) -> Result<(), Error> {
        let floor = lock(&self.log).purge(index)?;
        self.keeper.release_below(floor)?;
        Ok(())
    }

    /// Leaves no more of the log than the next start needs, once the engine has everything in files: what is there is read.
    /// What a server that is alone has in files nobody will ask it for.
    pub(crate) fn leave_short_log(&self) -> Result<(), Error> {
        let node = self.node_id.load(Ordering::Acquire);
        if !is_alone(&lock(&self.members).membership, node) {
            return Ok(self.keeper.leave_one_spare()?);
        }
        let flushed = self.machine.records().0.flushed_position();
        // First what nobody needs: it may be the room that the next segment takes.
        self.release_log(flushed)?;
        let left = lock(&self.log).leave_behind(flushed);
        self.release_log(flushed)?;
        self.keeper.leave_one_spare()?;
        left
    }
}

/// Sees whether a store is at rest: nothing was applied between two looks.
#[derive(Debug, Default)]
pub(crate) struct RestWatch {
    seen: Position,
}

impl RestWatch {
    /// Looks; at rest, what is in memory goes to files when it takes much. A server that is not written to has no
    /// use for it there, and starts the sooner.
    pub(crate) fn look(&mut self, shared: &StoreShared) -> Result<(), Error> {
        shared.held.sweep(shared.clock.now());
        let position = shared.machine.position();
        if std::mem::replace(&mut self.seen, position) != position {
            return Ok(());
        }
        let records = shared.machine.records();
        if records.0.stats().memtable_bytes <= RESTING_BYTES_MAX {
            return Ok(());
        }
        match records.0.flush() {
            // Whoever writes next hears of it.
            Err(kallisto_lsm::Error::Full(_)) => Ok(()),
            Err(error) => Err(error.into()),
            Ok(()) => shared.do_chores(),
        }
    }
}

impl Chores {
    /// There may be something to do.
    pub(crate) fn want(&self) {
        let mut state = lock(&self.state);
        if matches!(*state, MarkDemand::Nothing | MarkDemand::Mark) {
            *state = MarkDemand::Chores;
            self.came.notify_all();
        }
    }

    /// The log was synced further than the mark says.
    pub(crate) fn want_mark(&self) {
        let mut state = lock(&self.state);
        if *state == MarkDemand::Nothing {
            *state = MarkDemand::Mark;
            self.came.notify_all();
        }
    }

    /// There will be nothing more to do.
    pub(crate) fn end(&self) {
        *lock(&self.state) = MarkDemand::End;
        self.came.notify_all();
    }

    /// Waits for something to do, and no longer than `patience`.
    pub(crate) fn wait(&self, patience: Duration) -> SegmentWork {
        let state = lock(&self.state);
        let waited =
            self.came.wait_timeout_while(state, patience, |state| *state == MarkDemand::Nothing);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        match *state {
            MarkDemand::Nothing => SegmentWork::Look,
            MarkDemand::End => SegmentWork::End,
            MarkDemand::Mark => {
                *state = MarkDemand::Nothing;
                SegmentWork::Mark
            }
            MarkDemand::Chores => {
                *state = MarkDemand::Nothing;
                SegmentWork::Chores
            }
        }
    }

    /// Whether there may be something to do; asked by a store without threads.
    pub(crate) fn take(&self) -> bool {
        let mut state = lock(&self.state);
        let wanted = *state == MarkDemand::Chores;
        if wanted {
            *state = MarkDemand::Nothing;
        }
        wanted
    }
}

impl fmt::Debug for StoreShared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StoreShared")
    }
}

#[cfg(test)]
mod tests {
    use kallisto_lsm::Background;
    use kallisto_lsm::disk::MemDisk;

    use super::*;
    use crate::{Batch, Losses, RaftOptions, RaftStore, Records, Store};

    const VALUE_BYTES: usize = 1 << 20;
    const VALUES: usize = 2 + RESTING_BYTES_MAX / VALUE_BYTES;

    #[derive(Debug)]
    struct StoppedClock;

    impl Clock for StoppedClock {
        fn now(&self) -> Duration {
            Duration::ZERO
        }

        fn sleep(&self, _: Duration) {}
    }

    fn options() -> RaftOptions {
        let engine = kallisto_lsm::Options {
            background: Background::Inline,
            ..RaftOptions::default().engine
        };
        RaftOptions {
            engine,
            log_segment_bytes: 2 << 20,
            has_threads: false,
            ..RaftOptions::default()
        }
    }

    fn open(disk: &Arc<MemDisk>) -> Arc<RaftStore> {
        RaftStore::open(Arc::clone(disk) as Arc<dyn kallisto_lsm::disk::Disk>, "s", options())
            .unwrap()
    }

    fn put(store: &RaftStore, at: usize) {
        let mut batch = Batch::new();
        batch.put(vec![at as u8], vec![at as u8; VALUE_BYTES]);
        store.commit(batch).wait().unwrap();
    }

    fn segments(disk: &MemDisk) -> usize {
        let is_segment = |path: &&std::path::PathBuf| path.starts_with("s/raft_log");
        disk.files().keys().filter(is_segment).filter(|path| path.extension().is_some()).count()
    }

    #[test]
    fn a_store_at_rest_keeps_little_in_memory() {
        let store = open(&MemDisk::shared());
        let mut rest = RestWatch::default();
        let in_memory = || store.shared.machine.records().0.stats().memtable_bytes;
        (0..VALUES).for_each(|at| put(&store, at));
        rest.look(&store.shared).unwrap();
        assert!(in_memory() > RESTING_BYTES_MAX, "it was written to since the last look");
        rest.look(&store.shared).unwrap();
        assert!(in_memory() < RESTING_BYTES_MAX / 4);
        put(&store, 3);
        (0..2).for_each(|_| rest.look(&store.shared).unwrap());
        assert!(in_memory() >= VALUE_BYTES, "a little may stay");
        assert_eq!(store.get(&[3]).unwrap().unwrap().value, vec![3; VALUE_BYTES]);
    }

    #[test]
    fn a_closed_store_leaves_a_short_log_and_everything_else() {
        let disk = MemDisk::shared();
        let store = open(&disk);
        (0..VALUES).for_each(|at| put(&store, at));
        assert!(segments(&disk) > VALUES / 2);
        store.close().unwrap();
        assert!(segments(&disk) <= 2, "{}", segments(&disk));
        drop(store);
        let no_first = || unreachable!("there is a log");
        let log_disk = Arc::clone(&disk) as Arc<dyn kallisto_lsm::disk::Disk>;
        let mark = Mark::open(Arc::clone(&log_disk), "s".as_ref()).unwrap();
        let known = (&mark, Losses::Refused);
        let opened =
            RaftLog::open(log_disk, "s/raft_log".as_ref(), 2 << 20, known, no_first).unwrap();
        assert_eq!(opened.index.floor(), opened.index.last(), "no entry is left to read");
        drop(opened);
        let store = open(&disk);
        for at in 0..VALUES {
            assert_eq!(store.get(&[at as u8]).unwrap().unwrap().value, vec![at as u8; VALUE_BYTES]);
        }
        put(&store, VALUES);
    }

    #[test]
    fn starts_that_write_nothing_leave_nothing() {
        let disk = MemDisk::shared();
        put(&open(&disk), 1);
        for _ in 0..6 {
            // Each begins its term with an entry that says nothing.
            let store = open(&disk);
            store.close().unwrap();
            let raft = store.stats().raft.unwrap();
            assert_eq!(raft.flushed_index, raft.applied_index);
            assert!(segments(&disk) <= 2, "{}", segments(&disk));
        }
        assert_eq!(open(&disk).get(&[1]).unwrap().unwrap().value, vec![1; VALUE_BYTES]);
    }

    #[test]
    fn the_keeper_does_what_is_wanted_most_and_the_end_is_the_last() {
        let chores = Chores::default();
        let next = || chores.wait(Duration::ZERO);
        assert_eq!((next(), chores.take()), (SegmentWork::Look, false));
        chores.want_mark();
        assert!(!chores.take(), "a mark is no chore");
        assert_eq!((next(), next()), (SegmentWork::Mark, SegmentWork::Look));
        chores.want_mark();
        chores.want();
        chores.want_mark();
        assert_eq!((next(), next()), (SegmentWork::Chores, SegmentWork::Look));
        chores.want();
        assert!(chores.take() && !chores.take());
        assert_eq!(next(), SegmentWork::Look);
        chores.end();
        chores.want();
        chores.want_mark();
        assert_eq!((next(), next()), (SegmentWork::End, SegmentWork::End));
    }

    #[test]
    fn a_keeper_that_waits_is_woken_by_whatever_is_wanted() {
        let wakes = |what: &dyn Fn(&Chores)| {
            let chores = Chores::default();
            std::thread::scope(|scope| {
                let keeper = scope.spawn(|| chores.wait(Duration::from_secs(3600)));
                std::thread::sleep(Duration::from_millis(2));
                what(&chores);
                keeper.join().unwrap()
            })
        };
        assert_eq!(wakes(&Chores::want), SegmentWork::Chores);
        assert_eq!(wakes(&Chores::want_mark), SegmentWork::Mark);
        assert_eq!(wakes(&Chores::end), SegmentWork::End);
    }

    #[test]
    fn a_mark_is_wanted_once_until_it_is_followed() {
        let options = RaftOptions { clock: Arc::new(StoppedClock), ..options() };
        let store = RaftStore::open(MemDisk::shared(), "s", options).unwrap();
        let shared = &store.shared;
        shared.marking.store(false, Ordering::Release);
        shared.want_mark();
        assert_eq!(shared.chores.wait(Duration::ZERO), SegmentWork::Mark);
        shared.want_mark();
        assert_eq!(shared.chores.wait(Duration::ZERO), SegmentWork::Look, "it is about to");
        shared.leave_mark().unwrap();
        shared.follow_mark().unwrap();
        assert!(!shared.marking.load(Ordering::Acquire), "it says all there is");
        put(&store, 1);
        put(&store, 2);
        shared.follow_mark().unwrap();
        assert!(shared.marking.load(Ordering::Acquire), "it was written a moment ago");
    }

    #[test]
    fn commits_are_refused_at_once_while_the_disk_is_full_and_wait_again_after_that() {
        let store = open(&MemDisk::shared());
        let shared = &store.shared;
        let waits = (0..crate::raft::limits::APPLY_WAITING_MAX)
            .map(|_| crate::raft::tasks::ApplierTask::Confirmed(Duration::ZERO));
        shared.tasks.push(waits);
        assert_eq!(shared.backpressure(), Backpressure::On);
        let full = Error::Full("why".into());
        *lock(&shared.full) = Some(full.clone());
        assert_eq!((shared.stalled(), shared.backpressure()), (Some(full), Backpressure::Off));
        shared.note_space();
        assert_eq!((shared.stalled(), shared.backpressure()), (None, Backpressure::On));
    }

    #[test]
    fn the_driver_is_told_when_it_may_forget_more_of_the_log() {
        let store = open(&MemDisk::shared());
        let nudged = || {
            store.shared.do_chores().unwrap();
            let came = store.shared.requests.wait(Some(Duration::ZERO), Backpressure::Off);
            store.shared.requests.take(&mut Vec::new(), Backpressure::Off);
            came == crate::raft::requests::WaitOutcome::Meanwhile
        };
        put(&store, 1);
        store.shared.machine.records().0.flush().unwrap();
        assert!(nudged());
        store.turn();
        assert!(!nudged(), "it has");
    }

    #[test]
    fn a_store_that_failed_says_why_once_and_to_everybody_after_that() {
        let told = Arc::new(Mutex::new(Vec::new()));
        let hears = Arc::clone(&told);
        let options = RaftOptions {
            on_fatal: OnFatal::new(move |error| lock(&hears).push(error.clone())),
            ..options()
        };
        let store = RaftStore::open(MemDisk::shared(), "s", options).unwrap();
        let why = Error::Poisoned("a disk".into());
        store.shared.poison(&why);
        store.shared.poison(&Error::Busy);
        assert_eq!(*lock(&told), std::slice::from_ref(&why));
        assert_eq!(store.save().wait(), Err(why.clone()));
        assert_eq!(store.close(), Err(why));
    }
}
