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

/// Latches that are held together, without having waited for any of them.
pub(crate) struct HeldLatches {
    latches: Arc<Latches>,
    stripes: Vec<usize>,
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

    fn stripe_of(&self, key: &[u8]) -> usize {
        SipHash24::hash(&self.key, key) as usize % STRIPES
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

impl HeldLatches {
    /// None of them, as yet.
    pub(crate) const fn none(latches: Arc<Latches>) -> Self {
        Self { latches, stripes: Vec::new() }
    }

    /// Takes the latch of `key` too; false where somebody else has it. Nobody is waited for, so whoever takes latches in this way may hold some already.
    pub(crate) fn try_hold(&mut self, key: &[u8]) -> bool {
        let stripe = self.latches.stripe_of(key);
        if self.stripes.contains(&stripe) {
            return true;
        }
        let Ok(latch) = self.latches.stripes[stripe].try_acquire() else { return false };
        latch.forget();
        self.stripes.push(stripe);
        true
    }
}

impl Drop for HeldLatches {
    fn drop(&mut self) {
        for &stripe in &self.stripes {
            self.latches.stripes[stripe].add_permits(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    #[test]
    fn latches_that_are_taken_without_waiting_are_held_once_and_let_go_together() {
        let latches = Arc::new(Latches::new().unwrap());
        let none = || HeldLatches::none(Arc::clone(&latches));
        let is_held = |key: &[u8]| !none().try_hold(key);
        // The key of the hash is drawn anew each time, and one in 16,384 other names has the same latch.
        let is_other =
            |name: &u64| latches.stripe_of(&name.to_be_bytes()) != latches.stripe_of(b"a");
        let other = (0_u64..).find(is_other).unwrap().to_be_bytes();
        let mut held = none();
        assert!(held.try_hold(b"a") && held.try_hold(&other));
        assert!(held.try_hold(b"a"), "it has it");
        assert_eq!(held.stripes.len(), 2);
        assert!(is_held(b"a") && is_held(&other));
        let mut late = pin!(latches.hold(&other));
        let mut context = Context::from_waker(Waker::noop());
        assert!(late.as_mut().poll(&mut context).is_pending());
        drop(held);
        assert!(!is_held(b"a") && is_held(&other), "who waited is next");
        let Poll::Ready(latch) = late.as_mut().poll(&mut context) else { panic!() };
        assert!(is_held(&other));
        drop(latch);
        assert!(!is_held(&other));
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
