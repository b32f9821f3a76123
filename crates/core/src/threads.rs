//! Long work beside the requests: who runs it, and how it waits.
//!
//! Unsealing, sealing and building a view again take seconds on a large store, and wait for others in between. Each runs as a
//! job of its own, which `seal::unseal` and `peers::watch` start. On a server that is a thread ([`OwnThreads`]); the
//! simulated cluster runs one job at a time and lets its own time pass where a job pauses.
//!
//! Invariants:
//! - a job holds no lock while it pauses;
//! - [`Threads::start`] never runs the job before it returns: it is called under the store's lock as well.

use std::io;
use std::time::Duration;

/// A job: done when it returns.
pub type Job = Box<dyn FnOnce() + Send>;

/// Runs jobs.
pub trait Threads: Send + Sync {
    /// Has `job` run beside the caller, who goes on at once.
    ///
    /// # Errors
    /// There is nothing to run it on; it never runs then.
    fn start(&self, name: &'static str, job: Job) -> io::Result<()>;

    /// Lets time pass: called by a job.
    fn pause(&self, duration: Duration);
}

/// A thread of the operating system for each job.
#[derive(Clone, Copy, Debug, Default)]
pub struct OwnThreads;

impl Threads for OwnThreads {
    fn start(&self, name: &'static str, job: Job) -> io::Result<()> {
        std::thread::Builder::new().name(name.to_owned()).spawn(job).map(|_| ())
    }

    fn pause(&self, duration: Duration) {
        std::thread::sleep(duration);
    }
}
