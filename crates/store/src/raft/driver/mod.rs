//! The driver: carries requests into Raft, and what Raft wants to the disk and on to the applier.
//!
//! One turn takes a group of requests, proposes them all, writes them as one frame, syncs once if the mode says so, and
//! hands what is committed to the applier. While it syncs, the next group gathers: that is group commit. A turn has no
//! thread in it; `threads.rs` calls it in a loop, and a store without threads calls it from the caller.
//!
//! Invariants:
//! - an entry is acknowledged to Raft only when it is as durable as the mode says; a new term or vote is synced always;
//! - in batch mode fewer than `ops` entries are handed out and not synced;
//! - a promise is bound to the index and the term it was proposed at: an entry of another term at that index, or before
//!   it and of a later term, says that nothing came of the proposal. A leader that lost its place waits for that word;
//! - a message about what was written leaves after it is on the disk.

mod leading;
mod reads;
mod replace;
mod scarce;
mod undecided;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use raft::eraftpb::{Message, MessageType};

use self::reads::PendingReads;
use self::replace::{Fetch, FetchPause};
use self::scarce::Scarce;
use self::undecided::Undecided;
use crate::commit::Promise;
use crate::raft::limits::{FRAME_OVERHEAD_BYTES, GATHER_MAX, GROUP_BYTES_MAX, LOG_KEPT_BYTES};
use crate::raft::lock;
use crate::raft::log::record::ENTRY_HEADER_BYTES;
use crate::raft::node::{Committed, LogPosition, NodeOutput, RaftNode, contains};
use crate::raft::requests::{Backpressure, DriverRequest, Gather};
use crate::raft::shared::StoreShared;
use crate::raft::tasks::ApplierTask;
use crate::raft::wire;
use crate::{Candidacy, Durability, Error};

/// Frames of a turn that are nobody's request: a new term, a vote, the entry with which a leader begins, a promotion with
/// its description.
const TURN_FRAMES: usize = 16;

/// Whether a message asks for a vote.
fn asks_for_vote(message: &Message) -> bool {
    matches!(message.msg_type, MessageType::MsgRequestVote | MessageType::MsgRequestPreVote)
}

/// What a message may have written to the log.
fn log_bytes(message: &Message) -> usize {
    let entries = message.entries.iter().map(|entry| entry.data.len() + ENTRY_HEADER_BYTES);
    2 * FRAME_OVERHEAD_BYTES + entries.sum::<usize>()
}

/// The driver's own.
pub(crate) struct Driver {
    shared: Arc<StoreShared>,
    node: RaftNode,
    mode: Durability,
    /// Who waits for an entry that was proposed here, by index.
    proposed: VecDeque<(LogPosition, Promise)>,
    /// The last entry of each group that is not committed, and when it was proposed.
    begun: VecDeque<(u64, Duration)>,
    /// What the applier is to do once everything up to an index is.
    barriers: VecDeque<(u64, ApplierTask)>,
    next_tick: Duration,
    /// How many commits have come together lately.
    gathered: usize,
    /// What a sync takes lately.
    sync_time: Duration,
    /// When something was last written to the log.
    written: Duration,
    /// Commits of this turn that are not proposed yet.
    group: Vec<(Vec<u8>, Promise)>,
    reads: PendingReads,
    /// Who waits for another server to lead, and whom it was offered to.
    transfers: Vec<Promise>,
    /// Until when a server that gave its place away waits for another to lead.
    transfers_end: Option<Duration>,
    offered: Vec<u64>,
    /// What happens to proposals of which nobody says a word.
    undecided: Undecided,
    fetch: Fetch,
    /// Until when no snapshot is fetched, since the last one found no room.
    fetch_pause: FetchPause,
    /// Who has room on its disk.
    scarce: Scarce,
    /// The term in which this server, as a leader, last looked whether its peers know it right.
    described: u64,
    /// Seeds the election timeouts of a node that begins anew.
    seed: u64,
}

impl Driver {
    /// A driver for a node.
    pub(crate) fn new(
        shared: Arc<StoreShared>,
        node: RaftNode,
        mode: Durability,
        seed: u64,
    ) -> Self {
        let now = shared.clock.now();
        let next_tick = now + shared.tick;
        Self {
            shared,
            node,
            mode,
            proposed: VecDeque::new(),
            begun: VecDeque::new(),
            barriers: VecDeque::new(),
            next_tick,
            gathered: 0,
            sync_time: Duration::ZERO,
            written: now,
            group: Vec::new(),
            reads: PendingReads::new(seed),
            transfers: Vec::new(),
            transfers_end: None,
            offered: Vec::new(),
            undecided: Undecided::default(),
            fetch: Fetch::Nothing,
            fetch_pause: FetchPause::default(),
            scarce: Scarce::default(),
            described: 0,
            seed,
        }
    }

    /// What to wait for before the next group is taken. While many commit at once, those who have just been answered
    /// come back within a fraction of a sync, and to sync twice costs more than to wait for them. A lone writer never
    /// waits. In batch mode there is no sync to spare, and those who want this core have their turn first, no more.
    pub(crate) fn gather(&self) -> Gather {
        if self.gathered < 2 {
            return Gather::Nothing;
        }
        match self.mode {
            Durability::Batch { .. } => Gather::Turn,
            Durability::Strict => Gather::Wait {
                wanted: self.gathered,
                patience: (self.sync_time / 2).min(GATHER_MAX),
            },
        }
    }

    /// How long the driver may rest if nothing comes; `None` for as long as it likes.
    pub(crate) fn patience(&self) -> Option<Duration> {
        let looks_again = !self.node.leads_alone() || self.becomes_alone();
        let tick = looks_again.then_some(self.next_tick);
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
    pub(crate) fn turn(&mut self, requests: &mut Vec<DriverRequest>) -> Result<(), Error> {
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

    fn serve(&mut self, requests: &mut Vec<DriverRequest>) -> Result<(), Error> {
        let began = self.shared.clock.now();
        self.node.applied(self.shared.machine.position().0);
        self.compact();
        if self.has_room(0)? {
            self.node.lead_alone()?;
            self.tick()?;
        } else {
            // It cannot hear that nobody follows, so it must not lead; and it looks for room once a tick.
            self.node.step_down();
            self.next_tick = self.next_tick.max(self.shared.clock.now() + self.shared.tick);
        }
        let rest = self.hear(requests)?;
        self.pump()?;
        self.install()?;
        self.take(rest)?;
        self.ask_reads();
        self.pump()?;
        self.sync_if_due()?;
        self.note_commit()?;
        self.settle_leadership();
        self.give_up_undecided();
        self.refuse_stalled();
        self.publish();
        self.note_company(began);
        Ok(())
    }

    /// Takes the messages of peers first: what they bring may change who leads. Returns the other requests.
    fn hear(&mut self, requests: &mut Vec<DriverRequest>) -> Result<Vec<DriverRequest>, Error> {
        let mut rest = Vec::with_capacity(requests.len());
        let backpressure = self.shared.tasks.backpressure();
        let mut bytes = 0;
        for request in requests.drain(..) {
            if backpressure == Backpressure::On && request.brings_entries() {
                // Lost, as messages may be: the leader sends it again once the applier has caught up.
                continue;
            }
            let DriverRequest::Message(message) = request else {
                rest.push(request);
                continue;
            };
            bytes += log_bytes(&message);
            if !self.has_room(bytes)? {
                // Lost for the same reason: whoever cannot write can neither vote nor follow, and lives on.
                bytes -= log_bytes(&message);
                continue;
            }
            self.message(message)?;
            if bytes > GROUP_BYTES_MAX {
                self.pump()?;
                bytes = 0;
            }
        }
        Ok(rest)
    }

    fn message(&mut self, mut message: Message) -> Result<(), Error> {
        self.hear_if_short(&mut message);
        let now = self.shared.clock.now();
        // Whoever asks a leader for a vote does not hear it: what reaches its leader is not what the leader sends.
        if !(self.node.leads() && asks_for_vote(&message)) {
            lock(&self.shared.members).heard.insert(message.from, now);
        }
        let asked_to_lead = message.msg_type == MessageType::MsgTimeoutNow;
        if asked_to_lead && *lock(&self.shared.candidacy) == Candidacy::Reluctant {
            return Ok(());
        }
        self.refuse_if_rolled_back(&message)?;
        if message.msg_type != MessageType::MsgSnapshot {
            self.node.step(message);
            return Ok(());
        }
        // The message says where the leader's state is; the state itself is fetched.
        let behind =
            message.get_snapshot().get_metadata().index > self.node.standing().commit_index;
        if !behind {
            // Of the past: the library answers how far this server is. A leader that does not hear it says the same for ever.
            self.node.step(message);
            return Ok(());
        }
        self.fetch_from(message.from)
    }

    /// A leader names as committed only what this server said it has: one that has less has forgotten what others count
    /// on. The library would panic.
    fn refuse_if_rolled_back(&self, message: &Message) -> Result<(), Error> {
        let standing = self.node.standing();
        let heartbeat = message.msg_type == MessageType::MsgHeartbeat;
        if !heartbeat || message.term < standing.term || message.commit <= standing.last_index {
            return Ok(());
        }
        Err(Error::Lost(format!(
            "this server told its leader that it has entry {}, and its log ends at {}: its directory was put back from an older copy, or its \
             disk lost what was written. Remove this server on another one (kallisto operator raft remove-peer), empty the directory and let it join again; what it holds is in the others",
            message.commit, standing.last_index
        )))
    }

    fn take(&mut self, requests: Vec<DriverRequest>) -> Result<(), Error> {
        let commits = |request: &&DriverRequest| matches!(request, DriverRequest::Commit { .. });
        let refusal = self.admit(&requests)?;
        let stalled = self.shared.stalled();
        if refusal.all.is_some() {
            // Another server may have space.
            self.node.step_down();
        } else if refusal.usual.is_some() {
            self.give_way_if_short();
        }
        let count = requests.iter().filter(commits).count();
        if count > 0 {
            // The memory of a large group fades over some dozen small ones.
            self.gathered = count.max(self.gathered - self.gathered.div_ceil(16));
        }
        for request in requests {
            match (request, &refusal.all) {
                (DriverRequest::Commit { data, need, promise }, _) => match refusal.of(need) {
                    Some(error) => promise.keep(Err(error.clone())),
                    None => self.group.push((data, promise)),
                },
                (DriverRequest::Save(promise) | DriverRequest::SetDurability(_, promise), _)
                    if let Some(full) = &stalled =>
                {
                    promise.keep(Err(full.clone()));
                }
                (DriverRequest::Save(promise), _) => self.settle(promise)?,
                (DriverRequest::SetDurability(mode, promise), _) => {
                    // Before the promise is kept: who hears that the mode holds finds it so.
                    self.mode = mode;
                    *lock(&self.shared.mode) = mode;
                    self.settle(promise)?;
                }
                (DriverRequest::Change(_, promise), Some(error)) => {
                    promise.keep(Err(error.clone()))
                }
                (DriverRequest::Change(changes, promise), None) => self.change(&changes, promise),
                (DriverRequest::ReadIndex(promise), _) => self.reads.waiting.push(promise),
                (DriverRequest::Transfer(to, promise), _) => self.transfer(to, promise),
                (DriverRequest::Join(invitation, promise), _) => self.join(invitation, promise)?,
                (DriverRequest::Fetched(fetched), _) => self.fetched(fetched)?,
                (DriverRequest::Message(message), _) => self.message(message)?,
            }
        }
        self.propose_group();
        Ok(())
    }

    fn propose_group(&mut self) {
        if self.group.is_empty() {
            return;
        }
        let (data, promises): (Vec<_>, Vec<_>) = self.group.drain(..).unzip();
        if self.is_unheard() {
            promises.into_iter().for_each(|promise| promise.keep(Err(undecided::refusal())));
            return;
        }
        match self.node.propose(data) {
            Some(first) => {
                let count = promises.len() as u64;
                self.begun.push_back((first.index + count - 1, self.shared.clock.now()));
                lock(&self.shared.commits).batches += count;
                let spots = (first.index..).map(|index| LogPosition { index, ..first });
                self.proposed.extend(spots.zip(promises));
            }
            None => promises.into_iter().for_each(|promise| promise.keep(Err(Error::NotLeader))),
        }
    }

    /// Syncs everything so far and keeps the promise once it is applied.
    fn settle(&mut self, promise: Promise) -> Result<(), Error> {
        self.propose_group();
        self.pump()?;
        lock(&self.shared.log).sync()?;
        self.shared.want_mark();
        let standing = self.node.standing();
        let last = if self.node.leads() { standing.last_index } else { standing.commit_index };
        self.barriers.push_back((last, ApplierTask::Settled(promise)));
        self.release_barriers();
        Ok(())
    }

    /// Does what the node wants until it wants nothing or the applier is behind.
    fn pump(&mut self) -> Result<(), Error> {
        while self.shared.tasks.backpressure() == Backpressure::Off || self.node.has_messages() {
            let Some(mut output) = self.node.poll()? else { break };
            self.send(std::mem::take(&mut output.messages));
            if let Some(restart) = &output.restart {
                self.restart(restart, &output.hard_state)?;
            }
            let committed = std::mem::take(&mut output.committed);
            self.hand_over(committed);
            let placed = self.write(&output)?;
            self.node.persisted(output.number, &placed);
            self.send(std::mem::take(&mut output.messages_after));
            self.admit_reads(std::mem::take(&mut output.reads));
        }
        self.release_barriers();
        Ok(())
    }

    fn send(&self, messages: Vec<Message>) {
        for mut message in messages {
            self.say_if_short(&mut message);
            if let Some(bytes) = wire::encode(&message) {
                self.shared.transport.send(message.to, bytes);
            }
        }
    }

    fn write(
        &mut self,
        output: &NodeOutput,
    ) -> Result<Vec<(LogPosition, kallisto_lsm::segment_log::SegmentOffset)>, Error> {
        if output.append.is_empty() && !output.has_new_vote {
            return Ok(Vec::new());
        }
        let now = self.shared.clock.now();
        let mut log = lock(&self.shared.log);
        let segment = log.segment();
        let places = log.append(&output.append, &output.hard_state, now)?;
        self.written = now;
        let due = log.sync_due(self.mode).is_some_and(|due| due <= now);
        if due || output.has_new_vote {
            let began = self.shared.clock.now();
            log.sync()?;
            self.shared.want_mark();
            let took = self.shared.clock.now().saturating_sub(began);
            self.sync_time = (self.sync_time * 7 + took) / 8;
        }
        // The first segment of a start is in no hurry for the next: see `threads::keep`.
        if segment != 0 && log.segment() != segment {
            self.shared.chores.want();
        }
        let spots = output.append.iter().map(|e| LogPosition { index: e.index, term: e.term });
        Ok(spots.zip(places).collect())
    }

    /// Writes down how far the log is committed, where nothing was written for a tick: it goes with entries otherwise. When all servers were killed,
    /// those that are sealed have no leader who could tell them, and go by it.
    fn note_commit(&mut self) -> Result<(), Error> {
        let now = self.shared.clock.now();
        if self.node.leads_alone() || now < self.written + self.shared.tick {
            return Ok(());
        }
        let known = self
            .node
            .settled()
            .filter(|state| state.commit > lock(&self.shared.log).hard_state().commit);
        let Some(known) = known.cloned() else { return Ok(()) };
        if self.has_room(0)? {
            let mut log = lock(&self.shared.log);
            let segment = log.segment();
            log.append(&[], &known, now)?;
            // In batch mode it may wait for the sync of what was written before it.
            if log.sync_due(self.mode).is_none_or(|due| due <= now) {
                log.sync()?;
                self.shared.want_mark();
            }
            if segment != 0 && log.segment() != segment {
                self.shared.chores.want();
            }
            self.written = now;
        }
        Ok(())
    }

    fn hand_over(&mut self, committed: Vec<Committed>) {
        let Some(last) = committed.last() else { return };
        self.note_commits(last.index);
        let tasks: Vec<ApplierTask> = committed
            .into_iter()
            .map(|entry| {
                let promise = self.claim(&entry);
                if let Some(members) = &entry.members {
                    lock(&self.shared.log).set_membership(members.membership.clone());
                }
                ApplierTask::Apply(entry, promise)
            })
            .collect();
        self.shared.tasks.push(tasks);
    }

    /// Counts the groups that are committed up to `reached`. What a server proposed that leads no more is forgotten.
    fn note_commits(&mut self, reached: u64) {
        let now = self.shared.clock.now();
        while let Some((_, began)) = self.begun.pop_front_if(|(last, _)| *last <= reached) {
            if self.node.leads() {
                lock(&self.shared.commits).record(now.saturating_sub(began));
            }
        }
        if !self.node.leads() {
            self.begun.clear();
        }
    }

    /// The promise that waits for an entry, if it was proposed here.
    fn claim(&mut self, entry: &Committed) -> Option<Promise> {
        let lost = |spot: &LogPosition| spot.index < entry.index || spot.term < entry.term;
        while let Some((_, promise)) = self.proposed.pop_front_if(|(spot, _)| lost(spot)) {
            // Behind an entry of a later term nothing of an earlier one is ever committed.
            promise.keep(Err(Error::NotLeader));
        }
        let here = |spot: &LogPosition| (spot.index, spot.term) == (entry.index, entry.term);
        self.proposed.pop_front_if(|(spot, _)| here(spot)).map(|(_, promise)| promise)
    }

    fn release_barriers(&mut self) {
        let handed_out = self.node.handed_out();
        while let Some((_, task)) = self.barriers.pop_front_if(|(index, _)| *index <= handed_out) {
            self.shared.tasks.push([task]);
        }
        while let Some(tasks) = self.reads.pop_reached(handed_out) {
            self.shared.tasks.push(tasks);
        }
    }

    /// Tells those who wait for what a full disk keeps from being applied: it may do so for hours.
    fn refuse_stalled(&mut self) {
        let Some(full) = self.shared.stalled() else { return };
        self.barriers.drain(..).for_each(|(_, task)| task.refuse(full.clone()));
        self.reads.admitted().for_each(|promise| promise.keep(Err(full.clone())));
    }

    fn sync_if_due(&self) -> Result<(), Error> {
        let mut log = lock(&self.shared.log);
        match log.sync_due(self.mode) {
            Some(due) if due <= self.shared.clock.now() => log.sync()?,
            _ => return Ok(()),
        }
        self.shared.want_mark();
        Ok(())
    }

    fn tick(&mut self) -> Result<(), Error> {
        let now = self.shared.clock.now();
        if self.node.leads_alone() {
            self.next_tick = now + self.shared.tick;
            return Ok(());
        }
        if now >= self.next_tick {
            // Ticks that were missed are not made up for: the others' clocks went on without us.
            self.next_tick = now + self.shared.tick;
            self.look_for_room()?;
            self.node.tick(*lock(&self.shared.candidacy));
            lock(&self.shared.members).progress = self.node.progress();
            self.promote();
        }
        Ok(())
    }

    fn compact(&mut self) {
        // Acquire and release: the segments are given back only after this.
        let flushed = self.shared.flushed.load(Ordering::Acquire).min(self.needed());
        if flushed > self.shared.compacted.load(Ordering::Acquire) {
            self.node.compact(flushed);
            self.shared.compacted.store(flushed, Ordering::Release);
            self.shared.chores.want();
        }
    }

    /// Up to where every member that can still follow the log has it, or will once it took the snapshot that it is sent;
    /// everything, once the log is long.
    fn needed(&self) -> u64 {
        if self.shared.keeper.in_use_bytes() > LOG_KEPT_BYTES {
            return u64::MAX;
        }
        let compacted = self.shared.compacted.load(Ordering::Acquire);
        let behind = |matched: &u64| *matched > compacted;
        let progress = self.node.progress();
        let followed = progress.iter().map(|p| p.matched).filter(behind).min();
        followed.unwrap_or(u64::MAX).min(self.shared.held.floor())
    }

    /// Says where the node stands.
    fn publish(&self) {
        let standing = self.node.standing();
        *lock(&self.shared.standing) = standing;
        self.shared.node_id.store(self.node.id(), Ordering::Release);
        let before = self.shared.leader_id.swap(standing.leader_id, Ordering::AcqRel);
        if before != standing.leader_id
            && let Some(news) = &*lock(&self.shared.on_leadership)
        {
            news();
        }
        let mut members = lock(&self.shared.members);
        if members.membership != *self.node.membership() {
            let own = self.node.id();
            let was_member = contains(&members.membership, own);
            members.membership = self.node.membership().clone();
            if was_member && !contains(&members.membership, own) {
                drop(members);
                self.shared.note_removed();
            }
        }
    }

    fn abandon(&mut self, why: &Error) {
        let unknown = || Error::Unknown(why.to_string());
        self.proposed.drain(..).for_each(|(_, promise)| promise.keep(Err(unknown())));
        self.barriers.drain(..).for_each(|(_, task)| task.refuse(unknown()));
        let why = || match why {
            Error::Unknown(what) => Err(Error::Unavailable(what.clone())),
            // As it is: what says where on the disk is not for clients.
            other => Err(other.clone()),
        };
        self.reads.drain().chain(self.transfers.drain(..)).for_each(|promise| promise.keep(why()));
        self.group.drain(..).for_each(|(_, promise)| promise.keep(why()));
    }
}

#[cfg(test)]
mod tests;
