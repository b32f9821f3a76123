//! One device: a queue, the thread that writes it, and the one that watches that thread.
//!
//! ```text
//! requests --bodies--> queue --all that wait--> writer: link each, one write --> tickets
//!                                    watchdog: past the deadline, every ticket fails
//! ```
//! A request hands in finished, masked bodies and waits for its [`Ticket`]; the writer takes all that
//! came meanwhile, links them into the chain and writes them at once, so that auditing never makes
//! requests wait for each other. Text in the clear never enters the queue.
//!
//! Invariants:
//! - A ticket says yes only after the sink took the whole group.
//! - The chain goes forward by what the sink took, and by nothing else.
//! - A device that failed, or hangs past its deadline, refuses at once until it works again: it costs
//!   its deadline to those who were waiting and nothing to those who come later.
//! - The queue is bounded in records and bytes.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use crate::chain::Head;
use crate::clock;
use crate::limits::{QUEUE_BYTES_MAX, QUEUE_RECORDS_MAX, RETRY_MAX, RETRY_MIN};
use crate::mask::{Masker, SALT_BYTES};
use crate::options::Spec;
use crate::record::{Common, Kind, Response, Subject, Writer};
use crate::sink::{Destinations, Group, Sink};

/// The watchdog looks this many times within a deadline.
const LOOKS_PER_DEADLINE: u32 = 8;

/// A device at work. Dropping it lets the writer finish what waits, and ends it.
pub struct Device {
    name: String,
    spec: Spec,
    masker: Masker,
    shared: Arc<Shared>,
}

/// Finished records of one request, ready to be handed in.
#[derive(Default)]
pub struct Records {
    bodies: Vec<Vec<u8>>,
}

/// What a request waits on.
pub struct Ticket(Option<oneshot::Receiver<bool>>);

/// How a device is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health {
    /// It takes records.
    Working,
    /// It failed; why. It is tried again.
    Failed(String),
    /// A write has not come back within its deadline.
    Hanging,
}

struct Shared {
    state: Mutex<State>,
    /// The writer waits here for work.
    work: Condvar,
    /// The watchdog waits here for the end.
    ended: Condvar,
}

struct State {
    queue: VecDeque<Job>,
    queued_bytes: usize,
    /// Who waits for the group that is being written.
    in_flight: Vec<oneshot::Sender<bool>>,
    /// When the sink was called.
    busy_since: Option<Instant>,
    mode: Mode,
    reopen: bool,
    closing: bool,
    head: Head,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Mode {
    Working,
    Failed { why: String, retry_at: Instant },
    Hanging,
}

struct Job {
    bodies: Vec<Vec<u8>>,
    done: oneshot::Sender<bool>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Fails everybody who waits.
    fn refuse_all(&mut self) {
        let waiting = self.queue.drain(..).map(|job| job.done);
        for done in waiting.chain(self.in_flight.drain(..)) {
            // Who has gone away needs no answer.
            let _ = done.send(false);
        }
        self.queued_bytes = 0;
    }
}

impl Ticket {
    /// Waits until the records are written. False when they are not, or not in time.
    pub async fn written(self) -> bool {
        match self.0 {
            Some(told) => told.await.unwrap_or(false),
            None => false,
        }
    }
}

impl Device {
    /// Starts a device.
    ///
    /// # Errors
    /// What the operating system says when it gives no threads.
    pub fn start(
        name: &str,
        spec: Spec,
        salt: &[u8; SALT_BYTES],
        destinations: &dyn Destinations,
    ) -> std::io::Result<Self> {
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                queue: VecDeque::new(),
                queued_bytes: 0,
                in_flight: Vec::new(),
                busy_since: None,
                mode: Mode::Working,
                reopen: false,
                closing: false,
                head: Head::default(),
            }),
            work: Condvar::new(),
            ended: Condvar::new(),
        });
        let masker = Masker::new(salt, spec.secrecy);
        let device = Self { name: name.to_owned(), masker, shared, spec };
        let writer = WriterThread {
            name: device.name.clone(),
            shared: Arc::clone(&device.shared),
            sink: destinations.sink(&device.spec),
            chain: None,
            buffer: Vec::new(),
            retry: RETRY_MIN,
            is_failing: false,
        };
        thread::Builder::new().name("audit".into()).spawn(move || writer.run())?;
        let (watched, deadline) = (Arc::clone(&device.shared), device.spec.deadline);
        let name = device.name.clone();
        thread::Builder::new()
            .name("audit-watch".into())
            .spawn(move || watch(&name, &watched, deadline))?;
        Ok(device)
    }

    /// The path it was enabled at.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it was asked to be.
    pub const fn spec(&self) -> &Spec {
        &self.spec
    }

    /// The mask that a value has in its records.
    pub fn hash(&self, value: &str) -> String {
        self.masker.hash(value)
    }

    /// The last record that it wrote.
    pub fn head(&self) -> Head {
        self.shared.lock().head
    }

    /// How it is.
    pub fn health(&self) -> Health {
        match &self.shared.lock().mode {
            Mode::Working => Health::Working,
            Mode::Failed { why, .. } => Health::Failed(why.clone()),
            Mode::Hanging => Health::Hanging,
        }
    }

    /// What both records of a request say. `None` when its data is no JSON, which fails the request
    /// at this device.
    pub fn common(&self, subject: &Subject<'_>) -> Option<Common> {
        self.records().common(subject).ok()
    }

    /// Adds the record that a request begins.
    pub fn add_request(&self, common: &Common, error: &str, records: &mut Records) {
        let body = self.records().body(Kind::Request, clock::now(), common, None, error);
        // A request has been through `common`; without a response nothing is left to fail.
        records.bodies.extend(body.ok());
    }

    /// Adds the record that a request ends. False when the response's data is no JSON.
    pub fn add_response(
        &self,
        common: &Common,
        response: &Response<'_>,
        error: &str,
        records: &mut Records,
    ) -> bool {
        let body = self.records().body(Kind::Response, clock::now(), common, Some(response), error);
        let is_sound = body.is_ok();
        records.bodies.extend(body.ok());
        is_sound
    }

    /// Hands records in, which are written together and in order.
    pub fn submit(&self, records: Records) -> Ticket {
        let bytes: usize = records.bodies.iter().map(Vec::len).sum();
        let (done, told) = oneshot::channel();
        let mut state = self.shared.lock();
        let full = state.queue.len() >= QUEUE_RECORDS_MAX
            || state.queued_bytes.saturating_add(bytes) > QUEUE_BYTES_MAX;
        if full || state.closing || state.mode != Mode::Working {
            return Ticket(None);
        }
        let idle = state.queue.is_empty() && state.busy_since.is_none();
        state.queued_bytes += bytes;
        state.queue.push_back(Job { bodies: records.bodies, done });
        drop(state);
        if idle {
            self.shared.work.notify_one();
        }
        Ticket(Some(told))
    }

    /// Opens the destination anew before the next group, and at once if the device had failed.
    pub fn reopen(&self) {
        self.shared.lock().reopen = true;
        self.shared.work.notify_one();
    }

    fn records(&self) -> Writer<'_> {
        Writer { masker: &self.masker, form: &self.spec.form }
    }

    /// A record that is no request's, for finding out whether the device works.
    pub fn submit_test(&self, subject: &Subject<'_>) -> Ticket {
        let mut records = Records::default();
        match self.common(subject) {
            Some(common) => self.add_request(&common, "", &mut records),
            None => return Ticket(None),
        }
        self.submit(records)
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        self.shared.lock().closing = true;
        self.shared.work.notify_one();
        self.shared.ended.notify_one();
    }
}

/// The thread that calls the sink.
struct WriterThread {
    name: String,
    shared: Arc<Shared>,
    sink: Box<dyn Sink>,
    /// The last record written; `None` until the destination was first opened.
    chain: Option<Head>,
    buffer: Vec<u8>,
    retry: Duration,
    /// Whether nothing was written since it failed: opening alone proves little on a full disk.
    is_failing: bool,
}

/// What the writer does next.
enum Step {
    Open,
    Write(Vec<Vec<u8>>),
    End,
}

impl WriterThread {
    fn run(mut self) {
        loop {
            let outcome = match self.next() {
                Step::End => return,
                Step::Open => self.open(),
                Step::Write(bodies) => self.write(&bodies),
            };
            self.settle(outcome);
        }
    }

    /// Waits for something to do, and marks the sink as busy with it.
    fn next(&self) -> Step {
        let mut state = self.shared.lock();
        loop {
            let now = clock::monotonic();
            let due = match &state.mode {
                Mode::Failed { retry_at, .. } => *retry_at <= now,
                Mode::Working | Mode::Hanging => false,
            };
            if state.closing && state.queue.is_empty() {
                return Step::End;
            }
            if due || state.reopen || self.chain.is_none() && state.mode == Mode::Working {
                state.reopen = false;
                state.busy_since = Some(now);
                return Step::Open;
            }
            if !state.queue.is_empty() {
                state.busy_since = Some(now);
                state.queued_bytes = 0;
                let mut bodies = Vec::with_capacity(state.queue.len());
                while let Some(job) = state.queue.pop_front() {
                    bodies.extend(job.bodies);
                    state.in_flight.push(job.done);
                }
                return Step::Write(bodies);
            }
            let wait = match &state.mode {
                Mode::Failed { retry_at, .. } => retry_at.saturating_duration_since(now),
                Mode::Working | Mode::Hanging => RETRY_MAX,
            };
            let woken = self.shared.work.wait_timeout(state, wait);
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn open(&mut self) -> std::io::Result<()> {
        let found = self.sink.open()?;
        match (self.chain, found) {
            (None, found) => {
                let head = found.unwrap_or_default();
                self.chain = Some(head);
                self.shared.lock().head = head;
            }
            (Some(head), Some(found)) if found != head => {
                tracing::error!(
                    device = self.name,
                    "the audit file ends with a record that is not the last one written"
                );
            }
            _ => {}
        }
        Ok(())
    }

    fn write(&mut self, bodies: &[Vec<u8>]) -> std::io::Result<()> {
        let mut head = self.chain.unwrap_or_default();
        let mut ends = Vec::with_capacity(bodies.len());
        self.buffer.clear();
        for body in bodies {
            let start = self.buffer.len();
            self.buffer.extend_from_slice(body);
            head = head.link(start, &mut self.buffer);
            ends.push(self.buffer.len());
        }
        self.sink.write(&Group { bytes: &self.buffer, ends: &ends })?;
        self.chain = Some(head);
        self.shared.lock().head = head;
        self.recovered();
        // One huge group must not hold its memory for ever.
        self.buffer.shrink_to(1 << 20);
        Ok(())
    }

    /// Takes note of a group that was written.
    fn recovered(&mut self) {
        if std::mem::take(&mut self.is_failing) {
            tracing::info!(device = self.name, "the audit device works again");
        }
        self.retry = RETRY_MIN;
    }

    /// Tells those who waited, and what the device is now.
    fn settle(&mut self, outcome: std::io::Result<()>) {
        let mut state = self.shared.lock();
        state.busy_since = None;
        match outcome {
            Ok(()) => {
                state.mode = Mode::Working;
                let told = std::mem::take(&mut state.in_flight);
                drop(state);
                for done in told {
                    let _ = done.send(true);
                }
            }
            Err(error) => {
                if !std::mem::replace(&mut self.is_failing, true) {
                    tracing::error!(device = self.name, %error, "an audit device failed");
                }
                let retry_at = clock::monotonic() + self.retry;
                self.retry = (self.retry * 2).min(RETRY_MAX);
                state.mode = Mode::Failed { why: error.to_string(), retry_at };
                state.refuse_all();
            }
        }
    }
}

/// Fails everybody who waits for a sink that does not come back.
fn watch(name: &str, shared: &Shared, deadline: Duration) {
    let mut state = shared.lock();
    while !state.closing {
        let late = state.busy_since.is_some_and(|since| clock::monotonic() - since >= deadline);
        if late && state.mode != Mode::Hanging {
            tracing::error!(device = name, "an audit device hangs");
            state.mode = Mode::Hanging;
            state.refuse_all();
        }
        let woken = shared.ended.wait_timeout(state, deadline / LOOKS_PER_DEADLINE);
        state = woken.unwrap_or_else(PoisonError::into_inner).0;
    }
    // The writer may hang for ever; nobody waits for it.
    if state.busy_since.is_some() && state.mode == Mode::Hanging {
        state.refuse_all();
    }
}

#[cfg(test)]
mod tests {
    use std::io::{self, ErrorKind};
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

    use super::*;
    use crate::options::Options;
    use crate::verify::Verifier;

    /// What the test's destination does with the next group.
    enum Turn {
        Take,
        Fail,
    }

    /// A destination that waits for a turn before every group, and keeps what it took.
    struct Slow {
        turns: Mutex<Option<Receiver<Turn>>>,
        kept: Arc<Mutex<Vec<u8>>>,
        writes: Arc<AtomicUsize>,
        entered: SyncSender<()>,
    }

    struct SlowSink {
        turns: Receiver<Turn>,
        kept: Arc<Mutex<Vec<u8>>>,
        writes: Arc<AtomicUsize>,
        entered: SyncSender<()>,
    }

    impl Destinations for Slow {
        fn sink(&self, _: &Spec) -> Box<dyn Sink> {
            Box::new(SlowSink {
                turns: self.turns.lock().unwrap().take().unwrap(),
                kept: Arc::clone(&self.kept),
                writes: Arc::clone(&self.writes),
                entered: self.entered.clone(),
            })
        }
    }

    impl Sink for SlowSink {
        fn open(&mut self) -> io::Result<Option<Head>> {
            Ok(None)
        }

        fn write(&mut self, group: &Group<'_>) -> io::Result<()> {
            let _ = self.entered.try_send(());
            match self.turns.recv() {
                Ok(Turn::Take) => {
                    self.writes.fetch_add(1, Ordering::SeqCst);
                    self.kept.lock().unwrap().extend_from_slice(group.bytes);
                    Ok(())
                }
                Ok(Turn::Fail) => Err(ErrorKind::StorageFull.into()),
                Err(_) => Err(ErrorKind::BrokenPipe.into()),
            }
        }
    }

    struct Bench {
        device: Device,
        turn: SyncSender<Turn>,
        entered: Receiver<()>,
        kept: Arc<Mutex<Vec<u8>>>,
        writes: Arc<AtomicUsize>,
    }

    fn bench(deadline: &str) -> Bench {
        let options = [("file_path", "discard"), ("write_timeout", deadline)];
        let options: Options =
            options.into_iter().map(|(name, text)| (name.to_owned(), text.to_owned())).collect();
        let (turn, turns) = sync_channel(64);
        let (told, entered) = sync_channel(1);
        let (kept, writes) = (Arc::default(), Arc::default());
        let slow = Slow {
            turns: Mutex::new(Some(turns)),
            kept: Arc::clone(&kept),
            writes: Arc::clone(&writes),
            entered: told,
        };
        let spec = Spec::parse("file", &options).unwrap();
        let device = Device::start("d/", spec, &[1; SALT_BYTES], &slow).unwrap();
        Bench { device, turn, entered, kept, writes }
    }

    fn submit(device: &Device) -> Ticket {
        device.submit_test(&Subject::default())
    }

    fn wait(ticket: Ticket) -> bool {
        pollster::block_on(ticket.written())
    }

    /// Waits until the device is tried again and takes a record, as it does by itself.
    fn until_it_works(bench: &Bench) {
        loop {
            bench.device.reopen();
            let ticket = submit(&bench.device);
            if ticket.0.is_some() {
                bench.turn.send(Turn::Take).unwrap();
                assert!(wait(ticket));
                return;
            }
            thread::yield_now();
        }
    }

    #[test]
    fn what_waits_is_written_together_and_in_order() {
        let bench = bench("60s");
        let first = submit(&bench.device);
        bench.entered.recv().unwrap();
        let rest: Vec<Ticket> = (0..50).map(|_| submit(&bench.device)).collect();
        bench.turn.send(Turn::Take).unwrap();
        bench.turn.send(Turn::Take).unwrap();
        assert!(wait(first));
        assert!(rest.into_iter().all(wait));
        assert_eq!(bench.writes.load(Ordering::SeqCst), 2);
        let mut verifier = Verifier::default();
        assert_eq!(verifier.take_file(&mut &bench.kept.lock().unwrap()[..]).unwrap(), 51);
        assert_eq!(verifier.verified().unwrap().head, bench.device.head());
    }

    #[test]
    fn a_failed_group_refuses_those_who_waited_and_leaves_the_chain_whole() {
        let bench = bench("60s");
        bench.turn.send(Turn::Take).unwrap();
        assert!(wait(submit(&bench.device)));
        bench.turn.send(Turn::Fail).unwrap();
        assert!(!wait(submit(&bench.device)));
        let Health::Failed(why) = bench.device.health() else { panic!("it works") };
        assert!(why.contains("no storage space"), "{why}");
        assert!(submit(&bench.device).0.is_none(), "refused without waiting");
        until_it_works(&bench);
        assert_eq!(bench.device.health(), Health::Working);
        let mut verifier = Verifier::default();
        assert_eq!(verifier.take_file(&mut &bench.kept.lock().unwrap()[..]).unwrap(), 2);
    }

    #[test]
    fn a_hanging_destination_costs_its_deadline_and_nothing_more() {
        let bench = bench("50ms");
        let begun = clock::monotonic();
        let (first, second) = (submit(&bench.device), submit(&bench.device));
        assert!(!wait(first));
        assert!(!wait(second));
        assert!(begun.elapsed() >= Duration::from_millis(50));
        assert_eq!(bench.device.health(), Health::Hanging);
        assert!(submit(&bench.device).0.is_none(), "refused without waiting");
        // The write comes back after all: the device works again, its chain whole.
        bench.turn.send(Turn::Take).unwrap();
        bench.turn.send(Turn::Take).unwrap();
        while bench.device.health() == Health::Hanging {
            thread::yield_now();
        }
        until_it_works(&bench);
        let mut verifier = Verifier::default();
        verifier.take_file(&mut &bench.kept.lock().unwrap()[..]).unwrap();
        assert_eq!(verifier.verified().unwrap().head, bench.device.head());
    }

    #[test]
    fn a_full_queue_refuses() {
        let bench = bench("60s");
        let first = submit(&bench.device);
        bench.entered.recv().unwrap();
        let waiting: Vec<Ticket> = (0..QUEUE_RECORDS_MAX).map(|_| submit(&bench.device)).collect();
        assert!(waiting.iter().all(|ticket| ticket.0.is_some()));
        assert!(submit(&bench.device).0.is_none());
        bench.turn.send(Turn::Take).unwrap();
        bench.turn.send(Turn::Take).unwrap();
        assert!(wait(first));
        assert!(waiting.into_iter().all(wait));
    }

    #[test]
    fn dropping_a_device_writes_what_waits() {
        let Bench { device, turn, entered, kept, .. } = bench("60s");
        let first = submit(&device);
        entered.recv().unwrap();
        let second = submit(&device);
        drop(device);
        turn.send(Turn::Take).unwrap();
        turn.send(Turn::Take).unwrap();
        assert!(wait(first) && wait(second));
        assert_eq!(Verifier::default().take_file(&mut &kept.lock().unwrap()[..]).unwrap(), 2);
    }
}
