//! One run, every map, paired rounds: a table for people and a line of JSON for machines.
//!
//! `bench-cuckoo [--keys N] [--rounds N] [--maps a,b] [--operations N] [--only TEXT] [--json FILE]`;
//! `--only` keeps the workloads whose name contains the text. All maps are filled first, then each
//! workload runs in rounds in which every map takes its turn, so that drift of the machine hits all
//! alike; the median of the rounds counts. Threads are pinned. What huge pages hold is printed with
//! the filling, since without them every number is another one.

use std::fmt::Write as _;
use std::hint::black_box;
use std::sync::Barrier;
use std::time::Instant;

use bench_cuckoo::keys::{Spread, key, value};
use bench_cuckoo::maps::{Many, Map, NAMES, Ours, make};
use hdrhistogram::Histogram;
use kallisto_cuckoo::Table;

/// Lookups under one guard, as a pipelining client's socket read would bring them.
const BATCH: usize = 16;
/// Writes among that many operations, when there are writes: 5 %.
const WRITE_EVERY: usize = 20;

struct Options {
    keys: u32,
    rounds: usize,
    operations: usize,
    maps: Vec<String>,
    only: String,
    json: Option<String>,
}

impl Options {
    fn parse() -> Self {
        let mut options = Self {
            // 90 % of 2^20 slots.
            keys: 943_718,
            rounds: 5,
            operations: 400_000,
            maps: NAMES.map(String::from).to_vec(),
            only: String::new(),
            json: None,
        };
        let mut args = std::env::args().skip(1);
        while let Some(name) = args.next() {
            let text = args.next().unwrap_or_else(|| panic!("{name} wants a value"));
            let number = || text.parse::<usize>().expect("a number");
            match name.as_str() {
                "--keys" => options.keys = u32::try_from(number()).expect("below 2^32"),
                "--rounds" => options.rounds = number(),
                "--operations" => options.operations = number(),
                "--maps" => options.maps = text.split(',').map(String::from).collect(),
                "--only" => options.only = text,
                "--json" => options.json = Some(text),
                other => panic!("no option {other}"),
            }
        }
        options
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Work {
    Read,
    Mixed,
    Miss,
}

#[derive(Clone, Copy)]
struct Workload {
    spread: Spread,
    threads: usize,
    work: Work,
}

impl Workload {
    fn name(self) -> String {
        let work = match self.work {
            Work::Read => "get",
            Work::Mixed => "95/5",
            Work::Miss => "miss",
        };
        format!("{} {work}, {} thread{}", self.spread.name(), self.threads, plural(self.threads))
    }
}

fn plural(count: usize) -> &'static str {
    if count == 1 { "" } else { "s" }
}

fn pin_to(cpu: usize) {
    let mut set = rustix::thread::CpuSet::new();
    set.set(cpu);
    rustix::thread::sched_setaffinity(None, &set).expect("a CPU of that number");
}

fn rss_bytes() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux");
    let pages: usize = statm.split(' ').nth(1).expect("second field").parse().expect("a number");
    pages * rustix_page_bytes()
}

fn rustix_page_bytes() -> usize {
    4096
}

/// Bytes of the process that huge pages hold.
fn huge_page_bytes() -> usize {
    let rollup = std::fs::read_to_string("/proc/self/smaps_rollup").expect("Linux");
    let line = rollup.lines().find(|line| line.starts_with("AnonHugePages:")).expect("a field");
    line.split_whitespace().nth(1).expect("a number").parse::<usize>().expect("a number") << 10
}

/// Fills a map in random order; nanoseconds of an insert and bytes of resident memory per entry.
fn fill(map: &dyn Map, keys: u32) -> Filled {
    let (before, huge_before) = (rss_bytes(), huge_page_bytes());
    let mut numbers: Vec<u32> = (0..keys).collect();
    let after_numbers = rss_bytes().max(before);
    fastrand::Rng::with_seed(1).shuffle(&mut numbers);
    let started = Instant::now();
    for number in &numbers {
        map.put(&key(*number), &value(0));
    }
    assert_eq!(map.count(), keys as usize, "{} lost keys", map.name());
    let insert_ns = started.elapsed().as_nanos() as f64 / f64::from(keys);
    let grown = rss_bytes() - after_numbers;
    let huge = huge_page_bytes().saturating_sub(huge_before);
    let filled = Filled {
        insert_ns,
        bytes: grown as f64 / f64::from(keys),
        huge_percent: 100.0 * huge as f64 / grown as f64,
    };
    eprintln!("filled {}: {filled:.0?}", map.name());
    filled
}

/// What filling a map tells, per entry.
#[derive(Clone, Copy, Debug)]
struct Filled {
    insert_ns: f64,
    bytes: f64,
    /// The part of the new resident memory that is in huge pages.
    huge_percent: f64,
}

/// One thread's share of a round.
fn run(map: &dyn Map, numbers: &[u32], work: Work) -> u64 {
    let mut sum = 0;
    match work {
        Work::Read | Work::Miss => {
            for batch in numbers.chunks(BATCH) {
                sum += map.read(batch);
            }
        }
        Work::Mixed => {
            for (round, batch) in numbers.chunks(WRITE_EVERY).enumerate() {
                let (write, reads) = batch.split_first().expect("chunks are not empty");
                map.put(&key(*write), &value(round as u32));
                sum += map.read(reads);
            }
        }
    }
    sum
}

/// Nanoseconds of wall time per operation of all threads together.
fn round(map: &dyn Map, streams: &[Vec<u32>], work: Work) -> f64 {
    let start = Barrier::new(streams.len());
    let operations: usize = streams.iter().map(Vec::len).sum();
    let slowest = std::thread::scope(|scope| {
        let threads: Vec<_> = streams
            .iter()
            .enumerate()
            .map(|(cpu, numbers)| {
                let start = &start;
                scope.spawn(move || {
                    pin_to(cpu);
                    start.wait();
                    let started = Instant::now();
                    black_box(run(map, numbers, work));
                    started.elapsed()
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).max()
    });
    slowest.expect("a thread").as_nanos() as f64 / operations as f64
}

/// Percentiles of single lookups, guard and clock included, while another thread does 95/5.
fn latencies(map: &dyn Map, streams: &[Vec<u32>]) -> [u64; 3] {
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            pin_to(1);
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                black_box(run(map, &streams[1][..2000.min(streams[1].len())], Work::Mixed));
            }
        });
        let reader = scope.spawn(|| {
            pin_to(0);
            let mut times = Histogram::<u64>::new_with_bounds(1, 10_000_000, 3).expect("bounds");
            for number in &streams[0] {
                let key = key(*number);
                let started = Instant::now();
                black_box(map.read_one(&key));
                let _ = times.record(started.elapsed().as_nanos().max(1) as u64);
            }
            done.store(true, std::sync::atomic::Ordering::Relaxed);
            [50.0, 99.0, 99.9].map(|percent| times.value_at_percentile(percent))
        });
        reader.join().expect("no panic")
    })
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

struct Row {
    name: String,
    unit: &'static str,
    /// One for each map.
    values: Vec<f64>,
}

fn main() {
    let options = Options::parse();
    let ours = Ours(Table::with_capacity(options.keys as usize).expect("a table"));
    let wants = |name: &str| options.maps.iter().any(|wanted| wanted == name);
    let mut filled = Vec::new();
    let mut peers: Vec<Box<dyn Map>> = Vec::new();
    filled.push(fill(&ours, options.keys));
    for name in NAMES.iter().filter(|name| !name.starts_with("kallisto") && wants(name)) {
        let map = make(name, options.keys as usize);
        filled.push(fill(&*map, options.keys));
        peers.push(map);
    }
    eprintln!("load {:.3}, {:?}", ours.0.load_factor(), ours.0.memory());
    let many = Many(&ours);
    let mut maps: Vec<&dyn Map> = vec![&ours, &many];
    maps.extend(peers.iter().map(|map| &**map));
    filled.insert(1, filled[0]);

    let mut rows = measure(&maps, &options);
    rows.extend(rows_of_filling(&filled));
    print!("{}", markdown(&maps, &rows, &options));
    if let Some(path) = &options.json {
        std::fs::write(path, json(&maps, &rows, &options)).expect("a writable file");
    }
}

fn rows_of_filling(filled: &[Filled]) -> [Row; 3] {
    let row = |name: &str, unit, value: fn(&Filled) -> f64| Row {
        name: name.into(),
        unit,
        values: filled.iter().map(value).collect(),
    };
    [
        row("insert while filling", "ns", |filled| filled.insert_ns),
        row("resident bytes an entry", "B", |filled| filled.bytes),
        row("of them in huge pages", "%", |filled| filled.huge_percent),
    ]
}

fn measure(maps: &[&dyn Map], options: &Options) -> Vec<Row> {
    let mut rows = Vec::new();
    for work in [Work::Read, Work::Mixed, Work::Miss] {
        for spread in [Spread::Uniform, Spread::Zipf] {
            for threads in [1, 2] {
                if work == Work::Miss && (spread == Spread::Zipf || threads == 2) {
                    continue;
                }
                let workload = Workload { spread, threads, work };
                if workload.name().contains(&options.only) {
                    rows.push(measure_workload(maps, options, workload));
                }
            }
        }
    }
    for spread in [Spread::Uniform, Spread::Zipf] {
        if latencies_name(spread).contains(&options.only) {
            rows.extend(measure_latencies(maps, options, spread));
        }
    }
    rows
}

fn measure_workload(maps: &[&dyn Map], options: &Options, workload: Workload) -> Row {
    let mut times = vec![Vec::new(); maps.len()];
    for round_number in 0..options.rounds {
        let streams: Vec<Vec<u32>> = (0..workload.threads)
            .map(|thread| {
                let seed = (round_number * 2 + thread) as u64;
                let mut stream = workload.spread.stream(options.keys, options.operations, seed);
                if workload.work == Work::Miss {
                    stream.iter_mut().for_each(|number| *number += options.keys);
                }
                stream
            })
            .collect();
        for turn in 0..maps.len() {
            let which = (turn + round_number) % maps.len();
            times[which].push(round(maps[which], &streams, workload.work));
        }
    }
    let row =
        Row { name: workload.name(), unit: "ns", values: times.into_iter().map(median).collect() };
    eprintln!("{}: {:.0?}", row.name, row.values);
    row
}

fn latencies_name(spread: Spread) -> String {
    format!("{} get beside a 95/5 thread", spread.name())
}

fn measure_latencies(maps: &[&dyn Map], options: &Options, spread: Spread) -> Vec<Row> {
    let mut seen = vec![[Vec::new(), Vec::new(), Vec::new()]; maps.len()];
    for round_number in 0..options.rounds {
        let streams: Vec<_> = (0..2)
            .map(|thread| spread.stream(options.keys, options.operations, 70 + thread))
            .collect();
        for turn in 0..maps.len() {
            let which = (turn + round_number) % maps.len();
            for (all, one) in seen[which].iter_mut().zip(latencies(maps[which], &streams)) {
                all.push(one as f64);
            }
        }
    }
    let percentiles = ["p50", "p99", "p99.9"];
    let rows = percentiles.iter().enumerate().map(|(place, percentile)| Row {
        name: format!("{}, {percentile}", latencies_name(spread)),
        unit: "ns",
        values: seen.iter().map(|map| median(map[place].clone())).collect(),
    });
    let rows: Vec<_> = rows.collect();
    for row in &rows {
        eprintln!("{}: {:.0?}", row.name, row.values);
    }
    rows
}

/// Ours by the best of the peers: below one, ours is ahead. Shares are not ranked.
fn ratio(row: &Row) -> Option<f64> {
    let best = row.values[2..].iter().copied().fold(f64::INFINITY, f64::min);
    (row.unit != "%").then_some(row.values[0] / best)
}

fn markdown(maps: &[&dyn Map], rows: &[Row], options: &Options) -> String {
    let mut text = format!("{} keys, median of {} rounds\n\n|", options.keys, options.rounds);
    for title in [" "].into_iter().chain(maps.iter().map(|map| map.name())) {
        let _ = write!(text, " {title} |");
    }
    let _ = writeln!(text, " ours / best peer |\n|---|{}---:|", "---:|".repeat(maps.len()));
    for row in rows {
        let _ = write!(text, "| {}, {} |", row.name, row.unit);
        for value in &row.values {
            let _ = write!(text, " {value:.0} |");
        }
        match ratio(row) {
            Some(ratio) => writeln!(text, " {ratio:.2} |"),
            None => writeln!(text, " - |"),
        }
        .expect("a string takes everything");
    }
    text
}

fn json(maps: &[&dyn Map], rows: &[Row], options: &Options) -> String {
    let mut text = format!("{{\"keys\":{},\"rounds\":{},\"rows\":[", options.keys, options.rounds);
    for (place, row) in rows.iter().enumerate() {
        let comma = if place == 0 { "" } else { "," };
        let _ = write!(text, "{comma}\n{{\"name\":\"{}\",\"unit\":\"{}\"", row.name, row.unit);
        for (map, value) in maps.iter().zip(&row.values) {
            let _ = write!(text, ",\"{}\":{value:.1}", map.name());
        }
        if let Some(ratio) = ratio(row) {
            let _ = write!(text, ",\"ratio\":{ratio:.3}");
        }
        text.push('}');
    }
    text.push_str("\n]}\n");
    text
}
