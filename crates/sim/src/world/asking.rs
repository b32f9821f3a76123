//! What clients do: one operation at a time, on whom they believe to lead, with answers that are shown to the invariants.

use std::time::Duration;

use kallisto_store::{Error, Position};

use super::{SimWorld, WorldEvent};
use crate::clients::{AskedFor, PATIENCE, PendingRequest, SimClient, end_of, micros, name_of};
use crate::history::OperationEnd;
use crate::invariants::InvariantViolation;
use crate::invariants::reads::ServerRead;
use crate::sabotage::Sabotage;
use crate::server::SimSubject;

impl SimWorld {
    /// A client does something, or has waited long enough.
    pub(super) fn ask(&mut self, client: usize, number: u64) -> Result<(), InvariantViolation> {
        if self.clients[client].scheduled != number {
            return Ok(());
        }
        if let Some(pending) = self.clients[client].pending.take() {
            self.give_up(client, &pending);
            self.think(client);
            return Ok(());
        }
        if self.plan.subject == SimSubject::Core {
            return self.tenant_asks(client);
        }
        if self.calm {
            return Ok(());
        }
        match self.dice.u8(..10) {
            0..=3 => self.read_anywhere(client)?,
            4..=5 => {
                let key = SimClient::key(&mut self.dice);
                self.read_latest(client, key)?;
            }
            _ => self.write(client)?,
        }
        if self.clients[client].pending.is_none() {
            self.think(client);
        }
        Ok(())
    }

    /// Has a client do something again in a while.
    fn think(&mut self, client: usize) {
        let after = self.between(10, 150);
        self.schedule_client(client, after);
    }

    pub(super) fn schedule_client(&mut self, client: usize, after: Duration) {
        self.clients[client].scheduled += 1;
        let number = self.clients[client].scheduled;
        self.schedule(after, WorldEvent::Ask { client, number });
    }

    fn give_up(&mut self, client: usize, pending: &PendingRequest) {
        self.figures.unknown += 1;
        let end = match (&pending.what, self.plan.sabotage) {
            (AskedFor::Write { .. }, Some(Sabotage::EarlyAck)) => {
                OperationEnd::Done { at: micros(self.now), found: None, version: None }
            }
            _ => OperationEnd::Unknown,
        };
        let id = self.clients[client].id;
        self.note(30, id, || format!("client {id} gives up {:?}", pending.what));
        self.invariants.order.ended(pending.operation(id, end));
    }

    /// A server that could be asked.
    pub(super) fn draw_server(&mut self) -> Option<u64> {
        let serving: Vec<u64> =
            self.servers.values().filter(|s| s.serves(self.now)).map(|s| s.id).collect();
        (!serving.is_empty()).then(|| serving[self.dice.usize(..serving.len())])
    }

    /// Whom a client asks that wants the leader: mostly whom somebody takes for it.
    fn draw_leader(&mut self) -> Option<u64> {
        let any = self.draw_server()?;
        if self.dice.u8(..8) == 0 {
            return Some(any);
        }
        let leader = self.servers.get(&any)?.leader()?;
        self.servers.get(&leader).filter(|s| s.serves(self.now)).map(|s| s.id)
    }

    fn write(&mut self, client: usize) -> Result<(), InvariantViolation> {
        let key = SimClient::key(&mut self.dice);
        let (Some(leader), Some(other)) = (self.draw_leader(), self.draw_server()) else {
            return Ok(());
        };
        let store = |id: &u64| self.servers.get(id).and_then(|server| server.store.clone());
        let (Some(store), Some(shows)) = (store(&leader), store(&other)) else { return Ok(()) };
        // What a server shows that is behind makes for an expectation that does not hold.
        let found = shows.get(key.as_bytes()).ok().flatten();
        let draft = self.clients[client].draft(key, found, &mut self.dice);
        let id = self.clients[client].id;
        self.note(31, id, || format!("client {id} asks {leader}: {:?}", draft.what));
        self.prepare(leader);
        let commit = store.commit(draft.batch);
        self.wait(client, leader, draft.what, commit)
    }

    fn read_latest(&mut self, client: usize, key: String) -> Result<(), InvariantViolation> {
        if self.plan.sabotage == Some(Sabotage::StaleReads) {
            return self.read_stale(client, key);
        }
        let Some(leader) = self.draw_leader() else { return Ok(()) };
        let store = self.servers.get(&leader).and_then(|server| server.store.clone());
        let Some(store) = store else { return Ok(()) };
        let id = self.clients[client].id;
        self.note(32, id, || format!("client {id} asks {leader} for the latest of {key}"));
        self.prepare(leader);
        let commit = store.read_index();
        self.wait(client, leader, AskedFor::Read { key }, commit)
    }

    /// The latest that any server has, whoever leads.
    fn read_stale(&mut self, client: usize, key: String) -> Result<(), InvariantViolation> {
        let Some(server) = self.draw_server() else { return Ok(()) };
        let life = self.servers.get(&server).map_or(0, |server| server.life);
        let commit = kallisto_store::Commit::decided(Ok(Position(0)));
        let what = AskedFor::Read { key };
        let pending = PendingRequest { commit, server: (server, life), what, call: self.now };
        self.clients[client].pending = Some(pending);
        self.poll_clients(server)
    }

    /// A server's clock is right before it is asked.
    fn prepare(&mut self, server: u64) {
        if let Some(server) = self.servers.get(&server) {
            server.clock.follow(self.now);
        }
    }

    fn wait(
        &mut self,
        client: usize,
        server: u64,
        what: AskedFor,
        commit: kallisto_store::Commit,
    ) -> Result<(), InvariantViolation> {
        let life = self.servers.get(&server).map_or(0, |server| server.life);
        let pending = PendingRequest { commit, server: (server, life), what, call: self.now };
        self.clients[client].pending = Some(pending);
        self.schedule_client(client, PATIENCE);
        // To ask a store without threads is to have it work.
        self.look(server)
    }

    /// A read on any server that is as far as the client has seen.
    fn read_anywhere(&mut self, client: usize) -> Result<(), InvariantViolation> {
        let Some(server) = self.draw_server() else { return Ok(()) };
        let Some(store) = self.servers.get(&server).and_then(|s| s.store.clone()) else {
            return Ok(());
        };
        let id = self.clients[client].id;
        let position = store.position().0;
        let behind = position < self.invariants.reads.index(id);
        if behind && self.plan.sabotage != Some(Sabotage::NoIndex) {
            return Ok(());
        }
        let key = SimClient::key(&mut self.dice);
        let Ok(found) = store.get(key.as_bytes()) else { return Ok(()) };
        let found = found.map(|record| (record.value.to_vec(), record.seqno.0));
        let read = ServerRead { client: id, server, key: key.as_bytes(), position, found };
        self.figures.local_reads += 1;
        self.note(33, position, || format!("client {id} reads {key} on {server} at {position}"));
        self.invariants.reads.read(&read, self.invariants.replicas.log())
    }

    /// Tells clients of a server that has worked, or is gone, what came of what they asked.
    pub(super) fn poll_clients(&mut self, server: u64) -> Result<(), InvariantViolation> {
        for client in 0..self.clients.len() {
            let pending = self.clients[client].pending.as_mut();
            let Some(pending) = pending.filter(|pending| pending.server.0 == server) else {
                continue;
            };
            let Some(outcome) = pending.poll() else { continue };
            if let Some(pending) = self.clients[client].pending.take() {
                self.answered(client, &pending, outcome)?;
                self.think(client);
            }
        }
        Ok(())
    }

    fn answered(
        &mut self,
        client: usize,
        pending: &PendingRequest,
        outcome: Result<Position, Error>,
    ) -> Result<(), InvariantViolation> {
        let (id, at) = (self.clients[client].id, micros(self.now));
        let tells = outcome.as_ref().map_or(0, |position| position.0);
        self.note(34, tells, || format!("client {id} hears {outcome:?} of {:?}", pending.what));
        let end = match (outcome, &pending.what) {
            (Ok(position), AskedFor::Write { changes, .. }) => {
                self.figures.acknowledged += 1;
                self.invariants.reads.learn(id, position.0);
                self.invariants.replicas.learn(position.0, changes)?;
                self.invariants.acknowledged.learn(position.0, changes.clone())?;
                OperationEnd::Done { at, found: None, version: None }
            }
            (Ok(_), AskedFor::Read { key }) => match self.latest(pending.server, key) {
                Some(found) => {
                    self.figures.linear_reads += 1;
                    OperationEnd::Done { at, found, version: None }
                }
                None => OperationEnd::Failed,
            },
            (Err(_), AskedFor::Read { .. }) => OperationEnd::Failed,
            (Err(error), AskedFor::Write { .. }) => {
                let end = end_of(&error, at);
                let unknown = matches!(end, OperationEnd::Unknown);
                *(if unknown { &mut self.figures.unknown } else { &mut self.figures.refused }) += 1;
                end
            }
        };
        self.invariants.order.ended(pending.operation(id, end));
        Ok(())
    }

    /// What a key is on a server that may tell; `None` if the server cannot be asked any more.
    fn latest(&self, (server, life): (u64, u64), key: &str) -> Option<Option<String>> {
        let server = self.servers.get(&server).filter(|server| server.life == life)?;
        let found = server.store.as_ref()?.get(key.as_bytes()).ok()?;
        Some(found.map(|record| name_of(&record.value)))
    }
}
