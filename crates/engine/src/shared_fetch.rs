//! A copy of what another server says, which one caller fetches for all who want it.
//!
//! When a cluster starts, thousands of logins want the keys of one provider at once, and none are there yet. One of them asks; the
//! others wait for what it gets, a failure included. So the other server hears of a stampede once, and the logins do not use up
//! the calls that a client may have under way.
//!
//! Invariants:
//! - No more than one call is under way for a copy.
//! - That one caller has too much under way is told to that caller only: the next one asks in its own turns.

use std::sync::{Arc, Mutex as SyncMutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use kallisto_api::Error;
use tokio::sync::Mutex;

/// A copy that several callers share.
pub struct SharedFetch<T> {
    last: SyncMutex<FetchState<T>>,
    /// Held by whoever asks the other server.
    turn: Mutex<()>,
}

/// What came last.
struct FetchState<T> {
    copy: Option<(Arc<T>, Timestamp)>,
    /// Why the last try brought nothing, if it did not.
    failure: Option<Error>,
    /// How many tries have ended.
    tries: u64,
}

impl<T> Default for SharedFetch<T> {
    fn default() -> Self {
        let last = FetchState { copy: None, failure: None, tries: 0 };
        Self { last: SyncMutex::new(last), turn: Mutex::new(()) }
    }
}

impl<T> FetchState<T> {
    fn outcome(&self) -> Option<Result<Arc<T>, Error>> {
        match &self.failure {
            Some(why) => Some(Err(why.clone())),
            None => self.copy.as_ref().map(|(copy, _)| Ok(Arc::clone(copy))),
        }
    }
}

impl<T> SharedFetch<T> {
    fn last(&self) -> MutexGuard<'_, FetchState<T>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// When the copy was asked for; `None` when there is none.
    pub fn fetched_at(&self) -> Option<Timestamp> {
        self.last().copy.as_ref().map(|(_, at)| *at)
    }

    /// The copy, if `is_fresh` says of it and of when it was asked for that it may be used. Else the one that `fetch` gets, or that
    /// another caller gets meanwhile.
    ///
    /// A caller that goes away while it asks leaves its turn to the next one.
    ///
    /// # Errors
    /// Those of `fetch`, this caller's or the other's, but of [`Error::Busy`] this caller's only. An older copy stays for who may use it.
    pub async fn get(
        &self,
        now: Timestamp,
        is_fresh: impl Fn(&T, Timestamp) -> bool,
        fetch: impl Future<Output = Result<T, Error>>,
    ) -> Result<Arc<T>, Error> {
        let tries = {
            let last = self.last();
            match &last.copy {
                Some((copy, at)) if is_fresh(copy, *at) => return Ok(Arc::clone(copy)),
                _ => last.tries,
            }
        };
        let _turn = self.turn.lock().await;
        {
            let last = self.last();
            if last.tries != tries
                && let Some(outcome) = last.outcome()
            {
                return outcome;
            }
        }
        let fetched = fetch.await;
        if let Err(why @ Error::Busy(_)) = fetched {
            return Err(why);
        }
        let mut last = self.last();
        last.tries += 1;
        match fetched {
            Ok(copy) => {
                let copy = Arc::new(copy);
                (last.copy, last.failure) = (Some((Arc::clone(&copy), now)), None);
                Ok(copy)
            }
            Err(why) => {
                last.failure = Some(why.clone());
                Err(why)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::pin::{Pin, pin};
    use std::rc::Rc;
    use std::task::{Context, Poll, Waker};

    use kallisto_api::Crowd;

    use super::*;

    /// Another server that answers when it is told to.
    #[derive(Clone, Default)]
    struct Server {
        asked: Rc<Cell<usize>>,
        answer: Rc<RefCell<Option<Result<u32, Error>>>>,
    }

    impl Server {
        async fn ask(self) -> Result<u32, Error> {
            self.asked.set(self.asked.get() + 1);
            std::future::poll_fn(|_| match self.answer.borrow().clone() {
                Some(answer) => Poll::Ready(answer),
                None => Poll::Pending,
            })
            .await
        }

        fn answers(&self, answer: Result<u32, Error>) {
            *self.answer.borrow_mut() = Some(answer);
        }

        fn is_silent(&self) {
            *self.answer.borrow_mut() = None;
        }
    }

    type Getting<'s> = Pin<Box<dyn Future<Output = Result<Arc<u32>, Error>> + 's>>;

    /// A caller at second `now` for whom a copy is good for ten seconds.
    fn caller<'s>(shared: &'s SharedFetch<u32>, server: &Server, now: i64) -> Getting<'s> {
        let is_fresh = move |_: &u32, at: Timestamp| now < at.as_second() + 10;
        let now = Timestamp::from_second(now).unwrap();
        Box::pin(shared.get(now, is_fresh, server.clone().ask()))
    }

    fn poll(getting: &mut Getting<'_>) -> Option<Result<u32, Error>> {
        match pin!(getting).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(outcome) => Some(outcome.map(|copy| *copy)),
            Poll::Pending => None,
        }
    }

    fn failure() -> Error {
        Error::Unavailable("gone".to_owned())
    }

    #[test]
    fn who_comes_while_one_asks_takes_what_that_one_gets() {
        for answer in [Ok(7), Err(failure())] {
            let (shared, server) = (SharedFetch::default(), Server::default());
            let mut callers: Vec<_> = (0..100).map(|_| caller(&shared, &server, 0)).collect();
            assert!(callers.iter_mut().all(|one| poll(one).is_none()));
            server.answers(answer.clone());
            for one in &mut callers {
                let outcome = poll(one).expect("it is there");
                assert_eq!(outcome.ok(), answer.clone().ok());
            }
            assert_eq!(server.asked.get(), 1);
        }
    }

    #[test]
    fn a_copy_is_used_while_it_is_fresh_and_stays_when_the_next_try_fails() {
        let (shared, server) = (SharedFetch::default(), Server::default());
        server.answers(Ok(1));
        for (now, asked) in [(0, 1), (9, 1), (10, 2), (19, 2)] {
            assert_eq!(poll(&mut caller(&shared, &server, now)).unwrap().ok(), Some(1));
            assert_eq!(server.asked.get(), asked);
        }
        server.answers(Err(failure()));
        assert!(poll(&mut caller(&shared, &server, 20)).unwrap().is_err());
        // Who comes after the failure asks again; who may use the old copy has it.
        assert!(poll(&mut caller(&shared, &server, 20)).unwrap().is_err());
        assert_eq!(server.asked.get(), 4);
        assert_eq!(poll(&mut caller(&shared, &server, 19)).unwrap().ok(), Some(1));
        server.answers(Ok(2));
        assert_eq!(poll(&mut caller(&shared, &server, 20)).unwrap().ok(), Some(2));
        assert_eq!(shared.fetched_at().unwrap().as_second(), 20);
    }

    #[test]
    fn who_waits_is_not_refused_because_another_has_too_much_under_way() {
        let (shared, server) = (SharedFetch::default(), Server::default());
        let mut callers: Vec<_> = (0..3).map(|_| caller(&shared, &server, 0)).collect();
        assert!(callers.iter_mut().all(|one| poll(one).is_none()));
        server.answers(Err(Error::Busy(Crowd::Own)));
        assert_eq!(poll(&mut callers[0]), Some(Err(Error::Busy(Crowd::Own))));
        server.answers(Ok(7));
        for one in &mut callers[1..] {
            assert_eq!(poll(one).expect("it is there").ok(), Some(7));
        }
        assert_eq!(server.asked.get(), 2);
    }

    #[test]
    fn who_goes_away_while_it_asks_leaves_its_turn_to_the_next() {
        let (shared, server) = (SharedFetch::default(), Server::default());
        let (mut first, mut second) = (caller(&shared, &server, 0), caller(&shared, &server, 0));
        assert!(poll(&mut first).is_none() && poll(&mut second).is_none());
        assert_eq!(server.asked.get(), 1);
        drop(first);
        server.is_silent();
        assert!(poll(&mut second).is_none());
        assert_eq!(server.asked.get(), 2);
        server.answers(Ok(3));
        assert_eq!(poll(&mut second).unwrap().ok(), Some(3));
    }
}
