//! Long work beside the requests: who runs it, and how it waits.
//!
//! Unsealing, sealing, building a view again and re-encrypting take seconds on a large store, and wait for others in between. Each runs as a
//! task of its own, which `seal::unseal`, `seal::rotate` and `seal::rebuild` start. On a server that is a thread ([`OwnThreads`]); the
//! simulated cluster runs one task at a time and lets its own time pass where a task pauses.
//!
//! Invariants:
//! - a task holds no lock while it pauses;
//! - [`Threads::start`] never runs the task before it returns: it is called under the store's lock as well.

use std::io;
use std::pin::{Pin, pin};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Long work: done when it returns. What the server does by the clock is a job (`crate::jobs`), which may start such a task.
pub type BackgroundTask = Box<dyn FnOnce() + Send>;

/// Runs tasks.
pub trait Threads: Send + Sync {
    /// Has `task` run beside the caller, who goes on at once.
    ///
    /// # Errors
    /// There is nothing to run it on; it never runs then.
    fn start(&self, name: &'static str, task: BackgroundTask) -> io::Result<()>;

    /// Lets time pass: called by a task.
    fn pause(&self, duration: Duration);

    /// Waits for what others have to do first: called by a task. Returns earlier where nobody will ever do it.
    fn wait(&self, future: Pin<&mut dyn Future<Output = ()>>);
}

/// Has a task wait for an outcome; `None` if there will be none.
pub(crate) fn outcome_of<T>(threads: &dyn Threads, future: impl Future<Output = T>) -> Option<T> {
    let mut outcome = None;
    threads.wait(pin!(async { outcome = Some(future.await) }));
    outcome
}

/// Starts a task, as often as it is asked to.
type TaskStart = Box<dyn Fn() -> io::Result<()> + Send>;

/// The task that found no thread: whoever runs the jobs has it started again, until it is.
#[derive(Default)]
pub(crate) struct UnstartedTask(Mutex<Option<TaskStart>>);

impl UnstartedTask {
    fn lock(&self) -> MutexGuard<'_, Option<TaskStart>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a task, in the place of one that waits.
    pub(crate) fn keep(&self, start: impl Fn() -> io::Result<()> + Send + 'static) {
        *self.lock() = Some(Box::new(start));
    }

    /// Tries to start what waits; true once it was.
    pub(crate) fn start(&self) -> bool {
        let Some(start) = self.lock().take() else { return false };
        if start().is_ok() {
            return true;
        }
        // One that came meanwhile is of a newer state.
        self.lock().get_or_insert(start);
        false
    }
}

/// The nice value of a thread that gives way ([`give_way`]): a tenth of the weight of one that answers requests (`sched(7)`).
#[cfg(target_os = "linux")]
const NICE: i32 = 10;

/// Has the calling thread give way to those that answer requests, where both want a processor. For work that takes seconds of
/// it and that nobody waits for with a lock. On Linux alone, where a nice value is a thread's own (`setpriority(2)`, notes).
///
/// A server that was started with a nice value of its own may have one that gives way further: it is kept.
pub(crate) fn give_way() {
    #[cfg(target_os = "linux")]
    if let Err(error) = lower_to(NICE) {
        tracing::debug!(%error, "a thread keeps its priority");
    }
}

/// Gives the calling thread `nice`, unless it has that or gives way further already.
#[cfg(target_os = "linux")]
fn lower_to(nice: i32) -> io::Result<()> {
    if rustix::process::getpriority_process(None)? < nice {
        rustix::process::setpriority_process(None, nice)?;
    }
    Ok(())
}

/// A thread of the operating system for each task.
#[derive(Clone, Copy, Debug, Default)]
pub struct OwnThreads;

impl Threads for OwnThreads {
    fn start(&self, name: &'static str, task: BackgroundTask) -> io::Result<()> {
        std::thread::Builder::new().name(name.to_owned()).spawn(task).map(|_| ())
    }

    fn pause(&self, duration: Duration) {
        std::thread::sleep(duration);
    }

    fn wait(&self, future: Pin<&mut dyn Future<Output = ()>>) {
        pollster::block_on(future);
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    /// The unit that systemd runs the server by denies system calls: not the one by which threads give way, which would fail without a word.
    #[test]
    fn the_unit_for_systemd_lets_threads_give_way() {
        let unit = include_str!("../../../../contrib/systemd/kallisto.service");
        let mut allowed = true;
        for words in unit.lines().filter_map(|line| line.strip_prefix("SystemCallFilter=")) {
            let (denies, words) =
                words.strip_prefix('~').map_or((false, words), |rest| (true, rest));
            if words.split(' ').any(|word| word == "setpriority" || word == "@resources") {
                allowed = !denies;
            }
        }
        assert!(allowed);
    }

    fn nice() -> i32 {
        rustix::process::getpriority_process(None).expect("a thread knows its nice value")
    }

    /// Does `work` on a thread of its own, whose nice value is `before`, or what the tests were started with if that gives
    /// way further; says what it was before and after.
    fn beside(before: i32, work: fn()) -> (i32, i32) {
        let thread = std::thread::spawn(move || {
            lower_to(before).expect("anybody may give way");
            let before = nice();
            work();
            (before, nice())
        });
        thread.join().expect("the work ends")
    }

    #[test]
    fn a_thread_that_gives_way_takes_no_other_along() {
        let own = nice();
        let (before, after) = beside(own, give_way);
        assert_eq!(after, before.max(NICE));
        assert_eq!(nice(), own);
    }

    #[test]
    fn a_server_that_gives_way_further_is_not_hurried() {
        let (before, after) = beside(NICE + 5, give_way);
        assert!(before > NICE);
        assert_eq!(after, before);
    }
}
