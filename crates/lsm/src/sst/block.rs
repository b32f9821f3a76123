//! A data block: sorted entries with shared prefixes.
//!
//! ```text
//! entry   := shared varint | unshared varint | tag varint | [value length varint] | key suffix | [value]
//! tag     := sequence number << 1 | kind (1 put, 0 delete; a delete has no value)
//! block   := entry* | restart offset u32 * n | n u32
//! ```
//!
//! At a restart point `shared` is 0, so a search halves over restart points and reads at most one interval. The bytes
//! were checked against their checksum before they come here; still nothing here trusts them.
#![warn(clippy::indexing_slicing, clippy::cast_possible_truncation)]

use std::cmp::Ordering;
use std::sync::Arc;

use kallisto_codec::{ByteReader, put_varint};

use crate::batch::EntryKind;
use crate::common_prefix::common_prefix;
use crate::limits::{KEY_BYTES_MAX, SEQNO_MAX, VALUE_BYTES_MAX};

/// Entries between two restart points. Four, because with values of a hundred bytes every entry that is looked at lies in
/// another cache line; it costs a quarter of a percent more space than eight.
const RESTART_INTERVAL: usize = 4;
/// Bytes of a restart offset and of their count.
const WORD_BYTES: usize = 4;

/// The bytes do not make sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DamagedBlock;

/// Builds one block.
#[derive(Debug, Default)]
pub(crate) struct BlockBuilder {
    bytes: Vec<u8>,
    restarts: Vec<u32>,
    last_key: Vec<u8>,
    entries: usize,
}

impl BlockBuilder {
    /// Appends an entry; keys come in order.
    pub(crate) fn add(&mut self, key: &[u8], seqno: u64, kind: EntryKind, value: &[u8]) {
        let shared = if self.entries.is_multiple_of(RESTART_INTERVAL) {
            let offset = u32::try_from(self.bytes.len()).expect("a block is far below 4 GiB");
            self.restarts.push(offset);
            0
        } else {
            common_prefix(&self.last_key, key)
        };
        let (_, suffix) = key.split_at(shared);
        put_varint(&mut self.bytes, shared as u64);
        put_varint(&mut self.bytes, suffix.len() as u64);
        put_varint(&mut self.bytes, seqno << 1 | u64::from(kind.code()));
        if kind == EntryKind::Put {
            put_varint(&mut self.bytes, value.len() as u64);
        }
        self.bytes.extend_from_slice(suffix);
        self.bytes.extend_from_slice(value);
        self.last_key.truncate(shared);
        self.last_key.extend_from_slice(suffix);
        self.entries += 1;
    }

    /// The bytes it would take if it ended now.
    pub(crate) fn bytes_len(&self) -> usize {
        self.bytes.len() + (self.restarts.len() + 1) * WORD_BYTES
    }

    /// Whether nothing was added.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries == 0
    }

    /// The key that was added last.
    pub(crate) fn last_key(&self) -> &[u8] {
        &self.last_key
    }

    /// Appends the block to `out` and starts a new one.
    pub(crate) fn finish(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.bytes);
        for restart in &self.restarts {
            out.extend_from_slice(&restart.to_le_bytes());
        }
        let count = u32::try_from(self.restarts.len()).expect("a block is far below 4 GiB");
        out.extend_from_slice(&count.to_le_bytes());
        self.bytes.clear();
        self.restarts.clear();
        self.last_key.clear();
        self.entries = 0;
    }
}

/// A block that was read; cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Block {
    bytes: Arc<Vec<u8>>,
    start: usize,
    restarts_start: usize,
    end: usize,
}

/// An entry inside a block, its key only as far as it is stored here.
struct RawEntry {
    shared: usize,
    suffix: (usize, usize),
    value: (usize, usize),
    seqno: u64,
    kind: EntryKind,
}

impl Block {
    /// The block in `bytes[start..end]`.
    pub(crate) fn new(bytes: Arc<Vec<u8>>, start: usize, end: usize) -> Result<Self, DamagedBlock> {
        let body = bytes.get(start..end).ok_or(DamagedBlock)?;
        let (entries, count) = body.split_last_chunk::<WORD_BYTES>().ok_or(DamagedBlock)?;
        let count = u32::from_le_bytes(*count) as usize;
        let restarts = count.checked_mul(WORD_BYTES).ok_or(DamagedBlock)?;
        let restarts_at = entries.len().checked_sub(restarts).ok_or(DamagedBlock)?;
        if count == 0 || restarts_at == 0 {
            return Err(DamagedBlock);
        }
        Ok(Self { bytes, start, restarts_start: start + restarts_at, end: end - WORD_BYTES })
    }

    /// The memory it keeps alive, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// The buffer its values lie in.
    pub(crate) fn buffer(&self) -> &Arc<Vec<u8>> {
        &self.bytes
    }

    fn restarts(&self) -> &[[u8; WORD_BYTES]] {
        let bytes = self.bytes.get(self.restarts_start..self.end).unwrap_or_default();
        bytes.as_chunks().0
    }

    /// Where the entry at a restart point starts.
    fn restart(&self, index: usize) -> Result<usize, DamagedBlock> {
        let offset = u32::from_le_bytes(*self.restarts().get(index).ok_or(DamagedBlock)?) as usize;
        let at = self.start.checked_add(offset).ok_or(DamagedBlock)?;
        if at < self.restarts_start { Ok(at) } else { Err(DamagedBlock) }
    }

    /// Reads the entry at `at`; also where the next one starts.
    #[inline]
    fn entry(&self, at: usize) -> Result<(RawEntry, usize), DamagedBlock> {
        self.decode(at).ok_or(DamagedBlock)
    }

    #[inline]
    fn decode(&self, at: usize) -> Option<(RawEntry, usize)> {
        let body = self.bytes.get(at..self.restarts_start)?;
        let mut reader = ByteReader::new(body);
        let shared = reader.varint_len()?;
        let unshared = reader.varint_len()?;
        let tag = reader.varint()?;
        let kind = if tag & 1 == 1 { EntryKind::Put } else { EntryKind::Delete };
        let value_len = if kind == EntryKind::Put { reader.varint_len()? } else { 0 };
        if shared > KEY_BYTES_MAX || unshared > KEY_BYTES_MAX || value_len > VALUE_BYTES_MAX {
            return None;
        }
        let suffix_at = at + body.len() - reader.len();
        reader.take(unshared)?;
        reader.take(value_len)?;
        let value_at = suffix_at + unshared;
        let end = value_at + value_len;
        let seqno = tag >> 1;
        if seqno > SEQNO_MAX {
            return None;
        }
        let entry =
            RawEntry { shared, suffix: (suffix_at, value_at), value: (value_at, end), seqno, kind };
        Some((entry, end))
    }

    fn slice(&self, (start, end): (usize, usize)) -> &[u8] {
        self.bytes.get(start..end).unwrap_or_default()
    }

    /// Where to start reading for `key`: the last restart point whose key is below it, or the first.
    fn restart_before(&self, key: &[u8]) -> Result<usize, DamagedBlock> {
        let (mut low, mut high) = (0, self.restarts().len());
        while high - low > 1 {
            let middle = low.midpoint(high);
            let (entry, _) = self.entry(self.restart(middle)?)?;
            if entry.shared != 0 {
                return Err(DamagedBlock);
            }
            if self.slice(entry.suffix) < key { low = middle } else { high = middle }
        }
        self.restart(low)
    }

    /// The newest version of `key` that is not newer than `seqno`, and the bounds of its value in the buffer.
    ///
    /// It reads prefix-compressed keys without building them: `matched` bytes of `key` equal the last entry's, which
    /// is below `key`; an entry that shares more than that is still below, one that shares less is above.
    pub(crate) fn find(&self, key: &[u8], seqno: u64) -> Result<BlockSearch, DamagedBlock> {
        let mut at = self.restart_before(key)?;
        let mut matched = 0;
        while at < self.restarts_start {
            let (entry, next) = self.entry(at)?;
            at = next;
            match entry.shared.cmp(&matched) {
                Ordering::Greater => continue,
                Ordering::Less if entry.shared > 0 => return Ok(BlockSearch::Absent),
                // A restart point shares nothing by definition, whatever the keys have in common.
                Ordering::Less => matched = 0,
                Ordering::Equal => {}
            }
            let suffix = self.slice(entry.suffix);
            let rest = key.get(matched..).ok_or(DamagedBlock)?;
            let common = common_prefix(suffix, rest);
            match (suffix.get(common), rest.get(common)) {
                (None, None) if entry.seqno <= seqno => {
                    return Ok(BlockSearch::Found(entry.kind, entry.value));
                }
                (Some(mine), Some(theirs)) if mine > theirs => return Ok(BlockSearch::Absent),
                (Some(_), None) => return Ok(BlockSearch::Absent),
                _ => matched += common,
            }
        }
        Ok(BlockSearch::Beyond)
    }
}

/// The answer of [`Block::find`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BlockSearch {
    /// The entry, and where its value lies in the block's buffer.
    Found(EntryKind, (usize, usize)),
    /// The block proves that the key is not there.
    Absent,
    /// The block ended first; older versions may be in the next one.
    Beyond,
}

/// Ordered reading of one block.
#[derive(Debug)]
pub(crate) struct BlockCursor {
    block: Block,
    /// Where the next entry starts.
    next: usize,
    key: Vec<u8>,
    value: (usize, usize),
    seqno: u64,
    kind: EntryKind,
    valid: bool,
}

impl BlockCursor {
    /// A cursor on the first entry.
    pub(crate) fn first(block: Block, key_buffer: Vec<u8>) -> Result<Self, DamagedBlock> {
        let next = block.start;
        let mut this = Self {
            block,
            next,
            key: key_buffer,
            value: (0, 0),
            seqno: 0,
            kind: EntryKind::Delete,
            valid: false,
        };
        this.key.clear();
        this.advance()?;
        Ok(this)
    }

    /// A cursor on the first entry whose key is not below `key`; it may be past the end.
    pub(crate) fn seek(
        block: Block,
        key: &[u8],
        key_buffer: Vec<u8>,
    ) -> Result<Self, DamagedBlock> {
        let start = block.restart_before(key)?;
        let mut this = Self::first(block, key_buffer)?;
        this.next = start;
        this.key.clear();
        this.advance()?;
        while this.valid && this.key.as_slice() < key {
            this.advance()?;
        }
        Ok(this)
    }

    /// Goes to the next entry.
    pub(crate) fn advance(&mut self) -> Result<(), DamagedBlock> {
        self.valid = self.next < self.block.restarts_start;
        if !self.valid {
            return Ok(());
        }
        let (entry, next) = self.block.entry(self.next)?;
        if entry.shared > self.key.len() {
            return Err(DamagedBlock);
        }
        self.key.truncate(entry.shared);
        self.key.extend_from_slice(self.block.slice(entry.suffix));
        if self.key.len() > KEY_BYTES_MAX {
            return Err(DamagedBlock);
        }
        self.value = entry.value;
        self.seqno = entry.seqno;
        self.kind = entry.kind;
        self.next = next;
        Ok(())
    }

    /// Whether it stands on an entry.
    pub(crate) fn valid(&self) -> bool {
        self.valid
    }

    /// The entry's key.
    pub(crate) fn key(&self) -> &[u8] {
        &self.key
    }

    /// The entry's value.
    pub(crate) fn value(&self) -> &[u8] {
        self.block.slice(self.value)
    }

    /// The entry's sequence number.
    pub(crate) fn seqno(&self) -> u64 {
        self.seqno
    }

    /// What the entry says.
    pub(crate) fn kind(&self) -> EntryKind {
        self.kind
    }

    /// The key's buffer, for the next block's cursor.
    pub(crate) fn into_key_buffer(self) -> Vec<u8> {
        self.key
    }
}

#[cfg(test)]
mod tests {
    #![expect(
        clippy::indexing_slicing,
        clippy::cast_possible_truncation,
        reason = "tests index what they built"
    )]
    use super::*;

    type Entry = (Vec<u8>, u64, EntryKind, Vec<u8>);

    fn build(entries: &[Entry]) -> Block {
        let mut builder = BlockBuilder::default();
        for (key, seqno, kind, value) in entries {
            builder.add(key, *seqno, *kind, value);
        }
        let mut bytes = Vec::new();
        builder.finish(&mut bytes);
        let end = bytes.len();
        Block::new(Arc::new(bytes), 0, end).unwrap()
    }

    fn random_entries(dice: &mut fastrand::Rng, count: usize) -> Vec<Entry> {
        let mut entries: Vec<Entry> = (0..count)
            .map(|n| {
                let key = (0..dice.usize(..12)).map(|_| *dice.choice(b"aab").unwrap()).collect();
                let put = dice.u8(..) > 40;
                let value = if put { vec![n as u8; dice.usize(..20)] } else { vec![] };
                (key, n as u64 + 1, if put { EntryKind::Put } else { EntryKind::Delete }, value)
            })
            .collect();
        entries.sort_by(|a, b| a.0.cmp(&b.0).then(b.1.cmp(&a.1)));
        entries
    }

    #[test]
    fn cursor_and_search_agree_with_the_list() {
        let mut dice = fastrand::Rng::with_seed(3);
        for count in 1..120 {
            let entries = random_entries(&mut dice, count);
            let block = build(&entries);
            let mut cursor = BlockCursor::first(block.clone(), vec![]).unwrap();
            for (key, seqno, kind, value) in &entries {
                assert!(cursor.valid());
                assert_eq!((cursor.key(), cursor.value()), (&key[..], &value[..]));
                assert_eq!((cursor.seqno(), cursor.kind()), (*seqno, *kind));
                cursor.advance().unwrap();
            }
            assert!(!cursor.valid());
            for _ in 0..40 {
                let key: Vec<u8> =
                    (0..dice.usize(..12)).map(|_| *dice.choice(b"aabc").unwrap()).collect();
                let seqno = dice.u64(..count as u64 + 2);
                let cursor = BlockCursor::seek(block.clone(), &key, vec![]).unwrap();
                let want = entries.iter().find(|entry| entry.0 >= key);
                assert_eq!(cursor.valid().then(|| cursor.seqno()), want.map(|entry| entry.1));
                let want = entries.iter().find(|entry| entry.0 == key && entry.1 <= seqno);
                match (block.find(&key, seqno).unwrap(), want) {
                    (BlockSearch::Found(kind, value), Some(entry)) => {
                        assert_eq!((kind, block.slice(value)), (entry.2, &entry.3[..]));
                    }
                    // An entry above it proves that the next block has nothing of it.
                    (BlockSearch::Absent, None) => {
                        assert!(entries.iter().any(|entry| entry.0 > key));
                    }
                    (BlockSearch::Beyond, None) => {
                        assert!(entries.iter().all(|entry| entry.0 <= key));
                    }
                    (got, want) => panic!("{got:?} against {want:?}"),
                }
                let beyond = entries.last().is_some_and(|last| last.0 < key);
                if beyond {
                    assert_eq!(block.find(&key, seqno).unwrap(), BlockSearch::Beyond);
                }
            }
        }
    }

    #[test]
    fn hostile_blocks_never_panic() {
        let mut dice = fastrand::Rng::with_seed(4);
        let entries = random_entries(&mut dice, 30);
        let good = build(&entries);
        for _ in 0..5000 {
            let mut bytes = good.bytes.to_vec();
            for _ in 0..dice.usize(1..4) {
                let at = dice.usize(..bytes.len());
                bytes[at] = dice.u8(..);
            }
            crate::internals::read_hostile_block(&bytes, b"aab");
        }
    }

    #[test]
    fn common_prefixes_are_counted_in_bytes() {
        assert_eq!(common_prefix(b"", b"a"), 0);
        assert_eq!(common_prefix(b"abcdefgh12", b"abcdefgh13"), 9);
        assert_eq!(common_prefix(b"abcdefgX", b"abcdefgY"), 7);
        assert_eq!(common_prefix(b"abcdefghi", b"abcdefghi"), 9);
    }

    /// A block of entries as they are given: what is shared, the rest of the key, the tag, the value of a put.
    fn raw(
        entries: &[(usize, &[u8], u64, &[u8])],
        restarts: &[u32],
    ) -> Result<Block, DamagedBlock> {
        let mut bytes = Vec::new();
        for (shared, suffix, tag, value) in entries {
            for number in [*shared as u64, suffix.len() as u64, *tag] {
                put_varint(&mut bytes, number);
            }
            if tag & 1 == 1 {
                put_varint(&mut bytes, value.len() as u64);
            }
            bytes.extend_from_slice(suffix);
            bytes.extend_from_slice(value);
        }
        restarts.iter().for_each(|restart| bytes.extend_from_slice(&restart.to_le_bytes()));
        bytes.extend_from_slice(&(restarts.len() as u32).to_le_bytes());
        let end = bytes.len();
        Block::new(Arc::new(bytes), 0, end)
    }

    /// How many entries a cursor reads, if it reads all.
    fn count(block: Result<Block, DamagedBlock>) -> Option<usize> {
        let mut cursor = BlockCursor::first(block.ok()?, vec![]).ok()?;
        let mut count = 0;
        while cursor.valid() {
            count += 1;
            cursor.advance().ok()?;
        }
        Some(count)
    }

    #[test]
    fn keys_values_and_numbers_go_to_their_limits_and_no_further() {
        let longest = vec![7; KEY_BYTES_MAX + 1];
        let (at_limit, less) = (&longest[..KEY_BYTES_MAX], &longest[..KEY_BYTES_MAX - 1]);
        assert_eq!(count(raw(&[(0, at_limit, 3, b"v")], &[0])), Some(1));
        assert_eq!(count(raw(&[(0, &longest, 3, b"v")], &[0])), None);
        assert_eq!(
            count(raw(&[(0, at_limit, 4, b""), (KEY_BYTES_MAX, b"", 2, b"")], &[0])),
            Some(2)
        );
        let last = KEY_BYTES_MAX - 1;
        assert_eq!(count(raw(&[(0, less, 4, b""), (last, b"8", 2, b"")], &[0])), Some(2));
        assert_eq!(count(raw(&[(0, less, 4, b""), (last, b"88", 2, b"")], &[0])), None);
        assert_eq!(count(raw(&[(0, b"a", 4, b""), (1, b"b", 2, b"")], &[0])), Some(2));
        assert_eq!(count(raw(&[(0, b"a", 4, b""), (2, b"b", 2, b"")], &[0])), None);
        assert_eq!(count(raw(&[(0, b"a", SEQNO_MAX << 1, b"")], &[0])), Some(1));
        assert_eq!(count(raw(&[(0, b"a", (SEQNO_MAX + 1) << 1, b"")], &[0])), None);
        let value = vec![0; VALUE_BYTES_MAX + 1];
        assert_eq!(count(raw(&[(0, b"a", 3, &value[1..])], &[0])), Some(1));
        assert_eq!(count(raw(&[(0, b"a", 3, &value)], &[0])), None);
    }

    #[test]
    fn restart_points_are_there_and_in_the_block() {
        let entries: [(usize, &[u8], u64, &[u8]); 2] = [(0, b"a", 4, b""), (0, b"b", 2, b"")];
        let find = |restarts: &[u32], key: &[u8]| {
            let block = raw(&entries, restarts)?;
            let found = block.find(key, 9)?;
            let seek = BlockCursor::seek(block, key, vec![])?;
            assert_eq!(matches!(found, BlockSearch::Found(..)), seek.valid() && seek.key() == key);
            Ok(found)
        };
        let found = Ok(BlockSearch::Found(EntryKind::Delete, (8, 8)));
        assert_eq!((find(&[0], b"b"), find(&[0, 4], b"b")), (found, found));
        assert_eq!(find(&[8], b"b"), Err(DamagedBlock), "behind the last entry");
        assert_eq!(find(&[0, 8, 8], b"b"), Err(DamagedBlock));
        assert_eq!(find(&[], b"b"), Err(DamagedBlock));
        assert_eq!(raw(&[], &[0]).err(), Some(DamagedBlock), "there is an entry");
        let shares = raw(&[(0, b"a", 4, b""), (1, b"b", 2, b"")], &[0, 4]).unwrap();
        assert_eq!(shares.find(b"b", 9), Err(DamagedBlock), "a restart point shares nothing");
        let bytes = Arc::new(vec![0, 0, 0, 1, 0, 0, 0]);
        assert_eq!(Block::new(bytes.clone(), 3, 7).err(), Some(DamagedBlock), "restarts are cut");
        assert_eq!(Block::new(bytes, 0, 8).err(), Some(DamagedBlock), "it ends behind its bytes");
    }

    #[test]
    fn a_block_says_how_long_it_would_be() {
        let mut builder = BlockBuilder::default();
        assert_eq!((builder.is_empty(), builder.bytes_len()), (true, 4));
        for n in 0..10u64 {
            builder.add(&n.to_be_bytes(), n + 1, EntryKind::Put, b"value");
            assert_eq!(builder.last_key(), n.to_be_bytes());
            let said = builder.bytes_len();
            let mut again = BlockBuilder::default();
            for m in 0..=n {
                again.add(&m.to_be_bytes(), m + 1, EntryKind::Put, b"value");
            }
            let mut bytes = Vec::new();
            again.finish(&mut bytes);
            assert_eq!(bytes.len(), said, "{n}");
            assert!(again.is_empty() && again.last_key().is_empty() && again.bytes_len() == 4);
        }
    }
}
