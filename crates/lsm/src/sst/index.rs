//! The block index of an SST: which block may hold a key.
//!
//! ```text
//! index := count varint | (shared varint | unshared varint | separator suffix | block length varint) * count
//! ```
//!
//! Blocks follow each other from offset 0, each with its checksum behind it, so lengths say where they are. A
//! separator is not below any key of its block and below every key of the next; it is as short as that allows.
//!
//! In memory the first eight bytes of each separator after the prefix all have in common ("heads") lie side by side,
//! so a search compares integers and touches a full separator only on ties.
#![warn(clippy::indexing_slicing, clippy::cast_possible_truncation)]

use kallisto_codec::{ByteReader, put_varint};

use super::CHECKSUM_BYTES;
use super::block::DamagedBlock;
use crate::common_prefix::common_prefix;
use crate::limits::{BLOCK_BYTES_MAX, KEY_BYTES_MAX};

/// Where a block's content lies in its file, in bytes. Its checksum follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockPlace {
    /// Where it starts.
    pub(crate) offset: u64,
    /// How long it is, without the checksum.
    pub(crate) len: u32,
}

/// Builds the index while blocks are written.
#[derive(Debug, Default)]
pub(crate) struct IndexBuilder {
    bytes: Vec<u8>,
    count: u64,
    last: Vec<u8>,
}

impl IndexBuilder {
    /// Adds the next block with its separator.
    pub(crate) fn add(&mut self, separator: &[u8], block_len: u32) {
        let shared = common_prefix(&self.last, separator);
        let (_, suffix) = separator.split_at(shared);
        put_varint(&mut self.bytes, shared as u64);
        put_varint(&mut self.bytes, suffix.len() as u64);
        self.bytes.extend_from_slice(suffix);
        put_varint(&mut self.bytes, u64::from(block_len));
        self.last.clear();
        self.last.extend_from_slice(separator);
        self.count += 1;
    }

    /// The index's bytes in a file.
    pub(crate) fn finish(self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.bytes.len() + 4);
        put_varint(&mut bytes, self.count);
        bytes.extend_from_slice(&self.bytes);
        bytes
    }

    /// The bytes it takes so far.
    pub(crate) fn bytes_len(&self) -> usize {
        self.bytes.len()
    }
}

/// The shortest key that is not below `last` and below `next`.
pub(crate) fn separator(last: &[u8], next: &[u8]) -> Vec<u8> {
    let shared = common_prefix(last, next);
    match (last.get(shared), next.get(shared)) {
        (Some(low), Some(high)) if u32::from(*low) + 1 < u32::from(*high) => {
            let mut short = last.get(..shared).unwrap_or_default().to_vec();
            short.push(low + 1);
            short
        }
        (Some(_), Some(_)) if next.len() > shared + 1 => {
            next.get(..=shared).unwrap_or_default().to_vec()
        }
        _ => last.to_vec(),
    }
}

/// The index in memory.
#[derive(Debug)]
pub(crate) struct BlockIndex {
    /// All separators, one after the other.
    keys: Vec<u8>,
    /// Where each ends in `keys`.
    key_ends: Vec<u32>,
    /// How many leading bytes all separators share.
    prefix_len: usize,
    heads: Vec<u64>,
    places: Vec<BlockPlace>,
}

impl BlockIndex {
    /// Reads an index whose blocks fill exactly `data_bytes` bytes.
    pub(crate) fn decode(bytes: &[u8], data_bytes: u64) -> Result<Self, DamagedBlock> {
        let mut this = Self {
            keys: Vec::new(),
            key_ends: Vec::new(),
            prefix_len: 0,
            heads: Vec::new(),
            places: Vec::new(),
        };
        this.read(bytes, data_bytes).ok_or(DamagedBlock)?;
        this.set_heads();
        Ok(this)
    }

    fn read(&mut self, bytes: &[u8], data_bytes: u64) -> Option<()> {
        let mut reader = ByteReader::new(bytes);
        let count = reader.varint_len()?;
        if count == 0 {
            return None;
        }
        let mut separator = Vec::new();
        let mut offset = 0u64;
        for n in 0..count {
            let shared = reader.varint_len()?;
            let suffix = reader.bytes(KEY_BYTES_MAX)?;
            if shared > separator.len() || shared + suffix.len() > KEY_BYTES_MAX {
                return None;
            }
            let rises = n == 0 || separator.get(shared..)? <= suffix;
            separator.truncate(shared);
            separator.extend_from_slice(suffix);
            let len = u32::try_from(reader.varint()?).ok()?;
            if !rises || len as usize > BLOCK_BYTES_MAX {
                return None;
            }
            self.keys.extend_from_slice(&separator);
            self.key_ends.push(u32::try_from(self.keys.len()).ok()?);
            self.places.push(BlockPlace { offset, len });
            offset = offset.checked_add(u64::from(len) + CHECKSUM_BYTES as u64)?;
        }
        (offset == data_bytes && reader.is_empty()).then_some(())
    }

    fn set_heads(&mut self) {
        let first = self.separator(0);
        let last = self.separator(self.len() - 1);
        self.prefix_len = common_prefix(first, last);
        self.heads = (0..self.len()).map(|n| head(self.separator(n), self.prefix_len)).collect();
    }

    /// How many blocks there are; at least one.
    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    /// Where block `n` lies.
    pub(crate) fn place(&self, n: usize) -> Option<BlockPlace> {
        self.places.get(n).copied()
    }

    /// The memory it takes, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.keys.len() + self.places.len() * (size_of::<BlockPlace>() + 4 + 8)
    }

    /// The separator of block `n`.
    pub(crate) fn separator(&self, n: usize) -> &[u8] {
        let end = |n: usize| self.key_ends.get(n).map_or(0, |&end| end as usize);
        let start = n.checked_sub(1).map_or(0, end);
        self.keys.get(start..end(n)).unwrap_or_default()
    }

    /// The first block that may hold `key`; `None` if every key is below it.
    #[inline]
    pub(crate) fn find(&self, key: &[u8]) -> Option<usize> {
        let prefix = self.separator(0).get(..self.prefix_len).unwrap_or_default();
        let key_prefix = key.get(..self.prefix_len.min(key.len())).unwrap_or_default();
        let block = match key_prefix.cmp(prefix) {
            std::cmp::Ordering::Less => 0,
            std::cmp::Ordering::Greater => return None,
            std::cmp::Ordering::Equal => self.find_after_prefix(key),
        };
        (block < self.len()).then_some(block)
    }

    fn find_after_prefix(&self, key: &[u8]) -> usize {
        let wanted = head(key, self.prefix_len);
        let mut low = self.heads.partition_point(|&head| head < wanted);
        let mut high = low;
        while self.heads.get(high) == Some(&wanted) {
            high += 1;
        }
        while low < high {
            let middle = low.midpoint(high);
            if self.separator(middle) < key { low = middle + 1 } else { high = middle }
        }
        low
    }
}

/// The eight bytes after `skip`, big-endian and padded with zeros.
fn head(key: &[u8], skip: usize) -> u64 {
    let rest = key.get(skip..).unwrap_or_default();
    if let Some(word) = rest.first_chunk::<8>() {
        return u64::from_be_bytes(*word);
    }
    let mut word = [0; 8];
    for (to, from) in word.iter_mut().zip(rest) {
        *to = *from;
    }
    u64::from_be_bytes(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_separator_separates_and_is_short() {
        let mut dice = fastrand::Rng::with_seed(5);
        for _ in 0..20_000 {
            let mut key = || -> Vec<u8> {
                (0..dice.usize(..6)).map(|_| *dice.choice(&[0, 1, 2, 255]).unwrap()).collect()
            };
            let (a, b) = (key(), key());
            let (last, next) = if a < b { (a, b) } else { (b, a) };
            if last == next {
                assert_eq!(separator(&last, &next), last);
                continue;
            }
            let between = separator(&last, &next);
            assert!(last <= between && between < next, "{last:?} {between:?} {next:?}");
            assert!(between.len() <= last.len().max(1));
        }
        assert_eq!(separator(b"aaaaaaaa", b"czzzzzzz"), b"b");
    }

    #[test]
    fn find_agrees_with_a_linear_search() {
        let mut dice = fastrand::Rng::with_seed(6);
        for round in 0..200 {
            let prefix = vec![7; round % 13];
            let mut keys: Vec<Vec<u8>> = (0..dice.usize(1..60))
                .map(|_| {
                    let tail = (0..dice.usize(..12)).map(|_| *dice.choice(&[0, 1, 255]).unwrap());
                    prefix.iter().copied().chain(tail).collect()
                })
                .collect();
            keys.sort();
            keys.dedup();
            let mut builder = IndexBuilder::default();
            keys.iter().for_each(|key| builder.add(key, 10));
            let data_bytes = keys.len() as u64 * 14;
            let bytes = builder.finish();
            assert!(BlockIndex::decode(&bytes, data_bytes + 1).is_err());
            let index = BlockIndex::decode(&bytes, data_bytes).unwrap();
            for _ in 0..100 {
                let mut wanted = prefix.clone();
                wanted.truncate(dice.usize(..prefix.len() + 2));
                wanted
                    .extend((0..dice.usize(..12)).map(|_| *dice.choice(&[0, 1, 8, 255]).unwrap()));
                let linear = keys.iter().position(|key| *key >= wanted);
                assert_eq!(index.find(&wanted), linear);
            }
        }
    }

    #[test]
    fn hostile_indexes_never_panic() {
        let mut dice = fastrand::Rng::with_seed(7);
        let mut builder = IndexBuilder::default();
        (0..40u32).for_each(|n| builder.add(&n.to_be_bytes(), 100));
        let good = builder.finish();
        for _ in 0..5000 {
            let mut bytes = good.clone();
            for byte in bytes.iter_mut() {
                if dice.u8(..) < 8 {
                    *byte = dice.u8(..);
                }
            }
            if let Ok(index) = BlockIndex::decode(&bytes, 40 * 104) {
                index.find(&[0, 0, 0, 20]);
            }
        }
    }

    /// The bytes of an index with these separators (how much each shares with the one before, and the rest) and lengths.
    fn raw(blocks: &[(u64, &[u8], u64)]) -> Vec<u8> {
        let mut bytes = Vec::new();
        put_varint(&mut bytes, blocks.len() as u64);
        for (shared, suffix, len) in blocks {
            put_varint(&mut bytes, *shared);
            kallisto_codec::put_bytes(&mut bytes, suffix);
            put_varint(&mut bytes, *len);
        }
        bytes
    }

    #[test]
    fn what_an_index_says_has_to_fit_together() {
        let read = |blocks: &[(u64, &[u8], u64)]| {
            let data_bytes = blocks.iter().map(|(_, _, len)| len + CHECKSUM_BYTES as u64).sum();
            BlockIndex::decode(&raw(blocks), data_bytes).ok()
        };
        let longest = vec![7; KEY_BYTES_MAX];
        let index = read(&[(0, b"ab", 10), (2, b"c", 20), (0, b"b", 30)]).unwrap();
        assert_eq!((index.separator(1), index.separator(2)), (&b"abc"[..], &b"b"[..]));
        let places = [0, 14, 38].into_iter().zip([10, 20, 30]);
        let places: Vec<_> = places.map(|(offset, len)| BlockPlace { offset, len }).collect();
        assert_eq!(index.places, places);
        assert_eq!((index.len(), index.place(3)), (3, None));
        assert_eq!(index.memory_bytes(), 6 + 3 * (16 + 4 + 8));
        assert!(read(&[]).is_none(), "there is a block");
        assert!(
            read(&[(0, b"ab", 10), (3, b"c", 10)]).is_none(),
            "no more is shared than is there"
        );
        assert!(read(&[(0, b"b", 10), (0, b"a", 10)]).is_none(), "they rise");
        assert!(read(&[(0, b"b", 10), (0, b"b", 10)]).is_some(), "a key may go on");
        assert!(read(&[(0, &longest, 10)]).is_some());
        assert!(read(&[(0, &longest, 10), (KEY_BYTES_MAX as u64, b"a", 10)]).is_none());
        assert!(read(&[(0, &longest, 10), (KEY_BYTES_MAX as u64 - 1, b"\x08", 10)]).is_some());
        assert!(read(&[(0, b"a", BLOCK_BYTES_MAX as u64)]).is_some());
        assert!(read(&[(0, b"a", BLOCK_BYTES_MAX as u64 + 1)]).is_none());
        let good = raw(&[(0, b"a", 10)]);
        assert!(BlockIndex::decode(&good, 14).is_ok());
        assert!(BlockIndex::decode(&good, 13).is_err() && BlockIndex::decode(&good, 15).is_err());
        assert!(BlockIndex::decode(&[&good[..], &[0]].concat(), 14).is_err());
    }
}
