//! Calls and returns of a key's operations, in the order of time.
//!
//! A linked list in a vector: the search takes operations out where it gives them a place, and puts them back, in the reverse order,
//! where it turns back. The event at 0 is none: the beginning.

use super::model::KeyOperation;
use super::{ClientOperation, OperationEnd};

/// A call or a return, in a list that is linked so that a pair can be taken out and put back.
#[derive(Clone, Copy)]
pub(super) struct TimelineEvent {
    /// Of which operation.
    pub(super) deed: usize,
    /// Where the return of this call is; of a return, and of a call that never returned, nowhere.
    pub(super) returns: Option<usize>,
    pub(super) is_call: bool,
    before: usize,
    /// The next one.
    pub(super) after: usize,
}

/// The end of the list. Its beginning is the event at 0, which is none.
const NOWHERE: usize = usize::MAX;

/// The list.
pub(super) struct Timeline(Vec<TimelineEvent>);

impl Timeline {
    /// Calls and returns in the order of time. At the same moment calls come first, so that the two overlap: clocks are coarse.
    pub(super) fn of(deeds: &[(&ClientOperation, KeyOperation)]) -> Self {
        let mut moments = Vec::with_capacity(2 * deeds.len());
        for (deed, (operation, _)) in deeds.iter().enumerate() {
            moments.push((operation.call, false, deed));
            match operation.end {
                OperationEnd::Done { at, .. } | OperationEnd::Refused { at } => {
                    moments.push((at, true, deed))
                }
                OperationEnd::Failed | OperationEnd::Unknown => {}
            }
        }
        moments.sort_unstable();
        let count = moments.len();
        let after = |at: usize| if at < count { at + 1 } else { NOWHERE };
        let mut events = vec![TimelineEvent {
            deed: NOWHERE,
            returns: None,
            is_call: false,
            before: 0,
            after: after(0),
        }];
        let mut calls = vec![0; deeds.len()];
        for (at, (_, is_return, deed)) in (1..).zip(moments) {
            let is_call = !is_return;
            events.push(TimelineEvent {
                deed,
                returns: None,
                is_call,
                before: at - 1,
                after: after(at),
            });
            if is_call {
                calls[deed] = at;
            } else {
                events[calls[deed]].returns = Some(at);
            }
        }
        Self(events)
    }

    /// The first event that is not taken out.
    pub(super) fn first(&self) -> usize {
        self.0[0].after
    }

    /// The event at a place, if there is one.
    pub(super) fn get(&self, at: usize) -> Option<&TimelineEvent> {
        self.0.get(at)
    }

    /// The event at a place where there is one.
    pub(super) fn event(&self, at: usize) -> TimelineEvent {
        self.0[at]
    }

    /// Takes the operation called at `call` out of the list.
    pub(super) fn take_out(&mut self, call: usize) {
        for at in [Some(call), self.0[call].returns].into_iter().flatten() {
            let TimelineEvent { before, after, .. } = self.0[at];
            self.0[before].after = after;
            if after != NOWHERE {
                self.0[after].before = before;
            }
        }
    }

    /// The exact reverse of [`Self::take_out`], in the reverse order: neighbours may be each other.
    pub(super) fn put_back(&mut self, call: usize) {
        for at in [self.0[call].returns, Some(call)].into_iter().flatten() {
            let TimelineEvent { before, after, .. } = self.0[at];
            self.0[before].after = at;
            if after != NOWHERE {
                self.0[after].before = at;
            }
        }
    }
}
