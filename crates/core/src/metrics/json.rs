//! The JSON that Vault's clients know: `Gauges`, `Counters`, `Samples`, all since the process began.

use jiff::Timestamp;

use super::{Figure, MetricPoint, MetricValue};
use crate::api::json::{Json, Map};

/// Writes figures.
pub(crate) fn write(figures: &[Figure], now: Timestamp) -> Json {
    let (mut gauges, mut counters, mut samples) = (Vec::new(), Vec::new(), Vec::new());
    for figure in figures {
        for point in &figure.points {
            match &point.value {
                MetricValue::Gauge(value) => gauges.push(gauge(figure, point, *value)),
                MetricValue::Counter(count) => {
                    counters.push(sample(figure, point, *count, number(*count as f64)));
                }
                MetricValue::Seconds(seconds) => {
                    counters.push(sample(figure, point, 1, number(*seconds)));
                }
                MetricValue::Summary(summary) => {
                    samples.push(sample(figure, point, summary.count, number(summary.sum_ms)));
                }
                MetricValue::Histogram(snapshot) => {
                    let sum = number(snapshot.sum.as_secs_f64());
                    samples.push(sample(figure, point, snapshot.count(), sum));
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

fn gauge(figure: &Figure, point: &MetricPoint, value: f64) -> Json {
    Json::object([
        ("Name", figure.name.as_ref().into()),
        ("Value", number(value)),
        ("Labels", labels(point)),
    ])
}

fn sample(figure: &Figure, point: &MetricPoint, count: u64, sum: Json) -> Json {
    Json::object([
        ("Name", figure.name.as_ref().into()),
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
