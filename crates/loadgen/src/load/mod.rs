//! `kallisto bench http|resp|mixed|herd`: load on a server that speaks Vault's API or Redis's protocol.
//!
//! `arguments` makes a [`plan::LoadPlan`], `prepare` writes the data and makes the logins, `run` sends requests
//! over connections that stay and `herd` lets clients connect all at once; `figures` is what both bring
//! back, `report` and `plot` show it. Each thread of a run has its own `poll`, `connection`s and
//! random numbers, so the generator costs a fraction of what it measures: no HTTP library, one read and one
//! write a turn, one look at the clock a turn.
//!
//! Invariants:
//! - With a rate, a latency counts from when its request was due, not from when a connection was free
//!   for it; what waits in vain to the end counts with its age. So a stall is seen by all it delayed.
//! - Rates and latencies are those of good answers. What was refused or lost is an error, once, and nothing else.
//! - Every run ends: the time of load, of draining and of a herd has a limit, and so has the number of
//!   connections that may fail.

mod arguments;
mod connection;
mod figures;
mod herd;
mod keys;
mod plan;
mod plot;
mod poll;
mod prepare;
mod process;
mod progress;
mod protocol;
mod report;
mod run;
mod target;

use std::time::Instant;

pub(super) use arguments::LoadCommand;

/// The clock of a run, which counts nanoseconds from its start.
#[derive(Clone, Copy)]
struct RunClock(Instant);

impl RunClock {
    #[expect(clippy::disallowed_methods, reason = "measuring time is what this command does")]
    fn start() -> Self {
        Self(Instant::now())
    }

    fn nanos(self) -> u64 {
        u64::try_from(self.0.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}
