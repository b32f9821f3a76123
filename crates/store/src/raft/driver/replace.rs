//! Beginning anew: from a leader's snapshot, or empty as the member of another cluster.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use raft::eraftpb::{ConfState, HardState};

use super::Driver;
use crate::commit::Promise;
use crate::raft::limits::{FETCH_PAUSE_MAX, FETCH_PAUSE_MIN, STATE_BYTES_MAX};
use crate::raft::lock;
use crate::raft::log::record::{LogIdentity, SegmentState};
use crate::raft::machine::Replacement;
use crate::raft::node::{RaftNode, Restart, SnapshotRestored};
use crate::raft::snapshot::{Fetched, Incoming, PartialSnapshot};
use crate::{Error, Invitation};

/// Whether a snapshot is on its way in.
#[derive(Debug)]
pub(super) enum Fetch {
    Nothing,
    UnderWay,
    /// It broke off: what came is kept until the rest is asked for, or past.
    Broken(Box<PartialSnapshot>),
    /// It is here, and waits until somebody leads.
    Here(Box<Replacement>),
}

/// Nothing is fetched for a while after a snapshot that filled the disk: all of it would be sent again, and again.
#[derive(Debug, Default)]
pub(super) struct FetchPause {
    until: Duration,
    /// The last one.
    length: Duration,
}

impl FetchPause {
    /// Begins one, twice as long as the last.
    fn begin(&mut self, now: Duration) {
        self.length = (2 * self.length).clamp(FETCH_PAUSE_MIN, FETCH_PAUSE_MAX);
        self.until = now + self.length;
    }
}

impl Driver {
    /// Has a snapshot fetched from a leader that says it has one: the rest of the one that broke off, if it is its own.
    pub(super) fn fetch_from(&mut self, from: u64) -> Result<(), Error> {
        let (committed, now) = (self.node.standing().commit_index, self.shared.clock.now());
        if now < self.fetch_pause.until {
            return Ok(());
        }
        let sink = match std::mem::replace(&mut self.fetch, Fetch::Nothing) {
            Fetch::Broken(part) if part.is_wanted(from, committed, now) => Incoming::resume(part),
            busy @ (Fetch::UnderWay | Fetch::Here(_)) => {
                self.fetch = busy;
                return Ok(());
            }
            // What is not wanted goes before another takes its place.
            none => {
                drop(none);
                let (identity, _) = lock(&self.shared.log).belongs_to();
                match Incoming::new(&self.shared, identity.store_id, from) {
                    Ok(sink) => sink,
                    // A full disk: the leader says again where it is, and it is tried again.
                    Err(Error::Full(_)) => return Ok(()),
                    Err(error) => return Err(error),
                }
            }
        };
        self.fetch = Fetch::UnderWay;
        self.shared.transport.fetch_snapshot(from, Box::new(sink));
        Ok(())
    }

    /// Leaves the cluster of one: log and engine begin anew, empty, as the invitation's.
    pub(super) fn join(&mut self, invitation: Invitation, promise: Promise) -> Result<(), Error> {
        self.pump()?;
        let position = self.shared.machine.position();
        let empty = self.shared.machine.is_empty()? && self.node.handed_out() == position.0;
        if !empty || !self.proposed.is_empty() || self.node.members_count() > 1 {
            promise.keep(Err(Error::Conflict));
            return Ok(());
        }
        // A part of a snapshot has the next engine's place.
        self.fetch = Fetch::Nothing;
        let Invitation { store_id, node_id, peers } = invitation;
        let replacement = Replacement {
            engine: self.shared.machine.next_engine(),
            store_id,
            index: 0,
            term: 0,
            membership: ConfState::default(),
            directory: peers,
        };
        let filled = match self.has_room(STATE_BYTES_MAX)? {
            true => Incoming::fill_empty(&self.shared, &replacement),
            false => Err(Error::Full("the log has no room for another beginning".into())),
        };
        match filled {
            Ok(()) => {}
            // Nothing was begun: whoever asked may do so again.
            Err(full @ Error::Full(_)) => {
                promise.keep(Err(full));
                return Ok(());
            }
            Err(error) => return Err(error),
        }
        let identity = LogIdentity { store_id, node_id };
        self.begin_anew(identity, &replacement, HardState::default())?;
        let index = {
            let log = lock(&self.shared.log);
            log.fresh_index(HardState::default(), Arc::clone(&self.shared.fault))
        };
        self.seed = self.seed.rotate_left(17) ^ node_id;
        self.node = RaftNode::new(node_id, index, 0, self.seed)?;
        self.shared.flushed.store(0, Ordering::Release);
        self.shared.compacted.store(0, Ordering::Release);
        self.shared.lease.forget();
        // It belongs to another cluster, of which it has yet to become a member.
        lock(&self.shared.members).membership = ConfState::default();
        self.publish();
        promise.keep(Ok(self.shared.machine.position()));
        Ok(())
    }

    /// The log begins behind what `with` holds, and `with` takes the engine's place. In this order: a log names the engine
    /// that goes with it, so a crash in between finds the new one.
    pub(super) fn begin_anew(
        &self,
        identity: LogIdentity,
        with: &Replacement,
        hard_state: HardState,
    ) -> Result<(), Error> {
        let state = SegmentState {
            identity,
            engine: with.engine,
            last_index: with.index,
            last_term: with.term,
            hard_state,
            membership: with.membership.clone(),
        };
        lock(&self.shared.log).restart(&state)?;
        // They are of the engine that goes.
        self.shared.held.clear();
        self.shared.machine.replace(with)?;
        self.shared.transport.know(&with.directory);
        self.shared.chores.want();
        Ok(())
    }

    pub(super) fn fetched(&mut self, fetched: Fetched) -> Result<(), Error> {
        self.fetch = match fetched {
            Fetched::Whole(replacement) => Fetch::Here(Box::new(replacement)),
            Fetched::Part(part) => Fetch::Broken(part),
            Fetched::Nothing => Fetch::Nothing,
            Fetched::NoRoom => {
                self.fetch_pause.begin(self.shared.clock.now());
                Fetch::Nothing
            }
        };
        if let Fetch::Here(_) = self.fetch {
            self.fetch_pause = FetchPause::default();
        }
        self.install()
    }

    /// Begins anew from a snapshot that is here, if somebody leads and it is not of the past.
    pub(super) fn install(&mut self) -> Result<(), Error> {
        if matches!(&self.fetch, Fetch::Broken(part) if part.is_past(self.shared.clock.now())) {
            self.fetch = Fetch::Nothing;
        }
        if !matches!(self.fetch, Fetch::Here(_)) {
            return Ok(());
        }
        if !self.has_room(STATE_BYTES_MAX)? {
            return Ok(());
        }
        // What was said before must not be said after.
        self.pump()?;
        let Fetch::Here(replacement) = &self.fetch else { return Ok(()) };
        let restart = Restart {
            index: replacement.index,
            term: replacement.term,
            membership: replacement.membership.clone(),
        };
        match self.node.restore(&restart) {
            // The next output has it.
            SnapshotRestored::Taken => self.pump(),
            SnapshotRestored::NobodyLeads => Ok(()),
            SnapshotRestored::Past => {
                self.shared.machine.home().remove(replacement.engine);
                self.fetch = Fetch::Nothing;
                Ok(())
            }
        }
    }

    pub(super) fn restart(
        &mut self,
        restart: &Restart,
        hard_state: &HardState,
    ) -> Result<(), Error> {
        let here = std::mem::replace(&mut self.fetch, Fetch::Nothing);
        let Fetch::Here(replacement) = here else {
            return Err(Error::Poisoned("raft: a snapshot that nobody fetched".into()));
        };
        assert_eq!(replacement.index, restart.index, "the snapshot that was stepped");
        let (identity, _) = lock(&self.shared.log).belongs_to();
        self.begin_anew(identity, &replacement, hard_state.clone())?;
        // Acquire and release: see `compact`.
        self.shared.flushed.store(restart.index, Ordering::Release);
        self.shared.compacted.store(restart.index, Ordering::Release);
        let what = "a snapshot of the leader went past it";
        for (_, promise) in self.proposed.drain(..) {
            promise.keep(Err(Error::Unknown(what.into())));
        }
        Ok(())
    }
}
