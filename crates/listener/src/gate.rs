//! Fair scheduling of requests on one worker.
//!
//! A worker is one thread, so a request that has arrived is a task in its run queue, served in order of
//! arrival: whoever has a thousand connections would be served a thousand times before any other client. Here
//! [`TURN_COST_MAX`] worth of requests pass freely in each turn of the loop (one look at all sockets); what
//! comes above that waits in a [`FairQueue`] and is let through in the turns that follow, each client in its
//! turn. A worker that keeps up never gets there: to it the gate is one number that is read and written.
//!
//! Operators' routes are let through before the others, so many in a turn.
//!
//! Invariants:
//! - Every waiting request is woken: the task that turns runs as long as one waits.
//! - What waits is bounded: callers hold a place among the requests while they do.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kallisto_core::admission::{Cost, FairQueue, Flow};
use kallisto_core::metrics::Metrics;
use tokio::sync::{Notify, oneshot};

/// What passes in one turn, in reads of a secret: some hundred microseconds of work.
const TURN_COST_MAX: Cost = 64;
/// What passes of those who wait before the loop looks at the sockets again. Fewer, since what somebody asks for may
/// turn out to be a hundred times as much as was asked for before it.
const WAITING_COST_MAX: Cost = 8;
/// What operators' routes may take of a turn before they wait like all others.
const OPERATORS_PER_TURN: u32 = 8;

/// The gate of one worker.
pub(crate) struct Gate {
    /// What passed since the loop last looked at the sockets with nothing left to do.
    passed: AtomicU32,
    /// Of that, operators' requests.
    operators: AtomicU32,
    queue: Mutex<FairQueue<oneshot::Sender<()>>>,
    waits: Notify,
    metrics: Arc<Metrics>,
}

impl Gate {
    pub(crate) fn new(metrics: Arc<Metrics>) -> Arc<Self> {
        Arc::new(Self {
            passed: AtomicU32::new(0),
            operators: AtomicU32::new(0),
            queue: Mutex::default(),
            waits: Notify::new(),
            metrics,
        })
    }

    /// Passes at once if the turn has room.
    pub(crate) fn try_pass(&self, cost: Cost) -> bool {
        let may = self.has_room();
        if may {
            self.spend(cost);
        }
        may
    }

    /// Takes of the turn what was spent already; whether the turn has room after that.
    pub(crate) fn spend(&self, cost: Cost) -> bool {
        // One thread reads and writes it, so nothing comes between; other threads never look.
        let passed = self.passed.load(Ordering::Relaxed);
        self.passed.store(passed.saturating_add(cost), Ordering::Relaxed);
        self.has_room()
    }

    fn has_room(&self) -> bool {
        self.passed.load(Ordering::Relaxed) < TURN_COST_MAX
    }

    /// Passes at once if the turn has room for one more of the operators' requests.
    pub(crate) fn try_pass_operator(&self) -> bool {
        let passed = self.operators.load(Ordering::Relaxed);
        if passed >= OPERATORS_PER_TURN {
            // Nobody may be waiting, and the next turn is to come all the same.
            self.waits.notify_one();
            return false;
        }
        self.operators.store(passed + 1, Ordering::Relaxed);
        true
    }

    /// Waits for the turn of a flow. The caller holds a place among the requests meanwhile.
    pub(crate) async fn wait(&self, flow: Flow, cost: Cost) {
        let (go, gone) = oneshot::channel();
        self.lock().push(flow, cost, go);
        self.waits.notify_one();
        self.metrics.listener.waited.count();
        // The sender is dropped only with the gate, and then there is nothing to wait for.
        let _ = gone.await;
    }

    /// The worker has nothing left to do: a new turn begins.
    pub(crate) fn rest(&self) {
        self.passed.store(0, Ordering::Relaxed);
        self.operators.store(0, Ordering::Relaxed);
    }

    /// Lets those through who wait, turn by turn; runs as long as the worker.
    pub(crate) async fn turn(&self) {
        loop {
            self.waits.notified().await;
            loop {
                // Comes back after the loop looked at the sockets.
                tokio::task::yield_now().await;
                if !self.let_through() {
                    break;
                }
            }
        }
    }

    /// Begins a turn with those who wait; false when nobody is left.
    fn let_through(&self) -> bool {
        let mut queue = self.lock();
        self.rest();
        let mut passed = 0;
        while passed < WAITING_COST_MAX
            && let Some((cost, go)) = queue.pop()
        {
            // Whoever hung up takes nothing of the turn.
            if go.send(()).is_ok() {
                passed = passed.saturating_add(cost);
            }
        }
        // Nobody overtakes those who wait.
        let is_full = !queue.is_empty();
        self.passed.store(if is_full { TURN_COST_MAX } else { passed }, Ordering::Relaxed);
        is_full
    }

    fn lock(&self) -> MutexGuard<'_, FairQueue<oneshot::Sender<()>>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use tokio::task::LocalSet;

    use super::*;

    const NOISY: Flow = Flow { address: 1, token: 0 };
    const VICTIM: Flow = Flow { address: 2, token: 0 };

    /// Runs on one thread, as a worker does.
    fn on_a_worker<F: Future>(work: F) -> F::Output {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        LocalSet::new().block_on(&runtime, work)
    }

    async fn pass(gate: &Gate, flow: Flow) {
        if !gate.try_pass(1) {
            gate.wait(flow, 1).await;
        }
    }

    #[test]
    fn a_turn_passes_freely_and_rest_begins_the_next() {
        let gate = Gate::new(Arc::default());
        assert!((0..TURN_COST_MAX).all(|_| gate.try_pass(1)));
        assert!(!gate.try_pass(1));
        assert!((0..OPERATORS_PER_TURN).all(|_| gate.try_pass_operator()));
        assert!(!gate.try_pass_operator());
        gate.rest();
        assert!(gate.try_pass(1) && gate.try_pass_operator());
    }

    #[test]
    fn a_crowd_of_one_client_does_not_stand_before_another() {
        let served = on_a_worker(async {
            let gate = Gate::new(Arc::default());
            let order = Rc::new(RefCell::new(Vec::new()));
            let turning = Arc::clone(&gate);
            tokio::task::spawn_local(async move { turning.turn().await });
            let mut tasks = Vec::new();
            for flow in std::iter::repeat_n(NOISY, 5_000).chain([VICTIM]) {
                let (gate, order) = (Arc::clone(&gate), Rc::clone(&order));
                tasks.push(tokio::task::spawn_local(async move {
                    pass(&gate, flow).await;
                    order.borrow_mut().push(flow);
                }));
            }
            for task in tasks {
                task.await.unwrap();
            }
            order.take()
        });
        assert_eq!(served.len(), 5_001);
        let place = served.iter().position(|flow| *flow == VICTIM).unwrap();
        assert!(place <= 3 * TURN_COST_MAX as usize, "{place}");
    }

    #[test]
    fn what_was_spent_is_not_there_for_others() {
        on_a_worker(async {
            let gate = Gate::new(Arc::default());
            assert!(gate.try_pass(1));
            assert!(!gate.spend(TURN_COST_MAX));
            assert!(!gate.try_pass(1));
            gate.rest();
            assert!(gate.spend(TURN_COST_MAX - 1) && gate.try_pass(1));
        });
    }

    #[test]
    fn who_hangs_up_while_waiting_holds_nobody_up() {
        on_a_worker(async {
            let gate = Gate::new(Arc::default());
            let turning = Arc::clone(&gate);
            tokio::task::spawn_local(async move { turning.turn().await });
            while gate.try_pass(1) {}
            let gone: Vec<_> = (0..500)
                .map(|_| {
                    let gate = Arc::clone(&gate);
                    tokio::task::spawn_local(async move { gate.wait(NOISY, 1).await })
                })
                .collect();
            tokio::task::yield_now().await;
            gone.iter().for_each(|task| task.abort());
            gate.wait(VICTIM, 1).await;
            assert!(gate.lock().is_empty());
        });
    }
}
