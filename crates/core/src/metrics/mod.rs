//! What the server counts, and in which forms it shows that.
//!
//! Counting costs a request next to nothing: each thread adds to cache lines of its own
//! ([`Counts`]), and adding them up is left to whoever reads. Everything else, such as how many
//! tokens there are, is read only when metrics are requested (`collect`). `prometheus` and `json`
//! write what was collected.
//!
//! Invariant: labels come from fixed sets of words, or name servers of the cluster, so the number of series is known. Names of mounts,
//! policies and namespaces are shown only where the configuration asks for it, and so many of each.

pub(crate) mod history;
mod in_flight;
mod jobs;
pub(crate) mod json;
pub(crate) mod observed;
pub(crate) mod prometheus;
pub(crate) mod routes;
pub(crate) mod usage;

use std::borrow::Cow;
use std::sync::atomic::AtomicI64;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use kallisto_auth::Operation;
use kallisto_traces::SpanCounts;

use crate::api::error::Error;
use crate::api::response::Response;
use crate::platform::metrics_settings::MetricsSettings;
use crate::timers::Summary;
use history::History;
pub(crate) use in_flight::InFlight;
use in_flight::Registry;
use observed::Observed;
use routes::RouteTimes;
use usage::NamedCounts;

pub use crate::counts::{Counts, Durations};
pub(crate) use jobs::{JobFacts, JobPlace, JobRecord, JobRecords};

/// The operations, in the order in which they are counted.
const OPERATIONS: [(Operation, &str); 7] = [
    (Operation::Read, "read"),
    (Operation::Update, "update"),
    (Operation::Patch, "patch"),
    (Operation::Delete, "delete"),
    (Operation::List, "list"),
    (Operation::Scan, "scan"),
    (Operation::Recover, "recover"),
];
/// What came of a request, in the order in which it is counted.
const OUTCOMES: [&str; 6] = ["ok", "not_found", "denied", "invalid", "unavailable", "internal"];
const REQUESTS: usize = OPERATIONS.len() * OUTCOMES.len();

/// How a schedule of snapshots fares.
#[derive(Clone, Debug)]
pub(crate) struct SnapshotFigures {
    pub(crate) name: String,
    pub(crate) interval_secs: i64,
    /// When the last one was verified, in seconds since 1970; 0 for never.
    pub(crate) verified_at: i64,
    pub(crate) bytes: u64,
    pub(crate) failures: u64,
    pub(crate) kept: u64,
}

/// The counters of a server. They begin at zero when the process does.
#[derive(Default)]
pub struct Metrics {
    /// Requests, by operation and outcome.
    requests: Counts<REQUESTS>,
    /// What every listener sees.
    pub listener: Listener,
    /// What is spoken over HTTP.
    pub http: Http,
    /// What became of the spans of requests; empty where requests are not traced.
    pub traces: OnceLock<Arc<SpanCounts>>,
    /// How schedules of snapshots fare, as the leader's job saw them last.
    pub(crate) snapshots: Mutex<Vec<SnapshotFigures>>,
    /// Requests that were answered beside the workers.
    pub(crate) offloaded: Counts<1>,
    /// TLS handshakes that were done beside the workers.
    pub(crate) handshakes: Counts<1>,
    /// Requests that were refused because the view is too old, and those that were answered from it even so.
    pub(crate) stale_refused: Counts<1>,
    pub(crate) stale_answered: Counts<1>,
    /// Requests that a quota refused.
    pub(crate) over_quota: Counts<1>,
    /// Requests that wait for something.
    pub(crate) in_flight: Registry,
    /// The runs of jobs.
    pub(crate) jobs: JobRecords,
    /// How long each mount takes, where that is asked for.
    pub(crate) routes: RouteTimes,
    observed: Mutex<Observed>,
    usage: Mutex<(Option<Duration>, NamedCounts)>,
    /// The last hour.
    pub(crate) history: History,
}

/// What listeners count, whatever is spoken.
#[derive(Default)]
pub struct Listener {
    /// Connections that were accepted.
    pub accepted: Counts<1>,
    /// Connections that ended.
    pub closed: Counts<1>,
    /// TLS handshakes that failed.
    pub handshakes_failed: Counts<1>,
    /// Connections that were ended for being too slow or too long silent.
    pub timeouts: Counts<1>,
    /// Requests that waited for their turn.
    pub waited: Counts<1>,
    /// Errors of the accept loop, such as too many open files.
    pub accept_errors: Counts<1>,
    /// When the first of the listeners' certificates ends, in seconds since 1970; 0 for none.
    pub certificate_end: AtomicI64,
}

/// What listeners count of HTTP.
#[derive(Default)]
pub struct Http {
    /// Replies, by the first digit of their status: 1 to 5.
    pub replies: Counts<5>,
    /// How long requests took, from their last byte to their reply.
    pub durations: Durations,
}

impl Metrics {
    /// Counts a request that was answered.
    pub(crate) fn answered(&self, operation: Operation, answer: &Result<Response, Error>) {
        self.count(operation, outcome(answer));
    }

    /// Counts a request with an [`outcome`].
    pub(crate) fn count(&self, operation: Operation, outcome: usize) {
        self.count_many(operation, outcome, 1);
    }

    /// Counts so many requests with the same [`outcome`].
    pub(crate) fn count_many(&self, operation: Operation, outcome: usize, times: u64) {
        // The order of `OPERATIONS` is that of the enum, as a test holds.
        self.requests.add(operation as usize * OUTCOMES.len() + outcome, times);
    }

    /// What was seen of the lead and the members.
    pub(crate) fn observed(&self) -> Observed {
        self.lock_observed().clone()
    }

    /// Takes note of what was seen.
    pub(crate) fn observe<T>(&self, note: impl FnOnce(&mut Observed) -> T) -> T {
        note(&mut self.lock_observed())
    }

    fn lock_observed(&self) -> MutexGuard<'_, Observed> {
        self.observed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was counted by name last.
    pub(crate) fn usage(&self) -> NamedCounts {
        self.usage.lock().unwrap_or_else(PoisonError::into_inner).1.clone()
    }

    /// Whether what there is by name was last counted so long ago; if so, it is to be counted now.
    pub(crate) fn is_usage_due(&self, now: Duration, period: Duration) -> bool {
        let mut usage = self.usage.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = usage.0.is_none_or(|last| now.saturating_sub(last) >= period);
        if is_due {
            usage.0 = Some(now);
        }
        is_due
    }

    /// Takes what was counted by name.
    pub(crate) fn set_usage(&self, usage: NamedCounts) {
        let mut kept = self.usage.lock().unwrap_or_else(PoisonError::into_inner);
        if !usage.is_counted {
            kept.0 = None;
        }
        kept.1 = usage;
    }

    /// Requests by operation and outcome, by name.
    pub(crate) fn requests(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> {
        let names = OPERATIONS
            .iter()
            .flat_map(|(_, operation)| OUTCOMES.iter().map(move |outcome| (*operation, *outcome)));
        names.zip(self.requests.sums()).map(|((operation, outcome), sum)| (operation, outcome, sum))
    }
}

/// What an operation is called.
pub(crate) fn operation_name(operation: Operation) -> &'static str {
    // Their order is that of the enum, as a test holds.
    OPERATIONS[operation as usize].1
}

/// The place of an answer in [`OUTCOMES`].
pub(crate) const fn outcome(answer: &Result<Response, Error>) -> usize {
    match answer {
        Ok(Response::Missing(_) | Response::MissingEmpty) => 1,
        Ok(_) => 0,
        Err(error) => match error {
            Error::NotFound | Error::NoNamespace | Error::NoRoute(_) | Error::UnsupportedPath => 1,
            Error::Denied(_) => 2,
            Error::Invalid(_)
            | Error::InvalidSilently
            | Error::CasMismatch
            | Error::Expected(_)
            | Error::TooLarge(_)
            | Error::UnsupportedMedia(_)
            | Error::UnsupportedOperation => 3,
            Error::OverQuota(_)
            | Error::TooManyTries { .. }
            | Error::Busy(_)
            | Error::Sealed
            | Error::Conflict
            | Error::NotLeader
            | Error::Stale(_)
            | Error::Unavailable(_) => 4,
            Error::Unaudited | Error::Internal(_) => 5,
        },
    }
}

/// A metric at one moment, under a name such as `vault.core.unsealed`: dots for JSON, which become
/// underscores for Prometheus.
pub(crate) struct Metric {
    pub(crate) name: Cow<'static, str>,
    pub(crate) about: &'static str,
    pub(crate) points: Vec<MetricPoint>,
}

/// One value of a metric.
pub(crate) struct MetricPoint {
    pub(crate) labels: Vec<(&'static str, String)>,
    pub(crate) value: MetricValue,
}

/// What is known of a point.
pub(crate) enum MetricValue {
    /// A count that only grows.
    Counter(u64),
    /// A count of seconds that only grows.
    Seconds(f64),
    /// A number that goes up and down.
    Gauge(f64),
    /// How many there were, what they add up to, and quantiles of the last minutes, in milliseconds.
    Summary(Summary),
    /// How long things took.
    Histogram(crate::counts::HistogramSnapshot),
}

impl MetricsSettings {
    /// Leaves out what is not told, and names the rest as it is told.
    pub(crate) fn apply(&self, metrics: &mut Vec<Metric>) {
        for metric in metrics.iter_mut() {
            if let Some(name) = self.renamed(&metric.name) {
                metric.name = name.into();
            }
        }
        metrics.retain(|metric| self.tells(&metric.name));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::error::Denial;

    #[test]
    pub(crate) fn requests_are_counted_under_their_names() {
        let metrics = Metrics::default();
        for (at, (operation, _)) in OPERATIONS.into_iter().enumerate() {
            assert_eq!(operation as usize, at);
        }
        metrics.answered(Operation::List, &Ok(Response::Empty));
        metrics.answered(Operation::List, &Ok(Response::Empty));
        metrics.answered(Operation::Scan, &Err(Error::Internal(1)));
        metrics.answered(Operation::Read, &Err(Error::Denied(Denial::Policy)));
        let counted: Vec<_> = metrics.requests().filter(|(.., sum)| *sum > 0).collect();
        let expected = [("read", "denied", 1), ("list", "ok", 2), ("scan", "internal", 1)];
        assert_eq!(counted, expected);
    }
}
