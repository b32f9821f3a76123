//! What was seen of the lead and the members, looked at about once a second (`jobs::observe`).

use std::time::Duration;

/// What was seen so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Observed {
    /// Since when this server leads.
    leads_since: Option<Duration>,
    /// Whether it was seen to follow the last time.
    follows: bool,
    /// How often it began to lead, and to follow.
    pub(crate) led: u64,
    pub(crate) followed: u64,
    /// How the members are, as the leader finds.
    pub(crate) health: Option<MemberHealth>,
    /// The members that said that they are sealed, when the leader asked last.
    pub(crate) sealed: Vec<u64>,
}

/// How the members are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct MemberHealth {
    /// Whether all are well.
    pub(crate) is_healthy: bool,
    /// Voters that may fail before there is no majority.
    pub(crate) tolerance: usize,
    /// Each by name, and whether it is well.
    pub(crate) servers: Vec<(String, bool)>,
}

impl Observed {
    /// For how long this server leads, as far as was seen.
    pub(crate) fn led_for(&self, now: Duration) -> Option<Duration> {
        self.leads_since.map(|since| now.saturating_sub(since))
    }

    /// Takes note of whether this server leads; how long it had led, if it does no more.
    pub(crate) fn saw(
        &mut self,
        leads: bool,
        now: Duration,
        health: Option<MemberHealth>,
    ) -> Option<Duration> {
        self.health = health;
        if leads {
            if self.leads_since.is_none() {
                self.led += 1;
                self.leads_since = Some(now);
            }
            self.follows = false;
            return None;
        }
        if !self.follows {
            self.followed += 1;
            self.follows = true;
        }
        self.leads_since.take().map(|since| now.saturating_sub(since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lead_that_is_lost_is_told_once_and_how_long_it_was() {
        let mut observed = Observed::default();
        let mut saw = |leads, secs| observed.saw(leads, Duration::from_secs(secs), None);
        assert_eq!([saw(false, 1), saw(true, 2), saw(true, 5)], [None; 3]);
        assert_eq!(saw(false, 9), Some(Duration::from_secs(7)));
        assert_eq!([saw(false, 10), saw(true, 11)], [None; 2]);
        assert_eq!((observed.led, observed.followed), (2, 2));
        assert_eq!(observed.led_for(Duration::from_secs(15)), Some(Duration::from_secs(4)));
        observed.saw(false, Duration::from_secs(16), None);
        assert_eq!(observed.led_for(Duration::from_secs(17)), None);
    }
}
