//! The load itself: threads, each with its own connections, asking and counting.
//!
//! A [`LoadLane`] is a connection and what is on its way over it. In a closed loop a lane that was answered asks
//! again; in an open one the clock asks, and lanes with room take turns.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::RunClock;
use super::connection::{LoadConnection, READ_BYTES, Received};
use super::figures::LoadFigures;
use super::keys::KeyDraw;
use super::plan::{LoadKind, LoadPace, LoadPlan};
use super::poll::Poll;
use super::process::Observer;
use super::progress::LoadBar;
use super::protocol::{ReplyVerdict, RequestTemplates};
use super::target::LoadTarget;
use kallisto_command::error::Error;

/// Time for what is on its way to be answered when the load is over.
const DRAIN_MAX: Duration = Duration::from_secs(10);
/// Time for the keys of a run to be written.
pub(super) const EACH_ONCE_MAX: Duration = Duration::from_secs(900);
/// Connections of one thread that may be lost before it gives up.
const LOST_MAX: u32 = 1_000;
/// Longest wait for a socket; ends are looked for between two.
const WAIT_MAX: Duration = Duration::from_millis(50);
/// How close to its due time a request is waited for by looking at the clock: sleeping is not exact.
const SPIN_NS: u64 = 80_000;
/// Different ages of requests that were never sent: of more than these, neighbours count with the age of the oldest.
const UNSENT_AGES_MAX: u64 = 1_000_000;
/// Interval at which the server's memory is looked at and the progress bar moves.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// A request on its way.
#[derive(Clone, Copy)]
struct SentRequest {
    due_ns: u64,
    kind: LoadKind,
}

/// A connection and what is on its way over it.
#[derive(Default)]
struct LoadLane {
    connection: Option<LoadConnection>,
    in_flight: VecDeque<SentRequest>,
    /// The reply to the greeting has not come.
    greets: bool,
    /// In the queue of lanes with room.
    is_listed: bool,
}

/// What all threads of a run share.
struct RunShared<'a> {
    plan: &'a LoadPlan,
    target: &'a LoadTarget,
    templates: &'a RequestTemplates,
    watch: RunClock,
    /// The next key of [`LoadPace::EachOnce`].
    next_key: AtomicU64,
    answered: AtomicU64,
}

/// Runs the load. `pid` is the server's process, to see what it uses.
pub(super) fn run(
    plan: &LoadPlan,
    target: &LoadTarget,
    templates: &RequestTemplates,
    pid: Option<u32>,
    progress: &LoadBar,
) -> Result<LoadFigures, Error> {
    let watch = RunClock::start();
    let (next_key, answered) = (AtomicU64::new(0), AtomicU64::new(0));
    let shared = RunShared { plan, target, templates, watch, next_key, answered };
    let mut figures = LoadFigures::new();
    let mut observer = None;
    let outcome: io::Result<()> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..plan.threads)
            .map(|number| {
                let shared = &shared;
                scope.spawn(move || LoadWorker::new(shared, number)?.run())
            })
            .collect();
        while workers.iter().any(|worker| !worker.is_finished()) {
            std::thread::sleep(LOOK_INTERVAL);
            let now = Duration::from_nanos(watch.nanos());
            match &mut observer {
                None if now >= plan.warm_up => observer = pid.and_then(Observer::new),
                None => {}
                Some(observer) => observer.look(),
            }
            progress.show(plan, now, shared.answered.load(Ordering::Relaxed));
        }
        for worker in workers {
            let part = worker.join().map_err(|_| io::Error::other("a thread panicked"))??;
            figures.merge(&part);
        }
        Ok(())
    });
    progress.finish();
    outcome.map_err(|error| Error::unusable(format!("{}: {error}", target.authority)))?;
    figures.usage = observer.and_then(Observer::usage);
    Ok(figures)
}

/// One thread of a run.
struct LoadWorker<'a> {
    shared: &'a RunShared<'a>,
    poll: Poll,
    lanes: Vec<LoadLane>,
    keys: KeyDraw,
    figures: LoadFigures,
    scratch: Vec<u8>,
    /// Lanes that can take a request; used with [`LoadPace::Open`].
    with_room: VecDeque<usize>,
    /// When the next request is due, and the time between two; in nanoseconds.
    due_ns: f64,
    interval_ns: f64,
    measured_from_ns: u64,
    ends_ns: u64,
    last_reply_ns: u64,
    lost: u32,
    is_draining: bool,
}

impl<'a> LoadWorker<'a> {
    fn new(shared: &'a RunShared<'a>, number: u32) -> io::Result<Self> {
        let plan = shared.plan;
        let all = plan.connections.get();
        let lanes = all / plan.threads + u32::from(number < all % plan.threads);
        let threads = f64::from(plan.threads);
        let interval_ns = match plan.pace {
            LoadPace::Open { per_second } => 1e9 * threads / per_second,
            LoadPace::Closed | LoadPace::EachOnce => 0.0,
        };
        let (warm_up, duration) = match plan.pace {
            LoadPace::EachOnce => (Duration::ZERO, EACH_ONCE_MAX),
            _ => (plan.warm_up, plan.duration),
        };
        Ok(Self {
            shared,
            poll: Poll::new()?,
            lanes: (0..lanes).map(|_| LoadLane::default()).collect(),
            keys: KeyDraw::new(plan.draw, plan.keys, plan.seed.wrapping_add(u64::from(number))),
            figures: LoadFigures::new(),
            scratch: vec![0; READ_BYTES],
            with_room: VecDeque::new(),
            due_ns: interval_ns * f64::from(number) / threads,
            interval_ns,
            measured_from_ns: warm_up.as_nanos() as u64,
            ends_ns: (warm_up + duration).as_nanos() as u64,
            last_reply_ns: 0,
            lost: 0,
            is_draining: false,
        })
    }

    fn run(mut self) -> io::Result<LoadFigures> {
        for id in 0..self.lanes.len() {
            self.start(id)?;
        }
        let mut ready = Vec::new();
        loop {
            let now = self.shared.watch.nanos();
            // What was due in time is sent, though the end has come since the last look.
            self.ask_what_is_due(now.min(self.ends_ns.saturating_sub(1)))?;
            if now >= self.ends_ns || self.has_asked_each() {
                break;
            }
            self.turn_ready(self.pause(now), &mut ready)?;
        }
        self.is_draining = true;
        let give_up_ns = self.shared.watch.nanos() + DRAIN_MAX.as_nanos() as u64;
        while self.lanes.iter().any(|lane| !lane.in_flight.is_empty())
            && self.shared.watch.nanos() < give_up_ns
        {
            self.turn_ready(WAIT_MAX, &mut ready)?;
        }
        Ok(self.finish())
    }

    fn has_asked_each(&self) -> bool {
        self.shared.plan.pace == LoadPace::EachOnce
            && self.shared.next_key.load(Ordering::Relaxed) >= self.shared.plan.keys
    }

    /// How long to wait for a socket.
    fn pause(&self, now: u64) -> Duration {
        if !matches!(self.shared.plan.pace, LoadPace::Open { .. }) {
            return WAIT_MAX;
        }
        if self.with_room.is_empty() {
            // Nothing can be sent before a reply came.
            return WAIT_MAX;
        }
        let until_due = (self.due_ns as u64).saturating_sub(now + SPIN_NS);
        Duration::from_nanos(until_due).min(WAIT_MAX)
    }

    fn turn_ready(&mut self, longest: Duration, ready: &mut Vec<usize>) -> io::Result<()> {
        ready.clear();
        self.poll.wait(longest, ready)?;
        for &id in &*ready {
            if let Err(error) = self.turn(id) {
                self.lose(id, &error)?;
            }
        }
        Ok(())
    }

    /// Gives a lane its connection and, in a closed loop, its first requests.
    fn start(&mut self, id: usize) -> io::Result<()> {
        let now = self.shared.watch.nanos();
        if !self.shared.plan.reconnects {
            self.connect(id)?;
        }
        self.refill(id, now)?;
        self.list(id);
        let lane = &mut self.lanes[id];
        match &mut lane.connection {
            Some(connection) => connection.send(&self.poll),
            None => Ok(()),
        }
    }

    fn connect(&mut self, id: usize) -> io::Result<()> {
        let mut connection = LoadConnection::open(self.shared.target, &self.poll, id)?;
        let greeting = self.shared.templates.greeting();
        connection.output.extend_from_slice(greeting);
        let lane = &mut self.lanes[id];
        lane.greets = !greeting.is_empty();
        lane.connection = Some(connection);
        Ok(())
    }

    /// Fills a lane of a closed loop up.
    fn refill(&mut self, id: usize, now: u64) -> io::Result<()> {
        if self.is_draining || matches!(self.shared.plan.pace, LoadPace::Open { .. }) {
            return Ok(());
        }
        while self.lanes[id].in_flight.len() < self.shared.plan.depth as usize {
            let (kind, key) = match self.shared.plan.pace {
                LoadPace::EachOnce => {
                    // Counts; orders nothing.
                    let key = self.shared.next_key.fetch_add(1, Ordering::Relaxed);
                    if key >= self.shared.plan.keys {
                        return Ok(());
                    }
                    (LoadKind::Write, key)
                }
                _ => self.draw(),
            };
            self.ask(id, SentRequest { due_ns: now, kind }, key)?;
        }
        Ok(())
    }

    fn draw(&mut self) -> (LoadKind, u64) {
        let writes = self.keys.chance(self.shared.plan.write_percent);
        (if writes { LoadKind::Write } else { LoadKind::Read }, self.keys.next())
    }

    fn ask(&mut self, id: usize, sent: SentRequest, key: u64) -> io::Result<()> {
        if self.lanes[id].connection.is_none() {
            self.connect(id)?;
        }
        let lane = &mut self.lanes[id];
        if let Some(connection) = &mut lane.connection {
            self.shared.templates.ask(sent.kind, key, &mut connection.output);
            lane.in_flight.push_back(sent);
        }
        Ok(())
    }

    /// Puts a lane of an open loop into the queue if it can take a request.
    fn list(&mut self, id: usize) {
        let lane = &mut self.lanes[id];
        let has_room = lane.in_flight.len() < self.shared.plan.depth as usize;
        if matches!(self.shared.plan.pace, LoadPace::Open { .. }) && has_room && !lane.is_listed {
            lane.is_listed = true;
            self.with_room.push_back(id);
        }
    }

    /// Sends what the clock asks for, as far as lanes have room: the rest stays due.
    fn ask_what_is_due(&mut self, now: u64) -> io::Result<()> {
        if !matches!(self.shared.plan.pace, LoadPace::Open { .. }) {
            return Ok(());
        }
        while self.due_ns as u64 <= now {
            let Some(id) = self.with_room.pop_front() else { return Ok(()) };
            self.lanes[id].is_listed = false;
            let (kind, key) = self.draw();
            let sent = SentRequest { due_ns: self.due_ns as u64, kind };
            self.due_ns += self.interval_ns;
            let asked = self.ask(id, sent, key).and_then(|()| self.send(id));
            if let Err(error) = asked {
                self.lose(id, &error)?;
            }
            self.list(id);
        }
        Ok(())
    }

    fn send(&mut self, id: usize) -> io::Result<()> {
        match &mut self.lanes[id].connection {
            Some(connection) => connection.send(&self.poll),
            None => Ok(()),
        }
    }

    /// Reads what came for a lane, counts the replies in it and asks again.
    fn turn(&mut self, id: usize) -> io::Result<()> {
        let Some(connection) = &mut self.lanes[id].connection else { return Ok(()) };
        let received = connection.receive(&mut self.scratch)?;
        let now = self.shared.watch.nanos();
        let (count, closes) = self.take_replies(id, now)?;
        let lane = &mut self.lanes[id];
        let is_used_up = closes || (self.shared.plan.reconnects && count > 0);
        if received == Received::End || is_used_up {
            lane.connection = None;
            if !lane.in_flight.is_empty() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        if count > 0 {
            self.last_reply_ns = now;
            self.shared.answered.fetch_add(count, Ordering::Relaxed);
        }
        self.refill(id, now)?;
        self.list(id);
        self.send(id)
    }

    /// Counts what was answered. Says how many that were, and whether the server closes the connection now.
    fn take_replies(&mut self, id: usize, now: u64) -> io::Result<(u64, bool)> {
        let lane = &mut self.lanes[id];
        let Some(connection) = &mut lane.connection else { return Ok((0, false)) };
        let (mut used, mut count, mut closes) = (0, 0, false);
        while used < connection.input.len() {
            let reply = self.shared.templates.reply(&connection.input[used..]);
            let reply = reply.map_err(|_| io::Error::other("a reply cannot be read"))?;
            let Some(reply) = reply else { break };
            used += reply.bytes;
            closes |= reply.closes;
            if std::mem::take(&mut lane.greets) {
                if reply.verdict != ReplyVerdict::Good {
                    return Err(io::Error::other("the server refused the token"));
                }
                continue;
            }
            let Some(sent) = lane.in_flight.pop_front() else {
                return Err(io::Error::other("a reply that nobody asked for"));
            };
            count += 1;
            if sent.due_ns >= self.measured_from_ns {
                let took_ns = now.saturating_sub(sent.due_ns);
                self.figures.answered(sent.kind, took_ns, reply.verdict);
            }
        }
        connection.consume(used);
        Ok((count, closes))
    }

    /// Gives a lost lane a new connection; what was on its way is an error.
    fn lose(&mut self, id: usize, why: &io::Error) -> io::Result<()> {
        self.lost += 1;
        if self.lost > LOST_MAX {
            return Err(io::Error::other(format!("{LOST_MAX} connections lost, the last: {why}")));
        }
        let lane = &mut self.lanes[id];
        lane.connection = None;
        for sent in std::mem::take(&mut lane.in_flight) {
            self.figures.lost(sent.kind, &format!("lost: {why}"));
        }
        if self.is_draining { Ok(()) } else { self.start(id) }
    }

    /// Counts what was never answered, and what was due and never sent, with its age.
    fn finish(mut self) -> LoadFigures {
        let now = self.shared.watch.nanos();
        for lane in &mut self.lanes {
            for sent in std::mem::take(&mut lane.in_flight) {
                let age_ns = now.saturating_sub(sent.due_ns);
                self.figures.unanswered(sent.kind, age_ns, "unanswered at the end");
            }
        }
        self.count_unsent();
        let until_ns = match self.shared.plan.pace {
            LoadPace::EachOnce => self.last_reply_ns,
            // A server that falls silent is not asked for less time.
            LoadPace::Open { .. } | LoadPace::Closed => self.last_reply_ns.max(self.ends_ns),
        };
        let elapsed_ns = until_ns.saturating_sub(self.measured_from_ns);
        self.figures.elapsed = Duration::from_nanos(elapsed_ns);
        self.figures
    }

    fn count_unsent(&mut self) {
        let left_ns = self.ends_ns as f64 - self.due_ns;
        if self.interval_ns <= 0.0 || left_ns <= 0.0 {
            return;
        }
        let unsent = (left_ns / self.interval_ns).ceil() as u64;
        let together = unsent.div_ceil(UNSENT_AGES_MAX);
        let mut counted = 0;
        while counted < unsent {
            let count = together.min(unsent - counted);
            let age_ns = left_ns - self.interval_ns * counted as f64;
            self.figures.unsent(count, age_ns as u64);
            counted += count;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::num::NonZeroU32;

    use super::super::keys::Draw;
    use super::super::progress::WatchedBy;
    use super::super::protocol::TemplateParts;
    use super::super::target::{LoadProtocol, Sessions};
    use super::*;

    fn plan(pace: LoadPace, seconds: u64) -> LoadPlan {
        LoadPlan {
            pace,
            reconnects: false,
            threads: 1,
            connections: NonZeroU32::MIN,
            depth: 1,
            keys: 1,
            draw: Draw::Uniform,
            write_percent: 0,
            warm_up: Duration::from_secs(1),
            duration: Duration::from_secs(seconds),
            seed: 0,
        }
    }

    /// A server of HTTP that understands nothing: it answers 400 and closes. It ends with the process.
    fn refusing() -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let mut client = client.unwrap();
                // What came does not matter, nor whether the client is still there.
                let _ = client.read(&mut [0; 4096]);
                let reply =
                    "HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
                let _ = client.write_all(reply.as_bytes());
            }
        });
        address
    }

    #[test]
    fn what_a_server_refuses_before_it_closes_is_one_error_each() {
        for (scheme, why) in [("http", "status 400"), ("redis", "lost: a reply cannot be read")] {
            let address = refusing();
            let target = LoadTarget::parse(&format!("{scheme}://{address}"), None, Sessions::Fresh);
            let target = target.unwrap();
            let plan = LoadPlan { keys: 5, ..plan(LoadPace::EachOnce, 1) };
            let templates = RequestTemplates::new(&TemplateParts {
                protocol: target.protocol,
                authority: &address,
                pattern: "/{}",
                token: None,
                value_bytes: 1,
            });
            let progress = LoadBar::new(WatchedBy::ByNobody, "load", LoadBar::length(&plan));
            let figures = run(&plan, &target, &templates, None, &progress).unwrap();
            assert_eq!(figures.errors, [(why.to_owned(), 5)].into(), "{scheme}");
            assert_eq!((figures.good_total(), figures.writes.len()), (0, 0), "{scheme}");
        }
    }

    /// What a thread brings back that could send nothing.
    fn silent(pace: LoadPace, seconds: u64) -> LoadFigures {
        let plan = plan(pace, seconds);
        let target = LoadTarget::parse("http://127.0.0.1:1", None, Sessions::Fresh).unwrap();
        let parts = TemplateParts {
            protocol: LoadProtocol::Http,
            authority: "h",
            pattern: "/{}",
            token: None,
            value_bytes: 1,
        };
        let shared = RunShared {
            plan: &plan,
            target: &target,
            templates: &RequestTemplates::new(&parts),
            watch: RunClock::start(),
            next_key: AtomicU64::new(0),
            answered: AtomicU64::new(0),
        };
        LoadWorker::new(&shared, 0).unwrap().finish()
    }

    #[test]
    fn what_was_never_sent_is_counted_in_little_time_whatever_the_rate() {
        let few = silent(LoadPace::Open { per_second: 10.0 }, 9);
        assert_eq!(few.errors["not sent in time"], 100);
        assert_eq!(few.reads.len(), 100);
        assert!(few.reads.min() < 101_000_000 && few.reads.max() > 9_999_000_000);
        let many = silent(LoadPace::Open { per_second: 10_000_000.0 }, 3_600);
        assert_eq!(many.errors["not sent in time"], 36_010_000_000);
        assert!(silent(LoadPace::Closed, 9).errors.is_empty());
    }

    #[test]
    fn a_load_lasts_as_long_as_was_asked_for_though_nothing_is_answered() {
        assert_eq!(silent(LoadPace::Closed, 9).elapsed, Duration::from_secs(9));
    }
}
