//! Figures about clients: connections, replies, and what clients make the server hold.

use super::values::{gauge, one};
use crate::admission::SharedAmount;
use crate::metrics::{Metric, MetricPoint, MetricValue};
use crate::state::Core;

pub(super) fn http(core: &Core, metrics: &mut Vec<Metric>) {
    let (listener, http) = (&core.metrics.listener, &core.metrics.http);
    // Read first, so that what ends meanwhile does not make the difference negative.
    let closed = listener.closed.total();
    let accepted = listener.accepted.total();
    metrics.extend([
        one(
            "kallisto.listener.connections",
            "Open connections.",
            MetricValue::Gauge(accepted.saturating_sub(closed) as f64),
        ),
        one(
            "kallisto.listener.connections_accepted_total",
            "Connections that were accepted.",
            MetricValue::Counter(accepted),
        ),
        one(
            "kallisto.listener.accept_errors_total",
            "Connections that could not be accepted.",
            MetricValue::Counter(listener.accept_errors.total()),
        ),
        one(
            "kallisto.listener.handshakes_failed_total",
            "TLS handshakes that failed.",
            MetricValue::Counter(listener.handshakes_failed.total()),
        ),
        one(
            "kallisto.http.request_duration_seconds",
            "Time from a request's last byte to its reply.",
            MetricValue::Histogram(http.durations.snapshot()),
        ),
    ]);
    let points = (1..).zip(http.replies.sums()).map(|(digit, sum)| MetricPoint {
        labels: vec![("class", format!("{digit}xx"))],
        value: MetricValue::Counter(sum),
    });
    metrics.push(Metric {
        name: "kallisto.http.replies_total".into(),
        about: "Replies, by class of status.",
        points: points.collect(),
    });
}

pub(super) fn admission(core: &Core, metrics: &mut Vec<Metric>) {
    type Of = fn(&SharedAmount) -> MetricValue;
    let rows: [(&'static str, &'static str, Of); 3] = [
        ("kallisto.admission.held", "What clients make the server hold, by kind.", |shares| {
            gauge(shares.held())
        }),
        ("kallisto.admission.max", "How much of it they may.", |shares| gauge(shares.max())),
        (
            "kallisto.admission.refused_total",
            "How often a client was refused, by what it asked for too much of.",
            |shares| MetricValue::Counter(shares.refused()),
        ),
    ];
    metrics.extend(rows.map(|(name, about, of)| {
        let points = core.admission.all().map(|(kind, shares)| MetricPoint {
            labels: vec![("kind", kind.to_owned())],
            value: of(shares),
        });
        Metric { name: name.into(), about, points: points.into() }
    }));
    let listener = &core.metrics.listener;
    metrics.extend([
        one(
            "kallisto.compute.offloaded_total",
            "Requests that were answered beside the workers, since they may take a processor for long.",
            MetricValue::Counter(core.metrics.offloaded.total()),
        ),
        one(
            "kallisto.compute.handshakes_total",
            "TLS handshakes that were done beside the workers, since the server's key takes a processor for long.",
            MetricValue::Counter(core.metrics.handshakes.total()),
        ),
        one(
            "kallisto.admission.waited_total",
            "Requests that waited for their turn.",
            MetricValue::Counter(listener.waited.total()),
        ),
        one(
            "kallisto.listener.timeouts_total",
            "Connections that were too slow or too long silent.",
            MetricValue::Counter(listener.timeouts.total()),
        ),
    ]);
}
