//! Who comes and goes: new servers join, learn and are promoted; others are let go, and switched off a while later.
//!
//! A number is given once: who was let go never comes back, a new server with a new disk does.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use kallisto_store::{Commit, Invitation, MemberChange, MemberRole};

use super::faults::{FaultEvent, WorldFault};
use super::{SERVERS, SimWorld, WorldEvent};
use crate::invariants::{InvariantViolation, violated};
use crate::server::SimServer;

/// How often somebody looks after the members.
const EVERY: Duration = Duration::from_millis(200);
/// Most members.
const MEMBERS_MAX: u64 = 5;
/// Fewest members that a run goes on with.
const MEMBERS_MIN: u64 = 2;
/// How long a server that was let go stays on.
const LINGERS: Duration = Duration::from_secs(3);

/// Who looks after the members.
#[derive(Default)]
pub(super) struct Admin {
    next_id: u64,
    wanted: u64,
    /// A server that has joined and is not among the members yet.
    joining: Option<u64>,
    /// A change that was asked for: of whom, and when it is given up.
    pending: Option<(Commit, MemberChange, Duration)>,
}

impl SimWorld {
    /// The first server makes the store.
    pub(super) fn found_cluster(&mut self) -> Result<(), InvariantViolation> {
        self.admin.wanted = SERVERS;
        if self.has_database() {
            return self.add_database_server().map(|_| ());
        }
        let id = self.make_server();
        if let Some(server) = self.servers.get_mut(&id) {
            server.joined = true;
        }
        self.start(id)
    }

    /// The servers that come to a database behind the first.
    pub(super) fn found_rest(&mut self) -> Result<(), InvariantViolation> {
        for _ in 1..SERVERS {
            self.add_database_server()?;
        }
        Ok(())
    }

    /// How many members there are to be.
    pub(super) fn wanted_members(&self) -> u64 {
        self.admin.wanted
    }

    pub(super) fn make_server(&mut self) -> u64 {
        self.admin.next_id += 1;
        let id = self.admin.next_id;
        self.servers.insert(id, SimServer::new(id, self.dice.u64(..)));
        id
    }

    /// Another number of members, by dice.
    pub(super) fn want_other_members(&mut self) {
        self.admin.wanted = self.dice.u64(MEMBERS_MIN..=MEMBERS_MAX);
    }

    /// Looks after the members.
    pub(super) fn administer(&mut self) -> Result<(), InvariantViolation> {
        self.schedule(EVERY, WorldEvent::Admin);
        if self.has_database() {
            return self.administer_database();
        }
        if let Some((mut commit, change, until)) = self.admin.pending.take() {
            match Pin::new(&mut commit).poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(Ok(_)) => self.changed(&change),
                // Refused, or lost sight of: it is looked at anew.
                Poll::Ready(Err(_)) => {}
                Poll::Pending if until > self.now => {
                    self.admin.pending = Some((commit, change, until));
                    return Ok(());
                }
                Poll::Pending => {}
            }
        }
        let Some(leader) = self.leader() else { return Ok(()) };
        let Some(store) = self.servers.get(&leader).and_then(|s| s.store.clone()) else {
            return Ok(());
        };
        let members: Vec<u64> = store.members().iter().map(|member| member.peer.id).collect();
        if let Some(id) = self.admin.joining {
            if members.contains(&id) {
                self.admin.joining = None;
                return Ok(());
            }
            return self
                .change(leader, MemberChange::Put(SimServer::peer(id), MemberRole::Learner));
        }
        let count = members.len() as u64;
        if self.calm || count == self.admin.wanted {
            return Ok(());
        }
        if count < self.admin.wanted {
            return self.add_server(leader);
        }
        let gone = members[self.dice.usize(..members.len())];
        self.change(leader, MemberChange::Remove(gone))
    }

    fn change(&mut self, leader: u64, change: MemberChange) -> Result<(), InvariantViolation> {
        let Some(server) = self.servers.get(&leader) else { return Ok(()) };
        let Some(store) = server.store.clone() else { return Ok(()) };
        server.clock.follow(self.now);
        let commit = store.change(vec![change.clone()]);
        self.note(60, leader, || format!("server {leader} is asked: {change:?}"));
        self.admin.pending = Some((commit, change, self.now + Duration::from_secs(20)));
        self.look(leader)
    }

    fn changed(&mut self, change: &MemberChange) {
        self.figures.fault("members");
        self.note(61, 0, || format!("it holds: {change:?}"));
        if let MemberChange::Remove(id) = change
            && let Some(server) = self.servers.get_mut(id)
        {
            server.removed = true;
            self.schedule(LINGERS, WorldEvent::Mend(WorldFault::new(FaultEvent::SwitchOff, *id)));
        }
    }

    /// A new server leaves its own store for the cluster's.
    fn add_server(&mut self, leader: u64) -> Result<(), InvariantViolation> {
        let Some(store) = self.servers.get(&leader).and_then(|s| s.store.clone()) else {
            return Ok(());
        };
        let id = self.make_server();
        self.start(id)?;
        let Some(joiner) = self.servers.get_mut(&id) else { return Ok(()) };
        let Some(own) = &joiner.store else { return Ok(()) };
        let invitation = Invitation {
            store_id: store.store_id(),
            node_id: id,
            peers: vec![SimServer::peer(leader)],
        };
        let failed = |what: String| violated("a new server joins")(format!("server {id}: {what}"));
        let mut joined = own.join(invitation);
        match Pin::new(&mut joined).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Ok(_)) => {}
            Poll::Ready(Err(error)) => return Err(failed(error.to_string())),
            Poll::Pending => return Err(failed("it was not done at once".into())),
        }
        // What it said as a cluster of its own concerns nobody.
        drop(joiner.end.take());
        joiner.joined = true;
        joiner.attach().map_err(|error| failed(error.to_string()))?;
        self.admin.joining = Some(id);
        self.note(62, id, || format!("server {id} has joined"));
        Ok(())
    }
}
