//! What can go wrong, grouped by what the caller does next.

use std::fmt;

/// Why a table could not be made or could not take an entry. The table is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// The operating system gave no randomness for the hash key.
    Randomness,
    /// The operating system gave no memory.
    Memory,
    /// More entries asked for than [`BUCKETS_MAX`](crate::limits::BUCKETS_MAX) buckets hold.
    Capacity,
    /// The key is longer than [`KEY_BYTES_MAX`](crate::limits::KEY_BYTES_MAX).
    KeyTooLong,
    /// The value is longer than [`VALUE_BYTES_MAX`](crate::limits::VALUE_BYTES_MAX).
    ValueTooLong,
    /// No place was found for the entry under several fresh hash keys in a row: the source of
    /// randomness must be broken.
    Crowded,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Randomness => "no randomness from the operating system for a hash key",
            Self::Memory => "no memory from the operating system for the table",
            Self::Capacity => "the table cannot hold that many entries",
            Self::KeyTooLong => "the key is too long for the table",
            Self::ValueTooLong => "the value is too long for the table",
            Self::Crowded => "no place for the entry under several fresh hash keys",
        })
    }
}

impl std::error::Error for Error {}
