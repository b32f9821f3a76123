//! A stream that ends when its client is too slow or too long silent.
//!
//! hyper's own timeout counts from the end of one request to the head of the next, so it cannot tell a
//! client that is idle, which is fine for a while, from one that sends a head byte by byte, which is not.
//! Neither does it know of clients that take a reply a few bytes at a time. Here each of them has its
//! own deadline, for HTTP/1 and HTTP/2 alike:
//!
//! - the first request: `head` from the moment of connecting, silence included, since what is spoken is
//!   decided by the first bytes and no other timeout runs before that;
//! - the head of a later one: `head` from its first bytes (HTTP/1; within HTTP/2 heads are frames, which end
//!   by the idle deadline);
//! - nothing under way: `idle`;
//! - a reply that the client does not take: [`TAKEN_BYTES_MIN`] bytes in every [`UNREAD_TIMEOUT`].
//!
//! A connection that is closed while its client may still be sending goes on being read for a while (`linger`).
//!
//! When most connections are taken ([`SharedAmount::is_crowded`]) the first and the third are shorter, and nobody
//! lingers.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use kallisto_core::admission::SharedAmount;
use kallisto_core::metrics::Metrics;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

use crate::limits::{CROWDED_PATIENCE, TAKEN_BYTES_MIN, Timeouts, UNREAD_TIMEOUT};
use crate::linger::Linger;

/// What an HTTP/2 client sends first (RFC 9113, section 3.4).
pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// What the service and the stream of a connection tell each other.
#[derive(Debug, Default)]
pub(crate) struct Activity {
    /// Requests begun, modulo 2^32.
    begun: AtomicU32,
    /// Of them, those that are over.
    ended: AtomicU32,
    /// The one that began last was refused, and its body may not have been read to its end.
    is_refused: AtomicBool,
}

/// A request under way; over when this is dropped.
#[derive(Debug)]
pub(crate) struct Underway(Arc<Activity>);

impl Activity {
    /// A request's head has arrived.
    pub(crate) fn begin(self: &Arc<Self>) -> Underway {
        // Relaxed: both sides run on one thread.
        self.begun.fetch_add(1, Ordering::Relaxed);
        self.is_refused.store(false, Ordering::Relaxed);
        Underway(Arc::clone(self))
    }

    fn counts(&self) -> (u32, u32) {
        (self.begun.load(Ordering::Relaxed), self.ended.load(Ordering::Relaxed))
    }
}

impl Underway {
    /// The request is refused, and its body may be on its way.
    pub(crate) fn refuse(&self) {
        self.0.is_refused.store(true, Ordering::Relaxed);
    }
}

impl Drop for Underway {
    fn drop(&mut self) {
        self.0.ended.fetch_add(1, Ordering::Relaxed);
    }
}

/// What is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClientPhase {
    /// The first request's head.
    Opening,
    /// Nothing: a request is under way, or was when somebody last looked.
    Busy,
    /// The next request's first byte.
    Idle,
    /// The rest of a head.
    Head,
}

/// A paced stream.
pub(crate) struct Paced<S> {
    stream: S,
    activity: Arc<Activity>,
    connections: Arc<SharedAmount>,
    metrics: Arc<Metrics>,
    timeouts: Timeouts,
    phase: ClientPhase,
    /// When the phase began.
    since: Instant,
    /// Requests begun when the phase was last brought up to date.
    begun: u32,
    /// What is left of the preface to compare with, while it may still be one.
    preface: Option<&'static [u8]>,
    is_http2: bool,
    /// When the phase is looked at next.
    look: Pin<Box<Sleep>>,
    /// Set while the client does not take all that is written.
    unread: Option<Unread>,
    /// Requests begun when something last came.
    begun_at_read: Option<u32>,
    /// Set once our side is closed and the client may still be sending.
    linger: Option<Box<Linger>>,
}

/// A client that does not take what is written, or takes it slowly.
struct Unread {
    /// Bytes it took since the deadline was set.
    taken: usize,
    deadline: Pin<Box<Sleep>>,
}

impl<S> Paced<S> {
    /// A fresh connection.
    pub(crate) fn new(
        stream: S,
        activity: Arc<Activity>,
        timeouts: Timeouts,
        connections: Arc<SharedAmount>,
        metrics: Arc<Metrics>,
    ) -> Self {
        Self {
            stream,
            activity,
            connections,
            metrics,
            timeouts,
            phase: ClientPhase::Opening,
            since: Instant::now(),
            begun: 0,
            preface: Some(PREFACE),
            is_http2: false,
            look: Box::pin(tokio::time::sleep(timeouts.look())),
            unread: None,
            begun_at_read: None,
            linger: None,
        }
    }

    /// Compares what was read with what is left of the preface.
    fn decide(&mut self, read: &[u8]) {
        let Some(rest) = self.preface else { return };
        let common = rest.len().min(read.len());
        let fits = rest[..common] == read[..common] && !read.is_empty();
        self.is_http2 = fits && common == rest.len();
        self.preface = (fits && !self.is_http2).then(|| &rest[common..]);
    }

    /// Brings the phase up to date with what the service did; false when its time is over.
    fn is_in_time(&mut self, now: Instant) -> bool {
        let (begun, ended) = self.activity.counts();
        let next = if begun != ended || self.unread.is_some() {
            ClientPhase::Busy
        } else if self.phase == ClientPhase::Busy || begun != self.begun {
            ClientPhase::Idle
        } else {
            self.phase
        };
        if next != self.phase || begun != self.begun {
            (self.phase, self.since) = (next, now);
        }
        self.begun = begun;
        self.patience().is_none_or(|patience| now.duration_since(self.since) < patience)
    }

    /// How long the phase may last; `None` when it may last.
    fn patience(&self) -> Option<Duration> {
        let usual = match self.phase {
            ClientPhase::Busy => return None,
            ClientPhase::Head => return Some(self.timeouts.head),
            ClientPhase::Opening => self.timeouts.head,
            ClientPhase::Idle => self.timeouts.idle,
        };
        Some(if self.connections.is_crowded() { usual.min(CROWDED_PATIENCE) } else { usual })
    }

    /// Looks at the phase, every so often; ready when its time is over.
    fn poll_phase(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.look.as_mut().poll(cx).is_ready() {
            let now = Instant::now();
            if !self.is_in_time(now) {
                return Poll::Ready(Err(self.time_out()));
            }
            self.look.as_mut().reset(now + self.timeouts.look());
        }
        Poll::Pending
    }

    /// Looks at the deadline of a client that takes nothing just now.
    ///
    /// # Errors
    /// `TimedOut` when it took too little for too long.
    fn check_unread(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        let unread = self.unread.get_or_insert_with(|| Unread {
            taken: 0,
            deadline: Box::pin(tokio::time::sleep(UNREAD_TIMEOUT)),
        });
        while unread.deadline.as_mut().poll(cx).is_ready() {
            if unread.taken < TAKEN_BYTES_MIN {
                return Err(self.time_out());
            }
            unread.taken = 0;
            unread.deadline.as_mut().reset(Instant::now() + UNREAD_TIMEOUT);
        }
        Ok(())
    }

    fn written(
        &mut self,
        polled: Poll<io::Result<usize>>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        match (&polled, &mut self.unread) {
            (Poll::Pending, _) => self.check_unread(cx)?,
            (Poll::Ready(Ok(bytes)), Some(unread)) => unread.taken += bytes,
            (Poll::Ready(_), _) => {}
        }
        polled
    }

    /// Whether more may come: of a body that may not have been read to its end, or since the last that came began no
    /// request.
    fn may_still_send(&self) -> bool {
        let is_refused = self.activity.is_refused.load(Ordering::Relaxed);
        let is_part = self.begun_at_read == Some(self.activity.counts().0);
        (is_refused || is_part) && !self.is_http2 && !self.connections.is_crowded()
    }

    fn time_out(&self) -> io::Error {
        self.metrics.listener.timeouts.count();
        io::ErrorKind::TimedOut.into()
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Paced<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let start = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(cx, buffer);
        if polled.is_pending() {
            return self.poll_phase(cx);
        }
        self.decide(&buffer.filled()[start..]);
        if buffer.filled().len() > start {
            self.begun_at_read = Some(self.activity.counts().0);
        }
        if self.phase == ClientPhase::Idle && !self.is_http2 {
            (self.phase, self.since) = (ClientPhase::Head, Instant::now());
        }
        polled
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Paced<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.written(polled, cx)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_flush(cx);
        match polled {
            Poll::Pending => self.check_unread(cx)?,
            // Whoever flushes has written everything before.
            Poll::Ready(_) => self.unread = None,
        }
        polled
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.linger.is_none() {
            ready!(Pin::new(&mut self.stream).poll_shutdown(cx))?;
            if !self.may_still_send() {
                return Poll::Ready(Ok(()));
            }
        }
        let Self { stream, linger, .. } = &mut *self;
        let linger = linger.get_or_insert_with(|| Box::new(Linger::new()));
        linger.poll(Pin::new(stream), cx).map(Ok)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(cx, bytes);
        self.written(polled, cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

    use super::*;
    use crate::limits::{LINGER_BYTES_MAX, LINGER_SILENCE, LINGER_TIMEOUT};

    const TIMEOUTS: Timeouts = Timeouts {
        head: Duration::from_secs(10),
        idle: Duration::from_secs(60),
        body: Duration::from_secs(60),
    };

    /// A client's end and a paced server's end, on a clock that the runtime moves on by itself.
    fn pair(room: usize) -> (DuplexStream, Paced<DuplexStream>, Arc<Activity>) {
        let (client, server) = duplex(room);
        let activity = Arc::<Activity>::default();
        let shares = Arc::new(SharedAmount::new(100, 0));
        let paced = Paced::new(server, Arc::clone(&activity), TIMEOUTS, shares, Arc::default());
        (client, paced, activity)
    }

    fn run<F: Future>(work: F) -> F::Output {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(work)
    }

    /// Reads until the stream ends; how long that took, and whether it was its pace that ended it.
    async fn until_end(paced: &mut Paced<DuplexStream>) -> (u64, bool) {
        let begin = Instant::now();
        let mut buffer = [0; 64];
        loop {
            match paced.read(&mut buffer).await {
                Ok(0) => return (begin.elapsed().as_secs(), false),
                Ok(_) => {}
                Err(error) => {
                    let is_late = error.kind() == io::ErrorKind::TimedOut;
                    return (begin.elapsed().as_secs(), is_late);
                }
            }
        }
    }

    #[test]
    fn who_says_nothing_or_goes_on_slowly_is_cut_at_the_first_deadline() {
        run(async {
            let (_client, mut paced, _) = pair(64);
            let (secs, is_late) = until_end(&mut paced).await;
            assert!(is_late && (10..=12).contains(&secs), "{secs}");
            let (mut client, mut paced, _) = pair(64);
            let slow = async {
                loop {
                    tokio::time::sleep(Duration::from_secs(3)).await;
                    if client.write_all(b"G").await.is_err() {
                        break;
                    }
                }
            };
            let (secs, is_late) = tokio::select! {
                ended = until_end(&mut paced) => ended,
                () = slow => panic!("the client gave up"),
            };
            assert!(is_late && (10..=12).contains(&secs), "{secs}");
        });
    }

    #[test]
    fn idle_is_not_slow() {
        run(async {
            let (mut client, mut paced, activity) = pair(64);
            drop(activity.begin());
            let (secs, is_late) = until_end(&mut paced).await;
            assert!(is_late && (60..=64).contains(&secs), "{secs}");
            let (mut second, mut paced, activity) = pair(64);
            drop(activity.begin());
            let late_byte = async {
                tokio::time::sleep(Duration::from_secs(30)).await;
                second.write_all(b"G").await.unwrap();
                std::future::pending::<()>().await;
            };
            let (secs, is_late) = tokio::select! {
                ended = until_end(&mut paced) => ended,
                () = late_byte => panic!("never ends"),
            };
            assert!(is_late && (40..=44).contains(&secs), "{secs}");
            let _ = client.shutdown().await;
        });
    }

    #[test]
    fn a_request_under_way_has_no_deadline_here() {
        run(async {
            let (_client, mut paced, activity) = pair(64);
            let underway = activity.begin();
            let mut buffer = [0; 64];
            let waited =
                tokio::time::timeout(Duration::from_secs(3600), paced.read(&mut buffer)).await;
            assert!(waited.is_err());
            drop(underway);
            let (secs, is_late) = until_end(&mut paced).await;
            assert!(is_late && (60..=64).contains(&secs), "{secs}");
        });
    }

    #[test]
    fn a_client_that_still_sends_is_read_to_its_end_and_no_other_is() {
        run(async {
            // What was asked was answered: nothing is left to come.
            let (mut client, mut paced, activity) = pair(64);
            client.write_all(b"GET").await.unwrap();
            paced.read_exact(&mut [0; 3]).await.unwrap();
            drop(activity.begin());
            paced.shutdown().await.unwrap();
            assert!(paced.linger.is_none());
            // A body that nobody reads any more.
            client.write_all(b"body").await.unwrap();
            paced.read_exact(&mut [0; 4]).await.unwrap();
            let sending = async {
                client.write_all(&vec![0; 1 << 20]).await.unwrap();
                drop(client);
            };
            let (closed, ()) = tokio::join!(paced.shutdown(), sending);
            closed.unwrap();
        });
    }

    #[test]
    fn who_is_silent_or_sends_without_end_is_not_waited_for() {
        run(async {
            let (mut client, mut paced, _) = pair(64);
            client.write_all(b"GE").await.unwrap();
            paced.read_exact(&mut [0; 2]).await.unwrap();
            let begin = Instant::now();
            paced.shutdown().await.unwrap();
            assert_eq!(begin.elapsed().as_secs(), LINGER_SILENCE.as_secs());
            for (pause, room) in [(Duration::from_secs(1), 64), (Duration::ZERO, 1 << 20)] {
                let (mut client, mut paced, _) = pair(room);
                client.write_all(b"GE").await.unwrap();
                paced.read_exact(&mut [0; 2]).await.unwrap();
                let piece = vec![0; room];
                let mut sent = 0;
                let begin = Instant::now();
                let endless = async {
                    loop {
                        sent += client.write(&piece).await.unwrap();
                        tokio::time::sleep(pause).await;
                    }
                };
                tokio::select! {
                    closed = paced.shutdown() => closed.unwrap(),
                    () = endless => {}
                }
                assert!(begin.elapsed() <= LINGER_TIMEOUT + LINGER_SILENCE);
                assert!(sent <= LINGER_BYTES_MAX + 2 * room, "{sent}");
            }
        });
    }

    #[test]
    fn http2_idles_by_its_frames() {
        run(async {
            let (mut client, mut paced, activity) = pair(64);
            client.write_all(&PREFACE[..10]).await.unwrap();
            let mut buffer = [0; 10];
            paced.read_exact(&mut buffer).await.unwrap();
            client.write_all(&PREFACE[10..]).await.unwrap();
            paced.read_exact(&mut [0; 14]).await.unwrap();
            assert!(paced.is_http2);
            drop(activity.begin());
            // Frames while idle neither begin a head nor keep the connection.
            let pings = async {
                loop {
                    tokio::time::sleep(Duration::from_secs(5)).await;
                    if client.write_all(b"ping").await.is_err() {
                        break;
                    }
                }
            };
            let (secs, is_late) = tokio::select! {
                ended = until_end(&mut paced) => ended,
                () = pings => panic!("the client gave up"),
            };
            assert!(is_late && (60..=64).contains(&secs), "{secs}");
        });
    }

    #[test]
    fn a_client_that_takes_nothing_is_cut_and_a_slow_one_is_not() {
        run(async {
            let (_client, mut paced, _) = pair(64);
            let error = paced.write_all(&[0; 4096]).await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::TimedOut);
            let (mut client, mut paced, _) = pair(1 << 20);
            let reading = async {
                let mut buffer = vec![0; 64 << 10];
                loop {
                    tokio::time::sleep(Duration::from_secs(2)).await;
                    client.read_exact(&mut buffer).await.unwrap();
                }
            };
            let writing = async {
                paced.write_all(&vec![0; 8 << 20]).await.unwrap();
                paced.flush().await.unwrap();
            };
            tokio::select! {
                () = writing => {}
                () = reading => panic!("never ends"),
            }
            assert!(paced.unread.is_none());
        });
    }
}
