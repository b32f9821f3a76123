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
use kallisto_lsm::log::Keeper;

use super::lock;
use super::log::RaftLog;
use super::log::index::Fault;
use super::machine::Machine;
use super::node::{Progress, Standing};
use super::options::OnFatal;
use super::requests::Requests;
use super::tasks::Tasks;
use raft::eraftpb::ConfState;

use crate::{Candidacy, Durability, Error, Peer, Transport};

/// What the store's threads share.
pub(crate) struct Shared {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) tick: Duration,
    pub(crate) machine: Machine,
    pub(crate) log: Arc<Mutex<RaftLog>>,
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
    pub(crate) standing: Mutex<Standing>,
    /// The members as the driver knows them.
    pub(crate) members: Mutex<Known>,
    /// The leader as of the last turn, and this server: read before every write.
    pub(crate) leader_id: AtomicU64,
    pub(crate) node_id: AtomicU64,
    /// Who hears that somebody else leads.
    pub(crate) on_leadership: Mutex<Option<Arc<dyn Fn() + Send + Sync>>>,
    /// Why no writes are taken for now.
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
    pub(crate) fault: Fault,
    pub(crate) on_fatal: OnFatal,
}

/// The members, and what is known of each.
#[derive(Debug, Default)]
pub(crate) struct Known {
    pub(crate) membership: ConfState,
    pub(crate) progress: Vec<Progress>,
    /// When each was last heard.
    pub(crate) heard: BTreeMap<u64, Duration>,
}

/// Wakes the thread that keeps the segments.
#[derive(Debug, Default)]
pub(crate) struct Chores {
    state: Mutex<Wanted>,
    came: Condvar,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Wanted {
    #[default]
    Nothing,
    Chores,
    End,
}

impl Shared {
    /// Ends the store: nothing more is written, everyone hears why.
    pub(crate) fn poison(&self, error: &Error) {
        if self.fatal.set(error.clone()).is_ok() {
            self.requests.abandon(error);
            self.on_fatal.call(error);
        }
    }

    /// The disk had space again.
    pub(crate) fn note_space(&self) {
        let mut full = lock(&self.full);
        if full.is_some() {
            *full = None;
        }
    }

    /// Gives segments back that nobody needs, and prepares the next.
    pub(crate) fn do_chores(&self) -> Result<(), Error> {
        // Release and acquire: see `Driver::compact`.
        self.flushed.store(self.machine.records().0.flushed_position(), Ordering::Release);
        self.machine.bury();
        if self.machine.sweep()? {
            self.chores.want();
        }
        let compacted = self.compacted.load(Ordering::Acquire);
        if compacted < self.flushed.load(Ordering::Acquire) {
            self.requests.nudge();
        }
        let floor = lock(&self.log).purge(compacted)?;
        self.keeper.release_below(floor)?;
        match self.keeper.prepare() {
            // The next segment is made when it is needed, or the write that needs it hears that the disk is full.
            Err(kallisto_lsm::Error::Full(_)) | Ok(()) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

impl Chores {
    /// There may be something to do.
    pub(crate) fn want(&self) {
        let mut state = lock(&self.state);
        if *state == Wanted::Nothing {
            *state = Wanted::Chores;
            self.came.notify_all();
        }
    }

    /// There will be nothing more to do.
    pub(crate) fn end(&self) {
        *lock(&self.state) = Wanted::End;
        self.came.notify_all();
    }

    /// Waits; false at the end.
    pub(crate) fn wait(&self) -> bool {
        let mut state = lock(&self.state);
        while *state == Wanted::Nothing {
            state = self.came.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let go_on = *state == Wanted::Chores;
        if go_on {
            *state = Wanted::Nothing;
        }
        go_on
    }

    /// Whether there may be something to do; asked by a store without threads.
    pub(crate) fn take(&self) -> bool {
        let mut state = lock(&self.state);
        let wanted = *state == Wanted::Chores;
        if wanted {
            *state = Wanted::Nothing;
        }
        wanted
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Shared")
    }
}
