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
    /// How many of each were answered, as hoped for or not.
    answered_reads: u64,
    answered_writes: u64,
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
            answered_reads: 0,
            answered_writes: 0,
            errors: BTreeMap::new(),
            elapsed: Duration::ZERO,
            usage: None,
        }
    }

    /// Counts one that was answered.
    pub(super) fn answered(&mut self, kind: LoadKind, took_ns: u64, verdict: ReplyVerdict) {
        self.latencies(kind).saturating_record(took_ns.max(1));
        match kind {
            LoadKind::Read => self.answered_reads += 1,
            LoadKind::Write => self.answered_writes += 1,
        }
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

    /// Counts reads that were due and never sent, all with this age.
    pub(super) fn unsent(&mut self, count: u64, age_ns: u64) {
        self.reads.saturating_record_n(age_ns.max(1), count);
        self.failed("not sent in time", count);
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
        self.answered_reads += other.answered_reads;
        self.answered_writes += other.answered_writes;
        self.elapsed = self.elapsed.max(other.elapsed);
    }

    pub(super) fn errors_total(&self) -> u64 {
        self.errors.values().sum()
    }

    /// Those that were answered as hoped for.
    pub(super) fn good_total(&self) -> u64 {
        (self.reads.len() + self.writes.len()).saturating_sub(self.errors_total())
    }

    /// How many of a kind were answered.
    pub(super) const fn answered_of(&self, kind: LoadKind) -> u64 {
        match kind {
            LoadKind::Read => self.answered_reads,
            LoadKind::Write => self.answered_writes,
        }
    }

    pub(super) fn per_second(&self, count: u64) -> f64 {
        let seconds = self.elapsed.as_secs_f64();
        // Where nothing was answered, there may be no time either.
        if seconds > 0.0 { count as f64 / seconds } else { 0.0 }
    }
}
