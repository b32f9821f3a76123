//! What is known of the runs of jobs: kept for `sys/internal/jobs` and the metrics, in this process only.
//!
//! The runner (`jobs`) enters its table once, asks here whether a job is due, and says here what came of it. Times are the
//! wall clock's; a clock that was set back makes a job due, so that none waits for a time that was wrong.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;

/// Most bytes of an error that are kept.
const ERROR_BYTES_MAX: usize = 512;
/// How late a job may be before it is called overdue, in seconds.
const GRACE_SECS: u64 = 60;

/// On which servers a job runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JobPlace {
    /// On each, sealed or not.
    EveryServer,
    /// On the one that leads, while it is unsealed.
    Leader,
}

impl JobPlace {
    /// As `sys/internal/jobs` says it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::EveryServer => "every_server",
            Self::Leader => "leader",
        }
    }
}

/// What a job is.
#[derive(Clone, Debug)]
pub(crate) struct JobFacts {
    /// Lower case and underscores; a label of metrics.
    pub(crate) name: String,
    /// A sentence.
    pub(crate) about: &'static str,
    /// Seconds between the starts of two runs; 0 for a job of every pass.
    pub(crate) period_secs: u64,
    pub(crate) place: JobPlace,
}

/// A job and its runs since the process began.
#[derive(Clone, Debug)]
pub(crate) struct JobRecord {
    pub(crate) facts: JobFacts,
    pub(crate) runs: u64,
    pub(crate) failures: u64,
    pub(crate) is_running: bool,
    /// Whether the last run that ended failed.
    pub(crate) is_failing: bool,
    pub(crate) last_start: Option<Timestamp>,
    /// Of the last run that ended.
    pub(crate) last_duration: Option<Duration>,
    /// When the last run that failed began, and why it did.
    pub(crate) last_error: Option<(Timestamp, String)>,
    /// What the period counts from; `None` for a job that is due at once.
    period_from: Option<Timestamp>,
}

impl JobRecord {
    const fn new(facts: JobFacts) -> Self {
        Self {
            facts,
            runs: 0,
            failures: 0,
            is_running: false,
            is_failing: false,
            last_start: None,
            last_duration: None,
            last_error: None,
            period_from: None,
        }
    }

    fn is_due(&self, now: Timestamp) -> bool {
        let Some(from) = self.period_from else { return true };
        now < from || secs_between(from, now) >= self.facts.period_secs
    }

    /// Whether the job should have run since.
    pub(crate) fn is_overdue(&self, now: Timestamp) -> bool {
        let late = self.facts.period_secs.saturating_add(GRACE_SECS);
        self.period_from.is_some_and(|from| secs_between(from, now) > late)
    }
}

/// Whole seconds from one time to a later one; none when it is no later.
fn secs_between(from: Timestamp, to: Timestamp) -> u64 {
    u64::try_from(to.as_second().saturating_sub(from.as_second())).unwrap_or(0)
}

/// The jobs of a server, in the order in which they run.
#[derive(Default)]
pub(crate) struct JobRecords(Mutex<Vec<JobRecord>>);

impl JobRecords {
    fn lock(&self) -> MutexGuard<'_, Vec<JobRecord>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Enters the table, the first time.
    pub(crate) fn enter(&self, table: impl Iterator<Item = JobFacts>) {
        let mut records = self.lock();
        if records.is_empty() {
            records.extend(table.map(JobRecord::new));
        }
    }

    /// Whether the job in this row is due; takes note of its start if it is.
    pub(crate) fn start_if_due(&self, row: usize, now: Timestamp) -> bool {
        let mut records = self.lock();
        let Some(record) = records.get_mut(row).filter(|record| record.is_due(now)) else {
            return false;
        };
        (record.period_from, record.last_start, record.is_running) = (Some(now), Some(now), true);
        record.runs += 1;
        true
    }

    /// Takes note of the end of a run.
    pub(crate) fn end(&self, row: usize, took: Duration, error: Option<&str>) {
        let mut records = self.lock();
        let Some(record) = records.get_mut(row) else { return };
        (record.is_running, record.is_failing) = (false, error.is_some());
        record.last_duration = Some(took);
        let Some(error) = error else { return };
        record.failures += 1;
        let kept = &error[..error.floor_char_boundary(ERROR_BYTES_MAX)];
        record.last_error = record.last_start.map(|start| (start, kept.to_owned()));
    }

    /// This server does not lead: once it does, every job of the leader is due.
    pub(crate) fn follow(&self) {
        for record in self.lock().iter_mut() {
            if record.facts.place == JobPlace::Leader {
                record.period_from = None;
            }
        }
    }

    /// All of them; none before the first pass.
    pub(crate) fn all(&self) -> Vec<JobRecord> {
        self.lock().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(secs: i64) -> Timestamp {
        Timestamp::from_second(secs).unwrap()
    }

    fn records(period_secs: u64) -> JobRecords {
        let records = JobRecords::default();
        let place = JobPlace::Leader;
        let facts = JobFacts { name: "j".to_owned(), about: "It.", period_secs, place };
        records.enter([facts.clone()].into_iter());
        records.enter([facts.clone(), facts].into_iter());
        assert_eq!(records.all().len(), 1, "the table is entered once");
        records
    }

    #[test]
    fn a_job_is_due_at_first_and_after_its_period() {
        let records = records(30);
        let due = |secs| records.start_if_due(0, at(secs));
        assert!(due(0) && !due(0) && !due(29) && due(30) && !due(59) && due(60));
        assert!(!records.start_if_due(1, at(60)), "there is no such row");
        assert_eq!(records.all()[0].runs, 3);
    }

    #[test]
    fn a_clock_that_is_set_back_stops_no_job() {
        let records = records(30);
        assert!(records.start_if_due(0, at(1_000_000_000)));
        assert!(records.start_if_due(0, at(100)));
        assert!(!records.start_if_due(0, at(101)) && records.start_if_due(0, at(130)));
    }

    #[test]
    fn a_server_that_begins_to_lead_runs_everything() {
        let records = records(3600);
        assert!(records.start_if_due(0, at(0)) && !records.start_if_due(0, at(1)));
        records.follow();
        assert!(!records.all()[0].is_overdue(at(10_000)));
        assert!(records.start_if_due(0, at(2)));
        assert!(!records.all()[0].is_overdue(at(3662)) && records.all()[0].is_overdue(at(3663)));
    }

    #[test]
    fn what_went_wrong_is_kept_and_cut() {
        let records = records(0);
        assert!(records.start_if_due(0, at(1)));
        assert!(records.all()[0].is_running);
        records.end(0, Duration::from_millis(3), Some(&"ä".repeat(ERROR_BYTES_MAX)));
        let failed = records.all().remove(0);
        let (when, why) = failed.last_error.unwrap();
        assert!((when, why.len()) == (at(1), ERROR_BYTES_MAX) && failed.is_failing);
        assert!(records.start_if_due(0, at(2)));
        records.end(0, Duration::from_millis(4), None);
        let ended = records.all().remove(0);
        assert_eq!(ended.last_error.map(|(when, _)| when), Some(at(1)), "until the next failure");
        assert_eq!((ended.runs, ended.failures), (2, 1));
        assert!(!ended.is_failing && !ended.is_running);
        assert_eq!(ended.last_duration, Some(Duration::from_millis(4)));
    }
}
