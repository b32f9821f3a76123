//! Second readers of what a connection begins with and of what Redis clients send: targets of the fuzzers, which compare them with the first.
//!
//! Each function takes any bytes and panics when a promise breaks. The readers here are the plain ones: they look at the whole input, and
//! take their time.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use kallisto_core::Json;
use kallisto_core::json::parse;

use crate::proxy_protocol::{self, SIGNATURE};
use crate::resp::{glob, unescape};

/// Bytes of a pattern and of a text that are looked at: the plain reader takes as long as both together.
const GLOB_BYTES_MAX: usize = 512;

/// A header of the PROXY protocol: read as its bytes say, whole or not at all, and nothing behind it is taken.
pub fn proxy_header(bytes: &[u8]) {
    let Ok((client, taken)) = read_header(bytes) else {
        // Of a line of version 1 that names nobody we refuse more than the specification does.
        assert_eq!(line(bytes).and_then(|(client, _)| client), None, "a header was refused");
        return;
    };
    let said = match bytes.strip_prefix(SIGNATURE) {
        Some(rest) => binary(rest),
        None => line(bytes),
    };
    assert_eq!(said, Some((client, taken)));
    for cut in 0..taken {
        assert!(read_header(&bytes[..cut]).is_err(), "a part of it, of {cut} bytes");
    }
}

type HeaderRead = (Option<SocketAddr>, usize);

fn read_header(bytes: &[u8]) -> Result<HeaderRead, ()> {
    let mut rest = bytes;
    let polled =
        pin!(proxy_protocol::header(&mut rest)).poll(&mut Context::from_waker(Waker::noop()));
    match polled {
        Poll::Ready(read) => read.map(|client| (client, bytes.len() - rest.len())).map_err(drop),
        Poll::Pending => panic!("bytes in memory are all there"),
    }
}

/// Version 1 (haproxy, `proxy-protocol.txt`, 2.1); `None` for what is none.
fn line(bytes: &[u8]) -> Option<HeaderRead> {
    let end = bytes.windows(2).position(|pair| pair == b"\r\n")? + 2;
    if end > 107 {
        return None;
    }
    // What follows is nobody's, whatever it is.
    if bytes.starts_with(b"PROXY UNKNOWN ") {
        return Some((None, end));
    }
    let text = std::str::from_utf8(bytes.get(..end)?).ok()?.strip_suffix("\r\n")?;
    let words: Vec<&str> = text.split(' ').collect();
    let port = |word: &str| {
        let number = word.parse::<u16>().ok();
        // One spelling of each: no sign, no zeros before it.
        number.filter(|number| number.to_string() == word)
    };
    match words.as_slice() {
        ["PROXY", "UNKNOWN"] => Some((None, end)),
        ["PROXY", family, source, target, from, to] => {
            let ip = |word: &str| match *family {
                "TCP4" => word.parse::<Ipv4Addr>().ok().map(IpAddr::from),
                "TCP6" => word.parse::<Ipv6Addr>().ok().map(IpAddr::from),
                _ => None,
            };
            ip(target)?;
            port(to)?;
            Some((Some(SocketAddr::new(ip(source)?.to_canonical(), port(from)?)), end))
        }
        _ => None,
    }
}

/// Version 2 behind its signature (2.2).
fn binary(rest: &[u8]) -> Option<HeaderRead> {
    let [command, family, high, low, addresses @ ..] = rest else { return None };
    let length = usize::from(u16::from_be_bytes([*high, *low]));
    let addresses = addresses.get(..length)?;
    let port = |at: usize| Some(u16::from_be_bytes([*addresses.get(at)?, *addresses.get(at + 1)?]));
    let client = match (command, family >> 4) {
        (0x20, _) | (0x21, 0 | 3) => None,
        (0x21, 1) => {
            let source: [u8; 4] = addresses.get(..4)?.try_into().ok()?;
            Some((IpAddr::from(source), port(8)?))
        }
        (0x21, 2) => {
            let source: [u8; 16] = addresses.get(..16)?.try_into().ok()?;
            Some((IpAddr::from(source), port(32)?))
        }
        _ => return None,
    };
    let client = client.map(|(ip, port)| SocketAddr::new(ip.to_canonical(), port));
    Some((client, SIGNATURE.len() + 4 + length))
}

/// A pattern and a text, with 0xff between them, or the inside of a string of JSON, as the first byte says.
pub fn redis_text(bytes: &[u8]) {
    let Some((which, rest)) = bytes.split_first() else { return };
    match which % 2 {
        0 => pattern(rest),
        _ => string(rest),
    }
}

fn pattern(bytes: &[u8]) {
    let mut parts = bytes.splitn(2, |byte| *byte == 0xff);
    let (Some(pattern), Some(text)) = (parts.next(), parts.next()) else { return };
    if pattern.len() > GLOB_BYTES_MAX || text.len() > GLOB_BYTES_MAX {
        return;
    }
    let is_match = glob::matches(pattern, text);
    assert_eq!(is_match, stands_for(&pattern_parts(pattern), text), "{pattern:?} {text:?}");
    if let Ok(pattern) = std::str::from_utf8(pattern) {
        // What is listed is this folder alone.
        assert!(!is_match || text.starts_with(glob::folder(pattern).as_bytes()), "{pattern:?}");
    }
}

/// A part of a pattern.
enum GlobPart {
    Star,
    One { ranges: Vec<(u8, u8)>, is_negated: bool },
}

fn pattern_parts(pattern: &[u8]) -> Vec<GlobPart> {
    let one = |low, high| GlobPart::One { ranges: vec![(low, high)], is_negated: false };
    let mut parts = Vec::new();
    let mut rest = pattern;
    while let Some((&first, behind)) = rest.split_first() {
        rest = behind;
        match first {
            b'*' => parts.push(GlobPart::Star),
            b'?' => parts.push(one(0, u8::MAX)),
            b'\\' if !rest.is_empty() => {
                parts.push(one(rest[0], rest[0]));
                rest = &rest[1..];
            }
            b'[' => {
                let is_negated = rest.first() == Some(&b'^');
                rest = &rest[usize::from(is_negated)..];
                let mut ranges = Vec::new();
                loop {
                    let (range, length) = match *rest {
                        [] => break,
                        [b']', ..] => {
                            rest = &rest[1..];
                            break;
                        }
                        [b'\\', same, ..] => ((same, same), 2),
                        [low, b'-', high, ..] => ((low.min(high), low.max(high)), 3),
                        [same, ..] => ((same, same), 1),
                    };
                    ranges.push(range);
                    rest = &rest[length..];
                }
                parts.push(GlobPart::One { ranges, is_negated });
            }
            same => parts.push(one(same, same)),
        }
    }
    parts
}

/// Keeps every place of the pattern that the text may have come to.
fn stands_for(parts: &[GlobPart], text: &[u8]) -> bool {
    let mut here = vec![false; parts.len() + 1];
    here[0] = true;
    let pass_stars = |here: &mut Vec<bool>| {
        for (at, part) in parts.iter().enumerate() {
            here[at + 1] |= here[at] && matches!(part, GlobPart::Star);
        }
    };
    pass_stars(&mut here);
    for byte in text {
        let mut next = vec![false; parts.len() + 1];
        for (at, part) in parts.iter().enumerate().filter(|(at, _)| here[*at]) {
            match part {
                GlobPart::Star => next[at] = true,
                GlobPart::One { ranges, is_negated } => {
                    let is_in = ranges.iter().any(|(low, high)| (low..=high).contains(&byte));
                    next[at + 1] |= is_in != *is_negated;
                }
            }
        }
        here = next;
        pass_stars(&mut here);
    }
    here[parts.len()]
}

/// The inside of a string: the characters are those of the tree, and no more bytes than the text.
fn string(inner: &[u8]) {
    let mut characters = Vec::new();
    let read = unescape::unescape_into(inner, &mut characters);
    assert!(characters.len() <= inner.len());
    if let Ok(Json::String(text)) = parse(&[b"\"", inner, b"\""].concat()) {
        assert_eq!(read.map(|()| characters), Some(text.into_bytes()));
    }
}
