//! Wakes that belong together ring once, when the last of them is there.
//!
//! A thread that did something for many (a group of writes that is on the disk, of records that an audit device took)
//! wakes each of them. Who is woken runs at once where both want the same processor: the kernel stops the
//! thread at its first wake, and the others are woken one by one with two switches each. A thread that says that its wakes
//! belong [`together`] lets those that it wakes be queued first and rung for at the end.
//!
//! What is queued, and how it is rung for, is the affair of whoever is woken ([`WakeUp`]); this crate only says when.
//! Neither side knows the other.
//!
//! Invariant: what is handed to [`ring`] is rung for, once, before [`Together`] is gone; without one, at once.
#![forbid(unsafe_code)]

use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::sync::Arc;

/// What is rung for somebody who sleeps.
pub trait WakeUp: Send + Sync {
    /// Wakes them; what they are to find is there already.
    fn ring(&self);
}

/// While it lives, what this thread rings for waits. May be nested; the outermost counts.
#[must_use = "wakes belong together for as long as this lives"]
pub struct Together {
    /// It belongs to its thread.
    _here: PhantomData<*const ()>,
}

thread_local! {
    /// How many [`Together`] this thread has.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
    /// What waits for the last of them.
    static WAITING: RefCell<Vec<Arc<dyn WakeUp>>> = const { RefCell::new(Vec::new()) };
}

/// Has what this thread rings for wait until the returned value is dropped.
pub fn together() -> Together {
    DEPTH.set(DEPTH.get() + 1);
    Together { _here: PhantomData }
}

/// Rings, at the end of what belongs together or else at once.
pub fn ring(waker: Arc<dyn WakeUp>) {
    if DEPTH.get() == 0 {
        waker.ring();
    } else {
        WAITING.with_borrow_mut(|waiting| waiting.push(waker));
    }
}

impl Drop for Together {
    fn drop(&mut self) {
        DEPTH.set(DEPTH.get() - 1);
        if DEPTH.get() > 0 {
            return;
        }
        // Taken out first: ringing may run anything, and that may ring.
        for waker in WAITING.take() {
            waker.ring();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl WakeUp for Count {
        fn ring(&self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    impl Count {
        fn rung(&self) -> usize {
            self.0.load(Ordering::SeqCst)
        }
    }

    #[test]
    fn what_is_rung_for_alone_is_rung_at_once() {
        let waker = Arc::<Count>::default();
        ring(waker.clone());
        assert_eq!(waker.rung(), 1);
        drop(together());
        ring(waker.clone());
        assert_eq!(waker.rung(), 2);
    }

    #[test]
    fn what_belongs_together_waits_for_the_outermost_end() {
        let waker = Arc::<Count>::default();
        let outer = together();
        ring(waker.clone());
        {
            let _inner = together();
            ring(waker.clone());
        }
        assert_eq!(waker.rung(), 0);
        // Other threads have ends of their own.
        let elsewhere = waker.clone();
        std::thread::spawn(move || ring(elsewhere)).join().unwrap();
        assert_eq!(waker.rung(), 1);
        drop(outer);
        assert_eq!(waker.rung(), 3);
    }

    #[test]
    fn a_panic_loses_no_wake() {
        let waker = Arc::<Count>::default();
        let rung = waker.clone();
        let ended = std::panic::catch_unwind(move || {
            let _together = together();
            ring(rung);
            panic!("in the middle of it");
        });
        assert!(ended.is_err());
        assert_eq!(waker.rung(), 1);
        ring(waker.clone());
        assert_eq!(waker.rung(), 2);
    }

    #[test]
    fn who_rings_may_ring_again() {
        struct Chain(Arc<Count>);
        impl WakeUp for Chain {
            fn ring(&self) {
                let _together = together();
                super::ring(self.0.clone());
            }
        }
        let waker = Arc::<Count>::default();
        {
            let _together = together();
            ring(Arc::new(Chain(waker.clone())));
        }
        assert_eq!(waker.rung(), 1);
    }
}
