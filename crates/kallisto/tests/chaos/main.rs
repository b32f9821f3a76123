//! A cluster of real processes under real faults, and clients whose histories are judged.
//!
//! Three servers of the release build speak to each other through a proxy of ours that cuts, stalls and slows each
//! direction of each pair ([`net`]); they are killed, stopped, restarted, removed and joined again ([`cluster`]). Meanwhile
//! clients read, write, compare and delete through all three, and remember what they asked and heard ([`load`]). A history
//! has to be linearizable (`kallisto_sim::history`): so no acknowledged write is lost, no two check-and-sets win at once,
//! and no read that asks for it is of the past, whichever server answers. [`scenes`] is what happens.
//!
//! Syncs fail, disks fill up and clocks are set in [`disks`] and [`clocks`], under the same load, on servers with a library
//! of ours before libc ([`faults`]).
//!
//! What operators are told of it all is looked at in [`told`].
//!
//! [`staleness`] measures how old answers are that ask for nothing, and for how long a revoked token is let in.
//!
//! Servers of two builds make up one cluster in [`builds`].
//!
//! In [`database`] the servers keep their records in PostgreSQL, which is killed and cut off as well.
//!
//! [`scenes`] run twice on the same directories, so what one round leaves the other begins with.
//!
//! `KALLISTO_CHAOS_SECS` makes the random part longer, `KALLISTO_CHAOS_SEED` draws the same faults again,
//! `KALLISTO_FAILOVER_KILLS` says how many leaders [`failover`] kills, `KALLISTO_DATABASE_KILLS` and `KALLISTO_DATABASE_RESTARTS`
//! how many leaders [`database`] kills and how often it restarts PostgreSQL, and `KALLISTO_LEDGER` names a file that gets a line
//! per run: `cargo test --release -p kallisto --test chaos -- --nocapture`. `cargo x campaign chaos` goes on with other seeds.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![expect(clippy::disallowed_methods, reason = "a test may touch disk and ask for the time")]
#![expect(clippy::print_stdout, reason = "what was done and found is for people")]

mod builds;
mod clocks;
mod cluster;
mod database;
mod disks;
mod failover;
mod faults;
mod http;
mod load;
mod net;
#[path = "../support/ports.rs"]
mod ports;
#[path = "../../../store_postgres/tests/store/postgres.rs"]
mod postgres;
#[path = "../../../store_postgres/tests/store/proxy.rs"]
mod proxy;
mod scenes;
mod staleness;
mod told;

use std::io::Write;
use std::time::{Duration, Instant};

/// Longest that anything may take before the test fails.
const PATIENCE: Duration = Duration::from_secs(40);

/// Waits until `holds`, at most [`PATIENCE`].
#[track_caller]
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < PATIENCE, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A number from the environment.
fn given(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap())
}

/// The day, for the ledger.
fn today() -> String {
    jiff::Timestamp::try_from(std::time::SystemTime::now()).unwrap().to_string()[..10].to_owned()
}

/// Adds a line to the ledger, if one is named.
fn enter(line: &str) {
    let Ok(path) = std::env::var("KALLISTO_LEDGER") else { return };
    let mut file = std::fs::OpenOptions::new().append(true).open(path).unwrap();
    writeln!(file, "{line}").unwrap();
}
