//! The read path: single keys, read points and ordered scans. No locks, no waiting.

use std::ops::{Bound, RangeBounds};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{Engine, EngineShared, ReadPoints, ReadView};
use crate::batch::EntryKind;
use crate::cursor::{Cursor, MergeCursor, RunCursor};
use crate::error::{Error, Result};
use crate::hash::key_hash;
use crate::levels::Levels;
use crate::limits::LEVELS;
use crate::memtable::MemtableCursor;
use crate::sst::ReadMode;
use crate::sync::lock;
use crate::value::{LookupOutcome, ValueBytes};

/// A moment of the store: reads at it see what was committed before it and nothing after.
///
/// While it lives, no version that it may see is dropped; do not keep it for ever.
#[derive(Debug)]
pub struct ReadPoint {
    seqno: u64,
    points: Arc<ReadPoints>,
}

impl ReadPoint {
    fn now(points: &Arc<ReadPoints>) -> Self {
        let mut held = lock(&points.held);
        // Acquire: the entries up to this number are there. Under the lock, so that a job that lists the points after
        // this finds it, and one that listed them before kept the newest version, which is this point's.
        let seqno = points.visible.load(Ordering::Acquire);
        *held.entry(seqno).or_default() += 1;
        Self { seqno, points: points.clone() }
    }

    /// The sequence number of the last commit it sees.
    #[must_use]
    pub fn seqno(&self) -> u64 {
        self.seqno
    }
}

impl Clone for ReadPoint {
    fn clone(&self) -> Self {
        *lock(&self.points.held).entry(self.seqno).or_default() += 1;
        Self { seqno: self.seqno, points: self.points.clone() }
    }
}

impl Drop for ReadPoint {
    fn drop(&mut self) {
        let mut held = lock(&self.points.held);
        let count = held.get_mut(&self.seqno).expect("a read point is counted while it lives");
        *count -= 1;
        if *count == 0 {
            held.remove(&self.seqno);
        }
    }
}

impl ReadPoints {
    /// The points that somebody holds and the newest one, rising.
    pub(super) fn list(&self) -> Vec<u64> {
        let held = lock(&self.held);
        let newest = self.visible.load(Ordering::Acquire);
        let mut points: Vec<u64> = held.keys().copied().collect();
        if points.last() != Some(&newest) {
            points.push(newest);
        }
        points
    }
}

impl Engine {
    /// The value of a key now.
    ///
    /// # Errors
    /// [`Error::Corrupt`] or [`Error::Io`] if a file cannot be read.
    pub fn get(&self, key: &[u8]) -> Result<Option<ValueBytes>> {
        self.inner.admit_read()?;
        let view = self.inner.view.load();
        // After the view: see the invariant in the module header.
        let seqno = self.inner.points.visible.load(Ordering::Acquire);
        self.inner.find(&view, key, seqno, usize::MAX)
    }

    /// The first `bytes` bytes of the value of a key, or all of a shorter one: what tells one write of it from another may stand there.
    ///
    /// # Errors
    /// As [`Engine::get`].
    pub fn get_start(&self, key: &[u8], bytes: usize) -> Result<Option<ValueBytes>> {
        self.inner.admit_read()?;
        let view = self.inner.view.load();
        // After the view, as in `get`.
        let seqno = self.inner.points.visible.load(Ordering::Acquire);
        let found = self.inner.find(&view, key, seqno, bytes)?;
        Ok(found.map(|value| value.start(bytes)))
    }

    /// The value of a key at a read point of this engine.
    ///
    /// # Errors
    /// As [`Engine::get`].
    pub fn get_at(&self, point: &ReadPoint, key: &[u8]) -> Result<Option<ValueBytes>> {
        self.inner.admit_read()?;
        assert!(Arc::ptr_eq(&point.points, &self.inner.points), "a read point of this engine");
        let view = self.inner.view.load();
        self.inner.find(&view, key, point.seqno, usize::MAX)
    }

    /// A read point at this moment.
    #[must_use]
    pub fn read_point(&self) -> ReadPoint {
        ReadPoint::now(&self.inner.points)
    }

    /// The entries with keys in `range` now, by key.
    ///
    /// # Errors
    /// As [`Engine::get`].
    pub fn scan<'k>(&self, range: impl RangeBounds<&'k [u8]>) -> Result<Scan> {
        self.scan_at(&self.read_point(), range)
    }

    /// The entries with keys in `range` at a read point, by key.
    ///
    /// # Errors
    /// As [`Engine::get`].
    pub fn scan_at<'k>(
        &self,
        point: &ReadPoint,
        range: impl RangeBounds<&'k [u8]>,
    ) -> Result<Scan> {
        self.scan_in(ReadMode::Cached, point, range)
    }

    /// The entries with keys in `range` now, for who reads most of the store once: in large reads, past
    /// the block cache, which keeps what it holds.
    ///
    /// # Errors
    /// As [`Engine::get`].
    pub fn scan_once<'k>(&self, range: impl RangeBounds<&'k [u8]>) -> Result<Scan> {
        self.scan_in(ReadMode::Streaming, &self.read_point(), range)
    }

    fn scan_in<'k>(
        &self,
        mode: ReadMode,
        point: &ReadPoint,
        range: impl RangeBounds<&'k [u8]>,
    ) -> Result<Scan> {
        self.inner.admit_read()?;
        let end = range.end_bound().map(|key| key.to_vec());
        let mut scan = Scan::new(mode, point.clone(), &self.inner.view.load_full(), end)?;
        match range.start_bound() {
            Bound::Unbounded => scan.cursor.seek_first()?,
            Bound::Included(key) => scan.cursor.seek(key)?,
            Bound::Excluded(key) => {
                scan.cursor.seek(key)?;
                while scan.cursor.valid() && scan.cursor.key() == *key {
                    scan.cursor.next()?;
                }
            }
        }
        Ok(scan)
    }

    /// The entries whose keys start with `prefix` now, by key.
    ///
    /// # Errors
    /// As [`Engine::get`].
    pub fn prefix(&self, prefix: &[u8]) -> Result<Scan> {
        let end = after_prefix(prefix);
        let end = end.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        self.scan((Bound::Included(prefix), end))
    }
}

impl EngineShared {
    fn admit_read(&self) -> Result<()> {
        if self.closed.load(Ordering::Acquire) { Err(Error::Closed) } else { Ok(()) }
    }

    /// Finds a value, at least its first `bytes_max` bytes.
    fn find(
        &self,
        view: &ReadView,
        key: &[u8],
        seqno: u64,
        bytes_max: usize,
    ) -> Result<Option<ValueBytes>> {
        let hash = key_hash(key);
        for table in std::iter::once(&view.active).chain(&view.frozen) {
            match table.get(key, hash, seqno, bytes_max) {
                LookupOutcome::Value(value) => return Ok(Some(value)),
                LookupOutcome::Deleted => return Ok(None),
                LookupOutcome::Nothing => {}
            }
        }
        match view.levels.get(key, hash, seqno, &self.probes)? {
            LookupOutcome::Value(value) => Ok(Some(value)),
            LookupOutcome::Deleted | LookupOutcome::Nothing => Ok(None),
        }
    }
}

/// The lowest key above all that start with `prefix`; `None` if there is none.
fn after_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|&byte| byte != u8::MAX)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end)
}

/// Entries in order at one read point. Either an iterator of owned pairs, or [`Scan::next_entry`] for borrowed ones.
///
/// It keeps the files it reads from; they stay on the disk until it is dropped.
pub struct Scan {
    cursor: MergeCursor,
    point: ReadPoint,
    end: Bound<Vec<u8>>,
    /// The key of the last entry that was judged; older versions of it are passed over.
    key: Vec<u8>,
    value: Vec<u8>,
    judged: bool,
    failed: bool,
    /// Keeps the files it reads from alive.
    _levels: Arc<Levels>,
}

impl std::fmt::Debug for Scan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scan").field("point", &self.point.seqno).finish_non_exhaustive()
    }
}

impl Scan {
    fn new(mode: ReadMode, point: ReadPoint, view: &ReadView, end: Bound<Vec<u8>>) -> Result<Self> {
        let mut sources: Vec<Box<dyn Cursor>> = Vec::new();
        for table in std::iter::once(&view.active).chain(&view.frozen) {
            sources.push(Box::new(MemtableCursor::new(table.clone())));
        }
        for file in view.levels.l0() {
            sources.push(file.cursor(mode)?);
        }
        for level in 1..LEVELS {
            let files = view.levels.files(level);
            if !files.is_empty() {
                sources.push(Box::new(RunCursor::new(files.to_vec(), mode)));
            }
        }
        let cursor = MergeCursor::new(sources);
        let (key, value) = (Vec::new(), Vec::new());
        let _levels = view.levels.clone();
        Ok(Self { cursor, point, end, key, value, judged: false, failed: false, _levels })
    }

    /// The next entry, borrowed until the next call; `None` at the end.
    ///
    /// # Errors
    /// As [`Engine::get`]; the scan is over then.
    pub fn next_entry(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        if self.failed {
            return Ok(None);
        }
        match self.advance() {
            Ok(true) => Ok(Some((&self.key, &self.value))),
            Ok(false) => Ok(None),
            Err(error) => {
                self.failed = true;
                Err(error)
            }
        }
    }

    fn advance(&mut self) -> Result<bool> {
        while self.cursor.valid() && self.before_end(self.cursor.key()) {
            let new = !self.judged || self.cursor.key() != self.key;
            if !new || self.cursor.seqno() > self.point.seqno {
                self.cursor.next()?;
                continue;
            }
            self.key.clear();
            self.key.extend_from_slice(self.cursor.key());
            self.judged = true;
            let put = self.cursor.kind() == EntryKind::Put;
            if put {
                self.value.clear();
                self.value.extend_from_slice(self.cursor.value());
            }
            self.cursor.next()?;
            if put {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn before_end(&self, key: &[u8]) -> bool {
        match &self.end {
            Bound::Unbounded => true,
            Bound::Included(end) => key <= end.as_slice(),
            Bound::Excluded(end) => key < end.as_slice(),
        }
    }
}

impl Iterator for Scan {
    type Item = Result<(Vec<u8>, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        let entry = self.next_entry().transpose()?;
        Some(entry.map(|(key, value)| (key.to_vec(), value.to_vec())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_prefix_is_the_next_key_without_it() {
        assert_eq!(after_prefix(b""), None);
        assert_eq!(after_prefix(b"a"), Some(b"b".to_vec()));
        assert_eq!(after_prefix(b"a\xff\xff"), Some(b"b".to_vec()));
        assert_eq!(after_prefix(b"\xff\xff"), None);
    }
}
