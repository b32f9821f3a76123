//! What depends on who leads: changes of the members, and the place of the leader itself.

use std::time::Duration;

use super::Driver;
use crate::commit::Promise;
use crate::raft::limits::{MEMBERS_MAX, PROMOTED_WITHIN, TRANSFER_TICKS_MAX};
use crate::raft::{lock, members};
use crate::{Candidacy, Error, MemberChange, MemberRole, Peer};

impl Driver {
    pub(super) fn change(&mut self, changes: &[MemberChange], promise: Promise) {
        self.propose_group();
        if !self.node.leads() {
            promise.keep(Err(Error::NotLeader));
            return;
        }
        let own = self.node.id();
        let leaves = |change: &MemberChange| match change {
            MemberChange::Remove(id) => *id == own,
            MemberChange::Put(peer, role) => peer.id == own && *role == MemberRole::Learner,
        };
        if self.are_too_many(changes) {
            let what =
                format!("a cluster has at most {MEMBERS_MAX} servers: remove one that is gone");
            promise.keep(Err(Error::Unavailable(what)));
            return;
        }
        if changes.iter().any(leaves) && self.node.transfer(None, &[]).is_some() {
            // A leader does not lead its own leaving: whoever leads next is asked again.
            promise.keep(Err(Error::NotLeader));
            return;
        }
        if self.leave_no_voter(changes) {
            // Whoever applies that has no say any more, nor has anybody else; and it would be applied at each start.
            promise.keep(Err(Error::Unavailable("a cluster keeps one voter".into())));
            return;
        }
        if let Some(why) = clash(&self.shared.machine.directory(), changes) {
            promise.keep(Err(Error::Unavailable(why)));
            return;
        }
        match self.node.propose_change(members::propose(changes)) {
            Some(spot) => self.proposed.push_back((spot, promise)),
            None => promise.keep(Err(Error::Busy)),
        }
    }

    fn leave_no_voter(&self, changes: &[MemberChange]) -> bool {
        let mut voters = self.node.membership().voters.clone();
        for change in changes {
            match change {
                MemberChange::Put(peer, MemberRole::Voter) => voters.push(peer.id),
                MemberChange::Put(Peer { id, .. }, MemberRole::Learner)
                | MemberChange::Remove(id) => voters.retain(|voter| voter != id),
            }
        }
        voters.is_empty()
    }

    /// Whether there are more members with these changes than records of them hold.
    fn are_too_many(&self, changes: &[MemberChange]) -> bool {
        let directory = self.shared.machine.directory();
        let is_new = |change: &&MemberChange| match change {
            MemberChange::Put(peer, _) => !directory.iter().any(|known| known.id == peer.id),
            MemberChange::Remove(_) => false,
        };
        let new = changes.iter().filter(is_new).count();
        new > 0 && directory.len() + new > MEMBERS_MAX
    }

    pub(super) fn transfer(&mut self, to: Option<u64>, promise: Promise) {
        if !self.node.leads() {
            promise.keep(Err(Error::NotLeader));
        } else if let Some(id) = self.node.transfer(to, &[]) {
            self.offered = vec![id];
            self.transfers.push(promise);
        } else {
            let what = "there is no other server that could lead";
            promise.keep(Err(Error::Unavailable(what.into())));
        }
    }

    /// Tells those who wait for leadership, and for what depends on it.
    pub(super) fn settle_leadership(&mut self) {
        self.refuse_lost_reads();
        if self.node.leads() {
            self.describe_own();
            self.retreat();
            if !self.node.is_transferring() && !self.transfers.is_empty() {
                if let Some(id) = self.node.transfer(None, &self.offered) {
                    self.offered.push(id);
                    return;
                }
                let what = "the other server did not take over in time";
                for promise in self.transfers.drain(..) {
                    promise.keep(Err(Error::Unavailable(what.into())));
                }
            }
            return;
        }
        self.settle_transfers(self.shared.clock.now());
    }

    /// Tells those who wait for another server to lead that one does; or that none does, if nobody took over in the time of
    /// an election: a server that stops may be the last.
    pub(super) fn settle_transfers(&mut self, now: Duration) {
        let outcome = match self.node.standing().leader_id {
            _ if self.transfers.is_empty() => None,
            0 => {
                let end = now + self.shared.tick * TRANSFER_TICKS_MAX;
                let late = *self.transfers_end.get_or_insert(end) <= now;
                late.then(|| Err(Error::Unavailable("no other server took over in time".into())))
            }
            _ => Some(Ok(self.shared.machine.position())),
        };
        if let Some(outcome) = outcome {
            self.transfers.drain(..).for_each(|promise| promise.keep(outcome.clone()));
        }
        if self.transfers.is_empty() {
            self.transfers_end = None;
        }
    }

    /// A leader that is not to lead offers its place to everybody in turn.
    pub(super) fn retreat(&mut self) {
        let reluctant = *lock(&self.shared.candidacy) == Candidacy::Reluctant;
        if !reluctant || self.node.is_transferring() || self.node.members_count() == 1 {
            return;
        }
        match self.node.transfer(None, &self.offered) {
            Some(id) => self.offered.push(id),
            // Nobody took it: from the start.
            None => self.offered.clear(),
        }
    }

    /// Promotes a learner that is to vote and has caught up: one at a time, when nothing else is under way.
    pub(super) fn promote(&mut self) {
        let learners = &self.node.membership().learners;
        if learners.is_empty() {
            return;
        }
        let last = self.node.standing().last_index;
        let progress = self.node.progress();
        let caught_up = |id: &u64| {
            progress
                .iter()
                .any(|p| p.id == *id && p.matched > 0 && p.matched + PROMOTED_WITHIN >= last)
        };
        let directory = self.shared.machine.directory();
        let ready = directory.into_iter().find(|peer| {
            peer.wants == MemberRole::Voter && learners.contains(&peer.id) && caught_up(&peer.id)
        });
        if let Some(peer) = ready {
            // Refused while another change is under way; the next tick tries again.
            let _ = self
                .node
                .propose_change(members::propose(&[MemberChange::Put(peer, MemberRole::Voter)]));
        }
    }

    /// A server that is alone says by itself that its name or address changed. Where there are others, a new address is tried first, whoever leads
    /// ([`crate::Replicated::announced`]).
    pub(super) fn describe_own(&mut self) {
        if self.node.members_count() > 1 {
            return;
        }
        let term = self.node.standing().term;
        let own = Peer { id: self.node.id(), ..self.shared.own.clone() };
        let known = self.shared.machine.directory();
        let full = !self.has_room(0).unwrap_or(false);
        if self.described == term || known.contains(&own) || full {
            return;
        }
        let change = members::propose(&[MemberChange::Put(own, MemberRole::Voter)]);
        if self.node.propose_change(change).is_some() {
            self.described = term;
        }
    }
}

/// Why these changes would give two members one name or one address. Who has had both before keeps them.
fn clash(directory: &[Peer], changes: &[MemberChange]) -> Option<String> {
    let mut peers = directory.to_vec();
    for change in changes {
        match change {
            MemberChange::Remove(id) => peers.retain(|peer| peer.id != *id),
            MemberChange::Put(peer, _) => {
                let is_known =
                    peers.iter().any(|known| known.id == peer.id && peer.is_as_known(known));
                if let Some((what, by)) = peer.clash(&peers).filter(|_| !is_known) {
                    return Some(format!("the {what} of {} is that of {}", peer.name, by.name));
                }
                peers.retain(|known| known.id != peer.id);
                peers.push(peer.clone());
            }
        }
    }
    None
}
