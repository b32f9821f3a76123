//! Requests on their way: to the server that is asked, from there to the one that leads, and back, as the listeners do it.
//!
//! ```text
//! begin > step: the view holds what the client has seen? > at the server that is asked
//!                                                              | it does not lead
//!              relay > on the wire > at the leader > on the wire > heard
//! ```
//!
//! What may have been seen by a server that is gone is not sent again unless it only reads. Whatever a server answers is judged
//! there (`judging`), whether anybody hears of it or not.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kallisto_core::Operation;

use super::tenants::RequestReason;
use super::{SimWorld, WorldEvent};
use crate::invariants::{InvariantViolation, violated};
use crate::sabotage::Sabotage;
use crate::site::asks::{Ask, CoreAnswer, Flight, Recency};
use crate::site::background::{RunningTask, TaskStep};

/// How long a request waits for somebody to lead, and for its answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a server that is behind waits for what a client has seen.
const BEHIND_MAX: Duration = Duration::from_secs(2);
/// How often it is looked whether that is so, or whether somebody leads.
const LOOK_PAUSE: Duration = Duration::from_millis(20);
/// How often a core is told the time.
const TICK: Duration = Duration::from_secs(1);
/// How long a thread takes to start at most, in microseconds: long, so that others come first.
const STARTS_WITHIN_MICROS: u64 = 50_000;
/// A sabotaged clock is so far behind.
const SLOW: SignedDuration = SignedDuration::from_hours(1);

/// A request under way.
pub(super) struct SimCall {
    pub(super) tenant: usize,
    pub(super) ask: Ask,
    pub(super) why: RequestReason,
    /// The server that was asked, and in which of its lives.
    pub(super) entry: (u64, u64),
    pub(super) began: Duration,
    /// Counts where it went, so that it takes the last way only.
    ways: u64,
    /// Whether it is for the leader: the server that was asked does not lead.
    is_relayed: bool,
    stage: ServingStage,
}

enum ServingStage {
    /// It waits for something.
    Waits,
    /// A core works on it.
    Flies { intake: IntakePoint, flight: Flight },
    /// Its answer is on the wire, with a position that the answering server held.
    Answered(Box<CoreAnswer>, u64),
}

/// Where and when a request was taken up.
#[derive(Clone, Copy, Debug)]
pub(super) struct IntakePoint {
    pub(super) server: u64,
    life: u64,
    /// The time by the server's clock.
    pub(super) at: Timestamp,
    /// What its view held.
    pub(super) held: u64,
    /// The time by the world's clock, and what the view showed; `None` while it was of the past.
    pub(super) taken: Duration,
    pub(super) shown: Option<u64>,
}

/// Where a request goes next.
#[derive(Clone, Copy, Debug)]
pub(super) enum RequestWay {
    /// It is looked at again at the server that was asked.
    Step,
    /// It comes to another server, in one of its lives.
    Server(u64, u64),
    /// Its answer comes back.
    Back,
}

impl SimWorld {
    /// Sends a request to a server.
    pub(super) fn begin(
        &mut self,
        tenant: usize,
        entry: u64,
        ask: Ask,
        why: RequestReason,
    ) -> Result<(), InvariantViolation> {
        let life = self.servers.get(&entry).map_or(0, |server| server.life);
        let number = self.call_next;
        self.call_next += 1;
        self.note(80, number << 8 | entry, || {
            format!("call {number} of {tenant} to {entry}: {why:?}")
        });
        let call = SimCall {
            tenant,
            ask,
            why,
            entry: (entry, life),
            began: self.now,
            ways: 0,
            is_relayed: false,
            stage: ServingStage::Waits,
        };
        self.calls.insert(number, call);
        self.step_call(number)
    }

    fn send_on(&mut self, number: u64, way: RequestWay, after: Duration) {
        let Some(call) = self.calls.get_mut(&number) else { return };
        call.ways += 1;
        let turn = call.ways;
        self.schedule(after, WorldEvent::Call { number, turn, way });
    }

    /// A request comes to where it was sent on to.
    pub(super) fn carry_call(
        &mut self,
        number: u64,
        turn: u64,
        way: RequestWay,
    ) -> Result<(), InvariantViolation> {
        if self.calls.get(&number).is_none_or(|call| call.ways != turn) {
            return Ok(());
        }
        match way {
            RequestWay::Step => self.step_call(number),
            RequestWay::Server(server, life) => self.come_to(number, server, life),
            RequestWay::Back => self.come_back(number),
        }
    }

    /// Looks after a request at the server that was asked.
    fn step_call(&mut self, number: u64) -> Result<(), InvariantViolation> {
        let Some(call) = self.calls.get(&number) else { return Ok(()) };
        let ((entry, life), is_relayed) = (call.entry, call.is_relayed);
        if self.now.saturating_sub(call.began) > PATIENCE {
            // It was put to nobody since it was refused as not to be done there.
            return self.hear(number, CoreAnswer::NotLeader, 0);
        }
        let Some(server) = self.servers.get(&entry).filter(|s| s.life == life && s.site.is_some())
        else {
            return self.hear(number, CoreAnswer::NotLeader, 0);
        };
        if server.paused_until > self.now {
            let after = server.paused_until - self.now;
            self.send_on(number, RequestWay::Step, after);
            return Ok(());
        }
        if is_relayed { self.relay(number, entry) } else { self.come_to(number, entry, life) }
    }

    /// A request reaches a server.
    fn come_to(&mut self, number: u64, id: u64, life: u64) -> Result<(), InvariantViolation> {
        let now = self.now;
        let Some(call) = self.calls.get(&number) else { return Ok(()) };
        let Some(server) = self.servers.get(&id).filter(|s| s.life == life) else {
            self.send_on(number, RequestWay::Step, LOOK_PAUSE);
            return Ok(());
        };
        let Some(site) = &server.site else {
            self.send_on(number, RequestWay::Step, LOOK_PAUSE);
            return Ok(());
        };
        if server.paused_until > now {
            let after = server.paused_until - now;
            self.send_on(number, RequestWay::Server(id, life), after);
            return Ok(());
        }
        server.clock.follow(now);
        let shown = site.core.shown();
        let index = match call.ask.recency {
            Recency::Seen(index) if self.plan.sabotage != Some(Sabotage::NoIndex) => index,
            _ => 0,
        };
        if index > 0 && !site.core.is_sealed() && shown.is_none_or(|shown| shown < index) {
            if now.saturating_sub(call.began) > BEHIND_MAX {
                return self.hear(number, CoreAnswer::NotLeader, 0);
            }
            self.send_on(number, RequestWay::Server(id, life), LOOK_PAUSE);
            return Ok(());
        }
        let at = server.wall.now(now);
        let told = match self.plan.sabotage {
            Some(Sabotage::SlowClock)
                if call.ask.operation == Operation::Read && id.is_multiple_of(2) =>
            {
                at.saturating_sub(SLOW).unwrap_or(at)
            }
            _ => at,
        };
        let claimed = match call.ask.recency {
            Recency::Seen(index) => index,
            Recency::Everything => 0,
        };
        let held = shown.unwrap_or_default().max(claimed);
        let intake = IntakePoint { server: id, life, at, held, taken: now, shown };
        let (core, leads) = (site.core.clone(), site.core.store().leads());
        let mut ask = call.ask.clone();
        if let (Some(Sabotage::MixedTokens), RequestReason::Fetch { token }) =
            (self.plan.sabotage, &call.why)
        {
            ask.token.clone_from(&self.estate.tokens[token - 1].text);
        }
        let flight = Flight::ask(core, ask, told);
        self.estate.latest = self.estate.latest.max(at);
        self.note(81, number << 8 | id, || format!("call {number} reaches {id}, {at}"));
        self.taken_up(number, &intake, leads);
        if let Some(call) = self.calls.get_mut(&number) {
            call.stage = ServingStage::Flies { intake, flight };
        }
        // To ask a store without threads is to have it work.
        self.poll_calls(id)?;
        self.look(id)
    }

    /// Sends a request to the server that leads, as the one believes that was asked.
    fn relay(&mut self, number: u64, entry: u64) -> Result<(), InvariantViolation> {
        let Some(server) = self.servers.get(&entry) else { return Ok(()) };
        let (life, leader) = (server.life, server.leader());
        let leader = leader.filter(|leader| {
            self.network.reaches(entry, *leader) && self.network.reaches(*leader, entry)
        });
        match leader {
            Some(leader) if leader == entry => self.come_to(number, entry, life),
            Some(leader) if self.servers.contains_key(&leader) => {
                let life = self.servers.get(&leader).map_or(0, |leader| leader.life);
                let after = self.network.delay(&mut self.dice);
                self.send_on(number, RequestWay::Server(leader, life), after);
                Ok(())
            }
            _ => {
                self.send_on(number, RequestWay::Step, LOOK_PAUSE);
                Ok(())
            }
        }
    }

    /// Looks what came of the requests that a server's core works on, or worked on when it went away.
    pub(super) fn poll_calls(&mut self, id: u64) -> Result<(), InvariantViolation> {
        let flying = |call: &SimCall| match &call.stage {
            ServingStage::Flies { intake, .. } => intake.server == id,
            _ => false,
        };
        let numbers: Vec<u64> =
            self.calls.iter().filter(|(_, call)| flying(call)).map(|(number, _)| *number).collect();
        for number in numbers {
            let life = self.servers.get(&id).filter(|s| s.site.is_some()).map(|s| s.life);
            let Some(call) = self.calls.get_mut(&number) else { continue };
            let ServingStage::Flies { intake, flight } = &mut call.stage else { continue };
            let intake = *intake;
            if life != Some(intake.life) {
                call.stage = ServingStage::Waits;
                self.lost(number, intake)?;
            } else if let Some(answer) = flight.poll() {
                call.stage = ServingStage::Waits;
                self.landed(number, intake, answer)?;
            }
        }
        self.poll_own(id)
    }

    /// An intake has answered.
    fn landed(
        &mut self,
        number: u64,
        intake: IntakePoint,
        answer: CoreAnswer,
    ) -> Result<(), InvariantViolation> {
        let IntakePoint { server: id, .. } = intake;
        let held =
            self.servers.get(&id).and_then(|s| s.store.as_ref()).map_or(0, |s| s.position().0);
        self.note(82, number << 8 | id, || format!("call {number}: {id} answers {answer:?}"));
        // A server whose disk has failed ends, and says that it is at fault.
        let excused = self.servers.get(&id).is_some_and(|server| server.excused);
        if answer == CoreAnswer::Internal && !excused {
            let what = format!(
                "server {id} to call {number}: {:?}",
                self.calls.get(&number).map(|call| &call.why)
            );
            return Err(violated("no answer is an internal error")(what));
        }
        self.judge(number, &intake, &answer, held)?;
        let Some(call) = self.calls.get_mut(&number) else { return Ok(()) };
        let entry = call.entry.0;
        if entry == id {
            if answer == CoreAnswer::NotLeader {
                let again = std::mem::replace(&mut call.is_relayed, true);
                let after = if again { LOOK_PAUSE } else { Duration::ZERO };
                self.send_on(number, RequestWay::Step, after);
                return Ok(());
            }
            return self.hear(number, answer, held);
        }
        let lost = self.network.lost > 0 && self.dice.u64(..2000) < self.network.lost;
        if lost || !self.network.reaches(id, entry) {
            return self.lost(number, intake);
        }
        if let Some(call) = self.calls.get_mut(&number) {
            call.stage = ServingStage::Answered(Box::new(answer), held);
        }
        let after = self.network.delay(&mut self.dice);
        self.send_on(number, RequestWay::Back, after);
        Ok(())
    }

    /// The connection is gone on which an answer would have come.
    fn lost(&mut self, number: u64, intake: IntakePoint) -> Result<(), InvariantViolation> {
        let Some(call) = self.calls.get(&number) else { return Ok(()) };
        let reads = matches!(call.ask.operation, Operation::Read | Operation::List);
        if intake.server != call.entry.0 && reads {
            self.send_on(number, RequestWay::Step, LOOK_PAUSE);
            return Ok(());
        }
        self.hear(number, CoreAnswer::Unclear("the connection is gone".into()), 0)
    }

    /// An answer has come back to the server that was asked.
    fn come_back(&mut self, number: u64) -> Result<(), InvariantViolation> {
        let Some(call) = self.calls.get_mut(&number) else { return Ok(()) };
        let (entry, life) = call.entry;
        let ServingStage::Answered(answer, held) =
            std::mem::replace(&mut call.stage, ServingStage::Waits)
        else {
            return Ok(());
        };
        if self.servers.get(&entry).is_none_or(|s| s.life != life || s.site.is_none()) {
            return self.hear(number, CoreAnswer::Unclear("the connection is gone".into()), 0);
        }
        if *answer == CoreAnswer::NotLeader {
            self.send_on(number, RequestWay::Step, LOOK_PAUSE);
            return Ok(());
        }
        self.hear(number, *answer, held)
    }

    fn hear(
        &mut self,
        number: u64,
        answer: CoreAnswer,
        held: u64,
    ) -> Result<(), InvariantViolation> {
        match self.calls.remove(&number) {
            Some(call) => self.heard(call, &answer, held),
            None => Ok(()),
        }
    }

    /// Has a server's core run the jobs that are due, and opens its seal.
    pub(super) fn tick_core(&mut self, id: u64, life: u64) -> Result<(), InvariantViolation> {
        let now = self.now;
        let Some(server) = self.servers.get_mut(&id).filter(|server| server.life == life) else {
            return Ok(());
        };
        let paused = server.paused_until.saturating_sub(now);
        if paused > Duration::ZERO {
            self.schedule(paused, WorldEvent::Tick { server: id, life });
            return Ok(());
        }
        let (at, joined) = (server.wall.now(now), server.joined);
        let Some(site) = &mut server.site else { return Ok(()) };
        let core = site.core.clone();
        let sealed = core.is_sealed();
        if sealed && joined && site.opening.is_none() && !self.estate.keys.is_empty() {
            let body = serde_json::json!({ "key": self.estate.keys.first() });
            let ask = Ask::new(Operation::Update, "sys/unseal", "").with(&body);
            site.opening = Some(Flight::ask(core, ask, at));
        } else if !sealed && site.due_jobs.is_none() {
            site.due_jobs = Some(Flight::run_jobs(core, at));
            self.estate.latest = self.estate.latest.max(at);
        }
        self.schedule(TICK, WorldEvent::Tick { server: id, life });
        self.poll_own(id)?;
        self.look(id)
    }

    /// Looks what came of what a core does without being asked.
    fn poll_own(&mut self, id: u64) -> Result<(), InvariantViolation> {
        let Some(server) = self.servers.get_mut(&id) else { return Ok(()) };
        let excused = server.excused;
        let Some(site) = &mut server.site else { return Ok(()) };
        for (what, flight) in [("its jobs", &mut site.due_jobs), ("its seal", &mut site.opening)] {
            let Some(answer) = flight.as_mut().and_then(Flight::poll) else { continue };
            *flight = None;
            if answer == CoreAnswer::Internal && !excused {
                let what = format!("server {id} to {what}");
                return Err(violated("no answer is an internal error")(what));
            }
        }
        Ok(())
    }

    /// Begins the tasks that a server's core has started.
    pub(super) fn begin_tasks(&mut self, id: u64) -> Result<(), InvariantViolation> {
        let Some(site) = self.servers.get_mut(&id).and_then(|server| server.site.as_mut()) else {
            return Ok(());
        };
        for task in site.tasks.take() {
            let seed = self.dice.u64(..);
            let failed =
                |error: std::io::Error| violated("the simulation has threads")(error.to_string());
            let task = RunningTask::begin(task, seed).map_err(failed)?;
            let number = self.task_next;
            self.task_next += 1;
            let Some(server) = self.servers.get_mut(&id) else { return Ok(()) };
            let life = server.life;
            if let Some(site) = &mut server.site {
                site.running.push((number, task));
            }
            let after = Duration::from_micros(self.dice.u64(10..STARTS_WITHIN_MICROS));
            self.schedule(after, WorldEvent::Task { server: id, life, number });
        }
        Ok(())
    }

    /// A task goes on to its next pause.
    pub(super) fn run_task(
        &mut self,
        id: u64,
        life: u64,
        number: u64,
    ) -> Result<(), InvariantViolation> {
        let now = self.now;
        let Some(server) = self.servers.get_mut(&id).filter(|server| server.life == life) else {
            return Ok(());
        };
        let paused = server.paused_until.saturating_sub(now);
        if paused > Duration::ZERO {
            self.schedule(paused, WorldEvent::Task { server: id, life, number });
            return Ok(());
        }
        server.clock.follow(now);
        let Some(site) = &mut server.site else { return Ok(()) };
        let Some(place) = site.running.iter().position(|(own, _)| *own == number) else {
            return Ok(());
        };
        match site.running[place].1.go_on() {
            TaskStep::Pauses(duration) => {
                self.schedule(duration, WorldEvent::Task { server: id, life, number })
            }
            TaskStep::Ended => {
                site.running.remove(place);
            }
        }
        self.poll_calls(id)?;
        self.look(id)
    }
}
