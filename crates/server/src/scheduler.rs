//! The thread that has the core run its jobs, and that goes on with what a start left undone: a seal that did not open yet, a
//! cluster that was not joined yet.

use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use kallisto_core::{Core, JoinTarget};
use kallisto_listener::{SystemClock, WallClock};

/// How often the core is asked to run what is due.
const PASS: Duration = Duration::from_secs(1);
/// Passes between two tries of a seal that did not open.
const SEAL_PASSES: u64 = 5;
/// Passes between two tries to join a cluster.
const JOIN_PASSES: u64 = 2;

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

/// Asks each server of the configuration until one answers; true once one did.
fn try_joining(core: &Core, joins: &mut Vec<JoinTarget>) -> bool {
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
            Err(error) => tracing::warn!(%error, "not joined yet; trying again"),
        }
    }
    false
}

/// Whether another server may initialise the storage that this one started on.
fn is_blank_among_others(core: &Core) -> bool {
    let is_shared = core.store().replicated().is_some_and(|cluster| cluster.shares_records());
    is_shared && core.is_blank().unwrap_or(false)
}

/// The thread.
pub(super) struct Scheduler {
    stop: SyncSender<()>,
    thread: Option<JoinHandle<()>>,
}

impl Scheduler {
    /// Starts to run the jobs of `core`, to try its seal again while that is pending, and to join one of `joins`.
    /// `on_down` hears, once, that the core is sealed for good.
    pub(super) fn start(
        core: &Arc<Core>,
        mut seal: AutoUnseal,
        mut joins: Vec<JoinTarget>,
        mut on_down: Option<impl FnOnce(&'static str) + Send + 'static>,
    ) -> Self {
        let core = Arc::clone(core);
        let mut awaits_others = is_blank_among_others(&core);
        let (stop, stopped) = sync_channel(1);
        let run = move || {
            let mut passes = 0_u64;
            while stopped.recv_timeout(PASS) == Err(RecvTimeoutError::Timeout) {
                passes += 1;
                if passes.is_multiple_of(JOIN_PASSES) && try_joining(&core, &mut joins) {
                    seal = try_seal(&core);
                }
                if awaits_others && !core.is_blank().unwrap_or(true) {
                    awaits_others = false;
                    seal = try_seal(&core);
                }
                if seal == AutoUnseal::Pending && passes.is_multiple_of(SEAL_PASSES) {
                    seal = try_seal(&core);
                }
                if let Err(failed) = pollster::block_on(core.run_due_jobs(SystemClock.now())) {
                    for job in failed.iter() {
                        tracing::warn!(job = job.name, why = job.why(), "a job failed");
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
        if let Err(error) = &thread {
            tracing::error!(%error, "no thread for jobs: expired tokens stay until a restart");
        }
        Self { stop, thread: thread.ok() }
    }

    /// Ends the thread.
    pub(super) fn stop(mut self) {
        // The thread may have ended by itself; then there is nobody to tell.
        let _ = self.stop.try_send(());
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the scheduler panicked");
        }
    }
}
