//! Frames, and the hello with which a connection starts.
//!
//! ```text
//! frame   := length u32 | kind u8 | payload        the length counts kind and payload, at most FRAME_BYTES_MAX
//! kind    := 1 hello | 2 message | 3 chunk | 4 end | 5 request | 6 answer | 7 place | 8 gone | 9 removed
//! hello   := "KPEER" | version u8 (1) | lane u8 (1 messages, 2 snapshot, 3 requests, 4 rest of a snapshot) | store id 16 bytes | from u64 | to u64
//!            | name | cluster address | api address        each text: length u16 | bytes, at most 512
//! request := number u64 | bytes                     an answer has the number of its request
//! ```
//!
//! Integers are little-endian. [`split`] is a total function of bytes: it gives a frame, asks for more, or refuses.
#![warn(clippy::indexing_slicing, clippy::cast_possible_truncation)]

use bytes::{Buf, BufMut, Bytes, BytesMut};
use kallisto_store::{PEER_TEXT_BYTES_MAX, Peer};
use tokio::io::{AsyncRead, AsyncReadExt};

use crate::limits::FRAME_BYTES_MAX;

const MAGIC: &[u8; 5] = b"KPEER";
const VERSION: u8 = 1;
const LENGTH_BYTES: usize = 4;

/// What a frame carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FrameKind {
    Hello = 1,
    Message = 2,
    Chunk = 3,
    End = 4,
    Request = 5,
    Answer = 6,
    /// Where in a snapshot its fetch broke off.
    Place = 7,
    /// That snapshot is not held any more.
    Gone = 8,
    /// Whoever dialled was a member, and is none any more.
    Removed = 9,
}

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LinkPurpose {
    Messages = 1,
    Snapshot = 2,
    Requests = 3,
    /// A place comes behind the hello, and chunks from there.
    Rest = 4,
}

/// Who speaks, to whom, and what about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hello {
    pub(crate) lane: LinkPurpose,
    pub(crate) store_id: [u8; 16],
    pub(crate) to: u64,
    /// The speaker as it wants to be known.
    pub(crate) from: Peer,
}

/// Appends a frame.
pub(crate) fn put(out: &mut BytesMut, kind: FrameKind, parts: &[&[u8]]) {
    let bytes: usize = 1 + parts.iter().map(|part| part.len()).sum::<usize>();
    out.reserve(LENGTH_BYTES + bytes);
    out.put_u32_le(u32::try_from(bytes).unwrap_or(u32::MAX));
    out.put_u8(kind as u8);
    parts.iter().for_each(|part| out.extend_from_slice(part));
}

/// Takes the first frame off `bytes`; `None` asks for more bytes.
///
/// # Errors
/// What is wrong with it; the connection is worth nothing then.
pub(crate) fn split(bytes: &mut BytesMut) -> Result<Option<(FrameKind, Bytes)>, &'static str> {
    let Some(length) = bytes.first_chunk::<LENGTH_BYTES>() else { return Ok(None) };
    let length = u32::from_le_bytes(*length) as usize;
    if length == 0 || length > FRAME_BYTES_MAX {
        return Err("a frame over its limit");
    }
    if bytes.len() < LENGTH_BYTES + length {
        // Room for the rest, but never for more than has been promised within the limit.
        bytes.reserve(LENGTH_BYTES + length - bytes.len());
        return Ok(None);
    }
    bytes.advance(LENGTH_BYTES);
    let mut frame = bytes.split_to(length);
    let kind = match frame.get_u8() {
        1 => FrameKind::Hello,
        2 => FrameKind::Message,
        3 => FrameKind::Chunk,
        4 => FrameKind::End,
        5 => FrameKind::Request,
        6 => FrameKind::Answer,
        7 => FrameKind::Place,
        8 => FrameKind::Gone,
        9 => FrameKind::Removed,
        _ => return Err("a frame of an unknown kind"),
    };
    Ok(Some((kind, frame.freeze())))
}

/// Reads the next frame; `None` at the end of the stream.
pub(crate) async fn read(
    stream: &mut (impl AsyncRead + Unpin),
    buffer: &mut BytesMut,
) -> std::io::Result<Option<(FrameKind, Bytes)>> {
    loop {
        if let Some(frame) = split(buffer).map_err(std::io::Error::other)? {
            return Ok(Some(frame));
        }
        if stream.read_buf(buffer).await? == 0 {
            return Ok(None);
        }
    }
}

impl Hello {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&[VERSION, self.lane as u8]);
        out.extend_from_slice(&self.store_id);
        out.put_u64_le(self.from.id);
        out.put_u64_le(self.to);
        for text in [&self.from.name, &self.from.cluster_address, &self.from.api_address] {
            let text = text.get(..PEER_TEXT_BYTES_MAX).unwrap_or(text);
            out.put_u16_le(u16::try_from(text.len()).unwrap_or_default());
            out.extend_from_slice(text.as_bytes());
        }
        out
    }

    /// The hello in `bytes`; `None` if they are none.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut rest = bytes.strip_prefix(MAGIC)?;
        if rest.try_get_u8().ok()? != VERSION {
            return None;
        }
        let lane = match rest.try_get_u8().ok()? {
            1 => LinkPurpose::Messages,
            2 => LinkPurpose::Snapshot,
            3 => LinkPurpose::Requests,
            4 => LinkPurpose::Rest,
            _ => return None,
        };
        let store_id = *rest.first_chunk::<16>()?;
        rest.advance(16);
        let id = rest.try_get_u64_le().ok().filter(|&id| id != 0)?;
        let to = rest.try_get_u64_le().ok()?;
        let name = text(&mut rest)?;
        let cluster_address = text(&mut rest)?;
        let api_address = text(&mut rest)?;
        let from = Peer { id, name, cluster_address, api_address, ..Peer::default() };
        rest.is_empty().then_some(Self { lane, store_id, to, from })
    }
}

fn text(rest: &mut &[u8]) -> Option<String> {
    let length = usize::from(rest.try_get_u16_le().ok()?);
    if length > PEER_TEXT_BYTES_MAX {
        return None;
    }
    let (text, after) = rest.split_at_checked(length)?;
    *rest = after;
    String::from_utf8(text.to_vec()).ok()
}

/// Takes whatever it is given apart: a target of the fuzzers. What is understood is written as the same bytes again.
#[cfg(any(test, feature = "fuzz"))]
pub fn parse_hostile(bytes: &[u8]) {
    let mut rest = BytesMut::from(bytes);
    let mut at = 0;
    while let Ok(Some((kind, payload))) = split(&mut rest) {
        let mut again = BytesMut::new();
        put(&mut again, kind, &[&payload]);
        assert_eq!(bytes.get(at..at + again.len()), Some(&again[..]), "one encoding of a frame");
        at += again.len();
        if let Some(hello) = Hello::decode(&payload) {
            assert_eq!(hello.encode(), payload, "one encoding of a hello");
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::indexing_slicing, reason = "tests index what they built")]
    use super::*;

    fn hello() -> Hello {
        let (name, cluster_address) = ("node-7".to_owned(), "127.0.0.1:8201".to_owned());
        let api_address = "https://127.0.0.1:8200".to_owned();
        let from = Peer { id: 7, name, cluster_address, api_address, ..Peer::default() };
        Hello { lane: LinkPurpose::Requests, store_id: [5; 16], to: 9, from }
    }

    #[test]
    fn frames_and_hellos_come_back_however_they_are_cut() {
        let mut out = BytesMut::new();
        put(&mut out, FrameKind::Hello, &[&hello().encode()]);
        put(&mut out, FrameKind::Request, &[&7_u64.to_le_bytes(), b"bytes"]);
        parse_hostile(&out);
        for cut in 0..out.len() {
            let mut rest = BytesMut::from(&out[..cut]);
            let mut frames = Vec::new();
            while let Some(frame) = split(&mut rest).unwrap() {
                frames.push(frame);
            }
            rest.extend_from_slice(&out[cut..]);
            while let Some(frame) = split(&mut rest).unwrap() {
                frames.push(frame);
            }
            assert_eq!(frames.len(), 2);
            assert_eq!(Hello::decode(&frames[0].1), Some(hello()));
        }
    }

    #[test]
    fn hellos_that_are_cut_or_of_another_version_are_refused() {
        let bytes = hello().encode();
        for cut in 0..bytes.len() {
            assert_eq!(Hello::decode(&bytes[..cut]), None);
        }
        let mut other = bytes.clone();
        other[5] = 2;
        assert_eq!(Hello::decode(&other), None);
    }

    #[test]
    fn a_length_over_the_limit_is_refused_before_anything_is_kept_for_it() {
        for length in [0, u32::MAX, u32::try_from(FRAME_BYTES_MAX).unwrap() + 1] {
            let mut bytes = BytesMut::from(&length.to_le_bytes()[..]);
            assert!(split(&mut bytes).is_err());
            assert!(bytes.capacity() < 1 << 16);
        }
    }
}
