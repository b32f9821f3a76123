//! A commit under way, and the promise behind it.
//!
//! [`Commit`] is the caller's half: a future that needs no particular runtime, or a blocking wait.
//! [`Promise`] is the store's half. Invariants:
//! - a promise is kept once; dropping it unkept resolves the commit to [`Error::Unknown`], so that
//!   nobody waits for ever;
//! - the waker runs outside the lock.

use std::fmt;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use crate::{Batch, Error, Position};

/// How a commit ended.
pub type CommitOutcome = Result<Position, Error>;

/// A commit under way; resolves to the batch's position.
#[must_use = "a commit that is not awaited is not acknowledged"]
pub struct Commit {
    state: CommitState,
    /// What is dropped once it is decided.
    watcher: Option<Box<dyn Send + Sync>>,
}

enum CommitState {
    Decided(Option<CommitOutcome>),
    Waiting(Arc<PromiseSlot>),
}

#[derive(Default)]
struct PromiseSlot {
    slot: Mutex<OutcomeSlot>,
}

#[derive(Default)]
struct OutcomeSlot {
    outcome: Option<CommitOutcome>,
    waker: Option<Waker>,
}

/// The duty to say how a commit ended.
pub struct Promise {
    slot: Option<Arc<PromiseSlot>>,
    batch: Option<Box<Batch>>,
}

impl Commit {
    /// A commit that is already decided.
    pub fn decided(outcome: Result<Position, Error>) -> Self {
        Self { state: CommitState::Decided(Some(outcome)), watcher: None }
    }

    /// A commit and the promise that decides it, for whoever writes a store.
    pub fn promised() -> (Promise, Self) {
        let shared = Arc::<PromiseSlot>::default();
        let state = CommitState::Waiting(Arc::clone(&shared));
        (Promise { slot: Some(shared), batch: None }, Self { state, watcher: None })
    }

    /// The same, which drops `watcher` when whoever waits for it hears how it ended, or waits no more.
    pub fn watched(self, watcher: impl Send + Sync + 'static) -> Self {
        Self { watcher: Some(Box::new(watcher)), ..self }
    }

    /// Blocks this thread until the commit is decided. Not for the threads of an async runtime.
    ///
    /// # Errors
    /// What the commit resolves to.
    pub fn wait(self) -> Result<Position, Error> {
        let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
        let mut context = Context::from_waker(&waker);
        let mut commit = pin!(self);
        loop {
            match commit.as_mut().poll(&mut context) {
                Poll::Ready(outcome) => return outcome,
                Poll::Pending => std::thread::park(),
            }
        }
    }
}

impl Future for Commit {
    type Output = Result<Position, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let outcome = match &mut self.state {
            CommitState::Decided(outcome) => outcome.take(),
            CommitState::Waiting(shared) => {
                let mut slot = shared.lock();
                if slot.outcome.is_none() {
                    let waker = context.waker();
                    if !slot.waker.as_ref().is_some_and(|known| known.will_wake(waker)) {
                        slot.waker = Some(waker.clone());
                    }
                    return Poll::Pending;
                }
                slot.outcome.take()
            }
        };
        self.state = CommitState::Decided(None);
        self.watcher = None;
        let polled_again = || Err(Error::Unavailable("commit polled after it resolved".into()));
        Poll::Ready(outcome.unwrap_or_else(polled_again))
    }
}

impl fmt::Debug for Commit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Commit")
    }
}

impl Promise {
    /// The same, which brings the batch along: so the server that encoded it need not decode it.
    pub(crate) fn with_batch(self, batch: Batch) -> Self {
        let mut this = self;
        this.batch = Some(Box::new(batch));
        this
    }

    /// The batch that came along.
    pub(crate) fn batch(&self) -> Option<&Batch> {
        self.batch.as_deref()
    }

    /// Resolves the commit.
    pub fn keep(mut self, outcome: CommitOutcome) {
        self.resolve(outcome);
    }

    fn resolve(&mut self, outcome: CommitOutcome) {
        let Some(shared) = self.slot.take() else { return };
        let waker = {
            let mut slot = shared.lock();
            slot.outcome = Some(outcome);
            slot.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        self.resolve(Err(Error::Unknown("the store stopped before it was decided".into())));
    }
}

impl fmt::Debug for Promise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Promise")
    }
}

impl PromiseSlot {
    /// A panic under this lock cannot leave the slot half-written, so its poison says nothing.
    fn lock(&self) -> MutexGuard<'_, OutcomeSlot> {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Wakes a blocked thread.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kept_promise_resolves_from_another_thread() {
        let (promise, commit) = Commit::promised();
        let keeper = std::thread::spawn(move || promise.keep(Ok(Position(7))));
        assert_eq!(commit.wait(), Ok(Position(7)));
        keeper.join().unwrap();
    }

    #[test]
    fn a_watcher_is_dropped_when_the_outcome_is_heard() {
        let (promise, commit) = Commit::promised();
        let watcher = Arc::new(());
        let mut commit = pin!(commit.watched(Arc::clone(&watcher)));
        let mut context = Context::from_waker(Waker::noop());
        assert!(commit.as_mut().poll(&mut context).is_pending());
        promise.keep(Ok(Position(1)));
        assert_eq!(Arc::strong_count(&watcher), 2, "nobody has heard of it");
        assert!(commit.as_mut().poll(&mut context).is_ready());
        assert_eq!(Arc::strong_count(&watcher), 1);
        drop(Commit::promised().1.watched(Arc::clone(&watcher)));
        assert_eq!(Arc::strong_count(&watcher), 1);
    }

    #[test]
    fn a_dropped_promise_leaves_nobody_waiting() {
        let (promise, commit) = Commit::promised();
        drop(promise);
        assert!(matches!(commit.wait(), Err(Error::Unknown(_))));
    }

    #[test]
    fn the_last_waker_is_the_one_that_is_woken() {
        struct Count(std::sync::atomic::AtomicUsize);
        impl Wake for Count {
            fn wake(self: Arc<Self>) {
                self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            }
        }
        let counts = [0, 1].map(|_| Arc::new(Count(0.into())));
        let (promise, commit) = Commit::promised();
        let mut commit = pin!(commit);
        for count in &counts {
            let waker = Waker::from(Arc::clone(count));
            assert!(commit.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        }
        promise.keep(Err(Error::Conflict));
        let woken = counts.map(|count| count.0.load(std::sync::atomic::Ordering::Relaxed));
        assert_eq!(woken, [0, 1]);
        let mut context = Context::from_waker(Waker::noop());
        assert_eq!(commit.as_mut().poll(&mut context), Poll::Ready(Err(Error::Conflict)));
    }
}
