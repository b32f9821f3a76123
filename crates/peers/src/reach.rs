//! When it is told that a peer is not reached, and that it is again: at a change, not at each try, and not at each of many
//! changes in a row.

use std::time::Duration;

/// Least time between two lines that say that one peer is not reached: more often it is a bad wire, and known.
const TOLD_EVERY: Duration = Duration::from_secs(10);

/// How long a peer may not be reached before it is told: one that starts, or joins, takes a moment.
const PATIENCE: Duration = Duration::from_millis(500);

/// Whether one peer is reached, and whether that was told.
#[derive(Debug, Default)]
pub(crate) struct PeerReach {
    /// Since when it is not reached.
    failing_since: Option<Duration>,
    /// It was told that the peer is not reached, and not that it is again.
    is_told: bool,
    /// When it was told last.
    told_at: Option<Duration>,
}

impl PeerReach {
    /// A connection came about; whether to tell that there is one again.
    pub(crate) const fn reached(&mut self) -> bool {
        self.failing_since = None;
        std::mem::replace(&mut self.is_told, false)
    }

    /// None came about, at a time on any clock; whether to tell that.
    pub(crate) fn failed(&mut self, now: Duration) -> bool {
        let since = *self.failing_since.get_or_insert(now);
        let is_news = !self.is_told && now.saturating_sub(since) >= PATIENCE;
        if !is_news || self.told_at.is_some_and(|at| now.saturating_sub(at) < TOLD_EVERY) {
            return false;
        }
        (self.is_told, self.told_at) = (true, Some(now));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_told_once_and_a_bad_wire_seldom() {
        let at = Duration::from_millis;
        let mut reach = PeerReach::default();
        assert!(!reach.reached(), "nobody missed it");
        assert!(!reach.failed(at(5000)), "it may start just now");
        assert!(!reach.failed(at(5499)));
        assert!(reach.failed(at(5500)));
        assert!(!reach.failed(at(6000)));
        assert!(!reach.failed(at(60_000)), "nothing has changed");
        assert!(reach.reached());
        assert!(!reach.reached());
        assert!(!reach.failed(at(61_000)));
        assert!(reach.failed(at(61_500)));
        assert!(reach.reached());
        assert!(!reach.failed(at(62_000)));
        assert!(!reach.failed(at(64_000)), "it was told seconds ago");
        assert!(!reach.reached(), "what was not told lost is not told back");
        assert!(!reach.failed(at(70_000)));
        assert!(reach.failed(at(71_500)), "this one lasts");
    }
}
