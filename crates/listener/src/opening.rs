//! A stream whose first bytes have a deadline.
//!
//! Whether a connection speaks HTTP/1 or HTTP/2 is decided by comparing its first bytes with the
//! preface of HTTP/2, and neither protocol's own timeout runs before that: a client that sends
//! nothing, or only `P`, would hold its place for ever. Here the deadline ends with the decision.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

/// What an HTTP/2 client sends first (RFC 9113, section 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A stream, and the deadline while its first bytes may still become either protocol.
pub(crate) struct Opening<S> {
    stream: S,
    /// What is left of the preface to compare with, and until when.
    undecided: Option<(&'static [u8], Pin<Box<Sleep>>)>,
}

impl<S> Opening<S> {
    /// A fresh connection that has `timeout` to show what it speaks.
    pub(crate) fn new(stream: S, timeout: Duration) -> Self {
        let deadline = Box::pin(tokio::time::sleep(timeout));
        Self { stream, undecided: Some((PREFACE, deadline)) }
    }

    /// Compares what was read with what is left of the preface.
    fn decide(&mut self, read: &[u8]) {
        if let Some((rest, _)) = &mut self.undecided {
            match rest.strip_prefix(read) {
                Some(left) if !left.is_empty() && !read.is_empty() => *rest = left,
                _ => self.undecided = None,
            }
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Opening<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let start = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(cx, buffer);
        if polled.is_ready() {
            self.decide(&buffer.filled()[start..]);
            return polled;
        }
        match &mut self.undecided {
            Some((_, deadline)) => {
                deadline.as_mut().poll(cx).map(|()| Err(io::ErrorKind::TimedOut.into()))
            }
            None => Poll::Pending,
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Opening<S> {
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

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
