//! What a store's keys are, as a file in its directory says: a store is read with the keys that it was written with.
//!
//! `run` writes the file when it makes a store, and refuses another kind from then on: numbers among texts sort
//! anywhere and are found by nobody. The engine below knows bytes alone, and passes over the file.
//!
//! ```text
//! KEYS := "bytes" LF | "u64" LF
//! ```
//!
//! Invariants:
//! - The file is durable before the first key is, and is written while the store is open, so by one process at a time.
//! - Stores of releases that wrote no such file open as before. Only numbers are refused there, and only if the store holds a
//!   key that cannot be one; if it holds none, the file is written then.

use std::io;
use std::path::Path;

use clap::ValueEnum;
use kallisto_lsm::Engine;
use kallisto_lsm::disk::{Disk, OpenFor, RealDisk};

use super::failure::EngineFailure;
use super::keys::{KeyFormat, NUMBER_BYTES, NotANumber};

/// The file's name, and that of a new one until it is whole.
const FILE: &str = "KEYS";
const FILE_IN_WRITING: &str = "KEYS.new";
/// Longest file that is read, in bytes: longer than any that is written.
const FILE_BYTES_MAX: usize = 64;

/// Refuses keys of another kind than the store's, and writes down what a new store's are.
pub(super) fn claim(engine: &Engine, dir: &Path, asked: KeyFormat) -> Result<(), EngineFailure> {
    match recorded(dir)? {
        Some(kind) if kind == asked => Ok(()),
        Some(kind) => Err(other_kind(dir, kind)),
        None => {
            let is_empty = engine.scan(..)?.next_entry()?.is_none();
            match asked {
                // Bytes may be anything, numbers too: what an older release wrote is not known.
                KeyFormat::Bytes if !is_empty => Ok(()),
                KeyFormat::U64 if !is_empty && !holds_numbers_alone(engine)? => {
                    Err(other_kind(dir, KeyFormat::Bytes))
                }
                KeyFormat::Bytes | KeyFormat::U64 => record(dir, asked).map_err(|error| {
                    EngineFailure::mistake(format!("cannot write {}: {error}", shown(dir)))
                }),
            }
        }
    }
}

/// Refuses to read the bytes of a store as numbers that are none. Numbers may be looked at as bytes.
pub(super) fn require_readable(dir: &Path, asked: KeyFormat) -> Result<(), EngineFailure> {
    match (recorded(dir)?, asked) {
        (Some(KeyFormat::Bytes), KeyFormat::U64) => Err(NotANumber.into()),
        _ => Ok(()),
    }
}

/// What the file says, if there is one.
fn recorded(dir: &Path) -> Result<Option<KeyFormat>, EngineFailure> {
    let refuse = |why: &dyn std::fmt::Display| {
        EngineFailure::mistake(format!("cannot read {}: {why}", shown(dir)))
    };
    let file = match RealDisk.open(&dir.join(FILE), OpenFor::Read) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(refuse(&error)),
    };
    let mut bytes = [0; FILE_BYTES_MAX];
    let read = file.read_at(&mut bytes, 0).map_err(|error| refuse(&error))?;
    let text = bytes[..read].trim_ascii();
    let kind = KeyFormat::value_variants().iter().find(|kind| kind.name().as_bytes() == text);
    kind.copied().map(Some).ok_or_else(|| refuse(&"it names no kind of keys"))
}

/// Writes the file, whole or not at all.
fn record(dir: &Path, kind: KeyFormat) -> io::Result<()> {
    let fresh = dir.join(FILE_IN_WRITING);
    let file = RealDisk.create(&fresh)?;
    let text = format!("{}\n", kind.name());
    if file.write_at(text.as_bytes(), 0)? < text.len() {
        return Err(io::ErrorKind::WriteZero.into());
    }
    file.sync_data()?;
    RealDisk.rename(&fresh, &dir.join(FILE))?;
    RealDisk.sync_dir(dir)
}

/// Whether every key has the length of a number. Reads the whole store, which is done once: the answer is written down.
fn holds_numbers_alone(engine: &Engine) -> Result<bool, EngineFailure> {
    let mut scan = engine.scan(..)?;
    while let Some((key, _)) = scan.next_entry()? {
        if key.len() != NUMBER_BYTES {
            return Ok(false);
        }
    }
    Ok(true)
}

fn other_kind(dir: &Path, kind: KeyFormat) -> EngineFailure {
    let (dir, kind) = (dir.display(), kind.name());
    EngineFailure::mistake(format!(
        "the keys of the store in {dir} are {kind}: run with --keys {kind}"
    ))
}

fn shown(dir: &Path) -> String {
    dir.join(FILE).display().to_string()
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use kallisto_lsm::{EntryBatch, Options, Sync};

    use super::*;

    /// A directory of a test's own, removed with the value.
    struct Place(PathBuf);

    impl Place {
        fn new(name: &str) -> Self {
            let name = format!("kallisto-kind-{name}-{}", std::process::id());
            Self(std::env::temp_dir().join(name))
        }

        fn open(&self) -> Engine {
            Engine::open(RealDisk::shared(), self.0.clone(), Options::default()).unwrap()
        }

        fn put(&self, key: &[u8]) {
            let mut batch = EntryBatch::new();
            batch.put(key, b"v").unwrap();
            self.open().write(&batch, Sync::Now).unwrap();
        }

        fn claim(&self, asked: KeyFormat) -> Result<(), String> {
            claim(&self.open(), &self.0, asked).map_err(|failure| failure.to_string())
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_store_keeps_the_kind_of_keys_that_it_was_made_with() {
        for (kind, other) in
            [(KeyFormat::Bytes, KeyFormat::U64), (KeyFormat::U64, KeyFormat::Bytes)]
        {
            let place = Place::new(&format!("made-{}", kind.name()));
            (0..2).for_each(|_| place.claim(kind).unwrap());
            // Also while it is empty, and by keys that could be either.
            let refused = place.claim(other).unwrap_err();
            assert!(refused.contains(&format!("--keys {}", kind.name())), "{refused}");
            place.put(b"8 bytes!");
            assert!(place.claim(other).is_err());
            assert!(place.claim(kind).is_ok());
        }
    }

    #[test]
    fn stores_without_a_record_open_as_before_unless_a_key_is_no_number() {
        let place = Place::new("old-bytes");
        place.put(b"word");
        assert_eq!(place.claim(KeyFormat::Bytes), Ok(()));
        let refused = place.claim(KeyFormat::U64).unwrap_err();
        assert!(refused.contains("--keys bytes"), "{refused}");
        let place = Place::new("old-numbers");
        place.put(&7_u64.to_be_bytes());
        assert_eq!(place.claim(KeyFormat::Bytes), Ok(()), "nobody knows that these are numbers");
        assert_eq!(place.claim(KeyFormat::U64), Ok(()));
        assert!(place.claim(KeyFormat::Bytes).is_err(), "now it is known");
    }

    #[test]
    fn a_record_that_names_no_kind_is_told() {
        let place = Place::new("broken");
        place.claim(KeyFormat::U64).unwrap();
        for bytes in [&b""[..], b"u65\n", &[b'x'; 2 * FILE_BYTES_MAX]] {
            RealDisk.create(&place.0.join(FILE)).unwrap().write_at(bytes, 0).unwrap();
            let told = place.claim(KeyFormat::U64).unwrap_err();
            assert!(told.contains("KEYS: it names no kind"), "{told}");
        }
    }

    #[test]
    fn numbers_may_be_looked_at_as_bytes_and_not_the_other_way_round() {
        let (bytes, numbers) = (Place::new("look-bytes"), Place::new("look-numbers"));
        bytes.claim(KeyFormat::Bytes).unwrap();
        numbers.claim(KeyFormat::U64).unwrap();
        assert!(require_readable(&numbers.0, KeyFormat::Bytes).is_ok());
        assert!(require_readable(&bytes.0, KeyFormat::Bytes).is_ok());
        assert!(require_readable(&bytes.0, KeyFormat::U64).is_err());
    }
}
