//! What may go wrong.

use std::fmt;

/// Why something could not be made or read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// What was given cannot be taken; the message says why, in the words clients know.
    Invalid(String),
    /// The machine did not do what it does: the library refused what is right, or there was no randomness.
    Machine(&'static str),
}

/// What may fail.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// An [`Error::Invalid`].
    pub fn invalid(why: impl Into<String>) -> Self {
        Self::Invalid(why.into())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid(why) => f.write_str(why),
            Self::Machine(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for Error {}

/// What is not encodable was checked before.
impl From<der::Error> for Error {
    fn from(_: der::Error) -> Self {
        Self::Machine("something could not be encoded")
    }
}
