//! `cargo x campaign`: long searches that go on where they stopped, each with one command.
//!
//! [`kinds`] lists them, each with the figure it aims at. A campaign runs in parts of a minute: a program tries seed after seed
//! (`kallisto_campaign`), says how far it got, and [`ledger`] has it in `tests/campaigns.md` before the next part begins. So a campaign
//! may be stopped at any time, and the next one begins at the first seed that was not tried. A part that fails ends the campaign; its
//! seeds are tried again next time.

mod kinds;
mod ledger;

use std::time::{Duration, Instant};

use kallisto_campaign::{CampaignPart, CampaignReach, VARIABLE};

use self::kinds::CampaignKind;
use self::ledger::{CampaignLedger, CampaignRow};
use crate::process::Program;
use crate::steps::{StepOutcome, UsageMistake, VerbStep, say};

/// Seconds of each campaign where nobody says how many.
const SECS_DEFAULT: u64 = 600;
/// Longest campaign, in seconds: a week.
const SECS_MAX: u64 = 7 * 24 * 3600;
/// Seconds of a part.
const PART_SECS: u64 = 60;

/// Without arguments, tells how far each campaign is. Else runs the campaigns whose names begin as the first argument says, or all, for the
/// seconds that the second one says, each.
pub(crate) fn run(args: &[String]) -> Result<Vec<VerbStep>, UsageMistake> {
    let all = kinds::all();
    let Some(wanted) = args.first() else {
        return Ok(vec![VerbStep::run("campaign", || tell(&all))]);
    };
    let secs = match args.get(1).map(|text| text.parse()) {
        None => SECS_DEFAULT,
        Some(Ok(secs @ 1..=SECS_MAX)) => secs,
        Some(_) => {
            return Err(UsageMistake(format!("{:?}: seconds go from 1 to {SECS_MAX}", args[1])));
        }
    };
    let chosen: Vec<_> = all
        .iter()
        .filter(|kind| wanted == "all" || kind.name.starts_with(wanted.as_str()))
        .collect();
    if chosen.is_empty() {
        return Err(UsageMistake(format!(
            "no campaign is called {wanted:?}; see cargo x campaign"
        )));
    }
    Ok(chosen
        .into_iter()
        .map(|kind| VerbStep::run(&kind.name, || pursue(kind, Duration::from_secs(secs))))
        .collect())
}

/// A table of all campaigns.
fn tell(all: &[CampaignKind]) -> StepOutcome {
    let rows = match CampaignLedger::open().rows() {
        Ok(rows) => rows,
        Err(what) => return failed(&what),
    };
    say(&format!("{:<22} {:>16} {:>16} {:>8}  {:>12}", "campaign", "done", "aim", "", "next seed"));
    for kind in all {
        let done = ledger::count(&rows, &kind.name);
        say(&format!(
            "{:<22} {:>16} {:>16} {:>7.1}%  {:>12}  {}",
            kind.name,
            thousands(done),
            thousands(kind.aim),
            percent(done, kind.aim),
            ledger::next_seed(&rows, &kind.name),
            kind.unit,
        ));
    }
    StepOutcome::Passed
}

/// Runs parts of a campaign for this long.
fn pursue(kind: &CampaignKind, lasts: Duration) -> StepOutcome {
    let ledger = CampaignLedger::open();
    let rows = match ledger.rows() {
        Ok(rows) => rows,
        Err(what) => return failed(&what),
    };
    let before = ledger::count(&rows, &kind.name);
    let mut row = CampaignRow {
        date: today(),
        campaign: kind.name.clone(),
        first: ledger::next_seed(&rows, &kind.name),
        next: None,
        count: 0,
        secs: 0,
        commit: commit(),
    };
    let start = now();
    while start.elapsed() < lasts {
        let began = now();
        let left = (lasts.saturating_sub(start.elapsed()).as_secs()).clamp(1, PART_SECS);
        let first = row.next.unwrap_or(row.first);
        let part = CampaignPart { first, lasts: Duration::from_secs(left) };
        let mut reach = None;
        let outcome =
            kind.program().with_variable(VARIABLE, &part.to_string()).run_reading(|line| {
                match CampaignReach::read(line) {
                    Some(read) => reach = Some(read),
                    None => say(line),
                }
            });
        let reach = match (outcome, reach) {
            (StepOutcome::Passed, Some(reach)) => reach,
            (StepOutcome::Passed, None) => return failed("it did not say how far it got"),
            (outcome, _) => {
                eprintln!("{}: failed in the part from seed {first}", kind.name);
                return outcome;
            }
        };
        let written = row.clone();
        row.next = Some(reach.next);
        row.count += reach.count;
        row.secs += began.elapsed().as_secs();
        if let Err(what) = ledger.write(&written, &row) {
            return failed(&what);
        }
        let done = before + row.count;
        say(&format!(
            "{}: {} of {} {} ({:.1} %), next seed {}",
            kind.name,
            thousands(done),
            thousands(kind.aim),
            kind.unit,
            percent(done, kind.aim),
            reach.next,
        ));
    }
    StepOutcome::Passed
}

fn failed(what: &str) -> StepOutcome {
    eprintln!("{what}");
    StepOutcome::Failed(1)
}

/// The commit that is tried, with a `+` where files differ from it.
fn commit() -> String {
    let head = Program::new("git", ["rev-parse", "--short=8", "HEAD"]).output();
    let head = head.map_or_else(|_| "unknown".to_owned(), |head| head.trim().to_owned());
    let changed = Program::new("git", ["status", "--porcelain", "--untracked-files=no"]).output();
    let is_ledger = |line: &str| line.ends_with(ledger::FILE);
    let is_changed = changed.is_ok_and(|lines| lines.lines().any(|line| !is_ledger(line)));
    if is_changed { head + "+" } else { head }
}

/// The day, in UTC.
fn today() -> String {
    let day = Program::new("date", ["-u", "+%F"]).output();
    day.map_or_else(|_| "unknown".to_owned(), |day| day.trim().to_owned())
}

fn percent(done: u64, aim: u64) -> f64 {
    done as f64 * 100.0 / aim as f64
}

/// A number with commas, as people read it.
fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[expect(clippy::disallowed_methods, reason = "a campaign lasts as long as a person asks for")]
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_commas() {
        let texts = [0, 999, 1_000, 1_234_567].map(thousands);
        assert_eq!(texts, ["0", "999", "1,000", "1,234,567"]);
    }

    #[test]
    fn what_is_no_campaign_is_refused() {
        let run = |line: &str| {
            run(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>()).is_err()
        };
        for wrong in ["no-such-campaign", "flips 0", "flips x", "flips 99999999"] {
            assert!(run(wrong), "{wrong}");
        }
    }
}
