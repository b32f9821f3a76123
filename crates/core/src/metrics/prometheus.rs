//! The Prometheus text format, version 0.0.4.
//!
//! ```text
//! # HELP vault_core_unsealed Whether the server is unsealed.
//! # TYPE vault_core_unsealed gauge
//! vault_core_unsealed 1
//! ```

use std::fmt::Write;

use super::{Metric, MetricPoint, MetricValue};
use crate::counts::BUCKET_ENDS_US;

/// The content type of the text.
pub(crate) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Writes metrics; of those without a point nothing.
pub(crate) fn write(metrics: &[Metric]) -> String {
    let mut text = String::new();
    for metric in metrics {
        let Some(first) = metric.points.first() else { continue };
        let name = metric.name.replace(['.', '-'], "_");
        let _ = writeln!(text, "# HELP {name} {}", metric.about);
        let _ = writeln!(text, "# TYPE {name} {}", kind(&name, &first.value));
        for point in &metric.points {
            write_point(&mut text, &name, point);
        }
    }
    text
}

/// The type of a metric. A name that Vault gave and that says another type than the value has, by the rules of Prometheus, has none: that is
/// what `promtool check metrics` wants, and queries ask no type.
fn kind(name: &str, value: &MetricValue) -> &'static str {
    let is_counter = matches!(value, MetricValue::Counter(_) | MetricValue::Seconds(_));
    let is_single = is_counter || matches!(value, MetricValue::Gauge(_));
    let says_another = is_counter != name.ends_with("_total")
        || ["_count", "_sum"].iter().any(|end| name.ends_with(end))
        || name.split('_').any(|word| matches!(word, "counter" | "gauge"));
    if is_single && says_another {
        return "untyped";
    }
    match value {
        MetricValue::Counter(_) | MetricValue::Seconds(_) => "counter",
        MetricValue::Gauge(_) => "gauge",
        MetricValue::Summary(_) => "summary",
        MetricValue::Histogram(_) => "histogram",
    }
}

fn write_point(text: &mut String, name: &str, point: &MetricPoint) {
    let labels = labels(&point.labels);
    // Writing to a string cannot fail.
    let _ = match &point.value {
        MetricValue::Counter(count) => writeln!(text, "{name}{labels} {count}"),
        MetricValue::Seconds(number) | MetricValue::Gauge(number) => {
            writeln!(text, "{name}{labels} {number}")
        }
        MetricValue::Summary(summary) => {
            for (quantile, value) in summary.quantiles {
                let with = point.labels.iter().cloned();
                let with: Vec<_> = with.chain([("quantile", quantile.to_owned())]).collect();
                let _ = writeln!(text, "{name}{} {value}", self::labels(&with));
            }
            let (sum_ms, count) = (summary.sum_ms, summary.count);
            writeln!(text, "{name}_sum{labels} {sum_ms}\n{name}_count{labels} {count}")
        }
        MetricValue::Histogram(snapshot) => {
            let mut below = 0;
            for (count, end) in snapshot.buckets.iter().zip(BUCKET_ENDS_US) {
                below += count;
                let end = end as f64 / 1e6;
                let _ = writeln!(text, "{name}_bucket{{le=\"{end}\"}} {below}");
            }
            let (count, sum) = (snapshot.count(), snapshot.sum.as_secs_f64());
            writeln!(
                text,
                "{name}_bucket{{le=\"+Inf\"}} {count}\n{name}_sum {sum}\n{name}_count {count}"
            )
        }
    };
}

fn labels(labels: &[(&'static str, String)]) -> String {
    if labels.is_empty() {
        return String::new();
    }
    let pairs: Vec<String> = labels
        .iter()
        .map(|(name, value)| {
            let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            format!("{name}=\"{value}\"")
        })
        .collect();
    format!("{{{}}}", pairs.join(","))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::Durations;
    use super::*;

    #[test]
    fn the_text_is_what_a_scraper_reads() {
        let durations = Durations::default();
        durations.record(Duration::from_micros(20));
        durations.record(Duration::from_secs(20));
        let point = |labels, value| MetricPoint { labels, value };
        let metrics = [
            Metric {
                name: "kallisto.requests_total".into(),
                about: "Requests.",
                points: vec![
                    point(vec![("operation", "read".into())], MetricValue::Counter(3)),
                    point(vec![("operation", "a\"b\\".into())], MetricValue::Counter(0)),
                ],
            },
            Metric { name: "none".into(), about: "Nothing.", points: Vec::new() },
            Metric {
                name: "t.seconds".into(),
                about: "Times.",
                points: vec![point(Vec::new(), MetricValue::Histogram(durations.snapshot()))],
            },
        ];
        let text = write(&metrics);
        let head = "# HELP kallisto_requests_total Requests.\n\
                    # TYPE kallisto_requests_total counter\n\
                    kallisto_requests_total{operation=\"read\"} 3\n\
                    kallisto_requests_total{operation=\"a\\\"b\\\\\"} 0\n\
                    # HELP t_seconds Times.\n# TYPE t_seconds histogram\n\
                    t_seconds_bucket{le=\"0.00001\"} 0\nt_seconds_bucket{le=\"0.000025\"} 1\n";
        assert!(text.starts_with(head), "{text}");
        let tail = "t_seconds_bucket{le=\"10\"} 1\nt_seconds_bucket{le=\"+Inf\"} 2\n\
                    t_seconds_sum 20.00002\nt_seconds_count 2\n";
        assert!(text.ends_with(tail), "{text}");
    }

    #[test]
    fn a_summary_has_its_quantiles_and_names_of_vault_have_the_type_that_fits() {
        let durations = Durations::default();
        durations.record(Duration::from_millis(2));
        let metric = |name: &'static str, value| Metric {
            name: name.into(),
            about: "It.",
            points: vec![MetricPoint { labels: Vec::new(), value }],
        };
        let text = write(&[
            metric("vault.x", MetricValue::Summary(durations.snapshot().summary(None))),
            metric("vault.token.count", MetricValue::Gauge(1.0)),
            metric("vault.audit.log_request_failure", MetricValue::Counter(0)),
            metric("vault.quota.lease_count.counter", MetricValue::Gauge(0.0)),
            metric("kallisto.jobs.runs_total", MetricValue::Counter(0)),
        ]);
        assert!(
            text.contains("# TYPE vault_x summary\nvault_x{quantile=\"0.5\"} 1.75\n"),
            "{text}"
        );
        assert!(text.contains("vault_x_sum 2\nvault_x_count 1\n"), "{text}");
        let types: Vec<&str> = text
            .lines()
            .filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').nth(1))
            .collect();
        assert_eq!(types, ["summary", "untyped", "untyped", "untyped", "counter"]);
    }
}
