//! What can go wrong, grouped by what the caller does next.
//!
//! Messages say what and where, and never quote a key, a name or a value.

use std::fmt;
use std::path::PathBuf;

use kallisto_barrier::Error as BarrierError;
use kallisto_index::Error as NameError;
use kallisto_lsm::Error as StoreError;

/// The result of a call.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a call failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// The arguments cannot be served; fix the call. Nothing changed.
    Invalid(&'static str),
    /// The name cannot be one; nothing changed.
    Name(NameError),
    /// The key is not this store's. Nothing was opened but the file of keys, nothing was written.
    WrongKey,
    /// There are records and no file of keys: without it nobody can read them. Restore it from a copy.
    KeysMissing(PathBuf),
    /// Bytes on the disk are not what was written there, or not by who has the key: restore the store from a copy.
    Damaged(&'static str),
    /// The storage engine's answer; it says itself what to do.
    Store(StoreError),
    /// The machine gave no memory or no randomness.
    Machine(&'static str),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid(what) => write!(f, "invalid request: {what}"),
            Self::Name(why) => write!(f, "invalid name: {why}"),
            Self::WrongKey => f.write_str("this is not the key of the store"),
            Self::KeysMissing(path) => {
                write!(f, "there are records but no keys: {} is missing", path.display())
            }
            Self::Damaged(what) => write!(f, "the store is damaged: {what}"),
            Self::Store(error) => write!(f, "{error}"),
            Self::Machine(what) => write!(f, "the machine refused: {what}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Store(error) => Some(error),
            Self::Name(error) => Some(error),
            _ => None,
        }
    }
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<NameError> for Error {
    fn from(error: NameError) -> Self {
        Self::Name(error)
    }
}

impl From<BarrierError> for Error {
    fn from(error: BarrierError) -> Self {
        match error {
            BarrierError::Invalid(what) => Self::Invalid(what),
            BarrierError::WrongKey => Self::WrongKey,
            BarrierError::Damaged(what) => Self::Damaged(what),
            BarrierError::UnknownKeyVersion(_) => {
                Self::Damaged("a record is under a key that is not there")
            }
            BarrierError::Unsupported(_) => Self::Damaged("a record or key has an unknown format"),
            BarrierError::Machine(what) => Self::Machine(what),
        }
    }
}
