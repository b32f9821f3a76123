//! The write-ahead log: what makes a commit survive.
//!
//! The commit leader appends one frame per group to the current segment and syncs as its mode asks. When a segment has
//! no room the next one is taken from the pool. Flushes tell the pool which segments are no longer needed. Layout:
//! `frame.rs`; what a crash may leave and how it is read: `recovery.rs`. The same segments serve other logs through
//! `segment_log.rs`.
//!
//! Invariants:
//! - a segment is synced before the first frame of the next one is written;
//! - a segment that was read back is written on ([`WalWriter::resume`]) only once nothing is behind its sound frames that
//!   could pass for the next one;
//! - after a failed write or sync the writer refuses everything: what is on the disk is unknown, and a retried sync
//!   would lie.

pub(crate) mod frame;
mod pool;
pub(crate) mod recovery;
pub mod segment_log;

use std::path::PathBuf;
use std::sync::Arc;

use self::frame::FrameHeader;
use self::pool::ZEROS;
pub(crate) use self::pool::{ReadySegment, SegmentPool};
use crate::disk::{OpenFor, write_all_at};
use crate::error::{Error, Result};
use crate::names;

/// The writing end of the log.
#[derive(Debug)]
pub(crate) struct WalWriter {
    pool: Arc<SegmentPool>,
    dir: PathBuf,
    segment: Option<OpenSegment>,
    failed: Option<Error>,
}

#[derive(Debug)]
struct OpenSegment {
    ready: ReadySegment,
    /// Where the next frame goes.
    end: u64,
    /// How much is synced.
    durable: u64,
}

impl WalWriter {
    /// A writer that will take its first segment from `pool`.
    pub(crate) fn new(pool: Arc<SegmentPool>, dir: PathBuf) -> Self {
        Self { pool, dir, segment: None, failed: None }
    }

    /// Makes sure the current segment has room for a frame of `bytes` bytes; returns the segment's number.
    ///
    /// # Errors
    /// [`Error::Full`] leaves everything as it was.
    pub(crate) fn make_room(&mut self, bytes: usize) -> Result<u64> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        let bytes = bytes as u64;
        if let Some(open) = &self.segment
            && open.end + bytes <= open.ready.bytes
        {
            return Ok(open.ready.number);
        }
        self.sync()?;
        let ready = self.pool.take(bytes).inspect_err(|error| self.note(error))?;
        let number = ready.number;
        self.segment = Some(OpenSegment { ready, end: 0, durable: 0 });
        Ok(number)
    }

    /// Goes on in the segment that was read back last, whose sound frames end at `end` and are synced. What is behind them
    /// may be whole frames of a torn tail, and one that is written now could end where the next of those begins: all of it
    /// is zeroed first, durably. That takes no space.
    ///
    /// # Errors
    /// [`Error::Full`] of a disk that writes nothing in place; nothing is written on then. [`Error::Poisoned`].
    pub(crate) fn resume(&mut self, number: u64, end: u64) -> Result<()> {
        let path = names::wal(&self.dir, number);
        let disk = self.pool.disk();
        let opened = disk.open(&path, OpenFor::ReadWrite).and_then(|file| Ok((file.len()?, file)));
        let (bytes, file) = opened.map_err(|e| Error::io("open", &path, &e))?;
        let mut at = end;
        while at < bytes {
            let n = ZEROS.len().min(usize::try_from(bytes - at).unwrap_or(usize::MAX));
            write_all_at(&*file, &ZEROS[..n], at).map_err(|e| Error::io("zero", &path, &e))?;
            at += n as u64;
        }
        let synced = file.sync_data().map_err(|e| Error::poison("sync", &path, &e));
        synced.inspect_err(|error| self.note(error))?;
        let ready = ReadySegment { number, file, bytes };
        self.segment = Some(OpenSegment { ready, end, durable: end });
        Ok(())
    }

    /// Completes the frame in `buffer` and writes it. Room was made.
    pub(crate) fn append(&mut self, buffer: &mut Vec<u8>, seqno: u64, ops: u32) -> Result<()> {
        self.append_at(buffer, seqno, ops).map(|_| ())
    }

    /// As `append`; returns the offset and the segment it was written to.
    pub(crate) fn append_at(
        &mut self,
        buffer: &mut Vec<u8>,
        seqno: u64,
        ops: u32,
    ) -> Result<(u64, u64)> {
        let open = self.segment.as_mut().expect("room was made");
        let segment = open.ready.number;
        let header = FrameHeader { segment, seqno_first: seqno, ops, durable: open.durable };
        frame::finish(buffer, header);
        assert!(open.end + buffer.len() as u64 <= open.ready.bytes, "room was made");
        let at = open.end;
        let written = write_all_at(&*open.ready.file, buffer, at);
        open.end += buffer.len() as u64;
        let path = names::wal(&self.dir, segment);
        written
            .map_err(|e| Error::poison("write", &path, &e))
            .inspect_err(|error| self.note(error))?;
        Ok((at, segment))
    }

    /// Makes everything written durable.
    pub(crate) fn sync(&mut self) -> Result<()> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        let Some(open) = &mut self.segment else { return Ok(()) };
        if open.durable == open.end {
            return Ok(());
        }
        let synced = open.ready.file.sync_data();
        if synced.is_ok() {
            open.durable = open.end;
        }
        let path = names::wal(&self.dir, open.ready.number);
        synced.map_err(|e| Error::poison("sync", &path, &e)).inspect_err(|error| self.note(error))
    }

    /// The number of the current segment.
    pub(crate) fn segment_number(&self) -> Option<u64> {
        self.segment.as_ref().map(|open| open.ready.number)
    }

    /// Bytes written to the current segment.
    pub(crate) fn written_bytes(&self) -> u64 {
        self.segment.as_ref().map_or(0, |open| open.end)
    }

    /// Ends the current segment after a sync, so that the next frame starts a new one. Returns its number.
    pub(crate) fn end_segment(&mut self) -> Result<Option<u64>> {
        self.sync()?;
        Ok(self.segment.take().map(|open| open.ready.number))
    }

    fn note(&mut self, error: &Error) {
        if matches!(error, Error::Poisoned(_)) {
            self.failed = Some(error.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::batch::EntryBatch;
    use crate::disk::{CrashReplay, Disk, FaultyDisk, MemDisk, UnsyncedTail};
    use crate::numbers::FileNumbers;

    const SEGMENT: u64 = 512;
    /// What a frame of these tests takes.
    const FRAME: u64 = 56;

    fn writer(disk: &Arc<MemDisk>, first_number: u64) -> (WalWriter, Arc<SegmentPool>) {
        let numbers = Arc::new(FileNumbers::new(first_number));
        let pool = Arc::new(SegmentPool::new(disk.clone(), "d".into(), SEGMENT, numbers));
        (WalWriter::new(pool.clone(), "d".into()), pool)
    }

    fn append(wal: &mut WalWriter, seqno: u64) -> u64 {
        let mut batch = EntryBatch::new();
        batch.put(&seqno.to_be_bytes(), b"value").unwrap();
        let mut buffer = Vec::new();
        frame::start(&mut buffer);
        buffer.extend_from_slice(batch.bytes());
        let segment = wal.make_room(frame::padded(buffer.len())).unwrap();
        wal.append(&mut buffer, seqno, 1).unwrap();
        segment
    }

    fn segments(disk: &MemDisk) -> Vec<u64> {
        let names = disk.list(Path::new("d")).unwrap();
        let mut numbers: Vec<u64> =
            names.iter().filter_map(|name| names::FileName::parse(name).number()).collect();
        numbers.sort_unstable();
        numbers
    }

    fn recovered(disk: &MemDisk) -> Result<Vec<u64>> {
        recovered_from(disk, 1)
    }

    fn recovered_from(disk: &MemDisk, needed: u64) -> Result<Vec<u64>> {
        let mut seqnos = Vec::new();
        let all = segments(disk);
        recovery::recover(disk, Path::new("d"), &all, needed, |_, seqno, operation| {
            assert_eq!(operation.key, seqno.to_be_bytes());
            seqnos.push(seqno);
            Ok(())
        })?;
        Ok(seqnos)
    }

    fn flip(disk: &MemDisk, segment: u64, at: u64) {
        let file = disk.open(&names::wal(Path::new("d"), segment), OpenFor::ReadWrite).unwrap();
        let mut byte = [0];
        file.read_at(&mut byte, at).unwrap();
        file.write_at(&[byte[0] ^ 0x40], at).unwrap();
    }

    #[test]
    fn frames_come_back_over_several_segments() {
        let disk = MemDisk::shared();
        let (mut wal, _pool) = writer(&disk, 1);
        for seqno in 1..=40 {
            append(&mut wal, seqno);
        }
        assert!(segments(&disk).len() > 3);
        assert_eq!(recovered(&disk).unwrap(), (1..=40).collect::<Vec<_>>());
    }

    #[test]
    fn a_recycled_segment_does_not_replay_its_earlier_life() {
        let disk = MemDisk::shared();
        let (mut wal, pool) = writer(&disk, 1);
        let first = append(&mut wal, 1);
        let mut seqno = 1;
        while append(&mut wal, seqno + 1) == first {
            seqno += 1;
        }
        seqno += 1;
        pool.release_below(first + 1).unwrap();
        assert!(wal.end_segment().unwrap().is_some());
        let recycled = append(&mut wal, seqno + 1);
        assert!(recycled > first && !segments(&disk).contains(&first));
        assert_eq!(recovered_from(&disk, seqno).unwrap(), [seqno, seqno + 1]);
    }

    /// What a power cut right now leaves of the log.
    fn after_power_cut(disk: &FaultyDisk) -> Result<Vec<u64>> {
        let events = disk.events();
        let mut replay = CrashReplay::new(&events);
        while replay.advance() {}
        recovered(&replay.image(UnsyncedTail::Lost, 1))
    }

    /// A segment that is over is never written again, so nobody would sync it later: it has to be durable when it ends, be it that
    /// the next frame has no room in it or that it is ended by hand.
    #[test]
    fn a_segment_is_durable_when_it_ends() {
        let disk = FaultyDisk::shared();
        let numbers = Arc::new(FileNumbers::new(1));
        let pool = Arc::new(SegmentPool::new(disk.clone(), "d".into(), SEGMENT, numbers));
        let mut wal = WalWriter::new(pool, "d".into());
        let first = append(&mut wal, 1);
        let mut last = 1;
        while append(&mut wal, last + 1) == first {
            last += 1;
        }
        assert!(last > 2, "more than one frame fits");
        let in_first: Vec<u64> = (1..=last).collect();
        assert_eq!(after_power_cut(&disk).unwrap(), in_first, "the segment had no more room");
        append(&mut wal, last + 2);
        assert_eq!(after_power_cut(&disk).unwrap(), in_first, "the next one is not over");
        assert!(wal.end_segment().unwrap().is_some());
        let all: Vec<u64> = (1..=last + 2).collect();
        assert_eq!(after_power_cut(&disk).unwrap(), all, "it was ended by hand");
    }

    #[test]
    fn a_torn_tail_ends_the_log_and_damage_before_it_is_loud() {
        let disk = MemDisk::shared();
        let (mut wal, _pool) = writer(&disk, 1);
        for seqno in 1..=3 {
            append(&mut wal, seqno);
            wal.sync().unwrap();
        }
        let torn = disk.fork();
        flip(&torn, 1, 2 * FRAME + 10);
        assert_eq!(recovered(&torn).unwrap(), [1, 2], "the last frame may be torn");
        let bad = disk.fork();
        flip(&bad, 1, FRAME + 10);
        let want = Error::corrupt(&names::wal(Path::new("d"), 1), FRAME, "frame");
        assert_eq!(recovered(&bad).unwrap_err(), want);
    }

    /// A segment that begins with damage is none without frames: what is behind it was acknowledged.
    #[test]
    fn damage_in_the_first_frame_of_a_segment_is_loud() {
        let disk = MemDisk::shared();
        let (mut wal, _pool) = writer(&disk, 1);
        for seqno in 1..=3 {
            append(&mut wal, seqno);
            wal.sync().unwrap();
        }
        flip(&disk, 1, 10);
        let want = Error::corrupt(&names::wal(Path::new("d"), 1), 0, "frame");
        assert_eq!(recovered(&disk).unwrap_err(), want);
    }

    #[test]
    fn unsynced_frames_may_arrive_in_any_order() {
        let disk = MemDisk::shared();
        let (mut wal, _pool) = writer(&disk, 1);
        for seqno in 1..=3 {
            append(&mut wal, seqno);
        }
        flip(&disk, 1, FRAME + 10);
        assert_eq!(
            recovered(&disk).unwrap(),
            [1],
            "the third was written before the second was synced"
        );
    }

    #[test]
    fn a_missing_first_segment_is_loud() {
        let disk = MemDisk::shared();
        let (mut wal, _pool) = writer(&disk, 1);
        for seqno in 1..=20 {
            append(&mut wal, seqno);
        }
        disk.remove(&names::wal(Path::new("d"), 1)).unwrap();
        let all = segments(&disk);
        let result = recovery::recover(&*disk, Path::new("d"), &all, 1, |_, _, _| Ok(()));
        assert!(matches!(result, Err(Error::Corrupt { .. })));
    }

    #[test]
    fn damage_in_an_earlier_segment_is_loud() {
        let disk = MemDisk::shared();
        let (mut wal, _pool) = writer(&disk, 1);
        let mut seqno = 1;
        while append(&mut wal, seqno) == 1 {
            seqno += 1;
        }
        flip(&disk, 1, (seqno - 2) * FRAME + 10);
        assert!(
            matches!(recovered(&disk), Err(Error::Corrupt { offset, .. }) if offset == (seqno - 2) * FRAME)
        );
    }

    #[test]
    fn a_segment_is_filled_to_its_last_byte() {
        let disk = MemDisk::shared();
        let (mut wal, _pool) = writer(&disk, 4);
        assert_eq!((wal.segment_number(), wal.written_bytes()), (None, 0));
        let fits = usize::try_from(SEGMENT).unwrap();
        assert_eq!(wal.make_room(fits), Ok(4));
        for n in 1..=SEGMENT / FRAME {
            assert_eq!(append(&mut wal, n), 4);
            assert_eq!((wal.segment_number(), wal.written_bytes()), (Some(4), n * FRAME));
        }
        let left = SEGMENT - wal.written_bytes();
        assert!(left < FRAME);
        assert_eq!(wal.make_room(usize::try_from(left).unwrap()), Ok(4));
        assert_eq!(wal.make_room(usize::try_from(left + 8).unwrap()), Ok(5));
    }

    #[test]
    fn nothing_is_written_after_a_failure() {
        use crate::disk::{DiskFault, FaultKind};
        for kind in [FaultKind::Eio, FaultKind::SyncFails] {
            let disk = FaultyDisk::shared();
            let numbers = Arc::new(FileNumbers::new(1));
            let pool = Arc::new(SegmentPool::new(disk.clone(), "d".into(), SEGMENT, numbers));
            let mut wal = WalWriter::new(pool, "d".into());
            append(&mut wal, 1);
            disk.plan(Some(DiskFault { kind, from: disk.operations(), until: u64::MAX }));
            let mut buffer = Vec::new();
            frame::start(&mut buffer);
            buffer.push(0);
            let failed = wal.append(&mut buffer, 2, 1).and_then(|()| wal.sync());
            assert!(matches!(failed, Err(Error::Poisoned(_))), "{kind:?}");
            disk.plan(None);
            assert_eq!(wal.sync(), failed);
            assert_eq!(wal.make_room(8).map(|_| ()), failed);
        }
    }

    /// What is behind a torn frame was written after what is before it was synced, and says so; it is no proof of damage.
    #[test]
    fn a_frame_behind_a_torn_one_may_know_that_all_before_is_durable() {
        let disk = MemDisk::shared();
        let (mut wal, _pool) = writer(&disk, 1);
        append(&mut wal, 1);
        wal.sync().unwrap();
        append(&mut wal, 2);
        append(&mut wal, 3);
        flip(&disk, 1, FRAME + 10);
        assert_eq!(recovered(&disk).unwrap(), [1]);
    }

    #[test]
    fn damage_of_several_frames_is_loud() {
        let disk = MemDisk::shared();
        let (mut wal, _pool) = writer(&disk, 1);
        for seqno in 1..=4 {
            append(&mut wal, seqno);
            wal.sync().unwrap();
        }
        // The payloads, so that the headers still name the segment.
        flip(&disk, 1, 2 * FRAME - 8);
        flip(&disk, 1, 3 * FRAME - 8);
        let want = Error::corrupt(&names::wal(Path::new("d"), 1), FRAME, "frame");
        assert_eq!(recovered(&disk).unwrap_err(), want);
    }

    #[test]
    fn damage_is_proved_by_a_frame_behind_others_that_prove_nothing() {
        let disk = MemDisk::shared();
        let (mut wal, _pool) = writer(&disk, 1);
        append(&mut wal, 1);
        wal.sync().unwrap();
        append(&mut wal, 2);
        append(&mut wal, 3);
        wal.sync().unwrap();
        append(&mut wal, 4);
        flip(&disk, 1, FRAME + 10);
        let want = Error::corrupt(&names::wal(Path::new("d"), 1), FRAME, "frame");
        assert_eq!(recovered(&disk).unwrap_err(), want);
    }

    #[test]
    fn a_segment_that_is_gone_on_in_is_zeros_behind_its_frames() {
        let disk = MemDisk::shared();
        let numbers = Arc::new(FileNumbers::new(1));
        let bytes = 3 * ZEROS.len() as u64 + 8;
        let pool = Arc::new(SegmentPool::new(disk.clone(), "d".into(), bytes, numbers));
        let mut wal = WalWriter::new(pool, "d".into());
        append(&mut wal, 1);
        let path = names::wal(Path::new("d"), 1);
        let file = disk.open(&path, OpenFor::ReadWrite).unwrap();
        let torn = vec![0xff; usize::try_from(bytes - FRAME).unwrap()];
        write_all_at(&*file, &torn, FRAME).unwrap();
        wal.resume(1, FRAME).unwrap();
        let left = disk.files().remove(&path).unwrap();
        assert_eq!(left.len() as u64, bytes);
        let (frame, rest) = left.split_at(usize::try_from(FRAME).unwrap());
        assert!(frame.iter().any(|&byte| byte != 0) && rest.iter().all(|&byte| byte == 0));
        assert_eq!(append(&mut wal, 2), 1);
        assert_eq!(recovered(&disk).unwrap(), [1, 2]);
    }

    #[test]
    fn recovery_tells_what_it_read() {
        let disk = MemDisk::shared();
        let (mut wal, pool) = writer(&disk, 1);
        let mut last = 0;
        while append(&mut wal, last + 1) < 3 {
            last += 1;
        }
        pool.prepare().unwrap();
        let all = segments(&disk);
        let read = |all: &[u64], needed| {
            recovery::recover(&*disk, Path::new("d"), all, needed, |_, _, _| Ok(()))
        };
        let recovered = read(&all, 1).unwrap();
        assert_eq!((&recovered.used[..], &recovered.unused[..]), (&[1, 2, 3][..], &[4][..]));
        assert_eq!((recovered.frames, recovered.end), (last + 1, FRAME));
        // Without the second one: what it held has to be in files.
        let third = last + 1;
        assert_eq!(read(&[1, 3, 4], third).unwrap().used, [1, 3]);
        let missing =
            Error::corrupt(&names::wal(Path::new("d"), 1), 9 * FRAME, "frames are missing here");
        assert_eq!(read(&[1, 3, 4], third - 1), Err(missing));
        assert!(read(&[3, 1], third).is_err(), "numbers of frames do not go back");
    }

    #[test]
    fn a_segment_over_its_limit_is_not_read() {
        let disk = MemDisk::shared();
        let (mut wal, _pool) = writer(&disk, 1);
        append(&mut wal, 1);
        /// A disk whose files say that they are longer than they are.
        #[derive(Debug)]
        struct Longer(Arc<MemDisk>, u64);
        #[derive(Debug)]
        struct LongerFile(Arc<dyn crate::disk::DiskFile>, u64);
        impl crate::disk::DiskFile for LongerFile {
            fn read_at(&self, buf: &mut [u8], offset: u64) -> std::io::Result<usize> {
                self.0.read_at(buf, offset)
            }
            fn write_at(&self, bytes: &[u8], offset: u64) -> std::io::Result<usize> {
                self.0.write_at(bytes, offset)
            }
            fn sync_data(&self) -> std::io::Result<()> {
                self.0.sync_data()
            }
            fn len(&self) -> std::io::Result<u64> {
                Ok(self.1)
            }
        }
        impl Disk for Longer {
            fn create_dir(&self, dir: &Path) -> std::io::Result<()> {
                self.0.create_dir(dir)
            }
            fn create(&self, path: &Path) -> std::io::Result<Arc<dyn crate::disk::DiskFile>> {
                self.0.create(path)
            }
            fn open(
                &self,
                path: &Path,
                access: OpenFor,
            ) -> std::io::Result<Arc<dyn crate::disk::DiskFile>> {
                Ok(Arc::new(LongerFile(self.0.open(path, access)?, self.1)))
            }
            fn rename(&self, from: &Path, to: &Path) -> std::io::Result<()> {
                self.0.rename(from, to)
            }
            fn remove(&self, path: &Path) -> std::io::Result<()> {
                self.0.remove(path)
            }
            fn link(&self, from: &Path, to: &Path) -> std::io::Result<()> {
                self.0.link(from, to)
            }
            fn list(&self, dir: &Path) -> std::io::Result<Vec<String>> {
                self.0.list(dir)
            }
            fn sync_dir(&self, dir: &Path) -> std::io::Result<()> {
                self.0.sync_dir(dir)
            }
            fn lock(&self, path: &Path) -> std::io::Result<Box<dyn crate::disk::DiskLock>> {
                self.0.lock(path)
            }
        }
        let most = crate::limits::SEGMENT_BYTES_MAX;
        let read = |bytes| {
            let disk = Longer(disk.clone(), bytes);
            recovery::recover(&disk, Path::new("d"), &[1], 1, |_, _, _| Ok(())).map(|r| r.frames)
        };
        assert_eq!(read(most), Ok(1));
        let path = names::wal(Path::new("d"), 1);
        assert_eq!(read(most + 1), Err(Error::corrupt(&path, most, "a segment over its limit")));
    }
}
