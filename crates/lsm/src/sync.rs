//! Locks and atomics, the one place that names them.
//!
//! A lock whose holder panicked is a broken promise of ours, so [`lock`] passes the panic on. The atomics of the
//! memtable come from here so that loom can stand in for them (`RUSTFLAGS="--cfg loom"`).

use std::sync::{Condvar, Mutex, MutexGuard, TryLockError};
use std::time::Duration;

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU64, Ordering};
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicU64, Ordering};

const HOLDER_PANICKED: &str = "no holder of this lock panicked";

/// Takes a lock.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect(HOLDER_PANICKED)
}

/// Takes a lock if nobody holds it.
pub(crate) fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::WouldBlock) => None,
        Err(TryLockError::Poisoned(_)) => panic!("{HOLDER_PANICKED}"),
    }
}

/// Waits on a condition.
pub(crate) fn wait<'a, T>(condition: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    condition.wait(guard).expect(HOLDER_PANICKED)
}

/// Waits on a condition for at most `limit`.
pub(crate) fn wait_for<'a, T>(
    condition: &Condvar,
    guard: MutexGuard<'a, T>,
    limit: Duration,
) -> MutexGuard<'a, T> {
    condition.wait_timeout(guard, limit).expect(HOLDER_PANICKED).0
}
