//! The last hour of some metrics, a sample every five seconds, for whoever has no Prometheus; and what happened in the cluster meanwhile.
//!
//! `cluster::observe` adds to it from a job; `sys/kallisto/metrics` and `sys/kallisto/cluster` read it. It is memory of this process alone: a
//! restart begins anew, and each server has its own.
//!
//! Invariants: samples are in the order of their times; no more than [`SAMPLES_MAX`] samples, [`SERIES_MAX`] series and [`EVENTS_MAX`]
//! events are kept, the oldest go first.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;

use super::{Metric, MetricValue};
use crate::api::json::Json;
use crate::counts::BUCKET_ENDS_US;

/// Seconds between two samples.
pub(crate) const EVERY_SECS: u64 = 5;
/// An hour of them.
const SAMPLES_MAX: usize = 720;
/// Most series: 720 values of eight bytes each.
const SERIES_MAX: usize = 96;
/// Most events.
const EVENTS_MAX: usize = 100;

/// The metrics that are kept. Of one with labels the sum is, but for [`BY_LABEL`].
pub(crate) const KEPT: [&str; 32] = [
    "vault.core.unsealed",
    "vault.core.in_flight_requests",
    "vault.secret.kv.count",
    "vault.token.count",
    "vault.expire.num_leases",
    "vault.expire.num_irrevocable_leases",
    "vault.barrier.get_count",
    "vault.barrier.put_count",
    "vault.barrier.delete_count",
    "vault.barrier.list_count",
    "kallisto.requests_total",
    "kallisto.http.replies_total",
    "kallisto.http.request_duration_seconds",
    "kallisto.listener.connections",
    "kallisto.listener.connections_accepted_total",
    "kallisto.listener.handshakes_failed_total",
    "kallisto.admission.refused_total",
    "kallisto.raft.staleness_seconds",
    "kallisto.raft.term",
    "kallisto.raft.applied_index",
    "kallisto.raft.waiting_batches",
    "kallisto.raft.log_syncs_total",
    "kallisto.hot.entries",
    "kallisto.hot.entry_bytes",
    "kallisto.hot.evicted_total",
    "kallisto.index.memory_bytes",
    "kallisto.lsm.memtable_bytes",
    "kallisto.lsm.compactions_total",
    "process.cpu_seconds_total",
    "process.resident_memory_bytes",
    "process.open_fds",
    "process.threads",
];
/// Those of which each label is a series.
const BY_LABEL: [&str; 1] = ["kallisto.http.replies_total"];

/// The metrics and events of the last hour.
#[derive(Default)]
pub(crate) struct History(Mutex<Remembered>);

#[derive(Default)]
struct Remembered {
    /// Names and labels, in the order of the values of a sample. A series that begins late is missing at the end of older samples.
    series: Vec<(String, String)>,
    samples: VecDeque<Sample>,
    events: VecDeque<ClusterEvent>,
    /// The cluster at the pass before.
    seen: Option<SeenCluster>,
}

struct Sample {
    time: Timestamp,
    /// NaN where a series had no value.
    values: Vec<f64>,
}

/// What one pass saw of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SeenCluster {
    pub(crate) is_sealed: bool,
    pub(crate) term: u64,
    /// The leader's name; empty while there is none.
    pub(crate) leader: String,
    pub(crate) members: BTreeMap<String, SeenMember>,
}

/// What it saw of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SeenMember {
    pub(crate) votes: bool,
    /// Whether it was not heard lately; never while another leads, who alone hears it.
    pub(crate) is_silent: bool,
}

/// Something that happened in the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClusterEvent {
    pub(crate) time: Timestamp,
    pub(crate) kind: EventKind,
    pub(crate) text: String,
}

/// Whether somebody should look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventKind {
    Change,
    Warning,
}

impl History {
    fn kept(&self) -> MutexGuard<'_, Remembered> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a sample of the metrics that are kept.
    pub(crate) fn record(&self, time: Timestamp, metrics: &[Metric]) {
        let mut flat = Vec::new();
        for metric in metrics.iter().filter(|metric| KEPT.contains(&metric.name.as_ref())) {
            flatten(metric, &mut flat);
        }
        self.kept().add(time, flat);
    }

    /// Adds an event.
    pub(crate) fn note(&self, event: ClusterEvent) {
        let mut kept = self.kept();
        if kept.events.len() == EVENTS_MAX {
            kept.events.pop_front();
        }
        kept.events.push_back(event);
    }

    /// Keeps what a pass saw, and gives what the one before did.
    pub(crate) fn replace_seen(&self, seen: SeenCluster) -> Option<SeenCluster> {
        self.kept().seen.replace(seen)
    }

    /// The events, the newest first.
    pub(crate) fn events(&self) -> Vec<ClusterEvent> {
        self.kept().events.iter().rev().cloned().collect()
    }

    /// The samples since a time, series by series; `null` where one had no value.
    pub(crate) fn since(&self, since: Timestamp) -> Json {
        let kept = self.kept();
        let samples: Vec<&Sample> =
            kept.samples.iter().filter(|sample| sample.time >= since).collect();
        let series = kept.series.iter().enumerate().filter_map(|(at, (name, labels))| {
            let value = |sample: &&Sample| sample.values.get(at).copied().unwrap_or(f64::NAN);
            let values: Vec<f64> = samples.iter().map(value).collect();
            let has_some = values.iter().any(|value| !value.is_nan());
            let values = values.into_iter().map(number).collect();
            has_some.then(|| {
                Json::object([
                    ("name", name.as_str().into()),
                    ("labels", labels.as_str().into()),
                    ("values", Json::Array(values)),
                ])
            })
        });
        Json::object([
            ("interval_secs", EVERY_SECS.into()),
            ("times", Json::Array(samples.iter().map(|one| one.time.as_second().into()).collect())),
            ("series", Json::Array(series.collect())),
        ])
    }
}

impl Remembered {
    fn add(&mut self, time: Timestamp, flat: Vec<((String, String), f64)>) {
        // A clock that was set back would put times out of order.
        self.samples.retain(|sample| sample.time < time);
        let mut values = vec![f64::NAN; self.series.len()];
        for (key, value) in flat {
            match self.series.iter().position(|series| *series == key) {
                Some(at) => values[at] = value,
                None if self.series.len() < SERIES_MAX => {
                    self.series.push(key);
                    values.push(value);
                }
                None => {}
            }
        }
        if self.samples.len() == SAMPLES_MAX {
            self.samples.pop_front();
        }
        self.samples.push_back(Sample { time, values });
    }
}

fn number(value: f64) -> Json {
    if value.is_finite() { Json::Number(value.to_string().into()) } else { Json::Null }
}

/// The series of a metric, named and labelled as Prometheus sees them.
fn flatten(metric: &Metric, out: &mut Vec<((String, String), f64)>) {
    let name = metric.name.replace('.', "_");
    if BY_LABEL.contains(&metric.name.as_ref()) {
        for point in &metric.points {
            let pairs: Vec<String> =
                point.labels.iter().map(|(key, value)| format!("{key}=\"{value}\"")).collect();
            let labels = format!("{{{}}}", pairs.join(","));
            out.extend(plain(&point.value).map(|value| ((name.clone(), labels), value)));
        }
        return;
    }
    if let [point] = metric.points.as_slice()
        && let MetricValue::Histogram(snapshot) = &point.value
    {
        let mut below = 0;
        for (count, end) in snapshot.buckets.iter().zip(BUCKET_ENDS_US) {
            below += count;
            let labels = format!("{{le=\"{}\"}}", end as f64 / 1e6);
            out.push(((format!("{name}_bucket"), labels), below as f64));
        }
        let all = snapshot.count() as f64;
        out.push(((format!("{name}_bucket"), "{le=\"+Inf\"}".to_owned()), all));
        return;
    }
    if !metric.points.is_empty() {
        let sum = metric.points.iter().filter_map(|point| plain(&point.value)).sum();
        out.push(((name, String::new()), sum));
    }
}

fn plain(value: &MetricValue) -> Option<f64> {
    match value {
        MetricValue::Counter(count) => Some(*count as f64),
        MetricValue::Seconds(number) | MetricValue::Gauge(number) => Some(*number),
        MetricValue::Summary(_) | MetricValue::Histogram(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::MetricPoint;
    use super::*;

    fn at(secs: i64) -> Timestamp {
        Timestamp::from_second(secs).unwrap()
    }

    fn tokens(count: f64) -> Vec<Metric> {
        let point = MetricPoint { labels: Vec::new(), value: MetricValue::Gauge(count) };
        vec![Metric { name: "vault.token.count".into(), about: "", points: vec![point] }]
    }

    #[test]
    fn an_hour_is_kept_and_the_oldest_goes_first() {
        let history = History::default();
        for pass in 0..SAMPLES_MAX as i64 + 3 {
            history.record(at(pass * 5), &tokens(pass as f64));
        }
        let Json::Object(all) = history.since(at(0)) else { panic!("no object") };
        let Some(Json::Array(times)) = all.get("times") else { panic!("no times") };
        assert_eq!((times.len(), times[0].clone()), (SAMPLES_MAX, 15_i64.into()));
        let last = history.since(at((SAMPLES_MAX as i64 + 2) * 5)).to_text();
        let wanted = r#"{"interval_secs":5,"series":[{"labels":"","name":"vault_token_count","values":[722]}],"times":[3610]}"#;
        assert_eq!(String::from_utf8(last.to_vec()).unwrap(), wanted);
    }

    #[test]
    fn labels_are_summed_and_what_had_no_value_is_null() {
        let history = History::default();
        history.record(at(5), &[]);
        let point = |class: &str, sum| MetricPoint {
            labels: vec![("class", class.to_owned())],
            value: MetricValue::Counter(sum),
        };
        let metrics = ["kallisto.requests_total", "kallisto.http.replies_total", "not.kept"];
        let metrics = metrics.map(|name| Metric {
            name: name.into(),
            about: "",
            points: vec![point("2xx", 3), point("4xx", 4)],
        });
        history.record(at(10), &metrics);
        let text = String::from_utf8(history.since(at(0)).to_text().to_vec()).unwrap();
        assert!(
            text.contains(r#"{"labels":"","name":"kallisto_requests_total","values":[null,7]}"#),
            "{text}"
        );
        assert!(text.contains(r#""labels":"{class=\"4xx\"}""#), "{text}");
        assert!(!text.contains("not_kept"), "{text}");
    }

    #[test]
    fn a_clock_that_is_set_back_leaves_no_times_out_of_order() {
        let history = History::default();
        for secs in [10, 15, 20, 12] {
            history.record(at(secs), &tokens(1.0));
        }
        let text = String::from_utf8(history.since(at(0)).to_text().to_vec()).unwrap();
        assert!(text.ends_with(r#""times":[10,12]}"#), "{text}");
    }

    #[test]
    fn events_are_bounded_and_the_newest_comes_first() {
        let history = History::default();
        for secs in 0..=EVENTS_MAX as i64 {
            let text = format!("{secs}");
            history.note(ClusterEvent { time: at(secs), kind: EventKind::Change, text });
        }
        let events = history.events();
        assert_eq!((events.len(), events[0].text.as_str()), (EVENTS_MAX, "100"));
    }
}
