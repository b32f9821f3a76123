//! `kallisto exec`: a prompt over an encrypted store in a directory, for a person or a script.
//!
//! No server, no token: `kallisto-securedb`, its key, and lines of commands.
//!
//! - `key` finds the key, `line` reads one line into a command: pure but for the asking;
//! - `session` carries commands out, `measure` is its `BENCH`, `loglevel` its `LOGLEVEL`;
//! - `script` feeds it a file or standard input, `prompt` a terminal with history and completion;
//! - `failure` decides exit codes: 1 is fixed in the call or the script, 2 is a matter of the store.

mod failure;
mod key;
mod line;
mod loglevel;
mod measure;
mod prompt;
mod script;
mod session;

use std::io::IsTerminal;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use kallisto_securedb::{DbOptions, Error as StoreError, SecureDb, WriteDurability};

use self::failure::ExecFailure;
use self::loglevel::ExecLogLevel;
use self::session::StoreSession;
use kallisto_command::error::Error;
use kallisto_command::outcome::Outcome;

/// Work on an encrypted store in a directory, without a server
///
/// Commands, one a line, verbs in any case: PUT PATH KEY VALUE (the value is the rest of the line),
/// GET PATH [KEY], DEL PATH KEY, LIST [PATH], SAVE, MODE [STRICT|BATCH], BENCH COUNT, STATS,
/// LOGLEVEL [LEVEL], HELP, EXIT. They are read from the terminal, from --file or from standard input;
/// # begins a comment. A store that is not there is made.
///
/// The key is 32 bytes: as they are, as 64 hexadecimal digits or as base64; from --key-file, else from
/// KALLISTO_EXEC_KEY, else asked for.
#[allow(
    rustdoc::broken_intra_doc_links,
    reason = "the text is the help of the command, where brackets are what may be left out"
)]
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  head -c 32 /dev/urandom > store.key && chmod 600 store.key\n  \
    kallisto exec notes --key-file store.key\n  \
    printf 'PUT app/db password correct horse\\nGET app/db password\\n' | \
    kallisto exec notes --key-file store.key\n  \
    kallisto exec notes --key-file store.key --file setup.txt --mode batch\n\n\
    Exit codes: 0 done, 1 a bad line, a wrong key or a mistake in the call, 2 the store is damaged or failed"
)]
pub struct ExecArgs {
    /// Directory of the store, made if it is not there
    #[arg(value_name = "DIR", value_parser = crate::engine::path)]
    dir: PathBuf,
    /// File that holds the store's key
    #[arg(long, value_name = "FILE", value_parser = crate::engine::path)]
    key_file: Option<PathBuf>,
    /// File of commands; - is standard input
    #[arg(short = 'f', long, value_name = "FILE", value_parser = crate::engine::path)]
    file: Option<PathBuf>,
    /// When an acknowledged write is on the disk
    #[arg(long, value_name = "MODE", value_enum, default_value = "strict", ignore_case = true)]
    mode: TypedSyncMode,
    /// What is logged to standard error
    #[arg(long, value_name = "LEVEL", value_enum, default_value = "warn", ignore_case = true)]
    log_level: ExecLogLevel,
}

/// When an acknowledged write is on the disk, as it is typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum TypedSyncMode {
    /// Before it is acknowledged
    #[value(alias = "immediate")]
    Strict,
    /// Every 10,000 writes, every 100 ms, and on SAVE
    #[value(alias = "perf")]
    Batch,
}

impl TypedSyncMode {
    const fn durability(self) -> WriteDurability {
        match self {
            Self::Strict => WriteDurability::Strict,
            Self::Batch => WriteDurability::Batch,
        }
    }

    const fn name(durability: WriteDurability) -> &'static str {
        match durability {
            WriteDurability::Strict => "STRICT",
            WriteDurability::Batch => "BATCH",
        }
    }
}

impl ExecArgs {
    /// Runs the script or the prompt.
    ///
    /// # Errors
    /// What was wrong with the call, its input or the store.
    pub fn run(self) -> Result<Outcome, Error> {
        Ok(self.work().map_or_else(Outcome::from, |()| Outcome::default()))
    }

    fn work(&self) -> Result<(), ExecFailure> {
        let logging = loglevel::start(self.log_level);
        let key = key::find(self.key_file.as_deref(), self.reads_stdin())?;
        let options = DbOptions { durability: self.mode.durability(), ..DbOptions::default() };
        let db = SecureDb::open_with(&self.dir, &key, &options)?;
        drop(key);
        let mut session = StoreSession::new(&db, logging);
        let driven = match &self.file {
            Some(file) => script::run(file, &mut session),
            None if std::io::stdin().is_terminal() => prompt::run(&mut session),
            None => script::run(script::STANDARD.as_ref(), &mut session),
        };
        // Whatever ended the run, what was acknowledged is kept.
        let saved = session.finish();
        drop(session);
        driven.and(saved).and(unless_full(db.close()))
    }

    /// Whether commands come from standard input, so that a key cannot be asked for there.
    fn reads_stdin(&self) -> bool {
        match &self.file {
            Some(file) => file.as_os_str() == script::STANDARD,
            None => !std::io::stdin().is_terminal(),
        }
    }
}

/// What closing a store said whose log was just synced: what could not be written from memory to files for want of room is in the log,
/// from which the next open reads it.
fn unless_full(closed: Result<(), StoreError>) -> Result<(), ExecFailure> {
    match closed {
        Err(StoreError::Store(kallisto_lsm::Error::Full(_))) => Ok(()),
        closed => closed.map_err(ExecFailure::from),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_promises_the_bounds_of_batch() {
        let DbOptions { batch_ops, batch_interval, .. } = DbOptions::default();
        let said = TypedSyncMode::Batch.to_possible_value().unwrap();
        let said = said.get_help().unwrap().to_string();
        let promised = format!("Every {},000 writes, every {batch_interval:?}", batch_ops / 1000);
        assert_eq!(said.replace("100 ms", "100ms"), format!("{promised}, and on SAVE"));
    }

    #[test]
    fn a_disk_that_is_full_at_the_end_takes_nothing_back() {
        let full = kallisto_lsm::Error::Full("write".to_owned());
        assert!(unless_full(Err(full.into())).is_ok());
        let failed = kallisto_lsm::Error::Poisoned("sync".to_owned());
        assert!(unless_full(Err(failed.into())).is_err());
    }
}
