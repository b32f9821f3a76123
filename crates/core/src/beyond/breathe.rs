//! Letting others on this thread run in the midst of long work.

use std::future::poll_fn;
use std::task::Poll;

/// Items of work between two breaths.
pub(crate) const ITEMS_PER_BREATH: usize = 64;

/// Goes to the back of the queue of this thread's work.
pub(crate) async fn breathe() {
    let mut is_second = false;
    poll_fn(|context| {
        if is_second {
            return Poll::Ready(());
        }
        is_second = true;
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
