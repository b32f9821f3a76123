//! Replies of connections that are served in one turn of a worker leave one right after another.
//!
//! A send that wakes its client costs more than one that finds it awake: a processor that sleeps is sent an interrupt, which a virtual machine
//! leaves to its host. A client sleeps when it is done with one reply before the next one comes. So who has replies lets all that are ready now
//! go first, as Redis does; the first of the sends that follow wakes the client, and the others come while it is awake.
//!
//! Invariants:
//! - Nobody waits for what is not there yet: a connection goes on when those ran that were ready, without a look at the sockets.
//! - Replies that wait hold no more than [`WAITING_BYTES_MAX`] of a worker. What is above leaves at once.

use std::cell::Cell;
use std::future::poll_fn;
use std::task::Poll;

/// Most bytes of replies of a worker that wait.
const WAITING_BYTES_MAX: usize = 1 << 20;

thread_local! {
    /// Bytes of replies that wait.
    static WAITING: Cell<usize> = const { Cell::new(0) };
}

/// A place for replies that wait.
struct WaitingReplies(usize);

impl WaitingReplies {
    /// A place for so many bytes; `None` when too many wait.
    fn take(bytes: usize) -> Option<Self> {
        let waiting = WAITING.get() + bytes;
        (waiting <= WAITING_BYTES_MAX).then(|| {
            WAITING.set(waiting);
            Self(bytes)
        })
    }
}

impl Drop for WaitingReplies {
    fn drop(&mut self) {
        // Tasks of a worker stay on its thread.
        WAITING.set(WAITING.get().saturating_sub(self.0));
    }
}

/// Comes back when all connections were served that are ready now, if so many bytes of replies may wait for that.
pub(crate) async fn let_others_answer(bytes: usize) {
    if bytes > 0
        && let Some(_place) = WaitingReplies::take(bytes)
    {
        after_those_awake().await;
    }
}

/// Comes back when all tasks ran that are awake now, with no look at the sockets for it.
pub(crate) async fn after_those_awake() {
    let mut is_first = true;
    poll_fn(|context| {
        if std::mem::take(&mut is_first) {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(())
    })
    .await;
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;

    fn is_ready(waiting: impl Future<Output = ()>) -> bool {
        pin!(waiting).poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    #[test]
    fn replies_wait_up_to_a_bound_of_all_together() {
        assert!(is_ready(let_others_answer(0)), "there is nothing to wait with");
        assert!(!is_ready(let_others_answer(WAITING_BYTES_MAX)));
        // Who went away holds nothing.
        assert!(!is_ready(let_others_answer(WAITING_BYTES_MAX)));
        assert!(is_ready(let_others_answer(WAITING_BYTES_MAX + 1)));
        let most = WaitingReplies::take(WAITING_BYTES_MAX - 1).unwrap();
        assert!(is_ready(let_others_answer(2)) && !is_ready(let_others_answer(1)));
        drop(most);
        assert!(!is_ready(let_others_answer(WAITING_BYTES_MAX)));
    }

    #[test]
    fn who_has_replies_goes_on_behind_those_that_are_ready_and_waits_for_nobody_else() {
        let said = RefCell::new(Vec::new());
        let say = |what: &'static str| said.borrow_mut().push(what);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let first = async {
                say("one answered");
                let_others_answer(1).await;
                say("one sent");
            };
            let second = async { say("another answered") };
            tokio::join!(first, second);
            // Nobody else is there, and no timer and no socket.
            let_others_answer(1).await;
        });
        assert_eq!(*said.borrow(), ["one answered", "another answered", "one sent"]);
    }
}
