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

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::SstBuilder;
    use super::*;
    use crate::disk::{DiskEvent, FaultyDisk};
    use crate::hash::key_hash;

    const BLOCK: usize = 200;

    fn key(n: usize) -> [u8; 8] {
        (n as u64).to_be_bytes()
    }

    /// An SST with an entry for each value of so many bytes, its length, and what was written to the disk at once.
    fn file(values: &[usize]) -> (Sst, u64, Vec<usize>) {
        let disk = FaultyDisk::shared();
        let mut builder = SstBuilder::create(&*disk, Path::new("d"), 5, BLOCK, 10).unwrap();
        assert!(builder.is_empty());
        for (n, &len) in values.iter().enumerate() {
            builder.add(&key(n), n as u64 % 60, EntryKind::Put, &vec![n as u8; len]).unwrap();
            assert!(!builder.is_empty());
        }
        let estimate = builder.bytes_estimate();
        let bytes = builder.finish().unwrap().bytes;
        assert!(estimate <= bytes && bytes - estimate < 400, "{estimate} of {bytes}");
        let written = disk.events().into_iter().filter_map(|event| match event {
            DiskEvent::Write { bytes, .. } => Some(bytes.len()),
            _ => None,
        });
        let written = written.collect();
        let files = FileCache::new(disk, "d".into(), 4);
        let shared = SstShared { blocks: BlockCache::new(1 << 20), files };
        (Sst::open(Arc::new(shared), 5, bytes).unwrap(), bytes, written)
    }

    #[test]
    fn a_file_says_what_is_in_it_and_what_it_takes() {
        let values: Vec<usize> = (0..300).map(|n| n % 50).collect();
        let (sst, ..) = file(&values);
        let said = sst.properties();
        assert_eq!((said.entries, said.key_bytes), (300, 2400));
        assert_eq!(said.value_bytes, values.iter().sum::<usize>() as u64);
        assert_eq!(sst.memory_bytes(), sst.index.memory_bytes() + sst.filter.memory_bytes());
        assert!((0..300).all(|n| sst.may_contain(key_hash(&key(n)))));
        let lies = (300..600).filter(|&n| sst.may_contain(key_hash(&key(n)))).count();
        assert!(lies < 30, "{lies} of 300");
    }

    #[test]
    fn a_block_ends_once_it_has_its_size() {
        let (sst, ..) = file(&[179, 179, 10, 300, 5]);
        let lens: Vec<u32> =
            (0..sst.index().len()).map(|n| sst.index.place(n).unwrap().len).collect();
        assert_eq!(lens[..2], [200, 200], "exactly its size");
        assert_eq!(lens.len(), 4);
        assert!(lens[2] > 300 && lens[3] < 40, "{lens:?}");
    }

    #[test]
    fn a_file_is_written_in_large_pieces_and_read_in_stretches() {
        let mut values = vec![1000; 2500];
        values[7] = 300_000;
        values[2499] = 2 << 20;
        let (sst, bytes, written) = file(&values);
        assert_eq!(written.iter().sum::<usize>() as u64, bytes);
        let (_, all_but_last) = written.split_last().unwrap();
        assert!(all_but_last.len() > 2 && all_but_last.iter().all(|&len| len >= 1 << 20));
        let end_of = |n: usize| {
            let place = sst.index.place(n).unwrap();
            place.offset + u64::from(place.len) + CHECKSUM_BYTES as u64
        };
        assert_eq!(sst.index().len(), 2500);
        for first in [0, 1, 6, 7, 8, 1000, 2400, 2498, 2499] {
            let stretch = sst.read_stretch(first).unwrap();
            let start = sst.index.place(first).unwrap().offset;
            assert_eq!((stretch.start, stretch.first), (start, first));
            assert_eq!(stretch.bytes.len() as u64, end_of(stretch.end - 1) - start);
            let alone = stretch.end == first + 1;
            assert!(alone || stretch.bytes.len() as u64 <= STREAM_BYTES);
            assert!(stretch.end == 2500 || end_of(stretch.end) - start > STREAM_BYTES);
            assert_eq!(alone, [6, 7, 2498, 2499].contains(&first), "{first}");
        }
        let mut stretch = None;
        for (n, &len) in values.iter().enumerate() {
            let block = sst.block_for(n, ReadMode::Streaming, &mut stretch).unwrap();
            let found = block.find(&key(n), 60).unwrap();
            let BlockSearch::Found(EntryKind::Put, (start, end)) = found else {
                panic!("{found:?}")
            };
            assert_eq!(block.buffer()[start..end], vec![n as u8; len]);
        }
        assert_eq!(sst.shared.blocks.counts(), (0, 0), "past the cache");
        for _ in 0..3 {
            sst.block_for(3, ReadMode::Cached, &mut stretch).unwrap();
        }
        assert_eq!(sst.shared.blocks.counts(), (2, 1));
    }
}
