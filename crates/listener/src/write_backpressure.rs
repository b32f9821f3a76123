//! Replies that leave, and what those hold that clients do not take.
//!
//! What the kernel takes at once costs nothing. When it does not take everything, its client is behind:
//! what is left moves out of the worker's room to a place of its own size, and holds a share of
//! `Admission::reply_bytes` until it was taken. A few bytes are left for nothing ([`SMALL_REPLY_BYTES_MAX`]), so that an
//! ordinary reply that is merely on its way asks nobody. A client without a share is disconnected: a part of a
//! reply may have left already, so there is no way to say no in words.
//!
//! Invariants:
//! - What all clients together have not taken is at most the budget and [`SMALL_REPLY_BYTES_MAX`] for each of them.
//! - The share comes back when the rest was taken or the connection ends, and the rest is wiped.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use kallisto_core::admission::{Admission, Crowd, Flow, Held, SharedAmount};
use tokio::io::{AsyncWrite, AsyncWriteExt};
use zeroize::Zeroizing;

use crate::buffer_pool;
use crate::limits::SMALL_REPLY_BYTES_MAX;

/// Most bytes that TLS took and did not send: the size of its buffer (rustls).
const TLS_BYTES_MAX: usize = 64 << 10;

/// What a client's connection may leave unsent.
pub(crate) struct WriteBackpressure {
    budget: Arc<SharedAmount>,
    flow: Flow,
}

/// What a client did not take at once.
pub(crate) struct UnsentRest {
    bytes: Zeroizing<Vec<u8>>,
    _share: Option<Held>,
}

impl WriteBackpressure {
    pub(crate) fn new(admission: &Admission, flow: Flow) -> Self {
        Self { budget: Arc::clone(&admission.reply_bytes), flow }
    }

    /// Sends `replies` as far as they are taken at once, and gives their room back. What is left is the
    /// caller's to send, in the time that its protocol gives.
    ///
    /// # Errors
    /// The connection broke, or there is no share for what is left.
    pub(crate) async fn offer<S>(
        &self,
        stream: &mut S,
        replies: Vec<u8>,
    ) -> io::Result<Option<UnsentRest>>
    where
        S: AsyncWrite + Unpin,
    {
        let mut taken = 0;
        let offered = std::future::poll_fn(|cx| {
            Poll::Ready(poll_send(Pin::new(stream), &replies, &mut taken, cx))
        });
        let rest = match offered.await {
            Poll::Ready(sent) => sent.map(|()| None),
            Poll::Pending => self.keep(&replies, taken).map(Some),
        };
        buffer_pool::give_back(replies);
        rest
    }

    /// Keeps what is left after so many bytes were taken.
    fn keep(&self, replies: &[u8], taken: usize) -> io::Result<UnsentRest> {
        let left = &replies[taken..];
        let share = self.share(left.len() + taken.min(TLS_BYTES_MAX));
        let share = share.map_err(|_| io::Error::from(io::ErrorKind::QuotaExceeded))?;
        Ok(UnsentRest { bytes: Zeroizing::new(left.to_vec()), _share: share })
    }

    /// The share that so many bytes hold; none for a few.
    ///
    /// # Errors
    /// [`Crowd`] when there is none for them.
    pub(crate) fn share(&self, bytes: usize) -> Result<Option<Held>, Crowd> {
        if bytes <= SMALL_REPLY_BYTES_MAX {
            return Ok(None);
        }
        self.budget.take(self.flow, bytes).map(Some)
    }
}

impl UnsentRest {
    /// Sends it, however long that takes.
    ///
    /// # Errors
    /// What the stream says.
    pub(crate) async fn send(self, stream: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
        stream.write_all(&self.bytes).await?;
        stream.flush().await
    }
}

/// Writes what of `bytes` was not `taken` yet, and sees it off.
fn poll_send(
    mut stream: Pin<&mut (impl AsyncWrite + ?Sized)>,
    bytes: &[u8],
    taken: &mut usize,
    cx: &mut Context<'_>,
) -> Poll<io::Result<()>> {
    while *taken < bytes.len() {
        match ready!(stream.as_mut().poll_write(cx, &bytes[*taken..]))? {
            0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
            more => *taken += more,
        }
    }
    stream.poll_flush(cx)
}

#[cfg(test)]
mod tests {
    use kallisto_core::admission::AdmissionLimits;
    use tokio::io::{AsyncReadExt, duplex};

    use super::*;

    const FLOW: Flow = Flow { address: 1, token: 0 };
    /// What of a reply a client's end has room for.
    const ROOM: usize = 1 << 10;
    /// A reply that is large, and two of which are more than the budget.
    const LARGE: usize = 128 << 10;

    fn unsent() -> WriteBackpressure {
        let limits =
            AdmissionLimits { reply_bytes_max: LARGE + LARGE / 2, ..AdmissionLimits::default() };
        WriteBackpressure::new(&Admission::new(&limits), FLOW)
    }

    #[test]
    fn what_is_taken_and_what_is_small_hold_nothing() {
        pollster::block_on(async {
            let unsent = unsent();
            let (mut client, mut server) = duplex(ROOM);
            assert!(unsent.offer(&mut server, vec![1; ROOM]).await.unwrap().is_none());
            client.read_exact(&mut [0; ROOM]).await.unwrap();
            let offered = unsent.offer(&mut server, vec![1; SMALL_REPLY_BYTES_MAX]).await;
            let rest = offered.unwrap().expect("more than there is room for");
            assert_eq!(rest.bytes.len(), SMALL_REPLY_BYTES_MAX - ROOM);
            assert_eq!(unsent.budget.held(), 0);
        });
    }

    #[test]
    fn what_is_not_taken_holds_a_share_until_it_is() {
        pollster::block_on(async {
            let unsent = unsent();
            let (mut client, mut server) = duplex(ROOM);
            let reply: Vec<u8> = (0..LARGE).map(|at| at as u8).collect();
            let rest = unsent.offer(&mut server, reply.clone()).await.unwrap().unwrap();
            assert_eq!(rest.bytes.capacity(), LARGE - ROOM, "no more room than is needed");
            assert_eq!(unsent.budget.held(), LARGE);
            // The next one who does not read gets none, and is hung up on.
            let (_silent, mut second) = duplex(ROOM);
            let refused = unsent.offer(&mut second, vec![2; LARGE]).await;
            assert_eq!(refused.err().unwrap().kind(), io::ErrorKind::QuotaExceeded);
            let mut taken = vec![0; LARGE];
            let (sent, read) = tokio::join!(rest.send(&mut server), client.read_exact(&mut taken));
            sent.unwrap();
            read.unwrap();
            assert_eq!(taken, reply);
            assert_eq!(unsent.budget.held(), 0);
            assert_eq!(unsent.budget.refused(), 1);
        });
    }
}
