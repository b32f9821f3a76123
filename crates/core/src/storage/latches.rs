//! One writer at a time per path, among the writers of this process.
//!
//! The store's preconditions already make racing writers safe; latches only keep them from losing
//! races over and over. Paths share [`STRIPES`] latches by a keyed hash, so no one can aim at
//! another's. A latch is held while a commit is awaited, hence one that is awaited too.

use std::collections::BTreeSet;
use std::sync::Arc;

use kallisto_cuckoo::siphash::{SipHash24, SipKey};
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::api::error::Error;
use crate::random;

/// Of a thousand writes under way, one in sixteen meets the latch of another path, and has to wait. Each stripe takes 40 bytes.
const STRIPES: usize = 16 << 10;

/// The latches of a core. Each is a semaphore of one permit.
pub(crate) struct Latches {
    stripes: Vec<Semaphore>,
    key: SipKey,
}

/// A latch that is held.
pub(crate) type HeldLatch<'l> = SemaphorePermit<'l>;

/// Latches that are held together, for records that are changed as one.
pub(crate) struct HeldLatches {
    latches: Arc<Latches>,
    held: Vec<LatchedKey>,
}

/// A key of [`HeldLatches`], by its hash.
#[derive(Clone, Copy)]
struct LatchedKey {
    hash: u64,
    /// Whether the latch is given back for it: not where another of the keys shares it.
    owns: bool,
    /// Whether its record is changed; not yet where its latch was waited for.
    is_used: bool,
}

/// What came of asking for a latch without waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LatchOutcome {
    /// It is held.
    Held,
    /// Somebody changes that record, or one that shares its latch.
    Busy,
}

/// A latch that somebody had, to be waited for.
pub(crate) struct BusyLatch {
    latches: Arc<Latches>,
    hash: u64,
}

impl Latches {
    /// Latches that nobody holds.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when the operating system gives no randomness.
    pub(crate) fn new() -> Result<Self, Error> {
        let key = SipKey::from_bytes(random::make_bytes()?);
        Ok(Self { stripes: (0..STRIPES).map(|_| Semaphore::new(1)).collect(), key })
    }

    /// Waits for the latches of all `keys`. Nobody who holds a latch may ask for more: they are taken
    /// in one order, so that two who want the same never wait for each other.
    pub(crate) async fn hold_all(&self, keys: &[Vec<u8>]) -> Vec<HeldLatch<'_>> {
        let stripes: BTreeSet<usize> = keys.iter().map(|key| self.stripe_of(key)).collect();
        let mut held = Vec::with_capacity(stripes.len());
        for stripe in stripes {
            held.push(self.wait_for(stripe).await);
        }
        held
    }

    fn hash_of(&self, key: &[u8]) -> u64 {
        SipHash24::hash(&self.key, key)
    }

    fn stripe_of(&self, key: &[u8]) -> usize {
        stripe(self.hash_of(key))
    }

    async fn wait_for(&self, stripe: usize) -> HeldLatch<'_> {
        self.stripes[stripe].acquire().await.expect("latches are never closed")
    }

    /// Waits for the latch of `key`.
    pub(crate) async fn hold(&self, key: &[u8]) -> HeldLatch<'_> {
        let stripe = self.stripe_of(key);
        // Nearly always free, and then there is no place in a queue to set up.
        match self.stripes[stripe].try_acquire() {
            Ok(latch) => latch,
            Err(_) => self.wait_for(stripe).await,
        }
    }
}

/// Which latch is that of a key with this hash.
const fn stripe(hash: u64) -> usize {
    hash as usize % STRIPES
}

impl HeldLatches {
    /// None of them, as yet.
    pub(crate) const fn none(latches: Arc<Latches>) -> Self {
        Self { latches, held: Vec::new() }
    }

    /// Takes the latch of `key` too, for a record that is not changed by those who hold these already. Nobody is waited for, so whoever takes
    /// latches in this way may hold some.
    pub(crate) fn try_hold(&mut self, key: &[u8]) -> LatchOutcome {
        let hash = self.latches.hash_of(key);
        if let Some(known) = self.held.iter_mut().find(|known| known.hash == hash) {
            // By another of them, or for another key of the same hash: in either case later.
            return match std::mem::replace(&mut known.is_used, true) {
                true => LatchOutcome::Busy,
                false => LatchOutcome::Held,
            };
        }
        let has_it = self.held.iter().any(|known| stripe(known.hash) == stripe(hash));
        if !has_it {
            let Ok(latch) = self.latches.stripes[stripe(hash)].try_acquire() else {
                return LatchOutcome::Busy;
            };
            latch.forget();
        }
        self.held.push(LatchedKey { hash, owns: !has_it, is_used: true });
        LatchOutcome::Held
    }

    /// Lets go of the latch of `key`, which was taken last and whose record is not changed after all.
    pub(crate) fn let_go(&mut self, key: &[u8]) {
        let hash = self.latches.hash_of(key);
        let Some(last) = self.held.pop_if(|last| last.hash == hash) else { return };
        if last.owns {
            self.latches.stripes[stripe(hash)].add_permits(1);
        }
    }

    /// The latch of `key`, to be waited for.
    pub(crate) fn busy(&self, key: &[u8]) -> BusyLatch {
        BusyLatch { latches: Arc::clone(&self.latches), hash: self.latches.hash_of(key) }
    }

    /// Takes over what somebody else held. Latches of another state of the server are none of these, and are let go.
    pub(crate) fn take_over(&mut self, mut other: Self) {
        if Arc::ptr_eq(&self.latches, &other.latches) {
            self.held.append(&mut other.held);
        }
    }
}

impl BusyLatch {
    /// Waits until it is free. Nobody who holds a latch may wait for another.
    pub(crate) async fn wait(self) -> HeldLatches {
        let Self { latches, hash } = self;
        latches.wait_for(stripe(hash)).await.forget();
        HeldLatches { latches, held: vec![LatchedKey { hash, owns: true, is_used: false }] }
    }
}

impl Drop for HeldLatches {
    fn drop(&mut self) {
        for known in self.held.drain(..).filter(|known| known.owns) {
            self.latches.stripes[stripe(known.hash)].add_permits(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn none(latches: &Arc<Latches>) -> HeldLatches {
        HeldLatches::none(Arc::clone(latches))
    }

    fn is_held(latches: &Arc<Latches>, key: &[u8]) -> bool {
        none(latches).try_hold(key) == LatchOutcome::Busy
    }

    /// The first number whose latch is that of `key`, or is another one.
    fn other(latches: &Latches, key: &[u8], shares: bool) -> [u8; 8] {
        let is_it = |name: &u64| {
            (latches.stripe_of(&name.to_be_bytes()) == latches.stripe_of(key)) == shares
        };
        // The key of the hash is drawn anew each time, and one in 16,384 names has the same latch.
        (0_u64..).find(is_it).unwrap().to_be_bytes()
    }

    #[test]
    fn latches_that_are_taken_without_waiting_are_held_once_and_let_go_together() {
        let latches = Arc::new(Latches::new().unwrap());
        let second = other(&latches, b"a", false);
        let mut held = none(&latches);
        assert_eq!(held.try_hold(b"a"), LatchOutcome::Held);
        assert_eq!(held.try_hold(&second), LatchOutcome::Held);
        assert_eq!(held.try_hold(b"a"), LatchOutcome::Busy, "its record is changed already");
        assert!(is_held(&latches, b"a") && is_held(&latches, &second));
        let mut late = pin!(latches.hold(&second));
        let mut context = Context::from_waker(Waker::noop());
        assert!(late.as_mut().poll(&mut context).is_pending());
        drop(held);
        assert!(!is_held(&latches, b"a") && is_held(&latches, &second), "who waited is next");
        let Poll::Ready(latch) = late.as_mut().poll(&mut context) else { panic!() };
        assert!(is_held(&latches, &second));
        drop(latch);
        assert!(!is_held(&latches, &second));
    }

    #[test]
    fn two_keys_of_one_latch_are_held_together() {
        let latches = Arc::new(Latches::new().unwrap());
        let (same, apart) = (other(&latches, b"a", true), other(&latches, b"a", false));
        let mut held = none(&latches);
        for key in [&b"a"[..], &same] {
            assert_eq!(held.try_hold(key), LatchOutcome::Held);
        }
        // The latch stays with the first of them.
        held.let_go(&same);
        assert!(is_held(&latches, &same));
        assert_eq!(held.try_hold(&same), LatchOutcome::Held);
        assert_eq!(held.try_hold(&apart), LatchOutcome::Held);
        held.let_go(b"a");
        assert!(is_held(&latches, b"a"), "only the last is let go");
        held.let_go(&apart);
        assert!(!is_held(&latches, &apart));
        drop(held);
        assert!(!is_held(&latches, b"a"));
    }

    #[test]
    fn a_latch_that_was_waited_for_is_used_once() {
        let latches = Arc::new(Latches::new().unwrap());
        let second = other(&latches, b"a", false);
        let first = pollster::block_on(latches.hold(b"a"));
        let mut waiting = pin!(none(&latches).busy(b"a").wait());
        let mut context = Context::from_waker(Waker::noop());
        assert!(waiting.as_mut().poll(&mut context).is_pending());
        drop(first);
        let Poll::Ready(ready) = waiting.as_mut().poll(&mut context) else { panic!() };
        assert!(is_held(&latches, b"a"));
        let mut held = none(&latches);
        assert_eq!(held.try_hold(&second), LatchOutcome::Held);
        held.take_over(ready);
        assert_eq!(held.try_hold(b"a"), LatchOutcome::Held);
        assert_eq!(held.try_hold(b"a"), LatchOutcome::Busy);
        drop(held);
        assert!(!is_held(&latches, b"a") && !is_held(&latches, &second));
    }

    /// The server was sealed and unsealed, or a backup was restored, while somebody waited.
    #[test]
    fn a_latch_of_another_state_of_the_server_is_let_go_there() {
        let (before, now) = (Arc::new(Latches::new().unwrap()), Arc::new(Latches::new().unwrap()));
        let ready = pollster::block_on(none(&before).busy(b"a").wait());
        let mut held = none(&now);
        held.take_over(ready);
        assert!(!is_held(&before, b"a"), "who waits there is next");
        assert_eq!(held.try_hold(b"a"), LatchOutcome::Held);
        drop(held);
        let free: usize = now.stripes.iter().map(Semaphore::available_permits).sum();
        assert_eq!(free, STRIPES, "each is one holder's");
    }

    #[test]
    fn who_holds_the_latches_of_many_keys_holds_each_and_few_others() {
        let latches = Latches::new().unwrap();
        let is_held = |key: &[u8]| {
            let mut latch = pin!(latches.hold(key));
            latch.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending()
        };
        let keys = [b"a".to_vec(), b"b".to_vec(), b"a".to_vec()];
        let held = pollster::block_on(latches.hold_all(&keys));
        assert!(keys.iter().all(|key| is_held(key)));
        let others = (0..100_u8).filter(|other| is_held(&[*other, 0])).count();
        assert!(others < 50, "{others}");
        drop(held);
        assert!(!keys.iter().any(|key| is_held(key)));
    }
}
