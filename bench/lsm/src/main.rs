//! `bench-lsm`: the storage engine beside its peers, in one run, on one disk, with one data set.
//!
//! `bench-lsm [--quick] [--entries N] [--rounds N] [--engines a,b] [--dir DIR] [--json FILE]` prints a table;
//! `bench-lsm --classic ...` runs the 25 million of `classic.rs`. `--probe` is how it calls itself for the rows that need a
//! process of their own.
//!
//! Fills run one after the other, each once. Everything shorter runs in rounds in which every engine takes its turn, so
//! that drift of the machine hits all alike; the median counts. `stores` holds the engines, `rows` what is measured,
//! `machine` what the system knows, `table` what is printed.
#![expect(clippy::disallowed_methods, reason = "a bench is there to read the clock")]

mod classic;
mod machine;
mod rows;
mod stores;
mod table;

use std::path::PathBuf;

use rows::Plan;
use stores::ENGINES;

/// Where the data lies unless told otherwise; removed afterwards.
const DIR: &str = "target/bench-lsm-data";

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.first().map(String::as_str) {
        Some("--probe") => rows::probe(&args[1..]),
        Some("--classic") => classic::run(&args[1..]),
        _ => compare(&args),
    }
}

fn compare(args: &[String]) {
    let mut plan = Plan {
        entries: 5_000_000,
        rounds: 3,
        round_secs: 1.0,
        engines: ENGINES.to_vec(),
        dir: PathBuf::from(DIR),
    };
    let mut json = None;
    let mut args = args.iter();
    while let Some(name) = args.next() {
        let mut text = || args.next().unwrap_or_else(|| panic!("{name} wants a value")).as_str();
        match name.as_str() {
            "--quick" => (plan.entries, plan.round_secs) = (200_000, 0.2),
            "--entries" => plan.entries = text().parse().expect("a number"),
            "--rounds" => plan.rounds = text().parse().expect("a number"),
            "--dir" => plan.dir = PathBuf::from(text()),
            "--json" => json = Some(text().to_owned()),
            "--engines" => {
                let wanted: Vec<&str> = text().split(',').collect();
                plan.engines.retain(|engine| wanted.contains(&engine.name));
            }
            other => panic!("no option {other}"),
        }
    }
    if !ENGINES.iter().any(|engine| engine.name == "rocksdb") {
        eprintln!("\n*** SKIPPED: rocksdb: built without it\n");
    }
    let rows = rows::measure(&plan);
    print!("{}", table::markdown(&plan, &rows));
    if let Some(path) = json {
        std::fs::write(path, table::json(&plan, &rows)).expect("a writable file");
    }
    std::fs::remove_dir_all(&plan.dir).expect("our own folder");
}
