//! Reading WAL segments back after a crash.
//!
//! Segments are read by rising number. In each, frames are taken until the first bad one. Then the question is whether
//! that is the end of what was acknowledged or damage:
//!
//! - a frame behind the bad place that was written after the place had been synced (`durable`) proves damage;
//! - a later segment whose first frame does not continue the sequence numbers proves damage, because a segment is
//!   synced before the next one is used (unless all that is missing is in SSTs);
//! - otherwise it is the torn or unwritten tail: the log ends here.
//!
//! Damage is an error that names file and offset; nothing is skipped silently.
//!
//! [`read`] knows frames only and asks a [`Visitor`] what they mean; [`recover`] is the engine's own reading.

use std::path::Path;

use super::frame::{self, ALIGN_BYTES, Frame};
use crate::batch::{Operation, Operations};
use crate::disk::{Disk, read_all_into};
use crate::error::{Error, Result};
use crate::limits::SEGMENT_BYTES_MAX;
use crate::names;

/// What reading all segments found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Recovered {
    /// Segments that hold frames, oldest first.
    pub(crate) used: Vec<u64>,
    /// Segments without a frame of their own.
    pub(crate) unused: Vec<u64>,
    /// Frames read.
    pub(crate) frames: u64,
    /// Where the last used segment's frames end, in bytes.
    pub(crate) end: u64,
}

/// What makes sense of the frames that [`read`] finds.
pub(crate) trait Visitor {
    /// Takes the frame at `at` of segment `number`.
    fn frame(&mut self, path: &Path, number: u64, at: u64, frame: &Frame<'_>) -> Result<()>;

    /// Judges a segment that does not continue the one before it, or that comes first; `starts` is its first sequence
    /// number. What was read so far is not part of the log if the answer is [`Start::Afresh`].
    fn start(&mut self, path: &Path, before: Option<&Tail>, starts: u64) -> Result<Start>;
}

/// What a segment is that does not continue the one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    /// Part of the log.
    Continues,
    /// Where the log starts: what was read before is left over from a purge.
    Afresh,
}

/// Reads `segments`, sorted by number.
pub(crate) fn read(
    disk: &dyn Disk,
    dir: &Path,
    segments: &[u64],
    visitor: &mut dyn Visitor,
) -> Result<Recovered> {
    let mut recovered = Recovered::default();
    let mut tail: Option<Tail> = None;
    // One buffer for all: fresh memory for each would cost more than the reading.
    let mut bytes = Vec::new();
    for &number in segments {
        let path = names::wal(dir, number);
        read_all_into(disk, &path, SEGMENT_BYTES_MAX, &mut bytes)
            .map_err(|error| Error::io("read", &path, &error))?;
        let segment = Segment { path: &path, number, bytes: &bytes };
        let Some(first) = frame::decode(&bytes, number) else {
            segment.refuse_if_frames_follow(0)?;
            recovered.unused.push(number);
            continue;
        };
        let starts = first.header.seqno_first;
        if tail.as_ref().is_none_or(|tail| tail.seqno_next != starts)
            && visitor.start(&path, tail.as_ref(), starts)? == Start::Afresh
        {
            recovered.unused.append(&mut recovered.used);
        }
        let ended = segment.replay(&mut recovered.frames, visitor)?;
        recovered.used.push(number);
        recovered.end = ended.end;
        tail = Some(ended);
    }
    Ok(recovered)
}

/// Reads `segments` (sorted by number) and hands each operation with its sequence number and segment to `apply`.
/// `seqno_needed` is the first sequence number that is not in an SST: the log must not start later. Older ones may come
/// and are handed on.
pub(crate) fn recover(
    disk: &dyn Disk,
    dir: &Path,
    segments: &[u64],
    seqno_needed: u64,
    apply: impl FnMut(u64, u64, Operation<'_>) -> Result<()>,
) -> Result<Recovered> {
    read(disk, dir, segments, &mut Replay { dir, seqno_needed, apply })
}

/// The engine's reading: a frame holds operations, and each has a sequence number.
struct Replay<'a, A> {
    dir: &'a Path,
    seqno_needed: u64,
    apply: A,
}

impl<A: FnMut(u64, u64, Operation<'_>) -> Result<()>> Visitor for Replay<'_, A> {
    fn frame(&mut self, path: &Path, number: u64, at: u64, frame: &Frame<'_>) -> Result<()> {
        let damaged = || Error::corrupt(path, at, "operations of a frame");
        let mut left = frame.header.ops;
        for (seqno, operation) in (frame.header.seqno_first..).zip(Operations::new(frame.payload)) {
            left = left.checked_sub(1).ok_or_else(damaged)?;
            (self.apply)(number, seqno, operation.ok_or_else(damaged)?)?;
        }
        if left == 0 { Ok(()) } else { Err(damaged()) }
    }

    /// Frames may be missing if a flush made them unnecessary before they were synced.
    fn start(&mut self, path: &Path, before: Option<&Tail>, starts: u64) -> Result<Start> {
        let what = "frames are missing here";
        let forward = before.is_none_or(|tail| starts > tail.seqno_next);
        match before {
            _ if forward && starts <= self.seqno_needed => Ok(Start::Continues),
            Some(tail) => Err(Error::corrupt(&names::wal(self.dir, tail.number), tail.end, what)),
            None => Err(Error::corrupt(path, 0, what)),
        }
    }
}

/// Where a segment's sound frames end.
pub(crate) struct Tail {
    /// The segment.
    pub(crate) number: u64,
    /// The sequence number that comes next.
    pub(crate) seqno_next: u64,
    /// The length of its sound frames, in bytes.
    pub(crate) end: u64,
}

struct Segment<'a> {
    path: &'a Path,
    number: u64,
    bytes: &'a [u8],
}

impl Segment<'_> {
    fn replay(&self, frames: &mut u64, visitor: &mut dyn Visitor) -> Result<Tail> {
        let mut at = 0;
        let mut seqno_next = None;
        while let Some(frame) = frame::decode(&self.bytes[at..], self.number) {
            let first = frame.header.seqno_first;
            if seqno_next.is_some_and(|next| next != first) {
                return Err(Error::corrupt(self.path, at as u64, "sequence numbers do not follow"));
            }
            visitor.frame(self.path, self.number, at as u64, &frame)?;
            seqno_next = Some(first + u64::from(frame.header.ops));
            at = (at + frame.bytes).min(self.bytes.len());
            *frames += 1;
        }
        self.refuse_if_frames_follow(at)?;
        let seqno_next = seqno_next.expect("the first frame was sound");
        Ok(Tail { number: self.number, seqno_next, end: at as u64 })
    }

    /// Looks behind a bad place for a frame that was written after the place was synced.
    fn refuse_if_frames_follow(&self, bad: usize) -> Result<()> {
        let mut at = bad.next_multiple_of(ALIGN_BYTES);
        while let Some(rest) = self.bytes.get(at..) {
            // What follows is zeros for the most part; only what names this segment is looked at.
            let Some(skipped) = frame::find_named(rest, self.number) else { break };
            at += skipped;
            match frame::decode(&self.bytes[at..], self.number) {
                Some(found) if found.header.durable > bad as u64 => {
                    return Err(Error::corrupt(self.path, bad as u64, "frame"));
                }
                Some(found) => at += found.bytes,
                None => at += ALIGN_BYTES,
            }
        }
        Ok(())
    }
}
