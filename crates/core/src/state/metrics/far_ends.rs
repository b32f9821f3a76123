//! Databases, directories, brokers and clusters: how each is doing at which engines make credentials.
//!
//! By protocol; by mount and name too where the configuration asks for names (`usage_gauge_period`), and then so many of them as it says
//! (`maximum_gauge_cardinality`), those with most calls first.

use std::collections::BTreeMap;

use kallisto_engine::far_end::FarEndStatus;

use crate::metrics::{Metric, MetricPoint, MetricValue};

/// The labels of a point, and what they stand for.
type Labelled = (Vec<(&'static str, String)>, FarEndStatus);

/// What is told of all far ends; of each of the `named_max` busiest where that is given.
pub(super) fn far_ends(
    statuses: Vec<FarEndStatus>,
    named_max: Option<usize>,
    metrics: &mut Vec<Metric>,
) {
    let all = match named_max {
        Some(most) => by_name(statuses, most),
        None => by_protocol(statuses),
    };
    let metric = |name: &'static str, about, value: fn(&FarEndStatus) -> MetricValue| {
        let points = all
            .iter()
            .map(|(labels, status)| MetricPoint { labels: labels.clone(), value: value(status) });
        Metric { name: name.into(), about, points: points.collect() }
    };
    metrics.extend([
        metric("kallisto.far_end.sessions", "Open sessions with far ends.", |it| {
            MetricValue::Gauge(it.open as f64)
        }),
        metric("kallisto.far_end.waiting", "Calls to far ends that wait for a session.", |it| {
            MetricValue::Gauge(it.waiting as f64)
        }),
        metric("kallisto.far_end.calls_total", "Calls to far ends that have ended.", |it| {
            MetricValue::Counter(it.calls)
        }),
        metric("kallisto.far_end.failures_total", "Calls to far ends that failed.", |it| {
            MetricValue::Counter(it.failures)
        }),
        metric(
            "kallisto.far_end.call_seconds_total",
            "How long calls to far ends took, the wait for a session included.",
            |it| MetricValue::Seconds(it.micros as f64 / 1e6),
        ),
        metric(
            "kallisto.far_end.broken",
            "Far ends that are not asked for now, since they failed several times in a row.",
            |it| MetricValue::Gauge(if it.is_broken { 1.0 } else { 0.0 }),
        ),
    ]);
}

fn by_name(mut statuses: Vec<FarEndStatus>, most: usize) -> Vec<Labelled> {
    statuses.sort_by(|a, b| b.calls.cmp(&a.calls).then_with(|| a.name.cmp(&b.name)));
    statuses.truncate(most);
    let labelled = statuses.into_iter().map(|status| {
        let labels = vec![
            ("protocol", status.protocol.to_owned()),
            ("mount_accessor", status.mount.clone()),
            ("name", status.name.clone()),
        ];
        (labels, status)
    });
    labelled.collect()
}

/// Sums; `is_broken` where one is.
fn by_protocol(statuses: Vec<FarEndStatus>) -> Vec<Labelled> {
    let mut sums: BTreeMap<&'static str, FarEndStatus> = BTreeMap::new();
    for status in statuses {
        let sum = sums.entry(status.protocol).or_default();
        sum.open += status.open;
        sum.waiting += status.waiting;
        sum.calls += status.calls;
        sum.failures += status.failures;
        sum.micros += status.micros;
        sum.is_broken |= status.is_broken;
    }
    sums.into_iter().map(|(protocol, sum)| (vec![("protocol", protocol.to_owned())], sum)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(protocol: &'static str, name: &str, calls: u64) -> FarEndStatus {
        FarEndStatus {
            mount: "database_1".into(),
            name: name.into(),
            protocol,
            open: 2,
            calls,
            micros: 1_500_000,
            is_broken: name == "down",
            ..FarEndStatus::default()
        }
    }

    fn told(named_max: Option<usize>) -> String {
        let statuses = vec![
            status("postgresql", "pg", 3),
            status("postgresql", "down", 4),
            status("http", "c", 1),
        ];
        let mut metrics = Vec::new();
        far_ends(statuses, named_max, &mut metrics);
        crate::metrics::prometheus::write(&metrics)
    }

    #[test]
    fn far_ends_are_summed_by_protocol_and_named_where_that_is_asked_for() {
        let summed = told(None);
        for line in [
            r#"kallisto_far_end_calls_total{protocol="postgresql"} 7"#,
            r#"kallisto_far_end_sessions{protocol="http"} 2"#,
            r#"kallisto_far_end_call_seconds_total{protocol="postgresql"} 3"#,
            r#"kallisto_far_end_broken{protocol="postgresql"} 1"#,
        ] {
            assert!(summed.contains(line), "{line} in {summed}");
        }
        assert!(!summed.contains("database_1"));
        let named = told(Some(2));
        let down = r#"kallisto_far_end_broken{protocol="postgresql",mount_accessor="database_1",name="down"} 1"#;
        assert!(named.contains(down), "{named}");
        assert!(!named.contains(r#"name="c""#), "{named}");
    }
}
