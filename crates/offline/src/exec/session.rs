//! Carrying commands out against an open store, and writing what they answer.
//!
//! The gate is first: a path below which there is nothing is refused with its own message, before any hash or disk. Names
//! in the store are `PATH/KEY`, so a path is a folder and what `LIST` shows is the index's listing. A path whose last key
//! this session deleted is known to it: what is missing there is the key.

use std::collections::BTreeSet;
use std::io::{self, Write};

use kallisto_securedb::SecureDb;

use super::TypedSyncMode;
use super::failure::ExecFailure;
use super::line::{ExecCommand, VERBS};
use super::loglevel::Logging;
use super::measure;

/// Names that `LIST` and `GET` take from the index at a time.
const PAGE: usize = 1_000;
/// What is printed where there is no value.
const NIL: &[u8] = b"(nil)";
/// What is printed where there is nothing to list.
const EMPTY: &[u8] = b"(empty)";
/// Most emptied paths that a session remembers; of more the first are forgotten.
const EMPTIED_MAX: usize = 1 << 16;

/// Whether to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SessionFlow {
    /// The next command.
    Command,
    /// No more.
    End,
}

/// A store and where its answers go.
pub(super) struct StoreSession<'a> {
    db: &'a SecureDb,
    logging: Logging,
    to: Box<dyn Write>,
    /// Paths whose last key was deleted here.
    emptied: BTreeSet<String>,
}

impl<'a> StoreSession<'a> {
    /// A session that answers on standard output.
    pub(super) fn new(db: &'a SecureDb, logging: Logging) -> Self {
        let to = Box::new(io::BufWriter::new(io::stdout()));
        Self { db, logging, to, emptied: BTreeSet::new() }
    }

    /// The store, for completion.
    pub(super) const fn db(&self) -> &'a SecureDb {
        self.db
    }

    /// Carries out one command.
    pub(super) fn execute(&mut self, command: ExecCommand<'_>) -> Result<SessionFlow, ExecFailure> {
        let begin = measure::clock();
        let verb = verb_of(command);
        match command {
            ExecCommand::Put { path, key, value } => self.put(path, key, value)?,
            ExecCommand::Get { path, key } => self.get(path, key)?,
            ExecCommand::Delete { path, key } => self.delete(path, key)?,
            ExecCommand::List { path } => self.list(path)?,
            ExecCommand::Save => self.save()?,
            ExecCommand::Mode(None) => {
                self.say(TypedSyncMode::name(self.db.durability()).as_bytes())?
            }
            ExecCommand::Mode(Some(mode)) => {
                self.db.set_durability(mode)?;
                tracing::info!(mode = TypedSyncMode::name(mode), "durability changed");
                self.say(b"OK")?;
            }
            ExecCommand::Bench(count) => {
                let measured = measure::run(self.db, count)?;
                self.say(measured.to_string().as_bytes())?;
            }
            ExecCommand::Level(None) => self.say(self.logging.level().name().as_bytes())?,
            ExecCommand::Level(Some(level)) => {
                self.logging.set(level);
                self.say(b"OK")?;
            }
            ExecCommand::Stats => self.stats()?,
            ExecCommand::Help => self.help()?,
            ExecCommand::Exit => return Ok(SessionFlow::End),
        }
        tracing::debug!(verb, micros = begin.elapsed().as_micros(), "done");
        Ok(SessionFlow::Command)
    }

    /// Writes out what was answered so far.
    pub(super) fn settle(&mut self) -> Result<(), ExecFailure> {
        self.to.flush().map_err(|error| cannot_write(&error))
    }

    /// Makes everything durable, then writes the last answers out.
    pub(super) fn finish(&mut self) -> Result<(), ExecFailure> {
        self.db.flush()?;
        self.settle()
    }

    fn put(&mut self, path: &str, key: &str, value: &[u8]) -> Result<(), ExecFailure> {
        self.db.insert(&name(path, key), value)?;
        self.say(b"OK")
    }

    fn get(&mut self, path: &str, key: Option<&str>) -> Result<(), ExecFailure> {
        if !self.admit(path)? {
            return Ok(());
        }
        let Some(key) = key else { return self.get_all(path) };
        match self.db.get(&name(path, key))? {
            Some(value) => self.say(&value),
            None => self.say(NIL),
        }
    }

    fn get_all(&mut self, path: &str) -> Result<(), ExecFailure> {
        let mut any = false;
        let db = self.db;
        each_child(db, path, |child| {
            if child.ends_with('/') {
                return Ok(());
            }
            let Some(value) = db.get(&name(path, child))? else { return Ok(()) };
            any = true;
            self.write(child.as_bytes())?;
            self.write(b"=")?;
            self.say(&value)
        })?;
        if any { Ok(()) } else { self.say(NIL) }
    }

    fn delete(&mut self, path: &str, key: &str) -> Result<(), ExecFailure> {
        if !self.admit(path)? {
            return Ok(());
        }
        let was_there = self.db.remove(&name(path, key))?;
        if was_there && !self.db.has_folder(path) {
            if self.emptied.len() >= EMPTIED_MAX {
                self.emptied.pop_first();
            }
            self.emptied.insert(path.to_owned());
        }
        self.say(if was_there { b"OK" } else { NIL })
    }

    fn list(&mut self, path: &str) -> Result<(), ExecFailure> {
        if path.is_empty() && self.db.is_empty() {
            return self.say(EMPTY);
        }
        if !path.is_empty() && !self.admit(path)? {
            return Ok(());
        }
        if !path.is_empty() && !self.db.has_folder(path) {
            return self.say(EMPTY);
        }
        each_child(self.db, path, |child| self.say(child.as_bytes()))
    }

    fn save(&mut self) -> Result<(), ExecFailure> {
        self.db.flush()?;
        tracing::info!("saved");
        self.say(b"OK")
    }

    /// The gate: whether there is anything below `path`, or was in this session; if not, says so.
    fn admit(&mut self, path: &str) -> Result<bool, ExecFailure> {
        if self.db.has_folder(path) || self.emptied.contains(path) {
            return Ok(true);
        }
        self.say(b"(no such path)")?;
        Ok(false)
    }

    fn stats(&mut self) -> Result<(), ExecFailure> {
        let stats = self.db.stats();
        let sealed: u64 = stats.key_versions.iter().map(|key| key.seals).sum();
        let active = stats.key_versions.last().map_or(0, |key| key.version);
        let sst_bytes: u64 = stats.engine.levels.iter().map(|level| level.bytes).sum();
        for (name, value) in [
            ("names", stats.names),
            ("index_bytes", stats.index_bytes),
            ("key_version", u64::from(active)),
            ("key_versions", stats.key_versions.len() as u64),
            ("records_sealed", sealed),
            ("memtable_bytes", stats.engine.memtable_bytes as u64),
            ("wal_segments_in_use_bytes", stats.engine.wal_bytes_in_use),
            ("sst_bytes", sst_bytes),
            ("operations", stats.engine.operations),
            ("syncs", stats.engine.syncs),
        ] {
            self.say(format!("{name}: {value}").as_bytes())?;
        }
        let locked = if stats.keys_locked { "yes" } else { "no" };
        self.say(format!("keys_locked: {locked}").as_bytes())?;
        self.say(format!("mode: {}", TypedSyncMode::name(stats.durability)).as_bytes())
    }

    fn help(&mut self) -> Result<(), ExecFailure> {
        for (verb, arguments, about) in VERBS {
            self.say(format!("{:<24} {about}", format!("{verb} {arguments}")).as_bytes())?;
        }
        Ok(())
    }

    fn say(&mut self, line: &[u8]) -> Result<(), ExecFailure> {
        self.write(line)?;
        self.write(b"\n")
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), ExecFailure> {
        self.to.write_all(bytes).map_err(|error| cannot_write(&error))
    }
}

/// Calls `visit` with each child of a path, a page of them at a time.
fn each_child(
    db: &SecureDb,
    path: &str,
    mut visit: impl FnMut(&str) -> Result<(), ExecFailure>,
) -> Result<(), ExecFailure> {
    let mut after: Option<String> = None;
    loop {
        let page = db.list(path, after.as_deref(), PAGE);
        page.iter().try_for_each(|child| visit(child))?;
        if page.len() < PAGE {
            return Ok(());
        }
        after = page.into_iter().next_back();
    }
}

fn name(path: &str, key: &str) -> String {
    format!("{path}/{key}")
}

const fn verb_of(command: ExecCommand<'_>) -> &'static str {
    match command {
        ExecCommand::Put { .. } => "PUT",
        ExecCommand::Get { .. } => "GET",
        ExecCommand::Delete { .. } => "DEL",
        ExecCommand::List { .. } => "LIST",
        ExecCommand::Save => "SAVE",
        ExecCommand::Mode(_) => "MODE",
        ExecCommand::Bench(_) => "BENCH",
        ExecCommand::Level(_) => "LOGLEVEL",
        ExecCommand::Stats => "STATS",
        ExecCommand::Help => "HELP",
        ExecCommand::Exit => "EXIT",
    }
}

fn cannot_write(error: &io::Error) -> ExecFailure {
    ExecFailure::mistake(format!("cannot write the output: {error}"))
}
