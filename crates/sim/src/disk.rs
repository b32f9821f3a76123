//! A server's disk: one that records what it is told, and what a power cut leaves of it.
//!
//! The recording disk and the model of a crash are the engine's own ([`FaultyDisk`], [`left_at_the_end`]). [`Lying`] stands before it when a run is
//! sabotaged: it says that bytes are safe which are not.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use kallisto_lsm::disk::cuts::left_at_the_end;
use kallisto_lsm::disk::{
    Disk, DiskFile, DiskLock, FaultyDisk, OpenFor, UnsyncedTail, write_all_at,
};

/// What a power cut leaves, on a disk that records from then on.
pub(crate) fn after_power_cut(
    disk: &FaultyDisk,
    tail: UnsyncedTail,
    seed: u64,
) -> io::Result<Arc<FaultyDisk>> {
    let fresh = FaultyDisk::shared();
    for (path, bytes) in left_at_the_end(&disk.events(), tail, seed).files() {
        let file = fresh.create(&path)?;
        write_all_at(&*file, &bytes, 0)?;
        file.sync_data()?;
        fresh.sync_dir(path.parent().unwrap_or(Path::new("")))?;
    }
    Ok(fresh)
}

/// A disk that syncs nothing when fewer than `honest_from` bytes were written to a file since the last time.
#[derive(Debug)]
pub(crate) struct Lying {
    inner: Arc<FaultyDisk>,
    honest_from: usize,
}

impl Lying {
    /// A liar before `inner`.
    pub(crate) fn new(inner: Arc<FaultyDisk>, honest_from: usize) -> Self {
        Self { inner, honest_from }
    }

    fn wrap(&self, inner: Arc<dyn DiskFile>) -> Arc<dyn DiskFile> {
        let honest_from = self.honest_from;
        Arc::new(LyingFile { inner, honest_from, written: AtomicUsize::new(0) })
    }
}

impl Disk for Lying {
    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        self.inner.create_dir(dir)
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        self.inner.create(path).map(|file| self.wrap(file))
    }

    fn open(&self, path: &Path, access: OpenFor) -> io::Result<Arc<dyn DiskFile>> {
        self.inner.open(path, access).map(|file| self.wrap(file))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.inner.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.inner.remove(path)
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.inner.link(from, to)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.inner.list(dir)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.inner.sync_dir(dir)
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn DiskLock>> {
        self.inner.lock(path)
    }
}

#[derive(Debug)]
struct LyingFile {
    inner: Arc<dyn DiskFile>,
    honest_from: usize,
    written: AtomicUsize,
}

impl DiskFile for LyingFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.inner.read_at(buf, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        // Relaxed: one thread.
        self.written.fetch_add(bytes.len(), Ordering::Relaxed);
        self.inner.write_at(bytes, offset)
    }

    fn sync_data(&self) -> io::Result<()> {
        if self.written.swap(0, Ordering::Relaxed) < self.honest_from {
            return Ok(());
        }
        self.inner.sync_data()
    }

    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }
}
