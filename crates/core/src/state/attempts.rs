//! How often requests may have a new server look for the cluster they name.
//!
//! `join` asks for no token, so anybody who reaches a listener of a server that is not initialised may have it connect
//! somewhere. One attempt runs at a time, and the next begins some seconds after it began at the earliest: slow enough that
//! looking for open ports by it is not worth the while.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;

use crate::api::error::Error;

/// Least time from the beginning of an attempt to that of the next.
const PAUSE: Duration = Duration::from_secs(5);

/// The attempts of requests.
#[derive(Default)]
pub(crate) struct RunningAttempts(Arc<Mutex<Last>>);

#[derive(Default)]
struct Last {
    is_under_way: bool,
    began: Option<Timestamp>,
}

/// An attempt, which ends when this is dropped.
pub(crate) struct RunningAttempt(Arc<Mutex<Last>>);

impl RunningAttempts {
    /// Begins an attempt.
    ///
    /// # Errors
    /// [`Error::Unavailable`] while another is under way, or was begun just before.
    pub(crate) fn begin(&self, now: Timestamp) -> Result<RunningAttempt, Error> {
        let mut last = lock(&self.0);
        if last.is_under_way {
            return Err(Error::Unavailable("another attempt to join is under way".into()));
        }
        // A clock that was set back holds nobody up.
        let passed = last.began.and_then(|began| Duration::try_from(now - began).ok());
        if let Some(left) = passed.and_then(|passed| PAUSE.checked_sub(passed))
            && !left.is_zero()
        {
            let secs = PAUSE.as_secs();
            return Err(Error::Unavailable(format!(
                "an attempt to join was made less than {secs} seconds ago: send it again"
            )));
        }
        *last = Last { is_under_way: true, began: Some(now) };
        Ok(RunningAttempt(Arc::clone(&self.0)))
    }
}

impl Drop for RunningAttempt {
    fn drop(&mut self) {
        lock(&self.0).is_under_way = false;
    }
}

fn lock(last: &Mutex<Last>) -> MutexGuard<'_, Last> {
    last.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(secs: i64) -> Timestamp {
        Timestamp::from_second(secs).unwrap()
    }

    #[test]
    fn attempts_follow_each_other_with_a_pause() {
        let attempts = RunningAttempts::default();
        let first = attempts.begin(at(100)).unwrap();
        assert!(attempts.begin(at(200)).is_err(), "the first is under way, however long");
        drop(first);
        let second = attempts.begin(at(200)).unwrap();
        drop(second);
        assert!(attempts.begin(at(204)).is_err());
        drop(attempts.begin(at(205)).unwrap());
        drop(attempts.begin(at(50)).unwrap());
    }
}
