//! The figures of a run as text for people and as JSON for scripts.

use std::time::Duration;

use hdrhistogram::Histogram;

use super::fill::FillStage;
use super::{ScaleFigures, StagePoint};

/// Percentiles shown, by name.
const PERCENTILES: [(&str, f64); 4] =
    [("p50", 50.0), ("p99", 99.0), ("p99.9", 99.9), ("max", 100.0)];

/// Bytes of memory that each thing of a stage takes: what unsealing adds after it and did not add
/// before. What a sealed server holds, recent entries of its log above all, depends on the last start
/// and not on what is stored.
fn bytes_each(figures: &ScaleFigures, at: usize) -> Option<f64> {
    let stage = figures.points[at].stage?;
    let added =
        |point: &StagePoint| point.ready.unsealed.own as f64 - point.ready.sealed.own as f64;
    let more = added(&figures.points[at]) - added(figures.points.get(at.checked_sub(1)?)?);
    Some(more / stage.count(figures.plan) as f64)
}

fn name(point: &StagePoint) -> &'static str {
    point.stage.map_or("nothing", FillStage::name)
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1_000.0
}

/// Tables for a terminal.
pub(super) fn table(figures: &ScaleFigures) -> String {
    let plan = figures.plan;
    let mut text = format!(
        "{} secrets of {} bytes, {} tokens, {} mounts; {} of the tokens are children of one\n\n\
         {:<10}{:>12}{:>12}{:>12}{:>12}{:>12}{:>12}{:>12}\n",
        plan.secrets,
        plan.value_bytes,
        plan.children + plan.tokens,
        plan.mounts,
        plan.children,
        "after",
        "put in/s",
        "listens",
        "unsealed",
        "its CPU",
        "sealed MB",
        "memory MB",
        "bytes each"
    );
    for (at, point) in figures.points.iter().enumerate() {
        let megabytes = |bytes: u64| format!("{:.1}", bytes as f64 / 1e6);
        text.push_str(&format!(
            "{:<10}{:>12.0}{:>12}{:>12}{:>12}{:>12}{:>12}{:>12}\n",
            name(point),
            point.filled_per_second,
            format!("{:.0} ms", millis(point.ready.listening)),
            format!("{:.0} ms", millis(point.ready.unsealing)),
            format!("{:.0} ms", millis(point.ready.unsealing_cpu)),
            megabytes(point.ready.sealed.all),
            megabytes(point.ready.unsealed.all),
            bytes_each(figures, at).map_or(String::new(), |bytes| format!("{bytes:.0}")),
        ));
    }
    let reads = &figures.reads;
    text.push_str(&format!(
        "\n{} tokens revoked in {:.2} s; reads, paced:\n",
        reads.ended,
        reads.revocation.as_secs_f64()
    ));
    for (name, latency) in [("before", &reads.before), ("meanwhile", &reads.during)] {
        text.push_str(&format!("{name:<10}{:>12}", latency.len()));
        for (percentile, at) in PERCENTILES {
            let took = latency.value_at_percentile(at) as f64 / 1e6;
            text.push_str(&format!("{:>17}", format!("{percentile} {took:.2} ms")));
        }
        text.push('\n');
    }
    text
}

/// One JSON object on a line. Times are in milliseconds, memory in bytes.
pub(super) fn json(figures: &ScaleFigures) -> String {
    let points = figures.points.iter().enumerate().map(|(at, point)| {
        let ready = point.ready;
        format!(
            "{{\"after\":\"{}\",\"put_in_per_second\":{:.0},\"listening_ms\":{:.1},\"unsealing_ms\":{:.1},\
             \"listening_cpu_ms\":{:.0},\"unsealing_cpu_ms\":{:.0},\
             \"sealed_bytes\":{},\"sealed_own_bytes\":{},\"unsealed_bytes\":{},\"unsealed_own_bytes\":{},\
             \"bytes_each\":{}}}",
            name(point),
            point.filled_per_second,
            millis(ready.listening),
            millis(ready.unsealing),
            millis(ready.listening_cpu),
            millis(ready.unsealing_cpu),
            ready.sealed.all,
            ready.sealed.own,
            ready.unsealed.all,
            ready.unsealed.own,
            bytes_each(figures, at).map_or("null".into(), |bytes| format!("{bytes:.1}"))
        )
    });
    let latency = |latency: &Histogram<u64>| {
        let mut text = format!("{{\"count\":{}", latency.len());
        for (name, at) in PERCENTILES {
            let took = latency.value_at_percentile(at) as f64 / 1e6;
            text.push_str(&format!(",\"{name}_ms\":{took:.3}"));
        }
        text + "}"
    };
    let (plan, reads) = (figures.plan, &figures.reads);
    format!(
        "{{\"secrets\":{},\"value_bytes\":{},\"tokens\":{},\"children\":{},\"mounts\":{},\"starts\":[{}],\
         \"revocation_ms\":{:.1},\"revoked\":{},\"reads_before\":{},\"reads_meanwhile\":{}}}\n",
        plan.secrets,
        plan.value_bytes,
        plan.children + plan.tokens,
        plan.children,
        plan.mounts,
        points.collect::<Vec<_>>().join(","),
        millis(reads.revocation),
        reads.ended,
        latency(&reads.before),
        latency(&reads.during)
    )
}
