//! Threads for what takes long: hashing a password, asking another server.
//!
//! A few threads, apart for each purpose, with a bounded queue in which clients take turns. When a client's
//! part of it or all of it is full, a login is told to come again instead of waiting: a flood of logins
//! costs others nothing but those threads, and logins of others still get their turn.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, Once, PoisonError};

use tokio::sync::oneshot;

use crate::admission::{Cost, FairQueue, Flow, Shares};
use crate::error::Error;

/// All jobs of a purpose take about the same time.
const COST: Cost = 1;

type Job = Box<dyn FnOnce() + Send>;

/// Threads for one purpose; started by the first job, ended with their server.
pub(crate) struct Workers {
    name: &'static str,
    threads: usize,
    /// Places of the queue and at the threads.
    places: Arc<Shares>,
    queue: Arc<Queue>,
    started: Once,
}

#[derive(Default)]
struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    jobs: FairQueue<Job>,
    is_over: bool,
}

impl Workers {
    pub(crate) fn new(name: &'static str, threads: usize, places: Arc<Shares>) -> Self {
        Self { name, threads, places, queue: Arc::default(), started: Once::new() }
    }

    /// Runs `work` on one of the threads when it is the turn of `flow`.
    ///
    /// # Errors
    /// [`Error::Busy`] when too many wait already.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        flow: Flow,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Error> {
        let place = self.places.take(flow, 1)?;
        let (tell, told) = oneshot::channel();
        let job = Box::new(move || {
            let _place = place;
            // Whoever asked may have hung up; then there is nothing to work for.
            if !tell.is_closed() {
                let _ = tell.send(work());
            }
        });
        self.started.call_once(|| self.start());
        self.queue.lock().jobs.push(flow, COST, job);
        self.queue.changed.notify_one();
        told.await.map_err(|_| Error::internal(&"a worker thread ended"))
    }

    fn start(&self) {
        for at in 0..self.threads {
            let queue = Arc::clone(&self.queue);
            let name = format!("{}-{at}", self.name);
            let spawned = std::thread::Builder::new().name(name).spawn(move || queue.work());
            if let Err(error) = spawned {
                tracing::error!(%error, purpose = self.name, "no thread");
            }
        }
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.queue.lock().is_over = true;
        self.queue.changed.notify_all();
    }
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        let mut state = self.lock();
        loop {
            if state.is_over {
                return;
            }
            match state.jobs.pop() {
                Some((_, job)) => {
                    drop(state);
                    job();
                    state = self.lock();
                }
                None => {
                    state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::task::{Context, Poll, Waker};

    use super::*;
    use crate::admission::Crowd;

    const NOISY: Flow = Flow { address: 1, token: 0 };
    const OTHER: Flow = Flow { address: 2, token: 0 };

    type Waiting<'w> = Pin<Box<dyn Future<Output = Result<(), Error>> + 'w>>;

    /// A worker, and jobs that say who they are and wait for a word.
    struct Bench {
        workers: Workers,
        go: Sender<()>,
        gate: Arc<Mutex<Receiver<()>>>,
        order: Arc<Mutex<Vec<Flow>>>,
    }

    impl Bench {
        fn new(places: usize) -> Self {
            let workers = Workers::new("test", 1, Arc::new(Shares::new(places, 0)));
            let (go, gate) = channel();
            Self { workers, go, gate: Arc::new(Mutex::new(gate)), order: Arc::default() }
        }

        /// Puts one in; the error when it is refused.
        fn put(&self, flow: Flow) -> Result<Waiting<'_>, Error> {
            let (gate, order) = (Arc::clone(&self.gate), Arc::clone(&self.order));
            let mut job: Waiting<'_> = Box::pin(self.workers.run(flow, move || {
                gate.lock().unwrap().recv().unwrap();
                order.lock().unwrap().push(flow);
            }));
            match job.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(Err(error)) => Err(error),
                Poll::Ready(Ok(())) => panic!("done before its word"),
                Poll::Pending => Ok(job),
            }
        }
    }

    #[test]
    fn a_flood_is_refused_and_others_take_their_turn() {
        let bench = Bench::new(100);
        let mut waiting = Vec::new();
        let refusal = loop {
            match bench.put(NOISY) {
                Ok(job) => waiting.push(job),
                Err(error) => break error,
            }
        };
        assert_eq!((waiting.len(), refusal), (80, Error::Busy(Crowd::Own)));
        waiting.push(bench.put(OTHER).unwrap());
        (0..waiting.len()).for_each(|_| bench.go.send(()).unwrap());
        for job in waiting {
            pollster::block_on(job).unwrap();
        }
        let order = bench.order.lock().unwrap();
        let turn = order.iter().position(|flow| *flow == OTHER).unwrap();
        assert!(turn < 10, "{turn} before it");
        assert_eq!(bench.workers.places.held(), 0);
    }

    #[test]
    fn who_hangs_up_is_not_worked_for() {
        let bench = Bench::new(100);
        let first = bench.put(NOISY).unwrap();
        let gone = bench.put(OTHER).unwrap();
        drop(gone);
        let last = bench.put(NOISY).unwrap();
        (0..2).for_each(|_| bench.go.send(()).unwrap());
        pollster::block_on(first).unwrap();
        pollster::block_on(last).unwrap();
        assert!(!bench.order.lock().unwrap().contains(&OTHER));
    }
}
