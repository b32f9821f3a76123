//! Why a store refuses, grouped by what the caller does next.
//!
//! Messages say what and where and never quote a key or a value.

use std::fmt;
use std::path::PathBuf;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::Duration;

use kallisto_lsm::clock::{Clock, RealClock};

/// Least time between two lines about writes that were refused: the log may be on the disk that is full.
const TOLD_PAUSE: Duration = Duration::from_secs(60);

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
    /// A file could not be read or prepared. Nothing happened; the text names the file, and is for the log.
    Io(String),
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

/// When it was last told that writes are refused, and how many were since.
#[derive(Debug, Default)]
struct Told {
    at: Option<Duration>,
    untold: u64,
}

impl Told {
    /// How many there were with this one since the last line; `None` where it is too early for another.
    fn pass(&mut self, now: Duration) -> Option<u64> {
        self.untold += 1;
        if self.at.is_some_and(|at| now < at + TOLD_PAUSE) {
            return None;
        }
        self.at = Some(now);
        Some(std::mem::take(&mut self.untold))
    }
}

impl Error {
    /// Whether it is time to log that a request met this: how many did since the last line about the same. Of a full disk, of files
    /// that fail and of lost outcomes the first is told, and then once in a while how many there were.
    #[must_use]
    pub fn worth_telling(&self) -> Option<u64> {
        static FULL: Mutex<Told> = Mutex::new(Told { at: None, untold: 0 });
        static IO: Mutex<Told> = Mutex::new(Told { at: None, untold: 0 });
        static UNKNOWN: Mutex<Told> = Mutex::new(Told { at: None, untold: 0 });
        static CLOCK: LazyLock<RealClock> = LazyLock::new(RealClock::new);
        let told = match self {
            Self::Full(_) => &FULL,
            Self::Io(_) => &IO,
            Self::Unknown(_) => &UNKNOWN,
            _ => return Some(1),
        };
        told.lock().unwrap_or_else(PoisonError::into_inner).pass(CLOCK.now())
    }
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
            Self::Io(what) => f.write_str(what),
            Self::Unknown(why) => write!(f, "the write's outcome is unknown: {why}"),
            Self::Poisoned(what) => write!(f, "store is poisoned by a failure: {what}"),
            Self::Locked(path) => write!(f, "store is in use: {}", path.display()),
            Self::Lost(what) => f.write_str(what),
            Self::Damaged(what) => write!(f, "store is damaged: {what}"),
        }
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_writes_are_told_at_first_and_then_counted() {
        let mut told = Told::default();
        let start = Duration::from_secs(7);
        assert_eq!(told.pass(start), Some(1));
        for n in 0..1000 {
            assert_eq!(told.pass(start + Duration::from_millis(n)), None);
        }
        assert_eq!(told.pass(start + TOLD_PAUSE), Some(1001));
        assert_eq!(told.pass(start + TOLD_PAUSE * 2), Some(1), "another full disk is told at once");
    }

    #[test]
    fn full_disks_and_lost_outcomes_are_told_in_turn_and_all_else_each_time() {
        for _ in 0..3 {
            assert_eq!(Error::Busy.worth_telling(), Some(1));
            assert_eq!(Error::Conflict.worth_telling(), Some(1));
        }
        for error in
            [Error::Full("why".into()), Error::Io("why".into()), Error::Unknown("why".into())]
        {
            // Another test may have met the same.
            let _ = error.worth_telling();
            assert_eq!(error.worth_telling(), None, "{error}");
        }
    }
}
