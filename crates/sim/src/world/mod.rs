//! The world: servers, wires and clients, and one queue of what happens when.
//!
//! A run is a loop: take the next event, let the one it concerns do its work, look at what came of it, and schedule what follows. Nothing
//! happens at the same time as anything else, and everything that is drawn is drawn from the seed's dice, in order: a run is its seed.
//! `faults` is what goes wrong, `members` who comes and goes, `asking` what clients do, `ending` how a run comes to its close.

mod asking;
mod database;
mod ending;
mod faults;
mod judging;
mod members;
mod opening;
mod serving;
mod tenants;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use kallisto_lsm::disk::UnsyncedTail;
use kallisto_store::{ChunkSink, Chunks, Durability, Replicated};

use self::faults::{FaultEvent, WorldFault};
use self::members::Admin;
use self::serving::{RequestWay, SimCall};
use self::tenants::Tenant;
use crate::clients::SimClient;
use crate::database::SimDatabase;
use crate::estate::Estate;
use crate::figures::Figures;
use crate::invariants::{InvariantViolation, Invariants, violated};
use crate::mirror::FoldEvent;
use crate::network::SimNetwork;
use crate::sabotage::Sabotage;
use crate::server::{Setup, SimServer, SimStorage, SimSubject};
use crate::site::chance;
use crate::site::far_end::FaultyFarEnd;
use crate::wire;

/// What a run is of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WorldPlan {
    /// The seed.
    pub(crate) seed: u64,
    /// For how long faults happen, in the simulation's time.
    pub(crate) lasts: Duration,
    /// What it is about.
    pub(crate) subject: SimSubject,
    /// What keeps the records.
    pub(crate) storage: SimStorage,
    /// What is broken on purpose.
    pub(crate) sabotage: Option<Sabotage>,
    /// Whether each event is told, on standard error.
    pub(crate) is_verbose: bool,
}

/// Clients of a run.
const CLIENTS: u64 = 4;
/// Servers that a run begins with, the first of which makes the store.
const SERVERS: u64 = 3;
/// Raft's unit of time here. An election takes 15 to 30 of them.
const TICK: Duration = Duration::from_millis(50);
/// While things go wrong, the wire of a snapshot breaks once in so many chunks. Most have three.
const CHUNKS_BETWEEN_BREAKS: u64 = 8;
/// Most events of a run: far more than any has.
const EVENTS_MAX: u64 = 50_000_000;

/// Something that happens.
enum WorldEvent {
    /// A server looks around.
    Turn { server: u64, life: u64 },
    /// A message comes.
    Deliver { from: u64, to: u64, message: Bytes },
    /// Something comes to the database, or back.
    Travel { number: u64 },
    /// The next part of a snapshot comes.
    Chunk { transfer: u64 },
    /// A client does something, or has waited long enough.
    Ask { client: usize, number: u64 },
    /// A request to a core goes on its way.
    Call { number: u64, turn: u64, way: RequestWay },
    /// A core hears the time.
    Tick { server: u64, life: u64 },
    /// A task of a core goes on.
    Task { server: u64, life: u64, number: u64 },
    /// Something goes wrong.
    Fault,
    /// Something is mended.
    Mend(WorldFault),
    /// Somebody looks after who the members are.
    Admin,
}

struct Scheduled {
    at: Duration,
    number: u64,
    event: WorldEvent,
}

impl PartialEq for Scheduled {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Eq for Scheduled {}

impl PartialOrd for Scheduled {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Scheduled {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

/// A snapshot on its way.
struct Transfer {
    /// Who sends, and in which of its lives.
    from: (u64, u64),
    to: (u64, u64),
    chunks: Option<Box<dyn Chunks>>,
    sink: Option<Box<dyn ChunkSink>>,
}

impl Transfer {
    /// Asks the sender for a snapshot, or for the rest of one. Returns how many rests that is.
    fn open(&mut self, source: &dyn Replicated) -> u64 {
        let Some(place) = self.sink.as_ref().and_then(|sink| sink.place()) else {
            self.chunks = source.snapshot().ok();
            return 0;
        };
        match source.snapshot_behind(&place) {
            Ok(Some(chunks)) => {
                self.chunks = Some(chunks);
                return 1;
            }
            Ok(None) => {
                if let Some(sink) = self.sink.take() {
                    sink.gone();
                }
            }
            Err(_) => {}
        }
        0
    }

    fn next(&mut self) -> Option<Result<Option<Vec<u8>>, kallisto_store::Error>> {
        self.chunks.as_mut().map(|chunks| chunks.next_chunk())
    }
}

/// Everything there is.
pub(crate) struct SimWorld {
    plan: WorldPlan,
    setup: Setup,
    dice: fastrand::Rng,
    now: Duration,
    number: u64,
    queue: BinaryHeap<Reverse<Scheduled>>,
    servers: BTreeMap<u64, SimServer>,
    network: SimNetwork,
    /// The database that servers share, where they do.
    database: SimDatabase,
    clients: Vec<SimClient>,
    tenants: Vec<Tenant>,
    estate: Estate,
    /// Where the credentials are that cores make.
    far_end: Arc<FaultyFarEnd>,
    /// Requests to cores that are under way.
    calls: BTreeMap<u64, SimCall>,
    call_next: u64,
    task_next: u64,
    transfers: BTreeMap<u64, Transfer>,
    transfer_next: u64,
    /// What may go wrong in this run.
    allowed: Vec<FaultEvent>,
    /// Whether anything still goes wrong, and clients still ask.
    calm: bool,
    admin: Admin,
    invariants: Invariants,
    figures: Figures,
    /// Over every event: two runs of one seed have the same.
    digest: u64,
}

/// Runs a seed to its end.
///
/// # Errors
/// The first invariant that did not hold.
pub(crate) fn run(plan: WorldPlan) -> Result<(Figures, u64), InvariantViolation> {
    // The ids of requests are seeded once a thread; nothing comes of them, but a draw less is another run.
    kallisto_core::RequestId::make();
    chance::draw_from(plan.seed);
    let ran = run_seeded(plan);
    chance::end();
    ran
}

fn run_seeded(plan: WorldPlan) -> Result<(Figures, u64), InvariantViolation> {
    let mut world = SimWorld::new(plan)?;
    world.live()?;
    world.end()?;
    world.figures.seeds = 1;
    world.figures.simulated = world.now;
    Ok((world.figures, world.digest))
}

impl SimWorld {
    fn new(plan: WorldPlan) -> Result<Self, InvariantViolation> {
        let mut dice = fastrand::Rng::with_seed(plan.seed);
        let batch = plan.sabotage.is_none() && dice.u8(..5) == 0;
        let durability = if batch { Durability::BATCH } else { Durability::Strict };
        let allowed = FaultEvent::draw_some(&mut dice, plan.sabotage, plan.subject, plan.storage);
        let WorldPlan { sabotage, subject, storage, .. } = plan;
        let mut world = Self {
            plan,
            setup: Setup { durability, tick: TICK, sabotage, subject, storage },
            dice,
            now: Duration::ZERO,
            number: 0,
            queue: BinaryHeap::new(),
            servers: BTreeMap::new(),
            network: SimNetwork::default(),
            database: SimDatabase::new(plan.sabotage),
            clients: (0..CLIENTS).map(SimClient::new).collect(),
            tenants: (0..CLIENTS).map(|_| Tenant::default()).collect(),
            estate: Estate::default(),
            far_end: FaultyFarEnd::new(plan.seed),
            calls: BTreeMap::new(),
            call_next: 0,
            task_next: 0,
            transfers: BTreeMap::new(),
            transfer_next: 0,
            allowed,
            calm: false,
            admin: Admin::default(),
            invariants: Invariants::default(),
            figures: Figures::default(),
            digest: 0xcbf2_9ce4_8422_2325,
        };
        world.found_cluster()?;
        if plan.subject == SimSubject::Core {
            world.open_first()?;
        }
        if plan.storage == SimStorage::Database {
            world.found_rest()?;
        }
        for client in 0..world.clients.len() {
            world.schedule(Duration::from_secs(2), WorldEvent::Ask { client, number: 0 });
        }
        world.schedule(Duration::from_secs(4), WorldEvent::Fault);
        world.schedule(Duration::from_millis(10), WorldEvent::Admin);
        Ok(world)
    }

    /// Has time go on until it is up.
    fn live(&mut self) -> Result<(), InvariantViolation> {
        while self.now < self.plan.lasts {
            self.step()?;
        }
        Ok(())
    }

    /// Takes the next event.
    fn step(&mut self) -> Result<(), InvariantViolation> {
        let Some(Reverse(Scheduled { at, event, .. })) = self.queue.pop() else {
            return Err(violated("it goes on")("nothing happens any more".into()));
        };
        assert!(self.figures.events < EVENTS_MAX, "a run ends");
        self.now = at;
        self.figures.events += 1;
        self.far_end.follow(at);
        for user in self.far_end.take_revoked() {
            self.note(90, 0, || format!("the far end revokes {user}"));
            self.invariants.credentials.gone(&user, &self.estate, self.estate.latest)?;
        }
        match event {
            WorldEvent::Turn { server, life } => {
                if self.servers.get(&server).is_none_or(|s| s.life != life || !s.has_turns()) {
                    return Ok(());
                }
                let half = TICK / 2;
                let next = half + half.mul_f64(self.dice.f64());
                self.schedule(next, WorldEvent::Turn { server, life });
                self.turn(server)
            }
            WorldEvent::Deliver { from, to, message } => self.deliver(from, to, message),
            WorldEvent::Travel { number } => self.travel(number),
            WorldEvent::Chunk { transfer } => self.carry_chunk(transfer),
            WorldEvent::Ask { client, number } => self.ask(client, number),
            WorldEvent::Call { number, turn, way } => self.carry_call(number, turn, way),
            WorldEvent::Tick { server, life } => self.tick_core(server, life),
            WorldEvent::Task { server, life, number } => self.run_task(server, life, number),
            WorldEvent::Fault => self.go_wrong(),
            WorldEvent::Mend(fault) => self.mend(fault),
            WorldEvent::Admin => self.administer(),
        }
    }

    fn schedule(&mut self, after: Duration, event: WorldEvent) {
        self.number += 1;
        let scheduled = Scheduled { at: self.now + after, number: self.number, event };
        self.queue.push(Reverse(scheduled));
    }

    /// Takes part of what happened into the digest, and tells it if that is wanted.
    fn note(&mut self, kind: u64, of: u64, tell: impl FnOnce() -> String) {
        for word in [crate::clients::micros(self.now), kind, of] {
            self.digest = (self.digest ^ word).wrapping_mul(0x0100_0000_01b3).rotate_left(5);
        }
        if self.plan.is_verbose {
            eprintln!("{:>12.6} {}", self.now.as_secs_f64(), tell());
        }
    }

    /// A moment between two, by dice.
    fn between(&mut self, from_ms: u64, to_ms: u64) -> Duration {
        Duration::from_millis(self.dice.u64(from_ms..to_ms))
    }

    /// Starts a server's store, and its turns.
    fn start(&mut self, id: u64) -> Result<(), InvariantViolation> {
        let Some(server) = self.servers.get_mut(&id).filter(|s| !s.is_on() && !s.removed) else {
            return Ok(());
        };
        if let Err(error) = server.start(&self.setup, self.now) {
            return Err(violated("a server starts again")(format!("server {id}: {error}")));
        }
        server.folded = 0;
        let life = server.life;
        self.note(1, id, || format!("server {id} starts, life {life}"));
        self.schedule(TICK, WorldEvent::Turn { server: id, life });
        if !self.has_database() {
            self.opened(id, life);
        }
        self.look(id)
    }

    /// A server's store is there: its core hears the time from now on.
    fn opened(&mut self, id: u64, life: u64) {
        if self.plan.subject == SimSubject::Core {
            let after = self.between(20, 1500);
            self.schedule(after, WorldEvent::Tick { server: id, life });
        }
    }

    /// Has a server do what is due, if it can.
    fn turn(&mut self, id: u64) -> Result<(), InvariantViolation> {
        let now = self.now;
        let Some(server) = self.servers.get_mut(&id).filter(|s| s.paused_until <= now) else {
            return Ok(());
        };
        server.clock.follow(now);
        if server.store.is_some() && self.plan.storage == SimStorage::Raft {
            server.drive(&self.setup);
        }
        self.look(id)
    }

    /// Looks at what came of a server's work.
    fn look(&mut self, id: u64) -> Result<(), InvariantViolation> {
        if self.has_database() {
            self.drive(id)?;
            self.judge_as_of(id)?;
        }
        let Some(server) = self.servers.get(&id) else { return Ok(()) };
        if let Some(error) = server.fatal() {
            return self.ended(id, &error);
        }
        self.carry(id)?;
        self.hear_mirror(id)?;
        self.begin_tasks(id)?;
        let Some(server) = self.servers.get(&id).filter(|server| server.joined) else {
            return Ok(());
        };
        if let Some(store) = &server.store {
            let leadership = store.leadership();
            // Of a database without anything each server is asked to begin.
            let is_begun = !self.has_database() || store.position().0 > 0;
            if is_begun
                && leadership.is_mine()
                && self.invariants.leaders.leads(id, leadership.term)?
            {
                self.figures.leaders += 1;
                let term = leadership.term;
                self.note(2, id, || format!("server {id} leads in term {term}"));
            }
        }
        self.poll_clients(id)?;
        self.poll_calls(id)
    }

    /// A store has ended itself: as it should, if its disk failed.
    fn ended(&mut self, id: u64, error: &kallisto_store::Error) -> Result<(), InvariantViolation> {
        let excused = self.servers.get(&id).is_some_and(|server| server.excused)
            // A disk that is full in the middle of taking a snapshot in: the server ends and starts again with either state.
            || matches!(error, kallisto_store::Error::Full(_));
        self.note(3, id, || format!("server {id} ends: {error}"));
        if !excused {
            let what = format!("server {id}, whose disk never failed: {error}");
            return Err(violated("a server ends for a reason")(what));
        }
        self.figures.fault("ended by its disk");
        self.cut_power(id)?;
        let after = self.between(200, 5000);
        self.schedule(after, WorldEvent::Mend(WorldFault::new(FaultEvent::Crash, id)));
        Ok(())
    }

    /// What a mode of durability may lose: in batch mode servers die, their machines do not.
    fn draw_tail(&mut self) -> UnsyncedTail {
        match self.setup.durability {
            Durability::Strict => UnsyncedTail::ALL[self.dice.usize(..UnsyncedTail::ALL.len())],
            Durability::Batch { .. } => UnsyncedTail::Kept,
        }
    }

    fn cut_power(&mut self, id: u64) -> Result<(), InvariantViolation> {
        let (tail, seed) = (self.draw_tail(), self.dice.u64(..));
        self.note(4, id, || format!("server {id} loses power, {tail:?}"));
        let Some(server) = self.servers.get_mut(&id) else { return Ok(()) };
        let cut = server.power_off(tail, seed);
        cut.map_err(|error| violated("the simulation's disk works")(error.to_string()))?;
        self.drop_transfers(id);
        self.cut_sessions(Some(id), false);
        self.poll_clients(id)?;
        self.poll_calls(id)
    }

    /// The process that sent snapshots and took them in is gone, and with it its locks.
    fn drop_transfers(&mut self, id: u64) {
        self.transfers.retain(|_, transfer| transfer.from.0 != id && transfer.to.0 != id);
    }

    /// Puts what a server said on the wires.
    fn carry(&mut self, id: u64) -> Result<(), InvariantViolation> {
        let Some(server) = self.servers.get(&id) else { return Ok(()) };
        let (said, life, joined) = (server.end.take(), server.life, server.joined);
        for (to, mut message) in said.messages {
            self.figures.messages += 1;
            if let Some(vote) = wire::vote(&message).filter(|_| joined) {
                self.invariants.votes.cast(vote)?;
            }
            if let Some(how) = self.plan.sabotage {
                wire::sabotage(&mut message, how, &mut self.dice);
            }
            let message = Bytes::from(message);
            if self.network.reaches(id, to) {
                for after in self.network.fates(&mut self.dice) {
                    let message = message.clone();
                    self.schedule(after, WorldEvent::Deliver { from: id, to, message });
                }
            }
        }
        for (from, sink) in said.fetches {
            let source = (from, self.servers.get(&from).map_or(0, |source| source.life));
            let transfer =
                Transfer { from: source, to: (id, life), chunks: None, sink: Some(sink) };
            self.transfers.insert(self.transfer_next, transfer);
            self.schedule(TICK, WorldEvent::Chunk { transfer: self.transfer_next });
            self.transfer_next += 1;
            self.note(5, id, || format!("server {id} asks {from} for a snapshot"));
        }
        Ok(())
    }

    fn deliver(&mut self, from: u64, to: u64, message: Bytes) -> Result<(), InvariantViolation> {
        if !self.network.reaches(from, to) {
            return Ok(());
        }
        let now = self.now;
        let Some(server) = self.servers.get_mut(&to).filter(|server| server.store.is_some()) else {
            return Ok(());
        };
        if server.paused_until > now {
            // It waits in the kernel's buffers.
            let after = server.paused_until - now;
            self.schedule(after, WorldEvent::Deliver { from, to, message });
            return Ok(());
        }
        self.figures.delivered += 1;
        let kind = u64::from(message.get(1).copied().unwrap_or_default());
        let (bytes, entries) = (message.len(), wire::brings_entries(&message));
        server.clock.follow(now);
        if let Some(store) = &server.store {
            store.receive(from, message);
        }
        self.note(6 + kind, from << 8 | to, || {
            format!("{from} > {to}: type {kind}, {bytes} bytes, entries: {entries}")
        });
        self.turn(to)
    }

    /// Carries the next part of a snapshot, or drops all of it.
    fn carry_chunk(&mut self, number: u64) -> Result<(), InvariantViolation> {
        let Some(mut transfer) = self.transfers.remove(&number) else { return Ok(()) };
        let ((from, from_life), (to, to_life)) = (transfer.from, transfer.to);
        let now = self.now;
        let alive = |id: u64, life: u64| {
            let server = self.servers.get(&id).filter(|server| server.life == life);
            server
                .filter(|server| server.paused_until <= now)
                .and_then(|server| server.store.clone())
        };
        let stores = alive(from, from_life).zip(alive(to, to_life));
        let lost = !self.calm && self.dice.u64(..CHUNKS_BETWEEN_BREAKS) == 0;
        let reached = self.network.reaches(from, to) && self.network.reaches(to, from) && !lost;
        if let Some((source, _)) = stores.filter(|_| reached) {
            if transfer.chunks.is_none() {
                self.figures.resumed += transfer.open(&*source);
            }
            match transfer.next() {
                Some(Ok(Some(chunk))) => {
                    let taken = transfer.sink.as_mut().map(|sink| sink.take(chunk.into()));
                    if matches!(taken, Some(Ok(()))) {
                        self.transfers.insert(number, transfer);
                        let after = self.network.delay(&mut self.dice) * 4;
                        self.schedule(after, WorldEvent::Chunk { transfer: number });
                        return Ok(());
                    }
                }
                Some(Ok(None)) => {
                    // Refused where it is not whole; it is asked for again then.
                    let _ = transfer.sink.take().map(|sink| sink.finish());
                }
                Some(Err(_)) | None => {}
            }
        }
        drop(transfer);
        self.turn(to)
    }

    /// Shows what a server's fold was told to the invariants.
    fn hear_mirror(&mut self, id: u64) -> Result<(), InvariantViolation> {
        loop {
            let Some(server) = self.servers.get(&id) else { return Ok(()) };
            let told = server.mirror.take();
            if told.is_empty() {
                return Ok(());
            }
            let mut folded = server.folded;
            let mut replaced = false;
            for told in told {
                match told {
                    FoldEvent::Loaded(position, state) => {
                        self.invariants.replicas.loaded(id, position, &state)?;
                        self.figures.compared += 1;
                        self.note(20, position, || format!("server {id} is at {position}"));
                        folded = position;
                    }
                    FoldEvent::Folded(position, changes) => {
                        self.invariants.replicas.folded(id, folded, position, &changes)?;
                        self.note(21, position, || format!("server {id} folds {position}"));
                        folded = position;
                    }
                    FoldEvent::Replaced => replaced = true,
                }
            }
            if let Some(server) = self.servers.get_mut(&id) {
                server.folded = folded;
                if replaced {
                    self.figures.snapshots += 1;
                    let attached = server.attach();
                    let failed = |error: kallisto_store::Error| error.to_string();
                    attached.map_err(failed).map_err(violated("a snapshot can be loaded"))?;
                }
            }
        }
    }

    /// Compares the whole state of a server with what it should be.
    fn compare(&mut self, id: u64) -> Result<(), InvariantViolation> {
        let Some(store) = self.servers.get(&id).and_then(|server| server.store.clone()) else {
            return Ok(());
        };
        let state = match crate::mirror::state_of(&*store) {
            Ok(state) => state,
            // Its disk has failed, and it has not noticed yet.
            Err(_) if self.servers.get(&id).is_some_and(|server| server.excused) => return Ok(()),
            Err(error) => {
                return Err(violated("a server can be read")(format!("server {id}: {error}")));
            }
        };
        self.figures.compared += 1;
        self.invariants.replicas.holds(id, store.position().0, &state)
    }
}
