//! Running a future that has nothing to wait for.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

/// The value of a future that is ready at its first poll, as those over the memory store are.
///
/// # Panics
/// When it is not: the caller then chose the wrong store.
pub(crate) fn ready<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("a future over the memory store had to wait"),
    }
}
