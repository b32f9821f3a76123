//! Carrying commands out against an open engine.
//!
//! Puts and deletes gather in a batch; a read commits it first, so a command always sees those
//! before it. Answers gather in a buffer. Invariants:
//! - nothing waits in this process while it waits for input: [`EngineSession::settle`] is called before;
//! - with a sync policy, at most that many writes are committed and not durable, and an answer that
//!   was written out vouches for every write before it: the engine is synced first;
//! - [`EngineSession::finish`] makes everything durable before the last answers are written.

use std::io::Write;
use std::num::NonZeroU64;

use kallisto_lsm::{Engine, EntryBatch, Sync};

use super::failure::EngineFailure;
use super::keys::KeyFormat;
use super::line::EngineCommand;
use super::report::OperationTally;

/// A batch at least this large is committed, in bytes: large enough to make a commit cheap, small
/// enough to stay in the processor's cache.
const BATCH_BYTES: usize = 256 << 10;
/// Answers at least this long are written out, in bytes.
const ANSWERS_BYTES: usize = 1 << 20;
/// What a read prints when there is nothing.
const EMPTY: &[u8] = b"EMPTY";

/// How a session behaves.
#[derive(Clone, Copy, Debug)]
pub(super) struct Manner {
    /// What keys are in the text.
    pub(super) keys: KeyFormat,
    /// Whether a read prints the key and a space before the value.
    pub(super) with_keys: bool,
    /// Most writes that may be undurable; `None` leaves it to the end of the run.
    pub(super) sync_every: Option<NonZeroU64>,
}

/// An engine, what waits to go into it and what waits to be written out.
pub(super) struct EngineSession<'a> {
    engine: &'a Engine,
    manner: Manner,
    batch: EntryBatch,
    /// Writes that were committed and are not known to be durable.
    unsynced: u64,
    answers: Vec<u8>,
    to: Box<dyn Write + 'a>,
    tally: OperationTally,
}

impl<'a> EngineSession<'a> {
    /// A session without anything pending.
    pub(super) fn new(engine: &'a Engine, manner: Manner, to: Box<dyn Write + 'a>) -> Self {
        let (batch, answers, tally) = (EntryBatch::new(), Vec::new(), OperationTally::default());
        Self { engine, manner, batch, unsynced: 0, answers, to, tally }
    }

    /// What was done so far.
    pub(super) fn tally(&self) -> OperationTally {
        self.tally
    }

    /// Carries out one command.
    pub(super) fn execute(&mut self, command: EngineCommand<'_>) -> Result<(), EngineFailure> {
        match command {
            EngineCommand::Put { key, value } => {
                self.batch.put(&key, value)?;
                self.tally.puts += 1;
                self.commit_if_due()
            }
            EngineCommand::Delete { key } => {
                self.batch.delete(&key)?;
                self.tally.deletes += 1;
                self.commit_if_due()
            }
            EngineCommand::Get { key } => self.get(&key),
            EngineCommand::Scan { from, to } => self.scan(&from, &to),
        }
    }

    /// Commits what is pending and writes the answers out.
    pub(super) fn settle(&mut self) -> Result<(), EngineFailure> {
        self.commit(Sync::Mode)?;
        self.write_answers()
    }

    /// Makes every write durable, then writes the answers out.
    pub(super) fn finish(&mut self) -> Result<(), EngineFailure> {
        self.commit(Sync::Now)?;
        self.sync()?;
        self.write_answers()?;
        self.to.flush().map_err(cannot_write)
    }

    fn commit_if_due(&mut self) -> Result<(), EngineFailure> {
        let pending = self.unsynced + self.batch.len() as u64;
        if self.manner.sync_every.is_some_and(|every| pending >= every.get()) {
            self.commit(Sync::Now)
        } else if self.batch.encoded_bytes() >= BATCH_BYTES {
            self.commit(Sync::Mode)
        } else {
            Ok(())
        }
    }

    fn commit(&mut self, sync: Sync) -> Result<(), EngineFailure> {
        if self.batch.is_empty() {
            return Ok(());
        }
        self.engine.write(&self.batch, sync)?;
        self.unsynced = match sync {
            Sync::Mode => self.unsynced + self.batch.len() as u64,
            Sync::Now => 0,
        };
        self.batch.clear();
        Ok(())
    }

    fn sync(&mut self) -> Result<(), EngineFailure> {
        if self.unsynced > 0 {
            self.engine.sync()?;
            self.unsynced = 0;
        }
        Ok(())
    }

    fn get(&mut self, key: &[u8]) -> Result<(), EngineFailure> {
        self.commit(Sync::Mode)?;
        let found = self.engine.get(key)?;
        if found.is_none() {
            self.tally.missing += 1;
        }
        self.tally.gets += 1;
        self.answer(key, found.as_deref().unwrap_or(EMPTY))
    }

    /// Prints what lies between two keys, both included; one `EMPTY` if that is nothing.
    fn scan(&mut self, from: &[u8], to: &[u8]) -> Result<(), EngineFailure> {
        self.commit(Sync::Mode)?;
        let before = self.tally.entries;
        let mut scan = self.engine.scan(from..=to)?;
        while let Some((key, value)) = scan.next_entry()? {
            self.answer(key, value)?;
            self.tally.entries += 1;
        }
        if self.tally.entries == before {
            self.answers.extend_from_slice(EMPTY);
            self.answers.push(b'\n');
        }
        self.tally.scans += 1;
        Ok(())
    }

    fn answer(&mut self, key: &[u8], value: &[u8]) -> Result<(), EngineFailure> {
        if self.manner.with_keys {
            self.manner.keys.decode(key, &mut self.answers)?;
            self.answers.push(b' ');
        }
        self.answers.extend_from_slice(value);
        self.answers.push(b'\n');
        if self.answers.len() >= ANSWERS_BYTES { self.write_answers() } else { Ok(()) }
    }

    fn write_answers(&mut self) -> Result<(), EngineFailure> {
        if self.answers.is_empty() {
            return Ok(());
        }
        if self.manner.sync_every.is_some() {
            self.sync()?;
        }
        self.to.write_all(&self.answers).map_err(cannot_write)?;
        self.to.flush().map_err(cannot_write)?;
        self.answers.clear();
        Ok(())
    }
}

fn cannot_write(error: std::io::Error) -> EngineFailure {
    EngineFailure::mistake(format!("cannot write the output: {error}"))
}
