//! What the driver hands to the applier, in order.
//!
//! Bounded through the driver: it hands nothing more out under back-pressure, so an entry that is here is never
//! dropped for want of space. One that is in work still counts.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use super::limits::{APPLY_WAITING_BYTES_MAX, APPLY_WAITING_MAX};
use super::lock;
use super::node::Committed;
use super::requests::Backpressure;
use crate::Error;
use crate::commit::Promise;

/// What the applier does.
#[derive(Debug)]
pub(crate) enum ApplierTask {
    /// Apply an entry; tell who proposed it here.
    Apply(Committed, Option<Promise>),
    /// Say that everything before is applied.
    Settled(Promise),
    /// Everything that was committed anywhere before this time is applied.
    Confirmed(Duration),
}

/// Where driver and applier meet.
#[derive(Debug, Default)]
pub(crate) struct Tasks {
    state: Mutex<TasksState>,
    came: Condvar,
}

#[derive(Debug, Default)]
struct TasksState {
    waiting: VecDeque<ApplierTask>,
    /// Not done yet, whether they wait or are in work.
    count: usize,
    bytes: usize,
    closed: bool,
}

impl Tasks {
    /// Hands tasks over; drops them if the applier is gone, which tells those who wait.
    pub(crate) fn push(&self, tasks: impl IntoIterator<Item = ApplierTask>) {
        let mut state = lock(&self.state);
        if state.closed {
            return;
        }
        for task in tasks {
            state.count += 1;
            state.bytes += task.bytes();
            state.waiting.push_back(task);
        }
        drop(state);
        self.came.notify_one();
    }

    /// Moves all tasks to `backlog`, waiting for some if there are none and `patience` allows; false when it is closed
    /// and empty.
    pub(crate) fn take(
        &self,
        backlog: &mut VecDeque<ApplierTask>,
        patience: Option<Duration>,
    ) -> bool {
        let mut state = lock(&self.state);
        if patience.is_none() {
            while state.waiting.is_empty() && !state.closed {
                state = self.came.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        }
        let ended = state.waiting.is_empty() && state.closed;
        backlog.append(&mut state.waiting);
        !ended
    }

    /// Says that tasks with so many bytes are done; returns whether that ended the back-pressure.
    pub(crate) fn done(&self, count: usize, bytes: usize) -> bool {
        let mut state = lock(&self.state);
        let before = state.backpressure();
        state.count -= count;
        state.bytes -= bytes;
        before == Backpressure::On && state.backpressure() == Backpressure::Off
    }

    /// Whether more may be handed over.
    pub(crate) fn backpressure(&self) -> Backpressure {
        lock(&self.state).backpressure()
    }

    /// Nothing more will come.
    pub(crate) fn close(&self) {
        lock(&self.state).closed = true;
        self.came.notify_all();
    }

    /// The applier is gone: drops what waits.
    pub(crate) fn abandon(&self) {
        let mut state = lock(&self.state);
        state.closed = true;
        (state.count, state.bytes) = (0, 0);
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        drop(waiting);
    }
}

impl TasksState {
    fn backpressure(&self) -> Backpressure {
        let full = self.count >= APPLY_WAITING_MAX || self.bytes >= APPLY_WAITING_BYTES_MAX;
        if full { Backpressure::On } else { Backpressure::Off }
    }
}

impl ApplierTask {
    /// Tells who waits for it, if anybody does, that nothing comes of it.
    pub(crate) fn refuse(self, error: Error) {
        match self {
            Self::Apply(_, Some(promise)) | Self::Settled(promise) => promise.keep(Err(error)),
            Self::Apply(_, None) | Self::Confirmed(_) => {}
        }
    }

    /// Bytes of the batch, if there is one.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Apply(entry, _) => entry.data.len(),
            Self::Settled(_) | Self::Confirmed(_) => 0,
        }
    }
}
