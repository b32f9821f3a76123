//! The figures of a run as text for people and as JSON for scripts.

use hdrhistogram::Histogram;
use kallisto_core::json::Json;

use super::figures::LoadFigures;
use super::herd::HerdFigures;
use super::plan::LoadKind;
use super::plot;
use super::process::ProcessUsage;

/// Percentiles shown, by name.
const PERCENTILES: [(&str, f64); 5] =
    [("p50", 50.0), ("p90", 90.0), ("p99", 99.0), ("p99.9", 99.9), ("max", 100.0)];

/// A table for a terminal.
pub(super) fn table(title: &str, figures: &LoadFigures) -> String {
    let mut text = format!("{title}\n\n{:<8}{:>12}", "", "per second");
    for (name, _) in PERCENTILES {
        text.push_str(&format!("{name:>11}"));
    }
    text.push('\n');
    for (kind, name, latencies) in both(figures) {
        text.push_str(&row(name, figures.per_second(figures.counts(kind).good), latencies));
    }
    text.push_str(&footer(figures));
    text
}

/// A herd as a table for a terminal.
pub(super) fn herd_table(title: &str, herd: &HerdFigures) -> String {
    let figures = &herd.figures;
    let mut text = format!(
        "{title}\n\n{} served, the last after {}\n\n{:<8}{:>12}",
        herd.served,
        spoken(herd.all_served.as_nanos() as u64),
        "",
        "count"
    );
    for (name, _) in PERCENTILES {
        text.push_str(&format!("{name:>11}"));
    }
    text.push('\n');
    for (kind, name, latencies) in
        [(LoadKind::Write, "logins", &figures.writes), (LoadKind::Read, "served", &figures.reads)]
    {
        let counts = figures.counts(kind);
        if counts.asked > 0 {
            text.push_str(&row(name, counts.good as f64, latencies));
        }
    }
    text.push_str(&footer(figures));
    text
}

/// The histograms of what was asked for, with their kinds and names.
fn both(figures: &LoadFigures) -> impl Iterator<Item = (LoadKind, &'static str, &Histogram<u64>)> {
    let all =
        [(LoadKind::Read, "reads", &figures.reads), (LoadKind::Write, "writes", &figures.writes)];
    all.into_iter().filter(|(kind, _, _)| figures.counts(*kind).asked > 0)
}

fn row(name: &str, count: f64, latencies: &Histogram<u64>) -> String {
    let mut text = format!("{name:<8}{count:>12.0}");
    for (_, percentile) in PERCENTILES {
        let shown = match latencies.is_empty() {
            // Nothing was answered as hoped for: there is no latency.
            true => "-".to_owned(),
            false => spoken(latencies.value_at_percentile(percentile)),
        };
        text.push_str(&format!("{shown:>11}"));
    }
    text.push('\n');
    text
}

fn footer(figures: &LoadFigures) -> String {
    let mut text = String::new();
    for (why, count) in &figures.errors {
        text.push_str(&format!("errors   {count} {why}\n"));
    }
    if let Some(usage) = &figures.usage {
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        text.push_str(&format!(
            "server   {:.1} MiB before, {:.1} at most, {:.1} after; {:.1} us of processor a request\n",
            mib(usage.before_bytes),
            mib(usage.peak_bytes),
            mib(usage.after_bytes),
            processor_us(figures, usage)
        ));
    }
    for (_, name, latencies) in both(figures).filter(|(_, _, latencies)| !latencies.is_empty()) {
        text.push_str(&format!("\n{name}\n{}", plot::bars(latencies)));
    }
    text
}

fn processor_us(figures: &LoadFigures, usage: &ProcessUsage) -> f64 {
    let answered = |kind| figures.counts(kind).answered;
    let requests = answered(LoadKind::Read) + answered(LoadKind::Write);
    usage.processor.as_secs_f64() * 1e6 / (requests.max(1) as f64)
}

/// One JSON object on a line. Latencies are in microseconds.
pub(super) fn json(title: &str, figures: &LoadFigures) -> String {
    let mut object = common(title, figures);
    object.push(("per_second".to_owned(), number(figures.per_second(figures.good_total()))));
    for (kind, name, latencies) in both(figures) {
        object.push((name.to_owned(), latencies_json(figures, kind, latencies)));
    }
    line(object)
}

/// A herd as one JSON object on a line.
pub(super) fn herd_json(title: &str, herd: &HerdFigures) -> String {
    let mut object = common(title, &herd.figures);
    object.push(("served".to_owned(), herd.served.into()));
    let all_served_ms = herd.all_served.as_secs_f64() * 1e3;
    object.push(("all_served_ms".to_owned(), number(all_served_ms)));
    let figures = &herd.figures;
    for (kind, name, latencies) in
        [(LoadKind::Write, "logins", &figures.writes), (LoadKind::Read, "reads", &figures.reads)]
    {
        if figures.counts(kind).asked > 0 {
            object.push((name.to_owned(), latencies_json(figures, kind, latencies)));
        }
    }
    line(object)
}

fn common(title: &str, figures: &LoadFigures) -> Vec<(String, Json)> {
    let errors = figures.errors.iter().map(|(why, count)| (why.clone(), (*count).into()));
    let mut object = vec![
        ("load".to_owned(), title.into()),
        ("seconds".to_owned(), number(figures.elapsed.as_secs_f64())),
        ("good".to_owned(), figures.good_total().into()),
        ("errors_total".to_owned(), figures.errors_total().into()),
        ("errors".to_owned(), Json::Object(errors.collect())),
    ];
    if let Some(usage) = &figures.usage {
        let server = Json::object([
            ("memory_before_bytes", usage.before_bytes.into()),
            ("memory_peak_bytes", usage.peak_bytes.into()),
            ("memory_after_bytes", usage.after_bytes.into()),
            ("processor_us_each", number(processor_us(figures, usage))),
        ]);
        object.push(("server".to_owned(), server));
    }
    object
}

fn latencies_json(figures: &LoadFigures, kind: LoadKind, latencies: &Histogram<u64>) -> Json {
    let micros = |nanos: u64| number(nanos as f64 / 1e3);
    let good = figures.counts(kind).good;
    let named = PERCENTILES.map(|(name, percentile)| {
        let name = format!("{}_us", name.replace('.', "_"));
        (name, micros(latencies.value_at_percentile(percentile)))
    });
    let counts = [
        ("count".to_owned(), good.into()),
        ("per_second".to_owned(), number(figures.per_second(good))),
        ("mean_us".to_owned(), number(latencies.mean() / 1e3)),
    ];
    // Without a latency there is no percentile, and 0 would be one.
    let named = named.into_iter().filter(|_| !latencies.is_empty());
    Json::Object(counts.into_iter().chain(named).collect())
}

fn number(value: f64) -> Json {
    Json::Number(format!("{value:.3}").into())
}

fn line(object: Vec<(String, Json)>) -> String {
    let mut text = Json::Object(object.into_iter().collect()).to_text();
    text.push(b'\n');
    String::from_utf8_lossy(&text).into_owned()
}

/// A time in the unit a person would choose.
pub(super) fn spoken(nanos: u64) -> String {
    let nanos = nanos as f64;
    match nanos {
        ..1e3 => format!("{nanos:.0} ns"),
        ..1e5 => format!("{:.1} us", nanos / 1e3),
        ..1e6 => format!("{:.0} us", nanos / 1e3),
        ..1e9 => format!("{:.2} ms", nanos / 1e6),
        _ => format!("{:.2} s", nanos / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::load::protocol::ReplyVerdict;

    #[test]
    fn figures_are_told_with_their_errors() {
        let mut figures = LoadFigures::new();
        for micros in 1..=100 {
            figures.answered(LoadKind::Read, micros * 1_000, ReplyVerdict::Good);
        }
        figures.answered(LoadKind::Write, 5_000_000, ReplyVerdict::Status(503));
        figures.answered(LoadKind::Read, 1, ReplyVerdict::Status(403));
        figures.lost(LoadKind::Read, "lost: reset");
        figures.elapsed = Duration::from_secs(2);
        let text = table("a title", &figures);
        assert!(text.contains("a title") && text.contains("1 status 503"), "{text}");
        let Ok(Json::Object(object)) = kallisto_core::json::parse(json("t", &figures).as_bytes())
        else {
            panic!("not an object");
        };
        assert_eq!(object["good"], 100_u64.into());
        assert_eq!(object["errors_total"], 3_u64.into());
        let reads = object["reads"].as_object().unwrap();
        assert_eq!((&reads["per_second"], &reads["count"]), (&number(50.0), &100_u64.into()));
        assert_eq!(figures.reads.min(), 1_000, "a refusal is no latency");
        let writes = object["writes"].as_object().unwrap();
        assert_eq!(writes["per_second"], number(0.0), "what is refused is no rate");
        assert!(!writes.contains_key("p50_us"), "and has no percentiles");
        let row = text.lines().find(|line| line.starts_with("writes")).unwrap();
        assert!(row.split_whitespace().skip(2).all(|cell| cell == "-"), "{row}");
    }

    fn object(text: &str) -> kallisto_core::json::Map {
        match kallisto_core::json::parse(text.as_bytes()) {
            Ok(Json::Object(object)) => object,
            _ => panic!("not an object: {text}"),
        }
    }

    #[test]
    fn what_was_never_answered_makes_no_rate() {
        let mut figures = LoadFigures::new();
        figures.unanswered(LoadKind::Read, 12_000_000_000, "unanswered at the end");
        let rate = |figures: &LoadFigures| {
            object(&json("t", figures))["reads"].as_object().unwrap()["per_second"].clone()
        };
        assert_eq!(rate(&figures), number(0.0), "there was no reply, so no time to its last one");
        let first = table("t", &figures);
        assert!(first.lines().all(|line| line.len() < 100), "{first}");
        figures.answered(LoadKind::Read, 1_000, ReplyVerdict::Good);
        figures.unsent(998, 1_000_000);
        figures.elapsed = Duration::from_secs(2);
        assert_eq!(rate(&figures), number(0.5));
        assert_eq!(object(&json("t", &figures))["errors_total"], 999_u64.into());
        assert_eq!(figures.reads.len(), 1_000, "each counts among the latencies");
    }
}
