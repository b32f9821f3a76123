//! The applier: writes what is committed to the engine, has it folded, and only then says so.
//!
//! It works through its backlog in order. A full disk stalls it, and nothing is skipped: who waits for an entry, this one
//! or one behind it, hears that it is committed and not yet applied, new writes are refused, and the same entry is tried
//! again until there is space. Any other failure ends the store.

use std::collections::VecDeque;
use std::sync::Arc;

use super::limits::RESOLVE_MAX;
use super::lock;
use super::shared::StoreShared;
use super::tasks::ApplierTask;
use crate::Error;
use crate::commit::{CommitOutcome, Promise};

/// The applier's own.
pub(crate) struct Applier {
    shared: Arc<StoreShared>,
    backlog: VecDeque<ApplierTask>,
    /// What is applied and not yet said to be.
    unsaid: Vec<(Promise, CommitOutcome)>,
}

/// How a turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ApplierTurn {
    /// Everything is applied.
    Done,
    /// The disk is full; try again later.
    Stalled,
}

impl Applier {
    /// An applier without a backlog.
    pub(crate) fn new(shared: Arc<StoreShared>) -> Self {
        Self { shared, backlog: VecDeque::new(), unsaid: Vec::new() }
    }

    /// Where tasks go.
    pub(crate) fn backlog(&mut self) -> &mut VecDeque<ApplierTask> {
        &mut self.backlog
    }

    /// Works through the backlog.
    ///
    /// # Errors
    /// What makes the store useless; everyone who waits has been told.
    pub(crate) fn turn(&mut self) -> Result<ApplierTurn, Error> {
        let (mut count, mut bytes) = (0, 0);
        let ended = loop {
            let Some(task) = self.backlog.pop_front() else { break Ok(ApplierTurn::Done) };
            let task_bytes = task.bytes();
            match self.perform(task) {
                Ok(ApplierTurn::Done) => {}
                Ok(ApplierTurn::Stalled) => break Ok(ApplierTurn::Stalled),
                Err(error) => break Err(error),
            }
            count += 1;
            bytes += task_bytes;
            if self.unsaid.len() >= RESOLVE_MAX {
                self.resolve();
            }
        };
        self.resolve();
        if let Err(error) = &ended {
            self.abandon(error);
            return ended;
        }
        let stalled = ended == Ok(ApplierTurn::Stalled);
        if stalled {
            count += self.tell_who_waits();
        }
        // Those who wait for the driver are refused by it.
        if self.shared.tasks.done(count, bytes) || stalled {
            self.shared.requests.nudge();
        }
        ended
    }

    fn perform(&mut self, task: ApplierTask) -> Result<ApplierTurn, Error> {
        let (entry, promise) = match task {
            ApplierTask::Settled(promise) => {
                self.unsaid.push((promise, Ok(self.shared.machine.position())));
                return Ok(ApplierTurn::Done);
            }
            ApplierTask::Confirmed(asked) => {
                self.shared.lease.confirm(asked);
                return Ok(ApplierTurn::Done);
            }
            ApplierTask::Apply(entry, promise) => (entry, promise),
        };
        let known = promise.as_ref().and_then(Promise::batch);
        let outcome = self.shared.machine.apply(&entry, known);
        if entry.members.is_some() && outcome.is_ok() {
            self.shared.transport.know(&self.shared.machine.directory());
        }
        match &outcome {
            Ok(_) | Err(Error::Conflict | Error::Unknown(_)) => {
                self.shared.note_space();
                self.unsaid.extend(promise.map(|promise| (promise, outcome)));
                Ok(ApplierTurn::Done)
            }
            Err(Error::Full(what)) => {
                *lock(&self.shared.full) = Some(Error::Full(what.clone()));
                self.backlog.push_front(ApplierTask::Apply(entry, promise));
                Ok(ApplierTurn::Stalled)
            }
            Err(error) => {
                if let Some(promise) = promise {
                    promise.keep(Err(Error::Unknown(error.to_string())));
                }
                Err(error.clone())
            }
        }
    }

    fn resolve(&mut self) {
        let _together = kallisto_wake::together();
        for (promise, outcome) in self.unsaid.drain(..) {
            promise.keep(outcome);
        }
    }

    /// Tells everybody whose word is in the backlog that it has to wait for space, and returns how many tasks that ends.
    fn tell_who_waits(&mut self) -> usize {
        let before = self.backlog.len();
        let Some(full) = self.shared.stalled() else { return 0 };
        for task in std::mem::take(&mut self.backlog) {
            match task {
                ApplierTask::Settled(promise) => promise.keep(Err(full.clone())),
                // Not while something before it waits: it is asked for again.
                ApplierTask::Confirmed(_) => {}
                ApplierTask::Apply(entry, promise) => {
                    if let Some(promise) = promise {
                        let what = "it is in the log and will be applied once the disk has space";
                        promise.keep(Err(Error::Unknown(what.into())));
                    }
                    self.backlog.push_back(ApplierTask::Apply(entry, None));
                }
            }
        }
        before - self.backlog.len()
    }

    fn abandon(&mut self, why: &Error) {
        for task in self.backlog.drain(..) {
            task.refuse(Error::Unknown(why.to_string()));
        }
        self.shared.tasks.abandon();
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::Pin;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Context, Poll, Waker};
    use std::time::Duration;

    use bytes::Bytes;
    use kallisto_lsm::Background;
    use kallisto_lsm::disk::MemDisk;

    use super::*;
    use crate::raft::limits::{APPLY_WAITING_BYTES_MAX, APPLY_WAITING_MAX};
    use crate::raft::node::Committed;
    use crate::raft::requests::Backpressure;
    use crate::{
        Batch, ChunkSink, Commit, MemberChange, MemberRole, Peer, RaftOptions, RaftStore,
        Replicated, Store, Transport,
    };

    /// Counts how often it is told who the peers are.
    #[derive(Default)]
    struct CountedNews(AtomicUsize);

    impl Transport for CountedNews {
        fn know(&self, _: &[Peer]) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }

        fn send(&self, _: u64, _: Vec<u8>) {}

        fn fetch_snapshot(&self, _: u64, _: Box<dyn ChunkSink>) {}
    }

    /// A store without threads whose driver has nothing to do.
    struct Bench {
        store: Arc<RaftStore>,
        news: Arc<CountedNews>,
    }

    impl Bench {
        fn new() -> Self {
            let news = Arc::<CountedNews>::default();
            let engine = kallisto_lsm::Options {
                background: Background::Inline,
                ..RaftOptions::default().engine
            };
            let options = RaftOptions {
                engine,
                has_threads: false,
                transport: Arc::clone(&news) as Arc<dyn Transport>,
                ..RaftOptions::default()
            };
            let store = RaftStore::open(MemDisk::shared(), "s", options).unwrap();
            Self { store, news }
        }

        /// Hands tasks over as the driver does, and works them off.
        fn turn(&self, tasks: Vec<ApplierTask>) -> Result<ApplierTurn, Error> {
            self.hand_over(tasks);
            lock(self.store.inline.as_ref().unwrap()).1.turn()
        }

        fn hand_over(&self, tasks: Vec<ApplierTask>) {
            let queue = &self.store.shared.tasks;
            queue.push(tasks);
            let mut inline = lock(self.store.inline.as_ref().unwrap());
            queue.take(inline.1.backlog(), Some(Duration::ZERO));
        }

        fn backpressure(&self) -> Backpressure {
            self.store.shared.tasks.backpressure()
        }

        /// An entry that is applied already.
        fn past(&self, bytes: usize) -> ApplierTask {
            let (index, data) = (self.store.position().0, Bytes::from(vec![0; bytes]));
            ApplierTask::Apply(Committed { index, term: 1, data, members: None }, None)
        }
    }

    fn outcome(commit: &mut Commit) -> Option<CommitOutcome> {
        match Pin::new(commit).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(outcome) => Some(outcome),
            Poll::Pending => None,
        }
    }

    #[test]
    fn what_is_done_waits_no_more() {
        let bench = Bench::new();
        let many = || (0..APPLY_WAITING_MAX).map(|_| bench.past(0)).collect::<Vec<_>>();
        bench.hand_over(many());
        assert_eq!(bench.backpressure(), Backpressure::On);
        assert_eq!(bench.turn(Vec::new()), Ok(ApplierTurn::Done));
        assert_eq!(bench.backpressure(), Backpressure::Off);
        bench.hand_over(vec![bench.past(APPLY_WAITING_BYTES_MAX)]);
        assert_eq!(bench.backpressure(), Backpressure::On);
        assert_eq!(bench.turn(Vec::new()), Ok(ApplierTurn::Done));
        assert_eq!(bench.backpressure(), Backpressure::Off);
        // Nothing of either is left over: one less than all there may be is not too much.
        let mut tasks = many();
        tasks.pop();
        bench.hand_over(tasks);
        assert_eq!(bench.backpressure(), Backpressure::Off);
    }

    #[test]
    fn the_driver_looks_around_once_it_may_take_more() {
        let bench = Bench::new();
        let nudged = || {
            let requests = &bench.store.shared.requests;
            let came = requests.wait(Some(Duration::ZERO), Backpressure::Off);
            requests.take(&mut Vec::new(), Backpressure::Off);
            came == crate::raft::requests::WaitOutcome::Meanwhile
        };
        nudged();
        bench.turn(vec![bench.past(0)]).unwrap();
        assert!(!nudged(), "it could take more all the time");
        let many = (0..APPLY_WAITING_MAX).map(|_| bench.past(0)).collect();
        bench.turn(many).unwrap();
        assert!(nudged());
    }

    #[test]
    fn whoever_waits_behind_an_entry_that_makes_no_sense_hears_so() {
        let bench = Bench::new();
        let (promise, mut own) = Commit::promised();
        let (settled, mut behind) = Commit::promised();
        let nonsense = Committed {
            index: bench.store.position().0 + 1,
            term: 1,
            data: Bytes::from_static(b"nonsense"),
            members: None,
        };
        let tasks =
            vec![ApplierTask::Apply(nonsense, Some(promise)), ApplierTask::Settled(settled)];
        assert!(matches!(bench.turn(tasks), Err(Error::Damaged(_))));
        assert!(matches!(outcome(&mut own), Some(Err(Error::Unknown(_)))));
        assert!(matches!(outcome(&mut behind), Some(Err(Error::Unknown(_)))));
    }

    #[test]
    fn peers_are_made_known_when_they_change_and_not_with_every_entry() {
        let bench = Bench::new();
        let told = || bench.news.0.load(Ordering::SeqCst);
        let before = told();
        let mut batch = Batch::new();
        batch.put(b"a".to_vec(), vec![1]);
        bench.store.commit(batch).wait().unwrap();
        assert_eq!(told(), before);
        let learner = Peer { id: 2, name: "two".into(), ..Peer::default() };
        let change = vec![MemberChange::Put(learner, MemberRole::Learner)];
        bench.store.change(change).wait().unwrap();
        assert_eq!(told(), before + 1);
    }
}
