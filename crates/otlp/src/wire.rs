//! What a connection goes over, and how much may come by it.
//!
//! An answer is bounded where it is read, but much that a collector can send is no part of one and is dealt with before: heads of interim
//! answers, and settings and pings of HTTP/2. So bytes are counted here, whatever they are, and more than a request can have as its answer
//! ends the connection.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Most bytes that come for one request.
pub(crate) const READ_BYTES_MAX: usize = 256 << 10;

/// How many bytes may still come.
#[derive(Clone, Debug)]
pub(crate) struct ReadAllowance(Arc<AtomicUsize>);

impl ReadAllowance {
    /// That of one request.
    pub(crate) fn new() -> Self {
        Self(Arc::new(AtomicUsize::new(READ_BYTES_MAX)))
    }

    /// Another request is sent.
    pub(crate) fn renew(&self) {
        // Relaxed, here and below: it counts, and orders nothing.
        self.0.store(READ_BYTES_MAX, Ordering::Relaxed);
    }

    fn spend(&self, bytes: usize) -> io::Result<()> {
        let spend = |left: usize| left.checked_sub(bytes);
        let spent = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, spend);
        let over = |_| io::Error::other("the collector sends more than an answer");
        spent.map(|_| ()).map_err(over)
    }
}

/// A stream of which so much is read.
pub(crate) struct MeteredWire<W> {
    pub(crate) wire: W,
    pub(crate) allowance: ReadAllowance,
}

impl<W: AsyncRead + Unpin> AsyncRead for MeteredWire<W> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.wire).poll_read(context, buffer))?;
        Poll::Ready(self.allowance.spend(buffer.filled().len() - before))
    }
}

impl<W: AsyncWrite + Unpin> AsyncWrite for MeteredWire<W> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.wire).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.wire).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.wire).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.wire).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.wire.is_write_vectored()
    }
}
