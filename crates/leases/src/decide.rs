//! Lifetimes, renewals, and what follows an attempt to revoke: pure decisions.
//!
//! A lifetime is what was asked for, else the role's default, else the mount's; it ends at the latest when the
//! smallest of the maxima has passed since the lease was *issued*, however often it is renewed.

use std::fmt;
use std::time::Duration;

use crate::limits::{
    ATTEMPTS_MAX, BACKOFF_FIRST_SECS, JITTER_DIVISOR, PENDING_SECS_MAX, UNANSWERED_DIVISOR,
    UNANSWERED_SECS_MAX,
};
use crate::record::{LeasePhase, LeaseRecord, LeaseState, Term};

const NANOS_PER_SEC: i64 = 1_000_000_000;

/// What bounds the lifetime of a lease, in seconds; 0 leaves it to the next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TtlLimits {
    /// The role's default.
    pub role_default_secs: u64,
    /// The role's maximum.
    pub role_max_secs: u64,
    /// The mount's default.
    pub mount_default_secs: u64,
    /// The mount's maximum.
    pub mount_max_secs: u64,
    /// The server's default.
    pub system_default_secs: u64,
    /// The server's maximum, which a mount's may exceed.
    pub system_max_secs: u64,
}

/// A lifetime that is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TtlRequest {
    /// In seconds; 0 for the default.
    pub ttl_secs: u64,
    /// What bounds it.
    pub limits: TtlLimits,
    /// When the token that asks ends for good, in nanoseconds since 1970: the end of a batch token, which is not
    /// stored and so cannot end its leases.
    pub owner_ends_ns: Option<i64>,
}

/// A lifetime that was cut. Its text is the warning for the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TtlCapped {
    /// What was asked for, in seconds.
    pub asked_secs: u64,
    /// What was possible, in seconds.
    pub max_secs: u64,
}

impl fmt::Display for TtlCapped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let short = |secs| kallisto_duration::to_go_short(Duration::from_secs(secs));
        let (asked, max) = (short(self.asked_secs), short(self.max_secs));
        write!(
            f,
            "TTL of \"{asked}\" exceeded the effective max_ttl of \"{max}\"; TTL value is capped \
             accordingly"
        )
    }
}

/// The lifetime of a new lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ttl {
    /// In seconds.
    pub ttl_secs: u64,
    /// The times of a lease that is issued now.
    pub term: Term,
    /// That it is shorter than what was asked for.
    pub capped: Option<TtlCapped>,
}

/// Decides how long a lease lives that is issued at `now_ns`; `renewable` is the engine's word.
pub fn decide_ttl(request: &TtlRequest, renewable: bool, now_ns: i64) -> Ttl {
    let limits = &request.limits;
    let max_secs = limits.max_secs();
    let asked = [
        request.ttl_secs,
        limits.role_default_secs,
        limits.mount_default_secs,
        limits.system_default_secs,
    ];
    let asked_secs = first_given(asked).unwrap_or(max_secs);
    let expires_ns_max = request.owner_ends_ns.unwrap_or(i64::MAX).min(after(now_ns, max_secs));
    let ttl_secs = asked_secs.min(secs_until(expires_ns_max, now_ns));
    let capped = (ttl_secs < asked_secs).then_some(TtlCapped { asked_secs, max_secs: ttl_secs });
    let term = Term {
        issued_ns: now_ns,
        expires_ns: after(now_ns, asked_secs).min(expires_ns_max),
        expires_ns_max,
        renewed_ns: None,
        ttl_secs: asked_secs.min(max_secs),
        renewable,
    };
    Ttl { ttl_secs, term, capped }
}

impl TtlLimits {
    /// The effective maximum: the mount's or else the server's, and the role's where it is smaller.
    pub fn max_secs(&self) -> u64 {
        let mount = first_given([self.mount_max_secs, self.system_max_secs]).unwrap_or(u64::MAX);
        first_given([self.role_max_secs]).map_or(mount, |role| role.min(mount))
    }
}

/// The first number that is not 0.
fn first_given<const N: usize>(numbers: [u64; N]) -> Option<u64> {
    numbers.into_iter().find(|&number| number > 0)
}

/// So many seconds later; the end of time when that is beyond it.
fn after(from_ns: i64, secs: u64) -> i64 {
    let span = i64::try_from(secs).unwrap_or(i64::MAX).saturating_mul(NANOS_PER_SEC);
    from_ns.saturating_add(span)
}

/// What clients are told of a time that is left, in seconds, for all that ends: the nearest second, so that what was given a moment ago
/// is still whole, and at least one while it is not over. `left_ns` is in nanoseconds; 0 or less for what is over.
pub fn told_secs(left_ns: i128) -> u64 {
    if left_ns <= 0 {
        return 0;
    }
    let nanos_per_sec = i128::from(NANOS_PER_SEC);
    let nearest = left_ns.saturating_add(nanos_per_sec / 2) / nanos_per_sec;
    u64::try_from(nearest.max(1)).unwrap_or(u64::MAX)
}

/// [`told_secs`] from `now_ns` to `end_ns`.
fn secs_until(end_ns: i64, now_ns: i64) -> u64 {
    told_secs(i128::from(end_ns) - i128::from(now_ns))
}

/// Why a lease is not renewed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RenewalRefusal {
    /// Its engine gives nothing that could live longer.
    NotRenewable,
    /// It is over, ends, or never began.
    Invalid,
    /// It is past its maximum, which may have become shorter since it got its time.
    PastMaximum,
}

impl fmt::Display for RenewalRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotRenewable => "lease is not renewable",
            Self::Invalid => "invalid lease",
            Self::PastMaximum => "past the max TTL, cannot renew",
        })
    }
}

impl std::error::Error for RenewalRefusal {}

/// A renewal that is granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GrantedRenewal {
    /// The new times.
    pub term: Term,
    /// How long it lives from now, in seconds.
    pub ttl_secs: u64,
    /// That this is less than what was asked for.
    pub capped: Option<TtlCapped>,
}

/// Decides a renewal at `now_ns`: `increment_secs` from now, or what the lease was first given when that is 0. It ends at the latest
/// at the maximum that it was issued with, and `max_secs` after it was issued, which is what its mount has by now.
///
/// # Errors
/// Why it is refused.
pub fn decide_renewal(
    record: &LeaseRecord,
    increment_secs: u64,
    max_secs: u64,
    now_ns: i64,
) -> Result<GrantedRenewal, RenewalRefusal> {
    let term = record.term;
    if record.state.phase() != LeasePhase::Live || term.expires_ns <= now_ns {
        return Err(RenewalRefusal::Invalid);
    }
    if !term.renewable {
        return Err(RenewalRefusal::NotRenewable);
    }
    let expires_ns_max = term.expires_ns_max.min(after(term.issued_ns, max_secs));
    if expires_ns_max <= now_ns {
        return Err(RenewalRefusal::PastMaximum);
    }
    let asked_secs = first_given([increment_secs, term.ttl_secs]).unwrap_or(1);
    let left_secs = secs_until(expires_ns_max, now_ns);
    let ttl_secs = asked_secs.min(left_secs);
    let capped = (ttl_secs < asked_secs).then_some(TtlCapped { asked_secs, max_secs: left_secs });
    let expires_ns = after(now_ns, asked_secs).min(expires_ns_max);
    let term = Term { expires_ns, renewed_ns: Some(now_ns), ..term };
    Ok(GrantedRenewal { term, ttl_secs, capped })
}

/// Why an attempt to revoke a lease failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptFailure<'e> {
    /// The far end was not asked, or not heard. That says nothing about the credential: it is asked again until it answers.
    Unanswered,
    /// It refused, in these words, or nobody can ask it.
    Refused(&'e str),
}

/// What becomes of a lease after an attempt to revoke it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RevocationOutcome {
    /// The credential is gone, and so is the lease.
    Forget,
    /// It stays, in this state.
    Keep(LeaseState),
    /// It stays as it is, and is not tried again before this time, in nanoseconds since 1970. Who leads keeps that in memory: a far end that is
    /// out for a day writes nothing.
    Wait(i64),
}

/// Decides what follows an attempt of the queue to revoke a lease. `outcome` is what the engine says; a credential
/// that the far end does not know (any more) is a success. `random` is any number, freshly drawn.
pub fn decide_revocation(
    state: &LeaseState,
    outcome: Result<(), AttemptFailure<'_>>,
    now_ns: i64,
    random: u32,
) -> RevocationOutcome {
    let failed_before = match state {
        LeaseState::Pending | LeaseState::Live => 0,
        LeaseState::Revoking { attempts, .. } => *attempts,
        LeaseState::Irrevocable { .. } => ATTEMPTS_MAX,
    };
    let error = match (outcome, state) {
        (Ok(()), _) => return RevocationOutcome::Forget,
        (Err(AttemptFailure::Refused(error)), _) => error,
        (Err(AttemptFailure::Unanswered), LeaseState::Revoking { next_try_ns, .. }) => {
            let pause_ns = unanswered_pause_ns(now_ns.saturating_sub(*next_try_ns));
            return RevocationOutcome::Wait(later_ns(now_ns, pause_ns, random));
        }
        (Err(AttemptFailure::Unanswered), _) => {
            let attempts = failed_before.min(ATTEMPTS_MAX - 1);
            let next_try_ns = later_ns(now_ns, unanswered_pause_ns(0), random);
            return RevocationOutcome::Keep(LeaseState::Revoking { attempts, next_try_ns });
        }
    };
    let attempts = failed_before.saturating_add(1);
    if attempts >= ATTEMPTS_MAX {
        return RevocationOutcome::Keep(LeaseState::irrevocable(error));
    }
    let next_try_ns = later_ns(now_ns, backoff_ns(attempts), random);
    RevocationOutcome::Keep(LeaseState::Revoking { attempts, next_try_ns })
}

/// The pause after so many attempts that were refused: twice the one before.
fn backoff_ns(attempts: u8) -> u64 {
    let doublings = u32::from(attempts.clamp(1, ATTEMPTS_MAX)) - 1;
    (BACKOFF_FIRST_SECS << doublings) * NANOS_PER_SEC.cast_unsigned()
}

/// The pause after an attempt that nobody answered, of a lease that has been due for so long: it grows with that time, up to a bound, which is
/// how long a far end that is back may wait for it.
fn unanswered_pause_ns(due_for_ns: i64) -> u64 {
    let in_secs = |secs: u64| secs * NANOS_PER_SEC.cast_unsigned();
    let part = due_for_ns.max(0).cast_unsigned() / UNANSWERED_DIVISOR;
    part.clamp(in_secs(BACKOFF_FIRST_SECS), in_secs(UNANSWERED_SECS_MAX))
}

/// So much later, and a random part of it on top.
fn later_ns(now_ns: i64, pause_ns: u64, random: u32) -> i64 {
    let jitter_ns = (u128::from(pause_ns / JITTER_DIVISOR) * u128::from(random)) >> 32;
    now_ns.saturating_add_unsigned(pause_ns + u64::try_from(jitter_ns).unwrap_or_default())
}

impl LeaseRecord {
    /// When the queue may revoke it, in nanoseconds since 1970; `None` for never.
    pub fn due_ns(&self) -> Option<i64> {
        match self.state {
            LeaseState::Pending => Some(after(self.term.issued_ns, PENDING_SECS_MAX)),
            LeaseState::Live => Some(self.term.expires_ns),
            LeaseState::Revoking { next_try_ns, .. } => Some(next_try_ns),
            LeaseState::Irrevocable { .. } => None,
        }
    }

    /// Seconds it has left at `now_ns`, as [`told_secs`] rounds them; 0 for one that is not live.
    pub fn ttl_left_secs(&self, now_ns: i64) -> u64 {
        match self.state.phase() {
            LeasePhase::Live => secs_until(self.term.expires_ns, now_ns),
            LeasePhase::Pending | LeasePhase::Revoking | LeasePhase::Irrevocable => 0,
        }
    }

    /// The same lease with its end asked for: the queue tries it at once, with all attempts before it.
    pub fn to_revoking(&self, now_ns: i64) -> Self {
        Self { state: LeaseState::Revoking { attempts: 0, next_try_ns: now_ns }, ..self.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::ERROR_BYTES_MAX;
    use crate::record::tests::record;

    const NOW: i64 = 1_000_000 * NANOS_PER_SEC;

    fn at(secs: i64) -> i64 {
        NOW + secs * NANOS_PER_SEC
    }

    /// Default and maximum of a role, then of a mount, then of the server.
    fn limits(numbers: [u64; 6]) -> TtlLimits {
        let [role_default_secs, role_max_secs, mount_default_secs, mount_max_secs, rest @ ..] =
            numbers;
        let [system_default_secs, system_max_secs] = rest;
        TtlLimits {
            role_default_secs,
            role_max_secs,
            mount_default_secs,
            mount_max_secs,
            system_default_secs,
            system_max_secs,
        }
    }

    #[test]
    fn a_lifetime_is_the_first_one_given_within_the_smallest_maximum() {
        for (asked, numbers, ttl, capped) in [
            (0, [0, 0, 0, 0, 768, 900], 768, false),
            (0, [0, 0, 30, 0, 768, 900], 30, false),
            (0, [20, 0, 30, 0, 768, 900], 20, false),
            (10, [20, 0, 30, 0, 768, 900], 10, false),
            (950, [20, 0, 30, 0, 768, 900], 900, true),
            (950, [20, 0, 30, 1000, 768, 900], 950, false),
            (950, [20, 500, 30, 1000, 768, 900], 500, true),
            (950, [20, 2000, 30, 600, 768, 900], 600, true),
            (0, [700, 500, 0, 0, 768, 900], 500, true),
            (0, [0, 0, 0, 0, 0, 0], u64::MAX, true),
        ] {
            let request =
                TtlRequest { ttl_secs: asked, limits: limits(numbers), owner_ends_ns: None };
            let got = decide_ttl(&request, true, NOW);
            let most = secs_until(i64::MAX, NOW);
            assert_eq!(
                (got.ttl_secs, got.capped.is_some()),
                (ttl.min(most), capped),
                "{asked} {numbers:?}"
            );
            assert_eq!(secs_until(got.term.expires_ns, NOW), got.ttl_secs);
            assert!(got.term.expires_ns <= got.term.expires_ns_max);
        }
    }

    #[test]
    fn a_lease_ends_with_the_batch_token_that_asked() {
        let limits = limits([100, 0, 0, 0, 768, 900]);
        let request = TtlRequest { ttl_secs: 0, limits, owner_ends_ns: Some(at(60)) };
        let got = decide_ttl(&request, true, NOW);
        assert_eq!((got.ttl_secs, got.term.expires_ns_max), (60, at(60)));
    }

    #[test]
    fn a_capped_lifetime_is_said_in_durations_of_go() {
        for (asked_secs, max_secs, asked, max) in [
            (360_000, 86_400, "100h", "24h"),
            (60, 8, "1m", "8s"),
            (18_000, 1190, "5h", "19m50s"),
            (3605, 0, "1h0m5s", "0s"),
            (5400, 61, "1h30m", "1m1s"),
        ] {
            let expected = format!(
                "TTL of \"{asked}\" exceeded the effective max_ttl of \"{max}\"; TTL value is \
                 capped accordingly"
            );
            assert_eq!(TtlCapped { asked_secs, max_secs }.to_string(), expected);
        }
    }

    /// A lease of an hour, a day at most, issued now.
    fn lease() -> LeaseRecord {
        let mut lease = record("database/creds/r");
        lease.term.issued_ns = NOW;
        lease.term.expires_ns = at(3600);
        lease.term.expires_ns_max = at(86_400);
        lease
    }

    #[test]
    fn a_renewal_counts_from_now_and_is_bounded_from_the_issue_time() {
        let lease = lease();
        for (increment, now, ttl, capped) in [
            (2700, 5, 2700, None),
            (0, 5, 3600, None),
            (360_000, 0, 86_400, Some((360_000, 86_400))),
            (360_000, 3599, 82_801, Some((360_000, 82_801))),
        ] {
            let got = decide_renewal(&lease, increment, u64::MAX, at(now)).unwrap();
            assert_eq!((got.ttl_secs, got.term.renewed_ns), (ttl, Some(at(now))));
            assert_eq!(got.capped.map(|cut| (cut.asked_secs, cut.max_secs)), capped);
            let mut renewed = lease.clone();
            renewed.term = got.term;
            assert_eq!(renewed.term.expires_ns, at(now) + after(0, ttl));
            assert_eq!(renewed.term.issued_ns, NOW);
        }
    }

    #[test]
    fn a_renewal_a_moment_after_the_issue_names_the_whole_maximum() {
        let got = decide_renewal(&lease(), 360_000, u64::MAX, NOW + 7_000_000).unwrap();
        assert_eq!(got.ttl_secs, 86_400);
        assert_eq!(got.term.expires_ns, at(86_400));
    }

    /// A look-up and a renewal say the same of the same moment.
    #[test]
    fn what_is_left_is_told_in_the_nearest_second_and_is_none_only_at_the_end() {
        let millis = |millis: i64| NOW + millis * 1_000_000;
        let mut lease = lease();
        lease.term.expires_ns_max = lease.term.expires_ns;
        for (now, secs) in [
            (0, 3600),
            (1, 3600),
            (500, 3600),
            (501, 3599),
            (3_598_800, 1),
            (3_599_999, 1),
            (3_600_000, 0),
        ] {
            assert_eq!(lease.ttl_left_secs(millis(now)), secs, "{now}");
            if let Ok(renewed) = decide_renewal(&lease, 7200, u64::MAX, millis(now)) {
                let told = renewed.capped.unwrap().max_secs;
                assert_eq!((renewed.ttl_secs, told), (secs, secs), "{now}");
            }
        }
    }

    #[test]
    fn renewals_however_many_end_at_the_maximum() {
        let mut lease = lease();
        let mut random = fastrand::Rng::with_seed(31);
        let mut now = NOW;
        while let Ok(renewal) = decide_renewal(&lease, random.u64(..7200), u64::MAX, now) {
            assert!(renewal.term.expires_ns <= at(86_400));
            lease.term = renewal.term;
            now += random.i64(1..=2 * (lease.term.expires_ns - now).max(1));
        }
        assert!(now >= lease.term.expires_ns);
    }

    #[test]
    fn what_is_not_live_or_not_renewable_is_not_renewed() {
        let mut fixed = lease();
        fixed.term.renewable = false;
        assert_eq!(decide_renewal(&fixed, 0, u64::MAX, NOW), Err(RenewalRefusal::NotRenewable));
        assert_eq!(decide_renewal(&lease(), 0, u64::MAX, at(3600)), Err(RenewalRefusal::Invalid));
        for state in
            [LeaseState::Pending, lease().to_revoking(NOW).state, LeaseState::irrevocable("no")]
        {
            let ended = LeaseRecord { state, ..lease() };
            assert_eq!(decide_renewal(&ended, 0, u64::MAX, NOW), Err(RenewalRefusal::Invalid));
        }
        assert_eq!(RenewalRefusal::NotRenewable.to_string(), "lease is not renewable");
        assert_eq!(RenewalRefusal::Invalid.to_string(), "invalid lease");
    }

    fn refused(words: &str) -> Result<(), AttemptFailure<'_>> {
        Err(AttemptFailure::Refused(words))
    }

    #[test]
    fn six_attempts_with_doubling_pauses_and_then_it_is_irrevocable() {
        let mut state = LeaseState::Live;
        let mut pauses = Vec::new();
        loop {
            match decide_revocation(&state, refused("down"), NOW, 0) {
                RevocationOutcome::Keep(next @ LeaseState::Revoking { next_try_ns, .. }) => {
                    pauses.push((next_try_ns - NOW) / NANOS_PER_SEC);
                    state = next;
                }
                other => {
                    assert_eq!(other, RevocationOutcome::Keep(LeaseState::irrevocable("down")));
                    break;
                }
            }
        }
        assert_eq!(pauses, [10, 20, 40, 80, 160]);
        assert_eq!(decide_revocation(&state, Ok(()), NOW, 0), RevocationOutcome::Forget);
    }

    #[test]
    fn a_random_part_of_the_pause_keeps_leases_apart() {
        for attempts in 1..=ATTEMPTS_MAX {
            let pause = backoff_ns(attempts);
            let (least, most) = (later_ns(0, pause, 0), later_ns(0, pause, u32::MAX));
            // Rounding takes some nanoseconds.
            assert!((least / 4 - 100..=least / 4).contains(&(most - least)), "{attempts}");
            assert_eq!(later_ns(0, pause, 1 << 31), least + least / 8, "{attempts}");
        }
        let again = decide_revocation(&LeaseState::irrevocable("a"), refused("b"), NOW, 0);
        assert_eq!(again, RevocationOutcome::Keep(LeaseState::irrevocable("b")));
        let words = "x".repeat(9999);
        let long = decide_revocation(&LeaseState::irrevocable(""), refused(&words), NOW, 0);
        assert_eq!(
            long,
            RevocationOutcome::Keep(LeaseState::irrevocable(&"x".repeat(ERROR_BYTES_MAX)))
        );
    }

    #[test]
    fn what_nobody_answers_is_no_attempt_and_waits_longer_the_longer_it_is_due() {
        let unanswered = Err(AttemptFailure::Unanswered);
        for state in [LeaseState::Pending, LeaseState::Live] {
            let next = LeaseState::Revoking { attempts: 0, next_try_ns: at(10) };
            let outcome = decide_revocation(&state, unanswered, NOW, 0);
            assert_eq!(outcome, RevocationOutcome::Keep(next));
        }
        for attempts in 0..ATTEMPTS_MAX {
            let state = LeaseState::Revoking { attempts, next_try_ns: NOW };
            let mut pauses = Vec::new();
            let mut now_ns = NOW;
            while now_ns < at(86_400) {
                let RevocationOutcome::Wait(until_ns) =
                    decide_revocation(&state, unanswered, now_ns, 0)
                else {
                    panic!("it is tried as long as nobody answers");
                };
                pauses.push((until_ns - now_ns) / NANOS_PER_SEC);
                now_ns = until_ns;
            }
            assert_eq!(pauses[..6], [10, 10, 10, 15, 22, 33]);
            assert!(pauses.is_sorted());
            assert_eq!(pauses.last(), Some(&UNANSWERED_SECS_MAX.cast_signed()));
        }
    }

    #[test]
    fn what_is_left_and_when_it_is_due_follow_the_state() {
        let lease = lease();
        assert_eq!((lease.due_ns(), lease.ttl_left_secs(at(1) + 1)), (Some(at(3600)), 3599));
        let pending = LeaseRecord { state: LeaseState::Pending, ..lease.clone() };
        assert_eq!((pending.due_ns(), pending.ttl_left_secs(NOW)), (Some(at(60)), 0));
        let revoking = lease.to_revoking(at(9));
        assert_eq!((revoking.due_ns(), revoking.ttl_left_secs(NOW)), (Some(at(9)), 0));
        let irrevocable = LeaseRecord { state: LeaseState::irrevocable(""), ..lease.clone() };
        assert_eq!(irrevocable.due_ns(), None);
        assert_eq!(lease.ttl_left_secs(i64::MAX), 0);
    }

    #[test]
    fn an_irrevocable_lease_whose_far_end_does_not_answer_has_one_attempt_left() {
        let state = LeaseState::irrevocable("down");
        match decide_revocation(&state, Err(AttemptFailure::Unanswered), NOW, 0) {
            RevocationOutcome::Keep(LeaseState::Revoking { attempts, .. }) => {
                assert_eq!(attempts, ATTEMPTS_MAX - 1);
            }
            other => panic!("{other:?}"),
        }
    }
}
