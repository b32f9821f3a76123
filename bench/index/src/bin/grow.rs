//! What an insert costs in an index that grows from nothing, and what a small index weighs.
//!
//! `grow [paths] [rounds]` inserts into an empty structure, one path after the other, and prints
//! the mean of the median round and the quantiles of single inserts over all rounds, clock
//! included. `grow small [indexes]` makes as many indexes of 1, 10 and 100 paths and prints what
//! the process grew by for each.
#![expect(clippy::disallowed_methods, reason = "a bench is there to read the clock")]

use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::Instant;

use kallisto_bench_index::{Peer, Radix, main_shape};
use kallisto_index::PathIndex;

/// Clients of the server's own bench, each of which counts up in a folder of its own.
const CLIENTS: usize = 8;

/// Paths in the order a loaded server sees them: a few folders, each counting up.
fn counting(count: usize) -> Vec<String> {
    (0..count).map(|n| format!("bench/p{}/k{}", n % CLIENTS, n / CLIENTS)).collect()
}

fn shuffled(count: usize) -> Vec<String> {
    let mut paths = main_shape(count).paths;
    fastrand::Rng::with_seed(5).shuffle(&mut paths);
    paths
}

/// Nanoseconds per insert of a whole run, and of every insert on its own.
struct Growth {
    mean: Vec<f64>,
    single: Vec<u32>,
}

fn grow<P: Peer>(paths: &[String], rounds: usize) -> Growth {
    let mut growth = Growth { mean: Vec::new(), single: Vec::new() };
    for _ in 0..rounds {
        let mut peer = P::build(&[]);
        let began = Instant::now();
        let added = paths.iter().filter(|path| peer.insert(path)).count();
        growth.mean.push(began.elapsed().as_nanos() as f64 / paths.len() as f64);
        assert_eq!(added, paths.len(), "every path is new");
        drop(peer);
        let mut peer = P::build(&[]);
        for path in paths {
            let began = Instant::now();
            black_box(peer.insert(path));
            growth.single.push(began.elapsed().as_nanos() as u32);
        }
    }
    growth.mean.sort_by(f64::total_cmp);
    growth.single.sort_unstable();
    growth
}

fn row<P: Peer>(order: &str, paths: &[String], rounds: usize) {
    let growth = grow::<P>(paths, rounds);
    let at = |share: f64| growth.single[((growth.single.len() - 1) as f64 * share) as usize];
    println!(
        "| {order}, {} | {} | {:.0} | {} | {} | {} | {:.0} |",
        paths.len(),
        P::NAME,
        growth.mean[growth.mean.len() / 2],
        at(0.5),
        at(0.99),
        at(0.999),
        f64::from(at(1.0)) / 1000.0
    );
}

fn resident_bytes() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm").expect("a Linux process");
    let pages = pages.split(' ').nth(1).expect("the resident pages come second");
    pages.parse::<usize>().expect("a number") * 4096
}

fn small(indexes: usize) {
    println!("| paths | resident bytes per index | `memory_bytes` |\n|---:|---:|---:|");
    for paths in [1, 10, 100] {
        let names: Vec<String> =
            (0..paths).map(|n| format!("team-{:02}/db-password-{n}", n % 7)).collect();
        let mut all = Vec::with_capacity(indexes);
        let before = resident_bytes();
        for _ in 0..indexes {
            let index = PathIndex::new();
            for name in &names {
                index.insert(name).expect("a valid path");
            }
            all.push(index);
        }
        let grown = resident_bytes().saturating_sub(before) / indexes;
        println!("| {paths} | {grown} | {} |", all[0].memory_bytes());
        // Kept, so that the next row does not live off what this one gave back.
        std::mem::forget(all);
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let first = arguments.next().unwrap_or_default();
    let second = arguments.next().and_then(|text| text.parse().ok());
    if first == "small" {
        return small(second.unwrap_or(10_000));
    }
    let (count, rounds) = (first.parse().unwrap_or(10_000), second.unwrap_or(11));
    println!("| order, paths | structure | mean ns | p50 | p99 | p99.9 | longest us |");
    println!("|---|---|---:|---:|---:|---:|---:|");
    for (order, paths) in [("counting up", counting(count)), ("shuffled", shuffled(count))] {
        row::<PathIndex>(order, &paths, rounds);
        row::<BTreeMap<Box<str>, ()>>(order, &paths, rounds);
        row::<Radix>(order, &paths, rounds);
    }
}
