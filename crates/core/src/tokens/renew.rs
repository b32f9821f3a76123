//! Renewing tokens.

use jiff::{SignedDuration, Timestamp};
use kallisto_engine::token_params::TokenParams;
use kallisto_leases::told_secs;

use super::create::{capped, capped_period};
use super::roles;
use crate::api::error::Error;
use crate::records::mount::LeaseTimes;
use crate::records::token::TokenEntry;
use crate::records::token::TokenHash;
use crate::storage::keys;
use crate::storage::transact::transact;
use crate::timers::Timer;
use crate::tokens::spec::leases;
use crate::view::NamespaceContext;

/// What the role and the mount of a login say of the times of its tokens, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LoginTimes {
    /// What a renewal gives that asks for nothing.
    first: u64,
    period: u64,
    /// The most that all renewals give together, and each of a periodic token.
    max: u64,
}

impl LoginTimes {
    pub(super) fn new(params: &TokenParams, leases: LeaseTimes) -> Self {
        let or = |secs: u64, other: u64| if secs > 0 { secs } else { other };
        Self {
            first: or(params.ttl_secs, leases.default_secs),
            period: params.period_secs,
            max: leases.max_secs.min(or(params.max_ttl_secs, leases.max_secs)),
        }
    }
}

/// Gives a token more time: `increment` seconds from `now`, its period, or the default, within its
/// maximum. What its role says of them counts as it is now, and so does what its login's role and mount say: `login`. Returns the renewed
/// entry, and a warning when it got less than was asked.
///
/// # Errors
/// [`Error::Invalid`] when it is not renewable or gone, its role is, or it is past its maximum.
pub(super) async fn renew(
    context: &NamespaceContext,
    hash: &TokenHash,
    (increment, login): (u64, Option<LoginTimes>),
    now: Timestamp,
) -> Result<(TokenEntry, Option<String>), Error> {
    let key = keys::token(hash);
    let max_secs = leases(context).max_secs;
    let begin = context.services.timers.now();
    let stored = transact(&context.store, |batch| {
        let record = context.store.get(&key)?;
        let record = record.ok_or_else(|| Error::invalid("token not found"))?;
        let entry = TokenEntry::decode(&record.value);
        let mut entry = entry.ok_or_else(|| Error::internal(&"a token record is damaged"))?;
        if !entry.renewable || entry.auth.is_expired(now) {
            return Err(Error::invalid("lease is not renewable"));
        }
        follow_role(context, &mut entry)?;
        let mut asked = increment;
        if let Some(login) = login {
            (entry.period_secs, entry.max_ttl_secs) = (login.period, login.max);
            asked = if increment > 0 { increment } else { login.first };
        }
        let warning = extend(&mut entry, asked, max_secs, now)?;
        batch.expect(key.clone(), record.seqno);
        batch.put(key.clone(), entry.encode());
        Ok((entry, warning))
    });
    let stored = stored.await;
    if stored.is_ok() {
        context.services.timers.end(Timer::TokenStore, begin);
    }
    stored
}

/// Takes in what the role of a token says by now. The maximum that a token was made with is never put off by that.
///
/// # Errors
/// [`Error::Invalid`] when there is no such role any more: to delete it is how its tokens are let run out.
fn follow_role(context: &NamespaceContext, entry: &mut TokenEntry) -> Result<(), Error> {
    let Some(name) = &entry.role else { return Ok(()) };
    let role = roles::load(context, name)?.ok_or_else(|| {
        Error::invalid(format!("original token role \"{name}\" could not be found, not renewing"))
    })?;
    entry.period_secs = role.period_secs;
    let maximums = [entry.explicit_max_ttl_secs, role.explicit_max_ttl_secs];
    entry.explicit_max_ttl_secs = maximums.into_iter().filter(|secs| *secs > 0).min().unwrap_or(0);
    Ok(())
}

/// Moves the end of a token. The end is an instant, never past the token's maximum.
/// Returns a warning when that is sooner than what was asked, in the seconds that clients are told.
///
/// # Errors
/// [`Error::Invalid`] when it is past its maximum, which may have become less since it got its time; it keeps that.
fn extend(
    entry: &mut TokenEntry,
    increment: u64,
    max_secs: u64,
    now: Timestamp,
) -> Result<Option<String>, Error> {
    // What its login says, or the mount's: the most that all renewals of a token give, and each of a periodic one.
    let most = if entry.max_ttl_secs > 0 { entry.max_ttl_secs } else { max_secs };
    let (period, explicit) = (entry.period_secs, entry.explicit_max_ttl_secs);
    let wanted = match (period, increment) {
        (0, 0) => entry.ttl_secs.max(1),
        (0, increment) => increment,
        (period, _) => period.min(most),
    };
    let max = match (explicit, period) {
        (0, 0) => Some(most),
        (explicit, 0) => Some(explicit.min(most)),
        (0, _) => None,
        (explicit, _) => Some(explicit),
    };
    let after = |from: Timestamp, secs: u64| {
        let span = SignedDuration::from_secs(i64::try_from(secs).unwrap_or(i64::MAX));
        from.saturating_add(span).unwrap_or(Timestamp::MAX)
    };
    let end = after(now, wanted);
    let end = max.map_or(end, |max| end.min(after(entry.auth.created_at, max)));
    // A root token may have been given more than the mount's maximum, which a renewal does not take back.
    let beyond = entry
        .auth
        .expires_at
        .filter(|at| period == 0 && explicit > most && *at > after(entry.auth.created_at, most));
    let end = beyond.map_or(end, |beyond| end.max(beyond));
    if end <= now {
        return Err(Error::invalid("past the max TTL, cannot renew"));
    }
    entry.auth.expires_at = Some(end);
    entry.renewed_at = Some(now);
    let left_until = |end: Timestamp| told_secs(end.as_nanosecond() - now.as_nanosecond());
    let left = max.map(|max| left_until(after(entry.auth.created_at, max)));
    Ok(match left {
        Some(left) if wanted > left => Some(capped(wanted, left)),
        _ => (period > most).then(|| capped_period(period, most)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::token::make_root;

    fn at(secs: i64) -> Timestamp {
        Timestamp::from_second(secs).unwrap()
    }

    fn entry(explicit: u64, period: u64) -> TokenEntry {
        let mut entry = make_root(at(0)).unwrap();
        entry.auth.expires_at = Some(at(100));
        entry.ttl_secs = 100;
        entry.explicit_max_ttl_secs = explicit;
        entry.period_secs = period;
        entry
    }

    #[test]
    fn a_renewal_takes_nothing_back_of_what_a_root_token_was_given_beyond_the_maximum() {
        let mut entry = entry(3_000_000, 0);
        entry.auth.expires_at = Some(at(3_000_000));
        for increment in [0, 50, 9_000_000] {
            extend(&mut entry, increment, 2_764_800, at(10)).unwrap();
            assert_eq!(entry.auth.expires_at, Some(at(3_000_000)), "{increment}");
        }
    }

    #[test]
    fn a_renewal_near_the_maximum_never_passes_it() {
        for millis in 998_000..1_002_000 {
            let now = Timestamp::from_millisecond(millis).unwrap();
            let mut entry = entry(1000, 0);
            let renewed = extend(&mut entry, 500, 2_764_800, now);
            assert_eq!(renewed.is_ok(), millis < 1_000_000);
            assert!(entry.auth.expires_at.unwrap() <= at(1000));
        }
    }

    #[test]
    fn a_renewal_gives_what_was_asked_the_period_or_the_first_lifetime() {
        for (explicit, period, increment, end) in
            [(0, 0, 50, 60), (0, 0, 0, 110), (0, 30, 500, 40), (20, 30, 0, 20)]
        {
            let mut entry = entry(explicit, period);
            extend(&mut entry, increment, 2_764_800, at(10)).unwrap();
            assert_eq!(entry.auth.expires_at, Some(at(end)), "{explicit} {period} {increment}");
        }
    }

    /// A login's maximum is its token's, be it shorter than the mount's or longer.
    #[test]
    fn a_renewal_goes_to_the_maximum_that_the_token_was_made_with() {
        for (own, max_secs, end) in [(60, 3600, 60), (5000, 3600, 5000), (0, 3600, 3600)] {
            let mut entry = entry(0, 0);
            entry.max_ttl_secs = own;
            extend(&mut entry, 9000, max_secs, at(10)).unwrap();
            assert_eq!(entry.auth.expires_at, Some(at(end)), "{own} {max_secs}");
        }
    }

    #[test]
    fn a_renewal_that_gives_less_than_was_asked_says_so() {
        let warned = |explicit, period, increment| {
            extend(&mut entry(explicit, period), increment, 7200, at(10)).unwrap()
        };
        let text = "TTL of \"5h\" exceeded the effective max_ttl of \"19m50s\"; TTL value is capped \
                    accordingly";
        assert_eq!(warned(1200, 0, 18_000).as_deref(), Some(text));
        assert!(warned(0, 0, 7191).is_some() && warned(20, 30, 0).is_some());
        for (explicit, period, increment) in [(1200, 0, 1190), (0, 0, 7190), (0, 30, 9000)] {
            assert_eq!(warned(explicit, period, increment), None);
        }
    }

    /// What the warning and the lease time of the answer say is one number.
    #[test]
    fn what_a_renewal_at_the_maximum_gives_is_told_in_the_nearest_second() {
        let millis = |millis| Timestamp::from_millisecond(millis).unwrap();
        let mut at_once = entry(600, 0);
        at_once.auth.created_at = millis(900);
        for (now, left, short) in
            [(1000, 600, None), (1401, 599, Some("9m59s")), (11_000, 590, Some("9m50s"))]
        {
            let warned = extend(&mut at_once, 600, 7200, millis(now)).unwrap();
            assert_eq!(at_once.ttl_left_secs(millis(now)), left, "{now}");
            assert_eq!(warned.is_some(), short.is_some(), "{now}");
            let says = |short| warned.unwrap().contains(&format!("max_ttl of \"{short}\""));
            assert!(short.is_none_or(says), "{now}");
        }
    }

    #[test]
    fn a_token_at_the_maximum_or_below_was_given_nothing_beyond_it() {
        for (explicit, ends, renewed_to) in [(1000, 2000, 60), (3000, 1000, 60), (3000, 1001, 1001)]
        {
            let mut entry = entry(explicit, 0);
            entry.auth.expires_at = Some(at(ends));
            extend(&mut entry, 50, 1000, at(10)).unwrap();
            assert_eq!(entry.auth.expires_at, Some(at(renewed_to)), "{explicit} {ends}");
        }
    }

    #[test]
    fn what_is_left_is_counted_from_when_the_token_was_made() {
        let mut made_later = entry(1000, 0);
        made_later.auth.created_at = at(500);
        made_later.auth.expires_at = Some(at(600));
        let warning = extend(&mut made_later, 800, 7200, at(700)).unwrap();
        assert_eq!(made_later.auth.expires_at, Some(at(1500)));
        assert_eq!(warning, None, "800 seconds are left");
        let warning = extend(&mut made_later, 801, 7200, at(700)).unwrap();
        assert!(warning.is_some());
        assert_eq!(extend(&mut entry(0, 7200), 0, 7200, at(10)).unwrap(), None, "all of a period");
    }
}
