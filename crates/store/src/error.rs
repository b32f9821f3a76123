//! Why a store refuses, grouped by what the caller does next.
//!
//! Messages say what and where and never quote a key or a value.

use std::fmt;
use std::path::PathBuf;

/// Why a store refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// A precondition did not hold: someone else wrote first. Read again and decide again.
    Conflict,
    /// The batch breaks a named limit; retrying cannot help.
    TooLarge(&'static str),
    /// Too much is waiting to be committed. Nothing happened; try again later.
    Busy,
    /// The disk is full: reads go on, writes are refused until there is space. Nothing happened.
    Full(String),
    /// Another server leads, or none does for now. Nothing happened here: ask the leader.
    NotLeader,
    /// The store cannot serve this now, or no longer. Nothing happened.
    Unavailable(String),
    /// The batch was taken and then its fate was lost sight of: it may be committed, now or later.
    /// Read before deciding again.
    Unknown(String),
    /// Writing to the disk or reading the log failed, so what is durable is unknown: end the
    /// process and open the store again.
    Poisoned(String),
    /// Another process, or another store of this one, has the directory open.
    Locked(PathBuf),
    /// Bytes on the disk are damaged: restore the store from a copy.
    Damaged(String),
    /// The log ends before what this server had on the disk: somebody decides whether it starts without that, see
    /// [`crate::Losses`].
    Lost(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Conflict => f.write_str("a precondition did not hold"),
            Self::TooLarge(what) => write!(f, "batch over its limit: {what}"),
            Self::Busy => f.write_str("too many writes are waiting"),
            Self::Full(what) => write!(f, "disk is full, store is read-only: {what}"),
            Self::NotLeader => f.write_str("another server leads"),
            Self::Unavailable(why) => write!(f, "store unavailable: {why}"),
            Self::Unknown(why) => write!(f, "the write's outcome is unknown: {why}"),
            Self::Poisoned(what) => write!(f, "store is poisoned by a failure: {what}"),
            Self::Locked(path) => write!(f, "store is in use: {}", path.display()),
            Self::Lost(what) => f.write_str(what),
            Self::Damaged(what) => write!(f, "store is damaged: {what}"),
        }
    }
}

impl std::error::Error for Error {}
