//! A real process on a real disk, killed with SIGKILL at a random moment, again and again, in both modes: what it said was
//! committed is there. (The machine lives on; power cuts are `crash.rs`.)
//!
//! The test runs itself as a second process, with a directory and a mode in its environment.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use kallisto_lsm::disk::RealDisk;
use kallisto_store::{Batch, Durability, RaftOptions, RaftStore, Store};

mod common;

const DIR: &str = "KALLISTO_STORE_KILL9_DIR";
const MODE: &str = "KALLISTO_STORE_KILL9_MODE";
const ROUNDS: u64 = 6;
/// Commits that the process has under way at a time.
const AT_ONCE: u64 = 8;

fn options(mode: &str) -> RaftOptions {
    let mut options = common::threaded(match mode {
        "batch" => Durability::BATCH,
        _ => Durability::Strict,
    });
    options.engine.memtable_bytes = 64 << 10;
    options.log_segment_bytes = 64 << 10;
    options
}

fn value(n: u64) -> Vec<u8> {
    n.to_be_bytes().repeat(1 + usize::try_from(n % 20).unwrap())
}

/// The process that is killed; does nothing when the tests run it without a directory.
#[test]
fn writer_process() {
    let Some(dir) = std::env::var_os(DIR) else { return };
    let mode = std::env::var(MODE).unwrap();
    let disk = RealDisk::shared();
    let store = RaftStore::open(disk, PathBuf::from(dir), options(&mode)).unwrap();
    let start = common::state_of(&*store).len() as u64;
    let mut out = std::io::stdout().lock();
    for first in (start..start + 100_000).step_by(usize::try_from(AT_ONCE).unwrap()) {
        let commits: Vec<_> = (first..first + AT_ONCE)
            .map(|n| {
                let mut batch = Batch::new();
                batch.put(n.to_be_bytes().to_vec(), value(n));
                store.commit(batch)
            })
            .collect();
        for (n, commit) in (first..).zip(commits) {
            commit.wait().unwrap();
            writeln!(out, "committed {n}").unwrap();
            out.flush().unwrap();
        }
    }
}

#[test]
fn sigkill_loses_nothing_that_was_acknowledged() {
    for mode in ["strict", "batch"] {
        let name = format!("kallisto-store-kill9-{mode}-{}", std::process::id());
        let dir = std::env::temp_dir().join(name);
        let _ = std::fs::remove_dir_all(&dir);
        let mut dice = fastrand::Rng::with_seed(1);
        let mut committed = None;
        for round in 0..ROUNDS {
            let mut child = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "writer_process", "--nocapture"])
                .env(DIR, &dir)
                .env(MODE, mode)
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            let lines = BufReader::new(child.stdout.take().unwrap()).lines();
            let acknowledged = lines.filter_map(|line| {
                line.ok()?.split_once("committed ").and_then(|(_, n)| n.parse::<u64>().ok())
            });
            committed = acknowledged.take(dice.usize(1..3000)).last().or(committed);
            child.kill().unwrap();
            child.wait().unwrap();
            let store = RaftStore::open(RealDisk::shared(), &dir, options(mode)).unwrap();
            let all = common::state_of(&*store);
            let last = committed.expect("every round commits something");
            assert!(all.len() as u64 > last, "{mode} {round}: {} of {last}", all.len());
            for (n, (key, (got, _))) in (0_u64..).zip(&all) {
                assert_eq!((key.as_slice(), got), (&n.to_be_bytes()[..], &value(n)));
            }
        }
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
