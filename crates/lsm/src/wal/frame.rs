//! A frame: one commit group in the WAL.
//!
//! ```text
//! 0   checksum u32        masked CRC-32C of everything behind it, padding excluded
//! 4   payload length u32  never 0
//! 8   segment u64         the number of the segment it was written to
//! 16  first seqno u64     of the payload's first operation; the next ones follow
//! 24  operations u32
//! 28  format u32
//! 32  durable u64         bytes of the segment that were synced when this frame was written
//! 40  payload             encoded operations, then zeros up to a multiple of 8
//! ```
//!
//! Why it holds up:
//! - zeros are no frame: the length is never 0 and the checksum is masked;
//! - a frame of an earlier life of a recycled segment carries another segment number;
//! - `durable` tells a crash from damage: a frame behind a bad place proves damage only if it was written after that
//!   place was synced. Unsynced frames may reach the disk in any order, and that is not damage.
#![warn(clippy::indexing_slicing, clippy::cast_possible_truncation)]

use kallisto_codec::ByteReader;

use crate::checksum::mask;
use crate::limits::{BATCH_OPS_MAX, FRAME_BYTES_MAX, SEQNO_MAX};

/// Bytes before the payload.
pub(crate) const HEADER_BYTES: usize = 40;
/// Frames start at multiples of this.
pub(crate) const ALIGN_BYTES: usize = 8;
/// The number of this layout.
pub(crate) const FRAME_FORMAT: u32 = 1;
/// Where a header names its segment.
const SEGMENT_OFFSET: usize = 8;
/// Bytes of the checksum, which covers what follows it.
const CHECKSUM_BYTES: usize = 4;
/// The most operations in a group: what a full group held, and one more batch.
const OPS_MAX: usize = crate::limits::GROUP_BYTES_MAX + BATCH_OPS_MAX;

/// What a frame says before its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrameHeader {
    /// The segment it belongs to.
    pub(crate) segment: u64,
    /// The sequence number of its first operation.
    pub(crate) seqno_first: u64,
    /// How many operations it holds.
    pub(crate) ops: u32,
    /// How much of the segment was synced when it was written, in bytes.
    pub(crate) durable: u64,
}

/// A frame that passed its checksum.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame<'a> {
    /// What it says about itself.
    pub(crate) header: FrameHeader,
    /// Encoded operations.
    pub(crate) payload: &'a [u8],
    /// Its whole length with padding, in bytes.
    pub(crate) bytes: usize,
}

/// Starts a frame in an empty buffer; the payload is appended after it, then `finish` is called.
pub(crate) fn start(buffer: &mut Vec<u8>) {
    buffer.clear();
    buffer.resize(HEADER_BYTES, 0);
}

/// Fills in the header of a frame whose payload is in place, and pads it.
pub(crate) fn finish(buffer: &mut Vec<u8>, header: FrameHeader) {
    let payload = buffer.len().checked_sub(HEADER_BYTES).expect("the frame was started");
    assert!(payload > 0 && payload <= FRAME_BYTES_MAX, "a group has operations and a limit");
    let len = u32::try_from(payload).expect("FRAME_BYTES_MAX is below 4 GiB");
    let mut head = Vec::with_capacity(HEADER_BYTES);
    head.extend_from_slice(&[0; CHECKSUM_BYTES]);
    head.extend_from_slice(&len.to_le_bytes());
    head.extend_from_slice(&header.segment.to_le_bytes());
    head.extend_from_slice(&header.seqno_first.to_le_bytes());
    head.extend_from_slice(&header.ops.to_le_bytes());
    head.extend_from_slice(&FRAME_FORMAT.to_le_bytes());
    head.extend_from_slice(&header.durable.to_le_bytes());
    let (front, _) = buffer.split_at_mut(HEADER_BYTES);
    front.copy_from_slice(&head);
    let (_, covered) = buffer.split_at(CHECKSUM_BYTES);
    let sum = mask(crc32c::crc32c(covered));
    let (front, _) = buffer.split_at_mut(CHECKSUM_BYTES);
    front.copy_from_slice(&sum.to_le_bytes());
    buffer.resize(padded(buffer.len()), 0);
}

/// The frame at the start of `bytes`, if a whole and sound one of `segment` is there.
pub(crate) fn decode(bytes: &[u8], segment: u64) -> Option<Frame<'_>> {
    let mut reader = ByteReader::new(bytes);
    let sum = reader.u32()?;
    let payload_len = reader.u32()? as usize;
    if payload_len == 0 || payload_len > FRAME_BYTES_MAX || reader.u64()? != segment {
        return None;
    }
    let seqno_first = reader.u64()?;
    let ops = reader.u32()?;
    let format = reader.u32()?;
    let durable = reader.u64()?;
    let payload = reader.take(payload_len)?;
    let covered = bytes.get(CHECKSUM_BYTES..HEADER_BYTES + payload_len)?;
    if mask(crc32c::crc32c(covered)) != sum || format != FRAME_FORMAT {
        return None;
    }
    let ops_sound = ops > 0 && ops as usize <= OPS_MAX;
    let seqnos_sound = seqno_first > 0 && seqno_first <= SEQNO_MAX - u64::from(ops);
    let header = FrameHeader { segment, seqno_first, ops, durable };
    (ops_sound && seqnos_sound).then_some(Frame {
        header,
        payload,
        bytes: padded(HEADER_BYTES + payload_len),
    })
}

/// What the frame of `segment` that may start here takes, as its header has it; `None` if none can.
pub(crate) fn claimed_bytes(bytes: &[u8], segment: u64) -> Option<usize> {
    let mut reader = ByteReader::new(bytes.get(CHECKSUM_BYTES..)?);
    let payload_len = reader.u32()? as usize;
    let named = reader.u64()? == segment;
    (named && (1..=FRAME_BYTES_MAX).contains(&payload_len)).then_some(HEADER_BYTES + payload_len)
}

/// Where in `bytes`, which begin at a multiple of the alignment, the first place is whose header could be one of
/// `segment`: all that can be said without the checksum, and quickly. If there is none, how many of them it is not in.
pub(crate) fn find_named(bytes: &[u8], segment: u64) -> Result<usize, usize> {
    let named = segment.to_le_bytes();
    let (words, _) = bytes.get(SEGMENT_OFFSET..).unwrap_or_default().as_chunks::<ALIGN_BYTES>();
    let found = words.iter().position(|word| *word == named);
    found.map(|at| at * ALIGN_BYTES).ok_or(words.len() * ALIGN_BYTES)
}

/// `len` up to the next multiple of the alignment.
pub(crate) fn padded(len: usize) -> usize {
    len.next_multiple_of(ALIGN_BYTES)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::indexing_slicing, reason = "tests index what they built")]
    use super::*;

    fn frame() -> (Vec<u8>, FrameHeader) {
        let header = FrameHeader { segment: 9, seqno_first: 77, ops: 3, durable: 4096 };
        let mut buffer = Vec::new();
        start(&mut buffer);
        buffer.extend_from_slice(b"thirteen byte");
        finish(&mut buffer, header);
        (buffer, header)
    }

    #[test]
    fn a_frame_comes_back_and_every_flipped_byte_is_seen_or_padding() {
        let (bytes, header) = frame();
        let read = decode(&bytes, 9).unwrap();
        assert_eq!((read.header, read.payload, read.bytes), (header, &b"thirteen byte"[..], 56));
        assert_eq!(claimed_bytes(&bytes, 9), Some(53));
        assert_eq!((claimed_bytes(&bytes, 8), claimed_bytes(&bytes[..15], 9)), (None, None));
        for at in 0..HEADER_BYTES + 13 {
            let mut bad = bytes.clone();
            bad[at] ^= 1;
            assert!(decode(&bad, 9).is_none(), "byte {at}");
        }
        for len in 0..HEADER_BYTES + 13 {
            assert!(decode(&bytes[..len], 9).is_none());
        }
    }

    #[test]
    fn a_place_that_names_the_segment_is_found_and_no_frame_is_passed_over() {
        let (bytes, _) = frame();
        for zeros in [0, 8, 64, 800] {
            let behind = [vec![0; zeros], bytes.clone()].concat();
            assert_eq!(find_named(&behind, 9), Ok(zeros));
            assert_eq!(find_named(&behind, 8), Err(behind.len() - SEGMENT_OFFSET));
        }
        assert_eq!(find_named(&bytes[..SEGMENT_OFFSET], 9), Err(0));
        assert_eq!(find_named(&[], 9), Err(0));
    }

    /// A frame of one byte with this header.
    fn framed(seqno_first: u64, ops: u32) -> Vec<u8> {
        let mut buffer = Vec::new();
        start(&mut buffer);
        buffer.push(1);
        finish(&mut buffer, FrameHeader { segment: 9, seqno_first, ops, durable: 0 });
        buffer
    }

    /// Gives a frame of `payload` bytes that was changed the checksum of what it is now.
    fn resealed(mut bytes: Vec<u8>, payload: usize) -> Vec<u8> {
        let sum = mask(crc32c::crc32c(&bytes[CHECKSUM_BYTES..HEADER_BYTES + payload]));
        bytes[..CHECKSUM_BYTES].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    #[test]
    fn a_good_checksum_alone_makes_no_frame() {
        let most = u32::try_from(OPS_MAX).unwrap();
        let last = SEQNO_MAX - u64::from(most);
        for (seqno, ops) in [(1, 1), (1, most), (last, most), (SEQNO_MAX - 1, 1)] {
            assert!(decode(&framed(seqno, ops), 9).is_some(), "{ops} operations from {seqno} on");
        }
        for (seqno, ops) in [(1, 0), (1, most + 1), (0, 1), (last + 1, most), (SEQNO_MAX, 1)] {
            assert!(decode(&framed(seqno, ops), 9).is_none(), "{ops} operations from {seqno} on");
        }
        let mut empty = framed(1, 1);
        empty[4..8].copy_from_slice(&0u32.to_le_bytes());
        assert!(decode(&resealed(empty, 0), 9).is_none(), "no payload");
        let mut newer = framed(1, 1);
        newer[28..32].copy_from_slice(&(FRAME_FORMAT + 1).to_le_bytes());
        assert!(decode(&resealed(newer, 1), 9).is_none(), "another format");
    }

    #[test]
    fn the_longest_payload_comes_back_and_a_longer_one_does_not() {
        let header = FrameHeader { segment: 9, seqno_first: 1, ops: 1, durable: 0 };
        let mut bytes = Vec::new();
        start(&mut bytes);
        bytes.resize(HEADER_BYTES + FRAME_BYTES_MAX, 0);
        finish(&mut bytes, header);
        assert_eq!(decode(&bytes, 9).map(|frame| frame.payload.len()), Some(FRAME_BYTES_MAX));
        assert_eq!(claimed_bytes(&bytes, 9), Some(HEADER_BYTES + FRAME_BYTES_MAX));
        let longer = FRAME_BYTES_MAX + 1;
        bytes.resize(HEADER_BYTES + longer, 0);
        bytes[4..8].copy_from_slice(&u32::try_from(longer).unwrap().to_le_bytes());
        let bytes = resealed(bytes, longer);
        assert!(decode(&bytes, 9).is_none());
        assert_eq!(claimed_bytes(&bytes, 9), None);
    }

    #[test]
    fn zeros_and_other_lives_are_no_frames() {
        assert!(decode(&[0; 4096], 0).is_none());
        assert!(decode(&frame().0, 8).is_none());
    }
}
