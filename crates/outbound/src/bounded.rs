//! A connection over which so many bytes are read for a request, and no more.
//!
//! It is for drivers that read an answer whole before they hand any of it out. An answer that goes on past the limit fails the connection,
//! and the session ends with it: the rest is not read.
//!
//! Invariants:
//! - Between two renewals of the allowance no more than it says is taken from the connection, besides what the last read brought at once.
//! - An allowance that was spent stays spent.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// What is said of an answer that goes on past the limit.
pub(crate) const TOO_LONG: &str = "the answer is over its limit";

/// How much may still be read over a connection.
pub(crate) struct AnswerAllowance {
    bytes_max: usize,
    state: Arc<AllowanceState>,
}

/// One thread reads and asks: nothing else is ordered by these.
struct AllowanceState {
    bytes_left: AtomicUsize,
    is_spent: AtomicBool,
}

/// A connection with an allowance.
pub(crate) struct BoundedStream<S> {
    stream: S,
    state: Arc<AllowanceState>,
}

impl<S> BoundedStream<S> {
    /// A connection over which `bytes_max` bytes may be read before the allowance is renewed.
    pub(crate) fn new(stream: S, bytes_max: usize) -> (Self, AnswerAllowance) {
        let state = Arc::new(AllowanceState {
            bytes_left: AtomicUsize::new(bytes_max),
            is_spent: AtomicBool::new(false),
        });
        (Self { stream, state: Arc::clone(&state) }, AnswerAllowance { bytes_max, state })
    }
}

impl AnswerAllowance {
    /// Allows another answer.
    pub(crate) fn renew(&self) {
        self.state.bytes_left.store(self.bytes_max, Ordering::Relaxed);
    }

    /// Whether an answer went on past the limit.
    pub(crate) fn is_spent(&self) -> bool {
        self.state.is_spent.load(Ordering::Relaxed)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for BoundedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buf))?;
        let read = buf.filled().len() - before;
        let left = self.state.bytes_left.load(Ordering::Relaxed).checked_sub(read);
        let Some(left) = left.filter(|_| !self.state.is_spent.load(Ordering::Relaxed)) else {
            self.state.is_spent.store(true, Ordering::Relaxed);
            return Poll::Ready(Err(io::Error::other(TOO_LONG)));
        };
        self.state.bytes_left.store(left, Ordering::Relaxed);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for BoundedStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
