//! `kallisto bench`: the classic workload, in process, loads on a server (`load`), and starts over much
//! data (`scale`).
//!
//! In process: N puts over ten paths, then N gets of the same keys, through the core with
//! token, decision, index and hot table on, and no socket in between: what is measured is our own part
//! of a request. Latencies go into HDR histograms; the order of keys is drawn from a seed, so that a
//! run can be repeated.

#![forbid(unsafe_code)]

mod load;
mod report;
mod scale;
mod wait;
mod workload;

use std::io::IsTerminal;

use clap::{Args, Subcommand};

use kallisto_command::error::Error;
use kallisto_command::outcome::Outcome;

/// Most operations of one kind in a run; keeps the data set in memory.
const COUNT_MAX: u64 = 20_000_000;
/// Most gets in a run; bounds its time.
const GETS_MAX: u64 = 1_000_000_000;
/// Largest value of a secret in a run, in bytes.
const VALUE_BYTES_MAX: usize = 64 << 10;

/// Measure puts and gets in this process, or put load on a server
///
/// Without a subcommand: writes COUNT secrets at secret/bench/p0/k0, secret/bench/p1/k0 and so on over
/// ten paths, then reads each once, in an order drawn from the seed. One thread; nothing leaves the process.
#[derive(Args, Debug)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:\n  kallisto bench\n  kallisto bench -n 1000000 -json\n  \
    kallisto bench http -prepare\n  kallisto bench herd -n 10000 -prepare\n\n\
    Exit codes: 0 every key was read back, 1 a mistake in the call, 2 keys were lost"
)]
pub struct BenchArgs {
    #[command(subcommand)]
    other: Option<Other>,
    /// Puts, and as many gets after them
    #[arg(short = 'n', long, value_name = "COUNT", default_value_t = 10_000,
          value_parser = clap::value_parser!(u64).range(1..=COUNT_MAX))]
    count: u64,
    /// Gets, if not as many as puts
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..=GETS_MAX))]
    gets: Option<u64>,
    /// Bytes of each secret's value
    #[arg(long, value_name = "BYTES", default_value_t = 128)]
    value_bytes: usize,
    /// Seed of the order of the gets
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// The measurements besides the classic one.
#[derive(Subcommand, Debug)]
enum Other {
    #[command(flatten)]
    Load(load::LoadCommand),
    Scale(scale::ScaleArgs),
}

impl BenchArgs {
    /// Runs the workload and prints its figures.
    ///
    /// # Errors
    /// What was wrong with the call, or with what was measured.
    pub fn run(self) -> Result<Outcome, Error> {
        match self.other {
            Some(Other::Load(load)) => return load.run(),
            Some(Other::Scale(scale)) => return scale.run(),
            None => {}
        }
        if self.value_bytes > VALUE_BYTES_MAX {
            return Err(Error::usage(format!("-value-bytes must be at most {VALUE_BYTES_MAX}")));
        }
        let watched = std::io::stderr().is_terminal() && !self.json;
        let plan = workload::WorkloadPlan {
            puts: self.count,
            gets: self.gets.unwrap_or(self.count),
            value_bytes: self.value_bytes,
            seed: self.seed,
        };
        let figures = workload::run(plan, watched)
            .map_err(|error| Error::unusable(format!("the workload failed: {error}")))?;
        let lost = figures.hits < plan.gets;
        let text = if self.json { report::json(&figures) } else { report::table(&figures) };
        Ok(Outcome::print(text).with_code(if lost { 2 } else { 0 }))
    }
}
