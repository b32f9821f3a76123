//! An open SST: answers for single keys and hands out blocks.
//!
//! Opening reads footer, properties, block index and filter once; they stay in memory. The file itself is opened
//! through the file cache whenever a block has to be read, so thousands of SSTs need few descriptors.

use std::path::PathBuf;
use std::sync::Arc;

use super::block::{Block, BlockSearch, DamagedBlock};
use super::filter::SstFilter;
use super::footer::{FOOTER_BYTES, FileSection, Footer, FooterError, Properties};
use super::index::BlockIndex;
use super::{CHECKSUM_BYTES, ReadMode};
use crate::batch::EntryKind;
use crate::cache::{BlockCache, FileCache};
use crate::checksum::checksum;
use crate::disk::read_full_at;
use crate::error::{Error, Result};
use crate::value::{LookupOutcome, ValueBytes};

/// Bytes that a streaming reader takes at once.
const STREAM_BYTES: u64 = 256 << 10;

/// What all SSTs of a store share.
#[derive(Debug)]
pub(crate) struct SstShared {
    /// Blocks that were read.
    pub(crate) blocks: BlockCache,
    /// Files that are open.
    pub(crate) files: FileCache,
}

/// An open SST.
#[derive(Debug)]
pub(crate) struct Sst {
    number: u64,
    shared: Arc<SstShared>,
    index: BlockIndex,
    filter: SstFilter,
    properties: Properties,
}

/// Consecutive blocks that were read at once.
#[derive(Debug)]
pub(crate) struct Stretch {
    bytes: Arc<Vec<u8>>,
    start: u64,
    first: usize,
    /// One past the last block.
    end: usize,
}

impl Sst {
    /// Opens SST `number`, which is `bytes` long.
    pub(crate) fn open(shared: Arc<SstShared>, number: u64, bytes: u64) -> Result<Self> {
        let path = shared.files.path(number);
        let parts = CheckedReads { shared: &shared, number, path: &path };
        let footer_at = bytes
            .checked_sub(FOOTER_BYTES as u64)
            .ok_or_else(|| Error::corrupt(&path, 0, "file is shorter than its footer"))?;
        let footer =
            parts.read(footer_at, FOOTER_BYTES, "file is shorter than the manifest says")?;
        let footer = Footer::decode(&footer, number, footer_at).map_err(|error| match error {
            FooterError::Damaged => Error::corrupt(&path, footer_at, "footer"),
            FooterError::Format(format) => Error::Unsupported { file: path.clone(), format },
        })?;
        let properties = parts.section(footer.properties, "properties")?;
        let properties = Properties::decode(&properties)
            .map_err(|DamagedBlock| parts.damaged(footer.properties, "properties"))?;
        let index = parts.section(footer.index, "block index")?;
        let index = BlockIndex::decode(&index, footer.filter.offset)
            .map_err(|DamagedBlock| parts.damaged(footer.index, "block index"))?;
        let filter = parts.section(footer.filter, "filter")?;
        let filter = SstFilter::decode(&filter)
            .map_err(|DamagedBlock| parts.damaged(footer.filter, "filter"))?;
        Ok(Self { number, shared, index, filter, properties })
    }

    /// What the file says about itself.
    pub(crate) fn properties(&self) -> &Properties {
        &self.properties
    }

    /// The memory of filter and block index, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.index.memory_bytes() + self.filter.memory_bytes()
    }

    /// Whether a key with this hash may be in the file.
    #[inline]
    pub(crate) fn may_contain(&self, hash: u64) -> bool {
        self.filter.may_contain(hash)
    }

    /// The newest version of `key` that is not newer than `seqno`. The caller has asked the filter.
    pub(crate) fn get(&self, key: &[u8], seqno: u64) -> Result<LookupOutcome> {
        let Some(mut n) = self.index.find(key) else { return Ok(LookupOutcome::Nothing) };
        loop {
            let block = self.block(n)?;
            match block.find(key, seqno).map_err(|DamagedBlock| self.damaged_block(n))? {
                BlockSearch::Found(EntryKind::Delete, _) => return Ok(LookupOutcome::Deleted),
                BlockSearch::Found(EntryKind::Put, (start, end)) => {
                    return Ok(LookupOutcome::Value(ValueBytes::shared(
                        block.buffer().clone(),
                        start,
                        end,
                    )));
                }
                BlockSearch::Absent => return Ok(LookupOutcome::Nothing),
                // Versions of one key may go on in the next block, but only if this one ended with the key.
                BlockSearch::Beyond
                    if n + 1 < self.index.len() && self.index.separator(n) == key =>
                {
                    n += 1
                }
                BlockSearch::Beyond => return Ok(LookupOutcome::Nothing),
            }
        }
    }

    /// The block index.
    pub(crate) fn index(&self) -> &BlockIndex {
        &self.index
    }

    /// Block `n`, from the cache or the disk.
    pub(crate) fn block(&self, n: usize) -> Result<Block> {
        let place = self.index.place(n).expect("the index named this block");
        if let Some(block) = self.shared.blocks.get(self.number, place.offset) {
            return Ok(block);
        }
        let len = place.len as usize;
        let bytes =
            self.parts(&self.path()).read(place.offset, len + CHECKSUM_BYTES, "block is cut")?;
        let block = self.checked(n, &Arc::new(bytes), 0, len)?;
        self.shared.blocks.insert(self.number, place.offset, block.clone());
        Ok(block)
    }

    /// Block `n` as `mode` asks; a streaming reader keeps its `stretch` of blocks between calls.
    pub(crate) fn block_for(
        &self,
        n: usize,
        mode: ReadMode,
        stretch: &mut Option<Stretch>,
    ) -> Result<Block> {
        if mode == ReadMode::Cached {
            return self.block(n);
        }
        if !stretch.as_ref().is_some_and(|stretch| (stretch.first..stretch.end).contains(&n)) {
            *stretch = Some(self.read_stretch(n)?);
        }
        let stretch = stretch.as_ref().expect("it was just read");
        let place = self.index.place(n).expect("the index named this block");
        let start = usize::try_from(place.offset - stretch.start).expect("a stretch is in memory");
        self.checked(n, &stretch.bytes, start, start + place.len as usize)
    }

    /// Reads blocks from `first` on, as many as make a good read.
    fn read_stretch(&self, first: usize) -> Result<Stretch> {
        let start = self.index.place(first).expect("the index named this block").offset;
        let mut end = first;
        let mut bytes_end = start;
        while let Some(place) = self.index.place(end) {
            let place_end = place.offset + u64::from(place.len) + CHECKSUM_BYTES as u64;
            if end > first && place_end - start > STREAM_BYTES {
                break;
            }
            bytes_end = place_end;
            end += 1;
        }
        let len = usize::try_from(bytes_end - start).expect("a stretch fits in memory");
        let bytes = self.parts(&self.path()).read(start, len, "blocks are cut")?;
        Ok(Stretch { bytes: Arc::new(bytes), start, first, end })
    }

    /// The block at `start..end` of `bytes`, whose checksum follows it.
    fn checked(&self, n: usize, bytes: &Arc<Vec<u8>>, start: usize, end: usize) -> Result<Block> {
        let place = self.index.place(n).expect("the index named this block");
        let stored = bytes.get(end..end + CHECKSUM_BYTES).and_then(|sum| sum.try_into().ok());
        let stored = u32::from_le_bytes(stored.ok_or_else(|| self.damaged_block(n))?);
        if checksum([self.number, place.offset], &bytes[start..end]) != stored {
            return Err(self.damaged_block(n));
        }
        Block::new(bytes.clone(), start, end).map_err(|DamagedBlock| self.damaged_block(n))
    }

    /// Says that block `n` is damaged.
    pub(crate) fn damaged_block(&self, n: usize) -> Error {
        let offset = self.index.place(n).map_or(0, |place| place.offset);
        Error::corrupt(&self.path(), offset, "data block")
    }

    /// Where the file lives.
    pub(crate) fn path(&self) -> PathBuf {
        self.shared.files.path(self.number)
    }

    fn parts<'a>(&'a self, path: &'a PathBuf) -> CheckedReads<'a> {
        CheckedReads { shared: &self.shared, number: self.number, path }
    }
}

/// Reads parts of a file and says where they are damaged.
struct CheckedReads<'a> {
    shared: &'a SstShared,
    number: u64,
    path: &'a PathBuf,
}

impl CheckedReads<'_> {
    fn read(&self, offset: u64, len: usize, short: &'static str) -> Result<Vec<u8>> {
        let failed = |error| Error::io("read", self.path, &error);
        let file = self.shared.files.get(self.number).map_err(failed)?;
        let mut bytes = vec![0; len];
        let read = read_full_at(&*file, &mut bytes, offset).map_err(failed)?;
        if read == len { Ok(bytes) } else { Err(Error::corrupt(self.path, offset, short)) }
    }

    fn section(&self, section: FileSection, what: &'static str) -> Result<Vec<u8>> {
        let len = usize::try_from(section.len).map_err(|_| self.damaged(section, what))?;
        let mut bytes = self.read(section.offset, len + CHECKSUM_BYTES, what)?;
        let stored = bytes.split_off(len).try_into().expect("a checksum is four bytes");
        if checksum([self.number, section.offset], &bytes) != u32::from_le_bytes(stored) {
            return Err(self.damaged(section, what));
        }
        Ok(bytes)
    }

    fn damaged(&self, section: FileSection, what: &'static str) -> Error {
        Error::corrupt(self.path, section.offset, what)
    }
}
