//! The figures of a run as text for people and as JSON for scripts.

use super::workload::{WorkloadFigures, WorkloadPhase};

/// Percentiles shown, by name.
const PERCENTILES: [(&str, f64); 3] = [("p50", 50.0), ("p99", 99.0), ("p99.9", 99.9)];

fn rate(phase: &WorkloadPhase) -> f64 {
    phase.count as f64 / phase.elapsed.as_secs_f64()
}

/// A table for a terminal.
pub(super) fn table(figures: &WorkloadFigures) -> String {
    let plan = figures.plan;
    let mut text = format!(
        "{} puts, {} gets; values of {} bytes; seed {}; one thread, in process\n\n\
         {:<8}{:>14}{:>12}{:>12}{:>12}\n",
        plan.puts, plan.gets, plan.value_bytes, plan.seed, "", "per second", "p50", "p99", "p99.9"
    );
    for (name, phase) in [("writes", &figures.writes), ("reads", &figures.reads)] {
        text.push_str(&format!("{name:<8}{:>14.0}", rate(phase)));
        for (_, percentile) in PERCENTILES {
            let micros = phase.latency_ns.value_at_percentile(percentile) as f64 / 1000.0;
            text.push_str(&format!("{:>12}", format!("{micros:.2} us")));
        }
        text.push('\n');
    }
    text.push_str(&format!(
        "\nhits {}/{}   load factor {:.3}\n",
        figures.hits, plan.gets, figures.load_factor
    ));
    text
}

/// One JSON object on a line. Latencies are in nanoseconds.
pub(super) fn json(figures: &WorkloadFigures) -> String {
    let phase = |phase: &WorkloadPhase| {
        let mut text = format!("{{\"per_second\":{:.0}", rate(phase));
        for (name, percentile) in PERCENTILES {
            let nanos = phase.latency_ns.value_at_percentile(percentile);
            text.push_str(&format!(",\"{name}_ns\":{nanos}"));
        }
        text.push('}');
        text
    };
    format!(
        "{{\"puts\":{},\"gets\":{},\"value_bytes\":{},\"seed\":{},\"writes\":{},\"reads\":{},\"hits\":{},\
         \"load_factor\":{:.4}}}\n",
        figures.plan.puts,
        figures.plan.gets,
        figures.plan.value_bytes,
        figures.plan.seed,
        phase(&figures.writes),
        phase(&figures.reads),
        figures.hits,
        figures.load_factor
    )
}
