//! Letting others on this thread run in the midst of long work.

/// Items of work between two breaths, where an item takes some microseconds.
pub(crate) const ITEMS_PER_BREATH: usize = 64;

/// Goes behind all other work of this thread, what has just come over its sockets included: a task that merely wakes itself
/// is run again before anybody looks at the sockets.
pub(crate) async fn cooperative_yield() {
    tokio::task::yield_now().await;
}
