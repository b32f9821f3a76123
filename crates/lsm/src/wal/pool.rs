//! WAL segments ready to be written, and old ones that may be.
//!
//! A ready segment is a file of full size, filled with zeros (or with frames of its earlier life), synced, its name
//! synced too. Writing to it then changes no metadata, which makes `fdatasync` less than half as slow as on a growing
//! file. A flushed segment comes back, is renamed to a new number and is ready again; its old frames carry the old
//! number and never pass for new ones.
//!
//! `prepare` is for the background; `take` prepares in the foreground only if nothing is ready.
//!
//! Invariant: segments are taken with rising numbers, because recovery reads them in that order. A segment that became
//! ready too late for that goes back and is renamed once more.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use crate::disk::{Disk, DiskFile, OpenFor, write_all_at};
use crate::error::{Error, Result};
use crate::limits::SPARE_SEGMENTS_MAX;
use crate::names;
use crate::numbers::FileNumbers;
use crate::sync::lock;

/// Bytes of zeros written at once.
pub(super) static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// A segment that may be written from the start.
#[derive(Debug)]
pub(crate) struct ReadySegment {
    /// Its number.
    pub(crate) number: u64,
    /// Its open file.
    pub(crate) file: Arc<dyn DiskFile>,
    /// Its size, in bytes.
    pub(crate) bytes: u64,
}

/// The segments that are not in use.
#[derive(Debug)]
pub(crate) struct SegmentPool {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    segment_bytes: u64,
    numbers: Arc<FileNumbers>,
    state: Mutex<PoolState>,
}

#[derive(Debug, Default)]
struct PoolState {
    ready: Option<ReadySegment>,
    /// Numbers of segments of the usual size whose frames nobody needs.
    flushed: Vec<u64>,
    /// Numbers of segments whose frames may be needed.
    in_use: BTreeSet<u64>,
    /// The highest number that was taken.
    last_taken: u64,
}

impl SegmentPool {
    /// An empty pool for segments of `segment_bytes` bytes in `dir`.
    pub(crate) fn new(
        disk: Arc<dyn Disk>,
        dir: PathBuf,
        segment_bytes: u64,
        numbers: Arc<FileNumbers>,
    ) -> Self {
        Self { disk, dir, segment_bytes, numbers, state: Mutex::default() }
    }

    /// Where the segments are.
    pub(crate) fn disk(&self) -> Arc<dyn Disk> {
        Arc::clone(&self.disk)
    }

    /// A segment with room for `bytes` bytes, numbered above every earlier one.
    pub(crate) fn take(&self, bytes: u64) -> Result<ReadySegment> {
        let ready = lock(&self.state).ready.take();
        let segment = match ready {
            Some(ready) if bytes <= ready.bytes => ready,
            Some(ready) => {
                // A segment made now has a higher number, so the ready one may not follow it as it is.
                lock(&self.state).flushed.push(ready.number);
                self.create(bytes)?
            }
            None if bytes > self.segment_bytes => self.create(bytes)?,
            None => self.make_ready()?,
        };
        let mut state = lock(&self.state);
        assert!(segment.number > state.last_taken, "segments are taken with rising numbers");
        state.last_taken = segment.number;
        state.in_use.insert(segment.number);
        // The background may have made one ready while this one was made, with a number that is now too low.
        if let Some(late) = state.ready.take_if(|ready| ready.number < segment.number) {
            state.flushed.push(late.number);
        }
        drop(state);
        Ok(segment)
    }

    /// Makes sure that a segment is ready.
    pub(crate) fn prepare(&self) -> Result<()> {
        if !self.wants_prepare() {
            return Ok(());
        }
        let made = self.make_ready()?;
        let mut state = lock(&self.state);
        if made.number < state.last_taken || state.ready.is_some() {
            state.flushed.push(made.number);
        } else {
            state.ready = Some(made);
        }
        Ok(())
    }

    /// Whether no segment is ready.
    pub(crate) fn wants_prepare(&self) -> bool {
        lock(&self.state).ready.is_none()
    }

    /// Says that recovery found these segments in use.
    pub(crate) fn adopt(&self, numbers: &[u64]) {
        let mut state = lock(&self.state);
        state.in_use.extend(numbers);
        state.last_taken = numbers.iter().copied().max().unwrap_or(0).max(state.last_taken);
    }

    /// A number that no segment taken so far reaches and every later one does.
    pub(crate) fn next_floor(&self) -> u64 {
        lock(&self.state).last_taken + 1
    }

    /// Bytes of the segments in use, if they have the usual size.
    pub(crate) fn in_use_bytes(&self) -> u64 {
        lock(&self.state).in_use.len() as u64 * self.segment_bytes
    }

    /// Takes back the segments in use whose numbers are below `floor`: their entries are all in SSTs.
    pub(crate) fn release_below(&self, floor: u64) -> Result<()> {
        let released = {
            let mut state = lock(&self.state);
            let kept = state.in_use.split_off(&floor);
            std::mem::replace(&mut state.in_use, kept)
        };
        released.into_iter().try_for_each(|number| self.release(number))
    }

    /// Removes the segments whose frames nobody needs, but for one that is made ready if none is.
    pub(crate) fn leave_one_spare(&self) -> Result<()> {
        if !lock(&self.state).flushed.is_empty() {
            self.prepare()?;
        }
        let spares = std::mem::take(&mut lock(&self.state).flushed);
        spares.into_iter().try_for_each(|number| self.remove(number))
    }

    /// Takes back a segment that nobody needs.
    pub(crate) fn release(&self, number: u64) -> Result<()> {
        let path = names::wal(&self.dir, number);
        let len = self.disk.open(&path, OpenFor::Read).and_then(|file| file.len());
        let usual = len.is_ok_and(|len| len == self.segment_bytes);
        let kept = {
            let mut state = lock(&self.state);
            let kept = usual && state.flushed.len() < SPARE_SEGMENTS_MAX;
            if kept {
                state.flushed.push(number);
            }
            kept
        };
        if kept {
            return Ok(());
        }
        self.remove(number)
    }

    fn remove(&self, number: u64) -> Result<()> {
        let path = names::wal(&self.dir, number);
        self.disk.remove(&path).map_err(|e| Error::io("remove", &path, &e))
    }

    fn make_ready(&self) -> Result<ReadySegment> {
        let flushed = lock(&self.state).flushed.pop();
        match flushed {
            Some(number) => self.recycle(number),
            None => self.create(self.segment_bytes),
        }
    }

    fn recycle(&self, old: u64) -> Result<ReadySegment> {
        let number = self.numbers.next();
        let (from, to) = (names::wal(&self.dir, old), names::wal(&self.dir, number));
        self.disk.rename(&from, &to).map_err(|e| Error::io("rename", &from, &e))?;
        let file =
            self.disk.open(&to, OpenFor::ReadWrite).map_err(|e| Error::io("open", &to, &e))?;
        self.sync_dir()?;
        Ok(ReadySegment { number, file, bytes: self.segment_bytes })
    }

    fn create(&self, bytes: u64) -> Result<ReadySegment> {
        let number = self.numbers.next();
        let path = names::wal(&self.dir, number);
        let made = self.fill(&path, bytes);
        let Ok(file) = made else {
            // A half-made segment is no use to anyone; the next open would remove it too.
            let _ = self.disk.remove(&path);
            return Err(made.err().unwrap_or(Error::Closed));
        };
        file.sync_data().map_err(|e| Error::poison("sync", &path, &e))?;
        self.sync_dir()?;
        Ok(ReadySegment { number, file, bytes })
    }

    fn fill(&self, path: &Path, bytes: u64) -> Result<Arc<dyn DiskFile>> {
        let file = self.disk.create(path).map_err(|e| Error::io("create", path, &e))?;
        let mut at = 0;
        while at < bytes {
            let n = ZEROS.len().min(usize::try_from(bytes - at).unwrap_or(usize::MAX));
            write_all_at(&*file, &ZEROS[..n], at).map_err(|e| Error::io("fill", path, &e))?;
            at += n as u64;
        }
        Ok(file)
    }

    fn sync_dir(&self) -> Result<()> {
        self.disk.sync_dir(&self.dir).map_err(|e| Error::poison("sync", &self.dir, &e))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::MemDisk;

    const SEGMENT: u64 = 512;

    fn pool(disk: &Arc<MemDisk>) -> SegmentPool {
        let numbers = Arc::new(FileNumbers::new(1));
        SegmentPool::new(disk.clone(), "d".into(), SEGMENT, numbers)
    }

    /// The segments that are on the disk, with their sizes.
    fn files(disk: &MemDisk) -> Vec<(u64, u64)> {
        let files = disk.files();
        let sized = files.iter().map(|(path, bytes)| {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap();
            (names::FileName::parse(name).number().unwrap(), bytes.len() as u64)
        });
        sized.collect()
    }

    fn flushed(pool: &SegmentPool) -> Vec<u64> {
        lock(&pool.state).flushed.clone()
    }

    #[test]
    fn a_ready_segment_is_taken_if_it_has_room_and_another_made_if_not() {
        let disk = MemDisk::shared();
        let pool = pool(&disk);
        assert!(pool.wants_prepare());
        pool.prepare().unwrap();
        assert!(!pool.wants_prepare());
        pool.prepare().unwrap();
        assert_eq!(files(&disk), [(1, SEGMENT)], "there is one");
        let taken = pool.take(SEGMENT).unwrap();
        assert_eq!((taken.number, taken.bytes), (1, SEGMENT), "exactly what it has");
        pool.prepare().unwrap();
        let taken = pool.take(SEGMENT + 1).unwrap();
        assert_eq!((taken.number, taken.bytes), (3, SEGMENT + 1));
        assert_eq!(flushed(&pool), [2], "it may not follow as it is");
        let taken = pool.take(SEGMENT).unwrap();
        assert_eq!((taken.number, taken.bytes), (4, SEGMENT), "renamed");
        assert_eq!(files(&disk), [(1, SEGMENT), (3, SEGMENT + 1), (4, SEGMENT)]);
        let taken = pool.take(3 * SEGMENT).unwrap();
        assert_eq!((taken.number, taken.bytes), (5, 3 * SEGMENT), "none was ready");
        assert_eq!((pool.in_use_bytes(), pool.next_floor()), (4 * SEGMENT, 6));
        let large = u64::try_from(ZEROS.len()).unwrap() * 2 + 8;
        assert_eq!(pool.take(large).unwrap().file.len().unwrap(), large, "zeros come in pieces");
    }

    #[test]
    fn a_segment_that_became_ready_too_late_goes_back() {
        let disk = MemDisk::shared();
        let pool = pool(&disk);
        // As if others had been taken while it was made.
        lock(&pool.state).last_taken = 9;
        pool.prepare().unwrap();
        assert_eq!((flushed(&pool), pool.wants_prepare()), (vec![1], true));
        lock(&pool.state).last_taken = 1;
        pool.prepare().unwrap();
        assert_eq!((flushed(&pool), pool.wants_prepare()), (vec![], false));
        assert_eq!(pool.take(1).unwrap().number, 2, "renamed");
    }

    #[test]
    fn segments_of_the_usual_size_are_kept_for_later_up_to_their_limit() {
        let disk = MemDisk::shared();
        let pool = pool(&disk);
        let kept = SPARE_SEGMENTS_MAX as u64;
        (0..kept + 3).for_each(|n| assert_eq!(pool.take(1).unwrap().number, n + 1));
        let large = pool.take(SEGMENT + 1).unwrap().number;
        assert_eq!(pool.in_use_bytes(), (kept + 4) * SEGMENT);
        pool.release_below(1).unwrap();
        assert!(flushed(&pool).is_empty());
        pool.release(large).unwrap();
        assert!(flushed(&pool).is_empty(), "it has another size");
        pool.release_below(kept + 3).unwrap();
        assert_eq!(flushed(&pool), (1..=kept).collect::<Vec<_>>());
        let left: Vec<u64> = files(&disk).into_iter().map(|(number, _)| number).collect();
        assert_eq!(left, (1..=kept).chain([kept + 3]).collect::<Vec<_>>());
        pool.leave_one_spare().unwrap();
        let ready = kept + 5;
        let left: Vec<u64> = files(&disk).into_iter().map(|(number, _)| number).collect();
        assert_eq!(left, [kept + 3, ready], "one in use, and one that is ready");
        assert_eq!((flushed(&pool), pool.wants_prepare()), (vec![], false));
        pool.leave_one_spare().unwrap();
        assert_eq!(pool.take(1).unwrap().number, ready);
    }

    #[test]
    fn what_recovery_found_counts_as_taken() {
        let disk = MemDisk::shared();
        let pool = pool(&disk);
        assert_eq!((pool.in_use_bytes(), pool.next_floor()), (0, 1));
        pool.adopt(&[3, 7, 5]);
        assert_eq!((pool.in_use_bytes(), pool.next_floor()), (3 * SEGMENT, 8));
        pool.adopt(&[]);
        assert_eq!(pool.next_floor(), 8);
    }
}
