//! A live SST: its description, the open file behind it, and its end.
//!
//! Readers, compactions and checkpoints hold `Arc<SstFile>`s. A file that no manifest names any more is *obsolete*: when
//! the last holder lets go, its number goes to the [`ObsoleteFiles`], and the background removes it from the disk. So no
//! file disappears under a reader, and no reader thread does disk work for others.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use crate::cursor::Cursor;
use crate::error::Result;
use crate::sst::{ReadMode, Sst, SstCursor, SstShared};
use crate::sync::lock;

/// What the manifest says about an SST.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileDesc {
    /// Its number.
    pub(crate) number: u64,
    /// Its length, in bytes.
    pub(crate) bytes: u64,
    /// How many entries it has.
    pub(crate) entries: u64,
    /// How many of them are deletes.
    pub(crate) deletes: u64,
    /// The lowest sequence number in it.
    pub(crate) seqno_min: u64,
    /// The highest sequence number in it.
    pub(crate) seqno_max: u64,
    /// Its first key.
    pub(crate) smallest: Vec<u8>,
    /// Its last key.
    pub(crate) largest: Vec<u8>,
}

/// Numbers of files that nobody holds and nobody names.
#[derive(Debug, Default)]
pub(crate) struct ObsoleteFiles(Mutex<Vec<u64>>);

impl ObsoleteFiles {
    /// Takes everything that waits for removal.
    pub(crate) fn take(&self) -> Vec<u64> {
        std::mem::take(&mut lock(&self.0))
    }
}

/// A live SST.
#[derive(Debug)]
pub(crate) struct SstFile {
    desc: FileDesc,
    shared: Arc<SstShared>,
    sst: OnceLock<Arc<Sst>>,
    is_obsolete: AtomicBool,
    obsolete_files: Arc<ObsoleteFiles>,
}

impl SstFile {
    /// The file behind a description; it is opened when it is first read.
    pub(crate) fn new(
        desc: FileDesc,
        shared: Arc<SstShared>,
        obsolete_files: Arc<ObsoleteFiles>,
    ) -> Self {
        Self {
            desc,
            shared,
            sst: OnceLock::new(),
            is_obsolete: AtomicBool::new(false),
            obsolete_files,
        }
    }

    /// What the manifest says about it.
    pub(crate) fn desc(&self) -> &FileDesc {
        &self.desc
    }

    /// The open file.
    pub(crate) fn sst(&self) -> Result<&Arc<Sst>> {
        if let Some(sst) = self.sst.get() {
            return Ok(sst);
        }
        let sst = Sst::open(self.shared.clone(), self.desc.number, self.desc.bytes)?;
        // Two threads may have opened it; either one's copy will do.
        Ok(self.sst.get_or_init(|| Arc::new(sst)))
    }

    /// The memory of its filter and block index, in bytes; 0 if it was not read yet.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.sst.get().map_or(0, |sst| sst.memory_bytes())
    }

    /// A cursor over its entries.
    pub(crate) fn cursor(&self, mode: ReadMode) -> Result<Box<dyn Cursor>> {
        Ok(Box::new(SstCursor::new(self.sst()?.clone(), mode)))
    }

    /// Whether its keys and `smallest..=largest` meet.
    pub(crate) fn overlaps(&self, smallest: &[u8], largest: &[u8]) -> bool {
        self.desc.smallest.as_slice() <= largest && smallest <= self.desc.largest.as_slice()
    }

    /// Says that no manifest names it any more.
    pub(crate) fn mark_obsolete(&self) {
        // Release: pairs with the acquire in drop, which runs after the last holder is gone anyway.
        self.is_obsolete.store(true, Ordering::Release);
    }
}

impl Drop for SstFile {
    fn drop(&mut self) {
        if self.is_obsolete.load(Ordering::Acquire) {
            self.shared.files.forget(self.desc.number);
            lock(&self.obsolete_files.0).push(self.desc.number);
        }
    }
}

#[cfg(test)]
impl SstFile {
    /// A file that is described and never read.
    pub(crate) fn described(desc: FileDesc) -> Arc<Self> {
        use crate::cache::{BlockCache, FileCache};
        let files = FileCache::new(crate::disk::MemDisk::shared(), "d".into(), 1);
        let shared = Arc::new(SstShared { blocks: BlockCache::new(4096), files });
        Arc::new(Self::new(desc, shared, Arc::default()))
    }

    /// The same; its sequence numbers are its number.
    pub(crate) fn unread(number: u64, bytes: u64, smallest: &str, largest: &str) -> Arc<Self> {
        Self::described(FileDesc {
            number,
            bytes,
            entries: 1,
            deletes: 0,
            seqno_min: number,
            seqno_max: number,
            smallest: smallest.into(),
            largest: largest.into(),
        })
    }
}
