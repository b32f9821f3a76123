//! What a run did and how long it took: counts, the summary and the pace along the way.
//!
//! It all goes to standard error, as text or as JSON lines, because standard output may carry the
//! answers. The pace is printed as it is measured, so a run of any length needs no memory for it.

use std::num::NonZeroU64;
use std::time::{Duration, Instant};

/// How figures are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    /// For people.
    Text,
    /// One JSON object on a line.
    Json,
}

/// Operations carried out, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct OperationTally {
    pub(super) puts: u64,
    pub(super) gets: u64,
    /// Gets whose key was not there.
    pub(super) missing: u64,
    pub(super) deletes: u64,
    pub(super) scans: u64,
    /// Entries that scans printed.
    pub(super) entries: u64,
}

impl OperationTally {
    /// Operations of all kinds.
    pub(super) const fn operations(&self) -> u64 {
        self.puts + self.gets + self.deletes + self.scans
    }

    /// The counts and how long they took.
    pub(super) fn summary(&self, took: Duration, style: Style) -> String {
        let Self { puts, gets, missing, deletes, scans, entries } = *self;
        let operations = self.operations();
        let seconds = took.as_secs_f64();
        // A run can be shorter than the clock can tell.
        let rate = if seconds > 0.0 { operations as f64 / seconds } else { 0.0 };
        match style {
            Style::Text => format!(
                "{operations} operations in {seconds:.3} s, {rate:.0} a second: {puts} PUT, \
                 {gets} GET ({missing} EMPTY), {deletes} DEL, {scans} SCAN ({entries} entries)\n"
            ),
            Style::Json => format!(
                "{{\"operations\":{operations},\"seconds\":{seconds:.6},\"per_second\":{rate:.0},\
                 \"puts\":{puts},\"gets\":{gets},\"missing\":{missing},\"deletes\":{deletes},\
                 \"scans\":{scans},\"entries\":{entries}}}\n"
            ),
        }
    }
}

/// Seconds per so many operations along the way.
pub(super) struct RateOverTime {
    every: NonZeroU64,
    next: u64,
    before: Instant,
    style: Style,
}

impl RateOverTime {
    /// Starts to measure.
    pub(super) fn new(every: NonZeroU64, style: Style) -> Self {
        Self { every, next: every.get(), before: clock(), style }
    }

    /// The line to print when `operations` is one to print at: up to where, and seconds since the
    /// last one.
    pub(super) fn line(&mut self, operations: u64) -> Option<String> {
        if operations < self.next {
            return None;
        }
        let now = clock();
        let seconds = (now - self.before).as_secs_f64();
        self.before = now;
        self.next = operations + self.every.get();
        Some(match self.style {
            Style::Text => format!("{operations} {seconds:.6}\n"),
            Style::Json => format!("{{\"up_to\":{operations},\"seconds\":{seconds:.6}}}\n"),
        })
    }
}

/// The time now; for measuring only.
#[expect(clippy::disallowed_methods, reason = "measuring time is what this command does")]
pub(super) fn clock() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TALLY: OperationTally =
        OperationTally { puts: 4, gets: 3, missing: 1, deletes: 2, scans: 1, entries: 5 };

    #[test]
    fn the_summary_counts_every_kind() {
        let text = TALLY.summary(Duration::from_millis(500), Style::Text);
        let wanted = "10 operations in 0.500 s, 20 a second: 4 PUT, 3 GET (1 EMPTY), 2 DEL, \
                      1 SCAN (5 entries)\n";
        assert_eq!(text, wanted);
        let json = TALLY.summary(Duration::from_millis(500), Style::Json);
        let wanted = "{\"operations\":10,\"seconds\":0.500000,\"per_second\":20,\"puts\":4,\
                      \"gets\":3,\"missing\":1,\"deletes\":2,\"scans\":1,\"entries\":5}\n";
        assert_eq!(json, wanted);
    }

    #[test]
    fn no_time_at_all_is_no_infinite_rate() {
        assert!(TALLY.summary(Duration::ZERO, Style::Json).contains("\"per_second\":0,"));
    }

    #[test]
    fn the_pace_comes_once_per_so_many_operations() {
        let every = NonZeroU64::new(10).unwrap();
        let mut pace = RateOverTime::new(every, Style::Json);
        let lines: Vec<String> = (1..=35).filter_map(|at| pace.line(at)).collect();
        assert_eq!(lines.len(), 3);
        for (line, up_to) in lines.iter().zip([10, 20, 30]) {
            assert!(line.starts_with(&format!("{{\"up_to\":{up_to},\"seconds\":0.")), "{line}");
        }
    }
}
