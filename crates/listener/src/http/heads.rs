//! The heads of requests on their way to hyper, each looked at before hyper has it whole.
//!
//! hyper takes heads that can be read in two ways ([`head::is_ambiguous`]), and cannot be told not to. [`Heads`] stands
//! between it and the stream: it follows where heads and bodies begin, and puts [`head::NO_HEAD`] in the place of what it
//! finds ambiguous, which hyper refuses with a 400. After that the stream has ended.
//!
//! Invariants:
//! - No byte is changed but the one that would complete an ambiguous head, or a line of one, and those behind it.
//! - Where hyper stops reading requests (what is no head, no chunk, HTTP/2), this stops looking.
//! - What is kept of a head is at most [`KEPT_BYTES_MAX`], and is wiped.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use memchr::memchr;
use tokio::io::{AsyncRead, ReadBuf};
use zeroize::Zeroizing;

use super::head;
use crate::limits::{HEAD_BYTES_MAX, HEADERS_MAX};
use crate::pass_writes::pass_writes;

/// The most that is kept of a head. hyper reads on while it has less than [`HEAD_BYTES_MAX`], and no more than that at
/// once, so it has refused a longer one.
const KEPT_BYTES_MAX: usize = 2 * HEAD_BYTES_MAX;

/// A stream of which every head is looked at.
pub(crate) struct Heads<S> {
    stream: S,
    place: HeadsPhase,
    /// What came of the head that is read, from its first line on.
    head: Zeroizing<Vec<u8>>,
}

/// What comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HeadsPhase {
    /// The rest of a head, or empty lines before it.
    Head,
    /// So much of a body.
    Body(u64),
    /// A part of a chunked body.
    Chunk(ChunkedState),
    /// What hyper refuses, or HTTP/2.
    Rest,
    /// So much of what is put in the place of a head, and then the end.
    NoHead(usize),
}

/// A place in a chunked body (RFC 9112, section 7.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ChunkedState {
    /// The digits of a size, of which this much is known.
    Size(u64),
    /// The rest of the size's line.
    Extension(u64),
    /// So many bytes of the chunk.
    Data(u64),
    /// The line's end behind a chunk.
    End,
    /// A trailer, or the empty line that ends the body; so many bytes of that line came.
    Trailer(u64),
}

impl<S> Heads<S> {
    pub(crate) fn new(stream: S) -> Self {
        Self { stream, place: HeadsPhase::Head, head: Zeroizing::default() }
    }

    /// Follows what came; how much of it is to be passed on.
    fn follow(&mut self, bytes: &[u8]) -> usize {
        let mut at = 0;
        while at < bytes.len() {
            let rest = &bytes[at..];
            at += match self.place {
                HeadsPhase::Head => match self.head(rest) {
                    Ok(taken) => taken,
                    Err(passed) => {
                        self.head = Zeroizing::default();
                        self.place = HeadsPhase::NoHead(0);
                        return at + passed;
                    }
                },
                HeadsPhase::Body(left) => {
                    let taken = least(left, rest);
                    let left = left - taken as u64;
                    self.place = if left == 0 { HeadsPhase::Head } else { HeadsPhase::Body(left) };
                    taken
                }
                HeadsPhase::Chunk(chunk) => self.chunk(chunk, rest),
                HeadsPhase::Rest | HeadsPhase::NoHead(_) => rest.len(),
            };
        }
        bytes.len()
    }

    /// Takes a line of a head, or the part of it that came.
    ///
    /// # Errors
    /// How much may be passed on of one that is ambiguous.
    fn head(&mut self, bytes: &[u8]) -> Result<usize, usize> {
        let end = memchr(b'\n', bytes);
        let taken = end.map_or(bytes.len(), |end| end + 1);
        if self.head.len() + taken > KEPT_BYTES_MAX {
            self.head = Zeroizing::default();
            self.place = HeadsPhase::Rest;
            return Ok(taken);
        }
        self.head.extend_from_slice(&bytes[..taken]);
        let Some(end) = end else { return Ok(taken) };
        if !self.head.ends_with(b"\r\n") {
            return Err(end);
        }
        if *self.head == b"\r\n" {
            // An empty line before the first one of a head.
            self.head.clear();
        } else if self.head.ends_with(b"\r\n\r\n") {
            if head::is_ambiguous(&self.head) {
                return Err(end);
            }
            self.place = body_of(&self.head);
            self.head = Zeroizing::default();
        }
        Ok(taken)
    }

    /// Takes some of a chunked body.
    fn chunk(&mut self, chunk: ChunkedState, bytes: &[u8]) -> usize {
        let first = bytes[0];
        let (place, taken) = match chunk {
            ChunkedState::Size(size) => {
                match (char::from(first).to_digit(16), size.checked_mul(16)) {
                    (Some(digit), Some(size)) => {
                        (HeadsPhase::Chunk(ChunkedState::Size(size + u64::from(digit))), 1)
                    }
                    (Some(_), None) => (HeadsPhase::Rest, 1),
                    (None, _) => (HeadsPhase::Chunk(ChunkedState::Extension(size)), 0),
                }
            }
            ChunkedState::Extension(size) => match memchr(b'\n', bytes) {
                None => (HeadsPhase::Chunk(chunk), bytes.len()),
                Some(end) if size == 0 => (HeadsPhase::Chunk(ChunkedState::Trailer(0)), end + 1),
                Some(end) => (HeadsPhase::Chunk(ChunkedState::Data(size)), end + 1),
            },
            ChunkedState::Data(left) => {
                let taken = least(left, bytes);
                let left = left - taken as u64;
                let next = if left == 0 { ChunkedState::End } else { ChunkedState::Data(left) };
                (HeadsPhase::Chunk(next), taken)
            }
            ChunkedState::End => match first {
                b'\r' => (HeadsPhase::Chunk(chunk), 1),
                b'\n' => (HeadsPhase::Chunk(ChunkedState::Size(0)), 1),
                _ => (HeadsPhase::Rest, 1),
            },
            ChunkedState::Trailer(length) => match memchr(b'\n', bytes) {
                None => (
                    HeadsPhase::Chunk(ChunkedState::Trailer(length + bytes.len() as u64)),
                    bytes.len(),
                ),
                // A carriage return and this.
                Some(end) if length + end as u64 <= 1 => (HeadsPhase::Head, end + 1),
                Some(end) => (HeadsPhase::Chunk(ChunkedState::Trailer(0)), end + 1),
            },
        };
        self.place = place;
        taken
    }
}

/// As much of `bytes` as `left` says.
fn least(left: u64, bytes: &[u8]) -> usize {
    usize::try_from(left).map_or(bytes.len(), |left| left.min(bytes.len()))
}

/// What follows a whole head.
fn body_of(bytes: &[u8]) -> HeadsPhase {
    let mut room = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut request = httparse::Request::new(&mut room);
    let Ok(httparse::Status::Complete(_)) = request.parse(bytes) else { return HeadsPhase::Rest };
    let value = |name: &str| {
        let mut headers = request.headers.iter();
        headers.find(|header| header.name.eq_ignore_ascii_case(name)).map(|header| header.value)
    };
    if value("transfer-encoding").is_some() {
        return HeadsPhase::Chunk(ChunkedState::Size(0));
    }
    let Some(length) = value("content-length") else { return HeadsPhase::Head };
    let length = std::str::from_utf8(length).ok().and_then(|text| text.trim().parse().ok());
    match length {
        Some(0) => HeadsPhase::Head,
        Some(length) => HeadsPhase::Body(length),
        None => HeadsPhase::Rest,
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Heads<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !matches!(self.place, HeadsPhase::NoHead(_)) {
            let before = buffer.filled().len();
            ready!(Pin::new(&mut self.stream).poll_read(cx, buffer))?;
            let passed = self.follow(&buffer.filled()[before..]);
            buffer.set_filled(before + passed);
            // Nothing passed on is an end to who reads.
            if !matches!(self.place, HeadsPhase::NoHead(_)) || passed > 0 {
                return Poll::Ready(Ok(()));
            }
        }
        if let HeadsPhase::NoHead(said) = self.place {
            let rest = &head::NO_HEAD[said..];
            let count = rest.len().min(buffer.remaining());
            buffer.put_slice(&rest[..count]);
            self.place = HeadsPhase::NoHead(said + count);
        }
        Poll::Ready(Ok(()))
    }
}

pass_writes!(Heads);

/// A target of the fuzzers: as much passes of any bytes in whatever parts they come, and a stream that ends there ends there.
#[cfg(any(test, feature = "fuzz"))]
pub(super) fn check(bytes: &[u8]) {
    let passed = |part_bytes: usize| {
        let (mut heads, mut count) = (Heads::new(()), 0);
        for part in bytes.chunks(part_bytes) {
            count += heads.follow(part);
            if matches!(heads.place, HeadsPhase::NoHead(_)) {
                return (count, true);
            }
        }
        (count, false)
    };
    let whole = passed(bytes.len().max(1));
    assert!(whole == (bytes.len(), false) || whole.1 && whole.0 < bytes.len(), "{whole:?}");
    for part_bytes in [1, 3, 64] {
        assert_eq!(passed(part_bytes), whole, "in parts of {part_bytes}");
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;

    use super::*;

    /// What hyper gets of these bytes, read so many at a time.
    fn passed(bytes: &[u8], step: usize) -> Vec<u8> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let mut heads = Heads::new(bytes);
            let (mut all, mut room) = (Vec::new(), vec![0; step]);
            loop {
                match heads.read(&mut room).await.unwrap() {
                    0 => return all,
                    count => all.extend_from_slice(&room[..count]),
                }
            }
        })
    }

    const GET: &str = "GET / HTTP/1.1\r\nHost: h\r\n\r\n";
    const POST: &str = "POST / HTTP/1.1\r\nHost: h\r\n";
    const BAD: &str = "GET / HTTP/1.1\r\nHost: h\n\r\n";

    #[test]
    fn what_can_be_read_in_one_way_passes_as_it_is() {
        let length = format!("{POST}Content-Length: 5\r\n\r\na\n\nb\n{GET}");
        let empty = format!("{POST}Content-Length: 0\r\n\r\n{GET}");
        let chunks = "3\r\na\nb\r\n1;x=y\r\n\n\r\n0\r\nTrailer: a\r\n\r\n";
        let chunked = format!("{POST}Transfer-Encoding: chunked\r\n\r\n{chunks}{GET}");
        let long = format!("GET / HTTP/1.1\r\nA: {}\n\n", "a".repeat(KEPT_BYTES_MAX));
        let two = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nwhatever\nfollows";
        for whole in [GET, &format!("\r\n{GET}{GET}"), &length, &empty, &chunked, &long, two] {
            for step in [1, 7, 4096] {
                assert_eq!(passed(whole.as_bytes(), step), whole.as_bytes(), "{whole:?} by {step}");
            }
        }
    }

    #[test]
    fn what_can_be_read_in_two_ways_does_not_and_ends_the_stream() {
        let chunked = format!("{POST}Transfer-Encoding: chunked\r\n\r\n1\r\n\n\r\n0\r\n\r\n{BAD}");
        let twice = format!("{POST}Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc");
        for bad in [
            BAD.to_owned(),
            format!("\n{GET}"),
            format!("\r\n\n{GET}"),
            GET.replace("\r\n", "\n"),
            GET.replace("\r\n\r\n", "\r\n\n"),
            format!("{GET}{BAD}"),
            format!("{POST}Content-Length: 3\r\n\r\n\n\n\n{BAD}"),
            chunked,
            twice,
        ] {
            for step in [1, 7, 100_000] {
                let passed = passed(format!("{bad}{GET}").as_bytes(), step);
                let kept = passed.strip_suffix(head::NO_HEAD).expect("no head at its end");
                assert!(bad.as_bytes().starts_with(kept), "{bad:?} by {step}");
            }
        }
    }
}
