//! Threads for what takes long: hashing a password, asking another server.
//!
//! A few threads with a bounded queue, apart for each purpose. When the queue is full a login is told
//! to come again instead of waiting, so a flood of logins costs others nothing but those threads.

use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use tokio::sync::oneshot;

use crate::error::Error;

/// Logins that wait for a thread.
const QUEUE_MAX: usize = 256;

type Job = Box<dyn FnOnce() + Send>;

/// Threads for one purpose; started by the first job, ended with their server.
pub(crate) struct Workers {
    name: &'static str,
    threads: usize,
    queue: OnceLock<SyncSender<Job>>,
}

impl Workers {
    pub(crate) const fn new(name: &'static str, threads: usize) -> Self {
        Self { name, threads, queue: OnceLock::new() }
    }

    /// Runs `work` on one of the threads.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when too many wait already.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Error> {
        let (tell, told) = oneshot::channel();
        let job = Box::new(move || {
            // Whoever asked may have hung up.
            let _ = tell.send(work());
        });
        match self.queue.get_or_init(|| self.start()).try_send(job) {
            Ok(()) => told.await.map_err(|_| Error::internal(&"a worker thread ended")),
            Err(TrySendError::Full(_)) => {
                Err(Error::Unavailable("too many logins are waiting; try again".into()))
            }
            Err(TrySendError::Disconnected(_)) => {
                Err(Error::internal(&"there is no worker thread"))
            }
        }
    }

    fn start(&self) -> SyncSender<Job> {
        let (queue, jobs) = sync_channel(QUEUE_MAX);
        let jobs = Arc::new(Mutex::new(jobs));
        for at in 0..self.threads {
            let jobs = Arc::clone(&jobs);
            let name = format!("{}-{at}", self.name);
            let spawned = std::thread::Builder::new().name(name).spawn(move || work(&jobs));
            if let Err(error) = spawned {
                tracing::error!(%error, purpose = self.name, "no thread");
            }
        }
        queue
    }
}

fn work(jobs: &Mutex<Receiver<Job>>) {
    loop {
        let job = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(job) = job else { return };
        job();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn a_full_queue_refuses_at_once() {
        let workers = Workers::new("test", 1);
        let (go, gate) = channel::<()>();
        let gate = Arc::new(Mutex::new(gate));
        let (mut waiting, mut refused) = (Vec::new(), 0);
        // One more than the queue and the thread hold.
        for _ in 0..QUEUE_MAX + 2 {
            let gate = Arc::clone(&gate);
            let mut job = Box::pin(workers.run(move || {
                gate.lock().unwrap().recv().unwrap();
            }));
            let waker = std::task::Waker::noop();
            match job.as_mut().poll(&mut std::task::Context::from_waker(waker)) {
                std::task::Poll::Ready(Err(Error::Unavailable(_))) => refused += 1,
                std::task::Poll::Ready(other) => panic!("{other:?}"),
                std::task::Poll::Pending => waiting.push(job),
            }
        }
        assert!(refused >= 1);
        (0..waiting.len()).for_each(|_| go.send(()).unwrap());
        for job in waiting {
            pollster::block_on(job).unwrap();
        }
    }
}
