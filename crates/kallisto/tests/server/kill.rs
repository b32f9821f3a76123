//! SIGKILL at any moment, under writers: what was acknowledged is there after the restart.
//!
//! A *lane* is one server on one directory and some writers; a *cycle* starts the server, unseals
//! it, checks everything the writers know, lets them write, and kills it. Some cycles kill while it
//! starts, while it is being unsealed, or while old records move under a new key; a few stop it by
//! SIGTERM, so that the engine's files take part.
//!
//! Each writer owns a ring of paths and knows of each what was acknowledged and what may have
//! happened besides: the one request that was under way when the server died. Each write carries a
//! number of its own, so a lost write, an undone delete and a write from elsewhere all show. A part of the writers
//! speaks the Redis protocol and has many writes under way at once, which the server commits together, with those of others.
//!
//! Batch mode is held to the same: a killed process loses nothing that it has given to the system.
//! What a power cut may take is tested in `kallisto-store`.
//!
//! `KALLISTO_KILL_CYCLES` makes the loops longer, `KALLISTO_KILL_SEED` draws the same moments again,
//! and `KALLISTO_LEDGER` names a file that gets a line per run. The runs that count are in
//! `tests/LEDGER.md`: `cargo test --release -p kallisto --test server kill`. `cargo x campaign kills` goes on with other seeds.

use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use kallisto_campaign::CampaignPart;
use rustix::process::Signal;

use crate::support::{Client, Directory, Keys, Reply, Server, share_of};

/// Cycles of both tests together, unless somebody wants more: what takes less than 100 s on two busy
/// cores. A server that is not optimised takes ten times as long for a cycle.
const CYCLES: u64 = if cfg!(debug_assertions) { 30 } else { 300 };
/// Cycles and lanes of a seed of a campaign.
const CAMPAIGN_CYCLES: u64 = 40;
const CAMPAIGN_LANES: u64 = 2;
/// Writers of a lane.
const WRITERS: usize = 6;
/// Writers of a lane besides, by the Redis protocol.
const PIPELINES: usize = 3;
/// Most writes that one of these has under way at once.
const PIPELINED_MAX: u64 = 20;
/// Paths of a writer, in each of its two mounts.
const RING: usize = 24;
/// Longest that writers write in a cycle.
const WRITING_MS_MAX: u64 = 120;
/// Bytes of a long value, so that the logs grow and rotate.
const LONG_BYTES: usize = 20_000;

/// What a path holds: nothing, or the value of this number.
type Held = Option<u64>;

/// What is known of one path.
#[derive(Clone, Copy, Default)]
struct Known {
    acknowledged: Held,
    /// What the request left that nobody answered.
    maybe: Option<Held>,
    /// Versions that were acknowledged, where there are versions.
    versions: u64,
}

/// One writer: what it knows, and the number of its next write.
struct Writer {
    number: u64,
    name: usize,
    v1: [Known; RING],
    v2: [Known; RING],
}

/// What a lane did.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    cycles: u64,
    acknowledged: u64,
    checked: u64,
    /// Requests without an answer, and those of them that had happened.
    unanswered: u64,
    happened: u64,
}

/// How a cycle ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ending {
    Starting,
    Unsealing,
    Writing,
    Rotating,
    Stopped,
}

impl Ending {
    const fn of(cycle: u64) -> Self {
        match cycle % 25 {
            4 | 15 => Self::Starting,
            7 | 12 | 19 => Self::Unsealing,
            9 | 22 => Self::Rotating,
            24 => Self::Stopped,
            _ => Self::Writing,
        }
    }
}

/// A writer by the Redis protocol: what it knows, and the number of its next write.
struct Pipeline {
    number: u64,
    name: usize,
    known: [Known; RING],
}

impl Pipeline {
    fn new(name: usize) -> Self {
        Self { number: 0, name, known: Default::default() }
    }

    fn key(&self, place: usize) -> String {
        format!("p{}/{place}", self.name)
    }

    /// Writes until the server is gone; returns how many writes were acknowledged.
    fn write(&mut self, socket: &Path, root: &str) -> u64 {
        let mut acknowledged = 0;
        let Ok(stream) = UnixStream::connect(socket) else { return 0 };
        let mut replies = BufReader::new(stream);
        let mut reply = |sent: Option<&[u8]>| {
            if let Some(sent) = sent {
                replies.get_mut().write_all(sent).ok()?;
            }
            let mut line = String::new();
            replies.read_line(&mut line).ok()?;
            // A line that was cut off says nothing.
            line.ends_with("\r\n").then_some(line)
        };
        if reply(Some(&spelled(&["AUTH", root]))).is_none() {
            return 0;
        }
        loop {
            let count = 1 + self.number % PIPELINED_MAX;
            let mut sent = Vec::new();
            let mut places = Vec::new();
            for _ in 0..count {
                self.number += 1;
                let place = usize::try_from(self.number).unwrap() % RING;
                self.known[place].maybe = Some(Some(self.number));
                sent.extend(spelled(&["SET", &self.key(place), &self.number.to_string()]));
                places.push(place);
            }
            let mut sent = Some(&sent[..]);
            for place in places {
                let Some(line) = reply(sent.take()) else { return acknowledged };
                assert_eq!(line, "+OK\r\n");
                let known = &mut self.known[place];
                known.acknowledged = known.maybe.take().unwrap();
                known.versions += 1;
                acknowledged += 1;
            }
        }
    }

    /// As [`Writer::check`].
    fn check(&mut self, client: &mut Client, counts: &mut Counts) {
        for place in 0..RING {
            let path = format!("two/data/{}", self.key(place));
            let reply = client.get(&path);
            let found = held(&reply, "data.data.value", &path);
            let known = &mut self.known[place];
            known.versions += u64::from(known.compare(found, &path, counts));
            let version = reply.at("data.metadata.version").parse().unwrap_or(0);
            assert_eq!(version, known.versions, "versions of {path}");
        }
    }
}

/// A command of the Redis protocol.
fn spelled(words: &[&str]) -> Vec<u8> {
    let words = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len()));
    let count = words.len();
    [format!("*{count}\r\n")].into_iter().chain(words).collect::<String>().into_bytes()
}

/// Who writes in a lane.
struct Writers {
    single: Vec<Writer>,
    pipelines: Vec<Pipeline>,
}

impl Writers {
    fn new() -> Self {
        Self {
            single: (0..WRITERS).map(Writer::new).collect(),
            pipelines: (0..PIPELINES).map(Pipeline::new).collect(),
        }
    }
}

impl Writer {
    fn new(name: usize) -> Self {
        Self { number: 0, name, v1: Default::default(), v2: Default::default() }
    }

    /// Writes until the server is gone; returns how many writes were acknowledged.
    fn write(&mut self, address: SocketAddr, root: &str) -> u64 {
        let mut client = Client::new(address, root);
        let mut acknowledged = 0;
        loop {
            self.number += 1;
            let place = usize::try_from(self.number).unwrap() / 2 % RING;
            let done = match self.number % 2 {
                0 => self.write_v1(&mut client, place),
                _ => self.write_v2(&mut client, place),
            };
            if !done {
                return acknowledged;
            }
            acknowledged += 1;
        }
    }

    fn write_v1(&mut self, client: &mut Client, place: usize) -> bool {
        let path = format!("one/w{}/{place}", self.name);
        // A delete now and then: one that is undone must show.
        let held = (self.number % 10 != 6).then_some(self.number);
        let known = &mut self.v1[place];
        known.maybe = Some(held);
        let reply = match held {
            Some(number) => client.try_send("PUT", &path, &value(number)),
            None => client.try_send("DELETE", &path, ""),
        };
        known.settle(reply.map(|reply| reply.good().status == 204))
    }

    fn write_v2(&mut self, client: &mut Client, place: usize) -> bool {
        let path = format!("two/data/w{}/{place}", self.name);
        let known = &mut self.v2[place];
        known.maybe = Some(Some(self.number));
        let body = format!(r#"{{"data":{}}}"#, value(self.number));
        let reply = client.try_send("PUT", &path, &body).map(|reply| {
            let version = reply.good().at("data.version");
            assert_eq!(version, (known.versions + 1).to_string(), "{path}");
            true
        });
        let done = known.settle(reply);
        known.versions += u64::from(done);
        done
    }

    /// Reads every path and compares; from then on the server's word is what is known.
    fn check(&mut self, client: &mut Client, counts: &mut Counts) {
        for place in 0..RING {
            let path = format!("one/w{}/{place}", self.name);
            let reply = client.get(&path);
            let found = held(&reply, "data.number", &path);
            self.v1[place].compare(found, &path, counts);

            let path = format!("two/data/w{}/{place}", self.name);
            let reply = client.get(&path);
            let found = held(&reply, "data.data.number", &path);
            let known = &mut self.v2[place];
            known.versions += u64::from(known.compare(found, &path, counts));
            let version = reply.at("data.metadata.version").parse().unwrap_or(0);
            assert_eq!(version, known.versions, "versions of {path}");
        }
    }
}

impl Known {
    /// Takes in what came back: an answer settles the write, none leaves it open.
    fn settle(&mut self, reply: std::io::Result<bool>) -> bool {
        let done = reply.unwrap_or(false);
        if done {
            self.acknowledged = self.maybe.take().unwrap();
        }
        done
    }

    /// Holds what was found against what is known; whether the open request had happened.
    fn compare(&mut self, found: Held, path: &str, counts: &mut Counts) -> bool {
        counts.checked += 1;
        let open = self.maybe.take();
        counts.unanswered += u64::from(open.is_some());
        let happened = found != self.acknowledged && open == Some(found);
        assert!(
            happened || found == self.acknowledged,
            "{path} holds {found:?}; acknowledged was {:?}, perhaps {open:?}",
            self.acknowledged
        );
        counts.happened += u64::from(happened);
        self.acknowledged = found;
        happened
    }
}

fn held(reply: &Reply, number: &str, path: &str) -> Held {
    match reply.status {
        200 => Some(reply.at(number).parse().unwrap()),
        404 => None,
        status => panic!("{path}: {status} {}", reply.body),
    }
}

/// The value of a number: mostly short, sometimes long.
fn value(number: u64) -> String {
    let long = if number % 40 == 1 { LONG_BYTES } else { 8 };
    format!(r#"{{"number":{number},"filler":"{}"}}"#, "x".repeat(long))
}

/// One lane, from an empty directory through `cycles` kills and a last check.
fn lane(name: &str, durability: &str, cycles: u64, seed: u64) -> Counts {
    let directory = Directory::new(name);
    let socket = directory.join("resp");
    let config = directory.config(&format!(
        "durability = \"{durability}\"\n\
         listener \"resp\" {{\n  path = \"{}\"\n  mounts = [\"two\"]\n}}",
        socket.display()
    ));
    let mut dice = fastrand::Rng::with_seed(seed);
    let keys = prepare(&directory, &config);
    let mut writers = Writers::new();
    let mut counts = Counts::default();
    for cycle in 0..cycles {
        run_cycle(
            Ending::of(cycle),
            &directory,
            &config,
            &keys,
            &mut writers,
            &mut counts,
            &mut dice,
        );
        counts.cycles += 1;
    }
    let server = Server::start(&directory, &config);
    server.unseal(&keys);
    check(&server, &keys, &mut writers, &mut counts);
    server.stop();
    counts
}

fn prepare(directory: &Directory, config: &str) -> Keys {
    let server = Server::start(directory, config);
    let keys = server.initialize(3, 2);
    server.unseal(&keys);
    let mut client = server.client(&keys.root);
    client.put("sys/mounts/one", r#"{"type":"kv","options":{"version":"1"}}"#);
    client.put("sys/mounts/two", r#"{"type":"kv","options":{"version":"2"}}"#);
    server.end(Signal::KILL);
    keys
}

fn run_cycle(
    ending: Ending,
    directory: &Directory,
    config: &str,
    keys: &Keys,
    writers: &mut Writers,
    counts: &mut Counts,
    dice: &mut fastrand::Rng,
) {
    let server = Server::start(directory, config);
    match ending {
        Ending::Starting => {
            std::thread::sleep(Duration::from_millis(dice.u64(..10)));
            server.end(Signal::KILL);
            return;
        }
        Ending::Unsealing => {
            unseal_and_kill(server, keys, Duration::from_micros(dice.u64(..20_000)));
            return;
        }
        Ending::Writing | Ending::Rotating | Ending::Stopped => {}
    }
    server.unseal(keys);
    check(&server, keys, writers, counts);
    if ending == Ending::Rotating {
        server.client(&keys.root).put("sys/rotate", "");
    }
    let writing = Duration::from_millis(10 + dice.u64(..WRITING_MS_MAX - 10));
    let socket = directory.join("resp");
    counts.acknowledged += write_and_kill((server, &socket), keys, writers, writing, ending);
}

fn unseal_and_kill(server: Server, keys: &Keys, after: Duration) {
    let mut client = server.anyone();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for key in &keys.shares {
                // The server dies on the way, as it should.
                let _ = client.try_send("PUT", "sys/unseal", &share_of(key));
            }
        });
        std::thread::sleep(after);
        server.end(Signal::KILL);
    });
}

fn check(server: &Server, keys: &Keys, writers: &mut Writers, counts: &mut Counts) {
    let mut client = server.client(&keys.root);
    for writer in &mut writers.single {
        writer.check(&mut client, counts);
    }
    for pipeline in &mut writers.pipelines {
        pipeline.check(&mut client, counts);
    }
}

/// Lets all write, ends the server under them, and counts what it had acknowledged.
fn write_and_kill(
    (server, socket): (Server, &Path),
    keys: &Keys,
    writers: &mut Writers,
    writing: Duration,
    ending: Ending,
) -> u64 {
    let start = Barrier::new(WRITERS + PIPELINES + 1);
    let (address, root) = (server.address, keys.root.as_str());
    std::thread::scope(|scope| {
        let start = &start;
        let single = writers.single.iter_mut().map(|writer| {
            scope.spawn(move || {
                start.wait();
                writer.write(address, root)
            })
        });
        let mut running: Vec<_> = single.collect();
        running.extend(writers.pipelines.iter_mut().map(|pipeline| {
            scope.spawn(move || {
                start.wait();
                pipeline.write(socket, root)
            })
        }));
        start.wait();
        std::thread::sleep(writing);
        match ending {
            Ending::Stopped => server.stop(),
            _ => drop(server.end(Signal::KILL)),
        }
        running.into_iter().map(|writer| writer.join().unwrap()).sum()
    })
}

fn wanted(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |text| text.parse().unwrap())
}

/// Says what was done, and writes it down where somebody keeps such things.
fn record(mode: &str, seed: u64, counts: &[Counts], took: Duration) {
    let mut all = Counts::default();
    for one in counts {
        all.cycles += one.cycles;
        all.acknowledged += one.acknowledged;
        all.checked += one.checked;
        all.unanswered += one.unanswered;
        all.happened += one.happened;
    }
    let date = jiff::Timestamp::now().strftime("%F");
    let line = format!(
        "| {date} | kill -9, {mode} | {seed} | {} | {} | {} | {} ({}) | 0 | {:.0} s |",
        all.cycles,
        all.acknowledged,
        all.checked,
        all.unanswered,
        all.happened,
        took.as_secs_f64()
    );
    let mut out = std::io::stdout();
    writeln!(out, "{line}").unwrap();
    if let Some(path) = std::env::var_os("KALLISTO_LEDGER") {
        let mut ledger = std::fs::OpenOptions::new().append(true).open(path).unwrap();
        writeln!(ledger, "{line}").unwrap();
    }
    // A run in which nothing was written, or nothing interrupted, proves nothing.
    assert!(all.acknowledged > all.cycles);
    assert!(all.unanswered > 0);
}

fn loop_of(mode: &'static str, lanes: u64, cycles: u64) {
    let seed = wanted("KALLISTO_KILL_SEED", fastrand::u64(..1 << 32));
    loop_from(seed, mode, lanes, cycles);
}

fn loop_from(seed: u64, mode: &'static str, lanes: u64, cycles: u64) {
    // Now: a run that fails ends without its line.
    let mut out = std::io::stdout();
    writeln!(out, "kill -9, {mode}: KALLISTO_KILL_SEED={seed}").unwrap();
    let start = Instant::now();
    let counts: Vec<Counts> = std::thread::scope(|scope| {
        let one = |lane_number: u64| {
            let cycles = cycles / lanes;
            scope.spawn(move || lane(&format!("kill-{mode}"), mode, cycles, seed + lane_number))
        };
        let running: Vec<_> = (0..lanes).map(one).collect();
        running.into_iter().map(|lane| lane.join().unwrap()).collect()
    });
    record(mode, seed, &counts, start.elapsed());
}

#[test]
fn strict_loses_nothing_acknowledged() {
    loop_of("strict", 2, wanted("KALLISTO_KILL_CYCLES", CYCLES) * 2 / 3);
}

#[test]
fn batch_loses_nothing_when_the_machine_stays_up() {
    loop_of("batch", 1, wanted("KALLISTO_KILL_CYCLES", CYCLES) / 3);
}

#[test]
#[ignore = "`cargo x campaign kills` runs it"]
fn nothing_acknowledged_is_lost_at_any_seed() {
    let part = CampaignPart::of_environment().unwrap().expect("a part of a campaign");
    let reach = part.run_on(1, |seed| {
        let mode = if seed.is_multiple_of(3) { "batch" } else { "strict" };
        // Lanes draw by the numbers after the seed.
        loop_from(seed * CAMPAIGN_LANES, mode, CAMPAIGN_LANES, CAMPAIGN_CYCLES);
        CAMPAIGN_CYCLES
    });
    writeln!(std::io::stdout(), "{reach}").unwrap();
}
