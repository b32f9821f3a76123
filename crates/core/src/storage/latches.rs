//! One writer at a time per path, among the writers of this process.
//!
//! The store's preconditions already make racing writers safe; latches only keep them from losing
//! races over and over. Paths share [`STRIPES`] latches by a keyed hash, so no one can aim at
//! another's. A latch is held while a commit is awaited, hence an async mutex.

use std::collections::BTreeSet;

use kallisto_cuckoo::siphash::{SipHash24, SipKey};
use tokio::sync::{Mutex, MutexGuard};

use crate::api::error::Error;
use crate::random;

const STRIPES: usize = 1024;

/// The latches of a core.
pub(crate) struct Latches {
    stripes: Vec<Mutex<()>>,
    key: SipKey,
}

impl Latches {
    /// Latches that nobody holds.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when the operating system gives no randomness.
    pub(crate) fn new() -> Result<Self, Error> {
        let key = SipKey::from_bytes(random::make_bytes()?);
        Ok(Self { stripes: (0..STRIPES).map(|_| Mutex::new(())).collect(), key })
    }

    /// Waits for the latches of all `keys`. Nobody who holds a latch may ask for more: they are taken
    /// in one order, so that two who want the same never wait for each other.
    pub(crate) async fn hold_all(&self, keys: &[Vec<u8>]) -> Vec<MutexGuard<'_, ()>> {
        let stripes: BTreeSet<usize> = keys.iter().map(|key| self.stripe_of(key)).collect();
        let mut held = Vec::with_capacity(stripes.len());
        for stripe in stripes {
            held.push(self.stripes[stripe].lock().await);
        }
        held
    }

    fn stripe_of(&self, key: &[u8]) -> usize {
        SipHash24::hash(&self.key, key) as usize % STRIPES
    }

    /// Waits for the latch of `key`.
    pub(crate) async fn hold(&self, key: &[u8]) -> MutexGuard<'_, ()> {
        let stripe = &self.stripes[self.stripe_of(key)];
        // Nearly always free, and then there is no place in a queue to set up.
        match stripe.try_lock() {
            Ok(guard) => guard,
            Err(_) => stripe.lock().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;

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
