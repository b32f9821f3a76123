//! The stream of a connection, with what came in and what goes out.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::ops::Range;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Instant;

use bytes::BytesMut;
use hyper::StatusCode;
use kallisto_core::{AuditBatch, Error};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::{Handed, write_whole};
use crate::buffer_pool;
use crate::http::observed::Observation;
use crate::http::{HttpService, error};
use crate::pending_replies::replace;
use crate::write_backpressure::WriteBackpressure;

/// Bytes read at once, into room that all connections of a worker share.
const READ_BYTES: usize = 16 << 10;
/// Bytes of replies that are sent although more requests wait.
pub(super) const REPLIES_BYTES: usize = 64 << 10;

/// What came of waiting for input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DirectFilled {
    More,
    /// The client says no more.
    End,
    /// The connection broke, its client was too slow, or the server stops.
    Over,
}

/// A reply that waits until its read was written down.
pub(super) struct PendingReply {
    /// Where it is among the replies.
    pub(super) range: Range<usize>,
    /// What it is counted as.
    pub(super) status: StatusCode,
    /// When the read began.
    pub(super) begin: Instant,
    /// Who hears of it.
    pub(super) observed: Option<Observation>,
}

/// A connection's stream, and what came in and goes out.
pub(super) struct HttpWire<'s, S> {
    pub(super) service: &'s HttpService,
    /// The other end's address.
    pub(super) remote: SocketAddr,
    pub(super) stream: S,
    pub(super) input: BytesMut,
    /// Whether some of that came while an answer was waited for.
    pub(super) has_come: bool,
    pub(super) replies: Vec<u8>,
    /// Reads that have to be written down before their replies may leave.
    pub(super) gathered: AuditBatch,
    /// Those replies, in their order.
    pub(super) held: Vec<PendingReply>,
    pub(super) unsent: WriteBackpressure,
}

impl<S: AsyncRead + AsyncWrite + Unpin> HttpWire<'_, S> {
    pub(super) fn hand_over(self) -> Handed<S> {
        Handed { stream: self.stream, read: self.input.freeze() }
    }

    /// Reads once.
    pub(super) async fn fill(
        &mut self,
        mut stop: Pin<&mut impl Future<Output = ()>>,
    ) -> DirectFilled {
        poll_fn(|cx| {
            let read = self.poll_read(cx);
            if read.is_ready() {
                return read;
            }
            stop.as_mut().poll(cx).map(|()| DirectFilled::Over)
        })
        .await
    }

    /// Reads into the worker's room, and takes what came.
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<DirectFilled> {
        thread_local! {
            static ROOM: RefCell<Vec<u8>> = RefCell::new(vec![0; READ_BYTES]);
        }
        ROOM.with_borrow_mut(|room| {
            let mut buffer = ReadBuf::new(room);
            Pin::new(&mut self.stream).poll_read(cx, &mut buffer).map(|read| {
                let came = buffer.filled_mut();
                self.input.extend_from_slice(came);
                let filled = match read {
                    Ok(()) if came.is_empty() => DirectFilled::End,
                    Ok(()) => DirectFilled::More,
                    Err(_) => DirectFilled::Over,
                };
                // It held a token, and perhaps a secret.
                buffer_pool::wipe(came);
                filled
            })
        })
    }

    /// Whether the replies are sent before more is answered.
    pub(super) fn has_many(&self) -> bool {
        self.replies.len() >= REPLIES_BYTES || self.gathered.is_full()
    }

    /// Waits until the reads are written down whose replies are here.
    pub(super) async fn settle(&mut self) {
        if !self.gathered.is_empty() {
            // Boxed, so that the future of a connection that is not audited stays small.
            Box::pin(self.write_down()).await;
        }
    }

    /// Has them written down. If that fails, the replies say so.
    async fn write_down(&mut self) {
        let gathered = std::mem::take(&mut self.gathered);
        let is_written = self.service.core.write_gathered(gathered).await;
        let held = std::mem::take(&mut self.held);
        if !is_written {
            let refusal = error::render(&Error::Unaudited);
            let mut written = Vec::new();
            write_whole(refusal, self.service.clock.now(), &mut written);
            let ranges = held.iter().map(|reply| &reply.range);
            self.replies = replace(ranges, std::mem::take(&mut self.replies), &written);
        }
        for reply in held {
            let refused = StatusCode::INTERNAL_SERVER_ERROR;
            let status = if is_written { reply.status } else { refused };
            self.service.count_reply(status);
            self.service.count_duration(reply.begin);
            if let Some(observed) = reply.observed {
                observed.ended(status, self.remote);
            }
        }
    }

    /// Waits for an answer while its client is there. What that sends meanwhile is kept, about as much as is read at once;
    /// one that sends no more has gone, as for hyper.
    pub(super) async fn unless_gone<T>(
        &mut self,
        mut serving: Pin<&mut impl Future<Output = T>>,
    ) -> io::Result<T> {
        poll_fn(|cx| {
            if let Poll::Ready(answer) = serving.as_mut().poll(cx) {
                return Poll::Ready(Ok(answer));
            }
            while self.input.len() < READ_BYTES {
                match self.poll_read(cx) {
                    Poll::Ready(DirectFilled::More) => self.has_come = true,
                    Poll::Ready(DirectFilled::End | DirectFilled::Over) => {
                        return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
                    }
                    Poll::Pending => break,
                }
            }
            Poll::Pending
        })
        .await
    }

    /// Sends the replies.
    pub(super) async fn flush(&mut self) -> io::Result<()> {
        self.settle().await;
        if self.replies.is_empty() {
            return Ok(());
        }
        let replies = std::mem::take(&mut self.replies);
        if let Some(rest) = self.unsent.offer(&mut self.stream, replies).await? {
            // Boxed, so that the future of a client that takes its replies stays small.
            Box::pin(rest.send(&mut self.stream)).await?;
        }
        self.replies = buffer_pool::borrow();
        Ok(())
    }
}
