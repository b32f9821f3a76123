//! What leases cost whoever reads: `cargo run --release -p kallisto-core --example leases_beside_reads -- [leases] [ending]`.
//!
//! One server in memory, with an engine whose far end answers at once. It makes `leases` (a million), starts again with them, and then has
//! `ending` of them (50,000) end in one second while one thread reads secrets. What is told: seconds to make them and to start, bytes a lease
//! by resident memory, reads' median and p99 while nothing ends and while leases do, in turns, and how many ended meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use kallisto_core::{
    Core, EngineSet, Error, InitSpec, Initialized, Json, KvVersion, Operation, Path, Request,
    Response, ServerInfo, TokenText, set_engines,
};
use kallisto_engine::route::{Field, field};
use kallisto_engine::{
    Call, EngineLeases, EngineSpec, FieldKind, Handler, NewLease, RoleTtl, RouteRows, RowIndex,
    handler, row,
};
use kallisto_store::{MemoryStore, Store};

const ROOT: &str = "root";
const PAGE_BYTES: usize = 4096;
/// Seconds of a turn of reads.
const TURN_SECS: u64 = 8;
/// Turns of each kind.
const TURNS: u64 = 3;
/// What an engine keeps of a credential.
const REVOCATION: &[u8] = b"v-token-readonly-8pJ3b1vXw4 DROP ROLE IF EXISTS";

/// Credentials that were revoked.
static REVOKED: AtomicU64 = AtomicU64::new(0);

const SECS: Field = field("secs", FieldKind::Text, "How long it shall live, in seconds.");

static ROUTES: RouteRows<Handler> = RouteRows {
    name: "far",
    tag: "secrets",
    about: "A far end that answers at once.",
    index: RowIndex::new(),
    groups: &[&[row!("creds/{secs}", &[SECS], {
        Update => "Make a credential.", handler!(make);
    })]],
};

static ENGINE: EngineSpec = EngineSpec {
    leases: Some(EngineLeases {
        revoke: |_| {
            REVOKED.fetch_add(1, Ordering::Relaxed);
            Box::pin(std::future::ready(Ok(())))
        },
        renew: |_, _| Box::pin(std::future::ready(Ok(()))),
        role_ttl: |_| Ok(RoleTtl::default()),
    }),
    ..EngineSpec::secret("far", &ROUTES)
};

const ENGINES: EngineSet =
    EngineSet { engines: &[&[&ENGINE]], identity_oidc: &kallisto_engines::IDENTITY_OIDC };

async fn make(call: Call<'_>) -> Result<Response, Error> {
    let ttl_secs = call.params.get("secs").parse().unwrap_or(3600);
    let revocation = REVOCATION.to_vec();
    let lease = NewLease { ttl_secs, renewable: true, revocation, ..NewLease::default() };
    let made = Json::object([("username", "v-token-readonly-8pJ3b1vXw4".into())]);
    call.issue(lease, |_| Box::pin(std::future::ready(Ok::<_, Error>(made)))).await
}

fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    statm.split(' ').nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0) * PAGE_BYTES
}

fn ask(core: &Core, now: Timestamp, operation: Operation, path: &str, body: &str) {
    let request = Request {
        token: Some(TokenText::new(ROOT)),
        body: body.as_bytes(),
        ..Request::new(operation, Path::decode(path).expect("a path"), now)
    };
    pollster::block_on(core.handle(&request)).expect("an answer");
}

fn start(store: &Arc<MemoryStore>) -> Core {
    Core::new(Arc::clone(store) as Arc<dyn Store>, ServerInfo::default())
}

fn secs_later(from: Timestamp, secs: u64) -> Timestamp {
    from + SignedDuration::from_secs(secs.cast_signed())
}

/// Reads for a turn; the durations in nanoseconds.
#[expect(clippy::disallowed_methods, reason = "a measurement reads the clock")]
fn read(core: &Core, now: Timestamp) -> Vec<u64> {
    let until = Instant::now() + Duration::from_secs(TURN_SECS);
    let mut took = Vec::with_capacity(1 << 22);
    while Instant::now() < until {
        let began = Instant::now();
        ask(core, now, Operation::Read, "secret/data/app/config", "");
        took.push(u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX));
    }
    took
}

#[expect(clippy::print_stdout, reason = "its output is the measurement")]
fn tell(what: &str, mut took: Vec<u64>, ended: u64) {
    took.sort_unstable();
    let last = took.len() - 1;
    let at = |of_thousand: usize| took[last * of_thousand / 1000] as f64 / 1000.0;
    let (count, p50, p99, p999) = (took.len(), at(500), at(990), at(999));
    println!(
        "{what:>8}: {count} reads, us: p50 {p50:.1}, p99 {p99:.1}, p99.9 {p999:.1}; {ended} leases ended"
    );
}

/// Has leases that end at `ends` ended, once a second, until it is told to stop.
fn tick(core: Arc<Core>, ends: Timestamp, stop: Arc<AtomicBool>) -> thread::JoinHandle<()> {
    thread::spawn(move || {
        let mut at = ends;
        while !stop.load(Ordering::Acquire) {
            let _ = pollster::block_on(core.run_due_jobs(at));
            thread::sleep(Duration::from_secs(1));
            at = secs_later(at, 1);
        }
    })
}

#[expect(clippy::disallowed_methods, reason = "a measurement reads the clock")]
#[expect(clippy::print_stdout, reason = "its output is the measurement")]
fn main() {
    let mut args = std::env::args().skip(1).map(|arg| arg.parse::<u64>().expect("a number"));
    let (leases, ending) = (args.next().unwrap_or(1_000_000), args.next().unwrap_or(50_000));
    set_engines(ENGINES);
    let store = Arc::new(MemoryStore::new());
    let core = start(&store);
    let now = Timestamp::from_second(1_800_000_000).expect("a time");
    let root_token = Some(ROOT.to_owned().into());
    let mount_kv = Some(KvVersion::V2);
    let spec = InitSpec { shares: 1, threshold: 1, root_token, mount_kv };
    let made = pollster::block_on(core.initialize(&spec, now)).expect("initialised");
    let key = format!(r#"{{"key":"{}"}}"#, Initialized::hex(&made.keys).remove(0));
    ask(&core, now, Operation::Update, "sys/unseal", &key);
    let mount = r#"{"type":"far","config":{"max_lease_ttl":"1000h"}}"#;
    ask(&core, now, Operation::Update, "sys/mounts/far", mount);
    let secret = r#"{"data":{"user":"app","password":"8pJ3b1vXw4"}}"#;
    ask(&core, now, Operation::Update, "secret/data/app/config", secret);
    let began = Instant::now();
    for number in 0..leases {
        let secs = if number < ending { 3600 } else { 100_000 + number % 1000 };
        ask(&core, now, Operation::Update, &format!("far/creds/{secs}"), "");
    }
    println!("{leases} leases made in {:.1} s", began.elapsed().as_secs_f64());
    drop(core);
    store.detach();
    let before = resident();
    let core = Arc::new(start(&store));
    let began = Instant::now();
    ask(&core, now, Operation::Update, "sys/unseal", &key);
    let took = began.elapsed().as_secs_f64();
    let each = resident().saturating_sub(before) / usize::try_from(leases.max(1)).unwrap_or(1);
    println!("started with them in {took:.2} s, {each} bytes more resident for each");
    let ends = secs_later(now, 3601);
    for turn in 0..TURNS {
        tell("quiet", read(&core, now), 0);
        let before = REVOKED.load(Ordering::Relaxed);
        let stop = Arc::new(AtomicBool::new(false));
        let from = secs_later(ends, turn * 2 * TURN_SECS);
        let clock = tick(Arc::clone(&core), from, Arc::clone(&stop));
        let took = read(&core, now);
        stop.store(true, Ordering::Release);
        clock.join().expect("the clock");
        tell("ending", took, REVOKED.load(Ordering::Relaxed) - before);
    }
}
