//! A device over a sink that fails and hangs at a word.

use std::io::{self, ErrorKind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use super::*;
use crate::limits::{GROUP_BYTES, SPARE_ROOM_BYTES_MAX, SPARE_ROOMS_MAX};
use crate::options::DeviceOptions;
use crate::sink::{LineGroup, Sink};
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
    fn sink(&self, _: &DeviceSpec) -> Box<dyn Sink> {
        Box::new(SlowSink {
            turns: self.turns.lock().unwrap().take().unwrap(),
            kept: Arc::clone(&self.kept),
            writes: Arc::clone(&self.writes),
            entered: self.entered.clone(),
        })
    }
}

impl Sink for SlowSink {
    fn open(&mut self) -> io::Result<Option<ChainHead>> {
        Ok(None)
    }

    fn write(&mut self, group: &LineGroup<'_>) -> io::Result<()> {
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

fn spec_of(kind: &str, options: [(&str, &str); 2]) -> DeviceSpec {
    let options: DeviceOptions =
        options.into_iter().map(|(name, text)| (name.to_owned(), text.to_owned())).collect();
    DeviceSpec::parse(kind, &options).unwrap()
}

fn start(spec: DeviceSpec, destinations: &dyn Destinations) -> Device {
    let around = Surroundings { destinations, anchors: None, node: "n" };
    Device::start("d/", spec, &[1; SALT_BYTES], Origin::New, &around).unwrap()
}

fn bench(deadline: &str) -> Bench {
    let options = [("file_path", "discard"), ("write_timeout", deadline)];
    let (turn, turns) = sync_channel(64);
    let (told, entered) = sync_channel(1);
    let (kept, writes) = (Arc::default(), Arc::default());
    let slow = Slow {
        turns: Mutex::new(Some(turns)),
        kept: Arc::clone(&kept),
        writes: Arc::clone(&writes),
        entered: told,
    };
    let device = start(spec_of("file", options), &slow);
    Bench { device, turn, entered, kept, writes }
}

fn submit(device: &Device) -> Ticket {
    device.submit_test(&AuditSubject::default())
}

fn wait(ticket: Ticket) -> bool {
    pollster::block_on(ticket.written())
}

/// Waits until the device is tried again and takes a record, as it does by itself. A machine that does not run its writer for as long as the
/// deadline has it hang once more: then it is waited for again.
fn until_it_works(bench: &Bench) {
    loop {
        bench.device.reopen();
        let ticket = submit(&bench.device);
        if ticket.0.is_some() {
            bench.turn.send(Turn::Take).unwrap();
            if wait(ticket) {
                return;
            }
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

/// A waiter that rings when it is woken, and notes how many were woken by the time that it rang.
#[derive(Default)]
struct Waiters {
    woken: AtomicUsize,
    when_rung: Mutex<Vec<usize>>,
}

impl kallisto_wake::WakeUp for Waiters {
    fn ring(&self) {
        self.when_rung.lock().unwrap().push(self.woken.load(Ordering::SeqCst));
    }
}

impl std::task::Wake for Waiters {
    fn wake(self: Arc<Self>) {
        self.woken.fetch_add(1, Ordering::SeqCst);
        kallisto_wake::ring(self);
    }
}

#[test]
fn who_waited_for_one_group_is_woken_before_any_is_rung_for() {
    const MANY: usize = 8;
    let bench = bench("60s");
    let first = submit(&bench.device);
    bench.entered.recv().unwrap();
    let waiters = Arc::<Waiters>::default();
    let waker = std::task::Waker::from(Arc::clone(&waiters));
    let mut rest: Vec<_> = (0..MANY).map(|_| Box::pin(submit(&bench.device).written())).collect();
    for ticket in &mut rest {
        assert!(ticket.as_mut().poll(&mut std::task::Context::from_waker(&waker)).is_pending());
    }
    bench.turn.send(Turn::Take).unwrap();
    bench.turn.send(Turn::Take).unwrap();
    assert!(wait(first));
    while waiters.when_rung.lock().unwrap().len() < MANY {
        thread::yield_now();
    }
    assert_eq!(*waiters.when_rung.lock().unwrap(), [MANY; MANY]);
    assert!(rest.into_iter().all(pollster::block_on));
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
    let waiting: Vec<Ticket> = (0..QUEUE_JOBS_MAX).map(|_| submit(&bench.device)).collect();
    assert!(waiting.iter().all(|ticket| ticket.0.is_some()));
    assert!(submit(&bench.device).0.is_none());
    // In as many groups as it takes.
    let turn = bench.turn.clone();
    let taking = thread::spawn(move || while turn.send(Turn::Take).is_ok() {});
    assert!(wait(first));
    assert!(waiting.into_iter().all(wait));
    drop(bench);
    taking.join().unwrap();
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

#[test]
fn an_exchange_whose_answer_is_no_json_adds_nothing() {
    for (format, written) in [("json", 2), ("compact", 1)] {
        let options = [("file_path", "discard"), ("format", format)];
        let device = start(spec_of("file", options), &crate::sink::Real);
        assert_eq!(device.name(), "d/");
        let common = device.common(&AuditSubject::default()).unwrap();
        let mut records = FinishedRecords::default();
        let whole = common.whole();
        device.add_request(whole, "", &mut records);
        let before = records.bytes.clone();
        let answer = |data: &'static [u8]| AuditResponse { data, ..AuditResponse::default() };
        assert!(!device.add_response(&common, &answer(b"{\"a\":"), "", &mut records));
        assert!(!device.add_exchange(whole, "", (&answer(b"{\"a\":"), ""), &mut records));
        assert_eq!((records.len(), &records.bytes), (1, &before), "{format}");
        assert!(device.add_exchange(whole, "", (&answer(b"{\"a\":1}"), ""), &mut records));
        assert_eq!(records.len(), 1 + written, "{format}");
        assert!(device.add_response(&common, &answer(b"{}"), "", &mut records));
        assert_eq!(records.len(), 2 + written, "{format}");
        assert!(records.bytes.starts_with(&before));
    }
}

/// HMAC-SHA-256 under the salt of the device, as OpenSSL tells it.
#[test]
fn a_device_tells_the_mask_that_a_value_has_in_its_records() {
    let bench = bench("60s");
    let mask = bench.device.hash("value");
    let wanted = "hmac-sha256:afee5dd8c398923c19b7024fea5dc537618848cb86012adac6c305b27c19ffd4";
    assert_eq!(mask, wanted);
}

#[test]
fn who_waits_for_the_end_of_a_device_waits_as_long_as_that_was_said() {
    let Bench { device, turn, entered, .. } = bench("60s");
    let first = submit(&device);
    entered.recv().unwrap();
    let ending = device.ending();
    drop(device);
    let patience = Duration::from_millis(20);
    let begun = clock::monotonic();
    ending.wait(begun + patience);
    assert!(begun.elapsed() >= patience && !ending.0.lock().has_ended, "it is still written");
    turn.send(Turn::Take).unwrap();
    turn.send(Turn::Take).unwrap();
    ending.wait(clock::monotonic() + Duration::from_secs(60));
    assert!(ending.0.lock().has_ended && wait(first));
}

#[test]
fn many_bytes_that_wait_are_written_group_by_group_and_each_is_told() {
    let bench = bench("60s");
    let submit_half = |at: usize| {
        let body = format!("{{\"time\":\"{at}\",\"pad\":\"{}\"", "x".repeat(GROUP_BYTES * 3 / 5));
        let ends = vec![body.len()];
        bench.device.submit(FinishedRecords { bytes: body.into(), ends })
    };
    let first = submit(&bench.device);
    bench.entered.recv().unwrap();
    let [two, three, four] = [2, 3, 4].map(submit_half);
    let writes = || bench.writes.load(Ordering::SeqCst);
    bench.turn.send(Turn::Take).unwrap();
    assert!(wait(first) && writes() == 1);
    bench.turn.send(Turn::Take).unwrap();
    assert!(wait(two) && wait(three) && writes() == 2);
    // What comes behind a group that failed is refused with it.
    let five = submit_half(5);
    bench.turn.send(Turn::Fail).unwrap();
    assert!(!wait(four) && !wait(five) && writes() == 2);
    let mut verifier = Verifier::default();
    assert_eq!(verifier.take_file(&mut &bench.kept.lock().unwrap()[..]).unwrap(), 3);
}

#[test]
fn rooms_of_records_are_used_again_empty_and_never_those_that_hold_values_in_the_clear() {
    for (raw, kept) in [("false", true), ("true", false)] {
        let options = [("file_path", "discard"), ("log_raw", raw)];
        let device = start(spec_of("file", options), &crate::sink::Real);
        let mut records = device.new_records();
        assert_eq!(records.bytes.capacity(), 0);
        let whole = device.whole(&AuditSubject::default()).unwrap();
        device.add_request(&whole, "", &mut records);
        let place = records.bytes.as_ptr();
        assert!(wait(device.submit(records)));
        let next = device.new_records();
        assert!(next.is_empty() && next.bytes.is_empty());
        assert_eq!(
            next.bytes.as_ptr() == place && next.bytes.capacity() > 0,
            kept,
            "log_raw={raw}"
        );
        // No more and no larger ones than are allowed.
        let rooms = |bytes| (0..2 * SPARE_ROOMS_MAX).map(move |_| Vec::with_capacity(bytes));
        device.shared.keep_rooms(rooms(SPARE_ROOM_BYTES_MAX + 1));
        assert_eq!(device.new_records().bytes.capacity(), 0);
        device.shared.keep_rooms(rooms(16));
        let taken = (0..=SPARE_ROOMS_MAX).filter(|_| device.new_records().bytes.capacity() > 0);
        assert_eq!(taken.count(), SPARE_ROOMS_MAX);
        device.shared.keep_rooms(rooms(16));
        device.shared.drop_rooms();
        assert_eq!(device.new_records().bytes.capacity(), 0);
    }
}

#[test]
fn a_queue_takes_no_more_bytes_than_its_limit() {
    const BYTES: usize = 100;
    let bench = bench("60s");
    let queued = || bench.device.shared.lock().queued_bytes;
    let submit = || {
        let records = FinishedRecords { bytes: vec![b'x'; BYTES], ends: vec![BYTES] };
        bench.device.submit(records)
    };
    let first = submit();
    bench.entered.recv().unwrap();
    let mut waiting = vec![submit()];
    assert_eq!(queued(), BYTES);
    bench.device.shared.lock().queued_bytes = QUEUE_BYTES_MAX - BYTES;
    waiting.push(submit());
    assert!(waiting.iter().all(|ticket| ticket.0.is_some()));
    assert_eq!(queued(), QUEUE_BYTES_MAX);
    for over in [1, BYTES] {
        bench.device.shared.lock().queued_bytes = QUEUE_BYTES_MAX - BYTES + over;
        assert!(submit().0.is_none());
    }
    bench.turn.send(Turn::Take).unwrap();
    bench.turn.send(Turn::Take).unwrap();
    assert!(wait(first) && waiting.into_iter().all(wait));
}

#[test]
fn who_follows_a_device_is_rung_for_what_it_wrote() {
    let bench = bench("60s");
    let mut ring = bench.device.listen();
    assert!(!ring.has_changed().unwrap());
    bench.turn.send(Turn::Take).unwrap();
    assert!(wait(submit(&bench.device)));
    assert!(ring.has_changed().unwrap());
    ring.mark_unchanged();
    bench.turn.send(Turn::Fail).unwrap();
    assert!(!wait(submit(&bench.device)));
    assert!(!ring.has_changed().unwrap(), "nothing was written");
}

#[test]
fn a_device_that_works_again_signs_what_it_wrote_when_it_ends() {
    let bench = bench("60s");
    bench.turn.send(Turn::Fail).unwrap();
    assert!(!wait(submit(&bench.device)));
    until_it_works(&bench);
    let Bench { device, turn, kept, .. } = bench;
    let ending = device.ending();
    drop(device);
    turn.send(Turn::Take).unwrap();
    ending.wait(clock::monotonic() + Duration::from_secs(60));
    let kept = kept.lock().unwrap();
    let last = kept.split(|&byte| byte == b'\n').rfind(|line| !line.is_empty()).unwrap();
    assert!(crate::checkpoint::is_one(last), "{}", String::from_utf8_lossy(last));
}

/// Otherwise whoever writes large secrets keeps the device from everybody.
#[test]
fn a_record_that_is_too_long_for_the_destination_fails_alone() {
    let receiver = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = receiver.local_addr().unwrap().to_string();
    let options = [("address", address.as_str()), ("socket_type", "udp")];
    let device = start(spec_of("socket", options), &crate::sink::Real);
    let submit = |path: &str| {
        let mut subject = AuditSubject::default();
        subject.request.path = path;
        device.submit_test(&subject)
    };
    assert!(wait(submit("a")));
    let long = "x".repeat(crate::limits::DATAGRAM_BYTES_MAX);
    for _ in 0..3 {
        assert!(!wait(submit(&long)));
        assert_eq!(device.health(), Health::Working);
        assert!(wait(submit("b")));
    }
}
