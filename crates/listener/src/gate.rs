//! Fair scheduling of requests on one worker.
//!
//! A worker is one thread, so a request that has arrived is a task in its run queue, served in order of
//! arrival: whoever has a thousand connections would be served a thousand times before anybody else. Here
//! [`TURN_COST_MAX`] worth of requests of each address pass freely in each turn of the loop (one look at all
//! sockets); what an address asks above that waits in a [`FairQueue`] and is let through in handfuls, each client in
//! its turn. Clients that ask about equally much never wait, however many they are, and a worker that keeps up never
//! gets there: to it the gate is a few numbers.
//!
//! Who was the only one to ask for a long while ([`ALONE_COST`]) has nobody to make room for and passes up to
//! [`ALONE_TURN_COST_MAX`]: that is what the first request of somebody else may have to wait for. It ends the state, which takes another
//! [`ALONE_COST`] to come back: who asks again and again waits so long at most about every half second.
//!
//! Operators' routes are let through before the others, so many in a turn.
//!
//! Invariants:
//! - Every waiting request is woken: the task that turns runs as long as one waits.
//! - What waits is bounded: callers hold a place among the requests while they do.
//! - Nobody overtakes those who wait at the same address; who is alone overtakes only itself, and what it has waiting is
//!   let through in the same turns.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kallisto_core::admission::{Cost, FairQueue, Flow};
use kallisto_core::metrics::Metrics;
use tokio::sync::{Notify, oneshot};

use crate::turn_end::after_those_awake;

/// What passes of one address in one turn, in reads of a secret: some hundred microseconds of work.
const TURN_COST_MAX: Cost = 64;
/// What passes of those who wait before the loop looks at the sockets again. Fewer, since what somebody asks for may turn
/// out to be a hundred times as much as was asked for before it.
const HANDFUL_COST: Cost = 8;
/// What passed of one asker, and of nobody else, before it counts as alone: about half a second of work.
const ALONE_COST: u64 = 100_000;
/// What passes in one turn of an asker that is alone: some milliseconds of work.
const ALONE_TURN_COST_MAX: Cost = 2_048;
/// What operators' routes may take of a turn before they wait like all others.
const OPERATORS_PER_TURN: u32 = 8;
/// Counters of what addresses took of a turn. Two addresses that share one wait a little earlier.
const COUNTERS: usize = 256;

/// Who asks, as far as the gate tells askers apart before it is known whether their token is one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct GateClient {
    /// The number of the address.
    address: u64,
    /// Tells one token from another; no share depends on it.
    token_sign: u64,
}

impl GateClient {
    /// The bearer of a token at an address.
    pub(crate) fn new(flow: Flow, token: &str) -> Self {
        Self { address: flow.address, token_sign: sign(token.as_bytes()) }
    }

    /// Whoever is at an address.
    pub(crate) const fn of_address(flow: Flow) -> Self {
        Self { address: flow.address, token_sign: 0 }
    }
}

/// The end of a token is the part of it that is random. Who makes up two tokens that look like one here is taken for
/// one asker, as who uses one token is.
fn sign(token: &[u8]) -> u64 {
    let word = |bytes: Option<&[u8; 8]>| bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes));
    let last = word(token.last_chunk());
    let before = word(token.len().checked_sub(8).and_then(|end| token[..end].last_chunk()));
    (last ^ before.rotate_left(32)).wrapping_add(token.len() as u64)
}

/// The gate of one worker.
pub(crate) struct Gate {
    state: Mutex<GateState>,
    waits: Notify,
    metrics: Arc<Metrics>,
}

struct GateState {
    queue: FairQueue<QueuedRequest>,
    /// Counts turns.
    turn: u64,
    /// What passed in this turn.
    passed: Cost,
    /// Of that, operators' requests.
    operators: u32,
    counters: Box<[Counter; COUNTERS]>,
    /// Who asked last, and how much since somebody else did.
    last: GateClient,
    in_a_row: u64,
}

/// What the addresses of one number took.
#[derive(Clone, Copy, Default)]
struct Counter {
    /// The turn that `passed` is of.
    turn: u64,
    passed: Cost,
    /// How many requests wait.
    waiting: u32,
}

/// A request that waits.
struct QueuedRequest {
    address: u64,
    go: oneshot::Sender<()>,
}

impl Gate {
    pub(crate) fn new(metrics: Arc<Metrics>) -> Arc<Self> {
        let state = GateState {
            queue: FairQueue::default(),
            turn: 0,
            passed: 0,
            operators: 0,
            counters: Box::new([Counter::default(); COUNTERS]),
            last: GateClient::default(),
            in_a_row: 0,
        };
        Arc::new(Self { state: Mutex::new(state), waits: Notify::new(), metrics })
    }

    /// Passes at once if the turn has room.
    pub(crate) fn try_pass(&self, asker: GateClient, cost: Cost) -> bool {
        let mut state = self.lock();
        let may = state.has_room(asker);
        if may {
            let before = state.counter(asker.address).passed;
            state.spend(asker.address, cost);
            state.note(asker, cost);
            if before < TURN_COST_MAX && state.counter(asker.address).passed >= TURN_COST_MAX {
                // Nobody may be waiting, and the next turn is to come all the same.
                self.waits.notify_one();
            }
        }
        may
    }

    /// Takes of the turn what was spent already; whether its address has room after that.
    pub(crate) fn spend(&self, flow: Flow, cost: Cost) -> bool {
        let mut state = self.lock();
        state.spend(flow.address, cost);
        let has_room = state.counter(flow.address).has_room();
        if !has_room {
            self.waits.notify_one();
        }
        has_room
    }

    /// Passes at once if the turn has room for one more of the operators' requests.
    pub(crate) fn try_pass_operator(&self) -> bool {
        let mut state = self.lock();
        if state.operators >= OPERATORS_PER_TURN {
            self.waits.notify_one();
            return false;
        }
        state.operators += 1;
        true
    }

    /// Waits for the turn of a flow. The caller holds a place among the requests meanwhile.
    pub(crate) async fn wait(&self, asker: GateClient, flow: Flow, cost: Cost) {
        let (go, gone) = oneshot::channel();
        {
            let mut state = self.lock();
            state.note(asker, cost);
            state.counter(flow.address).waiting += 1;
            state.queue.push(flow, cost, QueuedRequest { address: flow.address, go });
        }
        self.waits.notify_one();
        self.metrics.listener.waited.count();
        // The sender is dropped only with the gate, and then there is nothing to wait for.
        let _ = gone.await;
    }

    /// The worker has nothing left to do: a new turn begins.
    pub(crate) fn rest(&self) {
        self.lock().begin_turn();
    }

    /// Lets those through who wait, turn by turn; runs as long as the worker.
    pub(crate) async fn turn(&self) {
        loop {
            self.waits.notified().await;
            loop {
                // Comes back after the loop looked at the sockets.
                tokio::task::yield_now().await;
                self.rest();
                if !self.let_turn_through().await {
                    break;
                }
            }
        }
    }

    /// Lets a turn's worth of those who wait through; false when nobody is left.
    async fn let_turn_through(&self) -> bool {
        loop {
            if !self.let_handful_through() {
                return false;
            }
            let goes_on = {
                let state = self.lock();
                // Who is alone waits only for itself.
                state.is_last_alone() && state.passed < ALONE_TURN_COST_MAX
            };
            if !goes_on {
                return true;
            }
            after_those_awake().await;
        }
    }

    /// Lets a handful of those who wait through; false when nobody is left.
    fn let_handful_through(&self) -> bool {
        let mut state = self.lock();
        let mut passed = 0;
        while passed < HANDFUL_COST
            && let Some((cost, QueuedRequest { address, go })) = state.queue.pop()
        {
            state.counter(address).waiting -= 1;
            // Whoever hung up takes nothing of the turn.
            if go.send(()).is_ok() {
                state.spend(address, cost);
                passed = passed.saturating_add(cost);
            }
        }
        !state.queue.is_empty()
    }

    fn lock(&self) -> MutexGuard<'_, GateState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl GateState {
    fn begin_turn(&mut self) {
        self.turn += 1;
        self.passed = 0;
        self.operators = 0;
    }

    fn counter(&mut self, address: u64) -> &mut Counter {
        // The numbers of addresses are hashes.
        let counter = &mut self.counters[address as usize % COUNTERS];
        if counter.turn != self.turn {
            counter.turn = self.turn;
            counter.passed = 0;
        }
        counter
    }

    fn has_room(&mut self, asker: GateClient) -> bool {
        let is_alone = asker == self.last && self.is_last_alone();
        let may_alone = is_alone && self.passed < ALONE_TURN_COST_MAX;
        self.counter(asker.address).has_room() || may_alone
    }

    fn spend(&mut self, address: u64, cost: Cost) {
        let counter = self.counter(address);
        counter.passed = counter.passed.saturating_add(cost);
        self.passed = self.passed.saturating_add(cost);
    }

    /// Whether nobody else has asked for a long while.
    const fn is_last_alone(&self) -> bool {
        self.in_a_row >= ALONE_COST
    }

    /// Remembers who asked.
    fn note(&mut self, asker: GateClient, cost: Cost) {
        if asker != self.last {
            self.last = asker;
            self.in_a_row = 0;
        }
        self.in_a_row = self.in_a_row.saturating_add(u64::from(cost));
    }
}

impl Counter {
    const fn has_room(self) -> bool {
        self.waiting == 0 && self.passed < TURN_COST_MAX
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

    fn asks(flow: Flow) -> GateClient {
        GateClient::of_address(flow)
    }

    async fn pass(gate: &Gate, flow: Flow) {
        if !gate.try_pass(asks(flow), 1) {
            gate.wait(asks(flow), flow, 1).await;
        }
    }

    #[test]
    fn a_turn_passes_freely_and_rest_begins_the_next() {
        let gate = Gate::new(Arc::default());
        assert!((0..TURN_COST_MAX).all(|_| gate.try_pass(asks(NOISY), 1)));
        assert!(!gate.try_pass(asks(NOISY), 1));
        assert!(gate.try_pass(asks(VICTIM), 1), "who asked little need not wait");
        assert!((0..OPERATORS_PER_TURN).all(|_| gate.try_pass_operator()));
        assert!(!gate.try_pass_operator());
        gate.rest();
        assert!(gate.try_pass(asks(NOISY), 1) && gate.try_pass_operator());
    }

    #[test]
    fn who_asks_alone_passes_more_until_somebody_else_asks() {
        let gate = Gate::new(Arc::default());
        let token = |end: char| GateClient::new(NOISY, &format!("hvs.CAESIJ0123456789abcdef{end}"));
        let alone = |asker| {
            gate.rest();
            (0..2 * ALONE_TURN_COST_MAX).take_while(|_| gate.try_pass(asker, 1)).count()
        };
        let (usual, most) = (TURN_COST_MAX as usize, ALONE_TURN_COST_MAX as usize);
        let turns = ALONE_COST / u64::from(TURN_COST_MAX);
        assert!((0..turns).all(|_| alone(token('a')) == usual));
        for _ in 0..3 {
            assert!(alone(token('a')) >= most - 1);
        }
        // Another address, and another token of the same one.
        for other in [asks(VICTIM), token('b')] {
            gate.rest();
            assert!(gate.try_pass(other, 1));
            assert_eq!(alone(token('a')), usual);
            for _ in 0..=turns {
                alone(token('a'));
            }
            assert!(alone(token('a')) >= most - 1);
        }
    }

    #[test]
    fn who_is_alone_leaves_the_queue_however_many_connections_it_has() {
        on_a_worker(async {
            let gate = Gate::new(Arc::default());
            let turning = Arc::clone(&gate);
            tokio::task::spawn_local(async move { turning.turn().await });
            let tasks: Vec<_> = (0..200)
                .map(|_| {
                    let gate = Arc::clone(&gate);
                    tokio::task::spawn_local(async move {
                        for _ in 0..2 * ALONE_COST / 200 {
                            pass(&gate, NOISY).await;
                            tokio::task::yield_now().await;
                        }
                    })
                })
                .collect();
            for task in tasks {
                task.await.unwrap();
            }
            let [waited] = gate.metrics.listener.waited.sums();
            assert!((1..ALONE_COST + 1_000).contains(&waited), "{waited}");
        });
    }

    #[test]
    fn tokens_are_told_apart_by_their_ends() {
        let signs = ["", "a", "root", "hvs.abcdefghijk1", "hvs.abcdefghijk2", "hvs.xbcdefghijk2"];
        let mut seen: Vec<_> = signs.iter().map(|token| sign(token.as_bytes())).collect();
        seen.sort_unstable();
        seen.dedup();
        assert!(seen.len() >= signs.len() - 2, "short ones may look like each other");
    }

    #[test]
    fn clients_that_ask_equally_much_never_wait() {
        let gate = Gate::new(Arc::default());
        for address in 0..COUNTERS as u64 {
            let asker = asks(Flow { address, token: 0 });
            assert!((0..TURN_COST_MAX).all(|_| gate.try_pass(asker, 1)), "{address}");
        }
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
    fn what_was_spent_is_not_there_for_who_spent_it() {
        on_a_worker(async {
            let gate = Gate::new(Arc::default());
            assert!(gate.try_pass(asks(NOISY), 1));
            assert!(!gate.spend(NOISY, TURN_COST_MAX));
            assert!(!gate.try_pass(asks(NOISY), 1));
            assert!(gate.try_pass(asks(VICTIM), 1));
            gate.rest();
            assert!(gate.spend(NOISY, TURN_COST_MAX - 1) && gate.try_pass(asks(NOISY), 1));
        });
    }

    #[test]
    fn who_hangs_up_while_waiting_holds_nobody_up() {
        on_a_worker(async {
            let gate = Gate::new(Arc::default());
            let turning = Arc::clone(&gate);
            tokio::task::spawn_local(async move { turning.turn().await });
            while gate.try_pass(asks(NOISY), 1) {}
            let gone: Vec<_> = (0..500)
                .map(|_| {
                    let gate = Arc::clone(&gate);
                    tokio::task::spawn_local(async move { gate.wait(asks(NOISY), NOISY, 1).await })
                })
                .collect();
            tokio::task::yield_now().await;
            gone.iter().for_each(|task| task.abort());
            gate.wait(asks(VICTIM), VICTIM, 1).await;
            // Some were let through before they heard that they are over.
            for _ in 0..500 {
                tokio::task::yield_now().await;
            }
            {
                let state = gate.lock();
                assert!(state.queue.is_empty());
                assert!(state.counters.iter().all(|counter| counter.waiting == 0));
            }
        });
    }
}
