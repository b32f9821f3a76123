//! Leases never outlive their maximum: a server lets nobody in by a token whose time is up by that server's own clock, whoever
//! renewed it how often, and whichever server made it by which clock.
//!
//! The end of a token is an instant by the clock of the server that led when it was made or renewed. What servers' clocks differ by is
//! the allowance: a server that is so much behind lets a token live so much longer, and none more.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use super::{InvariantViolation, violated};

/// How long each token may live at most.
#[derive(Debug, Default)]
pub(crate) struct Lifetimes(BTreeMap<usize, TokenLife>);

#[derive(Clone, Copy, Debug)]
struct TokenLife {
    /// Its maximum.
    max: Timestamp,
    /// The latest end that anything asked for.
    end: Timestamp,
}

fn after(from: Timestamp, secs: u64) -> Timestamp {
    let span = SignedDuration::from_secs(i64::try_from(secs).unwrap_or(i64::MAX));
    from.saturating_add(span).unwrap_or(Timestamp::MAX)
}

impl Lifetimes {
    /// A token was made at `at`, by the clock of the server that made it.
    pub(crate) fn made(&mut self, token: usize, at: Timestamp, secs: u64, secs_max: u64) {
        let max = after(at, secs_max);
        self.0.insert(token, TokenLife { max, end: after(at, secs).min(max) });
    }

    /// A server set out to renew it at `at` by its clock.
    pub(crate) fn renewed(&mut self, token: usize, at: Timestamp, secs: u64) {
        if let Some(life) = self.0.get_mut(&token) {
            life.end = life.end.max(after(at, secs)).min(life.max);
        }
    }

    /// A server let somebody in by it at `at` by its clock.
    pub(crate) fn used(
        &self,
        token: usize,
        server: u64,
        at: Timestamp,
    ) -> Result<(), InvariantViolation> {
        let Some(life) = self.0.get(&token).filter(|life| at >= life.end) else { return Ok(()) };
        let TokenLife { max, end } = life;
        Err(violated("leases never outlive their maximum")(format!(
            "server {server} lets token {token} in at {at} by its clock: its end was {end}, its maximum {max}"
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_that_lives_on_is_seen() {
        let at = |secs| Timestamp::from_second(secs).unwrap();
        let mut lifetimes = Lifetimes::default();
        lifetimes.made(1, at(100), 10, 25);
        assert_eq!(lifetimes.used(1, 2, at(109)), Ok(()));
        assert!(lifetimes.used(1, 2, at(110)).is_err());
        lifetimes.renewed(1, at(109), 10);
        assert_eq!(lifetimes.used(1, 2, at(118)), Ok(()));
        lifetimes.renewed(1, at(118), 10);
        assert_eq!(lifetimes.used(1, 2, at(124)), Ok(()));
        assert!(lifetimes.used(1, 2, at(125)).is_err(), "its maximum");
    }
}
