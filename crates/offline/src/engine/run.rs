//! `kallisto engine run`: a file of commands against a directory.
//!
//! The arguments become a [`Manner`]; [`drive`] moves lines from the input to the [`EngineSession`].
//! Whatever ends a run (the end of the input, a bad line, a full disk) goes the same way:
//! what was done is synced, the answers up to there are written, the store is closed, and only
//! then is it said what was wrong.

use std::io::{IsTerminal, Write};
use std::num::NonZeroU64;
use std::path::PathBuf;

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use kallisto_lsm::disk::RealDisk;
use kallisto_lsm::{Engine, Error as StoreError, LogKeeping, Options, SyncMode};

use super::failure::EngineFailure;
use super::files::{self, CommandInput};
use super::input::{Lines, Refill};
use super::keys::KeyFormat;
use super::kind;
use super::line::{self, EngineLineError};
use super::report::{RateOverTime, Style, clock};
use super::session::{EngineSession, Manner};
use kallisto_command::outcome::Outcome;

/// A file of commands at least this long gets a progress bar, in bytes.
const PROGRESS_BYTES_MIN: u64 = 16 << 20;

/// Run a file of commands against a directory
///
/// One command a line, in any case: PUT KEY VALUE, GET KEY, DEL KEY, SCAN FROM TO, or P, G, D and
/// S for short. A value is the rest of the line, blanks included. Lines end with LF or CR LF; empty
/// ones are passed over. GET prints the value, or EMPTY if the key is missing. SCAN prints the
/// values of all keys from FROM to TO, both included, in the order of the keys, or one EMPTY.
///
/// Input and output are streamed. Every command sees what those before it wrote. At a line that is
/// no command the run stops with its number: everything before it is kept and answered. At the end
/// everything is on the disk. What was done, and how fast, goes to standard error.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  kallisto engine run -i commands.txt -o answers.txt\n  \
    printf 'PUT 9 nine\\nPUT 10 ten\\nSCAN 1 100\\n' | \
    kallisto engine run -i - -o - --dir numbers --keys u64 --with-keys\n  \
    kallisto engine run -i commands.txt -o answers.txt --json --every 100000\n\n\
    Exit codes: 0 done, 1 a bad line or a mistake in the call, 2 the store is damaged or failed")]
pub struct RunArgs {
    /// File of commands; - is standard input
    #[arg(short = 'i', long, value_name = "FILE", value_parser = files::path)]
    input: PathBuf,
    /// File for the answers, emptied first; - is standard output
    #[arg(short = 'o', long, value_name = "FILE", value_parser = files::path)]
    output: PathBuf,
    /// Directory of the store, made if it is not there
    #[arg(long, value_name = "DIR", default_value = "kallisto-engine", value_parser = files::path)]
    dir: PathBuf,
    /// What keys are; a store takes the kind that it was made with
    #[arg(long, value_name = "KIND", value_enum, default_value = "bytes")]
    keys: KeyFormat,
    /// Print KEY VALUE instead of the value
    #[arg(long)]
    with_keys: bool,
    /// When writes are synced to the disk: commit (each), a number (at most so many may be lost in
    /// a power cut, and none that an answer has seen) or none (at the end)
    #[arg(long, value_name = "WHEN", default_value = "100000", value_parser = sync_policy)]
    sync: SyncPolicy,
    /// Print the seconds of every so many operations
    #[arg(long, value_name = "COUNT")]
    every: Option<NonZeroU64>,
    /// Print figures as JSON lines
    #[arg(long)]
    json: bool,
}

/// `--sync` as a number: most writes that may be committed and not durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SyncPolicy(Option<NonZeroU64>);

fn sync_policy(text: &str) -> Result<SyncPolicy, String> {
    match text {
        "none" => Ok(SyncPolicy(None)),
        "commit" => Ok(SyncPolicy(Some(NonZeroU64::MIN))),
        _ => {
            let number = text.parse().map_err(|_| "it must be commit, none or a number above 0")?;
            Ok(SyncPolicy(Some(number)))
        }
    }
}

impl RunArgs {
    /// Runs the file; figures go to standard error as they come.
    pub(super) fn run(self) -> Result<Outcome, EngineFailure> {
        files::refuse_same(&self.input, &self.output)?;
        let source = files::open_source(&self.input)?;
        let bar = self.progress(source.bytes);
        let style = if self.json { Style::Json } else { Style::Text };
        let engine = open(self.dir.clone())?;
        kind::claim(&engine, &self.dir, self.keys)?;
        // After the store: a run that cannot start leaves an older file of answers alone.
        let sink = files::create_sink(&self.output)?;

        let begin = clock();
        let mut session = EngineSession::new(&engine, self.manner(), sink);
        let pace = self.every.map(|every| RateOverTime::new(every, style));
        let driven = drive(source, &mut session, self.keys, pace, &bar);
        let finished = session.finish();
        let tally = session.tally();
        drop(session);
        let closed = unless_full(engine.close());
        bar.finish_and_clear();

        let result = driven.and(finished).and(closed);
        // When the store failed, not all that was counted is in it.
        if !matches!(result, Err(EngineFailure::Store(..))) {
            say(&tally.summary(clock() - begin, style));
        }
        result.map(|()| Outcome::default())
    }

    fn manner(&self) -> Manner {
        Manner { keys: self.keys, with_keys: self.with_keys, sync_every: self.sync.0 }
    }

    fn progress(&self, bytes: Option<u64>) -> ProgressBar {
        let quiet = self.json || self.every.is_some() || !std::io::stderr().is_terminal();
        let Some(bytes) = bytes.filter(|&bytes| bytes >= PROGRESS_BYTES_MIN && !quiet) else {
            return ProgressBar::hidden();
        };
        let bar = ProgressBar::new(bytes);
        let template = "[{wide_bar}] {bytes}/{total_bytes} {bytes_per_sec} {eta}";
        match ProgressStyle::with_template(template) {
            Ok(style) => bar.with_style(style),
            Err(_) => bar,
        }
    }
}

/// What closing a store said whose log was just synced: what could not be written from memory to files for want of room is in the log,
/// from which the next open reads it.
fn unless_full(closed: Result<(), StoreError>) -> Result<(), EngineFailure> {
    match closed {
        Err(StoreError::Full(_)) => Ok(()),
        closed => closed.map_err(EngineFailure::from),
    }
}

/// Opens the store; when to sync is decided by the session.
fn open(dir: PathBuf) -> Result<Engine, EngineFailure> {
    let durability = LogKeeping::Wal(SyncMode::OnDemand);
    let options = Options { durability, ..Options::default() };
    Ok(Engine::open(RealDisk::shared(), dir, options)?)
}

/// Carries out every line of the input.
fn drive(
    source: CommandInput,
    session: &mut EngineSession<'_>,
    keys: KeyFormat,
    mut pace: Option<RateOverTime>,
    bar: &ProgressBar,
) -> Result<(), EngineFailure> {
    let name = source.name;
    let bad = |number: u64, wrong: EngineLineError| {
        EngineFailure::mistake(format!("{name}:{number}: {wrong}"))
    };
    let mut lines = Lines::new(source.from);
    let mut number = 0;
    loop {
        let line = match lines.next_buffered() {
            Some(line) => line,
            None => {
                session.settle().map_err(|failure| failure.during(&at(&name, number)))?;
                bar.set_position(lines.bytes_read());
                let refilled = lines.refill();
                match refilled
                    .map_err(|e| EngineFailure::mistake(format!("cannot read {name}: {e}")))?
                {
                    Refill::More => continue,
                    Refill::TooLong => return Err(bad(number + 1, EngineLineError::LineTooLong)),
                    Refill::Ended => match lines.remainder() {
                        Some(line) => line,
                        None => return Ok(()),
                    },
                }
            }
        };
        number += 1;
        let command = line::parse(lines.bytes(line), keys).map_err(|wrong| bad(number, wrong))?;
        let Some(command) = command else { continue };
        session.execute(command).map_err(|failure| failure.during(&at(&name, number)))?;
        if let Some(pace) = &mut pace
            && let Some(line) = pace.line(session.tally().operations())
        {
            say(&line);
        }
    }
}

/// Where a store failure showed; writes that were still gathered lie some lines before.
fn at(name: &str, number: u64) -> String {
    format!("{name}: at line {number}")
}

fn say(text: &str) {
    // Nobody is left to hear that stderr is gone.
    let _ = std::io::stderr().write_all(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sync_is_each_a_number_or_none() {
        assert_eq!(sync_policy("commit"), Ok(SyncPolicy(NonZeroU64::new(1))));
        assert_eq!(sync_policy("1000"), Ok(SyncPolicy(NonZeroU64::new(1000))));
        assert_eq!(sync_policy("none"), Ok(SyncPolicy(None)));
        for text in ["0", "-1", "", "always", "1.5"] {
            assert!(sync_policy(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_disk_that_is_full_at_the_end_takes_nothing_back() {
        assert!(unless_full(Err(StoreError::Full("write".to_owned()))).is_ok());
        assert!(unless_full(Err(StoreError::Poisoned("sync".to_owned()))).is_err());
    }
}
