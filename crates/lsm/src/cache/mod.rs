//! Two caches: blocks that were read, and files that are open.
//!
//! Both are `quick_cache` behind a small interface, sharded, bounded by weight, hashed by our own mix because their keys are
//! numbers of ours. File numbers are never reused, so an entry can be old but never wrong; entries of removed files
//! leave by eviction.

use std::hash::{BuildHasher, Hasher};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use quick_cache::Weighter;
use quick_cache::sync::{Cache, DefaultLifecycle};

use crate::disk::{Disk, DiskFile, OpenFor};
use crate::names;
use crate::sst::block::Block;

/// What a cached block costs beside its bytes.
const ENTRY_OVERHEAD_BYTES: u64 = 96;
/// The bytes of a usual block, for sizing the cache's tables.
const BLOCK_BYTES_USUAL: u64 = 4096;

/// Blocks by file number and place.
#[derive(Debug)]
pub(crate) struct BlockCache {
    blocks: Cache<(u64, u64), Block, BlockWeight, NumberHash>,
    hits: AtomicU64,
    misses: AtomicU64,
}

#[derive(Clone, Debug)]
struct BlockWeight;

impl Weighter<(u64, u64), Block> for BlockWeight {
    fn weight(&self, _key: &(u64, u64), block: &Block) -> u64 {
        block.memory_bytes() as u64 + ENTRY_OVERHEAD_BYTES
    }
}

impl BlockCache {
    /// A cache of `bytes_max` bytes.
    pub(crate) fn new(bytes_max: u64) -> Self {
        let items = usize::try_from(bytes_max / BLOCK_BYTES_USUAL).unwrap_or(usize::MAX).max(1);
        let blocks =
            Cache::with(items, bytes_max, BlockWeight, NumberHash, DefaultLifecycle::default());
        Self { blocks, hits: AtomicU64::new(0), misses: AtomicU64::new(0) }
    }

    /// The block of `file` at `offset`, if it is here.
    pub(crate) fn get(&self, file: u64, offset: u64) -> Option<Block> {
        let found = self.blocks.get(&(file, offset));
        let counter = if found.is_some() { &self.hits } else { &self.misses };
        // Relaxed: a counter for people, ordered with nothing.
        counter.fetch_add(1, Ordering::Relaxed);
        found
    }

    /// Keeps a block.
    pub(crate) fn insert(&self, file: u64, offset: u64, block: Block) {
        self.blocks.insert((file, offset), block);
    }

    /// Hits and misses so far.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.hits.load(Ordering::Relaxed), self.misses.load(Ordering::Relaxed))
    }

    /// The memory held, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.blocks.weight()
    }
}

/// Open SST files by number, at most so many at a time.
#[derive(Debug)]
pub(crate) struct FileCache {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    files: Cache<u64, Arc<dyn DiskFile>, quick_cache::UnitWeighter, NumberHash>,
}

impl FileCache {
    /// A cache of `files_max` open files of the store in `dir`.
    pub(crate) fn new(disk: Arc<dyn Disk>, dir: PathBuf, files_max: usize) -> Self {
        let files = Cache::with(
            files_max,
            files_max as u64,
            quick_cache::UnitWeighter,
            NumberHash,
            DefaultLifecycle::default(),
        );
        Self { disk, dir, files }
    }

    /// SST `number`, opened if it is not.
    pub(crate) fn get(&self, number: u64) -> io::Result<Arc<dyn DiskFile>> {
        self.files.get_or_insert_with(&number, || self.disk.open(&self.path(number), OpenFor::Read))
    }

    /// Closes a file that is about to be removed, once nobody reads it.
    pub(crate) fn forget(&self, number: u64) {
        self.files.remove(&number);
    }

    /// Where SST `number` lives.
    pub(crate) fn path(&self, number: u64) -> PathBuf {
        names::sst(&self.dir, number)
    }
}

/// Mixes our own numbers; nobody outside chooses them.
#[derive(Clone, Debug)]
struct NumberHash;

impl BuildHasher for NumberHash {
    type Hasher = NumberHasher;

    fn build_hasher(&self) -> NumberHasher {
        NumberHasher(0)
    }
}

struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, number: u64) {
        let mixed = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ (mixed >> 32);
    }

    fn finish(&self) -> u64 {
        self.0.wrapping_mul(0xbf58_476d_1ce4_e5b9)
    }
}
