//! The driver: carries requests into Raft, and what Raft wants to the disk and on to the applier.
//!
//! One turn takes a group of requests, proposes them all, writes them as one frame, syncs once if the mode says so, and
//! hands what is committed to the applier. While it syncs, the next group gathers: that is group commit. A turn has no
//! thread in it; `threads.rs` calls it in a loop, and a store without threads calls it from the caller.
//!
//! Invariants:
//! - an entry is acknowledged to Raft only when it is as durable as the mode says; a new term or vote is synced always;
//! - in batch mode fewer than `ops` entries are handed out and not synced;
//! - a promise is bound to the index and the term it was proposed at: an entry of another term at that index is another
//!   batch's.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::limits::{FRAME_OVERHEAD_BYTES, GATHER_MAX};
use super::lock;
use super::log::record::ENTRY_HEADER_BYTES;
use super::node::{Committed, Node, Output, Spot, Vote};
use super::requests::{Gather, Request, Room};
use super::shared::Shared;
use super::tasks::Task;
use crate::commit::Promise;
use crate::{Durability, Error};

/// The driver's own.
pub(crate) struct Driver {
    shared: Arc<Shared>,
    node: Node,
    mode: Durability,
    /// Who waits for an entry that was proposed here, by index.
    proposed: VecDeque<(Spot, Promise)>,
    /// Who waits for everything up to an index.
    barriers: VecDeque<(u64, Promise)>,
    next_tick: Duration,
    start: Start,
    /// How many commits have come together lately.
    gathered: usize,
    /// What a sync takes lately.
    sync_time: Duration,
}

/// Whether the node has been started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Start {
    Fresh,
    Past,
}

impl Driver {
    /// A driver for a node.
    pub(crate) fn new(shared: Arc<Shared>, node: Node, mode: Durability) -> Self {
        let next_tick = shared.clock.now() + shared.tick;
        Self {
            shared,
            node,
            mode,
            proposed: VecDeque::new(),
            barriers: VecDeque::new(),
            next_tick,
            start: Start::Fresh,
            gathered: 0,
            sync_time: Duration::ZERO,
        }
    }

    /// What to wait for before the next group is taken. While many commit at once, those who have just been answered
    /// come back within a fraction of a sync, and to sync twice costs more than to wait for them. A lone writer never
    /// waits, and neither does anyone in batch mode.
    pub(crate) fn gather(&self) -> Gather {
        if self.mode != Durability::Strict || self.gathered < 2 {
            return Gather::default();
        }
        Gather { wanted: self.gathered, patience: (self.sync_time / 2).min(GATHER_MAX) }
    }

    /// How long the driver may rest if nothing comes; `None` for as long as it likes.
    pub(crate) fn patience(&self) -> Option<Duration> {
        let tick = (!self.node.leads_alone()).then_some(self.next_tick);
        let sync = match self.mode {
            Durability::Strict => None,
            Durability::Batch { .. } => lock(&self.shared.log).sync_due(self.mode),
        };
        let next = [tick, sync].into_iter().flatten().min()?;
        Some(next.saturating_sub(self.shared.clock.now()))
    }

    /// Serves a group of requests and whatever else is due.
    ///
    /// # Errors
    /// What makes the store useless; everyone who waits has been told.
    pub(crate) fn turn(&mut self, requests: &mut Vec<Request>) -> Result<(), Error> {
        let turned = self.serve(requests);
        if let Err(error) = &turned {
            self.abandon(error);
            requests.drain(..).for_each(|request| request.refuse(error.clone()));
        }
        turned
    }

    /// Makes everything durable, for the last time.
    pub(crate) fn finish(&mut self) -> Result<(), Error> {
        lock(&self.shared.log).sync()
    }

    fn serve(&mut self, requests: &mut Vec<Request>) -> Result<(), Error> {
        self.node.applied(self.shared.machine.position().0);
        self.compact();
        if std::mem::replace(&mut self.start, Start::Past) == Start::Fresh {
            self.node.start()?;
        }
        self.tick();
        self.pump()?;
        let refusal = self.admit(requests)?;
        if !requests.is_empty() {
            // The memory of a large group fades over some dozen small ones.
            self.gathered = requests.len().max(self.gathered - self.gathered.div_ceil(16));
        }
        for request in requests.drain(..) {
            match (request, &refusal) {
                (Request::Commit { promise, .. }, Some(error)) => promise.keep(Err(error.clone())),
                (Request::Commit { data, promise }, None) => self.propose(data, promise),
                (Request::Save(promise), _) => self.settle(promise)?,
                (Request::SetDurability(mode, promise), _) => {
                    // Before the promise is kept: who hears that the mode holds finds it so.
                    self.mode = mode;
                    *lock(&self.shared.mode) = mode;
                    self.settle(promise)?;
                }
            }
        }
        self.pump()?;
        self.sync_if_due()?;
        self.forget_if_deposed();
        *lock(&self.shared.standing) = self.node.standing();
        Ok(())
    }

    /// Makes room for the commits among the requests, or says why none of them can be taken.
    fn admit(&self, requests: &[Request]) -> Result<Option<Error>, Error> {
        let bytes: usize = requests
            .iter()
            .map(|request| match request {
                Request::Commit { data, .. } => data.len() + ENTRY_HEADER_BYTES,
                Request::Save(_) | Request::SetDurability(..) => FRAME_OVERHEAD_BYTES,
            })
            .sum();
        if requests.is_empty() {
            return Ok(None);
        }
        if let Some(full) = lock(&self.shared.full).clone() {
            return Ok(Some(full));
        }
        match lock(&self.shared.log).make_room(bytes) {
            Ok(()) => Ok(None),
            Err(full @ Error::Full(_)) => Ok(Some(full)),
            Err(error) => Err(error),
        }
    }

    fn propose(&mut self, data: Vec<u8>, promise: Promise) {
        match self.node.propose(data) {
            Some(spot) => self.proposed.push_back((spot, promise)),
            None => promise.keep(Err(Error::Unavailable("this server does not lead".into()))),
        }
    }

    /// Syncs everything so far and keeps the promise once it is applied.
    fn settle(&mut self, promise: Promise) -> Result<(), Error> {
        self.pump()?;
        lock(&self.shared.log).sync()?;
        self.barriers.push_back((self.node.standing().last_index, promise));
        self.release_barriers();
        Ok(())
    }

    /// Does what the node wants until it wants nothing or the applier is behind.
    fn pump(&mut self) -> Result<(), Error> {
        while self.shared.tasks.room() == Room::Yes {
            let Some(mut output) = self.node.poll()? else { break };
            let alone = output.messages.is_empty() && output.messages_after.is_empty();
            assert!(alone, "a lone voter has nobody to write to");
            let committed = std::mem::take(&mut output.committed);
            self.hand_over(committed);
            let placed = self.write(&output)?;
            self.node.persisted(output.number, &placed);
        }
        self.release_barriers();
        Ok(())
    }

    fn write(&mut self, output: &Output) -> Result<Vec<(Spot, kallisto_lsm::log::Place)>, Error> {
        if output.append.is_empty() && output.vote == Vote::Same {
            return Ok(Vec::new());
        }
        let now = self.shared.clock.now();
        let mut log = lock(&self.shared.log);
        let segment = log.segment();
        let places = log.append(&output.append, &output.hard_state, now)?;
        let due = log.sync_due(self.mode).is_some_and(|due| due <= now);
        if due || output.vote == Vote::New {
            let began = self.shared.clock.now();
            log.sync()?;
            let took = self.shared.clock.now().saturating_sub(began);
            self.sync_time = (self.sync_time * 7 + took) / 8;
        }
        if log.segment() != segment {
            self.shared.chores.want();
        }
        let spots = output.append.iter().map(|e| Spot { index: e.index, term: e.term });
        Ok(spots.zip(places).collect())
    }

    fn hand_over(&mut self, committed: Vec<Committed>) {
        if committed.is_empty() {
            return;
        }
        let tasks: Vec<Task> = committed
            .into_iter()
            .map(|entry| {
                let promise = self.claim(&entry);
                Task::Apply(entry, promise)
            })
            .collect();
        self.shared.tasks.push(tasks);
    }

    /// The promise that waits for an entry, if it was proposed here.
    fn claim(&mut self, entry: &Committed) -> Option<Promise> {
        while let Some((spot, promise)) =
            self.proposed.pop_front_if(|(spot, _)| spot.index <= entry.index)
        {
            if (spot.index, spot.term) == (entry.index, entry.term) {
                return Some(promise);
            }
            let what = "another leader's entry took its place";
            promise.keep(Err(Error::Unavailable(what.into())));
        }
        None
    }

    fn release_barriers(&mut self) {
        let handed_out = self.node.handed_out();
        while let Some((_, promise)) = self.barriers.pop_front_if(|(index, _)| *index <= handed_out)
        {
            self.shared.tasks.push([Task::Settled(promise)]);
        }
    }

    fn sync_if_due(&self) -> Result<(), Error> {
        let mut log = lock(&self.shared.log);
        match log.sync_due(self.mode) {
            Some(due) if due <= self.shared.clock.now() => log.sync(),
            _ => Ok(()),
        }
    }

    fn tick(&mut self) {
        let now = self.shared.clock.now();
        if self.node.leads_alone() {
            self.next_tick = now + self.shared.tick;
            return;
        }
        if now >= self.next_tick {
            // Ticks that were missed are not made up for: the others' clocks went on without us.
            self.next_tick = now + self.shared.tick;
            self.node.tick();
        }
    }

    fn compact(&mut self) {
        // Acquire and release: the segments are given back only after this.
        let flushed = self.shared.flushed.load(Ordering::Acquire);
        if flushed > self.shared.compacted.load(Ordering::Acquire) {
            self.node.compact(flushed);
            self.shared.compacted.store(flushed, Ordering::Release);
            self.shared.chores.want();
        }
    }

    /// Whoever waits for an entry of a leader that is none any more learns that its fate is open.
    fn forget_if_deposed(&mut self) {
        if !self.node.leads() {
            let what = "this server led and no longer does";
            self.abandon(&Error::Unavailable(what.into()));
        }
    }

    fn abandon(&mut self, why: &Error) {
        let barriers = self.barriers.drain(..).map(|(_, promise)| promise);
        for promise in self.proposed.drain(..).map(|(_, promise)| promise).chain(barriers) {
            promise.keep(Err(Error::Unknown(why.to_string())));
        }
    }
}
