//! How a run comes to its close: everything is mended, the members come together and are compared; then all of them lose power once
//! more, start again, and are compared once more. At last what the clients saw is judged.

use std::collections::BTreeSet;
use std::time::Duration;

use kallisto_barrier::envelope_key_version;
use kallisto_store::Visit;

use super::SimWorld;
use crate::invariants::credentials::CredentialsOracle;
use crate::invariants::progress::{HEALED_WITHIN, stuck};
use crate::invariants::{InvariantViolation, violated};
use crate::server::SimSubject;

/// How often it is looked whether the members have come together.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Until when the last lease is up, and ended: the longest pause between two attempts, a creation's minute, clocks that differ.
const LEASES_END_WITHIN: Duration = Duration::from_secs(900);
/// How often an operator has irrevocable leases tried again.
const TIDY_EVERY: Duration = Duration::from_secs(60);
/// What the storage keys of the barrier's own records begin with: they are under no data key (`docs/format.md`).
const BARRIER_KIND: u8 = 0;

impl SimWorld {
    /// Brings the run to its close.
    pub(super) fn end(&mut self) -> Result<(), InvariantViolation> {
        self.calm = true;
        self.far_end.calm();
        self.note(70, 0, || "everything is mended".into());
        self.mend_all()?;
        self.come_together()?;
        self.compare_all()?;
        self.look_at_cores()?;
        self.end_credentials()?;
        self.note(71, 0, || "everybody loses power once more".into());
        for id in self.members() {
            self.cut_power(id)?;
        }
        self.mend_all()?;
        self.come_together()?;
        self.compare_all()?;
        self.look_at_cores()?;
        if self.plan.is_verbose {
            eprintln!("{}", self.figures.tell());
        }
        self.invariants.order.judge()
    }

    /// Waits until all members hold the same and no client waits any more.
    fn come_together(&mut self) -> Result<(), InvariantViolation> {
        let until = self.now + HEALED_WITHIN;
        let mut look = self.now;
        loop {
            self.step()?;
            if self.now < look {
                continue;
            }
            look = self.now + LOOK_EVERY;
            let missing = self.missing();
            if missing.is_none() {
                return Ok(());
            }
            if let Some(what) = missing.filter(|_| self.now > until) {
                return Err(stuck(&format!("{what}: {}", self.standing())));
            }
        }
    }

    /// The first that is not as it will be.
    fn missing(&self) -> Option<&'static str> {
        let waits = self.clients.iter().any(|client| client.pending.is_some());
        let conditions = [
            (!waits && self.calls.is_empty(), "a client waits"),
            (self.are_cores_open(), "a core is sealed, or its view is of the past"),
            (self.is_together(), "the members differ"),
            (self.is_under_one_key(), "there are records under a key that was replaced"),
        ];
        conditions.into_iter().find(|(holds, _)| !holds).map(|(_, what)| what)
    }

    /// The members, as the leader knows them.
    fn members(&self) -> Vec<u64> {
        if self.has_database() {
            return self.database_members();
        }
        let leader = self.leader().and_then(|leader| self.servers.get(&leader)?.store.clone());
        let members = leader.map(|leader| leader.members()).unwrap_or_default();
        members.into_iter().map(|member| member.peer.id).collect()
    }

    fn is_together(&self) -> bool {
        if self.has_database() {
            return self.is_database_together();
        }
        let Some(leader) = self.leader().and_then(|id| self.servers.get(&id)?.store.clone()) else {
            return false;
        };
        let stats = leader.stats();
        let Some(raft) = stats.raft else { return false };
        let done = raft.applied_index == raft.last_index;
        done && self.members().iter().all(|id| {
            let store = self.servers.get(id).and_then(|server| server.store.as_ref());
            store.is_some_and(|store| store.position() == leader.position())
        })
    }

    /// Whether no record is left under a key that was replaced, where there are cores.
    fn is_under_one_key(&self) -> bool {
        let leader = self.leader().and_then(|leader| self.servers.get(&leader)?.store.clone());
        let Some(store) = leader.filter(|_| self.plan.subject == SimSubject::Core) else {
            return true;
        };
        let mut versions = BTreeSet::new();
        let scanned = store.scan(&[], &mut |key, record| {
            if key.first() != Some(&BARRIER_KIND) {
                versions.extend(envelope_key_version(&record.value));
            }
            Visit::Continue
        });
        scanned.is_ok() && versions.len() < 2
    }

    fn compare_all(&mut self) -> Result<(), InvariantViolation> {
        for id in self.members() {
            self.compare(id)?;
            let Some(store) = self.servers.get(&id).and_then(|server| server.store.clone()) else {
                continue;
            };
            let state = crate::mirror::state_of(&*store).map_err(|error| {
                violated("a server can be read")(format!("server {id}: {error}"))
            })?;
            self.invariants.acknowledged.held(id, store.position().0, &state)?;
            let (position, horizon) =
                (store.position().0, self.invariants.replicas.log().horizon());
            if position < horizon {
                let what = format!("server {id} is at {position}, and {horizon} was committed");
                return Err(violated("acknowledged is durable")(what));
            }
        }
        Ok(())
    }

    /// Whether every member's core is unsealed and its view is of now, where there are cores.
    fn are_cores_open(&self) -> bool {
        self.plan.subject == SimSubject::Store
            || self.members().iter().all(|id| {
                let site = self.servers.get(id).and_then(|server| server.site.as_ref());
                site.is_some_and(|site| site.core.shown().is_some())
            })
    }

    /// Asks every member's core for what was acknowledged.
    fn look_at_cores(&mut self) -> Result<(), InvariantViolation> {
        if self.plan.subject == SimSubject::Store {
            return Ok(());
        }
        for id in self.members() {
            let held = self.servers.get(&id).and_then(|server| server.store.as_ref());
            let held = held.map_or(0, |store| store.position().0);
            for (ask, why) in self.last_asks(held) {
                self.begin(0, id, ask, why)?;
            }
        }
        let until = self.now + HEALED_WITHIN;
        while !self.calls.is_empty() {
            self.step()?;
            if self.now > until {
                return Err(stuck(&self.standing()));
            }
        }
        Ok(())
    }

    /// Waits until every lease is up, and the last user gone from the far end.
    fn end_credentials(&mut self) -> Result<(), InvariantViolation> {
        if self.plan.subject == SimSubject::Store {
            return Ok(());
        }
        let until = self.now + LEASES_END_WITHIN;
        let mut tidy = self.now;
        while !self.far_end.users().is_empty() {
            if self.now >= tidy {
                self.tidy_leases()?;
                tidy = self.now + TIDY_EVERY;
            }
            if self.now > until {
                return CredentialsOracle::left(&self.far_end.users());
            }
            self.step()?;
        }
        while !self.calls.is_empty() {
            self.step()?;
        }
        Ok(())
    }

    /// Where everybody is, for a person.
    fn standing(&self) -> String {
        let tell = |server: &crate::server::SimServer| {
            let stats = server.store.as_ref().map(|store| store.stats());
            if let Some(database) = stats.as_ref().and_then(|stats| stats.database.as_ref()) {
                let leader = server.leader();
                return format!("server {}: leader {leader:?}, {database:?}", server.id);
            }
            match stats.and_then(|stats| stats.raft) {
                None => format!("server {} is off", server.id),
                Some(raft) => format!(
                    "server {}: leader {}, term {}, last {}, committed {}, applied {}",
                    server.id,
                    raft.leader_id,
                    raft.term,
                    raft.last_index,
                    raft.commit_index,
                    raft.applied_index
                ),
            }
        };
        let servers = self.servers.values().filter(|server| !server.removed);
        let told: Vec<String> = servers.map(tell).collect();
        format!("members {:?}; {}", self.members(), told.join("; "))
    }
}
