//! The Raft state machine of one server, without a thread, a clock or a file.
//!
//! Ticks, proposals, messages and the news that something was written go in; [`RaftNode::poll`] says what to send, what to
//! write and what is committed. The server's driver and a simulator run the same code. Consensus itself is the `raft`
//! crate's; this room keeps it to our rules:
//! - election timeouts come from our own seeded generator, drawn anew whenever term or role change, so that a run can be
//!   repeated from its seed;
//! - pre-vote and check-quorum are on;
//! - what is handed out to be applied is contiguous, checked here.

use kallisto_lsm::segment_log::SegmentOffset;
use raft::eraftpb::{
    ConfChangeV2, ConfState, Entry, EntryType, HardState, Message, MessageType, Snapshot,
};
use raft::{Config, RawNode, SnapshotStatus, StateRole};

use super::limits::{
    ELECTION_TICKS, HAND_OUT_BYTES_MAX, HEARTBEAT_TICKS, INFLIGHT_MAX, NEVER_TICKS,
};
use super::log::index::LogIndex;
use super::members::{Changed, read_change};
use crate::{Candidacy, Error};

/// Bytes of a read's number among the reads of all servers: who asked, and its number there.
pub(crate) const READ_NUMBER_BYTES: usize = 16;

/// One server's part in Raft.
pub(crate) struct RaftNode {
    raw: RawNode<LogIndex>,
    dice: fastrand::Rng,
    candidacy: Candidacy,
    /// Whether its disk has no room for usual batches: others should lead first.
    short: bool,
    election_timeout: usize,
    drawn_for: (u64, StateRole),
    /// The last entry that was handed out to be applied.
    handed_out: u64,
    /// Term and vote of the last output.
    voted: (u64, u64),
    /// Members that were sent a snapshot's place since the last output.
    behind: Vec<u64>,
}

/// What the node wants done, in this order.
#[derive(Debug, Default)]
pub(crate) struct NodeOutput {
    /// Names the output in [`RaftNode::persisted`].
    pub(crate) number: u64,
    /// To be sent at once.
    pub(crate) messages: Vec<Message>,
    /// A snapshot to begin anew from, before anything else is written.
    pub(crate) restart: Option<Restart>,
    /// To be written, with the hard state.
    pub(crate) append: Vec<Entry>,
    pub(crate) hard_state: HardState,
    /// Whether the hard state has a new term or vote, which must be on the disk before anything else happens.
    pub(crate) has_new_vote: bool,
    /// To be sent once the above is on the disk.
    pub(crate) messages_after: Vec<Message>,
    /// To be applied, in order.
    pub(crate) committed: Vec<Committed>,
    /// Reads by their number, and the entry each has to see.
    pub(crate) reads: Vec<(u64, u64)>,
}

/// The entry that a log begins behind, and the members there.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Restart {
    pub(crate) index: u64,
    pub(crate) term: u64,
    pub(crate) membership: ConfState,
}

/// An entry that is committed.
#[derive(Clone, Debug)]
pub(crate) struct Committed {
    pub(crate) index: u64,
    pub(crate) term: u64,
    /// An encoded batch; empty for the entry with which a leader begins.
    pub(crate) data: bytes::Bytes,
    /// The members from here on, if the entry changes them.
    pub(crate) members: Option<Box<MembersFrom>>,
}

/// The members from an entry on.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct MembersFrom {
    pub(crate) membership: ConfState,
    pub(crate) changed: Changed,
}

/// Where a proposal went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogPosition {
    pub(crate) index: u64,
    pub(crate) term: u64,
}

/// Where a node stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RaftStatus {
    pub(crate) term: u64,
    pub(crate) leader_id: u64,
    pub(crate) last_index: u64,
    pub(crate) last_term: u64,
    pub(crate) commit_index: u64,
}

/// What a leader knows of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MemberProgress {
    pub(crate) id: u64,
    pub(crate) matched: u64,
}

impl RaftNode {
    /// A node with this log, whose entries up to `applied` are in the state machine.
    pub(crate) fn new(
        node_id: u64,
        mut index: LogIndex,
        applied: u64,
        seed: u64,
    ) -> Result<Self, Error> {
        let (floor, last) = (index.floor().0, index.last().0);
        if applied < floor || applied > last {
            let what = format!("raft log holds {floor} to {last}, the engine ends at {applied}");
            return Err(Error::Damaged(what));
        }
        let mut hard_state = index.hard_state().clone();
        // What was applied was committed, and what is lost was not.
        hard_state.commit = hard_state.commit.max(applied).min(last);
        let voted = (hard_state.term, hard_state.vote);
        index.set_hard_state(hard_state);
        let config = Config {
            id: node_id,
            election_tick: ELECTION_TICKS,
            heartbeat_tick: HEARTBEAT_TICKS,
            max_election_tick: NEVER_TICKS + 1,
            applied,
            max_size_per_msg: HAND_OUT_BYTES_MAX,
            max_inflight_msgs: INFLIGHT_MAX,
            check_quorum: true,
            pre_vote: true,
            max_committed_size_per_ready: HAND_OUT_BYTES_MAX,
            ..Config::default()
        };
        let logger = slog::Logger::root(slog::Discard, slog::o!());
        let raw = RawNode::new(&config, index, &logger).map_err(refused)?;
        let mut this = Self {
            raw,
            dice: fastrand::Rng::with_seed(seed),
            candidacy: Candidacy::Willing,
            short: false,
            election_timeout: ELECTION_TICKS,
            drawn_for: (u64::MAX, StateRole::Follower),
            handed_out: applied,
            voted,
            behind: Vec::new(),
        };
        this.draw_timeout();
        Ok(this)
    }

    /// A tick of the clock.
    pub(crate) fn tick(&mut self, candidacy: Candidacy) {
        self.candidacy = candidacy;
        self.draw_timeout();
        self.raw.tick();
        self.draw_timeout();
    }

    /// Says whether its disk has room; without, it stands for election only after those that have had their time.
    pub(crate) fn set_short(&mut self, short: bool) {
        self.short = short;
    }

    /// Gives up the lead, if others could take it, within this term: so there is nothing to write down. Who is heard from no
    /// more is followed no more.
    pub(crate) fn step_down(&mut self) {
        let own = self.raw.raft.id;
        if self.leads() && self.membership().voters.iter().any(|&voter| voter != own) {
            let term = self.raw.raft.term;
            self.raw.raft.become_follower(term, raft::INVALID_ID);
            self.draw_timeout();
        }
    }

    /// A node without peers stands for election at once, since there is nobody to wait for. The library says nothing and
    /// elects nobody while a change of the members is committed and not applied: so this is asked for again and again.
    pub(crate) fn lead_alone(&mut self) -> Result<(), Error> {
        if self.is_alone() && !self.leads() {
            self.raw.campaign().map_err(refused)?;
            self.draw_timeout();
        }
        Ok(())
    }

    /// Takes a message from a peer. One that makes no sense is dropped, as if it had been lost.
    pub(crate) fn step(&mut self, message: Message) {
        let _ = self.raw.step(message);
        self.draw_timeout();
    }

    /// Takes the state that a snapshot brought, which the library may find to be of the past; then nothing comes of it.
    pub(crate) fn restore(&mut self, restart: &Restart) -> SnapshotRestored {
        let raft = &self.raw.raft;
        let mut message = Message {
            msg_type: MessageType::MsgSnapshot,
            to: raft.id,
            from: raft.leader_id,
            term: raft.term,
            ..Message::default()
        };
        let metadata = message.mut_snapshot().mut_metadata();
        (metadata.index, metadata.term) = (restart.index, restart.term);
        metadata.set_conf_state(restart.membership.clone());
        if raft.leader_id == 0 || raft.state != StateRole::Follower {
            return SnapshotRestored::NobodyLeads;
        }
        self.step(message);
        match self.raw.snap() {
            Some(snapshot) if snapshot.get_metadata().index == restart.index => {
                SnapshotRestored::Taken
            }
            _ => SnapshotRestored::Past,
        }
    }

    /// Proposes entries, which follow each other from the spot returned; `None` when there is no leader here to take them.
    pub(crate) fn propose(&mut self, data: Vec<Vec<u8>>) -> Option<LogPosition> {
        if self.raw.raft.state != StateRole::Leader {
            return None;
        }
        let entries: Vec<Entry> =
            data.into_iter().map(|data| Entry { data: data.into(), ..Entry::default() }).collect();
        let mut message = Message {
            msg_type: MessageType::MsgPropose,
            from: self.raw.raft.id,
            ..Message::default()
        };
        message.set_entries(entries.into());
        let index = self.raw.raft.raft_log.last_index() + 1;
        self.raw.raft.step(message).ok()?;
        Some(LogPosition { index, term: self.raw.raft.term })
    }

    /// Proposes a change of the members; `None` when no leader is here or another change is under way.
    pub(crate) fn propose_change(&mut self, change: ConfChangeV2) -> Option<LogPosition> {
        let raft = &self.raw.raft;
        let joint = !self.raw.store().membership().voters_outgoing.is_empty();
        if raft.state != StateRole::Leader
            || raft.pending_conf_index > raft.raft_log.applied
            || joint
        {
            return None;
        }
        self.raw.propose_conf_change(Vec::new(), change).ok()?;
        Some(LogPosition { index: self.raw.raft.raft_log.last_index(), term: self.raw.raft.term })
    }

    /// Asks for a read by its number, at the leader if that is another; false while nobody leads or this leader has not
    /// committed anything in its term, when the library would forget it. A question to another may be lost.
    pub(crate) fn read_index(&mut self, number: u64) -> bool {
        let raft = &self.raw.raft;
        let ready = match raft.state {
            StateRole::Leader => raft.commit_to_current_term(),
            StateRole::Follower => raft.leader_id != 0,
            StateRole::Candidate | StateRole::PreCandidate => false,
        };
        if ready {
            let mut context = raft.id.to_le_bytes().to_vec();
            context.extend_from_slice(&number.to_le_bytes());
            self.raw.read_index(context);
        }
        ready
    }

    /// Hands leadership over, to `to` or to the voter that is furthest and none of `but`. Returns to whom, if there is anybody.
    pub(crate) fn transfer(&mut self, to: Option<u64>, but: &[u64]) -> Option<u64> {
        let own = self.raw.raft.id;
        let prs = self.raw.raft.prs();
        let voters = self.membership().voters.iter();
        let furthest = voters
            .filter(|&&id| id != own && !but.contains(&id))
            .filter_map(|&id| prs.get(id).map(|pr| (pr.recent_active, pr.matched, id)))
            .max()
            .map(|(_, _, id)| id);
        let to = to.or(furthest)?;
        self.raw.transfer_leader(to);
        Some(to)
    }

    /// Whether leadership is on its way to another node.
    pub(crate) fn is_transferring(&self) -> bool {
        self.raw.raft.lead_transferee.is_some()
    }

    /// What a leader knows of the members; nothing on others.
    pub(crate) fn progress(&self) -> Vec<MemberProgress> {
        if !self.leads() {
            return Vec::new();
        }
        let prs = self.raw.raft.prs().iter();
        prs.map(|(&id, pr)| MemberProgress { id, matched: pr.matched }).collect()
    }

    /// Whether the node wants to say something.
    pub(crate) fn has_messages(&self) -> bool {
        !self.raw.raft.msgs.is_empty()
    }

    /// Whether this node leads.
    pub(crate) fn leads(&self) -> bool {
        self.raw.raft.state == StateRole::Leader
    }

    /// Which server it is.
    pub(crate) fn id(&self) -> u64 {
        self.raw.raft.id
    }

    /// Who the members are.
    pub(crate) fn membership(&self) -> &ConfState {
        self.raw.store().membership()
    }

    /// How many members there are.
    pub(crate) fn members_count(&self) -> usize {
        let members = self.membership();
        members.voters.len() + members.learners.len() + members.voters_outgoing.len()
    }

    /// Whether there is nobody to talk to, so that time means nothing.
    pub(crate) fn leads_alone(&self) -> bool {
        self.is_alone() && self.leads()
    }

    fn is_alone(&self) -> bool {
        is_alone(self.raw.store().membership(), self.raw.raft.id)
    }

    /// What is to be done now, if anything. Each output must be followed by [`RaftNode::persisted`].
    pub(crate) fn poll(&mut self) -> Result<Option<NodeOutput>, Error> {
        if !self.raw.has_ready() {
            return Ok(None);
        }
        let mut ready = self.raw.ready();
        let restart = self.begin_anew(ready.snapshot());
        let append = ready.take_entries();
        let messages = ready.take_messages();
        let messages_after = ready.take_persisted_messages();
        let committed_entries = ready.take_committed_entries();
        let own = self.raw.raft.id;
        let reads = ready.take_read_states().into_iter();
        let reads =
            reads.filter_map(|read| Some((own_read_number(own, &read.request_ctx)?, read.index)));
        let reads = reads.collect();
        let hard_state = ready.hs().cloned();
        let store = self.raw.mut_store();
        for entry in &append {
            let index = entry.index;
            store
                .append(entry.clone(), None)
                .map_err(|what| Error::Poisoned(format!("raft: {what} at entry {index}")))?;
        }
        if let Some(hard_state) = hard_state {
            store.set_hard_state(hard_state);
        }
        let hard_state = store.hard_state().clone();
        let voted = (hard_state.term, hard_state.vote);
        let has_new_vote = voted != self.voted;
        self.voted = voted;
        let number = ready.number();
        self.raw.advance_append_async(ready);
        // After the library let go of the ready: a change of the members is one of the node.
        let committed = self.hand_out(committed_entries)?;
        self.behind.extend(
            messages
                .iter()
                .filter(|message| message.msg_type == MessageType::MsgSnapshot)
                .map(|message| message.to),
        );
        Ok(Some(NodeOutput {
            number,
            messages,
            restart,
            append,
            hard_state,
            has_new_vote,
            messages_after,
            committed,
            reads,
        }))
    }

    fn begin_anew(&mut self, snapshot: &Snapshot) -> Option<Restart> {
        let metadata = snapshot.get_metadata();
        if metadata.index == 0 {
            return None;
        }
        let membership = metadata.get_conf_state().clone();
        let (index, term) = (metadata.index, metadata.term);
        self.raw.mut_store().restore((index, term), membership.clone());
        self.handed_out = index;
        Some(Restart { index, term, membership })
    }

    /// What the output `number` wanted written is as durable as it has to be; `appended` says what was written where.
    pub(crate) fn persisted(&mut self, number: u64, appended: &[(LogPosition, SegmentOffset)]) {
        let store = self.raw.mut_store();
        for (spot, place) in appended {
            store.place(spot.index, spot.term, *place);
        }
        store.evict();
        self.raw.on_persist_ready(number);
        // Whoever is behind fetches the state by itself, and may fail at it: it is told again with every heartbeat, until
        // it can follow the log.
        for id in std::mem::take(&mut self.behind) {
            self.raw.report_snapshot(id, SnapshotStatus::Failure);
        }
    }

    /// Everything up to `index` is applied.
    pub(crate) fn applied(&mut self, index: u64) {
        if index > self.raw.raft.raft_log.applied {
            self.raw.advance_apply_to(index);
        }
    }

    /// Forgets entries up to `index`, which are in the state machine for good.
    pub(crate) fn compact(&mut self, index: u64) {
        let applied = self.raw.raft.raft_log.applied;
        self.raw.mut_store().compact(index.min(applied));
    }

    /// What is to be durable of the node, while all of its log was given out to be written: how far it is committed says nothing of entries that are not.
    pub(crate) fn settled(&self) -> Option<&HardState> {
        (!self.raw.has_ready()).then(|| self.raw.store().hard_state())
    }

    /// The last entry that was handed out.
    pub(crate) fn handed_out(&self) -> u64 {
        self.handed_out
    }

    /// Where the node stands.
    pub(crate) fn standing(&self) -> RaftStatus {
        let raft = &self.raw.raft;
        RaftStatus {
            term: raft.term,
            leader_id: raft.leader_id,
            last_index: raft.raft_log.last_index(),
            last_term: raft.raft_log.last_term(),
            commit_index: raft.raft_log.committed,
        }
    }

    fn hand_out(&mut self, entries: Vec<Entry>) -> Result<Vec<Committed>, Error> {
        let mut committed = Vec::with_capacity(entries.len());
        for entry in entries {
            let Entry { entry_type, index, term, data, .. } = entry;
            if index != self.handed_out + 1 {
                let what = format!("raft: entry {index} is handed out after {}", self.handed_out);
                return Err(Error::Poisoned(what));
            }
            let members = match entry_type {
                EntryType::EntryNormal => None,
                EntryType::EntryConfChange | EntryType::EntryConfChangeV2 => {
                    Some(Box::new(self.change_members(index, &data)?))
                }
            };
            self.handed_out = index;
            committed.push(Committed { index, term, data, members });
        }
        Ok(committed)
    }

    fn change_members(&mut self, index: u64, data: &bytes::Bytes) -> Result<MembersFrom, Error> {
        let unreadable = || Error::Damaged(format!("raft: entry {index} is no change of members"));
        let (change, changed) = read_change(data).ok_or_else(unreadable)?;
        let membership = self.raw.apply_conf_change(&change).map_err(refused)?;
        self.raw.mut_store().set_membership(membership.clone());
        let own = self.raw.raft.id;
        if self.leads() && !contains(&membership, own) {
            // The library would go on to lead, and panic at the next answer it counts. The others were sent this commit.
            let term = self.raw.raft.term;
            self.raw.raft.become_follower(term, raft::INVALID_ID);
            self.draw_timeout();
        }
        Ok(MembersFrom { membership, changed })
    }

    /// The library draws a timeout whenever it starts a term or a role; ours takes its place.
    fn draw_timeout(&mut self) {
        let alone = self.is_alone();
        let raft = &mut self.raw.raft;
        let now = (raft.term, raft.state);
        if now != self.drawn_for {
            self.drawn_for = now;
            self.election_timeout = self.dice.usize(ELECTION_TICKS..2 * ELECTION_TICKS);
        }
        // Who is reluctant waits for ever, and goes on counting: it must know when a leader was last heard, so as to vote.
        let timeout = match self.candidacy {
            Candidacy::Reluctant if !alone => NEVER_TICKS,
            _ if self.short => self.election_timeout + 2 * ELECTION_TICKS,
            _ => self.election_timeout,
        };
        if raft.randomized_election_timeout() != timeout {
            raft.set_randomized_election_timeout(timeout);
        }
    }
}

/// The number of a read that `own` asked for.
fn own_read_number(own: u64, context: &[u8]) -> Option<u64> {
    let (asker, number) = context.split_first_chunk::<8>()?;
    let number = <[u8; 8]>::try_from(number).ok()?;
    (u64::from_le_bytes(*asker) == own).then(|| u64::from_le_bytes(number))
}

/// What became of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SnapshotRestored {
    /// The next output begins anew from it.
    Taken,
    /// The log holds as much already.
    Past,
    /// It has to wait until somebody leads.
    NobodyLeads,
}

fn refused(error: raft::Error) -> Error {
    Error::Unavailable(format!("raft: {error}"))
}

/// Whether `node` is among the members, or about to leave them.
pub(crate) fn contains(members: &ConfState, node: u64) -> bool {
    let ConfState { voters, learners, voters_outgoing, .. } = members;
    [voters, learners, voters_outgoing].into_iter().any(|some| some.contains(&node))
}

/// Whether `node` is all that there is: nobody else votes, learns or is about to leave.
pub(crate) fn is_alone(members: &ConfState, node: u64) -> bool {
    members.voters == [node] && members.learners.is_empty() && members.voters_outgoing.is_empty()
}

#[cfg(test)]
mod tests;
