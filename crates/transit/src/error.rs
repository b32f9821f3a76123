//! What can go wrong, grouped by what the caller does next.
//!
//! Messages name the field, the key type or the version, never a value or key. Those of
//! [`Error::Invalid`] are the words the wire contract has for them, because clients match on them.

use std::fmt;

/// The result of an operation on a key.
pub type Result<T> = std::result::Result<T, Error>;

/// Why an operation failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// This key cannot do that, or not with these arguments; fix the request.
    Invalid(String),
    /// The record is not one this build can read.
    Damaged(&'static str),
    /// The machine gave no randomness, or a primitive failed where it must not.
    Machine(&'static str),
}

impl Error {
    /// An [`Error::Invalid`].
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::Invalid(message.into())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid(message) => f.write_str(message),
            Self::Damaged(what) => write!(f, "damaged transit record: {what}"),
            Self::Machine(what) => write!(f, "the machine refused: {what}"),
        }
    }
}

impl std::error::Error for Error {}
