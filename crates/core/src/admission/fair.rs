//! A queue that serves flows in turn, however much each of them puts in.
//!
//! Surplus round robin in two levels: addresses take turns, and in the turn of an address its tokens do.
//! A flow is served while it has credit, pays the cost of what it got afterwards, and gets [`QUANTUM`]
//! when the turn comes round (M. Shreedhar and G. Varghese, "Efficient fair queuing using deficit round robin",
//! SIGCOMM 1995, with the deficit paid later). Flows exist while they have something waiting, so memory
//! is that of what waits, which the callers bound.

use std::collections::{HashMap, VecDeque};

use super::Flow;

/// What serving something takes, in reads of a secret.
pub type Cost = u32;

/// Credit that comes with each turn.
const QUANTUM: i64 = 4;

/// A queue of items by flow.
#[derive(Debug)]
pub struct FairQueue<T> {
    addresses: Turns<Turns<Line<T>>>,
    len: usize,
}

/// The items of one token, in their order.
type Line<T> = VecDeque<(Cost, T)>;

/// Members that take turns; none of them is empty.
#[derive(Debug)]
struct Turns<M> {
    order: VecDeque<u64>,
    members: HashMap<u64, FlowMember<M>>,
}

#[derive(Debug)]
struct FlowMember<M> {
    credit: i64,
    waiting: M,
}

/// What takes turns.
trait WaitsForTurn: Default {
    type Item;

    /// The next item and its cost.
    fn take(&mut self) -> Option<(Cost, Self::Item)>;

    fn is_empty(&self) -> bool;
}

impl<T> WaitsForTurn for Line<T> {
    type Item = T;

    fn take(&mut self) -> Option<(Cost, T)> {
        self.pop_front()
    }

    fn is_empty(&self) -> bool {
        self.is_empty()
    }
}

impl<M> Default for Turns<M> {
    fn default() -> Self {
        Self { order: VecDeque::new(), members: HashMap::new() }
    }
}

impl<M: WaitsForTurn> Turns<M> {
    /// What waits for `key`, made if there is none.
    fn member(&mut self, key: u64) -> &mut M {
        let order = &mut self.order;
        let member = self.members.entry(key).or_insert_with(|| {
            order.push_back(key);
            FlowMember { credit: QUANTUM, waiting: M::default() }
        });
        &mut member.waiting
    }
}

impl<M: WaitsForTurn> WaitsForTurn for Turns<M> {
    type Item = M::Item;

    fn take(&mut self) -> Option<(Cost, M::Item)> {
        // Ends: each round gives everybody credit, and costs are bounded by their type's use.
        loop {
            let key = *self.order.front()?;
            let member = self.members.get_mut(&key).expect("who is in the order is a member");
            if member.credit <= 0 {
                member.credit += QUANTUM;
                self.order.rotate_left(1);
                continue;
            }
            let (cost, item) = member.waiting.take().expect("a member has something waiting");
            member.credit -= i64::from(cost);
            if member.waiting.is_empty() {
                self.members.remove(&key);
                self.order.pop_front();
            } else if member.credit <= 0 {
                member.credit += QUANTUM;
                self.order.rotate_left(1);
            }
            return Some((cost, item));
        }
    }

    fn is_empty(&self) -> bool {
        self.order.is_empty()
    }
}

impl<T> Default for FairQueue<T> {
    fn default() -> Self {
        Self { addresses: Turns::default(), len: 0 }
    }
}

impl<T> FairQueue<T> {
    /// Puts an item behind those of its flow.
    pub fn push(&mut self, flow: Flow, cost: Cost, item: T) {
        let line = self.addresses.member(flow.address).member(flow.token);
        // What costs nothing would be served for ever.
        line.push_back((cost.max(1), item));
        self.len += 1;
    }

    /// Takes the item whose turn it is, and its cost.
    pub fn pop(&mut self) -> Option<(Cost, T)> {
        let taken = self.addresses.take();
        self.len -= usize::from(taken.is_some());
        taken
    }

    /// How many items wait.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing waits.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(address: u64, token: u64) -> Flow {
        Flow { address, token }
    }

    fn served(queue: &mut FairQueue<char>, count: usize) -> String {
        std::iter::from_fn(|| queue.pop()).take(count).map(|(_, item)| item).collect()
    }

    #[test]
    fn one_flow_is_served_in_its_order() {
        let mut queue = FairQueue::default();
        for item in "abcdefghij".chars() {
            queue.push(flow(1, 1), 3, item);
        }
        assert_eq!(served(&mut queue, 100), "abcdefghij");
        assert!(queue.is_empty() && queue.pop().is_none());
    }

    #[test]
    fn who_comes_late_waits_for_one_turn_not_for_the_queue() {
        let mut queue = FairQueue::default();
        for _ in 0..10_000 {
            queue.push(flow(1, 1), 1, 'n');
        }
        served(&mut queue, 7);
        queue.push(flow(2, 1), 1, 'v');
        let turn = usize::try_from(QUANTUM).unwrap();
        assert!(served(&mut queue, turn + 1).contains('v'));
    }

    #[test]
    fn cost_counts_not_items() {
        let mut queue = FairQueue::default();
        for _ in 0..1_000 {
            queue.push(flow(1, 1), 8, 'L');
            queue.push(flow(2, 1), 1, 'r');
        }
        let seen = served(&mut queue, 450);
        let count = |what| seen.chars().filter(|&item| item == what).count();
        // Fifty lists cost as much as four hundred reads.
        assert!((380..=420).contains(&count('r')), "{}", count('r'));
    }

    #[test]
    fn many_tokens_of_one_address_get_the_turn_of_one_address() {
        let mut queue = FairQueue::default();
        for token in 0..100 {
            for _ in 0..10 {
                queue.push(flow(1, token), 1, 'n');
            }
        }
        for _ in 0..100 {
            queue.push(flow(2, 1), 1, 'v');
        }
        let seen = served(&mut queue, 200);
        let victims = seen.chars().filter(|&item| item == 'v').count();
        assert!((96..=100).contains(&victims), "{victims}");
    }

    #[test]
    fn nothing_is_lost_and_nothing_stays_behind() {
        let mut random = fastrand::Rng::with_seed(7);
        let (mut queue, mut waiting) = (FairQueue::default(), 0);
        for _ in 0..20_000 {
            if random.bool() {
                queue.push(flow(random.u64(0..5), random.u64(0..5)), random.u32(0..40), 'x');
                waiting += 1;
            } else {
                waiting -= usize::from(queue.pop().is_some());
            }
            assert_eq!(queue.len(), waiting);
        }
        served(&mut queue, usize::MAX);
        assert!(queue.addresses.members.is_empty() && queue.addresses.order.is_empty());
    }
}
