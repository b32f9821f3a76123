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
use std::sync::Arc;

use super::frame::{self, ALIGN_BYTES, Frame, HEADER_BYTES};
use crate::batch::{BatchOperation, Operations};
use crate::disk::{Disk, DiskFile, OpenFor, read_full_at};
use crate::error::{Error, Result};
use crate::limits::SEGMENT_BYTES_MAX;
use crate::names;

/// Bytes read at a time, unless a frame is longer: a segment is zeros for the most part, and they are looked at in what
/// fits the processor's cache and not in fresh memory of a segment's size.
const WINDOW_BYTES: usize = if cfg!(test) { 64 } else { 256 << 10 };

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
    /// number. What was read so far is not part of the log if the answer is [`SegmentStart::Afresh`].
    fn start(
        &mut self,
        path: &Path,
        before: Option<&SoundTail>,
        starts: u64,
    ) -> Result<SegmentStart>;
}

/// What a segment is that does not continue the one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SegmentStart {
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
    let mut tail: Option<SoundTail> = None;
    let mut window = Vec::new();
    for &number in segments {
        let path = names::wal(dir, number);
        let mut segment = SegmentWindow::open(disk, &path, number, &mut window)?;
        let Some(first) = segment.frame(0)? else {
            segment.refuse_if_frames_follow(0)?;
            recovered.unused.push(number);
            continue;
        };
        let starts = first.header.seqno_first;
        if tail.as_ref().is_none_or(|tail| tail.seqno_next != starts)
            && visitor.start(&path, tail.as_ref(), starts)? == SegmentStart::Afresh
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
    apply: impl FnMut(u64, u64, BatchOperation<'_>) -> Result<()>,
) -> Result<Recovered> {
    read(disk, dir, segments, &mut OperationsReplay { dir, seqno_needed, apply })
}

/// The engine's reading: a frame holds operations, and each has a sequence number.
struct OperationsReplay<'a, A> {
    dir: &'a Path,
    seqno_needed: u64,
    apply: A,
}

impl<A: FnMut(u64, u64, BatchOperation<'_>) -> Result<()>> Visitor for OperationsReplay<'_, A> {
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
    fn start(
        &mut self,
        path: &Path,
        before: Option<&SoundTail>,
        starts: u64,
    ) -> Result<SegmentStart> {
        let what = "frames are missing here";
        let forward = before.is_none_or(|tail| starts > tail.seqno_next);
        match before {
            _ if forward && starts <= self.seqno_needed => Ok(SegmentStart::Continues),
            Some(tail) => Err(Error::corrupt(&names::wal(self.dir, tail.number), tail.end, what)),
            None => Err(Error::corrupt(path, 0, what)),
        }
    }
}

/// Where a segment's sound frames end.
pub(crate) struct SoundTail {
    /// The segment.
    pub(crate) number: u64,
    /// The sequence number that comes next.
    pub(crate) seqno_next: u64,
    /// The length of its sound frames, in bytes.
    pub(crate) end: u64,
}

/// A segment's file, seen through a window.
struct SegmentWindow<'a> {
    path: &'a Path,
    number: u64,
    file: Arc<dyn DiskFile>,
    /// Its length.
    end: u64,
    /// What of it was read last, and from where on.
    window: &'a mut Vec<u8>,
    start: u64,
}

impl<'a> SegmentWindow<'a> {
    fn open(disk: &dyn Disk, path: &'a Path, number: u64, window: &'a mut Vec<u8>) -> Result<Self> {
        let opened = disk.open(path, OpenFor::Read).and_then(|file| Ok((file.len()?, file)));
        let (end, file) = opened.map_err(|error| Error::io("read", path, &error))?;
        if end > SEGMENT_BYTES_MAX {
            return Err(Error::corrupt(path, SEGMENT_BYTES_MAX, "a segment over its limit"));
        }
        window.clear();
        Ok(Self { path, number, file, end, window, start: 0 })
    }

    /// The bytes from `at` on: at least `bytes` of them, unless the file ends before.
    fn bytes(&mut self, at: u64, bytes: usize) -> Result<&[u8]> {
        let seen = self.start..self.start + self.window.len() as u64;
        if at < seen.start || (at + bytes as u64).min(self.end) > seen.end {
            let left = usize::try_from(self.end.saturating_sub(at)).unwrap_or(usize::MAX);
            self.window.resize(left.min(bytes.max(WINDOW_BYTES)), 0);
            let read = read_full_at(&*self.file, self.window, at);
            let read = read.map_err(|error| Error::io("read", self.path, &error))?;
            self.window.truncate(read);
            self.start = at;
        }
        let from = usize::try_from(at - self.start).unwrap_or(usize::MAX);
        Ok(self.window.get(from..).unwrap_or_default())
    }

    /// The frame at `at`, if a whole and sound one of this segment is there.
    fn frame(&mut self, at: u64) -> Result<Option<Frame<'_>>> {
        let number = self.number;
        match frame::claimed_bytes(self.bytes(at, HEADER_BYTES)?, number) {
            Some(bytes) => Ok(frame::decode(self.bytes(at, bytes)?, number)),
            None => Ok(None),
        }
    }

    fn replay(&mut self, frames: &mut u64, visitor: &mut dyn Visitor) -> Result<SoundTail> {
        let (path, number, end) = (self.path, self.number, self.end);
        let mut at = 0;
        let mut seqno_next = None;
        while let Some(frame) = self.frame(at)? {
            let first = frame.header.seqno_first;
            if seqno_next.is_some_and(|next| next != first) {
                return Err(Error::corrupt(path, at, "sequence numbers do not follow"));
            }
            visitor.frame(path, number, at, &frame)?;
            seqno_next = Some(first + u64::from(frame.header.ops));
            at = (at + frame.bytes as u64).min(end);
            *frames += 1;
        }
        self.refuse_if_frames_follow(at)?;
        let seqno_next = seqno_next.expect("the first frame was sound");
        Ok(SoundTail { number, seqno_next, end: at })
    }

    /// Looks behind a bad place for a frame that was written after the place was synced.
    fn refuse_if_frames_follow(&mut self, bad: u64) -> Result<()> {
        let (path, number) = (self.path, self.number);
        let mut at = bad.next_multiple_of(ALIGN_BYTES as u64);
        loop {
            // What follows is zeros for the most part; only what names this segment is looked at.
            let window = self.bytes(at, HEADER_BYTES)?;
            if window.len() < HEADER_BYTES {
                return Ok(());
            }
            match frame::find_named(window, number) {
                Ok(passed) => at += passed as u64,
                Err(passed) => {
                    at += passed as u64;
                    continue;
                }
            }
            match self.frame(at)? {
                Some(found) if found.header.durable > bad => {
                    return Err(Error::corrupt(path, bad, "frame"));
                }
                Some(found) => at += found.bytes as u64,
                None => at += ALIGN_BYTES as u64,
            }
        }
    }
}
