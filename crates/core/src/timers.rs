//! How long parts of the server's work take, under the names that Vault gives them, and events that are counted beside.
//!
//! A part is a [`Timer`]: a row of [`ROWS`], the one place where they are declared. Recording adds to cache lines of the thread's own
//! ([`Durations`]). Vault's summaries have quantiles of the last minutes; so a job hands in a moment every minute
//! ([`Timers::keep_moment`]), and quantiles are of what came since the oldest moment that is kept.
//!
//! Invariant: what is recorded holds no name; a count by method of login is by a word of a fixed set.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use crate::counts::{BUCKET_ENDS_US, Counts, Durations, HistogramSnapshot};

/// Moments that are kept: quantiles are of the last ten minutes, as those of Vault.
const MOMENTS_MAX: usize = 10;

/// Something that takes time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Timer {
    HandleLogin,
    LeadershipLost,
    StepDown,
    Unseal,
    SealInternal,
    AuditRequest,
    AuditResponse,
    TokenCreate,
    TokenStore,
    TokenLookup,
    TokenRevoke,
    TokenRevokeTree,
    PolicyGet,
    PolicySet,
    PolicyDelete,
    PolicyList,
    LeaseRegister,
    LeaseRenew,
    TokenRenew,
    LeaseRevoke,
    LeaseRevokePrefix,
    LeaseRevokeForce,
    LeaderLastContact,
    Forward,
}

/// Every timer, its name and what it says, in the order of [`Timer`].
pub(crate) const ROWS: [(Timer, &str, &str); 24] = [
    (
        Timer::HandleLogin,
        "vault.core.handle_login_request",
        "Logins and the milliseconds they took.",
    ),
    (
        Timer::LeadershipLost,
        "vault.core.leadership_lost",
        "How often this server lost the lead, and the milliseconds that it had led.",
    ),
    (
        Timer::StepDown,
        "vault.core.step_down",
        "Requests to step down and the milliseconds they took.",
    ),
    (Timer::Unseal, "vault.core.unseal", "Unseals and the milliseconds they took."),
    (Timer::SealInternal, "vault.core.seal_internal", "Seals and the milliseconds they took."),
    (
        Timer::AuditRequest,
        "vault.audit.log_request",
        "Records of requests, and the milliseconds until a device had each; with those of answers where both are written at once.",
    ),
    (
        Timer::AuditResponse,
        "vault.audit.log_response",
        "Records of answers, and the milliseconds until a device had each.",
    ),
    (
        Timer::TokenCreate,
        "vault.token.create",
        "Tokens that were made, by logins too, and the milliseconds that took.",
    ),
    (
        Timer::TokenStore,
        "vault.token.store",
        "Tokens that were stored again, since they were renewed, and the milliseconds that took.",
    ),
    (
        Timer::TokenLookup,
        "vault.token.lookup",
        "Requests to look up a token and the milliseconds they took.",
    ),
    (
        Timer::TokenRevoke,
        "vault.token.revoke",
        "Requests to revoke a token and the milliseconds they took.",
    ),
    (
        Timer::TokenRevokeTree,
        "vault.token.revoke_tree",
        "Tokens that were ended with all below them, and the milliseconds that took.",
    ),
    (
        Timer::PolicyGet,
        "vault.policy.get_policy",
        "Requests to read a policy and the milliseconds they took.",
    ),
    (
        Timer::PolicySet,
        "vault.policy.set_policy",
        "Requests to write a policy and the milliseconds they took.",
    ),
    (
        Timer::PolicyDelete,
        "vault.policy.delete_policy",
        "Requests to delete a policy and the milliseconds they took.",
    ),
    (
        Timer::PolicyList,
        "vault.policy.list_policies",
        "Requests to list policies and the milliseconds they took.",
    ),
    (
        Timer::LeaseRegister,
        "vault.expire.register",
        "Credentials with leases that were made, and the milliseconds that took.",
    ),
    (
        Timer::LeaseRenew,
        "vault.expire.renew",
        "Requests to renew a lease and the milliseconds they took.",
    ),
    (
        Timer::TokenRenew,
        "vault.expire.renew_token",
        "Requests to renew a token and the milliseconds they took.",
    ),
    (
        Timer::LeaseRevoke,
        "vault.expire.revoke",
        "Requests to revoke a lease and the milliseconds they took.",
    ),
    (
        Timer::LeaseRevokePrefix,
        "vault.expire.revoke_prefix",
        "Requests to revoke leases by prefix and the milliseconds they took.",
    ),
    (
        Timer::LeaseRevokeForce,
        "vault.expire.revoke_force",
        "Requests to forget leases by prefix and the milliseconds they took.",
    ),
    (
        Timer::LeaderLastContact,
        "vault.raft.leader.lastContact",
        "Milliseconds since the leader heard the voter that it has not heard for longest, looked at once a second.",
    ),
    (
        Timer::Forward,
        "vault.ha.rpc.client.forward",
        "Requests that the leader answered for this server, and the milliseconds that took.",
    ),
];

/// A summary at one moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Summary {
    pub(crate) count: u64,
    pub(crate) sum_ms: f64,
    /// Of the last minutes, in milliseconds: not a number where nothing came.
    pub(crate) quantiles: [(&'static str, f64); 3],
}

/// Labels of a count of new tokens: method, lifetime, kind.
pub(crate) type Creation = (String, &'static str, &'static str);

/// How it stood at a moment.
#[derive(Clone)]
struct TimerMoment {
    timers: [HistogramSnapshot; ROWS.len()],
    requests: HistogramSnapshot,
    commits: Option<HistogramSnapshot>,
}

/// All timers of a server.
#[derive(Default)]
pub(crate) struct Timers {
    clock: OnceLock<Arc<dyn Fn() -> Duration + Send + Sync>>,
    all: [Durations; ROWS.len()],
    moments: Mutex<VecDeque<Box<TimerMoment>>>,
    /// Tokens that were made.
    created: Mutex<BTreeMap<Creation, u64>>,
    /// Requests and answers that no audit device took.
    pub(crate) unaudited: Counts<2>,
    /// Requests that the leader was to answer and did not.
    pub(crate) forward_errors: Counts<1>,
}

impl Timers {
    /// The clock that it is measured by, which is never set; the first word counts.
    pub(crate) fn measure_by(&self, clock: Arc<dyn Fn() -> Duration + Send + Sync>) {
        let _ = self.clock.set(clock);
    }

    /// The time of the clock; without one nothing takes time.
    pub(crate) fn now(&self) -> Duration {
        self.clock.get().map_or(Duration::ZERO, |clock| clock())
    }

    /// Counts one that began at `begin` and ends now.
    pub(crate) fn end(&self, timer: Timer, begin: Duration) {
        self.end_alike(timer, 1, begin);
    }

    /// Counts so many that began at `begin` and end now.
    pub(crate) fn end_alike(&self, timer: Timer, count: u64, begin: Duration) {
        self.all[timer as usize].record_alike(count, self.now().saturating_sub(begin));
    }

    /// Counts one.
    pub(crate) fn record(&self, timer: Timer, took: Duration) {
        self.all[timer as usize].record(took);
    }

    /// Counts a new token.
    pub(crate) fn count_creation(&self, creation: Creation) {
        *lock(&self.created).entry(creation).or_default() += 1;
    }

    /// The new tokens, by labels.
    pub(crate) fn creations(&self) -> BTreeMap<Creation, u64> {
        lock(&self.created).clone()
    }

    /// Keeps how it stands now, for the quantiles of the next minutes.
    pub(crate) fn keep_moment(
        &self,
        requests: HistogramSnapshot,
        commits: Option<HistogramSnapshot>,
    ) {
        let timers = std::array::from_fn(|at| self.all[at].snapshot());
        let now = Box::new(TimerMoment { timers, requests, commits });
        let mut moments = lock(&self.moments);
        if moments.len() >= MOMENTS_MAX {
            moments.pop_front();
        }
        moments.push_back(now);
    }

    /// How requests stood at the oldest moment that is kept.
    pub(crate) fn oldest_requests(&self) -> Option<HistogramSnapshot> {
        lock(&self.moments).front().map(|oldest| oldest.requests)
    }

    /// How commits stood then.
    pub(crate) fn oldest_commits(&self) -> Option<HistogramSnapshot> {
        lock(&self.moments).front().and_then(|oldest| oldest.commits)
    }

    /// Every timer as it stands.
    pub(crate) fn summaries(&self) -> impl Iterator<Item = (&'static str, &'static str, Summary)> {
        let oldest = lock(&self.moments).front().cloned();
        ROWS.iter().enumerate().map(move |(at, (_, name, about))| {
            let now = self.all[at].snapshot();
            (*name, *about, now.summary(oldest.as_ref().map(|oldest| &oldest.timers[at])))
        })
    }
}

impl HistogramSnapshot {
    /// The summary of it, with quantiles of what came after `before`.
    pub(crate) fn summary(&self, before: Option<&Self>) -> Summary {
        let mut lately = self.buckets;
        if let Some(before) = before {
            lately.iter_mut().zip(before.buckets).for_each(|(now, then)| *now -= then.min(*now));
        }
        let quantiles = [("0.5", 0.5), ("0.9", 0.9), ("0.99", 0.99)];
        Summary {
            count: self.count(),
            sum_ms: self.sum.as_secs_f64() * 1e3,
            quantiles: quantiles.map(|(name, q)| (name, quantile_ms(&lately, q))),
        }
    }
}

/// Where in the buckets a part `q` of all lies, as if those of a bucket were spread evenly over it. What lies behind the last end is told
/// as that end.
fn quantile_ms(buckets: &[u64], q: f64) -> f64 {
    let total: u64 = buckets.iter().sum();
    if total == 0 {
        return f64::NAN;
    }
    let rank = q * total as f64;
    let (mut below, mut start) = (0_u64, 0_u64);
    for (&count, end) in buckets.iter().zip(BUCKET_ENDS_US) {
        if count > 0 && (below + count) as f64 >= rank {
            let part = (rank - below as f64) / count as f64;
            return (start as f64 + part * (end - start) as f64) / 1e3;
        }
        (below, start) = (below + count, end);
    }
    start as f64 / 1e3
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_timer_has_its_row() {
        for (at, (timer, name, about)) in ROWS.into_iter().enumerate() {
            assert_eq!(timer as usize, at, "{name}");
            assert!(name.starts_with("vault.") && about.ends_with('.'), "{name}");
        }
    }

    #[test]
    fn quantiles_are_of_the_last_minutes_and_sums_of_all_time() {
        let timers = Timers::default();
        let of = || timers.summaries().find(|(name, ..)| *name == "vault.token.create").unwrap().2;
        assert!(of().quantiles.iter().all(|(_, value)| value.is_nan()));
        (0..100).for_each(|_| timers.record(Timer::TokenCreate, Duration::from_millis(1)));
        let first = of();
        assert_eq!((first.count, first.sum_ms.round()), (100, 100.0));
        assert!(first.quantiles.iter().all(|(_, ms)| (0.5..=1.0).contains(ms)), "{first:?}");
        for _ in 0..MOMENTS_MAX {
            timers.keep_moment(Durations::default().snapshot(), None);
        }
        timers.record(Timer::TokenCreate, Duration::from_millis(50));
        let later = of();
        assert_eq!(later.count, 101);
        assert!(later.quantiles.iter().all(|(_, ms)| (25.0..=50.0).contains(ms)), "{later:?}");
        timers.record(Timer::TokenCreate, Duration::from_secs(3_000));
        assert_eq!(of().quantiles[2], ("0.99", 10_000.0), "behind the last end");
    }

    #[test]
    fn new_tokens_are_counted_by_their_labels() {
        let timers = Timers::default();
        let creation = || ("userpass".to_owned(), "1h", "service");
        timers.count_creation(creation());
        timers.count_creation(creation());
        timers.count_creation(("token".to_owned(), "+Inf", "batch"));
        assert_eq!(timers.creations().get(&creation()), Some(&2));
        assert_eq!(timers.creations().len(), 2);
    }
}
