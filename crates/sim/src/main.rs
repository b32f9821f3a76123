//! `kallisto-sim`: a simulated cluster under faults, and the judge of histories.
//!
//! ```text
//! kallisto-sim [--seed N] [--seeds COUNT] [--secs S] [--core] [--database] [--sabotage NAME] [--ledger FILE] [-v]
//! kallisto-sim check FILE      is the history in FILE linearizable?
//! ```
//!
//! Without arguments it runs what CI runs. One seed is repeated with `--seed N`, which runs just that; `-v` tells its events. The exit
//! code is 0 if everything held, 1 if something did not, and 2 where that cannot be said.
#![forbid(unsafe_code)]

mod arguments;

use std::fs::File;
use std::io::{BufReader, Write as _};
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use arguments::{SimArguments, SimTask};
use kallisto_sim::campaign::{self, Campaign};
use kallisto_sim::history::{self, HistoryVerdict};

/// Something did not hold.
const BROKEN: u8 = 1;
/// There is no answer.
const UNDECIDED: u8 = 2;
/// After so many seeds it is said how far it is.
const BEAT_SEEDS: u64 = 100;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let arguments = match SimArguments::parse(&args) {
        Ok(arguments) => arguments,
        Err(what) => {
            eprintln!("{what}\n{}", arguments::USAGE);
            return ExitCode::from(UNDECIDED);
        }
    };
    match arguments.task {
        SimTask::Check(file) => check(&file),
        SimTask::Simulate(campaign) => simulate(&campaign, arguments.ledger.as_deref()),
    }
}

fn simulate(campaign: &Campaign, ledger: Option<&str>) -> ExitCode {
    let Campaign { first, seeds, .. } = *campaign;
    let secs = campaign.lasts.as_secs();
    eprintln!("seeds {first}..{}, {secs} s each", first.saturating_add(seeds));
    let beat = |seed: u64, figures: &kallisto_sim::Figures| {
        if seeds > BEAT_SEEDS && (seed + 1 - first).is_multiple_of(BEAT_SEEDS) {
            let acknowledged = figures.acknowledged;
            eprintln!("{} of {seeds} seeds, {acknowledged} writes acknowledged", seed + 1 - first);
        }
    };
    match campaign::run(campaign, beat) {
        Ok(figures) => {
            eprintln!("{}", figures.tell());
            match ledger.map(|file| append(file, &figures.row(&today(), first))) {
                Some(Err(error)) => {
                    eprintln!("ledger: {error}");
                    ExitCode::from(UNDECIDED)
                }
                _ => ExitCode::SUCCESS,
            }
        }
        Err(failure) => {
            eprintln!("FAILED: seed {}: {}", failure.seed, failure.what);
            eprintln!("repeat it: {}", arguments::repeat(campaign, failure.seed));
            ExitCode::from(BROKEN)
        }
    }
}

fn check(file: &str) -> ExitCode {
    let operations = open(file)
        .map_err(|error| error.to_string())
        .and_then(|text| history::read(text).map_err(|error| error.to_string()));
    match operations {
        Ok(operations) => {
            let verdict = history::check(&operations);
            eprintln!("{file}: {verdict}");
            match verdict {
                HistoryVerdict::Linearizable(_) => ExitCode::SUCCESS,
                HistoryVerdict::Broken(_) => ExitCode::from(BROKEN),
                HistoryVerdict::Undecided { .. } => ExitCode::from(UNDECIDED),
            }
        }
        Err(error) => {
            eprintln!("{file}: {error}");
            ExitCode::from(UNDECIDED)
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "the file that a person names")]
fn open(file: &str) -> std::io::Result<BufReader<File>> {
    File::open(file).map(BufReader::new)
}

#[expect(clippy::disallowed_methods, reason = "the file that a person names")]
fn append(file: &str, row: &str) -> std::io::Result<()> {
    let mut file = std::fs::OpenOptions::new().append(true).open(file)?;
    writeln!(file, "{row}")
}

/// The day of a ledger's row, in UTC.
#[expect(clippy::disallowed_methods, reason = "a row of the ledger says when it was written")]
fn today() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    arguments::date_of(since.as_secs() / (24 * 3600))
}
