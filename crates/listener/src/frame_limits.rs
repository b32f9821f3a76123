//! How much one connection that hyper serves has its worker read, and which frames of HTTP/2.
//!
//! A request waits for its turn at the gate. A frame that belongs to no request (PING, WINDOW_UPDATE, PRIORITY, SETTINGS) does not: h2
//! handles all that it can read before others are served, and takes such frames without end. So [`FrameLimits`], between the stream
//! and hyper, gives way after [`TURN_BYTES_MAX`] in one turn, whatever was read; and it follows the frames of HTTP/2, each of
//! which takes from an allowance unless it begins a request or carries a good part of a body. The allowance grows with the requests
//! and with the bytes that are sent, since a client says of those that it took them, and slowly with the time.
//!
//! Invariants:
//! - A connection reads at most [`TURN_BYTES_MAX`] and one read more before the worker looks at its other connections.
//! - A connection that sends frames and nothing else ends after [`SPARE_FRAMES_MAX`] of them, unless they come slowly.
//! - No byte is changed, and what is not HTTP/2 is not looked at.

use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

use crate::client_timeouts::PREFACE;

/// Bytes that are read before others get their turn: some hundred microseconds of work when they are the smallest frames.
const TURN_BYTES_MAX: usize = 16 << 10;
/// Frames of no request that a connection may send in a row: a few milliseconds of work.
const SPARE_FRAMES_MAX: u32 = 4_096;
/// How many more a request allows. Clients send two or three for each.
const FRAMES_PER_REQUEST: u32 = 32;
/// How many more a second allows: a thousandth of a worker's time.
const FRAMES_PER_SEC: u32 = 1_000;
/// Bytes sent that allow one more. Go's client takes as few as 4 KiB at once, and says so with two frames.
const SENT_BYTES_PER_FRAME: usize = 1 << 10;
/// A part of a body from this length on takes nothing: what there is of it is bounded by the body.
const BODY_PART_BYTES_MIN: u32 = 256;
/// Bytes of a frame's head (RFC 9113, section 4.1).
const HEAD_BYTES: usize = 9;
/// The types of frames that are told apart (RFC 9113, section 6).
const DATA: u8 = 0;
const HEADERS: u8 = 1;

/// A stream whose reads give way to others, and whose frames are counted.
pub(crate) struct FrameLimits<S> {
    stream: S,
    /// Bytes read in this turn.
    turn_bytes: usize,
    /// Bytes sent for which nothing was allowed yet.
    sent_bytes: usize,
    place: FramePlace,
    allowance: FrameAllowance,
}

/// What comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FramePlace {
    /// The rest of the preface, from here on.
    Preface(usize),
    /// The rest of a frame's head, of which this much came.
    Head([u8; HEAD_BYTES], usize),
    /// So much of what a frame carries.
    Payload(u32),
    /// What is not HTTP/2.
    Other,
}

/// How many frames of no request a connection may still send.
struct FrameAllowance {
    frames: u32,
    /// When it last grew with the time.
    since: Instant,
}

impl FrameAllowance {
    fn grow(&mut self, frames: u32) {
        self.frames = self.frames.saturating_add(frames).min(SPARE_FRAMES_MAX);
    }

    /// Takes one; false when there is none. The time is asked for only then.
    fn take(&mut self, now: impl FnOnce() -> Instant) -> bool {
        if self.frames == 0 {
            let now = now();
            let passed = now.duration_since(self.since);
            let earned = passed.as_millis().saturating_mul(u128::from(FRAMES_PER_SEC)) / 1_000;
            self.grow(u32::try_from(earned).unwrap_or(u32::MAX));
            if self.frames == 0 {
                return false;
            }
            self.since = now;
        }
        self.frames -= 1;
        true
    }
}

impl<S> FrameLimits<S> {
    /// A stream that begins with a request or the preface of HTTP/2.
    pub(crate) fn new(stream: S) -> Self {
        let allowance = FrameAllowance { frames: SPARE_FRAMES_MAX, since: Instant::now() };
        let place = FramePlace::Preface(0);
        Self { stream, turn_bytes: 0, sent_bytes: 0, place, allowance }
    }

    /// Follows what came; false when there are too many frames of no request in it.
    fn follow(&mut self, mut bytes: &[u8]) -> bool {
        while let Some(&first) = bytes.first() {
            let taken = match self.place {
                FramePlace::Other => return true,
                FramePlace::Preface(at) => {
                    self.place = match PREFACE.get(at) {
                        Some(&byte) if byte == first && at + 1 == PREFACE.len() => HEAD,
                        Some(&byte) if byte == first => FramePlace::Preface(at + 1),
                        _ => FramePlace::Other,
                    };
                    1
                }
                FramePlace::Head(mut head, at) => {
                    let taken = bytes.len().min(HEAD_BYTES - at);
                    head[at..at + taken].copy_from_slice(&bytes[..taken]);
                    self.place = FramePlace::Head(head, at + taken);
                    if at + taken == HEAD_BYTES && !self.begin(head) {
                        return false;
                    }
                    taken
                }
                FramePlace::Payload(left) => {
                    let taken = bytes.len().min(left as usize);
                    let left = left - taken as u32;
                    self.place = if left == 0 { HEAD } else { FramePlace::Payload(left) };
                    taken
                }
            };
            bytes = &bytes[taken..];
        }
        true
    }

    /// Counts a frame whose head is whole; false when it is one too many.
    fn begin(&mut self, head: [u8; HEAD_BYTES]) -> bool {
        let [high, middle, low, kind, ..] = head;
        let length = u32::from_be_bytes([0, high, middle, low]);
        self.place = if length == 0 { HEAD } else { FramePlace::Payload(length) };
        match kind {
            HEADERS => {
                self.allowance.grow(FRAMES_PER_REQUEST);
                true
            }
            DATA if length >= BODY_PART_BYTES_MIN => true,
            _ => self.allowance.take(Instant::now),
        }
    }

    fn sent(&mut self, polled: &Poll<io::Result<usize>>) {
        if let Poll::Ready(Ok(bytes)) = polled {
            let sent = self.sent_bytes + bytes;
            self.allowance.grow(u32::try_from(sent / SENT_BYTES_PER_FRAME).unwrap_or(u32::MAX));
            self.sent_bytes = sent % SENT_BYTES_PER_FRAME;
        }
    }
}

/// The head of the next frame, of which nothing came.
const HEAD: FramePlace = FramePlace::Head([0; HEAD_BYTES], 0);

impl<S: AsyncRead + Unpin> AsyncRead for FrameLimits<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.turn_bytes >= TURN_BYTES_MAX {
            self.turn_bytes = 0;
            // Comes back after the loop looked at the sockets, which a wake alone does not.
            ready!(pin!(tokio::task::yield_now()).poll(cx));
        }
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(cx, buffer);
        if polled.is_pending() {
            self.turn_bytes = 0;
            return polled;
        }
        let came = &buffer.filled()[before..];
        self.turn_bytes += came.len();
        if !self.follow(came) {
            let why = "too many frames that belong to no request";
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::ConnectionAborted, why)));
        }
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for FrameLimits<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.sent(&polled);
        polled
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
        let polled = Pin::new(&mut self.stream).poll_write_vectored(cx, bytes);
        self.sent(&polled);
        polled
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

const _: () = assert!(FRAMES_PER_SEC < SPARE_FRAMES_MAX && FRAMES_PER_REQUEST < SPARE_FRAMES_MAX);

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::time::Duration;

    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    const PING: u8 = 6;
    const WINDOW_UPDATE: u8 = 8;

    fn frame(kind: u8, length: usize) -> Vec<u8> {
        let mut bytes = u32::try_from(length).unwrap().to_be_bytes()[1..].to_vec();
        bytes.extend_from_slice(&[kind, 0, 0, 0, 0, 1]);
        bytes.resize(HEAD_BYTES + length, 7);
        bytes
    }

    /// After the preface.
    fn begun() -> FrameLimits<()> {
        let mut limits = FrameLimits::new(());
        assert!(limits.follow(PREFACE));
        limits
    }

    fn run<F: Future>(work: F) -> F::Output {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(work)
    }

    /// How many of these frames are taken, of twice as many as a connection may send in a row.
    fn taken(limits: &mut FrameLimits<()>, bytes: &[u8]) -> u32 {
        (0..2 * SPARE_FRAMES_MAX).take_while(|_| limits.follow(bytes)).count() as u32
    }

    #[test]
    fn frames_of_no_request_come_to_an_end_and_more_of_them_come_with_the_time() {
        run(async {
            for bytes in [frame(WINDOW_UPDATE, 4), frame(PING, 8), frame(2, 5), frame(DATA, 1)] {
                let mut limits = begun();
                assert_eq!(taken(&mut limits, &bytes), SPARE_FRAMES_MAX);
                limits.place = HEAD;
                assert!(!limits.follow(&bytes));
            }
            let (mut limits, ping) = (begun(), frame(PING, 8));
            assert_eq!(taken(&mut limits, &ping), SPARE_FRAMES_MAX);
            for (secs, expected) in
                [(0, 0), (1, FRAMES_PER_SEC), (0, 0), (3600, SPARE_FRAMES_MAX), (0, 0)]
            {
                tokio::time::advance(Duration::from_secs(secs)).await;
                // What was refused was taken as far as its head.
                limits.place = HEAD;
                assert_eq!(taken(&mut limits, &ping), expected, "{secs}");
            }
        });
    }

    #[test]
    fn requests_bodies_and_replies_have_as_many_frames_as_they_take() {
        run(async {
            let mut limits = begun();
            let mut request = frame(HEADERS, 40);
            request.extend((0..FRAMES_PER_REQUEST).flat_map(|_| frame(WINDOW_UPDATE, 4)));
            assert_eq!(taken(&mut limits, &request), 2 * SPARE_FRAMES_MAX);
            let part = frame(DATA, BODY_PART_BYTES_MIN as usize);
            assert_eq!(taken(&mut limits, &part), 2 * SPARE_FRAMES_MAX);
            for _ in 0..2 * SPARE_FRAMES_MAX {
                limits.sent(&Poll::Ready(Ok(SENT_BYTES_PER_FRAME / 2)));
                limits.sent(&Poll::Ready(Ok(SENT_BYTES_PER_FRAME / 2)));
                assert!(limits.follow(&frame(WINDOW_UPDATE, 4)));
            }
        });
    }

    #[test]
    fn frames_are_found_in_whatever_parts_they_come_and_nothing_else_is_looked_at() {
        run(async {
            let mut all = PREFACE.to_vec();
            for at in 0..100 {
                all.extend(frame(PING, 8));
                all.extend(frame(DATA, at));
            }
            for part_bytes in [1, 3, 7, 100, all.len()] {
                let mut limits = FrameLimits::new(());
                assert!(all.chunks(part_bytes).all(|part| limits.follow(part)));
                assert_eq!(limits.allowance.frames, SPARE_FRAMES_MAX - 200, "{part_bytes}");
                assert_eq!(limits.place, HEAD);
            }
            let mut limits = FrameLimits::new(());
            assert!(limits.follow(b"PRI * HTTP/1.1\r\n\r\n"));
            assert_eq!(taken(&mut limits, &frame(PING, 8)), 2 * SPARE_FRAMES_MAX);
        });
    }

    #[test]
    fn who_has_much_to_read_lets_others_in() {
        run(async {
            let (mut client, server) = duplex(1 << 20);
            client.write_all(&vec![b'x'; 1 << 20]).await.unwrap();
            let read = Cell::new(0);
            let reading = async {
                let (mut limits, mut room) = (FrameLimits::new(server), [0; 1_000]);
                while read.get() < 1 << 20 {
                    read.set(read.get() + limits.read(&mut room).await.unwrap());
                }
            };
            let others = async {
                let mut most = 0;
                while read.get() < 1 << 20 {
                    let before = read.get();
                    tokio::task::yield_now().await;
                    most = most.max(read.get() - before);
                }
                most
            };
            let ((), most) = tokio::join!(reading, others);
            // Both are polled in turns, so that one may have two in a row.
            assert!((1..2 * (TURN_BYTES_MAX + 1_000)).contains(&most), "{most}");
        });
    }
}
