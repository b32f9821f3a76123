//! A bounded amount that flows share, without a setting for the number of flows.
//!
//! A flow may hold at most [`ALPHA`] times what is still free (A. K. Choudhury and E. L. Hahne, "Dynamic
//! queue length thresholds in a shared memory packet switch", INFOCOM 1996). One flow alone gets
//! α/(1+α) of it all; the more hold a lot, the less each may hold, and some is free at any time, so
//! whoever comes next gets in. There is no list of flows and no lock: a flow's part is a counter that its
//! number chooses, and two that meet in one counter share a part.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::{Crowd, Flow};
use crate::counts::Counts;

/// How many times what is free a flow may hold: four fifths of everything when it is alone.
const ALPHA: usize = 4;
/// Counters of flows.
const COUNTERS: usize = 4096;
/// What an address may hold of the reserve: enough for a person, of no use to a flood.
const RESERVE_EACH_MAX: usize = 4;

/// An amount that is shared.
pub struct SharedAmount {
    max: usize,
    /// What of that ordinary flows never get.
    reserve: usize,
    held: AtomicUsize,
    of_flows: Box<[AtomicUsize]>,
    refused: Counts<1>,
}

/// What one taker holds; given back when this is dropped.
#[derive(Debug)]
pub struct Held {
    shares: Arc<SharedAmount>,
    counter: usize,
    amount: usize,
}

impl SharedAmount {
    /// An amount of `max`, of which `reserve` is kept back for those who ask for it by name.
    pub fn new(max: usize, reserve: usize) -> Self {
        Self {
            max,
            reserve: reserve.min(max),
            held: AtomicUsize::new(0),
            of_flows: (0..COUNTERS).map(|_| AtomicUsize::new(0)).collect(),
            refused: Counts::default(),
        }
    }

    /// Takes `amount` for a flow.
    ///
    /// # Errors
    /// [`Crowd`] when there is not so much for it.
    pub fn take(self: &Arc<Self>, flow: Flow, amount: usize) -> Result<Held, Crowd> {
        let mut held = self.nothing(flow);
        held.grow(amount)?;
        Ok(held)
    }

    /// Takes `amount` for a flow that may use the reserve as well.
    ///
    /// # Errors
    /// [`Crowd::All`] when everything is held, reserve and all.
    pub fn take_reserved(self: &Arc<Self>, flow: Flow, amount: usize) -> Result<Held, Crowd> {
        let mut held = self.nothing(flow);
        if !self.add(amount, self.max) {
            self.refused.count();
            return Err(Crowd::All);
        }
        self.of_flows[held.counter].fetch_add(amount, Ordering::Relaxed);
        held.amount = amount;
        Ok(held)
    }

    /// Takes `amount` for a flow; one that holds next to nothing may have it from the reserve.
    ///
    /// # Errors
    /// [`Crowd`] when there is not so much for it.
    pub fn take_or_reserved(self: &Arc<Self>, flow: Flow, amount: usize) -> Result<Held, Crowd> {
        let held = self.nothing(flow);
        let own = self.of_flows[held.counter].load(Ordering::Relaxed);
        if own + amount <= RESERVE_EACH_MAX {
            return self.take_reserved(flow, amount);
        }
        self.take(flow, amount)
    }

    /// Takes of `most` what leaves the flow half of all that it may hold, maybe nothing: that half is for those who cannot do with less, however
    /// many ask for some. It counts as no refusal.
    pub fn take_some(self: &Arc<Self>, flow: Flow, most: usize) -> Held {
        let mut held = self.nothing(flow);
        let own = self.of_flows[held.counter].load(Ordering::Relaxed);
        let free = (self.max - self.reserve).saturating_sub(self.held());
        // A flow may hold ALPHA times what is free then: own + room <= ALPHA * (free - room).
        let room = ALPHA.saturating_mul(free).saturating_sub(own) / (ALPHA + 1);
        let amount = most.min(room.saturating_sub(own) / 2);
        if self.add(amount, self.max - self.reserve) {
            self.of_flows[held.counter].fetch_add(amount, Ordering::Relaxed);
            held.amount = amount;
        }
        held
    }

    /// A hold of nothing, to grow.
    pub fn nothing(self: &Arc<Self>, flow: Flow) -> Held {
        // The number is a keyed hash, so whom somebody shares a counter with is chance.
        let counter = flow.key() as usize % COUNTERS;
        Held { shares: Arc::clone(self), counter, amount: 0 }
    }

    /// How much is held.
    pub fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    /// How much there is.
    pub const fn max(&self) -> usize {
        self.max
    }

    /// How often somebody was refused.
    pub fn refused(&self) -> u64 {
        self.refused.total()
    }

    /// Whether most of it is held: time to be impatient with those who do nothing.
    pub fn is_crowded(&self) -> bool {
        self.held() > self.max / 4 * 3
    }

    /// Adds to what is held in all, up to `most`.
    fn add(&self, amount: usize, most: usize) -> bool {
        // Relaxed, here and below: the counters guard no other memory.
        let more = |held: usize| held.checked_add(amount).filter(|&held| held <= most);
        self.held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }
}

impl std::fmt::Debug for SharedAmount {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SharedAmount").field("max", &self.max).field("held", &self.held()).finish()
    }
}

impl Held {
    /// How much this holds.
    pub const fn amount(&self) -> usize {
        self.amount
    }

    /// Takes `amount` more.
    ///
    /// # Errors
    /// [`Crowd`] when there is not so much; what was held before still is.
    pub fn grow(&mut self, amount: usize) -> Result<(), Crowd> {
        self.try_grow(amount).inspect_err(|_| self.shares.refused.count())
    }

    /// The same of what can be done without: nobody is refused anything when there is not so much.
    ///
    /// # Errors
    /// As [`Self::grow`].
    pub fn try_grow(&mut self, amount: usize) -> Result<(), Crowd> {
        let shares = &self.shares;
        let most = shares.max - shares.reserve;
        let own = shares.of_flows[self.counter].load(Ordering::Relaxed);
        let free = most.saturating_sub(shares.held()).checked_sub(amount).ok_or(Crowd::All)?;
        // Takers that race may overshoot the flow's part by one each; never the whole.
        if own.saturating_add(amount) > ALPHA.saturating_mul(free) {
            return Err(Crowd::Own);
        }
        if !shares.add(amount, most) {
            return Err(Crowd::All);
        }
        shares.of_flows[self.counter].fetch_add(amount, Ordering::Relaxed);
        self.amount += amount;
        Ok(())
    }

    /// Gives everything back; what is left is a hold of nothing.
    pub fn give_back(&mut self) {
        let amount = std::mem::take(&mut self.amount);
        self.shares.of_flows[self.counter].fetch_sub(amount, Ordering::Relaxed);
        self.shares.held.fetch_sub(amount, Ordering::Relaxed);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.give_back();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Flow = Flow { address: 1, token: 0 };
    const B: Flow = Flow { address: 2, token: 0 };
    const C: Flow = Flow { address: 3, token: 0 };

    fn fill(shares: &Arc<SharedAmount>, flow: Flow) -> Vec<Held> {
        std::iter::from_fn(|| shares.take(flow, 1).ok()).collect()
    }

    #[test]
    fn the_greedy_leave_room_for_the_next() {
        let shares = Arc::new(SharedAmount::new(1000, 0));
        let a = fill(&shares, A);
        assert_eq!(a.len(), 800);
        assert_eq!(shares.take(A, 1).unwrap_err(), Crowd::Own);
        // Four times the 200 that are free, halving what is free until both are level.
        let b = fill(&shares, B);
        assert_eq!(b.len(), 160);
        let c = fill(&shares, C);
        assert!(!c.is_empty() && shares.held() < 1000, "{}", c.len());
        drop(a);
        // What the first gave back, the others may take up to their parts.
        assert!(fill(&shares, B).len() > 100);
        drop((b, c));
        assert_eq!(shares.held(), 0);
        assert!(shares.of_flows.iter().all(|own| own.load(Ordering::Relaxed) == 0));
        assert!(shares.refused() >= 4);
    }

    #[test]
    fn the_reserve_is_for_those_who_ask_for_little_or_by_name() {
        let shares = Arc::new(SharedAmount::new(100, 20));
        let greedy = fill(&shares, A);
        assert_eq!(greedy.len(), 64);
        let flood: Vec<Vec<Held>> =
            (10..200).map(|address| fill(&shares, Flow { address, token: 0 })).collect();
        assert!((79..=80).contains(&shares.held()), "{}", shares.held());
        // Full for everybody but whoever holds next to nothing.
        assert!(shares.take_or_reserved(A, 1).is_err());
        let one = shares.take_or_reserved(Flow { address: 1000, token: 0 }, 1).unwrap();
        let named: Vec<Held> = std::iter::from_fn(|| shares.take_reserved(C, 1).ok()).collect();
        assert_eq!(shares.held(), 100);
        drop((greedy, flood, one, named));
        assert_eq!(shares.held(), 0);
    }

    #[test]
    fn amounts_grow_within_the_whole_and_come_back() {
        let shares = Arc::new(SharedAmount::new(100, 0));
        let mut held = shares.nothing(A);
        held.grow(50).unwrap();
        assert_eq!(held.grow(51), Err(Crowd::All));
        assert_eq!(held.grow(usize::MAX), Err(Crowd::All));
        held.grow(20).unwrap();
        assert_eq!(shares.held(), 70);
        assert!(!shares.is_crowded());
        let _other = shares.take(B, 10).unwrap();
        assert!(shares.is_crowded());
        drop(held);
        assert_eq!(shares.held(), 10);
    }

    #[test]
    fn who_can_do_with_less_leaves_others_half_and_is_never_refused() {
        let shares = Arc::new(SharedAmount::new(1000, 0));
        let few = shares.take_some(A, 100);
        assert_eq!(few.amount(), 100);
        // The flow may hold 800, however often it asks for some.
        let many = [16, 1000, 16].map(|most| shares.take_some(A, most));
        assert_eq!(many.each_ref().map(Held::amount), [16, 284, 0]);
        let one_by_one = fill(&shares, A);
        assert_eq!(one_by_one.len(), 400);
        assert_eq!(shares.take_some(A, 16).amount(), 0);
        // Another one may hold four fifths of the 200 that are free.
        let other = [1000, 1000].map(|most| shares.take_some(B, most));
        assert_eq!(other.each_ref().map(Held::amount), [80, 0]);
        drop((few, many, one_by_one, other));
        assert_eq!((shares.held(), shares.refused()), (0, 1));
    }

    #[test]
    fn threads_never_exceed_the_whole() {
        let shares = Arc::new(SharedAmount::new(64, 0));
        std::thread::scope(|scope| {
            for address in 0..8 {
                let shares = Arc::clone(&shares);
                scope.spawn(move || {
                    for _ in 0..200 {
                        let held = fill(&shares, Flow { address, token: 0 });
                        assert!(shares.held() <= 64);
                        drop(held);
                    }
                });
            }
        });
        assert_eq!(shares.held(), 0);
    }
}
