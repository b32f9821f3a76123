//! Bodies of replies: whole, or made while they are sent.
//!
//! A stream's [`Source`] is driven by a task of its own ([`pump`]), which knows the time. Between it and
//! the connection is a channel of one piece: a client that does not read stops the task, and after
//! [`UNREAD_TIMEOUT`] ends its stream. The task ends with the connection, with the source, and when
//! the server stops.
//!
//! Invariants:
//! - A source is asked when what it made before was passed on. What it makes holds a share of what replies may hold until it was sent; a
//!   stream without one is cut. So clients that do not read make all streams together hold no more than the budget, and
//!   [`SMALL_REPLY_BYTES_MAX`](crate::limits::SMALL_REPLY_BYTES_MAX) each.
//! - A body ends as a whole one only if its source said so. Whatever else ends it cuts the reply: the connection
//!   breaks, or the stream of HTTP/2 is reset, so that a client never takes a part for the whole.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use kallisto_core::admission::Held;
use kallisto_core::{NextPiece, Source, Waiting};
use tokio::sync::{mpsc, watch};
use tokio::time::{sleep, timeout};

use crate::client_timeouts::Underway;
use crate::clock::WallClock;
use crate::limits::{COALESCE_PAUSE, HEARTBEAT_INTERVAL, STREAM_PIECE_BYTES_MAX, UNREAD_TIMEOUT};
use crate::write_backpressure::WriteBackpressure;

/// The body of a reply.
#[derive(Debug)]
pub struct ReplyBody {
    inner: StreamInner,
    /// The request is under way for as long as its reply is.
    _underway: Option<Underway>,
}

#[derive(Debug)]
enum StreamInner {
    /// Bytes that were not passed on yet.
    Whole(Option<Bytes>),
    Stream(mpsc::Receiver<BodyPiece>),
}

/// A piece of a body that is made while it is sent.
#[derive(Debug)]
enum BodyPiece {
    Bytes(Bytes),
    /// That was all.
    End,
}

/// A reply that was not sent to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplyCut;

impl fmt::Display for ReplyCut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the reply was cut")
    }
}

impl std::error::Error for ReplyCut {}

impl ReplyBody {
    /// No bytes.
    pub(super) fn empty() -> Self {
        Self::from(Vec::new())
    }

    /// The pieces that come through `pieces`.
    const fn stream(pieces: mpsc::Receiver<BodyPiece>) -> Self {
        Self::new(StreamInner::Stream(pieces))
    }

    const fn new(inner: StreamInner) -> Self {
        Self { inner, _underway: None }
    }

    /// The same for a request that is under way until its reply was passed on.
    pub(super) fn under(self, underway: Underway) -> Self {
        Self { _underway: Some(underway), ..self }
    }

    /// The same, whose bytes hold something for as long as they are in memory, sent or not.
    pub(super) fn holding(self, held: Held) -> Self {
        let inner = match self.inner {
            StreamInner::Whole(Some(bytes)) => {
                StreamInner::Whole(Some(Bytes::from_owner(Charged { bytes, _held: held })))
            }
            other => other,
        };
        Self { inner, ..self }
    }
}

/// Bytes and what they hold.
struct Charged {
    bytes: Bytes,
    _held: Held,
}

impl AsRef<[u8]> for Charged {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl From<Vec<u8>> for ReplyBody {
    fn from(bytes: Vec<u8>) -> Self {
        Self::from(Bytes::from(bytes))
    }
}

impl From<Bytes> for ReplyBody {
    fn from(bytes: Bytes) -> Self {
        Self::new(StreamInner::Whole((!bytes.is_empty()).then_some(bytes)))
    }
}

impl Body for ReplyBody {
    type Data = Bytes;
    type Error = ReplyCut;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, ReplyCut>>> {
        match &mut self.inner {
            StreamInner::Whole(whole) => {
                Poll::Ready(whole.take().map(|bytes| Ok(Frame::data(bytes))))
            }
            StreamInner::Stream(pieces) => match ready!(pieces.poll_recv(context)) {
                Some(BodyPiece::Bytes(bytes)) => Poll::Ready(Some(Ok(Frame::data(bytes)))),
                Some(BodyPiece::End) => {
                    self.inner = StreamInner::Whole(None);
                    Poll::Ready(None)
                }
                None => Poll::Ready(Some(Err(ReplyCut))),
            },
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.inner {
            StreamInner::Whole(whole) => whole.is_none(),
            StreamInner::Stream(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.inner {
            StreamInner::Whole(whole) => {
                SizeHint::with_exact(whole.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            StreamInner::Stream(_) => SizeHint::default(),
        }
    }
}

/// Starts to send what comes from `source`; ends it when `stop` says so.
pub(super) fn start(
    source: Box<dyn Source>,
    clock: Arc<dyn WallClock>,
    stop: watch::Receiver<bool>,
    unread: WriteBackpressure,
) -> ReplyBody {
    let (to, pieces) = mpsc::channel(1);
    tokio::spawn(pump(source, clock, stop, StreamConnection { to, unread }));
    ReplyBody::stream(pieces)
}

async fn pump(
    mut source: Box<dyn Source>,
    clock: Arc<dyn WallClock>,
    mut stop: watch::Receiver<bool>,
    connection: StreamConnection,
) {
    loop {
        let piece = match source.next(clock.now()) {
            NextPiece::Bytes(bytes) => bytes,
            NextPiece::End(bytes) => return connection.end(bytes).await,
            NextPiece::Cut => return,
            NextPiece::Wait => tokio::select! {
                () = connection.to.closed() => return,
                () = stopped(&mut stop) => {
                    if let Some(bytes) = source.farewell() {
                        connection.end(bytes).await;
                    }
                    return;
                }
                () = source.changed() => {
                    // Others' changes ring too: however many come, each stream looks so often only.
                    sleep(COALESCE_PAUSE).await;
                    continue;
                }
                () = sleep(HEARTBEAT_INTERVAL) => source.heartbeat().to_vec(),
            },
        };
        if !connection.send(piece).await {
            return;
        }
    }
}

/// Where the bytes of a stream go.
struct StreamConnection {
    to: mpsc::Sender<BodyPiece>,
    unread: WriteBackpressure,
}

impl StreamConnection {
    /// Sends the last bytes, and that they are.
    async fn end(&self, bytes: Vec<u8>) {
        if self.send(bytes).await {
            self.pass(BodyPiece::End).await;
        }
    }

    /// Sends bytes, and waits until the last of them are on their way; false when nobody takes them.
    async fn send(&self, bytes: Vec<u8>) -> bool {
        let Ok(share) = self.unread.share(bytes.len()) else {
            tracing::debug!(
                "cut a stream: clients have not read as much of replies as may be held"
            );
            return false;
        };
        let mut rest = match share {
            Some(held) => Bytes::from_owner(Charged { bytes: bytes.into(), _held: held }),
            None => bytes.into(),
        };
        while !rest.is_empty() {
            let piece = rest.split_to(rest.len().min(STREAM_PIECE_BYTES_MAX));
            if !self.pass(BodyPiece::Bytes(piece)).await {
                return false;
            }
        }
        // The next is made when there is room for it: until then this one may be all that a client has not read.
        self.has_room().await
    }

    async fn pass(&self, piece: BodyPiece) -> bool {
        Self::in_time(self.to.send(piece)).await
    }

    async fn has_room(&self) -> bool {
        Self::in_time(async { self.to.reserve().await.map(drop) }).await
    }

    /// False when nobody takes it, or not in time.
    async fn in_time<E>(taking: impl Future<Output = Result<(), E>>) -> bool {
        match timeout(UNREAD_TIMEOUT, taking).await {
            Ok(taken) => taken.is_ok(),
            Err(_) => {
                tracing::debug!("ended a stream that is not read");
                false
            }
        }
    }
}

/// Waits until it is time to answer: news, the longest wait, or the server's stop.
pub(super) async fn wait(mut waiting: Waiting, mut stop: watch::Receiver<bool>) {
    let longest = waiting.longest;
    let news = async {
        while !waiting.has_news() {
            waiting.changed().await;
            sleep(COALESCE_PAUSE).await;
        }
    };
    tokio::select! {
        _ = timeout(longest, news) => {}
        () = stopped(&mut stop) => {}
    }
}

/// Resolves when the server stops; never for a service that no server runs.
async fn stopped(stop: &mut watch::Receiver<bool>) {
    if stop.wait_for(|&stop| stop).await.is_err() {
        std::future::pending().await
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;
    use kallisto_core::ChangeFuture;
    use kallisto_core::admission::{Admission, AdmissionLimits, Flow};

    use super::*;
    use crate::clock::SystemClock;

    /// A source that says these things, and goes without a word when the server stops.
    struct Script(Vec<NextPiece>);

    impl Source for Script {
        fn next(&mut self, _now: jiff::Timestamp) -> NextPiece {
            if self.0.is_empty() { NextPiece::Wait } else { self.0.remove(0) }
        }

        fn changed(&mut self) -> ChangeFuture<'_> {
            Box::pin(std::future::pending())
        }

        fn heartbeat(&self) -> &'static [u8] {
            b""
        }

        fn farewell(&mut self) -> Option<Vec<u8>> {
            None
        }
    }

    fn unread(admission: &Admission) -> WriteBackpressure {
        WriteBackpressure::new(admission, Flow { address: 1, token: 0 })
    }

    /// The bytes of a reply made by this, or that it was cut.
    fn body(script: Vec<NextPiece>) -> Result<Vec<u8>, ReplyCut> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            // It stops as soon as there is nothing to say.
            let (_say, stop) = watch::channel(true);
            let unread = unread(&Admission::default());
            let body = start(Box::new(Script(script)), Arc::new(SystemClock), stop, unread);
            body.collect().await.map(|whole| whole.to_bytes().to_vec())
        })
    }

    #[test]
    fn a_body_is_whole_only_if_its_source_says_so() {
        let part = || NextPiece::Bytes(b"a".to_vec());
        assert_eq!(body(vec![part(), NextPiece::End(b"b".to_vec())]), Ok(b"ab".to_vec()));
        assert_eq!(body(vec![part(), NextPiece::End(Vec::new())]), Ok(b"a".to_vec()));
        assert_eq!(body(vec![part(), NextPiece::Cut]), Err(ReplyCut));
        assert_eq!(body(vec![part()]), Err(ReplyCut), "the server stopped in the middle");
    }

    #[test]
    fn a_client_that_reads_nothing_for_too_long_has_its_body_cut() {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_time().start_paused(true).build().unwrap();
        let taken = |pause| {
            runtime.block_on(async {
                let (_say, stop) = watch::channel(false);
                let part = || NextPiece::Bytes(b"a".to_vec());
                let script = vec![part(), part(), NextPiece::End(b"b".to_vec())];
                let unread = unread(&Admission::default());
                let body = start(Box::new(Script(script)), Arc::new(SystemClock), stop, unread);
                sleep(pause).await;
                body.collect().await.map(|whole| whole.to_bytes().to_vec())
            })
        };
        assert_eq!(taken(UNREAD_TIMEOUT / 2), Ok(b"aab".to_vec()));
        assert_eq!(taken(UNREAD_TIMEOUT * 2), Err(ReplyCut));
    }

    /// What nobody reads is held by the first piece alone, counted, and given back; a stream for which there is no room is cut.
    #[test]
    fn what_streams_hold_that_nobody_reads_is_bounded_for_all_of_them() {
        const PIECE: usize = 3 * STREAM_PIECE_BYTES_MAX;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let limits = AdmissionLimits { reply_bytes_max: 2 * PIECE, ..AdmissionLimits::default() };
        let admission = Admission::new(&limits);
        runtime.block_on(async {
            let (_say, stop) = watch::channel(false);
            let open = || {
                let script = vec![NextPiece::Bytes(vec![7; PIECE]), NextPiece::End(vec![8; PIECE])];
                let (source, unread) = (Box::new(Script(script)), unread(&admission));
                start(source, Arc::new(SystemClock), stop.clone(), unread)
            };
            let held = async || {
                for _ in 0..100 {
                    tokio::task::yield_now().await;
                }
                admission.reply_bytes.held()
            };
            let mut first = open();
            assert_eq!(held().await, PIECE, "its second piece is not made");
            let Some(Ok(frame)) = first.frame().await else { panic!("no frame") };
            assert_eq!(frame.into_data().unwrap().len(), STREAM_PIECE_BYTES_MAX);
            assert_eq!(held().await, PIECE, "part of it is not sent");
            // Alone it may have four fifths; there is no room for another.
            let second = open();
            assert_eq!(held().await, PIECE);
            assert_eq!(second.collect().await.map(|_| ()), Err(ReplyCut));
            let mut read = STREAM_PIECE_BYTES_MAX;
            while let Some(frame) = first.frame().await {
                read += frame.unwrap().into_data().unwrap().len();
            }
            assert_eq!(read, 2 * PIECE);
            assert_eq!(held().await, 0);
        });
    }
}
