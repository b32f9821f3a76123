//! No answer is older than its bound: what a server had applied at some time, every server that answers holds [`BOUND`] later, by the
//! clock of the world and whatever the servers' own clocks say. So what was revoked by then is refused, and what was destroyed is gone.

use std::time::Duration;

use super::{InvariantViolation, violated};
use crate::clock::RATE_MIN;
use crate::clock::RIGHT_RATE;
use crate::site::MAX_STALENESS;

/// The bound of a server whose clock is as slow as any.
const BOUND: Duration =
    Duration::from_millis(MAX_STALENESS.as_millis() as u64 * RIGHT_RATE / RATE_MIN + 1);

/// Up to where anybody had applied, and since when; both only grow.
#[derive(Debug, Default)]
pub(crate) struct FreshnessOracle(Vec<(Duration, u64)>);

impl FreshnessOracle {
    /// A server has applied everything up to `held`.
    pub(crate) fn applied(&mut self, now: Duration, held: u64) {
        if self.0.last().is_none_or(|(_, known)| *known < held) {
            self.0.push((now, held));
        }
    }

    /// A server has answered a request that it took up at `taken`, when its view held everything up to `held`.
    pub(crate) fn answered(
        &self,
        server: u64,
        taken: Duration,
        held: u64,
    ) -> Result<(), InvariantViolation> {
        let before = self.0.partition_point(|(since, _)| *since + BOUND <= taken);
        match before.checked_sub(1).map(|last| self.0[last]) {
            Some((since, known)) if known > held => {
                let what = format!(
                    "server {server} answers at {taken:?} from {held}: {known} was applied at {since:?}"
                );
                Err(violated("no answer is older than its bound")(what))
            }
            Some(_) | None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_is_too_old_is_seen() {
        let mut fresh = FreshnessOracle::default();
        let second = Duration::from_secs(1);
        fresh.applied(second, 5);
        fresh.applied(2 * second, 4);
        fresh.applied(3 * second, 7);
        let just_before = second + BOUND - Duration::from_nanos(1);
        assert!(fresh.answered(1, just_before, 4).is_ok());
        assert!(fresh.answered(1, second + BOUND, 4).is_err());
        assert!(fresh.answered(1, second + BOUND, 5).is_ok());
        assert!(fresh.answered(1, 3 * second + BOUND, 6).is_err());
    }
}
