//! What can be wrong, by what the caller does next.

use std::fmt;

/// The outcome of reading.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why something was not read. No text of it holds a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// The file is no snapshot, or was cut off or changed: take another one.
    File(String),
    /// Its records take more memory than these bytes: give it more.
    Memory(u64),
    /// It is sealed in a way that shares do not open: take the other way to move.
    Seal(String),
    /// The shares are not those of this snapshot, or too few: give others.
    Shares(String),
    /// This record is not understood: it alone does not move.
    Record(String),
}

impl Error {
    pub(crate) fn file(why: impl Into<String>) -> Self {
        Self::File(why.into())
    }

    pub(crate) fn record(why: impl Into<String>) -> Self {
        Self::Record(why.into())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory(bytes) => write!(f, "its records take more than {bytes} bytes of memory"),
            Self::File(why) | Self::Seal(why) | Self::Shares(why) | Self::Record(why) => {
                f.write_str(why)
            }
        }
    }
}

impl std::error::Error for Error {}
