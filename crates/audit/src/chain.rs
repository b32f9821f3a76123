//! The chain: every record says which number it is and what came before it.
//!
//! ```text
//! line  = body ,"chain":{"seq":N,"prev":"P","hash":"H"}} \n
//! body  = prefix of the device, then the record's JSON without its last brace
//! P     = H of the record before, 64 zeros for the first
//! H     = SHA-256 over the line, from its first byte to the last digit of P (the quote that closes P is not in it)
//! ```
//! So a line that was edited does not match its own hash, one that was removed, inserted or moved
//! leaves a number and a `prev` that do not meet. Who may write the file may also write a whole new
//! chain, or cut its end: against that stand checkpoints, which are signed (`checkpoint`), the head that the
//! server remembers (`anchor`), and the one that it tells (`sys/audit-head`). The file that `docs/format.md` describes is written here and nowhere else.

use aws_lc_rs::digest;
use data_encoding::HEXLOWER;
use jiff::Timestamp;

use crate::text::{push_hex, push_number};

/// Bytes of a hash.
const HASH_BYTES: usize = 32;
/// Its text.
const HASH_CHARS: usize = 2 * HASH_BYTES;
const CHAIN: &[u8] = b",\"chain\":{\"seq\":";
const PREV: &[u8] = b",\"prev\":\"";
const HASH: &[u8] = b"\",\"hash\":\"";
const END: &[u8] = b"\"}}";
/// What every record begins with, behind the prefix of its device.
const TIME: &[u8] = b"{\"time\":\"";
/// What follows the time of every record.
const TYPE: &[u8] = b"\",\"type\":\"";
/// The types of records.
const TYPES: [&[u8]; 4] = [b"request\"", b"response\"", b"exchange\"", b"checkpoint\""];
/// Most characters of a record's time.
const TIME_CHARS_MAX: usize = 40;

/// A place in a chain: the number of a record, and its hash. Before the first record, zeros.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChainHead {
    /// The record's number, from 1.
    pub seq: u64,
    /// Its hash.
    pub hash: [u8; HASH_BYTES],
}

/// The links that a line shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Links {
    pub(crate) head: ChainHead,
    pub(crate) prev: [u8; HASH_BYTES],
    /// Whether the line's own hash is right.
    pub(crate) sound: bool,
}

impl ChainHead {
    /// The hash as text.
    pub fn hash_text(&self) -> String {
        HEXLOWER.encode(&self.hash)
    }

    /// Reads `SEQ:HASH`, as `sys/audit-head` tells them.
    pub fn parse(text: &str) -> Option<Self> {
        let (seq, hash) = text.split_once(':')?;
        Some(Self { seq: seq.parse().ok()?, hash: hash_of(hash.as_bytes())? })
    }

    /// Ends the line that starts at `start` of `out` and holds a body: adds its links and its end.
    /// Gives the new head.
    pub(crate) fn link(self, start: usize, out: &mut Vec<u8>) -> Self {
        let seq = self.seq + 1;
        out.extend_from_slice(CHAIN);
        push_number(i64::try_from(seq).unwrap_or(i64::MAX), out);
        out.extend_from_slice(PREV);
        push_hex(&self.hash, out);
        let hash = sha256(&out[start..]);
        out.extend_from_slice(HASH);
        push_hex(&hash, out);
        out.extend_from_slice(END);
        out.push(b'\n');
        Self { seq, hash }
    }
}

/// Bytes that the links add to a body, at the most.
pub(crate) const LINKS_BYTES_MAX: usize =
    CHAIN.len() + 20 + PREV.len() + HASH.len() + 2 * HASH_CHARS + END.len() + 1;

/// What a line holds before its links; `None` when it has none.
pub(crate) fn body(line: &[u8]) -> Option<&[u8]> {
    Some(split(line)?.0)
}

/// When the record of a line was written, as it says; `None` when it does not.
pub(crate) fn time(line: &[u8]) -> Option<Timestamp> {
    let at = line.windows(TIME.len()).position(|part| part == TIME)? + TIME.len();
    let end = at + line[at..].iter().position(|&byte| byte == b'"')?;
    std::str::from_utf8(&line[at..end]).ok()?.parse().ok()
}

/// Whether a line that has no end is one that a device with this prefix began, however little of it is there.
pub(crate) fn begins_a_record(line: &[u8], prefix: &str) -> bool {
    let opening = [prefix.as_bytes(), TIME].concat();
    let Some(rest) = line.strip_prefix(opening.as_slice()) else {
        return opening.starts_with(line);
    };
    let chars = rest.iter().take_while(|byte| b"0123456789-T:.Z".contains(byte)).count();
    let rest = &rest[chars..];
    if chars > TIME_CHARS_MAX || (!rest.is_empty() && time(line).is_none()) {
        return false;
    }
    let Some(rest) = rest.strip_prefix(TYPE) else {
        return TYPE.starts_with(rest);
    };
    TYPES.iter().any(|name| name.starts_with(rest) || rest.starts_with(name))
}

/// The links at the end of a line, which comes without its newline; `None` when it has none.
pub(crate) fn read(line: &[u8]) -> Option<Links> {
    split(line).map(|(_, links)| links)
}

fn split(line: &[u8]) -> Option<(&[u8], Links)> {
    let rest = line.strip_suffix(END)?;
    let (rest, hash) = split_hash(rest)?;
    let signed = rest.strip_suffix(HASH)?;
    let (rest, prev) = split_hash(signed)?;
    let rest = rest.strip_suffix(PREV)?;
    let digits = rest.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let (rest, seq) = rest.split_at(rest.len() - digits);
    let body = rest.strip_suffix(CHAIN)?;
    // One spelling per number: a leading zero is no number of ours.
    if seq.is_empty() || seq[0] == b'0' {
        return None;
    }
    let seq = std::str::from_utf8(seq).ok()?.parse().ok()?;
    Some((body, Links { head: ChainHead { seq, hash }, prev, sound: sha256(signed) == hash }))
}

fn split_hash(text: &[u8]) -> Option<(&[u8], [u8; HASH_BYTES])> {
    let (rest, hash) = text.split_at_checked(text.len().checked_sub(HASH_CHARS)?)?;
    Some((rest, hash_of(hash)?))
}

fn hash_of(text: &[u8]) -> Option<[u8; HASH_BYTES]> {
    HEXLOWER.decode(text).ok()?.try_into().ok()
}

fn sha256(bytes: &[u8]) -> [u8; HASH_BYTES] {
    let mut hash = [0; HASH_BYTES];
    hash.copy_from_slice(digest::digest(&digest::SHA256, bytes).as_ref());
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_linked_line_reads_back() {
        let mut out = b"earlier".to_vec();
        let head = ChainHead { seq: 9, hash: [3; 32] };
        let start = out.len();
        out.extend_from_slice(b"@cee: {\"time\":\"t\"");
        let next = head.link(start, &mut out);
        assert!(out.len() - start <= 17 + LINKS_BYTES_MAX);
        let line = out[start..].strip_suffix(b"\n").unwrap();
        let links = read(line).unwrap();
        assert_eq!(links, Links { head: next, prev: [3; 32], sound: true });
        assert_eq!(next.seq, 10);
        let text = format!("{}:{}", next.seq, next.hash_text());
        assert_eq!(ChainHead::parse(&text), Some(next));
    }

    /// Links are told from what a line says alone. A number in two spellings would make two lines with good hashes of one record.
    #[test]
    fn a_number_has_one_spelling() {
        let with_number = |number: &str| {
            let prev = HEXLOWER.encode(&[3; HASH_BYTES]);
            let signed = format!(r#"{{"time":"t","chain":{{"seq":{number},"prev":"{prev}"#);
            let hash = HEXLOWER.encode(&sha256(signed.as_bytes()));
            read(format!(r#"{signed}","hash":"{hash}"}}}}"#).as_bytes()).map(|links| {
                assert!(links.sound, "{number}");
                links.head.seq
            })
        };
        assert_eq!(with_number("7"), Some(7));
        assert_eq!(with_number("70"), Some(70));
        assert_eq!(with_number("18446744073709551615"), Some(u64::MAX));
        for other in ["", "0", "07", "00", "007", "+7", "-7", " 7", "18446744073709551616"] {
            assert_eq!(with_number(other), None, "{other:?}");
        }
    }

    /// A reader who has the document only: finds the example in it and does what it says.
    #[test]
    fn the_hash_of_the_documented_line_covers_what_the_document_says() {
        let document = include_str!("../../../docs/format.md");
        let line = document.lines().find(|line| line.starts_with(r#"{"time":"#)).unwrap();
        let at = line.find(r#"","hash":""#).unwrap();
        let (hashed, rest) = line.split_at(at);
        let prev = hashed.rsplit_once(r#""prev":""#).unwrap().1;
        assert!(prev.len() == HASH_CHARS && prev.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let told = &rest[HASH.len()..][..HASH_CHARS];
        assert_eq!(HEXLOWER.encode(&sha256(hashed.as_bytes())), told);
        assert!(read(line.as_bytes()).unwrap().sound);
        let with_quote = sha256(&line.as_bytes()[..=at]);
        assert_ne!(HEXLOWER.encode(&with_quote), told);
    }

    #[test]
    fn lines_of_others_have_no_links() {
        for line in ["", "{}", "{\"a\":1}", "\"}}", "{\"chain\":{\"seq\":1}}"] {
            assert_eq!(read(line.as_bytes()), None, "{line}");
        }
        for text in ["", "1", "1:", "x:00", ":"] {
            assert_eq!(ChainHead::parse(text), None, "{text}");
        }
    }
}
