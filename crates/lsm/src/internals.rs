//! Decoders as plain functions of bytes: the targets of the fuzzers and of the hostile-bytes tests.
//!
//! Each takes any bytes and must return without panicking; what it returns does not matter.

use std::sync::Arc;

use crate::batch::Operations;
use crate::sst::block::{Block, BlockCursor};
use crate::sst::filter::SstFilter;
use crate::sst::footer::{Footer, Properties};
use crate::sst::index::BlockIndex;

/// Reads a data block in order and searches it for `key`.
pub fn read_hostile_block(bytes: &[u8], key: &[u8]) {
    let Ok(block) = Block::new(Arc::new(bytes.to_vec()), 0, bytes.len()) else { return };
    let _ = block.find(key, u64::MAX >> 8);
    let _ = BlockCursor::seek(block.clone(), key, Vec::new());
    let Ok(mut cursor) = BlockCursor::first(block, Vec::new()) else { return };
    while cursor.valid() {
        let _ = (cursor.key().len(), cursor.value().len());
        if cursor.advance().is_err() {
            return;
        }
    }
}

/// Reads a filter and asks it.
pub fn read_hostile_filter(bytes: &[u8], hash: u64) {
    if let Ok(filter) = SstFilter::decode(bytes) {
        let _ = filter.may_contain(hash);
    }
}

/// Reads a block index, a footer and properties.
pub fn read_hostile_index(bytes: &[u8], key: &[u8]) {
    for data_bytes in [0, 100, 104 * 40] {
        if let Ok(index) = BlockIndex::decode(bytes, data_bytes) {
            let _ = index.find(key);
        }
    }
    let _ = Properties::decode(bytes);
    let _ = Footer::decode(bytes, 1, bytes.len() as u64);
}

/// Reads encoded operations.
pub fn read_hostile_operations(bytes: &[u8]) {
    Operations::new(bytes).take_while(Option::is_some).for_each(drop);
}

/// Reads a WAL frame.
pub fn read_hostile_frame(bytes: &[u8]) {
    if let Some(frame) = crate::wal::frame::decode(bytes, 1) {
        read_hostile_operations(frame.payload);
    }
}

/// Reads a manifest.
pub fn read_hostile_manifest(bytes: &[u8]) {
    let _ = crate::manifest::decode(bytes, 1, std::path::Path::new("manifest"));
}

/// The memtable alone, for the benchmark that argues its design.
#[derive(Debug)]
pub struct BenchMemtable {
    table: Arc<crate::memtable::Memtable>,
    writer: crate::memtable::MemtableWriter,
    seqno: u64,
}

impl BenchMemtable {
    /// An empty one of `bytes_max` bytes, for keys like those of a sorted sample: the engine has that from the one before.
    #[must_use]
    pub fn new(bytes_max: usize, sample: Vec<Vec<u8>>) -> Self {
        let prefixes = crate::memtable::SharedPrefixes::learn(sample);
        let (table, writer) = crate::memtable::Memtable::new(bytes_max, 0, prefixes);
        Self { table, writer, seqno: 0 }
    }

    /// Inserts an entry.
    pub fn put(&mut self, key: &[u8], value: &[u8]) {
        self.seqno += 1;
        let kind = crate::batch::EntryKind::Put;
        self.writer.insert(self.seqno, crate::batch::BatchOperation { kind, key, value });
    }

    /// Whether a key is there.
    #[must_use]
    pub fn contains(&self, key: &[u8]) -> bool {
        let found = self.table.get(key, crate::hash::key_hash(key), u64::MAX >> 8, usize::MAX);
        matches!(found, crate::value::LookupOutcome::Value(_))
    }
}

/// The filter of SSTs alone, for the benchmark that argues its design.
#[derive(Debug)]
pub struct BenchFilter(SstFilter);

impl BenchFilter {
    /// A filter for these keys.
    #[must_use]
    pub fn new(keys: impl Iterator<Item = u64>, bits_per_key: usize) -> Self {
        let hashes: Vec<u64> = keys.map(Self::hash).collect();
        Self(SstFilter::build(&hashes, bits_per_key))
    }

    /// The hash of a key.
    #[must_use]
    pub fn hash(key: u64) -> u64 {
        crate::hash::key_hash(&key.to_be_bytes())
    }

    /// Whether a key with this hash may be there.
    #[must_use]
    pub fn may_contain(&self, hash: u64) -> bool {
        self.0.may_contain(hash)
    }
}
