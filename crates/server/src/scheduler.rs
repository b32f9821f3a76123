//! The thread that has the core run its jobs, and that goes on with what a start left undone: a seal that did not open yet, a
//! cluster that was not joined yet.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use kallisto_command::error::Error;
use kallisto_core::{Core, JoinTarget};
use kallisto_listener::{SystemClock, WallClock};

/// How often the core is asked to run what is due.
const PASS: Duration = Duration::from_secs(1);
/// Passes between two tries of a seal that did not open.
const SEAL_PASSES: u64 = 5;
/// Passes between two tries to join a cluster.
const JOIN_PASSES: u64 = 2;
/// Passes between two lines about a job that goes on failing of the same: a minute's.
const TELL_PASSES: u64 = 60;

/// Whether a seal that opens by itself has done so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AutoUnseal {
    /// It has, or there is none.
    Done,
    /// It did not answer yet; an operator's later seal is not undone by trying on.
    Pending,
}

/// Opens the seal if it opens by itself.
pub(super) fn try_seal(core: &Core) -> AutoUnseal {
    match pollster::block_on(core.auto_unseal()) {
        Ok(()) => AutoUnseal::Done,
        Err(error) => {
            tracing::error!(%error, "not unsealed; trying again");
            AutoUnseal::Pending
        }
    }
}

/// Opens the seal as [`try_seal`] does, once more: what it fails of may go on for hours.
fn try_seal_again(core: &Core, told: &mut ToldFailures, pass: u64) -> AutoUnseal {
    match pollster::block_on(core.auto_unseal()) {
        Ok(()) => AutoUnseal::Done,
        Err(error) => {
            if let Some(times) = told.pass("to unseal", (String::new(), error.clone()), pass) {
                tracing::error!(%error, times, "not unsealed; trying again");
            }
            AutoUnseal::Pending
        }
    }
}

/// Asks each server of the configuration until one answers; true once one did.
fn try_joining(
    core: &Core,
    joins: &mut Vec<JoinTarget>,
    told: &mut ToldFailures,
    pass: u64,
) -> bool {
    if joins.is_empty() {
        return false;
    }
    if !core.is_blank().unwrap_or(false) {
        joins.clear();
        return false;
    }
    for target in joins.iter() {
        match pollster::block_on(core.join(target.clone(), SystemClock.now())) {
            Ok(()) => {
                joins.clear();
                return true;
            }
            Err(error) => {
                let what = format!("to join {}", target.api_address);
                if let Some(times) = told.pass(&what, (String::new(), error.clone()), pass) {
                    tracing::warn!(%error, times, "not joined yet; trying again");
                }
            }
        }
    }
    false
}

/// Whether another server may initialise the storage that this one started on.
fn is_blank_among_others(core: &Core) -> bool {
    let is_shared = core.store().replicated().is_some_and(|cluster| cluster.shares_records());
    is_shared && core.is_blank().unwrap_or(false)
}

/// Of what something failed, and where; an empty text where there is only one place.
type PlacedFailure = (String, kallisto_core::Error);

/// Whether two failures are told as one. Each internal error has an id of its own.
fn is_alike((place, error): &PlacedFailure, (other_place, other): &PlacedFailure) -> bool {
    let are_internal = matches!(
        (error, other),
        (kallisto_core::Error::Internal(_), kallisto_core::Error::Internal(_))
    );
    place == other_place && (are_internal || error == other)
}

/// What was logged of jobs, and of tries to unseal and to join, that failed: one may fail every second, and the log may be on the disk that is full.
#[derive(Default)]
struct ToldFailures(BTreeMap<String, ToldFailure>);

struct ToldFailure {
    failure: PlacedFailure,
    /// In which pass it was logged.
    pass: u64,
    /// How often it came since.
    untold: u64,
}

impl ToldFailures {
    /// How often `job` failed of this since that was logged, if it is time to log it.
    fn pass(&mut self, job: &str, failure: PlacedFailure, pass: u64) -> Option<u64> {
        let known = self.0.get_mut(job).filter(|told| is_alike(&told.failure, &failure));
        let mut times = 1;
        if let Some(told) = known {
            if pass < told.pass + TELL_PASSES {
                told.untold += 1;
                return None;
            }
            times += told.untold;
        }
        let told = ToldFailure { failure, pass, untold: 0 };
        self.0.insert(job.to_owned(), told);
        Some(times)
    }
}

/// The thread.
pub(super) struct Scheduler {
    stop: SyncSender<()>,
    thread: JoinHandle<()>,
}

impl Scheduler {
    /// Starts to run the jobs of `core`, to try its seal again where that is due ([`Core::take_due_seal`]), and to join one of `joins`.
    /// `on_down` hears, once, that the core is sealed for good.
    ///
    /// # Errors
    /// That there is no thread for it: tokens and leases would never end.
    pub(super) fn start(
        core: &Arc<Core>,
        mut joins: Vec<JoinTarget>,
        mut on_down: Option<impl FnOnce(&'static str) + Send + 'static>,
    ) -> Result<Self, Error> {
        let core = Arc::clone(core);
        let mut seal = AutoUnseal::Done;
        let mut awaits_others = is_blank_among_others(&core);
        let (stop, stopped) = sync_channel(1);
        let run = move || {
            let mut passes = 0_u64;
            let mut told = ToldFailures::default();
            while stopped.recv_timeout(PASS) == Err(RecvTimeoutError::Timeout) {
                passes += 1;
                if passes.is_multiple_of(JOIN_PASSES)
                    && try_joining(&core, &mut joins, &mut told, passes)
                {
                    seal = try_seal(&core);
                }
                if awaits_others && !core.is_blank().unwrap_or(true) {
                    awaits_others = false;
                    seal = try_seal(&core);
                }
                if core.take_due_seal()
                    || (seal == AutoUnseal::Pending && passes.is_multiple_of(SEAL_PASSES))
                {
                    seal = try_seal_again(&core, &mut told, passes);
                }
                core.start_waiting_task();
                if let Err(failed) = pollster::block_on(core.run_due_jobs(SystemClock.now())) {
                    for job in failed.iter() {
                        let why = job.why();
                        let failure = (job.place.clone(), job.error.clone());
                        if let Some(times) = told.pass(&job.name, failure, passes) {
                            tracing::warn!(job = job.name, why, times, "a job failed");
                        }
                    }
                }
                if core.is_removed()
                    && core.is_sealed()
                    && let Some(on_down) = on_down.take()
                {
                    on_down("this server was removed from its cluster");
                }
            }
        };
        let thread = std::thread::Builder::new().name("scheduler".into()).spawn(run);
        let no_thread = |error| Error::usage(format!("no thread for periodic jobs: {error}"));
        Ok(Self { stop, thread: thread.map_err(no_thread)? })
    }

    /// Ends the thread.
    pub(super) fn stop(self) {
        // The thread may have ended by itself; then there is nobody to tell.
        let _ = self.stop.try_send(());
        if self.thread.join().is_err() {
            tracing::error!("the scheduler panicked");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_that_goes_on_failing_is_told_once_a_minute_and_of_something_else_at_once() {
        use kallisto_core::Error;
        let failed = |error| ("kv/".to_owned(), error);
        let full = || failed(Error::Unavailable("no space".into()));
        let mut told = ToldFailures::default();
        assert_eq!(told.pass("a", full(), 7), Some(1));
        for pass in 8..7 + TELL_PASSES {
            assert_eq!(told.pass("a", full(), pass), None);
        }
        assert_eq!(told.pass("b", full(), 9), Some(1), "each job for itself");
        assert_eq!(told.pass("a", full(), 7 + TELL_PASSES), Some(TELL_PASSES));
        assert_eq!(told.pass("a", failed(Error::Conflict), 8 + TELL_PASSES), Some(1));
        assert_eq!(told.pass("c", failed(Error::Internal(1)), 1), Some(1));
        assert_eq!(told.pass("c", failed(Error::Internal(2)), 2), None, "an id is no reason");
        assert_eq!(told.pass("a", full(), 9 + TELL_PASSES), Some(1));
        let elsewhere = ("db/".to_owned(), full().1);
        assert_eq!(told.pass("a", elsewhere, 9 + TELL_PASSES), Some(1), "each place for itself");
    }
}
