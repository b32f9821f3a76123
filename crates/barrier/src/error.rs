//! What can go wrong, grouped by what the caller does next.
//!
//! Messages say what and never quote a key, a share, a name or a value.

use std::fmt;

/// The result of a barrier call.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a barrier call failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// The arguments cannot be served; fix the call.
    Invalid(&'static str),
    /// The key is not the one these bytes were sealed with: try another. Decided by the commitment; nothing was decrypted.
    WrongKey,
    /// A record was made under a key version that the keyring does not hold (any more, or yet).
    UnknownKeyVersion(u32),
    /// The bytes are not what was written there: flipped, cut, moved, renamed or of another cluster. Restore from a copy.
    Damaged(&'static str),
    /// The bytes carry a format number that this release does not know; use a newer one.
    Unsupported(u8),
    /// The machine gave no memory or no randomness.
    Machine(&'static str),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid(what) => write!(f, "invalid request: {what}"),
            Self::WrongKey => f.write_str("wrong key"),
            Self::UnknownKeyVersion(version) => write!(f, "no data key of version {version}"),
            Self::Damaged(what) => write!(f, "damaged or misplaced: {what}"),
            Self::Unsupported(format) => write!(f, "unknown format {format}"),
            Self::Machine(what) => write!(f, "the machine refused: {what}"),
        }
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_what_it_is_and_what_it_was_told() {
        let texts = [
            (Error::Invalid("too long"), "invalid request: too long"),
            (Error::WrongKey, "wrong key"),
            (Error::UnknownKeyVersion(7), "no data key of version 7"),
            (Error::Damaged("cut off"), "damaged or misplaced: cut off"),
            (Error::Unsupported(9), "unknown format 9"),
            (Error::Machine("no memory"), "the machine refused: no memory"),
        ];
        for (error, text) in texts {
            assert_eq!(error.to_string(), text);
        }
    }
}
