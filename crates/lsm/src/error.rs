//! What can go wrong, grouped by what the caller does next.
//!
//! Messages say what and where and never quote a key or a value.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// The result of an engine call.
pub type Result<T> = std::result::Result<T, Error>;

/// Why an engine call failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// The arguments cannot be served; fix the call. Nothing changed.
    Invalid(&'static str),
    /// Another engine holds the directory; close it first.
    Locked(PathBuf),
    /// The disk is full: the engine reads and does not write until space is free. Nothing of the call was applied.
    Full(String),
    /// A write or sync failed, so what is durable is unknown: end the process and open the store again.
    Poisoned(String),
    /// Bytes on the disk are damaged: restore the store from a copy.
    Corrupt {
        /// The damaged file.
        file: PathBuf,
        /// Where in it, in bytes.
        offset: u64,
        /// What was expected there.
        what: &'static str,
    },
    /// The store was written by a newer release; use that one.
    Unsupported {
        /// The file that says so.
        file: PathBuf,
        /// Its format number.
        format: u32,
    },
    /// Reading or preparing a file failed; the device or the permissions need a look.
    Io(String),
    /// The engine was closed; open it again.
    Closed,
}

/// The error number of a full disk on Linux, and of an exhausted quota.
const FULL_ERRNOS: [i32; 2] = [28, 122];

impl Error {
    /// A failure to read or to prepare `path`; a full disk is told apart.
    pub(crate) fn io(doing: &'static str, path: &Path, error: &io::Error) -> Self {
        let text = format!("{doing} {}: {error}", path.display());
        if is_full(error) { Self::Full(text) } else { Self::Io(text) }
    }

    /// A failure after which the durable state of `path` is unknown.
    pub(crate) fn poison(doing: &'static str, path: &Path, error: &io::Error) -> Self {
        Self::Poisoned(format!("{doing} {}: {error}", path.display()))
    }

    /// Damage at `offset` of `file`.
    pub(crate) fn corrupt(file: &Path, offset: u64, what: &'static str) -> Self {
        Self::Corrupt { file: file.to_owned(), offset, what }
    }
}

/// Whether an error says that the disk is full, or an exhausted quota.
#[must_use]
pub fn is_full(error: &io::Error) -> bool {
    error.raw_os_error().is_some_and(|errno| FULL_ERRNOS.contains(&errno))
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid(what) => write!(f, "invalid request: {what}"),
            Self::Locked(path) => write!(f, "store is in use: {}", path.display()),
            Self::Full(what) => write!(f, "disk is full, store is read-only: {what}"),
            Self::Poisoned(what) => write!(f, "store is poisoned by a failed write: {what}"),
            Self::Corrupt { file, offset, what } => {
                write!(f, "damaged file {} at byte {offset}: {what}", file.display())
            }
            Self::Unsupported { file, format } => {
                write!(f, "unknown format {format} in {}", file.display())
            }
            Self::Io(what) => write!(f, "input or output failed: {what}"),
            Self::Closed => f.write_str("store is closed"),
        }
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_says_what_and_where() {
        let io = io::Error::from_raw_os_error(28);
        let path = Path::new("d/file");
        for (error, said) in [
            (Error::Invalid("a key"), "invalid request: a key"),
            (Error::Locked("d".into()), "store is in use: d"),
            (Error::io("write", path, &io), "disk is full, store is read-only: write d/file"),
            (Error::poison("sync", path, &io), "store is poisoned by a failed write: sync d/file"),
            (Error::corrupt(path, 7, "a block"), "damaged file d/file at byte 7: a block"),
            (Error::Unsupported { file: path.into(), format: 9 }, "unknown format 9 in d/file"),
            (Error::Io("read d/file".into()), "input or output failed: read d/file"),
            (Error::Closed, "store is closed"),
        ] {
            assert!(error.to_string().starts_with(said), "{error}");
        }
        assert!(is_full(&io::Error::from_raw_os_error(122)), "a quota");
        assert!(!is_full(&io::Error::from_raw_os_error(5)));
    }
}
