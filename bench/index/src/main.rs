//! What the gate costs beside a hash table's hit, and what the index costs beside its peers.
//!
//! `gate [paths] [rounds] [shape] [grown]` builds everything once (with `grown`, the index by
//! inserts in no order), asks in interleaved rounds, and prints the medians as one markdown table
//! per shape and as JSON. Questions lie in one buffer in the order they are asked, as requests
//! do in a socket's buffer: reading a question is no cache miss. 943718 paths fill the cuckoo
//! table to nine tenths.
#![expect(clippy::disallowed_methods, reason = "a bench is there to read the clock")]

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hint::black_box;
use std::ops::Bound;
use std::sync::RwLock;
use std::time::Instant;

use kallisto_bench_index::{Peer, Radix, Shape, Spread, picks, shapes};
use kallisto_cuckoo::{Gated, Table};
use kallisto_index::PathIndex;

/// Bytes of a stored value, as in the cuckoo table's own figures.
const VALUE_BYTES: usize = 128;

/// Entries per entry of capacity in the cuckoo table.
const CUCKOO_LOAD: f64 = 0.9;

/// Questions in a round.
const QUESTIONS: usize = 200_000;

/// Lookups under one pin of the cuckoo table: one socket read's worth.
const LOOKUPS_PER_PIN: usize = 16;

/// Questions back to back in one buffer, each followed by a NUL that is not part of it.
struct Questions {
    bytes: String,
    ends: Vec<usize>,
}

impl Questions {
    fn new<'a>(paths: impl Iterator<Item = &'a String>) -> Self {
        let (mut bytes, mut ends) = (String::new(), Vec::new());
        for path in paths {
            bytes.push_str(path);
            bytes.push('\0');
            ends.push(bytes.len());
        }
        Self { bytes, ends }
    }

    /// Asks them all; nanoseconds per question. `expect` is how many say yes at least.
    fn ask(&self, expect: usize, mut question: impl FnMut(&str, &str) -> bool) -> f64 {
        let (mut start, mut yes) = (0, 0);
        let began = Instant::now();
        for &end in &self.ends {
            let with_nul = &self.bytes[start..end];
            yes += usize::from(question(&with_nul[..with_nul.len() - 1], with_nul));
            start = end;
        }
        let nanos = began.elapsed().as_nanos() as f64 / self.ends.len() as f64;
        assert!(yes >= expect, "{yes} of {} said yes, {expect} expected", self.ends.len());
        nanos
    }
}

/// Samples per row, in nanoseconds.
#[derive(Default)]
struct Rows(BTreeMap<(usize, String), Vec<f64>>, usize);

impl Rows {
    fn add(&mut self, name: &str, nanos: f64) {
        let place = self.0.keys().find(|(_, known)| known == name).map(|(place, _)| *place);
        let place = place.unwrap_or_else(|| {
            self.1 += 1;
            self.1
        });
        self.0.entry((place, name.to_owned())).or_default().push(nanos);
    }

    fn median(&self, name: &str) -> f64 {
        let samples = self.0.iter().find(|((_, known), _)| known == name).map(|(_, all)| all);
        let mut samples = samples.cloned().unwrap_or_default();
        samples.sort_by(f64::total_cmp);
        samples.get(samples.len() / 2).copied().unwrap_or(f64::NAN)
    }

    fn print(&self, title: &str, json: &mut Vec<String>) {
        let hit = self.median("cuckoo hit");
        println!("\n### {title}\n\n| operation | ns | of a cuckoo hit |\n|---|---:|---:|");
        for (_, name) in self.0.keys() {
            let nanos = self.median(name);
            let ratio = if hit.is_nan() { String::new() } else { format!("{:.2}", nanos / hit) };
            println!("| {name} | {nanos:.0} | {ratio} |");
            json.push(format!(
                "{{\"shape\":\"{title}\",\"operation\":\"{name}\",\"ns\":{nanos:.1}}}"
            ));
        }
    }
}

struct Tables {
    index: PathIndex,
    map: HashMap<Box<[u8]>, Box<[u8]>>,
    cuckoo: Table<u64>,
}

/// An index that took the paths in one by one, in no order.
fn grown(paths: &[String]) -> PathIndex {
    let mut order: Vec<&String> = paths.iter().collect();
    fastrand::Rng::with_seed(4).shuffle(&mut order);
    let index = PathIndex::new();
    for path in order {
        index.insert(path).expect("a valid path");
    }
    index
}

fn tables(shape: &Shape, index: PathIndex) -> Tables {
    let value = [7; VALUE_BYTES];
    // In another order than the paths', as a store that is read by hashed names would fill them.
    let mut order: Vec<&String> = shape.paths.iter().collect();
    fastrand::Rng::with_seed(2).shuffle(&mut order);
    let map = order.iter().map(|path| (path.as_bytes().into(), value.into())).collect();
    let cuckoo = Table::with_capacity(order.len()).expect("a cuckoo table");
    println!("cuckoo capacity {}", cuckoo.capacity());
    for path in order {
        cuckoo.insert(path.as_bytes(), 1, &value).expect("room");
    }
    Tables { index, map, cuckoo }
}

impl Tables {
    fn in_map(&self, path: &str) -> bool {
        self.map.get(path.as_bytes()).is_some_and(|value| value[VALUE_BYTES - 1] == 7)
    }
}

/// Gate, hit, and both together.
fn gate_rows(rows: &mut Rows, tables: &Tables, hits: &Questions, shape: &Shape, round: u64) {
    let index = &tables.index;
    let all = hits.ends.len();
    rows.add("contains hit", hits.ask(all, |path, _| index.contains(path)));
    rows.add("may_contain hit", hits.ask(all, |path, _| index.may_contain(path)));
    rows.add("HashMap hit", hits.ask(all, |path, _| tables.in_map(path)));
    rows.add(
        "contains + HashMap hit",
        hits.ask(all, |path, _| index.contains(path) && tables.in_map(path)),
    );
    let cuckoo_with = |gate: fn(&PathIndex, &str) -> bool| {
        let (mut asked, mut guard) = (0, tables.cuckoo.pin());
        hits.ask(all, |path, _| {
            asked += 1;
            if asked % LOOKUPS_PER_PIN == 0 {
                guard = tables.cuckoo.pin();
            }
            gate(index, path)
                && tables
                    .cuckoo
                    .get(path.as_bytes(), &guard)
                    .is_some_and(|entry| entry.value()[VALUE_BYTES - 1] == 7)
        })
    };
    rows.add("cuckoo hit", cuckoo_with(|_, _| true));
    rows.add("contains + cuckoo hit", cuckoo_with(PathIndex::contains));
    rows.add("may_contain + cuckoo hit", cuckoo_with(PathIndex::may_contain));
    let gated = {
        let (mut asked, mut guard) = (0, tables.cuckoo.pin());
        hits.ask(all, |path, _| {
            asked += 1;
            if asked % LOOKUPS_PER_PIN == 0 {
                guard = tables.cuckoo.pin();
            }
            let gate = || index.may_contain(path);
            match tables.cuckoo.get_gated(path.as_bytes(), &guard, gate) {
                Gated::Found(entry) => entry.value()[VALUE_BYTES - 1] == 7,
                Gated::Missing | Gated::Refused => false,
            }
        })
    };
    rows.add("cuckoo hit gated by may_contain", gated);
    let some = |paths: &Vec<String>| {
        let picks = picks(Spread::Uniform, paths.len(), all, round + 100);
        Questions::new(picks.iter().map(|&at| &paths[at]).collect::<Vec<_>>().into_iter())
    };
    let (leaves, folders) = (some(&shape.unknown_leaves), some(&shape.unknown_folders));
    rows.add("contains, unknown leaf", leaves.ask(0, |path, _| index.contains(path)));
    rows.add("may_contain, unknown leaf", leaves.ask(0, |path, _| index.may_contain(path)));
    rows.add("contains, unknown folder", folders.ask(0, |path, _| index.contains(path)));
    rows.add("may_contain, unknown folder", folders.ask(0, |path, _| index.may_contain(path)));
    rows.add("HashMap miss", folders.ask(0, |path, _| tables.map.contains_key(path.as_bytes())));
}

fn questions(shape: &Shape, spread: Spread, seed: u64) -> Questions {
    let picks = picks(spread, shape.paths.len(), QUESTIONS, seed);
    Questions::new(picks.iter().map(|&at| &shape.paths[at]))
}

fn peer_rows<P: Peer>(rows: &mut Rows, shape: &Shape, rounds: u64) {
    let began = Instant::now();
    let mut peer = P::build(&shape.paths);
    let built = began.elapsed().as_nanos() as f64;
    rows.add(&format!("{} build, per path", P::NAME), built / shape.paths.len() as f64);
    let fresh: Vec<&String> = {
        let mut fresh: Vec<&String> = shape.unknown_leaves.iter().collect();
        fastrand::Rng::with_seed(3).shuffle(&mut fresh);
        fresh.into_iter().take(100_000).collect()
    };
    for round in 0..rounds {
        let hits = questions(shape, Spread::Uniform, round);
        let nanos = hits.ask(QUESTIONS, |path, with_nul| match P::NAME {
            "blart (ART)" => peer.contains(with_nul),
            _ => peer.contains(path),
        });
        rows.add(&format!("{} hit", P::NAME), nanos);
        let began = Instant::now();
        let added = fresh.iter().filter(|path| peer.insert(path)).count();
        let nanos = began.elapsed().as_nanos() as f64 / fresh.len() as f64;
        rows.add(&format!("{} insert", P::NAME), nanos);
        let began = Instant::now();
        let removed = fresh.iter().filter(|path| peer.remove(path)).count();
        let nanos = began.elapsed().as_nanos() as f64 / fresh.len() as f64;
        rows.add(&format!("{} remove", P::NAME), nanos);
        assert_eq!(added, removed);
    }
}

/// Listings of 100, a scan and a count, against a range over the obvious structure.
fn order_rows(rows: &mut Rows, shape: &Shape, index: &PathIndex, set: &BTreeSet<Box<str>>) {
    const CALLS: usize = 5000;
    let picks = picks(Spread::Uniform, shape.paths.len(), CALLS, 9);
    let folders: Vec<&str> = picks
        .iter()
        .map(|&at| shape.paths[at].rsplit_once('/').expect("shapes have folders").0)
        .collect();
    let mut time = |name: &str, call: &dyn Fn(&str) -> usize| {
        let began = Instant::now();
        let found: usize = folders.iter().map(|folder| call(folder)).sum();
        let nanos = began.elapsed().as_nanos() as f64 / CALLS as f64;
        black_box(found);
        rows.add(name, nanos);
    };
    time("PathIndex list 100", &|folder| index.list(folder, None, 100).len());
    time("BTreeSet list 100 (leaves only)", &|folder| {
        let prefix = format!("{folder}/");
        let from = (Bound::Included(prefix.as_str()), Bound::Unbounded);
        let names = set.range::<str, _>(from).take_while(|path| path.starts_with(&prefix));
        names.take(100).map(|path| path[prefix.len()..].to_owned()).collect::<Vec<_>>().len()
    });
    time("PathIndex scan 100", &|folder| {
        let parent = folder.rsplit_once('/').map_or(folder, |(parent, _)| parent);
        index.scan(parent, None, 100).len()
    });
    time("PathIndex count", &|folder| index.count(folder) as usize);
}

fn main() {
    let mut arguments = std::env::args().skip(1).filter_map(|text| text.parse::<usize>().ok());
    let count = arguments.next().unwrap_or(1_000_000);
    let rounds = arguments.next().unwrap_or(5) as u64;
    let only = arguments.next();
    let is_grown = std::env::args().any(|argument| argument == "grown");
    let build = if is_grown { grown } else { PathIndex::build };
    let mut json = Vec::new();
    for (number, shape) in shapes(count).enumerate() {
        if only.is_some_and(|only| only != number) {
            continue;
        }
        let tables = tables(&shape, build(&shape.paths));
        for spread in [Spread::Uniform, Spread::Zipf] {
            let mut rows = Rows::default();
            for round in 0..rounds {
                let hits = questions(&shape, spread, round);
                gate_rows(&mut rows, &tables, &hits, &shape, round);
            }
            rows.print(&format!("{}, {spread:?}", shape.name), &mut json);
        }
        let bytes = tables.index.memory_bytes() as f64 / shape.paths.len() as f64;
        let key: usize = shape.paths.iter().map(String::len).sum();
        let key = key as f64 / shape.paths.len() as f64;
        println!(
            "\nmemory: {bytes:.1} bytes per path of {key:.1} bytes, cuckoo load {:.2} of {CUCKOO_LOAD}",
            tables.cuckoo.load_factor()
        );
        drop(tables.map);
        drop(tables.cuckoo);
        if number == 0 || only.is_some() {
            let mut rows = Rows::default();
            peer_rows::<PathIndex>(&mut rows, &shape, rounds);
            peer_rows::<BTreeMap<Box<str>, ()>>(&mut rows, &shape, rounds);
            peer_rows::<RwLock<BTreeSet<Box<str>>>>(&mut rows, &shape, rounds);
            peer_rows::<Radix>(&mut rows, &shape, rounds);
            let set = shape.paths.iter().map(|path| path.as_str().into()).collect();
            for _ in 0..rounds {
                order_rows(&mut rows, &shape, &tables.index, &set);
            }
            rows.print(&format!("{}, peers", shape.name), &mut json);
        }
    }
    println!("\n```json\n[{}]\n```", json.join(",\n "));
}
