//! The cluster side of the store: questions about the members and the leader, and what the driver is asked to do for both.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;

use super::limits::SILENCES;
use super::node::contains;
use super::requests::DriverRequest;
use super::restore::RestoreStep;
use super::snapshot::{Outgoing, ResumePoint};
use super::{RaftStore, lock, wire};
use crate::{
    Announcement, AsOf, Candidacy, Chunks, Commit, Error, Invitation, Leadership, Member,
    MemberChange, MemberRole, Peer, Position, Replicated, Store,
};

impl Replicated for RaftStore {
    fn leadership(&self) -> Leadership {
        Leadership {
            node_id: self.shared.node_id.load(Ordering::Acquire),
            leader_id: self.shared.leader_id.load(Ordering::Acquire),
            term: lock(&self.shared.standing).term,
        }
    }

    fn store_id(&self) -> [u8; 16] {
        lock(&self.shared.log).belongs_to().0.store_id
    }

    fn members(&self) -> Vec<Member> {
        let directory = self.shared.machine.directory();
        let now = self.shared.clock.now();
        let known = lock(&self.shared.members);
        let voters = known.membership.voters.iter().map(|id| (*id, MemberRole::Voter));
        let learners = known.membership.learners.iter().map(|id| (*id, MemberRole::Learner));
        let mut members: Vec<Member> = voters
            .chain(learners)
            .map(|(id, role)| Member {
                peer: directory
                    .iter()
                    .find(|peer| peer.id == id)
                    .cloned()
                    .unwrap_or_else(|| Peer { id, ..Peer::default() }),
                role,
                matched: known.progress.iter().find(|p| p.id == id).map_or(0, |p| p.matched),
                silent_ms: known.heard.get(&id).map(|heard| {
                    u64::try_from(now.saturating_sub(*heard).as_millis()).unwrap_or(u64::MAX)
                }),
            })
            .collect();
        members.sort_by_key(|member| member.peer.id);
        members
    }

    fn is_alone(&self) -> bool {
        let known = lock(&self.shared.members);
        known.membership.voters.len() + known.membership.learners.len() <= 1
    }

    fn change(&self, changes: Vec<MemberChange>) -> Commit {
        self.request(|promise| DriverRequest::Change(changes, promise))
    }

    fn read_index(&self) -> Commit {
        self.request(DriverRequest::ReadIndex)
    }

    fn as_of(&self) -> AsOf {
        self.shared.lease.as_of()
    }

    fn now(&self) -> Duration {
        self.shared.clock.now()
    }

    fn is_removed(&self) -> bool {
        // Relaxed: it says nothing about other memory.
        self.shared.removed.load(Ordering::Relaxed)
    }

    fn told_removed(&self) {
        let own = self.shared.node_id.load(Ordering::Acquire);
        let was_member = contains(&lock(&self.shared.members).membership, own);
        let silence = self.shared.confirm_every * SILENCES;
        let is_silent = self.as_of().age(self.now()).is_none_or(|age| age >= silence);
        if was_member && is_silent {
            self.shared.note_removed();
        }
    }

    fn transfer(&self, to: Option<u64>) -> Commit {
        self.request(|promise| DriverRequest::Transfer(to, promise))
    }

    fn stand(&self, candidacy: Candidacy) {
        *lock(&self.shared.candidacy) = candidacy;
        self.shared.requests.nudge();
        self.turn_inline();
    }

    fn on_leadership(&self, news: Arc<dyn Fn() + Send + Sync>) {
        *lock(&self.shared.on_leadership) = Some(news);
    }

    fn join(&self, invitation: Invitation) -> Commit {
        self.request(|promise| DriverRequest::Join(invitation, promise))
    }

    fn receive(&self, from: u64, message: Bytes) {
        let Some(message) = wire::decode(&message) else { return };
        let own = self.shared.node_id.load(Ordering::Acquire);
        if message.from == from && message.to == own {
            self.shared.requests.push(DriverRequest::Message(message));
        }
    }

    fn announced(&self, said: &Peer) -> Announcement {
        match self.leads() {
            true => Announcement::of(&self.members(), said),
            false => Announcement::Known,
        }
    }

    fn meet(&self, peer: Peer) {
        if !matches!(self.announced(&peer), Announcement::Changed { .. }) {
            return;
        }
        let members = self.members();
        let Some(member) = members.iter().find(|member| member.peer.id == peer.id) else { return };
        // Whoever has moved says so again; nobody waits for this.
        let peer = Peer { wants: member.peer.wants, ..peer };
        drop(self.change(vec![MemberChange::Put(peer, member.role)]));
    }

    fn snapshot(&self) -> Result<Box<dyn Chunks>, Error> {
        let shared = &self.shared;
        let moment = Arc::new(shared.machine.moment()?);
        let chunks = Outgoing::to_member(Arc::clone(&moment))?;
        shared.held.keep(moment, shared.clock.now());
        Ok(Box::new(chunks))
    }

    fn snapshot_behind(&self, place: &[u8]) -> Result<Option<Box<dyn Chunks>>, Error> {
        let shared = &self.shared;
        let Some(place) = ResumePoint::decode(place) else { return Ok(None) };
        // Acquire: see `Driver::compact`. Who takes a snapshot in that the log does not reach needs another.
        let reached = shared.compacted.load(Ordering::Acquire) <= place.index;
        let held = shared.held.find(&place, shared.clock.now()).filter(|_| reached);
        let Some(moment) = held else { return Ok(None) };
        Ok(Some(Box::new(Outgoing::behind(moment, &place)?)))
    }

    fn backup(&self) -> Result<(Position, Box<dyn Chunks>), Error> {
        let moment = self.shared.machine.moment()?;
        Ok((Position(moment.index), Box::new(Outgoing::to_backup(moment)?)))
    }

    fn begin_restore(&self) -> Commit {
        self.step(&RestoreStep::Begin)
    }

    fn stage(&self, generation: Position, records: Vec<(Bytes, Bytes)>) -> Commit {
        self.step(&RestoreStep::Stage(generation.0, records))
    }

    fn finish_restore(&self, generation: Position, records: u64) -> Commit {
        self.step(&RestoreStep::Switch(generation.0, records))
    }

    fn abandon_restore(&self, generation: Position) -> Commit {
        self.step(&RestoreStep::Abandon(generation.0))
    }
}

#[cfg(test)]
mod tests {
    use kallisto_lsm::Background;
    use kallisto_lsm::disk::MemDisk;
    use raft::eraftpb::{Message, MessageType};

    use super::*;
    use crate::RaftOptions;

    #[test]
    fn a_message_is_heard_of_who_sent_it_by_whom_it_is_for() {
        let engine = kallisto_lsm::Options {
            background: Background::Inline,
            ..RaftOptions::default().engine
        };
        let options = RaftOptions { engine, has_threads: false, ..RaftOptions::default() };
        let store = RaftStore::open(MemDisk::shared(), "s", options).unwrap();
        let hear = |sender: u64, from: u64, to: u64, term: u64| {
            let message = Message {
                msg_type: MessageType::MsgHeartbeat,
                from,
                to,
                term,
                ..Message::default()
            };
            store.receive(sender, wire::encode(&message).unwrap().into());
            store.turn();
            store.leadership().term
        };
        let before = store.leadership().term;
        assert_eq!(hear(3, 2, 1, before + 10), before, "another sent it");
        assert_eq!(hear(2, 2, 3, before + 10), before, "it is for another");
        store.receive(2, Bytes::from_static(b"nonsense"));
        assert_eq!(hear(2, 2, 1, before + 10), before + 10);
    }
}
