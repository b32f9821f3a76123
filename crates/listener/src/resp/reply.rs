//! What a Redis client reads: replies in version 2 or 3 of the protocol.
//!
//! Version 3 has a null of its own, maps and booleans (redis.io, "Redis serialization protocol
//! specification"); to a client of version 2 they are what they always were: a null bulk string, a flat
//! array, a number.

use std::ops::Range;

use kallisto_core::json::write_u64;

use crate::buffer_pool;
use crate::pending_replies::replace;

/// The version of the protocol that a client asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum RespVersion {
    /// What every client starts with.
    #[default]
    Two,
    /// After `HELLO 3`.
    Three,
}

/// Replies on their way out.
#[derive(Default)]
pub(super) struct Replies {
    bytes: Vec<u8>,
    pub(super) protocol: RespVersion,
}

impl Replies {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Takes the worker's room, for replies that come now.
    pub(super) fn borrow_room(&mut self) {
        if self.bytes.capacity() == 0 {
            self.bytes = buffer_pool::borrow();
        }
    }

    /// Gives it back: a connection that waits holds none.
    pub(super) fn return_room(&mut self) {
        buffer_pool::give_back(self.take());
    }

    /// Takes the replies, in the room they are in.
    pub(super) fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }

    /// Takes back what was written from `start` on.
    pub(super) fn take_back(&mut self, start: usize) {
        buffer_pool::wipe(&mut self.bytes[start..]);
        self.bytes.truncate(start);
    }

    /// Puts `instead` in the place of those that are held.
    pub(super) fn replace(&mut self, held: &[Range<usize>], instead: &[u8]) {
        self.bytes = replace(held, self.take(), instead);
    }

    fn line(&mut self, mark: u8, text: &str) {
        self.bytes.push(mark);
        // A line ends the reply: nothing in it may.
        self.bytes.extend(text.bytes().map(|byte| if byte < 0x20 { b' ' } else { byte }));
        self.bytes.extend_from_slice(b"\r\n");
    }

    fn counted(&mut self, mark: u8, count: usize) {
        self.bytes.push(mark);
        write_u64(count as u64, &mut self.bytes);
        self.bytes.extend_from_slice(b"\r\n");
    }

    pub(super) fn ok(&mut self) {
        self.bytes.extend_from_slice(b"+OK\r\n");
    }

    pub(super) fn simple(&mut self, text: &str) {
        self.line(b'+', text);
    }

    /// An error: a word that programs read, then text for people.
    pub(super) fn error(&mut self, word: &str, text: &str) {
        self.line(b'-', &format!("{word} {text}"));
    }

    pub(super) fn bulk(&mut self, bytes: &[u8]) {
        self.counted(b'$', bytes.len());
        self.bytes.extend_from_slice(bytes);
        self.bytes.extend_from_slice(b"\r\n");
    }

    /// A bulk string of at most so many bytes, which `write` appends; nothing, and `None`, when that says so.
    pub(super) fn bulk_with(
        &mut self,
        length_max: usize,
        write: impl FnOnce(&mut Vec<u8>) -> Option<()>,
    ) -> Option<()> {
        let start = self.bytes.len();
        self.counted(b'$', length_max);
        let head = start..self.bytes.len();
        if write(&mut self.bytes).is_none() {
            self.take_back(start);
            return None;
        }
        let length = self.bytes.len() - head.end;
        if length != length_max && !self.recount(&head, length) {
            let mut counted = Self::default();
            counted.counted(b'$', length);
            let end = self.bytes.len();
            self.bytes.splice(head, counted.take());
            // No byte of the text stays behind the reply, which is shorter by some digits.
            let reply_end = self.bytes.len();
            self.bytes.resize(end, 0);
            self.bytes.truncate(reply_end);
        }
        self.bytes.extend_from_slice(b"\r\n");
        Some(())
    }

    /// Writes another number into a head; false when it has fewer digits.
    fn recount(&mut self, head: &Range<usize>, length: usize) -> bool {
        let digits = &mut self.bytes[head.start + 1..head.end - b"\r\n".len()];
        let mut rest = length;
        for digit in digits.iter_mut().rev() {
            *digit = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        digits.len() == 1 || digits[0] != b'0'
    }

    pub(super) fn integer(&mut self, number: i64) {
        self.bytes.push(b':');
        if number < 0 {
            self.bytes.push(b'-');
        }
        write_u64(number.unsigned_abs(), &mut self.bytes);
        self.bytes.extend_from_slice(b"\r\n");
    }

    pub(super) fn null(&mut self) {
        self.bytes.extend_from_slice(match self.protocol {
            RespVersion::Two => b"$-1\r\n",
            RespVersion::Three => b"_\r\n",
        });
    }

    /// The start of an array of `count` replies.
    pub(super) fn array(&mut self, count: usize) {
        self.counted(b'*', count);
    }

    /// The start of a map of `count` pairs.
    pub(super) fn map(&mut self, count: usize) {
        match self.protocol {
            RespVersion::Two => self.counted(b'*', 2 * count),
            RespVersion::Three => self.counted(b'%', count),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bulk_string_is_counted_once_it_is_written() {
        for (length_max, text) in [
            (3, "abc"),
            (9, "abc"),
            (10, "abc"),
            (12, "0123456789"),
            (100, "abc"),
            (100, "0123456789"),
            (10, "0123456789"),
            (1_000, ""),
            (1_000_000, "abc"),
        ] {
            let mut replies = Replies::default();
            replies.null();
            let write = |out: &mut Vec<u8>| {
                out.extend_from_slice(text.as_bytes());
                Some(())
            };
            assert_eq!(replies.bulk_with(length_max, write), Some(()));
            let mut expected = Replies::default();
            expected.null();
            expected.bulk(text.as_bytes());
            assert_eq!(replies.bytes(), expected.bytes());
        }
        let mut replies = Replies::default();
        replies.ok();
        let write = |out: &mut Vec<u8>| {
            out.extend_from_slice(b"half");
            None
        };
        assert_eq!(replies.bulk_with(4, write), None);
        assert_eq!(replies.bytes(), b"+OK\r\n");
    }

    #[test]
    fn each_version_has_its_forms() {
        let write = |protocol| {
            let mut replies = Replies { protocol, ..Replies::default() };
            replies.map(1);
            replies.bulk(b"a");
            replies.null();
            replies.integer(-12);
            replies.error("ERR", "two\r\nlines");
            String::from_utf8(replies.bytes().to_vec()).unwrap()
        };
        assert_eq!(write(RespVersion::Two), "*2\r\n$1\r\na\r\n$-1\r\n:-12\r\n-ERR two  lines\r\n");
        assert_eq!(write(RespVersion::Three), "%1\r\n$1\r\na\r\n_\r\n:-12\r\n-ERR two  lines\r\n");
    }
}
