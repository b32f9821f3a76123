//! The JSON that Vault's clients know: `Gauges`, `Counters`, `Samples`, all since the process began.

use jiff::Timestamp;

use super::{Metric, MetricPoint, MetricValue};
use crate::api::json::{Json, Map};

/// Writes metrics.
pub(crate) fn write(metrics: &[Metric], now: Timestamp) -> Json {
    let (mut gauges, mut counters, mut samples) = (Vec::new(), Vec::new(), Vec::new());
    for metric in metrics {
        for point in &metric.points {
            match &point.value {
                MetricValue::Gauge(value) => gauges.push(gauge(metric, point, *value)),
                MetricValue::Counter(count) => {
                    counters.push(sample(metric, point, *count, number(*count as f64)));
                }
                MetricValue::Seconds(seconds) => {
                    counters.push(sample(metric, point, 1, number(*seconds)));
                }
                MetricValue::Summary(summary) => {
                    samples.push(sample(metric, point, summary.count, number(summary.sum_ms)));
                }
                MetricValue::Histogram(snapshot) => {
                    let sum = number(snapshot.sum.as_secs_f64());
                    samples.push(sample(metric, point, snapshot.count(), sum));
                }
            }
        }
    }
    let now = now.strftime("%Y-%m-%d %H:%M:%S +0000 UTC").to_string();
    Json::object([
        ("Timestamp", now.into()),
        ("Gauges", Json::Array(gauges)),
        ("Points", Json::Array(Vec::new())),
        ("Counters", Json::Array(counters)),
        ("Samples", Json::Array(samples)),
    ])
}

fn gauge(metric: &Metric, point: &MetricPoint, value: f64) -> Json {
    Json::object([
        ("Name", metric.name.as_ref().into()),
        ("Value", number(value)),
        ("Labels", labels(point)),
    ])
}

fn sample(metric: &Metric, point: &MetricPoint, count: u64, sum: Json) -> Json {
    Json::object([
        ("Name", metric.name.as_ref().into()),
        ("Count", count.into()),
        ("Sum", sum),
        ("Labels", labels(point)),
    ])
}

fn labels(point: &MetricPoint) -> Json {
    let labels: Map = point
        .labels
        .iter()
        .map(|(name, value)| ((*name).to_owned(), value.as_str().into()))
        .collect();
    labels.into()
}

fn number(value: f64) -> Json {
    // What is no number cannot stand in JSON.
    if value.is_finite() { Json::Number(value.to_string().into()) } else { Json::Null }
}
