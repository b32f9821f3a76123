//! What a run brings back.

use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::Histogram;

use super::plan::LoadKind;
use super::process::ProcessUsage;
use super::protocol::ReplyVerdict;

/// Longest latency told apart, in nanoseconds: ten minutes, longer than any run.
const LATENCY_MAX_NS: u64 = 600_000_000_000;

/// How many requests of a kind there were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RequestCounts {
    /// All of them, whatever came of them.
    pub(super) asked: u64,
    /// Those that were answered, as hoped for or not.
    pub(super) answered: u64,
    /// Those that were answered as hoped for.
    pub(super) good: u64,
}

/// Latencies and outcomes.
#[derive(Clone)]
pub(super) struct LoadFigures {
    /// Latencies of good answers, and ages of what waited in vain, which are the least that those would have been. What was
    /// refused or lost is an error alone: it says nothing of how long an answer takes.
    pub(super) reads: Histogram<u64>,
    pub(super) writes: Histogram<u64>,
    read_counts: RequestCounts,
    write_counts: RequestCounts,
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
            read_counts: RequestCounts::default(),
            write_counts: RequestCounts::default(),
            errors: BTreeMap::new(),
            elapsed: Duration::ZERO,
            usage: None,
        }
    }

    /// Counts one that was answered.
    pub(super) fn answered(&mut self, kind: LoadKind, took_ns: u64, verdict: ReplyVerdict) {
        let counts = self.counts_of(kind);
        counts.asked += 1;
        counts.answered += 1;
        match verdict {
            ReplyVerdict::Good => {
                counts.good += 1;
                self.latencies(kind).saturating_record(took_ns.max(1));
            }
            ReplyVerdict::Status(status) => self.failed(&format!("status {status}"), 1),
            ReplyVerdict::Error => self.failed("error reply", 1),
            ReplyVerdict::Null => self.failed("null reply", 1),
        }
    }

    /// Counts one that waited for its answer until the end: its age is the least it took.
    pub(super) fn unanswered(&mut self, kind: LoadKind, age_ns: u64, why: &str) {
        self.counts_of(kind).asked += 1;
        self.latencies(kind).saturating_record(age_ns.max(1));
        self.failed(why, 1);
    }

    /// Counts one whose connection was lost, however soon: it waits no more.
    pub(super) fn lost(&mut self, kind: LoadKind, why: &str) {
        self.counts_of(kind).asked += 1;
        self.failed(why, 1);
    }

    /// Counts reads that were due and never sent, all with this age.
    pub(super) fn unsent(&mut self, count: u64, age_ns: u64) {
        self.read_counts.asked += count;
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

    const fn counts_of(&mut self, kind: LoadKind) -> &mut RequestCounts {
        match kind {
            LoadKind::Read => &mut self.read_counts,
            LoadKind::Write => &mut self.write_counts,
        }
    }

    pub(super) fn merge(&mut self, other: &Self) {
        for (into, from) in [(&mut self.reads, &other.reads), (&mut self.writes, &other.writes)] {
            into.add(from).expect("all histograms have the same bounds");
        }
        for (why, count) in &other.errors {
            self.failed(why, *count);
        }
        for kind in [LoadKind::Read, LoadKind::Write] {
            let (into, from) = (self.counts_of(kind), other.counts(kind));
            into.asked += from.asked;
            into.answered += from.answered;
            into.good += from.good;
        }
        self.elapsed = self.elapsed.max(other.elapsed);
    }

    pub(super) fn errors_total(&self) -> u64 {
        self.errors.values().sum()
    }

    /// Those that were answered as hoped for.
    pub(super) fn good_total(&self) -> u64 {
        self.read_counts.good + self.write_counts.good
    }

    /// How many of a kind there were.
    pub(super) const fn counts(&self, kind: LoadKind) -> RequestCounts {
        match kind {
            LoadKind::Read => self.read_counts,
            LoadKind::Write => self.write_counts,
        }
    }

    pub(super) fn per_second(&self, count: u64) -> f64 {
        let seconds = self.elapsed.as_secs_f64();
        // Where nothing was answered, there may be no time either.
        if seconds > 0.0 { count as f64 / seconds } else { 0.0 }
    }
}
