//! The engines behind one door, each with the settings that its own documentation recommends for this use.
//!
//! All get the same cache, the same disk and the same calls; none compresses. What "batched" and "durable" mean is the
//! same for all: a batch is one transaction that reaches the file system and need not be synced; a durable put returns
//! when a power cut could not take it.

mod fjall;
mod kallisto;
mod lmdb;
mod redb;
#[cfg(feature = "rocksdb")]
mod rocks;

use std::path::Path;

/// The cache of each engine, in bytes.
pub const CACHE_BYTES: usize = 64 << 20;

/// The key of every row.
pub type Key = [u8; 16];

/// When a write has to be on the disk.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Syncing {
    /// When the engine likes.
    Later,
    /// Before the call returns.
    EveryPut,
}

/// An open engine.
pub trait Store: Sync {
    /// Applies these pairs as one batch.
    fn put_batch(&self, pairs: &[(Key, &[u8])]);
    /// Applies one pair; it is durable afterwards if the store was opened so.
    fn put(&self, key: &Key, value: &[u8]);
    /// The length of a value, read to its last byte.
    fn get(&self, key: &Key) -> Option<usize>;
    /// Reads everything in order; how many entries that was.
    fn scan(&self) -> u64;
    /// Makes everything durable and, where the engine knows such a call, writes out what is in memory.
    fn flush(&self);
}

/// An engine that takes part.
#[derive(Clone, Copy)]
pub struct Engine {
    /// What the table calls it.
    pub name: &'static str,
    /// Opens a store in an existing folder.
    pub open: fn(&Path, Syncing) -> Box<dyn Store>,
}

/// Everyone who was compiled in, ours first.
pub const ENGINES: &[Engine] = &[
    Engine { name: "kallisto", open: kallisto::open },
    Engine { name: "fjall", open: fjall::open },
    #[cfg(feature = "rocksdb")]
    Engine { name: "rocksdb", open: rocks::open },
    Engine { name: "redb", open: redb::open },
    Engine { name: "lmdb", open: lmdb::open },
];

/// Reads a value as its user would.
fn touch(value: &[u8]) -> usize {
    std::hint::black_box(value.iter().fold(0u8, |sum, byte| sum ^ byte));
    value.len()
}
