//! A connection's bytes: what came in and is not used yet, what goes out and is not sent yet.
//!
//! Both are bounded. Replies are sent when the input has been used up or when many have gathered; what a
//! client does not take of them holds a share of what all may hold ([`crate::write_backpressure`]), and within a deadline
//! it takes them or is dropped.

use std::io;
use std::ops::Range;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::BytesMut;
use kallisto_core::admission::Held;
use kallisto_core::{AuditBatch, Core, Error};
use kallisto_traces::{RequestSpan, SpanStatus};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};

use super::reply::Replies;
use super::session::CommandFailure;
use crate::limits::UNREAD_TIMEOUT;
use crate::turn_end::let_others_answer;
use crate::write_backpressure::WriteBackpressure;

/// Bytes of input a connection has room for at first, and of which it needs no share.
const INPUT_BYTES: usize = 16 << 10;
/// Bytes of commands that are read at once where they are there and the memory is: with what comes together, a sync of the disk is paid for once.
const TOGETHER_BYTES: usize = 128 << 10;
/// Bytes of replies that are sent although more commands wait.
const REPLIES_BYTES: usize = 64 << 10;

/// The client takes or sends nothing any more, or nothing that has a reply.
#[derive(Debug)]
pub(super) struct Gone;

/// What came of waiting for input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Filled {
    /// There is more than before.
    More,
    /// It is over the memory that all connections may take.
    Refused,
}

/// A connection's stream and buffers.
pub(super) struct RespWire<S> {
    stream: S,
    pub(super) replies: Replies,
    /// What was read; commands are taken from its front.
    input: BytesMut,
    share: Held,
    unsent: WriteBackpressure,
    core: Arc<Core>,
    /// Reads that have to be written down before their replies may leave.
    pub(super) gathered: AuditBatch,
    /// Where those replies are, in their order.
    pub(super) held: Vec<Range<usize>>,
    /// The spans of those that are recorded: they end when they were written down.
    pub(super) spans: Vec<RequestSpan>,
    /// Bytes of many or large replies, sent since a turn was last paid for.
    pub(super) unpaid: usize,
}

impl<S: AsyncRead + AsyncWrite + Unpin> RespWire<S> {
    pub(super) fn new(stream: S, core: Arc<Core>, share: Held, unsent: WriteBackpressure) -> Self {
        Self {
            stream,
            replies: Replies::default(),
            input: BytesMut::with_capacity(INPUT_BYTES),
            share,
            unsent,
            core,
            gathered: AuditBatch::default(),
            held: Vec::new(),
            spans: Vec::new(),
            unpaid: 0,
        }
    }

    /// Makes room for `wanted` bytes from the front of the input on. Room once taken stays taken until
    /// its command was used.
    fn make_room(&mut self, wanted: usize) -> Filled {
        let missing = wanted.saturating_sub(self.input.len()).max(1);
        let spare = self.input.capacity() - self.input.len();
        if missing > spare && wanted > INPUT_BYTES && self.share.grow(missing).is_err() {
            return Filled::Refused;
        }
        self.input.reserve(missing);
        Filled::More
    }

    /// Whether a part of a command is here.
    pub(super) fn has_input(&self) -> bool {
        !self.input.is_empty()
    }

    /// Lets go of the room for input, whatever was in it.
    pub(super) fn forget(&mut self) {
        self.input = BytesMut::with_capacity(INPUT_BYTES);
    }

    /// Takes the input out, so that commands in it can be answered here.
    pub(super) fn take_input(&mut self) -> BytesMut {
        self.replies.borrow_room();
        std::mem::take(&mut self.input)
    }

    /// Puts back what was not used; the room of a large command is given back once it was. `empty` is a
    /// share of nothing.
    pub(super) fn return_input(&mut self, input: BytesMut, empty: Held) {
        self.input = input;
        // The capacity is counted from behind what was used, so it is small where room was taken and filled.
        let has_room = self.input.capacity() > INPUT_BYTES || self.share.amount() > 0;
        if self.input.is_empty() && has_room {
            self.input = BytesMut::with_capacity(INPUT_BYTES);
            self.share = empty;
        }
    }

    /// Reads input; `wanted` is how much the command under way takes at least. A client that is `known` may have more read at once than there is
    /// room for at first.
    pub(super) fn poll_fill(
        &mut self,
        wanted: usize,
        known: bool,
        context: &mut Context<'_>,
    ) -> Poll<Result<Filled, Gone>> {
        if self.make_room(wanted) == Filled::Refused {
            return Poll::Ready(Ok(Filled::Refused));
        }
        let read = pin!(self.stream.read_buf(&mut self.input));
        match ready!(read.poll(context)) {
            Ok(0) | Err(_) => return Poll::Ready(Err(Gone)),
            Ok(_) => {}
        }
        while known && self.widen() {
            let read = pin!(self.stream.read_buf(&mut self.input));
            // An end or an error is met again by the next read, when what is here is answered.
            let Poll::Ready(Ok(1..)) = read.poll(context) else { break };
        }
        Poll::Ready(Ok(Filled::More))
    }

    /// Makes room for more where all that there was is used; false where it is not, or where there is enough.
    fn widen(&mut self) -> bool {
        let held = self.input.len();
        let may = held == self.input.capacity()
            && held < TOGETHER_BYTES
            && self.share.try_grow(held).is_ok();
        if may {
            self.input.reserve(held);
        }
        may
    }

    /// Whether there are so many replies that they are sent before more is answered.
    pub(super) fn has_many(&self) -> bool {
        self.replies.bytes().len() >= REPLIES_BYTES || self.gathered.is_full()
    }

    /// Sends the replies if there are many; true if so.
    pub(super) async fn relieve(&mut self) -> Result<bool, Gone> {
        if !self.has_many() {
            return Ok(false);
        }
        let bytes = self.replies.bytes().len();
        self.flush().await?;
        self.replies.borrow_room();
        if bytes >= REPLIES_BYTES {
            self.unpaid += bytes;
        }
        Ok(true)
    }

    /// Waits until the reads are written down whose replies are here.
    pub(super) async fn settle(&mut self) {
        if !self.gathered.is_empty() {
            // Boxed, so that the future of a connection that is not audited stays small.
            Box::pin(self.write_down()).await;
        }
        for span in self.spans.drain(..) {
            span.end(SpanStatus::Unset);
        }
    }

    /// Has them written down. If that fails, the replies say so.
    async fn write_down(&mut self) {
        let gathered = std::mem::take(&mut self.gathered);
        let held = std::mem::take(&mut self.held);
        if !self.core.write_gathered(gathered).await {
            let failure = CommandFailure::from(Error::Unaudited);
            let mut instead = Replies::default();
            instead.error(failure.word, &failure.text);
            self.replies.replace(&held, instead.bytes());
            for span in self.spans.drain(..) {
                span.end(SpanStatus::Failed("not audited"));
            }
        }
    }

    /// Lets others be served before the replies leave, but for those that are written down first: these come back together already.
    pub(super) async fn let_others_answer(&self) {
        if self.gathered.is_empty() {
            let_others_answer(self.replies.bytes().len()).await;
        }
    }

    /// Sends the replies, and gives back the room they were in.
    pub(super) async fn flush(&mut self) -> Result<(), Gone> {
        self.settle().await;
        if self.replies.bytes().is_empty() {
            self.replies.return_room();
            return Ok(());
        }
        let sent = match self.unsent.offer(&mut self.stream, self.replies.take()).await {
            Ok(None) => Ok(()),
            // Boxed, so that the future of a client that takes its replies stays small.
            Ok(Some(rest)) => Box::pin(deadline(rest.send(&mut self.stream))).await,
            Err(error) => Err(error),
        };
        sent.map_err(|error| {
            tracing::debug!(%error, "replies not taken");
            Gone
        })
    }
}

async fn deadline(work: impl Future<Output = io::Result<()>>) -> io::Result<()> {
    match tokio::time::timeout(UNREAD_TIMEOUT, work).await {
        Ok(done) => done,
        Err(_) => Err(io::ErrorKind::TimedOut.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::net::Ipv4Addr;

    use bytes::Buf;
    use kallisto_core::ServerInfo;
    use kallisto_core::admission::Flow;
    use kallisto_store::MemoryStore;
    use tokio::io::AsyncWriteExt;

    use super::*;

    /// A client that is known may be silent for as long as it likes.
    #[tokio::test]
    async fn room_for_what_comes_together_is_given_back_with_its_last_command() {
        let core = Arc::new(Core::new(Arc::new(MemoryStore::new()), ServerInfo::default()));
        let (admission, flow) = (core.admission(), Flow::of_address(Ipv4Addr::LOCALHOST.into()));
        let shares = &admission.body_bytes;
        let (mut client, server) = tokio::io::duplex(1 << 20);
        let unsent = WriteBackpressure::new(admission, flow);
        let mut wire = RespWire::new(server, Arc::clone(&core), shares.nothing(flow), unsent);
        let mut held_most = 0;
        for kilobytes in [1, 16, 17, 20, 32, 40, 60, 64, 100, 128, 200] {
            let mut left = kilobytes << 10;
            client.write_all(&vec![b'x'; left]).await.unwrap();
            while left > 0 {
                let filled = poll_fn(|context| wire.poll_fill(1, true, context)).await;
                assert_eq!(filled.unwrap(), Filled::More);
                held_most = held_most.max(shares.held());
                let mut input = wire.take_input();
                left -= input.len();
                input.advance(input.len());
                wire.return_input(input, shares.nothing(flow));
            }
            assert_eq!(shares.held(), 0, "{kilobytes} KiB");
        }
        assert!(held_most > INPUT_BYTES, "{held_most}");
    }
}
