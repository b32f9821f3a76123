//! A real process on a real disk, killed with SIGKILL at a random moment, again and again: what it said was committed is
//! there, and SSTs on the disk lose no entry.
//!
//! The test runs itself as a second process, with a directory in its environment.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use kallisto_lsm::disk::RealDisk;
use kallisto_lsm::{Background, Engine, Options};

mod common;

const DIR: &str = "KALLISTO_LSM_KILL9_DIR";
const ROUNDS: u64 = 12;

fn options() -> Options {
    Options { memtable_bytes: 16 << 10, ..common::small(Background::Threads(1)) }
}

fn value(n: u64) -> Vec<u8> {
    n.to_be_bytes().repeat(1 + usize::try_from(n % 20).unwrap())
}

/// The process that is killed; does nothing when the tests run it without a directory.
#[test]
fn writer_process() {
    let Some(dir) = std::env::var_os(DIR) else { return };
    let engine = Engine::open(RealDisk::shared(), PathBuf::from(dir), options()).unwrap();
    let start = engine.scan(..).unwrap().count() as u64;
    let mut out = std::io::stdout().lock();
    for n in start..start + 100_000 {
        engine.put(&n.to_be_bytes(), &value(n)).unwrap();
        writeln!(out, "committed {n}").unwrap();
        out.flush().unwrap();
    }
}

#[test]
fn sigkill_loses_nothing_that_was_committed() {
    let dir = std::env::temp_dir().join(format!("kallisto-lsm-kill9-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&dir);
    let mut dice = fastrand::Rng::with_seed(1);
    let mut committed = None;
    for round in 0..ROUNDS {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "writer_process", "--nocapture"])
            .env(DIR, &dir)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let acknowledged = lines.filter_map(|line| {
            line.ok()?.split_once("committed ").and_then(|(_, n)| n.parse::<u64>().ok())
        });
        committed = acknowledged.take(dice.usize(1..400)).last().or(committed);
        child.kill().unwrap();
        child.wait().unwrap();
        let engine = Engine::open(RealDisk::shared(), &dir, options()).unwrap();
        engine.check().unwrap();
        let all: Vec<_> = engine.scan(..).unwrap().map(Result::unwrap).collect();
        let last = committed.expect("every round commits something");
        assert!(all.len() as u64 > last, "round {round}: {} of {last}", all.len());
        for (n, (key, got)) in (0u64..).zip(&all) {
            assert_eq!((key.as_slice(), got), (&n.to_be_bytes()[..], &value(n)));
        }
    }
    std::fs::remove_dir_all(&dir).unwrap();
}
