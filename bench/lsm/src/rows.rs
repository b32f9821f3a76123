//! What is measured: fills, reads, durable puts, space, memory, opening.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::machine;
use crate::stores::{ENGINES, Engine, Key, Store, Syncing};

/// Bytes of every value.
const VALUE_BYTES: usize = 128;
/// Pairs in a batch.
const BATCH: usize = 1000;
/// Keys of the hot row.
const HOT_KEYS: u64 = 10_000;
/// Threads of the group commit row.
const WRITERS: u64 = 64;
/// Reads before the resident memory is looked at.
const PROBE_READS: u64 = 200_000;

/// A run.
pub struct Plan {
    pub entries: u64,
    pub rounds: usize,
    /// How long a turn of a short row lasts, in seconds.
    pub round_secs: f64,
    pub engines: Vec<Engine>,
    pub dir: PathBuf,
}

/// Which end of a row is good.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Better {
    Higher,
    Lower,
}

/// A line of the table: one value for each engine.
pub struct Row {
    pub name: &'static str,
    pub unit: &'static str,
    pub better: Better,
    pub values: Vec<f64>,
}

/// Sequential keys count up; random ones are the same numbers in no order. Both are in the store once.
fn sequential(n: u64) -> Key {
    (u128::from(n) << 64 | u128::from(n)).to_be_bytes()
}

fn random(n: u64) -> Key {
    let mixed = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ mixed >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
    (u128::from(mixed) << 64 | u128::from(n)).to_be_bytes()
}

fn value(n: u64) -> [u8; VALUE_BYTES] {
    let mut value = [0; VALUE_BYTES];
    fastrand::Rng::with_seed(n).fill(&mut value);
    value
}

fn folder(plan: &Plan, engine: &Engine, what: &str) -> PathBuf {
    plan.dir.join(engine.name).join(what)
}

fn open_new(plan: &Plan, engine: &Engine, what: &str, syncing: Syncing) -> Box<dyn Store> {
    let dir = folder(plan, engine, what);
    std::fs::create_dir_all(&dir).expect("a writable folder");
    (engine.open)(&dir, syncing)
}

/// Pairs per second of `entries` puts in batches. The values are made before the clock starts.
fn fill(store: &dyn Store, entries: u64, key: fn(u64) -> Key, seed: u64) -> f64 {
    let values: Vec<_> = (0..BATCH as u64).map(|n| value(seed ^ n)).collect();
    let start = Instant::now();
    let mut batch: Vec<(Key, &[u8])> = Vec::with_capacity(BATCH);
    for n in 0..entries {
        batch.push((key(n), &values[n as usize % BATCH]));
        if batch.len() == BATCH || n + 1 == entries {
            store.put_batch(&batch);
            batch.clear();
        }
    }
    entries as f64 / start.elapsed().as_secs_f64()
}

/// Everything, row by row.
pub fn measure(plan: &Plan) -> Vec<Row> {
    let _ = std::fs::remove_dir_all(&plan.dir);
    let filled: Vec<Filled> = plan.engines.iter().map(|engine| fill_all(plan, engine)).collect();
    let mut rows = Vec::from(fill_rows(&filled));
    rows.extend(read_rows(plan));
    rows.extend(durable_rows(plan));
    rows.extend(space_rows(&filled));
    rows.extend(probe_rows(plan));
    rows
}

/// What filling tells about an engine.
struct Filled {
    sequential: f64,
    random: f64,
    overwrite: f64,
    space: f64,
    write: f64,
}

fn fill_all(plan: &Plan, engine: &Engine) -> Filled {
    let store = open_new(plan, engine, "sequential", Syncing::Later);
    let rate_sequential = fill(&*store, plan.entries, sequential, 1);
    drop(store);
    std::fs::remove_dir_all(folder(plan, engine, "sequential")).expect("our own folder");

    let user_bytes = (plan.entries as usize * (size_of::<Key>() + VALUE_BYTES)) as f64;
    let store = open_new(plan, engine, "random", Syncing::Later);
    let before = machine::written_bytes();
    let rate_random = fill(&*store, plan.entries, random, 2);
    store.flush();
    machine::settle();
    let write = (machine::written_bytes() - before) as f64 / user_bytes;
    let rate_overwrite = fill(&*store, plan.entries, random, 3);
    store.flush();
    machine::settle();
    drop(store);
    let space = machine::disk_bytes(&folder(plan, engine, "random")) as f64 / user_bytes;
    let filled = Filled {
        sequential: rate_sequential,
        random: rate_random,
        overwrite: rate_overwrite,
        space,
        write,
    };
    eprintln!(
        "{}: sequential {rate_sequential:.0}/s, random {rate_random:.0}/s, overwrite {rate_overwrite:.0}/s, \
         space {space:.2}, write {write:.2}",
        engine.name
    );
    filled
}

fn row_of<T>(
    filled: &[T],
    name: &'static str,
    unit: &'static str,
    better: Better,
    value: fn(&T) -> f64,
) -> Row {
    Row { name, unit, better, values: filled.iter().map(value).collect() }
}

fn fill_rows(filled: &[Filled]) -> [Row; 3] {
    [
        row_of(filled, "fill sequential", "/s", Better::Higher, |filled| filled.sequential),
        row_of(filled, "fill random", "/s", Better::Higher, |filled| filled.random),
        row_of(filled, "overwrite random", "/s", Better::Higher, |filled| filled.overwrite),
    ]
}

fn space_rows(filled: &[Filled]) -> [Row; 2] {
    [
        row_of(filled, "space, after the overwrite", "x", Better::Lower, |filled| filled.space),
        row_of(filled, "written, by the random fill", "x", Better::Lower, |filled| filled.write),
    ]
}

/// Medians over rounds in which every engine takes its turn.
fn rounds(plan: &Plan, mut turn: impl FnMut(usize, u64) -> f64) -> Vec<f64> {
    let count = plan.engines.len();
    let mut seen = vec![Vec::new(); count];
    for round in 0..plan.rounds {
        for place in 0..count {
            let which = (place + round) % count;
            seen[which].push(turn(which, round as u64));
        }
    }
    seen.into_iter().map(median).collect()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Microseconds of one call, called for a turn's time with random numbers.
fn time(plan: &Plan, seed: u64, mut call: impl FnMut(u64)) -> f64 {
    /// Calls between two looks at the clock.
    const STRIDE: u32 = 64;
    let mut dice = fastrand::Rng::with_seed(seed);
    let (start, limit) = (Instant::now(), Duration::from_secs_f64(plan.round_secs));
    let mut calls = 0;
    while start.elapsed() < limit {
        (0..STRIDE).for_each(|_| call(dice.u64(..)));
        calls += STRIDE;
    }
    start.elapsed().as_secs_f64() * 1e6 / f64::from(calls)
}

fn read_rows(plan: &Plan) -> Vec<Row> {
    let reopen = |engine: &Engine| (engine.open)(&folder(plan, engine, "random"), Syncing::Later);
    let stores: Vec<_> = plan.engines.iter().map(reopen).collect();
    machine::settle();
    let read = |which: usize, key: &Key, want: Option<usize>| {
        assert_eq!(stores[which].get(key), want, "{}", plan.engines[which].name);
    };
    // Caches warm up before anything is measured.
    rounds(plan, |which, round| {
        time(plan, round, |n| read(which, &random(n % plan.entries), Some(VALUE_BYTES)))
    });
    let hit = rounds(plan, |which, round| {
        time(plan, 10 + round, |n| read(which, &random(n % plan.entries), Some(VALUE_BYTES)))
    });
    let miss = rounds(plan, |which, round| {
        time(plan, 20 + round, |n| read(which, &random(plan.entries + n % plan.entries), None))
    });
    let hot_keys = HOT_KEYS.min(plan.entries);
    let hot = rounds(plan, |which, round| {
        for n in 0..hot_keys {
            read(which, &random(n), Some(VALUE_BYTES));
        }
        time(plan, 30 + round, |n| read(which, &random(n % hot_keys), Some(VALUE_BYTES)))
    });
    let scan = rounds(plan, |which, _| {
        let start = Instant::now();
        assert_eq!(stores[which].scan(), plan.entries, "{}", plan.engines[which].name);
        start.elapsed().as_secs_f64() * 1e6 / plan.entries as f64
    });
    let row = |name, values| Row { name, unit: "us", better: Better::Lower, values };
    let rows = vec![
        row("read random hit", hit),
        row("read random miss", miss),
        row("read hot", hot),
        row("scan, per entry", scan),
    ];
    rows.iter().for_each(|row| eprintln!("{}: {:.2?}", row.name, row.values));
    rows
}

fn durable_rows(plan: &Plan) -> [Row; 2] {
    let open = |engine: &Engine| open_new(plan, engine, "durable", Syncing::EveryPut);
    let stores: Vec<_> = plan.engines.iter().map(open).collect();
    let one = rounds(plan, |which, round| {
        let bytes = value(round);
        1e6 / time(plan, 40 + round, |n| stores[which].put(&random(n), &bytes))
    });
    let many = rounds(plan, |which, round| put_from_many(plan, &*stores[which], 50 + round));
    let row = |name, values| Row { name, unit: "/s", better: Better::Higher, values };
    let rows = [row("durable put, 1 writer", one), row("durable put, 64 writers", many)];
    rows.iter().for_each(|row| eprintln!("{}: {:.0?}", row.name, row.values));
    rows
}

/// Durable puts per second of all writers together.
fn put_from_many(plan: &Plan, store: &dyn Store, seed: u64) -> f64 {
    let (stop, puts) = (AtomicBool::new(false), AtomicU64::new(0));
    let start = Instant::now();
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (stop, puts) = (&stop, &puts);
            scope.spawn(move || {
                let bytes = value(writer);
                let mut dice = fastrand::Rng::with_seed(seed << 32 | writer);
                let mut mine = 0;
                while !stop.load(Ordering::Relaxed) {
                    store.put(&random(dice.u64(..)), &bytes);
                    mine += 1;
                }
                puts.fetch_add(mine, Ordering::Relaxed);
            });
        }
        std::thread::sleep(Duration::from_secs_f64(plan.round_secs));
        stop.store(true, Ordering::Relaxed);
    });
    puts.into_inner() as f64 / start.elapsed().as_secs_f64()
}

/// Rows that need a process of their own: how long opening takes and what stays in memory.
fn probe_rows(plan: &Plan) -> [Row; 3] {
    let (mut open, mut all, mut own) = (Vec::new(), Vec::new(), Vec::new());
    for engine in &plan.engines {
        let program = std::env::current_exe().expect("our own path");
        let (dir, entries) = (folder(plan, engine, "random"), plan.entries.to_string());
        let mut command = std::process::Command::new(program);
        command.args(["--probe", engine.name]).arg(dir).arg(entries);
        let output = command.output().expect("ourselves");
        let text = String::from_utf8_lossy(&output.stdout);
        let numbers: Vec<f64> = text.split_whitespace().flat_map(str::parse).collect();
        let [millis, resident, anonymous] = numbers[..] else { panic!("a probe said {text:?}") };
        open.push(millis);
        all.push(resident / f64::from(1 << 20));
        own.push(anonymous / f64::from(1 << 20));
    }
    let row = |name, unit, values| Row { name, unit, better: Better::Lower, values };
    [
        row("open", "ms", open),
        row("resident after 200,000 reads", "MiB", all),
        row("of it not a mapped file", "MiB", own),
    ]
}

/// Runs in a fresh process: `NAME DIR ENTRIES`.
pub fn probe(args: &[String]) {
    let [name, dir, entries] = args else { panic!("--probe NAME DIR ENTRIES") };
    let entries: u64 = entries.parse().expect("a number");
    let engine = ENGINES.iter().find(|engine| engine.name == name).expect("a known engine");
    let start = Instant::now();
    let store = (engine.open)(Path::new(dir), Syncing::Later);
    assert!(store.get(&random(0)).is_some(), "the store was filled");
    let millis = start.elapsed().as_secs_f64() * 1e3;
    let mut dice = fastrand::Rng::with_seed(1);
    for _ in 0..PROBE_READS {
        assert!(store.get(&random(dice.u64(..entries))).is_some());
    }
    let (all, own) = machine::resident_bytes();
    println!("{millis:.3} {all} {own}");
}
