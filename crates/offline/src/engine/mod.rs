//! `kallisto engine`: the storage engine by itself, driven by files of commands.
//!
//! No server, no token, no encryption: a directory, the engine of `kallisto-lsm` and a text file.
//! It is how the engine is tried, measured, checked and looked into.
//!
//! - `line` reads one line into a command, `keys` says what a key is, `input` cuts a stream into
//!   lines: pure, no store;
//! - `kind` holds a store to the kind of keys that it was made with;
//! - `run` and `session` carry commands out; `report` says what that took;
//! - `inspect` holds `check`, `stats`, `compact` and `dump`;
//! - `files` is the disk seam for the text files; the store's own files belong to `kallisto-lsm`;
//! - `failure` decides exit codes: 1 is fixed in the call or its input, 2 is a matter of the store.

mod failure;
mod files;
mod input;
mod inspect;
mod keys;
mod kind;
mod line;
mod report;
mod run;
mod session;

use std::path::Path;

use clap::Subcommand;

pub(crate) use self::files::path;
pub(crate) use self::input::{Lines, Refill};
use kallisto_command::error::Error;
use kallisto_command::outcome::Outcome;

/// The verbs of the engine.
#[derive(Subcommand, Debug)]
#[expect(missing_docs, reason = "each is described where its arguments are, as its help says it")]
pub enum EngineCommand {
    Run(run::RunArgs),
    Check(inspect::CheckArgs),
    Stats(inspect::StatsArgs),
    Compact(inspect::CompactArgs),
    Dump(inspect::DumpArgs),
}

impl EngineCommand {
    /// Does what was asked; what fails is an outcome with its own exit code.
    ///
    /// # Errors
    /// What was wrong with the call, its input or the store.
    pub fn run(self) -> Result<Outcome, Error> {
        let done = match self {
            Self::Run(run) => run.run(),
            Self::Check(check) => check.run(),
            Self::Stats(stats) => stats.run(),
            Self::Compact(compact) => compact.run(),
            Self::Dump(dump) => dump.run(),
        };
        Ok(done.unwrap_or_else(Outcome::from))
    }
}

/// The file of commands at `path`, for whoever else reads one; an error is a line of text.
pub(crate) fn commands_at(path: &Path) -> Result<files::CommandInput, String> {
    files::open_source(path).map_err(|failure| failure.to_string())
}
