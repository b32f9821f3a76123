//! Bodies of replies: whole, or made while they are sent.
//!
//! A stream's [`Source`] is driven by a task of its own ([`pump`]), which knows the time. Between it and
//! the connection is a channel of one piece: a client that does not read stops the task, and after
//! [`UNREAD_TIMEOUT`] ends its stream. The task ends with the connection, with the source, and when
//! the server stops.
//!
//! Invariant: a body ends as a whole one only if its source said so. Whatever else ends it cuts the reply: the connection
//! breaks, or the stream of HTTP/2 is reset, so that a client never takes a part for the whole.

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
use crate::limits::{COALESCE_PAUSE, HEARTBEAT_INTERVAL, UNREAD_TIMEOUT};

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
) -> ReplyBody {
    let (to, pieces) = mpsc::channel(1);
    tokio::spawn(pump(source, clock, stop, to));
    ReplyBody::stream(pieces)
}

async fn pump(
    mut source: Box<dyn Source>,
    clock: Arc<dyn WallClock>,
    mut stop: watch::Receiver<bool>,
    to: mpsc::Sender<BodyPiece>,
) {
    loop {
        let piece = match source.next(clock.now()) {
            NextPiece::Bytes(bytes) => bytes,
            NextPiece::End(bytes) => return end(&to, bytes).await,
            NextPiece::Cut => return,
            NextPiece::Wait => tokio::select! {
                () = to.closed() => return,
                () = stopped(&mut stop) => {
                    if let Some(bytes) = source.farewell() {
                        end(&to, bytes).await;
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
        if !send(&to, BodyPiece::Bytes(piece.into())).await {
            return;
        }
    }
}

/// Sends the last bytes, and that they are.
async fn end(to: &mpsc::Sender<BodyPiece>, bytes: Vec<u8>) {
    if bytes.is_empty() || send(to, BodyPiece::Bytes(bytes.into())).await {
        send(to, BodyPiece::End).await;
    }
}

/// False when nobody takes it.
async fn send(to: &mpsc::Sender<BodyPiece>, piece: BodyPiece) -> bool {
    match timeout(UNREAD_TIMEOUT, to.send(piece)).await {
        Ok(Ok(())) => true,
        Ok(Err(_)) => false,
        Err(_) => {
            tracing::debug!("ended a stream that is not read");
            false
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

    /// The bytes of a reply made by this, or that it was cut.
    fn body(script: Vec<NextPiece>) -> Result<Vec<u8>, ReplyCut> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            // It stops as soon as there is nothing to say.
            let (_say, stop) = watch::channel(true);
            let body = start(Box::new(Script(script)), Arc::new(SystemClock), stop);
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
                let body = start(Box::new(Script(script)), Arc::new(SystemClock), stop);
                sleep(pause).await;
                body.collect().await.map(|whole| whole.to_bytes().to_vec())
            })
        };
        assert_eq!(taken(UNREAD_TIMEOUT / 2), Ok(b"aab".to_vec()));
        assert_eq!(taken(UNREAD_TIMEOUT * 2), Err(ReplyCut));
    }
}
