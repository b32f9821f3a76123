//! How connections are notified that their server stops.
//!
//! The server (`server`) says so once, to all workers; a connection looks between two requests, when there is nothing
//! to read. One that is never idle is cut when the time for stopping is over.

use tokio::sync::watch;

/// Resolves when the server stops; never when nobody can say so any more.
pub(crate) async fn said(mut stopped: watch::Receiver<bool>) {
    if stopped.wait_for(|&stop| stop).await.is_err() {
        std::future::pending().await
    }
}

/// Resolves with `news` when there are any; never when nobody can have them any more.
pub(crate) async fn changed<T>(mut news: watch::Receiver<T>) -> watch::Receiver<T> {
    if news.changed().await.is_err() {
        std::future::pending::<()>().await;
    }
    news
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    #[test]
    fn it_is_heard_when_it_is_said_and_not_when_nobody_can() {
        let mut context = Context::from_waker(Waker::noop());
        let (say, stopped) = watch::channel(false);
        let mut heard = pin!(said(stopped.clone()));
        assert_eq!(heard.as_mut().poll(&mut context), Poll::Pending);
        say.send_replace(true);
        assert_eq!(heard.as_mut().poll(&mut context), Poll::Ready(()));
        let (say, stopped) = watch::channel(false);
        drop(say);
        assert_eq!(pin!(said(stopped)).poll(&mut context), Poll::Pending);
    }
}
