//! The lease, and what a server is to do about it: pure decisions, for `keeper`.
//!
//! A lease is over once a server saw it as it is for [`LEASE`], by that server's own clock: who holds it would have renewed it. So
//! no clock is compared with another one, and a database whose clock is set, or that fails over to a machine with another time,
//! neither ends a lease early nor keeps one that nobody holds. What the database writes as its end is a mark, that differs after
//! each renewal, and no time.

use std::time::Duration;

use kallisto_store::Candidacy;

use crate::limits::{LEASE, WANTED};

/// The lease as the database has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeaseLook {
    /// Grows with each lease that is taken.
    pub epoch: u64,
    /// Who holds it; 0 for nobody.
    pub holder: u64,
    /// To whom it was left; 0 for whoever comes.
    pub wanted: u64,
    /// The position of the last commit.
    pub position: u64,
    /// Differs after each renewal.
    pub mark: i64,
}

/// Since when the lease is as it is.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LeaseWatch {
    last: Option<(u64, u64, i64)>,
    since: Duration,
}

impl LeaseWatch {
    /// Takes a look that was heard at `now`: since when the lease is so. Not since the question: it may have been renewed between.
    pub(crate) fn note(&mut self, look: &LeaseLook, now: Duration) -> Duration {
        let seen = (look.epoch, look.holder, look.mark);
        if self.last != Some(seen) {
            (self.last, self.since) = (Some(seen), now);
        }
        self.since
    }
}

/// What a server is to do about the lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LeaseAct {
    Nothing,
    Renew,
    Take,
    Release,
}

/// What this server knows besides.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PgStanding {
    pub(crate) own: u64,
    /// The epoch that it holds.
    pub(crate) holds: Option<u64>,
    pub(crate) candidacy: Candidacy,
    /// Another server is there that would lead.
    pub(crate) has_willing_other: bool,
    /// For how long it saw the lease as it is.
    pub(crate) unchanged: Duration,
}

/// What is to be done.
pub(crate) fn decide(look: LeaseLook, standing: PgStanding) -> LeaseAct {
    let may_lead = standing.candidacy == Candidacy::Willing || !standing.has_willing_other;
    if standing.holds == Some(look.epoch) && look.holder == standing.own {
        return if may_lead { LeaseAct::Renew } else { LeaseAct::Release };
    }
    let is_free = look.holder == 0 || look.holder == standing.own || standing.unchanged >= LEASE;
    let is_for_another = look.holder == 0
        && look.wanted != 0
        && look.wanted != standing.own
        && standing.unchanged < WANTED;
    if is_free && may_lead && !is_for_another { LeaseAct::Take } else { LeaseAct::Nothing }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_is_taken_when_it_is_free_by_those_that_serve_first() {
        let look = |holder, wanted, unchanged_ms| {
            let look = LeaseLook { epoch: 7, holder, wanted, position: 9, mark: 5 };
            (look, Duration::from_millis(unchanged_ms))
        };
        let standing = |holds, candidacy, has_willing_other| PgStanding {
            own: 1,
            holds,
            candidacy,
            has_willing_other,
            unchanged: Duration::ZERO,
        };
        use Candidacy::{Reluctant, Willing};
        for ((look, unchanged), standing, act) in [
            (look(1, 0, 900), standing(Some(7), Willing, true), LeaseAct::Renew),
            (look(1, 0, 9000), standing(Some(7), Willing, true), LeaseAct::Renew),
            (look(1, 0, 900), standing(Some(7), Reluctant, true), LeaseAct::Release),
            (look(1, 0, 900), standing(Some(7), Reluctant, false), LeaseAct::Renew),
            (look(1, 0, 900), standing(Some(6), Willing, false), LeaseAct::Take),
            (look(2, 0, 4900), standing(None, Willing, false), LeaseAct::Nothing),
            (look(2, 0, 5000), standing(None, Willing, true), LeaseAct::Take),
            (look(2, 0, 5000), standing(None, Reluctant, true), LeaseAct::Nothing),
            (look(2, 0, 5000), standing(None, Reluctant, false), LeaseAct::Take),
            (look(0, 0, 0), standing(None, Willing, true), LeaseAct::Take),
            (look(0, 0, 0), standing(None, Reluctant, true), LeaseAct::Nothing),
            (look(0, 0, 0), standing(None, Reluctant, false), LeaseAct::Take),
            (look(0, 2, 900), standing(None, Willing, true), LeaseAct::Nothing),
            (look(0, 2, 1000), standing(None, Willing, true), LeaseAct::Take),
            (look(0, 1, 0), standing(None, Willing, true), LeaseAct::Take),
        ] {
            let standing = PgStanding { unchanged, ..standing };
            assert_eq!(decide(look, standing), act, "{look:?} {standing:?}");
        }
    }

    #[test]
    fn a_lease_that_is_renewed_is_new_whatever_time_the_database_writes() {
        let (mut watch, at) = (LeaseWatch::default(), Duration::from_secs);
        let look = |mark| LeaseLook { epoch: 7, holder: 2, mark, ..LeaseLook::default() };
        assert_eq!(watch.note(&look(1000), at(1)), at(1));
        assert_eq!(watch.note(&look(1000), at(4)), at(1));
        // The clock was set back, and then an hour forward.
        assert_eq!(watch.note(&look(-5), at(5)), at(5));
        assert_eq!(watch.note(&look(3_600_000_000), at(6)), at(6));
        assert_eq!(watch.note(&look(3_600_000_000), at(11)), at(6));
        // Another one holds it.
        let other = LeaseLook { holder: 3, ..look(3_600_000_000) };
        assert_eq!(watch.note(&other, at(12)), at(12));
    }
}
