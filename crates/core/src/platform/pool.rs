//! A pool: a few threads for one purpose, in which clients take turns.
//!
//! What runs here is a [task](PoolTask): a future that uses a processor whenever it is polled. One poll is one turn: a task
//! that yields (`cooperative_yield`) between its items goes behind those of other clients each time, and one that waits for
//! the disk or another server holds no thread meanwhile. A plain function is a task of one turn ([`ThreadPool::run`]).
//!
//! Invariants:
//! - What waits and runs is bounded by the pool's places; when a client's part of them or all of them are taken, whoever
//!   asks is told to come again.
//! - A turn is charged to the client it is for, so a client with much to do leaves others their turns.
//! - A task whose client is gone is not polled again.
//! - A panic ends its task, and no thread.
//! - Nothing waits for a thread that is not there: a thread that the system refused is tried again with the next task, and a
//!   task is refused while there is none.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Wake, Waker};

use tokio::sync::oneshot;

use crate::admission::{Cost, FairQueue, Flow, SharedAmount};
use crate::api::error::Error;
use crate::platform::threads::give_way;

/// What a turn costs that nobody has put a price on.
pub(crate) const TURN: Cost = 1;

type PoolWork = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Starts a thread of this name.
type StartThread = fn(String, Box<dyn FnOnce() + Send>) -> io::Result<()>;

/// How much a pool's threads want of the processors, beside those that serve requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// As much as those.
    Equal,
    /// What those leave.
    Lesser,
}

/// Threads for one purpose; started by the first task, ended with their server.
pub(crate) struct ThreadPool {
    name: &'static str,
    threads: usize,
    claim: Claim,
    /// Places of the queue and at the threads.
    places: Arc<SharedAmount>,
    queue: Arc<Queue>,
    /// How many of the threads run. It only grows.
    running: AtomicUsize,
    /// Held while threads are started; whether it was told that the system refused one.
    starting: Mutex<bool>,
    start_thread: StartThread,
}

#[derive(Default)]
struct Queue {
    state: Mutex<ComputeQueue>,
    changed: Condvar,
}

#[derive(Default)]
struct ComputeQueue {
    turns: FairQueue<Arc<PoolTask>>,
    is_over: bool,
}

/// Work for a client.
struct PoolTask {
    flow: Flow,
    queue: Weak<Queue>,
    /// Set when nobody waits for it any more.
    is_forsaken: AtomicBool,
    phase: Mutex<TaskPhase>,
}

/// Where a task is between its first turn and its last.
enum TaskPhase {
    /// Waits for something other than its turn.
    Resting(PoolWork),
    /// In the queue, once.
    Queued(PoolWork),
    /// At a thread.
    Running,
    /// At a thread, and to be queued when that is through with it.
    Woken,
    Over,
}

/// A task's outcome, when there is one. The task is forsaken when this is dropped.
pub(crate) struct PoolOutcome<T> {
    told: oneshot::Receiver<T>,
    task: Arc<PoolTask>,
}

impl ThreadPool {
    pub(crate) fn new(
        name: &'static str,
        threads: usize,
        claim: Claim,
        places: Arc<SharedAmount>,
    ) -> Self {
        Self {
            name,
            threads,
            claim,
            places,
            queue: Arc::default(),
            running: AtomicUsize::new(0),
            starting: Mutex::new(false),
            start_thread,
        }
    }

    /// Runs `work` on one of the threads when it is the turn of `flow`.
    ///
    /// # Errors
    /// [`Error::Busy`] when too many wait already, [`Error::Unavailable`] when there is no thread.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        flow: Flow,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Error> {
        self.drive(flow, TURN, async move { work() }).await
    }

    /// Has the threads drive `work` to its end, a turn of `flow` at a time, of which the first costs `first`.
    ///
    /// # Errors
    /// [`Error::Busy`] when too many wait already, [`Error::Unavailable`] when there is no thread.
    pub(crate) async fn drive<T: Send + 'static>(
        &self,
        flow: Flow,
        first: Cost,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, Error> {
        self.submit(flow, first, work)?.await
    }

    /// The same for who keeps what it waits for.
    ///
    /// # Errors
    /// [`Error::Busy`] when too many wait already, [`Error::Unavailable`] when there is no thread.
    pub(crate) fn submit<T: Send + 'static>(
        &self,
        flow: Flow,
        first: Cost,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<PoolOutcome<T>, Error> {
        let place = self.places.take(flow, 1)?;
        self.start()?;
        let (tell, told) = oneshot::channel();
        let work = Box::pin(async move {
            let outcome = work.await;
            drop(place);
            // Whoever asked may have gone meanwhile.
            let _ = tell.send(outcome);
        });
        let task = Arc::new(PoolTask {
            flow,
            queue: Arc::downgrade(&self.queue),
            is_forsaken: AtomicBool::new(false),
            phase: Mutex::new(TaskPhase::Queued(work)),
        });
        self.queue.push(Arc::clone(&task), first);
        Ok(PoolOutcome { told, task })
    }

    /// Starts the threads that do not run yet, as far as the system lets it.
    fn start(&self) -> Result<(), Error> {
        // Acquire: see the store below. Whoever reads an older number waits for the lock.
        if self.running.load(Ordering::Acquire) == self.threads {
            return Ok(());
        }
        let mut is_told = self.starting.lock().unwrap_or_else(PoisonError::into_inner);
        let mut running = self.running.load(Ordering::Acquire);
        while running < self.threads {
            let (queue, claim) = (Arc::clone(&self.queue), self.claim);
            let work = Box::new(move || {
                if claim == Claim::Lesser {
                    give_way();
                }
                queue.work();
            });
            if let Err(error) = (self.start_thread)(format!("{}-{running}", self.name), work) {
                if !std::mem::replace(&mut *is_told, true) {
                    tracing::error!(%error, purpose = self.name, running, "no thread; trying again");
                }
                break;
            }
            running += 1;
            self.running.store(running, Ordering::Release);
        }
        if running == self.threads && std::mem::replace(&mut *is_told, false) {
            tracing::info!(purpose = self.name, "all threads run");
        }
        match running {
            0 => Err(Error::Unavailable(format!("no thread to run this on ({})", self.name))),
            _ => Ok(()),
        }
    }
}

fn start_thread(name: String, work: Box<dyn FnOnce() + Send>) -> io::Result<()> {
    std::thread::Builder::new().name(name).spawn(work).map(|_| ())
}

impl Drop for ThreadPool {
    fn drop(&mut self) {
        self.queue.lock().is_over = true;
        self.queue.changed.notify_all();
    }
}

impl<T> Future for PoolOutcome<T> {
    type Output = Result<T, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let told = Pin::new(&mut self.told).poll(context);
        told.map_err(|_| Error::internal(&"a task ended without an outcome"))
    }
}

impl<T> Drop for PoolOutcome<T> {
    fn drop(&mut self) {
        // Relaxed: it guards nothing else, and a turn too many does no harm.
        self.task.is_forsaken.store(true, Ordering::Relaxed);
        // Whatever it holds is given back in its next turn.
        Arc::clone(&self.task).wake();
    }
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, ComputeQueue> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, task: Arc<PoolTask>, cost: Cost) {
        self.lock().turns.push(task.flow, cost, task);
        self.changed.notify_one();
    }

    fn work(&self) {
        let mut state = self.lock();
        while !state.is_over {
            match state.turns.pop() {
                Some((_, task)) => {
                    drop(state);
                    task.take_turn();
                    state = self.lock();
                }
                None => {
                    state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }
}

impl PoolTask {
    fn phase(&self) -> MutexGuard<'_, TaskPhase> {
        self.phase.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_forsaken(&self) -> bool {
        self.is_forsaken.load(Ordering::Relaxed)
    }

    /// Polls the work once.
    fn take_turn(self: Arc<Self>) {
        let TaskPhase::Queued(mut work) = std::mem::replace(&mut *self.phase(), TaskPhase::Running)
        else {
            unreachable!("only what is queued comes out of the queue");
        };
        let waker = Waker::from(Arc::clone(&self));
        let mut poll = || work.as_mut().poll(&mut Context::from_waker(&waker));
        let is_over = self.is_forsaken()
            || match catch_unwind(AssertUnwindSafe(&mut poll)) {
                Ok(polled) => polled.is_ready() || self.is_forsaken(),
                Err(_) => true,
            };
        // The work is dropped outside of the lock: it may wake others, or this.
        let (left, is_next) = self.rest(work, is_over);
        drop(left);
        if is_next && let Some(queue) = self.queue.upgrade() {
            queue.push(self, TURN);
        }
    }

    /// Puts the work back after a turn, unless it is over; true when it wants another turn at once.
    fn rest(&self, work: PoolWork, is_over: bool) -> (Option<PoolWork>, bool) {
        let mut phase = self.phase();
        if is_over {
            *phase = TaskPhase::Over;
            return (Some(work), false);
        }
        let is_woken = matches!(*phase, TaskPhase::Woken);
        *phase = if is_woken { TaskPhase::Queued(work) } else { TaskPhase::Resting(work) };
        (None, is_woken)
    }
}

impl Wake for PoolTask {
    fn wake(self: Arc<Self>) {
        let mut phase = self.phase();
        match std::mem::replace(&mut *phase, TaskPhase::Over) {
            TaskPhase::Resting(work) => {
                *phase = TaskPhase::Queued(work);
                drop(phase);
                if let Some(queue) = self.queue.upgrade() {
                    queue.push(self, TURN);
                }
            }
            TaskPhase::Running | TaskPhase::Woken => *phase = TaskPhase::Woken,
            same @ (TaskPhase::Queued(_) | TaskPhase::Over) => *phase = same,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;
    use crate::admission::Crowd;
    use kallisto_engine::pace::cooperative_yield;

    const NOISY: Flow = Flow { address: 1, token: 0 };
    const OTHER: Flow = Flow { address: 2, token: 0 };

    type Waiting<'w> = Pin<Box<dyn Future<Output = Result<(), Error>> + 'w>>;

    /// A pool of one thread, and tasks that say who they are and wait for a word in each of their turns.
    struct Bench {
        pool: ThreadPool,
        go: Sender<()>,
        gate: Arc<Mutex<Receiver<()>>>,
        order: Arc<Mutex<Vec<Flow>>>,
    }

    impl Bench {
        fn new(places: usize) -> Self {
            let pool =
                ThreadPool::new("test", 1, Claim::Equal, Arc::new(SharedAmount::new(places, 0)));
            let (go, gate) = channel();
            Self { pool, go, gate: Arc::new(Mutex::new(gate)), order: Arc::default() }
        }

        /// Puts one in; the error when it is refused.
        fn put(&self, flow: Flow, turns: usize) -> Result<Waiting<'_>, Error> {
            let (gate, order) = (Arc::clone(&self.gate), Arc::clone(&self.order));
            let mut task: Waiting<'_> = Box::pin(self.pool.drive(flow, TURN, async move {
                for turn in 0..turns {
                    gate.lock().unwrap().recv().unwrap();
                    order.lock().unwrap().push(flow);
                    if turn + 1 < turns {
                        cooperative_yield().await;
                    }
                }
            }));
            match task.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(Err(error)) => Err(error),
                Poll::Ready(Ok(())) => panic!("done before its word"),
                Poll::Pending => Ok(task),
            }
        }

        fn let_go(&self, turns: usize) {
            (0..turns).for_each(|_| self.go.send(()).unwrap());
        }

        fn place_of(&self, flow: Flow) -> usize {
            let order = self.order.lock().unwrap();
            order.iter().position(|turn| *turn == flow).unwrap()
        }
    }

    #[test]
    fn without_a_thread_a_task_is_refused_and_the_next_one_tries_again() {
        static GRANTED: AtomicUsize = AtomicUsize::new(0);
        fn granted(name: String, work: Box<dyn FnOnce() + Send>) -> io::Result<()> {
            let take = |left: usize| left.checked_sub(1);
            match GRANTED.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take) {
                Ok(_) => start_thread(name, work),
                Err(_) => Err(io::ErrorKind::WouldBlock.into()),
            }
        }
        let places = Arc::new(SharedAmount::new(100, 0));
        let mut pool = ThreadPool::new("test", 2, Claim::Equal, places);
        pool.start_thread = granted;
        for _ in 0..3 {
            let mut waiting = pin!(pool.run(NOISY, || 7));
            let refused = waiting.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            assert!(matches!(refused, Poll::Ready(Err(Error::Unavailable(_)))), "{refused:?}");
        }
        assert_eq!(pool.places.held(), 0);
        // One is enough, and the other one comes when it can.
        for running in [1, 2] {
            GRANTED.store(1, Ordering::SeqCst);
            assert_eq!(pollster::block_on(pool.run(NOISY, || 7)), Ok(7));
            assert_eq!(pool.running.load(Ordering::SeqCst), running);
        }
        GRANTED.store(1, Ordering::SeqCst);
        assert_eq!(pollster::block_on(pool.run(NOISY, || 7)), Ok(7));
        assert_eq!(GRANTED.load(Ordering::SeqCst), 1, "there are enough of them");
    }

    #[test]
    fn a_flood_is_refused_and_others_take_their_turn() {
        let bench = Bench::new(100);
        let mut waiting = Vec::new();
        let refusal = loop {
            match bench.put(NOISY, 1) {
                Ok(task) => waiting.push(task),
                Err(error) => break error,
            }
        };
        assert_eq!((waiting.len(), refusal), (80, Error::Busy(Crowd::Own)));
        waiting.push(bench.put(OTHER, 1).unwrap());
        bench.let_go(waiting.len());
        for task in waiting {
            pollster::block_on(task).unwrap();
        }
        assert!(bench.place_of(OTHER) < 10);
        assert_eq!(bench.pool.places.held(), 0);
    }

    #[test]
    fn a_long_task_lets_others_in_between_its_turns() {
        let bench = Bench::new(100);
        let long = bench.put(NOISY, 1_000).unwrap();
        let short = bench.put(OTHER, 1).unwrap();
        bench.let_go(1_001);
        pollster::block_on(short).unwrap();
        assert!(bench.place_of(OTHER) < 10);
        pollster::block_on(long).unwrap();
    }

    #[test]
    fn who_hangs_up_is_not_worked_for() {
        let bench = Bench::new(100);
        let first = bench.put(NOISY, 1).unwrap();
        let gone = bench.put(OTHER, 1).unwrap();
        drop(gone);
        let last = bench.put(NOISY, 1).unwrap();
        bench.let_go(2);
        pollster::block_on(first).unwrap();
        pollster::block_on(last).unwrap();
        assert!(!bench.order.lock().unwrap().contains(&OTHER));
    }

    #[test]
    fn who_hangs_up_in_the_midst_is_worked_for_no_longer() {
        let bench = Bench::new(100);
        let gone = bench.put(OTHER, 1_000_000).unwrap();
        bench.let_go(3);
        drop(gone);
        // At most one more turn, the one that may wait for its word already; then it gives its place back.
        let last = bench.put(NOISY, 1).unwrap();
        bench.let_go(5);
        pollster::block_on(last).unwrap();
        let others = bench.order.lock().unwrap().iter().filter(|turn| **turn == OTHER).count();
        assert!(others <= 5, "{others}");
    }

    #[test]
    fn what_waits_for_another_holds_no_thread_and_goes_on_when_it_is_woken() {
        let bench = Bench::new(100);
        let (tell, told) = oneshot::channel();
        let mut resting = pin!(bench.pool.drive(NOISY, TURN, async move { told.await.unwrap() }));
        let started = resting.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(started.is_pending());
        let meanwhile = bench.put(OTHER, 1).unwrap();
        bench.let_go(1);
        pollster::block_on(meanwhile).unwrap();
        tell.send(7).unwrap();
        assert_eq!(pollster::block_on(resting), Ok(7));
    }

    #[test]
    fn a_panic_ends_its_task_alone() {
        let bench = Bench::new(100);
        let outcome: Result<(), Error> =
            pollster::block_on(bench.pool.run(NOISY, || panic!("a bug in a handler")));
        assert!(matches!(outcome, Err(Error::Internal(_))));
        let next = bench.put(NOISY, 1).unwrap();
        bench.let_go(1);
        pollster::block_on(next).unwrap();
    }
}
