//! The invariants of a table, checked one by one. Tests call it after every few operations.

use std::collections::HashSet;
use std::fmt;

use crate::array::Array;
use crate::table::Table;
use crate::writer::TableWriter;

/// A broken promise found by [`Table::check`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableViolation {
    /// An entry is in neither of its two buckets.
    WrongBucket,
    /// An entry is under another tag than its key's.
    WrongTag,
    /// A key is in two slots.
    Twice,
    /// The count of entries is not the number of full slots.
    WrongCount,
    /// A bucket that was moved to the new array holds an entry.
    LeftBehind,
    /// The bytes of the entries are not what the arena has handed out.
    WrongBytes,
}

impl fmt::Display for TableViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::WrongBucket => "an entry is in neither of its two buckets",
            Self::WrongTag => "an entry is under another tag than its key's",
            Self::Twice => "a key is in two slots",
            Self::WrongCount => "the count of entries is not the number of full slots",
            Self::LeftBehind => "a moved bucket holds an entry",
            Self::WrongBytes => "the bytes of the entries are not what the arena handed out",
        })
    }
}

impl std::error::Error for TableViolation {}

impl<H: Send + Sync + 'static> Table<H> {
    /// Checks every invariant. Writers wait; the time is that of reading every entry.
    pub fn check(&self) -> Result<(), TableViolation> {
        let (_, writer) = self.write();
        let mut keys = HashSet::new();
        check_array(&writer, &writer.current, &mut keys)?;
        if let Some(growth) = &writer.growth {
            check_array(&writer, &growth.old, &mut keys)?;
            let moved = &growth.old.buckets()[..growth.moved()];
            let full = |bucket: &crate::bucket::Bucket<H>| {
                bucket.cells().iter().any(|cell| !cell.load().is_empty())
            };
            ensure(!moved.iter().any(full), TableViolation::LeftBehind)?;
        }
        ensure(keys.len() == self.len(), TableViolation::WrongCount)?;
        ensure(
            writer.live_bytes() + writer.retired_bytes == writer.arena.used_bytes(),
            TableViolation::WrongBytes,
        )
    }
}

fn check_array<'w, H>(
    writer: &'w TableWriter<H>,
    array: &Array<H>,
    keys: &mut HashSet<&'w [u8]>,
) -> Result<(), TableViolation> {
    for (index, bucket) in array.buckets().iter().enumerate() {
        for cell in bucket.cells() {
            let word = cell.load();
            let Some(entry) = word.entry() else { continue };
            let key = writer.key_of(entry);
            let spot = array.spot(key);
            ensure(word.tag() == spot.tag, TableViolation::WrongTag)?;
            let second = array.other(spot.first, spot.tag);
            ensure(index == spot.first || index == second, TableViolation::WrongBucket)?;
            ensure(keys.insert(key), TableViolation::Twice)?;
        }
    }
    Ok(())
}

fn ensure(holds: bool, violation: TableViolation) -> Result<(), TableViolation> {
    if holds { Ok(()) } else { Err(violation) }
}
