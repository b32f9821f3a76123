//! Figures of one point, and values of gauges.

use crate::metrics::{Metric, MetricPoint, MetricValue};

pub(super) fn one(name: &'static str, about: &'static str, value: MetricValue) -> Metric {
    Metric { name: name.into(), about, points: vec![MetricPoint { labels: Vec::new(), value }] }
}

pub(super) fn gauge(count: usize) -> MetricValue {
    MetricValue::Gauge(count as f64)
}

pub(super) const fn flag(is: bool) -> MetricValue {
    MetricValue::Gauge(if is { 1.0 } else { 0.0 })
}
