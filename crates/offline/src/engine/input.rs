//! Cutting a stream into lines, with a bounded buffer and without copying a line.
//!
//! [`Lines::next_buffered`] hands out what is there already; [`Lines::refill`] reads on. They are two
//! calls so that the caller can put its own house in order before it waits for more input.
//!
//! Invariants: `start <= scanned <= end <= buffer.len()`; no line feed lies in `start..scanned`, so
//! each byte is looked at once however long its line is.

use std::io::{self, Read};
use std::ops::Range;

use kallisto_lsm::limits::{KEY_BYTES_MAX, VALUE_BYTES_MAX};

/// The buffer at first, in bytes; it grows only for a line that is longer.
const BUFFER_BYTES: usize = 1 << 20;
/// The longest line that is read, in bytes: the longest command with room for blanks.
const LINE_BYTES_MAX: usize = VALUE_BYTES_MAX + KEY_BYTES_MAX + (1 << 10);

const _: () = assert!(BUFFER_BYTES < LINE_BYTES_MAX);

/// What [`Lines::refill`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refill {
    /// More bytes, perhaps of one more line.
    More,
    /// Nothing more; what is left without a line feed is the last line.
    Ended,
    /// A line that no command can need.
    TooLong,
}

/// A stream as lines.
pub(crate) struct Lines<R> {
    from: R,
    buffer: Vec<u8>,
    /// Where the next line begins.
    start: usize,
    /// Up to where no line feed was found.
    scanned: usize,
    /// Up to where the buffer holds input.
    end: usize,
    /// Bytes of the input that were read.
    bytes_read: u64,
}

impl<R: Read> Lines<R> {
    /// The lines of `from`.
    pub(crate) fn new(from: R) -> Self {
        let buffer = vec![0; BUFFER_BYTES];
        Self { from, buffer, start: 0, scanned: 0, end: 0, bytes_read: 0 }
    }

    /// Where the next whole line lies, without its line feed; `None` if more has to be read.
    pub(crate) fn next_buffered(&mut self) -> Option<Range<usize>> {
        let Some(length) = memchr::memchr(b'\n', &self.buffer[self.scanned..self.end]) else {
            self.scanned = self.end;
            return None;
        };
        let line = self.start..self.scanned + length;
        self.start = line.end + 1;
        self.scanned = self.start;
        Some(line)
    }

    /// What is left when the input has ended: a last line without a line feed, or nothing.
    pub(crate) fn remainder(&mut self) -> Option<Range<usize>> {
        let line = self.start..self.end;
        self.start = self.end;
        self.scanned = self.end;
        (!line.is_empty()).then_some(line)
    }

    /// The bytes of a line that was handed out since the last refill.
    pub(crate) fn bytes(&self, line: Range<usize>) -> &[u8] {
        &self.buffer[line]
    }

    /// Reads on; waits if the input is a pipe that is silent.
    pub(crate) fn refill(&mut self) -> io::Result<Refill> {
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.scanned -= self.start;
        self.start = 0;
        if self.end > LINE_BYTES_MAX {
            return Ok(Refill::TooLong);
        }
        if self.end == self.buffer.len() {
            self.buffer.resize(self.buffer.len() * 2, 0);
        }
        let read = loop {
            match self.from.read(&mut self.buffer[self.end..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                done => break done?,
            }
        };
        self.end += read;
        self.bytes_read += read as u64;
        Ok(if read == 0 { Refill::Ended } else { Refill::More })
    }

    /// Bytes of the input that were read so far.
    pub(crate) fn bytes_read(&self) -> u64 {
        self.bytes_read
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives a few bytes at a time, as a pipe may.
    struct Dripping<'a>(&'a [u8], usize);

    impl Read for Dripping<'_> {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            let length = self.1.min(self.0.len()).min(into.len());
            let (now, later) = self.0.split_at(length);
            into[..length].copy_from_slice(now);
            self.0 = later;
            Ok(length)
        }
    }

    fn all(from: impl Read) -> Vec<Vec<u8>> {
        let mut lines = Lines::new(from);
        let mut found = Vec::new();
        loop {
            if let Some(line) = lines.next_buffered() {
                found.push(lines.bytes(line).to_vec());
                continue;
            }
            match lines.refill().unwrap() {
                Refill::More => {}
                Refill::Ended => break,
                Refill::TooLong => panic!("no line of these is too long"),
            }
        }
        let rest = lines.remainder();
        found.extend(rest.map(|line| lines.bytes(line).to_vec()));
        found
    }

    #[test]
    fn lines_are_those_of_the_obvious_split() {
        let long = vec![b'x'; 3 * BUFFER_BYTES + 17];
        let text = [b"a\n\nbc\n".as_slice(), &long, b"\nlast\r\nend"].concat();
        for (text, steps) in [(&text[..7], 1), (&text[..], 4096), (&text[..], usize::MAX), (b"", 1)]
        {
            let mut wanted: Vec<&[u8]> = text.split(|&byte| byte == b'\n').collect();
            // A line feed ends a line; it does not begin one.
            if wanted.last().is_some_and(|last| last.is_empty()) {
                wanted.pop();
            }
            assert_eq!(all(Dripping(text, steps)), wanted, "{steps}");
        }
    }

    #[test]
    fn a_line_longer_than_any_command_is_refused_in_bounded_memory() {
        let mut lines = Lines::new(io::repeat(b'x'));
        let ended = loop {
            assert_eq!(lines.next_buffered(), None);
            match lines.refill().unwrap() {
                Refill::More => {}
                other => break other,
            }
        };
        assert_eq!(ended, Refill::TooLong);
        assert!(lines.buffer.len() <= 2 * LINE_BYTES_MAX);
    }
}
