//! The search for an order that explains a history.
//!
//! Wing and Gong ("Testing and verifying concurrent objects", 1993): take an operation that may come first, see whether the register
//! would have answered so, go on with the rest, and turn back where nothing fits. Lowe ("Testing for linearizability", 2017): a set of operations
//! that leads to the same state is not tried twice. A history is linearizable if it is so key by key (Herlihy and Wing), so
//! each key is searched alone, as Horn and Kroening do ("Faster linearizability checking via P-compositionality", 2015).
//!
//! Three things make the search short. What only looks (a read, a refused swap) and fits now is given its place at once and for good: in an
//! order that has it later, it can be moved to here and the rest does not notice. What may have happened or not need not be
//! given a place: the search ends when everything certain has one. And it is given one only where it is seen ([`HistorySearch::guessed`]).
//!
//! Invariants:
//! - an operation is given its place only while nothing that has to come after its call's end is: the list of calls and returns is searched
//!   up to the first return of what has no place yet;
//! - a search that is too hard says so ([`super::HistoryVerdict::Undecided`]): silence is no proof.

use std::collections::HashSet;

use super::ClientOperation;
use super::model::{KeyOperation, KeyState};
use super::places::{Bits, TrimmedPath};
use super::timeline::{Timeline, TimelineEvent};

/// Most states of one key that are looked at.
pub const STATES_MAX: usize = 8 << 20;

/// How a search ended.
pub(super) enum Searched {
    /// There is an order, found after so many states.
    Explained { states: usize },
    /// There is none.
    Stuck(Stuck),
    /// There were too many states.
    TooHard,
}

/// The furthest that a search came.
#[derive(Default)]
pub(super) struct Stuck {
    /// The longest order.
    pub(super) order: Vec<usize>,
    /// Certain operations without a place.
    pub(super) left: usize,
    /// What the key was then.
    pub(super) state: KeyState,
    /// Those that would have had to come next.
    pub(super) open: Vec<usize>,
}

/// A search of one key's history.
pub(super) struct HistorySearch<'a> {
    deeds: &'a [(&'a ClientOperation, KeyOperation)],
    timeline: Timeline,
    placed: Bits,
    /// Certain operations without a place.
    left: usize,
    state: KeyState,
    /// What was given a place: where its call is, and the state before.
    order: Vec<(usize, KeyState)>,
    seen: HashSet<(TrimmedPath, KeyState, bool)>,
    /// Whether any operation speaks of a version.
    counts: bool,
    states_max: usize,
    furthest: Option<Stuck>,
}

impl<'a> HistorySearch<'a> {
    /// A search that looks at so many states at most.
    pub(super) fn new(deeds: &'a [(&'a ClientOperation, KeyOperation)], states_max: usize) -> Self {
        Self {
            timeline: Timeline::of(deeds),
            placed: Bits::none(deeds.len()),
            left: deeds.iter().filter(|(_, deed)| deed.is_certain()).count(),
            deeds,
            state: KeyState::default(),
            order: Vec::new(),
            seen: HashSet::new(),
            counts: deeds.iter().any(|(_, deed)| deed.counts()),
            states_max,
            furthest: None,
        }
    }

    /// Searches to the end.
    pub(super) fn run(mut self) -> Searched {
        self.absorb();
        let mut at = self.timeline.first();
        while self.left > 0 {
            if self.seen.len() > self.states_max {
                return Searched::TooHard;
            }
            let next = match self.timeline.get(at) {
                Some(event) if event.is_call => self.place(at),
                // Whatever comes next has to come before this return, and nothing can.
                _ => match self.turn_back() {
                    Some(next) => next,
                    None => return Searched::Stuck(self.furthest.unwrap_or_default()),
                },
            };
            at = next;
        }
        Searched::Explained { states: self.seen.len() }
    }

    /// Gives the operation called at `at` the next place if it can have it. Returns where to go on.
    fn place(&mut self, at: usize) -> usize {
        let TimelineEvent { deed, after, .. } = self.timeline.event(at);
        let Some(next) = self.deeds[deed].1.follow(self.state) else { return after };
        let (this, guess) = (&self.deeds[deed].1, self.guessed());
        if guess && this.is_blind() {
            return after;
        }
        self.placed.flip(deed);
        let is_new = self.seen.insert((self.placed.places(), next, !this.is_certain()));
        self.placed.flip(deed);
        if !is_new {
            return after;
        }
        self.give_place(at, next);
        self.absorb();
        self.timeline.first()
    }

    /// Whether the last place went to what nobody knows to have happened. Where no version is ever told, it is worth that only if
    /// the next one looks at it: what is replaced unseen can as well come later, or never.
    fn guessed(&self) -> bool {
        let last = self.order.last().map(|&(at, _)| self.timeline.event(at).deed);
        !self.counts && last.is_some_and(|last| !self.deeds[last].1.is_certain())
    }

    /// Gives everything its place that only looks and fits now.
    fn absorb(&mut self) {
        let mut at = self.timeline.first();
        while let Some(&TimelineEvent { deed, returns, is_call: true, .. }) = self.timeline.get(at)
        {
            let deed = &self.deeds[deed].1;
            let fits = deed.only_looks() && deed.follow(self.state).is_some();
            if fits {
                self.give_place(at, self.state);
            }
            at = self.timeline.event(at).after;
            if fits && returns == Some(at) {
                // Taken out as well; what comes after it may have come into reach.
                at = self.timeline.event(at).after;
            }
        }
    }

    fn give_place(&mut self, at: usize, next: KeyState) {
        let deed = self.timeline.event(at).deed;
        self.placed.flip(deed);
        self.order.push((at, self.state));
        self.state = next;
        self.left -= usize::from(self.deeds[deed].1.is_certain());
        self.timeline.take_out(at);
    }

    /// Takes the last place back for which there is an alternative, and what came after it. Returns where to go on; `None` if there is none.
    fn turn_back(&mut self) -> Option<usize> {
        self.note_furthest();
        loop {
            let (at, before) = self.order.pop()?;
            let deed = self.timeline.event(at).deed;
            self.state = before;
            self.placed.flip(deed);
            self.left += usize::from(self.deeds[deed].1.is_certain());
            self.timeline.put_back(at);
            if !self.deeds[deed].1.only_looks() {
                return Some(self.timeline.event(at).after);
            }
        }
    }

    fn note_furthest(&mut self) {
        if self.furthest.as_ref().is_some_and(|furthest| furthest.left <= self.left) {
            return;
        }
        let mut open = Vec::new();
        let mut at = self.timeline.first();
        while let Some(event) = self.timeline.get(at).filter(|event| event.is_call) {
            if self.deeds[event.deed].1.is_certain() {
                open.push(event.deed);
            }
            at = event.after;
        }
        let order = self.order.iter().map(|&(at, _)| self.timeline.event(at).deed).collect();
        self.furthest = Some(Stuck { order, left: self.left, state: self.state, open });
    }
}
