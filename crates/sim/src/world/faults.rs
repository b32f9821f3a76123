//! What goes wrong, and how it is mended.
//!
//! Each seed may do a part of it only: a run in which everything happens at once hides what needs a single thing to happen often.

use std::time::Duration;

use kallisto_lsm::disk::FaultKind;
use kallisto_store::{Candidacy, Error};

use super::{SimWorld, WorldEvent};
use crate::clock::{RATE_MIN, RIGHT_RATE};
use crate::database::DATABASE;
use crate::invariants::{InvariantViolation, violated};
use crate::sabotage::Sabotage;
use crate::server::{SimStorage, SimSubject};

/// Disk operations after which a planned failure strikes, at most.
const STRIKES_WITHIN: u64 = 60;
/// Change rows that are left at most when others are forgotten.
const KEPT_MAX: u64 = 40;
/// How far a clock of the day is set off at most, in milliseconds.
const OFF_MS_MAX: i64 = 20_000;

/// What can go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FaultEvent {
    /// A server reaches nobody, and nobody it.
    Isolate,
    /// A server hears and is not heard, or the other way round.
    OneWay,
    /// The servers are in two parts.
    Split,
    /// Messages are lost.
    Loss,
    /// Messages come twice.
    Double,
    /// Messages are held up, each for another time, and overtake each other.
    Delay,
    /// A server's machine loses power.
    Crash,
    /// The same, at some operation of the disk that comes soon.
    CrashMidway,
    /// All machines lose power at once.
    CrashAll,
    /// A server is stopped and started as operators do.
    Restart,
    /// A server stands still.
    Pause,
    /// A server's clock goes at another rate.
    Skew,
    /// A disk has no space left.
    DiskFull,
    /// A sync fails.
    SyncFails,
    /// Leadership is handed on.
    Transfer,
    /// A server votes and does not stand.
    Reluctant,
    /// Servers are taken in and let go.
    Members,
    /// An operator seals a core; whoever opens seals opens it again. Drawn where cores run.
    Seal,
    /// A machine's clock of the day is set to another time. Drawn where cores run: stores read no such clock.
    WallClock,
    /// The database ends, or goes over to another machine that has everything; its clock may be another then.
    DatabaseAway,
    /// The database takes what it is asked and does nothing for a while.
    DatabaseHangs,
    /// Operations take long.
    DatabaseSlow,
    /// The database has no space left.
    DatabaseFull,
    /// A server's connections to the database end, whatever is on them.
    SessionsCut,
    /// Nobody is told that there is something new.
    NoticesLost,
    /// The change rows are gone that somebody may not have read.
    ChangesForgotten,
    /// A server that was let go is switched off. Never drawn.
    SwitchOff,
}

/// Something that goes wrong with a server, or with everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WorldFault {
    kind: FaultEvent,
    server: u64,
}

impl WorldFault {
    /// `kind` of `server`.
    pub(super) const fn new(kind: FaultEvent, server: u64) -> Self {
        Self { kind, server }
    }
}

impl FaultEvent {
    /// All that are drawn.
    const ALL: [Self; 17] = [
        Self::Isolate,
        Self::OneWay,
        Self::Split,
        Self::Loss,
        Self::Double,
        Self::Delay,
        Self::Crash,
        Self::CrashMidway,
        Self::CrashAll,
        Self::Restart,
        Self::Pause,
        Self::Skew,
        Self::DiskFull,
        Self::SyncFails,
        Self::Transfer,
        Self::Reluctant,
        Self::Members,
    ];

    /// All that are drawn where servers share a database: they have no disks.
    const ON_DATABASE: [Self; 20] = [
        Self::Isolate,
        Self::OneWay,
        Self::Split,
        Self::Loss,
        Self::Delay,
        Self::Crash,
        Self::CrashAll,
        Self::Restart,
        Self::Pause,
        Self::Skew,
        Self::Transfer,
        Self::Reluctant,
        Self::Members,
        Self::DatabaseAway,
        Self::DatabaseHangs,
        Self::DatabaseSlow,
        Self::DatabaseFull,
        Self::SessionsCut,
        Self::NoticesLost,
        Self::ChangesForgotten,
    ];

    /// What may go wrong in one run: about half of it, all of it where something is to be caught.
    pub(super) fn draw_some(
        dice: &mut fastrand::Rng,
        sabotage: Option<Sabotage>,
        subject: SimSubject,
        storage: SimStorage,
    ) -> Vec<Self> {
        let all: &[Self] = match storage {
            SimStorage::Raft => &Self::ALL,
            SimStorage::Database => &Self::ON_DATABASE,
        };
        let mut some: Vec<Self> = all.iter().copied().filter(|_| dice.bool()).collect();
        if sabotage.is_some() || some.len() < 3 {
            some = all.to_vec();
        }
        if subject == SimSubject::Core && dice.bool() {
            some.push(Self::WallClock);
        }
        if subject == SimSubject::Core && dice.bool() {
            some.push(Self::Seal);
        }
        some
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Isolate => "isolated",
            Self::OneWay => "cut one way",
            Self::Split => "split",
            Self::Loss => "loss",
            Self::Double => "doubling",
            Self::Delay => "delay",
            Self::Crash => "power cut",
            Self::CrashMidway => "power cut in a write",
            Self::CrashAll => "power cut for all",
            Self::Restart => "restart",
            Self::Pause => "pause",
            Self::Skew => "skew",
            Self::DiskFull => "disk full",
            Self::SyncFails => "sync fails",
            Self::Transfer => "transfer",
            Self::Reluctant => "reluctant",
            Self::Members => "members",
            Self::Seal => "sealed",
            Self::WallClock => "clock set",
            Self::DatabaseAway => "database away",
            Self::DatabaseHangs => "database hangs",
            Self::DatabaseSlow => "database slow",
            Self::DatabaseFull => "database full",
            Self::SessionsCut => "connections cut",
            Self::NoticesLost => "notices lost",
            Self::ChangesForgotten => "changes forgotten",
            Self::SwitchOff => "switched off",
        }
    }
}

impl SimWorld {
    /// The next thing goes wrong.
    pub(super) fn go_wrong(&mut self) -> Result<(), InvariantViolation> {
        if self.calm {
            return Ok(());
        }
        let next = self.between(200, 3000);
        self.schedule(next, WorldEvent::Fault);
        let kind = self.allowed[self.dice.usize(..self.allowed.len())];
        let running: Vec<u64> =
            self.servers.values().filter(|s| s.serves(self.now)).map(|s| s.id).collect();
        if running.is_empty() {
            return Ok(());
        }
        let server = running[self.dice.usize(..running.len())];
        self.compare(server)?;
        if kind != FaultEvent::Members {
            self.figures.fault(kind.name());
        }
        self.note(40 + kind as u64, server, || format!("fault: {}, server {server}", kind.name()));
        self.inflict(kind, server)
    }

    fn inflict(&mut self, kind: FaultEvent, server: u64) -> Result<(), InvariantViolation> {
        let fault = WorldFault::new(kind, server);
        match kind {
            FaultEvent::Isolate | FaultEvent::OneWay | FaultEvent::Split => {
                self.cut_wires(kind, server);
                self.mend_after(fault, 500, 9000);
            }
            FaultEvent::Loss | FaultEvent::Double | FaultEvent::Delay => {
                match kind {
                    FaultEvent::Loss => self.network.lost = self.dice.u64(10..400),
                    FaultEvent::Double => self.network.doubled = self.dice.u64(10..400),
                    _ => self.network.held_up = self.between(5, 1500),
                }
                self.mend_after(fault, 500, 9000);
            }
            FaultEvent::Crash => {
                self.cut_power(server)?;
                self.mend_after(fault, 50, 8000);
            }
            FaultEvent::CrashAll => {
                let ids: Vec<u64> = self.servers.keys().copied().collect();
                for id in ids {
                    if self.servers.get(&id).is_some_and(crate::server::SimServer::is_on) {
                        self.cut_power(id)?;
                        self.mend_after(WorldFault::new(FaultEvent::Crash, id), 50, 4000);
                    }
                }
            }
            FaultEvent::CrashMidway => self.fail_disk(server, FaultKind::Crash, u64::MAX),
            FaultEvent::SyncFails => self.fail_disk(server, FaultKind::SyncFails, 1),
            FaultEvent::DiskFull => {
                self.fail_disk(server, FaultKind::NoSpace, u64::MAX);
                self.mend_after(fault, 500, 6000);
            }
            FaultEvent::Restart => {
                self.stop(server)?;
                self.mend_after(fault, 50, 5000);
            }
            FaultEvent::Pause => {
                let until = self.now + self.between(100, 6000);
                if let Some(server) = self.servers.get_mut(&server) {
                    server.paused_until = until;
                }
            }
            FaultEvent::Skew => {
                let rate = self.dice.u64(RATE_MIN..RIGHT_RATE * 3);
                self.set_rate(server, rate);
                self.mend_after(fault, 1000, 15_000);
            }
            FaultEvent::Transfer => self.transfer()?,
            FaultEvent::Reluctant => {
                self.stand(server, Candidacy::Reluctant)?;
                self.mend_after(fault, 500, 8000);
            }
            FaultEvent::Members => self.want_other_members(),
            FaultEvent::Seal => self.seal(server)?,
            FaultEvent::WallClock => {
                let off_ms = self.dice.i64(-OFF_MS_MAX..OFF_MS_MAX);
                if let Some(server) = self.servers.get_mut(&server) {
                    server.wall.set_off(off_ms);
                }
            }
            FaultEvent::DatabaseAway
            | FaultEvent::DatabaseHangs
            | FaultEvent::DatabaseSlow
            | FaultEvent::DatabaseFull
            | FaultEvent::SessionsCut
            | FaultEvent::NoticesLost
            | FaultEvent::ChangesForgotten => self.break_database(kind, server),
            FaultEvent::SwitchOff => {}
        }
        Ok(())
    }

    fn break_database(&mut self, kind: FaultEvent, server: u64) {
        match kind {
            FaultEvent::DatabaseAway => {
                self.database.is_away = true;
                self.database.off += self.dice.i64(-OFF_MS_MAX..OFF_MS_MAX);
                self.cut_sessions(None, true);
            }
            FaultEvent::DatabaseHangs => {
                self.database.hangs_until = self.now + self.between(100, 9000);
            }
            FaultEvent::DatabaseSlow => self.database.slow = self.between(20, 6000),
            FaultEvent::DatabaseFull => self.database.rows.is_full = true,
            FaultEvent::SessionsCut => self.cut_sessions(Some(server), false),
            FaultEvent::NoticesLost => self.database.is_deaf = true,
            _ => {
                let tip = self.database.rows.position;
                let to = tip.saturating_sub(self.dice.u64(..KEPT_MAX));
                self.database.rows.forget_changes(to);
            }
        }
        self.mend_after(WorldFault::new(kind, server), 50, 8000);
    }

    /// Mends a fault.
    pub(super) fn mend(&mut self, fault: WorldFault) -> Result<(), InvariantViolation> {
        let id = fault.server;
        match fault.kind {
            FaultEvent::Isolate
            | FaultEvent::OneWay
            | FaultEvent::Split
            | FaultEvent::Loss
            | FaultEvent::Double
            | FaultEvent::Delay => {
                if self.plan.sabotage != Some(Sabotage::NeverHealed) || !self.calm {
                    self.network.mend();
                }
            }
            FaultEvent::Crash | FaultEvent::Restart => self.start(id)?,
            FaultEvent::Skew => self.set_rate(id, RIGHT_RATE),
            FaultEvent::DiskFull => {
                if let Some(server) = self.servers.get_mut(&id) {
                    server.disk.plan(None);
                }
            }
            FaultEvent::Reluctant => self.stand(id, Candidacy::Willing)?,
            FaultEvent::SwitchOff => {
                if let Some(server) = self.servers.get_mut(&id) {
                    server.switch_off();
                }
                self.poll_clients(id)?;
                self.poll_calls(id)?;
            }
            FaultEvent::DatabaseAway => self.database.is_away = false,
            FaultEvent::DatabaseSlow => self.database.slow = Duration::ZERO,
            FaultEvent::DatabaseFull => self.database.rows.is_full = false,
            FaultEvent::NoticesLost => self.database.is_deaf = false,
            FaultEvent::DatabaseHangs
            | FaultEvent::SessionsCut
            | FaultEvent::ChangesForgotten
            | FaultEvent::CrashMidway
            | FaultEvent::CrashAll
            | FaultEvent::Pause
            | FaultEvent::SyncFails
            | FaultEvent::Seal
            | FaultEvent::WallClock
            | FaultEvent::Transfer
            | FaultEvent::Members => {}
        }
        Ok(())
    }

    fn mend_after(&mut self, fault: WorldFault, from_ms: u64, to_ms: u64) {
        let after = self.between(from_ms, to_ms);
        self.schedule(after, WorldEvent::Mend(fault));
    }

    fn cut_wires(&mut self, kind: FaultEvent, server: u64) {
        let mut ids: Vec<u64> = self.servers.keys().copied().collect();
        if self.has_database() {
            ids.push(DATABASE);
        }
        let hears = self.dice.bool();
        let part: Vec<bool> = ids.iter().map(|_| self.dice.bool()).collect();
        for (a, &from) in ids.iter().enumerate() {
            for (b, &to) in ids.iter().enumerate() {
                let cut = match kind {
                    FaultEvent::Isolate => from == server || to == server,
                    FaultEvent::OneWay => server == if hears { from } else { to },
                    _ => part[a] != part[b],
                };
                if cut && from != to {
                    self.network.cut(from, to);
                }
            }
        }
    }

    fn fail_disk(&mut self, server: u64, kind: FaultKind, count: u64) {
        let after = self.dice.u64(..STRIKES_WITHIN);
        if let Some(server) = self.servers.get_mut(&server) {
            server.fail_disk(kind, after, count);
        }
    }

    pub(super) fn stop(&mut self, id: u64) -> Result<(), InvariantViolation> {
        self.drop_transfers(id);
        if self.has_database() {
            // What it has not said yet it says on its way out.
            self.drive(id)?;
        }
        let Some(server) = self.servers.get_mut(&id) else { return Ok(()) };
        server.clock.follow(self.now);
        let stopped = server.stop();
        let failed = stopped.is_err();
        match stopped {
            Err(error) if !server.excused && !matches!(error, Error::Full(_)) => {
                return Err(violated("a server can be stopped")(format!("server {id}: {error}")));
            }
            _ => {}
        }
        if server.excused && (failed || server.disk.is_gone()) {
            // Its disk failed on the way out, perhaps where nothing hangs on it and nobody is told, as when spare files are
            // removed: what is on it is what a power cut leaves.
            self.cut_power(id)?;
        }
        self.poll_clients(id)?;
        self.poll_calls(id)
    }

    pub(super) fn set_rate(&mut self, server: u64, rate: u64) {
        if let Some(server) = self.servers.get(&server) {
            server.clock.follow(self.now);
            server.clock.set_rate(rate);
            server.wall.set_rate(rate, self.now);
        }
    }

    pub(super) fn stand(
        &mut self,
        id: u64,
        candidacy: Candidacy,
    ) -> Result<(), InvariantViolation> {
        let Some(server) = self.servers.get(&id) else { return Ok(()) };
        let Some(store) = &server.store else { return Ok(()) };
        if server.site.as_ref().is_some_and(|site| site.core.is_sealed()) {
            // A core stands by itself once it is unsealed.
            return Ok(());
        }
        server.clock.follow(self.now);
        store.stand(candidacy);
        self.look(id)
    }

    fn transfer(&mut self) -> Result<(), InvariantViolation> {
        let Some(leader) = self.leader() else { return Ok(()) };
        let Some(store) = self.servers.get(&leader).and_then(|s| s.store.clone()) else {
            return Ok(());
        };
        // Nobody waits for it: whoever leads in the end, leads.
        drop(store.transfer(None));
        self.look(leader)
    }

    /// A server that leads, as it believes.
    pub(super) fn leader(&self) -> Option<u64> {
        let mut serving = self.servers.values().filter(|server| server.serves(self.now));
        serving.find(|s| s.store.as_ref().is_some_and(|store| store.leads())).map(|s| s.id)
    }

    /// Everything is as it should be again.
    pub(super) fn mend_all(&mut self) -> Result<(), InvariantViolation> {
        self.network.mend();
        self.database.is_away = false;
        self.database.slow = Duration::ZERO;
        self.database.hangs_until = Duration::ZERO;
        self.database.is_deaf = false;
        self.database.rows.is_full = false;
        let mut ids: Vec<u64> = self.servers.keys().copied().collect();
        for &id in &ids {
            if let Some(server) = self.servers.get_mut(&id) {
                server.disk.plan(None);
                server.paused_until = Duration::ZERO;
            }
            self.set_rate(id, RIGHT_RATE);
            self.stand(id, Candidacy::Willing)?;
            self.start(id)?;
        }
        if self.plan.sabotage == Some(Sabotage::NeverHealed) {
            ids.push(DATABASE);
            for (&from, &to) in ids.iter().flat_map(|from| ids.iter().map(move |to| (from, to))) {
                self.network.cut(from, to);
            }
        }
        Ok(())
    }
}
