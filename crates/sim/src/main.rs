//! `kallisto-sim`: a simulated cluster under faults, and the judge of histories.
//!
//! ```text
//! kallisto-sim [--seed N] [--seeds COUNT] [--secs S] [--core] [--database] [--sabotage NAME] [--ledger FILE] [-v]
//! kallisto-sim check FILE      is the history in FILE linearizable?
//! ```
//!
//! As a part of a campaign (`cargo x campaign`) it tries seeds until the time is up, and counts simulated seconds.
//!
//! Without arguments it runs what CI runs. One seed is repeated with `--seed N`, which runs just that; `-v` tells its events. The exit
//! code is 0 if everything held, 1 if something did not, and 2 where that cannot be said.
#![forbid(unsafe_code)]

mod arguments;

use std::fs::File;
use std::io::{BufReader, Write as _};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use arguments::{SimArguments, SimTask};
use jiff::Timestamp;
use kallisto_campaign::CampaignPart;
use kallisto_sim::Figures;
use kallisto_sim::campaign::{self, Campaign, RunFailure};
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
        SimTask::Simulate(campaign) => match CampaignPart::of_environment() {
            Ok(None) => simulate(&campaign, arguments.ledger.as_deref()),
            Ok(Some(part)) => simulate_part(&campaign, part),
            Err(what) => {
                eprintln!("{what}");
                ExitCode::from(UNDECIDED)
            }
        },
    }
}

/// Simulates seeds until the time is up.
fn simulate_part(campaign: &Campaign, part: CampaignPart) -> ExitCode {
    let is_broken = AtomicBool::new(false);
    let figures = Mutex::new(Figures::default());
    let reach = part.run(|seed| {
        let one = Campaign { first: seed, seeds: 1, ..*campaign };
        match campaign::run(&one, |_, _| {}) {
            Ok(ran) => {
                figures.lock().unwrap_or_else(PoisonError::into_inner).add(&ran);
                ran.simulated.as_secs()
            }
            Err(failure) => {
                tell(&one, &failure);
                is_broken.store(true, Ordering::Relaxed);
                0
            }
        }
    });
    eprintln!("{}", figures.into_inner().unwrap_or_else(PoisonError::into_inner).tell());
    if is_broken.into_inner() {
        return ExitCode::from(BROKEN);
    }
    // A closed pipe has nobody left to tell.
    let _ = writeln!(std::io::stdout(), "{reach}");
    ExitCode::SUCCESS
}

fn tell(campaign: &Campaign, failure: &RunFailure) {
    eprintln!("FAILED: seed {}: {}", failure.seed, failure.what);
    eprintln!("repeat it: {}", arguments::repeat(campaign, failure.seed));
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
            tell(campaign, &failure);
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
    let now = Timestamp::try_from(SystemTime::now()).unwrap_or_default();
    now.strftime("%F").to_string()
}
