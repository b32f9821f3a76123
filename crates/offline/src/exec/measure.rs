//! `BENCH`: how fast this store is on this machine, in the mode it is in.
//!
//! It writes keys of its own, one at a time as `PUT` does, reads each back, and removes them together.

use std::fmt;
use std::time::{Duration, Instant};

use kallisto_securedb::{SecureDb, WriteBatch};

use super::failure::ExecFailure;

/// Length of a value, in bytes.
const VALUE_BYTES: usize = 128;
/// Keys in one folder, so that a listing of it stays short.
const FOLDER_KEYS: u32 = 1_000;
/// Keys removed together.
const REMOVE_KEYS: usize = 10_000;

/// What was measured.
pub(super) struct Measured {
    count: u32,
    write: Duration,
    read: Duration,
    hits: u32,
}

/// Measures with `count` keys below a folder that nothing else uses.
pub(super) fn run(db: &SecureDb, count: u32) -> Result<Measured, ExecFailure> {
    let folder = free_folder(db);
    let measured = write_and_read(db, &folder, count);
    remove(db, &folder, count)?;
    measured
}

fn write_and_read(db: &SecureDb, folder: &str, count: u32) -> Result<Measured, ExecFailure> {
    let begin = clock();
    for number in 0..count {
        db.insert(&name(folder, number), &value(number))?;
    }
    let write = begin.elapsed();
    let begin = clock();
    let mut hits = 0;
    for number in 0..count {
        let found = db.get(&name(folder, number))?;
        hits += u32::from(found.is_some_and(|found| *found == value(number)));
    }
    Ok(Measured { count, write, read: begin.elapsed(), hits })
}

fn free_folder(db: &SecureDb) -> String {
    let mut candidates = (0u64..).map(|number| format!("bench-{number}"));
    candidates.find(|folder| !db.has_folder(folder)).expect("numbers do not end")
}

fn remove(db: &SecureDb, folder: &str, count: u32) -> Result<(), ExecFailure> {
    let mut batch = WriteBatch::new();
    for number in 0..count {
        batch.remove(&name(folder, number));
        if batch.len() == REMOVE_KEYS {
            db.write(&batch)?;
            batch.clear();
        }
    }
    Ok(db.write(&batch)?)
}

fn name(folder: &str, number: u32) -> String {
    format!("{folder}/{}/key-{number}", number / FOLDER_KEYS)
}

fn value(number: u32) -> Vec<u8> {
    number.to_le_bytes().repeat(VALUE_BYTES / 4)
}

/// The time now; for measuring only.
#[expect(clippy::disallowed_methods, reason = "measuring time is what this command does")]
pub(super) fn clock() -> Instant {
    Instant::now()
}

impl fmt::Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line = |time: Duration| {
            let seconds = time.as_secs_f64().max(f64::MIN_POSITIVE);
            format!("{:.3} s, {:.0} a second", time.as_secs_f64(), f64::from(self.count) / seconds)
        };
        writeln!(f, "write: {}", line(self.write))?;
        writeln!(f, "read:  {}", line(self.read))?;
        write!(f, "hits:  {} of {}", self.hits, self.count)
    }
}
