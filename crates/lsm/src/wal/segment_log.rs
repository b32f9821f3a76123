//! A log of opaque payloads in the engine's WAL segments, for a log that lies above an engine (Raft's, say).
//!
//! [`Log`] appends payloads, one frame each, one write and, when asked, one sync; [`Log::open`] reads them back after a
//! crash with the engine's rules for torn tails and damage; [`Keeper`] prepares segments ahead and takes back those that
//! were purged, on whatever thread has time for a sync.
//!
//! Invariants:
//! - a segment is synced before the first frame of the next one is written;
//! - what [`Log::open`] handed to its reader is durable when it returns;
//! - after a failed write or sync the log refuses everything;
//! - which old segments are needed is known by the reader alone: a purge leaves no mark. So after a crash segments may be
//!   back that were purged, with gaps between them ([`PayloadReader::restart`]), and the reader judges whether what it has been
//!   given is enough.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use super::frame::{self, Frame};
use super::recovery::{self, SegmentStart, SoundTail, Visitor};
use super::{SegmentPool, WalWriter};
use crate::disk::{Disk, DiskFile, OpenFor, read_full_at};
use crate::error::{Error, Result};
use crate::limits::FRAME_BYTES_MAX;
use crate::names::{self, FileName};
use crate::numbers::FileNumbers;
use crate::sync::lock;

/// The largest payload, in bytes.
pub const PAYLOAD_BYTES_MAX: usize = FRAME_BYTES_MAX;

/// Where bytes of a payload are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentOffset {
    /// The number of the segment; later ones have higher numbers.
    pub segment: u64,
    /// Where in it, in bytes.
    pub offset: u64,
}

/// Where a log ends. Frames are numbered from 1 on over all segments, and no number is given twice to what was synced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogEnd {
    /// The number of the last frame; 0 of an empty log.
    pub frame: u64,
    /// The segment it is in.
    pub segment: u64,
    /// Where it ends, in bytes.
    pub offset: u64,
}

/// What makes sense of the payloads that are read back.
pub trait PayloadReader {
    /// Takes the next payload.
    ///
    /// # Errors
    /// Whatever makes it impossible; [`Log::open`] returns it.
    fn payload(&mut self, place: SegmentOffset, payload: &[u8]) -> Result<()>;

    /// Forgets what was read so far: it does not lead to what comes next, so it is left over from a purge, or what
    /// follows it is lost. Also called before the first payload.
    fn restart(&mut self);
}

/// The file that was read last, and its segment.
type LastRead = Arc<Mutex<Option<(u64, Arc<dyn DiskFile>)>>>;

/// The writing end.
#[derive(Debug)]
pub struct Log {
    dir: PathBuf,
    writer: WalWriter,
    pool: Arc<SegmentPool>,
    buffer: Vec<u8>,
    frame_next: u64,
    end: LogEnd,
    /// Nothing was written yet, and the segment that was read last ends there.
    read_end: Option<LogEnd>,
    last_read: LastRead,
}

/// The segments of a [`Log`], for a thread that keeps them in order.
#[derive(Clone, Debug)]
pub struct Keeper {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    pool: Arc<SegmentPool>,
    last: LastRead,
}

impl Log {
    /// Opens the log in `dir`, which must exist and belong to it alone, and hands what it holds to `reader`, oldest
    /// first. The caller keeps others out.
    ///
    /// # Errors
    /// [`Error::Corrupt`] for damage before the torn tail; what the reader said; [`Error::Io`].
    pub fn open(
        disk: Arc<dyn Disk>,
        dir: &Path,
        segment_bytes: u64,
        reader: &mut dyn PayloadReader,
    ) -> Result<Self> {
        let names = disk.list(dir).map_err(|e| Error::io("list", dir, &e))?;
        let mut segments: Vec<u64> = names
            .iter()
            .filter_map(|name| match FileName::parse(name) {
                FileName::Wal(number) => Some(number),
                _ => None,
            })
            .collect();
        segments.sort_unstable();
        let mut visitor = Payloads { reader, frame_next: 1 };
        let recovered = recovery::read(&*disk, dir, &segments, &mut visitor)?;
        let frame_next = visitor.frame_next;
        for &number in &recovered.used {
            // A process that died (and not the machine) leaves frames that are readable and not durable.
            let path = names::wal(dir, number);
            let file =
                disk.open(&path, OpenFor::ReadWrite).map_err(|e| Error::io("open", &path, &e))?;
            file.sync_data().map_err(|e| Error::poison("sync", &path, &e))?;
        }
        let numbers = Arc::new(FileNumbers::new(segments.last().map_or(1, |last| last + 1)));
        let pool = Arc::new(SegmentPool::new(disk, dir.to_owned(), segment_bytes, numbers));
        pool.adopt(&recovered.used);
        recovered.unused.iter().try_for_each(|&number| pool.release(number))?;
        let writer = WalWriter::new(Arc::clone(&pool), dir.to_owned());
        let segment = recovered.used.last().copied().unwrap_or_default();
        let end = LogEnd { frame: frame_next - 1, segment, offset: recovered.end };
        let (dir, last_read) = (dir.to_owned(), Arc::default());
        let read_end = (segment > 0).then_some(end);
        Ok(Self { dir, writer, pool, buffer: Vec::new(), frame_next, end, read_end, last_read })
    }

    /// Makes sure that a payload of at most `bytes` bytes has room, and returns the segment it will be in. A number that
    /// differs from the last one says that a segment starts with this payload. A log that was opened begins a segment; where
    /// the disk has no room for one, it goes on in the last that it read.
    ///
    /// # Errors
    /// [`Error::Full`] leaves everything as it was; [`Error::Poisoned`].
    pub fn make_room(&mut self, bytes: usize) -> Result<u64> {
        if bytes > PAYLOAD_BYTES_MAX {
            return Err(Error::Invalid("a payload over its limit"));
        }
        let bytes = frame::padded(frame::HEADER_BYTES + bytes);
        let made = self.writer.make_room(bytes);
        if let (Err(Error::Full(_)), Some(read)) = (&made, self.read_end) {
            self.writer.resume(read.segment, read.offset)?;
            self.read_end = None;
            return self.writer.make_room(bytes);
        }
        if made.is_ok() {
            self.read_end = None;
        }
        made
    }

    /// Appends the payload that `fill` writes behind what is in the buffer it is given. Room was made for it. Returns the
    /// place of its first byte.
    ///
    /// # Errors
    /// [`Error::Poisoned`] if the write fails.
    pub fn append(&mut self, fill: impl FnOnce(&mut Vec<u8>)) -> Result<SegmentOffset> {
        frame::start(&mut self.buffer);
        fill(&mut self.buffer);
        let (at, segment) = self.writer.append_at(&mut self.buffer, self.frame_next, 1)?;
        self.end = LogEnd { frame: self.frame_next, segment, offset: self.writer.written_bytes() };
        self.frame_next += 1;
        if self.buffer.capacity() > crate::limits::POOLED_BUFFER_BYTES_MAX {
            self.buffer = Vec::new();
        }
        Ok(SegmentOffset { segment, offset: at + frame::HEADER_BYTES as u64 })
    }

    /// Where it ends: what was read, and what was written since, whether synced or not.
    #[must_use]
    pub fn end(&self) -> LogEnd {
        self.end
    }

    /// Bytes written to the current segment.
    #[must_use]
    pub fn written_bytes(&self) -> u64 {
        self.writer.written_bytes()
    }

    /// Ends the current segment after a sync, so that the next payload starts another.
    ///
    /// # Errors
    /// [`Error::Poisoned`] if the disk refuses.
    pub fn end_segment(&mut self) -> Result<()> {
        self.writer.end_segment().map(|_| ())
    }

    /// Makes everything appended durable.
    ///
    /// # Errors
    /// [`Error::Poisoned`] if the disk refuses.
    pub fn sync(&mut self) -> Result<()> {
        self.writer.sync()
    }

    /// A handle on the segments.
    #[must_use]
    pub fn keeper(&self) -> Keeper {
        let (disk, pool) = (self.pool.disk(), Arc::clone(&self.pool));
        Keeper { disk, dir: self.dir.clone(), pool, last: Arc::clone(&self.last_read) }
    }
}

impl Keeper {
    /// Makes sure that a segment is ready to be written, so that [`Log::make_room`] need not make one.
    ///
    /// # Errors
    /// [`Error::Full`], which may be tried again; [`Error::Poisoned`].
    pub fn prepare(&self) -> Result<()> {
        self.pool.prepare()
    }

    /// Takes back the segments below `segment` for other use.
    ///
    /// # Errors
    /// [`Error::Io`] when a file cannot be removed; it is tried again at the next open.
    pub fn release_below(&self, segment: u64) -> Result<()> {
        self.forget_below(segment);
        self.pool.release_below(segment)
    }

    /// Removes the segments that were taken back, but for one if none is ready: an open reads every segment there is, and
    /// begins one.
    ///
    /// # Errors
    /// [`Error::Io`] when a file cannot be removed, which is taken back at the next open; [`Error::Poisoned`].
    pub fn leave_one_spare(&self) -> Result<()> {
        self.pool.leave_one_spare()
    }

    /// Bytes of the segments in use.
    #[must_use]
    pub fn in_use_bytes(&self) -> u64 {
        self.pool.in_use_bytes()
    }

    /// Reads back bytes of a payload; `buf` says how many. Nothing is checked: the caller keeps a checksum.
    ///
    /// # Errors
    /// [`Error::Io`] when they cannot be read; [`Error::Corrupt`] when they are not there.
    pub fn read(&self, place: SegmentOffset, buf: &mut [u8]) -> Result<()> {
        let path = names::wal(&self.dir, place.segment);
        let file = self.open(place.segment)?;
        let read = read_full_at(&*file, buf, place.offset);
        if read.map_err(|e| Error::io("read", &path, &e))? < buf.len() {
            return Err(Error::corrupt(&path, place.offset, "a payload is cut"));
        }
        Ok(())
    }

    /// A segment's file. The last one stays open: whoever reads one payload back reads those behind it too, and opening
    /// costs more than reading.
    fn open(&self, segment: u64) -> Result<Arc<dyn DiskFile>> {
        let mut last = lock(&self.last);
        if let Some((number, file)) = &*last
            && *number == segment
        {
            return Ok(Arc::clone(file));
        }
        let path = names::wal(&self.dir, segment);
        let file =
            self.disk.open(&path, OpenFor::Read).map_err(|e| Error::io("open", &path, &e))?;
        *last = Some((segment, Arc::clone(&file)));
        Ok(file)
    }

    /// Forgets an open file that is no segment any more, or will be another.
    fn forget_below(&self, segment: u64) {
        lock(&self.last).take_if(|(number, _)| *number < segment);
    }
}

/// Each frame is one payload.
struct Payloads<'a> {
    reader: &'a mut dyn PayloadReader,
    frame_next: u64,
}

impl Visitor for Payloads<'_> {
    fn frame(&mut self, path: &Path, number: u64, at: u64, frame: &Frame<'_>) -> Result<()> {
        if frame.header.ops != 1 {
            return Err(Error::corrupt(path, at, "a frame that is not one payload"));
        }
        self.frame_next = frame.header.seqno_first + 1;
        let place = SegmentOffset { segment: number, offset: at + frame::HEADER_BYTES as u64 };
        self.reader.payload(place, frame.payload)
    }

    fn start(
        &mut self,
        path: &Path,
        before: Option<&SoundTail>,
        starts: u64,
    ) -> Result<SegmentStart> {
        if before.is_some_and(|tail| starts < tail.seqno_next) {
            return Err(Error::corrupt(path, 0, "frames that were there before"));
        }
        self.reader.restart();
        Ok(SegmentStart::Afresh)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::{CrashReplay, FaultyDisk, MemDisk};

    const SEGMENT: u64 = 1 << 10;

    #[derive(Default)]
    struct Found {
        payloads: Vec<(SegmentOffset, Vec<u8>)>,
        restarts: u32,
    }

    impl PayloadReader for Found {
        fn payload(&mut self, place: SegmentOffset, payload: &[u8]) -> Result<()> {
            self.payloads.push((place, payload.to_vec()));
            Ok(())
        }

        fn restart(&mut self) {
            self.payloads.clear();
            self.restarts += 1;
        }
    }

    fn open(disk: &Arc<MemDisk>) -> Result<(Log, Found)> {
        let mut found = Found::default();
        let log = Log::open(disk.clone(), Path::new("d"), SEGMENT, &mut found)?;
        Ok((log, found))
    }

    fn append(log: &mut Log, n: u64) -> SegmentOffset {
        let payload = vec![n as u8; 100];
        log.make_room(payload.len()).unwrap();
        log.append(|buffer| buffer.extend_from_slice(&payload)).unwrap()
    }

    #[test]
    fn payloads_come_back_over_segments_and_reopenings() {
        let disk = MemDisk::shared();
        let mut places = Vec::new();
        for round in 0..4 {
            let (mut log, found) = open(&disk).unwrap();
            let expected: Vec<_> =
                places.iter().zip(0u64..).map(|(&at, n)| (at, vec![n as u8; 100])).collect();
            assert_eq!(found.payloads, expected);
            for n in 0..10 {
                places.push(append(&mut log, round * 10 + n));
            }
            let mut bytes = [0; 100];
            log.keeper().read(places[3], &mut bytes).unwrap();
            assert_eq!(bytes, [3; 100]);
        }
        assert!(places[39].segment > places[0].segment + 3);
    }

    /// Full for whatever grows or gets a name.
    fn fill(disk: &FaultyDisk) {
        let kind = crate::disk::FaultKind::NoSpace;
        disk.plan(Some(crate::disk::DiskFault { kind, from: 0, until: u64::MAX }));
    }

    fn open_faulty(disk: &Arc<FaultyDisk>) -> (Log, Vec<Vec<u8>>) {
        let mut found = Found::default();
        let log = Log::open(disk.clone(), Path::new("d"), SEGMENT, &mut found).unwrap();
        (log, found.payloads.into_iter().map(|(_, payload)| payload).collect())
    }

    #[test]
    fn a_log_that_opens_on_a_full_disk_goes_on_where_it_ended() {
        let disk = FaultyDisk::shared();
        let (mut log, _) = open_faulty(&disk);
        let mut places: Vec<_> = (0..3).map(|n| append(&mut log, n)).collect();
        log.sync().unwrap();
        fill(&disk);
        for n in 3..6 {
            let (mut log, found) = open_faulty(&disk);
            assert_eq!(found.len() as u64, n);
            places.push(append(&mut log, n));
            log.sync().unwrap();
        }
        assert!(places.iter().all(|place| place.segment == places[0].segment));
        let (mut log, _) = open_faulty(&disk);
        let refused = (0..20)
            .map(|_| log.make_room(100).and_then(|_| log.append(|out| out.extend([9; 100]))));
        let refused: Vec<_> = refused.filter_map(Result::err).collect();
        assert!(!refused.is_empty() && refused.iter().all(|error| matches!(error, Error::Full(_))));
        disk.plan(None);
        assert!(append(&mut log, 9).segment > places[0].segment, "there is room for the next one");
    }

    #[test]
    fn what_is_behind_a_torn_frame_does_not_come_back() {
        let disk = FaultyDisk::shared();
        let (mut log, _) = open_faulty(&disk);
        let places: Vec<_> = (0..4).map(|n| append(&mut log, n)).collect();
        log.sync().unwrap();
        let path = names::wal(Path::new("d"), places[0].segment);
        let file = disk.open(&path, OpenFor::ReadWrite).unwrap();
        file.write_at(&[0xff], places[1].offset).unwrap();
        file.sync_data().unwrap();
        drop(log);
        fill(&disk);
        let begun = disk.events_len();
        let (mut log, found) = open_faulty(&disk);
        assert_eq!(found.len(), 1, "the second one is torn");
        assert_eq!(append(&mut log, 7), places[1]);
        log.sync().unwrap();
        let expected = [vec![0; 100], vec![7; 100]];
        assert_eq!(open_faulty(&disk).1, expected, "nothing of the torn tail follows");
        // Whenever the power is cut, too.
        let events = disk.events();
        for end in begun..=events.len() {
            let tails = [
                crate::disk::UnsyncedTail::Kept,
                crate::disk::UnsyncedTail::Lost,
                crate::disk::UnsyncedTail::Reordered,
            ];
            for tail in tails {
                let image = crate::disk::cuts::left_at_the_end(&events[..end], tail, end as u64);
                let (_, found) = open(&Arc::new(image)).unwrap();
                let found: Vec<_> = found.payloads.into_iter().map(|(_, bytes)| bytes).collect();
                let ends = [&expected[..1], &expected[..]];
                assert!(ends.contains(&&found[..]), "cut at {end}, {tail:?}: {}", found.len());
            }
        }
    }

    #[test]
    fn a_purged_log_starts_where_it_is_whole() {
        let disk = MemDisk::shared();
        let (mut log, _) = open(&disk).unwrap();
        let places: Vec<_> = (0..40).map(|n| append(&mut log, n)).collect();
        let copy = disk.files();
        let third = places[0].segment + 2;
        log.keeper().release_below(third).unwrap();
        drop(log);
        disk.remove(&names::wal(Path::new("d"), places[0].segment)).unwrap();
        disk.remove(&names::wal(Path::new("d"), places[0].segment + 1)).unwrap();
        let (_, found) = open(&Arc::new(disk.fork())).unwrap();
        assert_eq!((found.restarts, found.payloads[0].0.segment), (1, third));
        // A purged segment is back, and the one behind it is not.
        let first = names::wal(Path::new("d"), places[0].segment);
        let file = disk.create(&first).unwrap();
        file.write_at(&copy[&first], 0).unwrap();
        let (_, found) = open(&disk).unwrap();
        assert_eq!((found.restarts, found.payloads[0].0.segment), (2, third));
        assert_eq!(found.payloads.last().map(|(place, _)| *place), places.last().copied());
    }

    /// The log above knows of no segment that is over and could still lose something.
    #[test]
    fn a_segment_is_durable_when_it_ends() {
        let disk = FaultyDisk::shared();
        let mut log =
            Log::open(disk.clone(), Path::new("d"), SEGMENT, &mut Found::default()).unwrap();
        (0..2).for_each(|n| {
            append(&mut log, n);
        });
        let left = || {
            let events = disk.events();
            let mut replay = CrashReplay::new(&events);
            while replay.advance() {}
            let image = Arc::new(replay.image(crate::disk::UnsyncedTail::Lost, 1));
            open(&image).unwrap().1.payloads.len()
        };
        assert_eq!(left(), 0, "nothing was synced yet");
        log.end_segment().unwrap();
        assert_eq!(left(), 2);
        let first = append(&mut log, 2).segment;
        let mut count = 3;
        while append(&mut log, count).segment == first {
            count += 1;
        }
        assert_eq!(left(), usize::try_from(count).unwrap(), "the segment had no more room");
    }

    #[test]
    fn what_was_lost_is_told_from_a_torn_tail() {
        let disk = MemDisk::shared();
        let (mut log, _) = open(&disk).unwrap();
        let places: Vec<_> = (0..4)
            .map(|n| {
                let place = append(&mut log, n);
                log.sync().unwrap();
                place
            })
            .collect();
        let flip = |disk: &MemDisk, place: SegmentOffset| {
            let path = names::wal(Path::new("d"), place.segment);
            let file = disk.open(&path, OpenFor::ReadWrite).unwrap();
            file.write_at(&[99], place.offset).unwrap();
        };
        let torn = Arc::new(disk.fork());
        flip(&torn, places[3]);
        assert_eq!(open(&torn).unwrap().1.payloads.len(), 3);
        flip(&disk, places[1]);
        assert!(matches!(open(&disk), Err(Error::Corrupt { .. })));
    }

    #[test]
    fn a_log_says_where_it_ends_and_what_it_takes() {
        let disk = MemDisk::shared();
        let (mut log, _) = open(&disk).unwrap();
        assert_eq!((log.end(), log.written_bytes()), (LogEnd::default(), 0));
        let place = append(&mut log, 0);
        let frame_bytes = frame::padded(frame::HEADER_BYTES + 100) as u64;
        let end = LogEnd { frame: 1, segment: place.segment, offset: frame_bytes };
        assert_eq!((log.end(), log.written_bytes()), (end, frame_bytes));
        append(&mut log, 1);
        log.end_segment().unwrap();
        let last = append(&mut log, 2);
        let end = LogEnd { frame: 3, segment: last.segment, offset: frame_bytes };
        assert_eq!((log.end(), log.written_bytes()), (end, frame_bytes));
        assert_eq!(log.keeper().in_use_bytes(), 2 * SEGMENT);
        let (again, _) = open(&disk).unwrap();
        assert_eq!((again.end(), again.written_bytes()), (end, 0));
        assert_eq!(
            log.make_room(PAYLOAD_BYTES_MAX + 1),
            Err(Error::Invalid("a payload over its limit"))
        );
    }

    #[test]
    fn a_keeper_prepares_takes_back_and_leaves_one() {
        let disk = MemDisk::shared();
        let (mut log, _) = open(&disk).unwrap();
        let keeper = log.keeper();
        let names = || disk.list(Path::new("d")).unwrap().len();
        let places: Vec<_> = (0..20).map(|n| append(&mut log, n)).collect();
        let segments = names();
        assert!(segments > 2);
        keeper.prepare().unwrap();
        assert_eq!(names(), segments + 1);
        let last = places[19].segment;
        let mut bytes = [0; 100];
        keeper.read(places[0], &mut bytes).unwrap();
        keeper.read(places[1], &mut bytes).unwrap();
        assert!(keeper.last.lock().unwrap().is_some() && bytes == [1; 100]);
        keeper.read(places[19], &mut bytes).unwrap();
        assert_eq!(bytes, [19; 100], "another segment");
        let cut = SegmentOffset { segment: last, offset: SEGMENT - 50 };
        let path = names::wal(Path::new("d"), last);
        let damage = Error::corrupt(&path, SEGMENT - 50, "a payload is cut");
        assert_eq!(keeper.read(cut, &mut bytes), Err(damage));
        keeper.release_below(last).unwrap();
        assert!(keeper.last.lock().unwrap().is_some(), "that one is still in use");
        keeper.release_below(last + 1).unwrap();
        assert!(keeper.last.lock().unwrap().is_none(), "it may be another now");
        assert_eq!(keeper.in_use_bytes(), 0);
        keeper.leave_one_spare().unwrap();
        assert_eq!(names(), 1, "the one that is ready");
    }

    #[test]
    fn a_payload_over_the_usual_leaves_no_large_buffer_behind() {
        let disk = MemDisk::shared();
        let (mut log, _) = open(&disk).unwrap();
        let kept = crate::limits::POOLED_BUFFER_BYTES_MAX;
        log.buffer = Vec::with_capacity(kept);
        assert_eq!(log.buffer.capacity(), kept);
        for (bytes, is_kept) in [(1000, true), (kept + 1, false)] {
            log.make_room(bytes).unwrap();
            log.append(|buffer| buffer.resize(buffer.len() + bytes, 1)).unwrap();
            assert_eq!(log.buffer.capacity() > 0, is_kept, "{bytes}");
        }
    }

    #[test]
    fn a_frame_that_begins_before_the_last_one_ended_is_damage() {
        let disk = MemDisk::shared();
        let (mut log, _) = open(&disk).unwrap();
        (0..3).for_each(|n| {
            append(&mut log, n);
        });
        log.end_segment().unwrap();
        let first = append(&mut log, 3).segment;
        // There are four frames. Another segment begins with what was there before, with the next one, or behind a gap.
        let path = names::wal(Path::new("d"), first + 1);
        for (seqno_first, is_sound) in [(4, false), (5, true), (6, true)] {
            let mut buffer = Vec::new();
            frame::start(&mut buffer);
            buffer.extend_from_slice(&[9; 100]);
            let segment = first + 1;
            let header = frame::FrameHeader { segment, seqno_first, ops: 1, durable: 0 };
            frame::finish(&mut buffer, header);
            let disk = Arc::new(disk.fork());
            disk.create(&path).unwrap().write_at(&buffer, 0).unwrap();
            assert_eq!(open(&disk).is_ok(), is_sound, "{seqno_first}");
        }
    }
}
