//! The Prometheus text format, version 0.0.4.
//!
//! ```text
//! # HELP vault_core_unsealed Whether the server is unsealed.
//! # TYPE vault_core_unsealed gauge
//! vault_core_unsealed 1
//! ```

use std::fmt::Write;

use super::{Figure, Point, Value};
use crate::counts::BUCKET_ENDS_US;

/// The content type of the text.
pub(crate) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Writes figures; of those without a point nothing.
pub(crate) fn write(figures: &[Figure]) -> String {
    let mut text = String::new();
    for figure in figures {
        let Some(first) = figure.points.first() else { continue };
        let name = figure.name.replace(['.', '-'], "_");
        let _ = writeln!(text, "# HELP {name} {}", figure.about);
        let _ = writeln!(text, "# TYPE {name} {}", kind(&first.value));
        for point in &figure.points {
            write_point(&mut text, &name, point);
        }
    }
    text
}

const fn kind(value: &Value) -> &'static str {
    match value {
        Value::Counter(_) | Value::Seconds(_) => "counter",
        Value::Gauge(_) => "gauge",
        Value::Summary { .. } => "summary",
        Value::Histogram(_) => "histogram",
    }
}

fn write_point(text: &mut String, name: &str, point: &Point) {
    let labels = labels(&point.labels);
    // Writing to a string cannot fail.
    let _ = match &point.value {
        Value::Counter(count) => writeln!(text, "{name}{labels} {count}"),
        Value::Seconds(number) | Value::Gauge(number) => writeln!(text, "{name}{labels} {number}"),
        Value::Summary { count, sum_ms } => {
            writeln!(text, "{name}_sum{labels} {sum_ms}\n{name}_count{labels} {count}")
        }
        Value::Histogram(snapshot) => {
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
        let point = |labels, value| Point { labels, value };
        let figures = [
            Figure {
                name: "kallisto.requests_total",
                about: "Requests.",
                points: vec![
                    point(vec![("operation", "read".into())], Value::Counter(3)),
                    point(vec![("operation", "a\"b\\".into())], Value::Counter(0)),
                ],
            },
            Figure { name: "none", about: "Nothing.", points: Vec::new() },
            Figure {
                name: "t.seconds",
                about: "Times.",
                points: vec![point(Vec::new(), Value::Histogram(durations.snapshot()))],
            },
        ];
        let text = write(&figures);
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
}
