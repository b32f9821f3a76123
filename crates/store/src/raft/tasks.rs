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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Commit;

    fn apply(bytes: usize) -> (ApplierTask, Commit) {
        let (promise, commit) = Commit::promised();
        let data = vec![0; bytes].into();
        let entry = Committed { index: 1, term: 1, data, members: None };
        (ApplierTask::Apply(entry, Some(promise)), commit)
    }

    fn confirmed(count: usize) -> impl Iterator<Item = ApplierTask> {
        (0..count).map(|_| ApplierTask::Confirmed(Duration::ZERO))
    }

    #[test]
    fn no_more_is_handed_over_than_may_wait_or_be_in_work() {
        let tasks = Tasks::default();
        tasks.push(confirmed(APPLY_WAITING_MAX - 1));
        assert_eq!(tasks.backpressure(), Backpressure::Off);
        assert!(!tasks.done(1, 0), "there was none");
        tasks.push(confirmed(2));
        assert_eq!(tasks.backpressure(), Backpressure::On);
        assert!(tasks.take(&mut VecDeque::new(), None));
        assert_eq!(tasks.backpressure(), Backpressure::On, "they are in work");
        assert!(tasks.done(1, 0));
        assert_eq!(tasks.backpressure(), Backpressure::Off);
        assert!(!tasks.done(1, 0), "it had ended");
        tasks.push(confirmed(3));
        assert!(!tasks.done(1, 0), "it goes on");
    }

    #[test]
    fn entries_wait_up_to_their_bytes() {
        let tasks = Tasks::default();
        let _waiting = [APPLY_WAITING_BYTES_MAX - 3, 2].map(|bytes| {
            let (task, commit) = apply(bytes);
            tasks.push([task]);
            commit
        });
        assert_eq!(tasks.backpressure(), Backpressure::Off);
        let (task, _commit) = apply(1);
        tasks.push([task]);
        assert_eq!(tasks.backpressure(), Backpressure::On);
        assert!(tasks.done(1, 2));
        assert_eq!(tasks.backpressure(), Backpressure::Off);
    }

    #[test]
    fn tasks_come_in_order_and_the_last_before_the_end() {
        let tasks = Tasks::default();
        let mut backlog = VecDeque::new();
        assert!(tasks.take(&mut backlog, Some(Duration::ZERO)), "more may come");
        let (one, _one) = apply(1);
        let (two, _two) = apply(2);
        tasks.push([one, two]);
        tasks.close();
        let (late, refused) = apply(3);
        tasks.push([late]);
        assert!(matches!(refused.wait(), Err(Error::Unknown(_))));
        assert!(tasks.take(&mut backlog, None));
        assert_eq!(backlog.iter().map(ApplierTask::bytes).collect::<Vec<_>>(), [1, 2]);
        assert!(!tasks.take(&mut backlog, None));
        assert_eq!(backlog.len(), 2);
    }

    #[test]
    fn an_applier_that_waits_is_woken_by_a_task_and_by_the_end() {
        let tasks = Tasks::default();
        std::thread::scope(|scope| {
            let applier = scope.spawn(|| {
                let mut backlog = VecDeque::new();
                let mut came = 0;
                while tasks.take(&mut backlog, None) {
                    came += backlog.drain(..).count();
                }
                came
            });
            tasks.push(confirmed(2));
            std::thread::sleep(Duration::from_millis(5));
            tasks.close();
            assert_eq!(applier.join().unwrap(), 2);
        });
    }

    #[test]
    fn whoever_waits_for_an_applier_that_is_gone_hears_so() {
        let tasks = Tasks::default();
        let (task, commit) = apply(APPLY_WAITING_BYTES_MAX);
        let (promise, settled) = Commit::promised();
        tasks.push([task, ApplierTask::Settled(promise)]);
        tasks.abandon();
        for waits in [commit, settled] {
            assert!(matches!(waits.wait(), Err(Error::Unknown(_))));
        }
        assert_eq!(tasks.backpressure(), Backpressure::Off);
        let (late, refused) = apply(1);
        tasks.push([late]);
        assert!(matches!(refused.wait(), Err(Error::Unknown(_))));
        assert!(!tasks.take(&mut VecDeque::new(), None));
    }

    #[test]
    fn a_task_that_is_refused_says_why() {
        let (task, commit) = apply(1);
        task.refuse(Error::Busy);
        assert_eq!(commit.wait(), Err(Error::Busy));
        let (promise, commit) = Commit::promised();
        ApplierTask::Settled(promise).refuse(Error::Busy);
        assert_eq!(commit.wait(), Err(Error::Busy));
    }
}
