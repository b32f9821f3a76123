//! Writes one SST, front to back, in large writes, and syncs it.
//!
//! The caller (flush or compaction) adds entries in order and calls `finish`; the file counts only when a manifest
//! names it, so a builder that fails or is dropped leaves a file that is never read and that the next open removes.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::CHECKSUM_BYTES;
use super::block::BlockBuilder;
use super::filter::SstFilter;
use super::footer::{FileSection, Footer, Properties};
use super::index::{IndexBuilder, separator};
use crate::batch::EntryKind;
use crate::checksum::checksum;
use crate::disk::{Disk, DiskFile, write_all_at};
use crate::error::{Error, Result};
use crate::hash::key_hash;
use crate::names;

/// Bytes gathered before they are written.
const WRITE_BYTES: usize = 1 << 20;

/// An SST in the making.
#[derive(Debug)]
pub(crate) struct SstBuilder {
    number: u64,
    path: PathBuf,
    file: Arc<dyn DiskFile>,
    block_bytes: usize,
    bits_per_key: usize,
    block: BlockBuilder,
    index: IndexBuilder,
    hashes: Vec<u64>,
    properties: Properties,
    /// Bytes not yet written, and where they go.
    pending: Vec<u8>,
    written: u64,
    /// The last block's length and last key, until the next key says how short its separator may be.
    unindexed: Option<(Vec<u8>, u32)>,
}

/// What was written.
#[derive(Clone, Debug)]
pub(crate) struct SstSummary {
    /// The file's number.
    pub(crate) number: u64,
    /// Its length, in bytes.
    pub(crate) bytes: u64,
    /// What it says about itself.
    pub(crate) properties: Properties,
}

impl SstBuilder {
    /// Creates the file. Blocks end at about `block_bytes`; the filter gets `bits_per_key` bits for each key.
    pub(crate) fn create(
        disk: &dyn Disk,
        dir: &Path,
        number: u64,
        block_bytes: usize,
        bits_per_key: usize,
    ) -> Result<Self> {
        let path = names::sst(dir, number);
        let file = disk.create(&path).map_err(|e| Error::io("create", &path, &e))?;
        Ok(Self {
            number,
            path,
            file,
            block_bytes,
            bits_per_key,
            block: BlockBuilder::default(),
            index: IndexBuilder::default(),
            hashes: Vec::new(),
            properties: Properties { seqno_min: u64::MAX, ..Properties::default() },
            pending: Vec::with_capacity(WRITE_BYTES.min(block_bytes * 64)),
            written: 0,
            unindexed: None,
        })
    }

    /// Appends an entry: a larger key than the last, or the same with a lower sequence number.
    pub(crate) fn add(
        &mut self,
        key: &[u8],
        seqno: u64,
        kind: EntryKind,
        value: &[u8],
    ) -> Result<()> {
        let new_key = self.properties.entries == 0 || self.properties.largest != key;
        if new_key {
            assert!(
                self.properties.entries == 0 || self.properties.largest.as_slice() < key,
                "keys are added in order"
            );
            self.hashes.push(key_hash(key));
            self.properties.largest.clear();
            self.properties.largest.extend_from_slice(key);
            if self.properties.entries == 0 {
                self.properties.smallest = key.to_vec();
            }
        }
        if let Some((last, len)) = self.unindexed.take() {
            self.index.add(&separator(&last, key), len);
        }
        self.block.add(key, seqno, kind, value);
        self.count(seqno, kind, key, value);
        if self.block.bytes_len() >= self.block_bytes { self.end_block() } else { Ok(()) }
    }

    fn count(&mut self, seqno: u64, kind: EntryKind, key: &[u8], value: &[u8]) {
        let properties = &mut self.properties;
        properties.entries += 1;
        properties.deletes += u64::from(kind == EntryKind::Delete);
        properties.seqno_min = properties.seqno_min.min(seqno);
        properties.seqno_max = properties.seqno_max.max(seqno);
        properties.key_bytes += key.len() as u64;
        properties.value_bytes += value.len() as u64;
    }

    /// The bytes it would take if it ended now, nearly.
    pub(crate) fn bytes_estimate(&self) -> u64 {
        let filter = self.hashes.len() * self.bits_per_key / 8;
        let parts = self.pending.len() + self.block.bytes_len() + self.index.bytes_len() + filter;
        self.written + parts as u64
    }

    /// The key that was added last.
    pub(crate) fn last_key(&self) -> &[u8] {
        &self.properties.largest
    }

    /// Whether nothing was added.
    pub(crate) fn is_empty(&self) -> bool {
        self.properties.entries == 0
    }

    /// Writes the rest and syncs the file. At least one entry was added.
    pub(crate) fn finish(mut self) -> Result<SstSummary> {
        assert!(!self.is_empty(), "an SST has entries");
        if !self.block.is_empty() {
            self.end_block()?;
        }
        let (last, len) = self.unindexed.take().expect("the last block waits for its separator");
        self.index.add(&last, len);
        let filter = SstFilter::build(&self.hashes, self.bits_per_key).encode();
        let filter = self.section(&filter)?;
        let index = std::mem::take(&mut self.index).finish();
        let index = self.section(&index)?;
        let properties = self.properties.encode();
        let properties = self.section(&properties)?;
        let footer = Footer { filter, index, properties };
        let offset = self.offset();
        self.pending.extend_from_slice(&footer.encode(self.number, offset));
        self.write_pending()?;
        self.file.sync_data().map_err(|e| Error::poison("sync", &self.path, &e))?;
        Ok(SstSummary { number: self.number, bytes: self.written, properties: self.properties })
    }

    fn end_block(&mut self) -> Result<()> {
        let last = self.block.last_key().to_vec();
        let start = self.pending.len();
        let offset = self.offset();
        self.block.finish(&mut self.pending);
        let len = u32::try_from(self.pending.len() - start).expect("a block is below 4 GiB");
        self.seal_part(start, offset);
        self.unindexed = Some((last, len));
        if self.pending.len() >= WRITE_BYTES { self.write_pending() } else { Ok(()) }
    }

    fn section(&mut self, bytes: &[u8]) -> Result<FileSection> {
        let offset = self.offset();
        let start = self.pending.len();
        self.pending.extend_from_slice(bytes);
        self.seal_part(start, offset);
        if self.pending.len() >= WRITE_BYTES {
            self.write_pending()?;
        }
        Ok(FileSection { offset, len: bytes.len() as u64 })
    }

    /// Puts the checksum behind the part that starts at `start` of the pending bytes.
    fn seal_part(&mut self, start: usize, offset: u64) {
        let sum = checksum([self.number, offset], &self.pending[start..]);
        self.pending.extend_from_slice(&sum.to_le_bytes());
        debug_assert_eq!(sum.to_le_bytes().len(), CHECKSUM_BYTES);
    }

    fn offset(&self) -> u64 {
        self.written + self.pending.len() as u64
    }

    fn write_pending(&mut self) -> Result<()> {
        write_all_at(&*self.file, &self.pending, self.written)
            .map_err(|e| Error::io("write", &self.path, &e))?;
        self.written += self.pending.len() as u64;
        self.pending.clear();
        Ok(())
    }
}
