//! What a run brings back.

use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::Histogram;

use super::plan::LoadKind;
use super::process::ProcessUsage;
use super::protocol::ReplyVerdict;

/// Longest latency told apart, in nanoseconds: ten minutes, longer than any run.
const LATENCY_MAX_NS: u64 = 600_000_000_000;

/// Latencies and outcomes.
#[derive(Clone)]
pub(super) struct LoadFigures {
    pub(super) reads: Histogram<u64>,
    pub(super) writes: Histogram<u64>,
    /// What was not as hoped for, by name.
    pub(super) errors: BTreeMap<String, u64>,
    /// How long the load lasted that was counted.
    pub(super) elapsed: Duration,
    /// What the server used meanwhile, if it is known which process it is.
    pub(super) usage: Option<ProcessUsage>,
}

impl LoadFigures {
    pub(super) fn new() -> Self {
        let histogram =
            || Histogram::new_with_bounds(1, LATENCY_MAX_NS, 3).expect("the bounds are constants");
        Self {
            reads: histogram(),
            writes: histogram(),
            errors: BTreeMap::new(),
            elapsed: Duration::ZERO,
            usage: None,
        }
    }

    /// Counts one that was answered.
    pub(super) fn answered(&mut self, kind: LoadKind, took_ns: u64, verdict: ReplyVerdict) {
        self.latencies(kind).saturating_record(took_ns.max(1));
        match verdict {
            ReplyVerdict::Good => {}
            ReplyVerdict::Status(status) => self.failed(&format!("status {status}"), 1),
            ReplyVerdict::Error => self.failed("error reply", 1),
            ReplyVerdict::Null => self.failed("null reply", 1),
        }
    }

    /// Counts one that never was: its age is the least it took.
    pub(super) fn unanswered(&mut self, kind: LoadKind, age_ns: u64, why: &str) {
        self.latencies(kind).saturating_record(age_ns.max(1));
        self.failed(why, 1);
    }

    pub(super) fn failed(&mut self, why: &str, count: u64) {
        if count > 0 {
            *self.errors.entry(why.to_owned()).or_default() += count;
        }
    }

    const fn latencies(&mut self, kind: LoadKind) -> &mut Histogram<u64> {
        match kind {
            LoadKind::Read => &mut self.reads,
            LoadKind::Write => &mut self.writes,
        }
    }

    pub(super) fn merge(&mut self, other: &Self) {
        for (into, from) in [(&mut self.reads, &other.reads), (&mut self.writes, &other.writes)] {
            into.add(from).expect("all histograms have the same bounds");
        }
        for (why, count) in &other.errors {
            self.failed(why, *count);
        }
        self.elapsed = self.elapsed.max(other.elapsed);
    }

    pub(super) fn errors_total(&self) -> u64 {
        self.errors.values().sum()
    }

    /// Those that were answered as hoped for.
    pub(super) fn good_total(&self) -> u64 {
        (self.reads.len() + self.writes.len()).saturating_sub(self.errors_total())
    }

    pub(super) fn per_second(&self, count: u64) -> f64 {
        count as f64 / self.elapsed.as_secs_f64().max(f64::MIN_POSITIVE)
    }
}
