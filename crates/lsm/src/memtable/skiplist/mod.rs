//! The skip list: entries ordered by key, newest version first, read without locks while one writer inserts.
//!
//! Each key has one node, which searches walk over. The node is the key's first entry too; the entries that came after it hang on it as a
//! chain, the newest first. So a key that is written again needs no search where its node is known, and what is written often does not make
//! searches longer. Values are looked at when a search has ended. In the arena:
//!
//! ```text
//! node    next n..1  one link per level, the highest first: the code of the next node << 32 | its address, or 0
//!         header     word: value length << 32 | key length << 8 | height << 2 | is later << 1 | kind; the address of the node is that of this word
//!         sequence number
//!         places     word: that of the value << 32 (0 if it is empty) | that of the newest later entry (0 if there is none)
//!         key        big-endian words, zero-padded: comparing words compares bytes
//! later   header, sequence number, places: as in a node, without a height; the second place is that of the entry before it
//! entry   node       word, the address of the node it hangs on
//! value              little-endian words, zero-padded
//! ```
//!
//! The *code* of a node (`prefix_codes.rs`) is 32 bits that order as the keys do, except that different keys may have the same. It
//! lies beside the link, so a search seldom compares a key before its end: what it costs is cache misses, and nodes lie
//! close together. Where codes are the same, as those of a secret's records are, the key is beside the links of its node.
//!
//! Invariants:
//! - an entry is complete before a link to it is stored with `Release`; a reader loads links with `Acquire`, so what it
//!   reaches is complete;
//! - nodes are linked from the bottom up and never unlinked; nothing of them changes but their links and the place of the newest entry;
//! - a node on level n is on every level below it; no two nodes have the same key.
//!
//! Pugh, "Skip lists: a probabilistic alternative to balanced trees" (1990); one writer as in LevelDB.

mod inserter;

use std::cmp::Ordering as Compare;

pub(crate) use self::inserter::Inserter;
use super::arena::{ArenaOffset, ArenaRegion, WordArena};
use super::prefix_codes::SharedPrefixes;
use crate::batch::EntryKind;
use crate::sync::{AtomicU64, Ordering};

/// Levels of the list; with one node in two rising, enough for 2^20 entries. One in two, because a level costs a look at a
/// code that is in the cache, and a step to a node one that is not.
const HEIGHT_MAX: usize = if cfg!(loom) { 2 } else { 20 };
/// Keys that shared prefixes are learned from, if there are as many.
const SAMPLE_MIN: usize = 256;
/// Words of a node between its links and its key.
const HEADER_WORDS: usize = 3;
/// Words of a later entry, which has no key of its own.
const LATER_WORDS: usize = HEADER_WORDS + 1;
/// The bit of a header that says that the entry hangs on a node.
const IS_LATER: u64 = 2;
/// Where the height of a node is in its header, and how many bits it has.
const HEIGHT_SHIFT: u32 = 2;
const HEIGHT_MASK: u64 = 0x1f;
/// The address that no node has.
const NONE: ArenaOffset = 0;
/// The address of the head, which no link leads to and which has nothing but links.
const HEAD: ArenaOffset = HEIGHT_MAX as ArenaOffset;
/// Keys up to this many words are compared from the stack.
const STACK_WORDS: usize = 16;
/// Bits of a link that are an address; the code is above them.
const ADDRESS_BITS: u32 = ArenaOffset::BITS;

const _: () = assert!(HEIGHT_MAX as u64 <= HEIGHT_MASK);

/// The readers' end.
#[derive(Debug)]
pub(crate) struct SkipList {
    arena: WordArena,
    prefixes: SharedPrefixes,
}

/// A link as it is stored: code and address of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Link(u64);

impl Link {
    /// Leads nowhere.
    const NONE: Self = Self(NONE as u64);
    /// Leads to the head: where a search begins.
    const HEAD: Self = Self(HEAD as u64);

    #[inline]
    fn new(code: u32, address: ArenaOffset) -> Self {
        Self(u64::from(code) << ADDRESS_BITS | u64::from(address))
    }

    #[inline]
    fn address(self) -> ArenaOffset {
        (self.0 & u64::from(ArenaOffset::MAX)) as ArenaOffset
    }

    #[inline]
    fn code(self) -> u32 {
        (self.0 >> ADDRESS_BITS) as u32
    }

    #[inline]
    fn is_none(self) -> bool {
        self.address() == NONE
    }
}

/// Between two neighbours on one level.
#[derive(Clone, Copy, Debug)]
struct Neighbours {
    before: Link,
    after: Link,
}

impl Neighbours {
    /// Between the head and nothing.
    const EMPTY: Self = Self { before: Link::HEAD, after: Link::NONE };
}

/// A key as words, on the stack if it is short, with its code.
struct KeyWords {
    code: u32,
    len: usize,
    short: [u64; STACK_WORDS],
    long: Vec<u64>,
}

impl KeyWords {
    #[inline]
    fn new(key: &[u8], code: u32) -> Self {
        let mut this = Self { code, len: key.len(), short: [0; STACK_WORDS], long: Vec::new() };
        let count = key.len().div_ceil(8);
        if count > STACK_WORDS {
            this.long.resize(count, 0);
        }
        let words = if count > STACK_WORDS { &mut this.long[..] } else { &mut this.short[..count] };
        let (whole, tail) = key.as_chunks::<8>();
        for (word, bytes) in words.iter_mut().zip(whole) {
            *word = u64::from_be_bytes(*bytes);
        }
        if !tail.is_empty() {
            words[whole.len()] = padded_be(tail);
        }
        this
    }

    #[inline]
    fn words(&self) -> &[u64] {
        let count = self.len.div_ceil(8);
        if count > STACK_WORDS { &self.long } else { &self.short[..count] }
    }
}

/// An entry as the reader sees it.
#[derive(Clone, Copy)]
pub(crate) struct SkiplistRecord<'a> {
    arena: &'a WordArena,
    words: &'a [AtomicU64],
    header: u64,
    /// The node, which has the key, as words and by its address.
    node: &'a [AtomicU64],
    node_address: ArenaOffset,
}

impl<'a> SkiplistRecord<'a> {
    #[inline]
    fn key_len(self) -> usize {
        (self.header >> 8 & 0xff_ffff) as usize
    }

    #[inline]
    fn value_len(self) -> usize {
        (self.header >> 32) as usize
    }

    /// What the entry says.
    pub(crate) fn kind(self) -> EntryKind {
        if self.header & 1 == 0 { EntryKind::Delete } else { EntryKind::Put }
    }

    /// The entry's place in the order of writes.
    #[inline]
    pub(crate) fn seqno(self) -> u64 {
        self.words[1].load(Ordering::Relaxed)
    }

    /// The node of the entry's key.
    #[inline]
    pub(crate) fn node(self) -> ArenaOffset {
        self.node_address
    }

    #[inline]
    fn is_later(self) -> bool {
        self.header & IS_LATER != 0
    }

    /// Of a node, on how many levels it is.
    #[inline]
    fn height(self) -> usize {
        (self.header >> HEIGHT_SHIFT & HEIGHT_MASK) as usize
    }

    /// Of a node, the newest entry of its key; of a later entry, the one before it.
    #[inline]
    fn chained(self) -> ArenaOffset {
        // Acquire: pairs with the release store in `inserter.rs`, so the entry is complete.
        self.words[2].load(Ordering::Acquire) as ArenaOffset
    }

    #[inline]
    fn key_words(self) -> &'a [AtomicU64] {
        &self.node[HEADER_WORDS..][..self.key_len().div_ceil(8)]
    }

    /// Copies the key out.
    pub(crate) fn copy_key(self, out: &mut Vec<u8>) {
        copy_words(self.key_words(), u64::to_be_bytes, self.key_len(), out);
    }

    /// Copies the value out.
    pub(crate) fn copy_value(self, out: &mut Vec<u8>) {
        self.copy_start(usize::MAX, out);
    }

    /// Copies the value out, or its first `bytes_max` bytes.
    pub(crate) fn copy_start(self, bytes_max: usize, out: &mut Vec<u8>) {
        let bytes = self.value_len().min(bytes_max);
        // Relaxed: this half of the word never changes. The address of no bytes is one that is there.
        let value = (self.words[2].load(Ordering::Relaxed) >> ADDRESS_BITS) as ArenaOffset;
        let words = &self.arena.at(value)[..bytes.div_ceil(8)];
        copy_words(words, u64::to_le_bytes, bytes, out);
    }

    /// Whether it is an entry of `key`.
    #[inline]
    pub(crate) fn is_of(self, key: &[u8]) -> bool {
        let (whole, tail) = key.as_chunks::<8>();
        let words = self.key_words();
        self.key_len() == key.len()
            && words
                .iter()
                .zip(whole.iter().map(|bytes| u64::from_be_bytes(*bytes)))
                .all(|(mine, theirs)| mine.load(Ordering::Relaxed) == theirs)
            && (tail.is_empty() || words[whole.len()].load(Ordering::Relaxed) == padded_be(tail))
    }

    #[inline]
    fn compare_key(self, key: &KeyWords) -> Compare {
        for (mine, theirs) in self.key_words().iter().zip(key.words()) {
            let mine = mine.load(Ordering::Relaxed);
            if mine != *theirs {
                return mine.cmp(theirs);
            }
        }
        self.key_len().cmp(&key.len)
    }
}

/// Has `out` hold the first `bytes` bytes of some words.
fn copy_words(words: &[AtomicU64], spelled: fn(u64) -> [u8; 8], bytes: usize, out: &mut Vec<u8>) {
    out.clear();
    out.resize(words.len() * 8, 0);
    for (place, word) in out.as_chunks_mut().0.iter_mut().zip(words) {
        *place = spelled(word.load(Ordering::Relaxed));
    }
    out.truncate(bytes);
}

impl SkipList {
    /// An empty list that can hold `bytes_max` bytes of keys that are expected to have these shared prefixes.
    pub(crate) fn new(
        bytes_max: usize,
        chunk_bytes: usize,
        prefixes: SharedPrefixes,
    ) -> (Self, Inserter) {
        let (arena, mut allocator) = WordArena::new(bytes_max, chunk_bytes);
        let links = allocator.allocate(&arena, ArenaRegion::Index, HEIGHT_MAX);
        assert_eq!(links, Some(NONE), "the head is the first object");
        (Self { arena, prefixes }, Inserter::new(allocator))
    }

    /// Keys from all over the list, sorted: those of the highest level that has [`SAMPLE_MIN`], or of the lowest.
    pub(crate) fn sample(&self) -> Vec<Vec<u8>> {
        let on_level = |level| {
            let mut keys = Vec::new();
            let mut at = some(self.link(HEAD, level).address());
            while let Some(node) = at {
                let mut key = Vec::new();
                self.record(node).copy_key(&mut key);
                keys.push(key);
                at = some(self.link(node, level).address());
            }
            keys
        };
        // Each level has about twice the nodes of the one above, so this ends with not much more than what is asked for.
        let samples = (0..HEIGHT_MAX).rev().map(on_level);
        let mut last = Vec::new();
        for sample in samples {
            last = sample;
            if last.len() >= SAMPLE_MIN {
                break;
            }
        }
        last
    }

    #[inline]
    fn words_of(&self, key: &[u8]) -> KeyWords {
        KeyWords::new(key, self.prefixes.code(key))
    }

    /// The entry behind an address from `first`, `seek` or `after`.
    #[inline]
    pub(crate) fn record(&self, entry: ArenaOffset) -> SkiplistRecord<'_> {
        // Relaxed: the acquire load of the link that led to the entry ordered all of its words before this.
        let words = self.arena.at(entry);
        let header = words[0].load(Ordering::Relaxed);
        let mut record =
            SkiplistRecord { arena: &self.arena, words, header, node: words, node_address: entry };
        if record.is_later() {
            record.node_address = words[HEADER_WORDS].load(Ordering::Relaxed) as ArenaOffset;
            record.node = self.arena.at(record.node_address);
        }
        record
    }

    /// The first entry.
    pub(crate) fn first(&self) -> Option<ArenaOffset> {
        self.newest(self.link(HEAD, 0).address())
    }

    /// The entry after one.
    pub(crate) fn after(&self, entry: ArenaOffset) -> Option<ArenaOffset> {
        let record = self.record(entry);
        match record.is_later() {
            true => Some(record.chained()),
            false => self.newest(self.link(entry, 0).address()),
        }
    }

    /// The first entry that is not before version `seqno` of `key`.
    pub(crate) fn seek(&self, key: &[u8], seqno: u64) -> Option<ArenaOffset> {
        let key = self.words_of(key);
        let node = some(self.seek_words(&key))?;
        if self.record(node).compare_key(&key) != Compare::Equal {
            return self.newest(node);
        }
        self.version(node, seqno).or_else(|| self.after(node))
    }

    /// The newest version of `key` that is not newer than `seqno`.
    pub(crate) fn find(&self, key: &[u8], seqno: u64) -> Option<SkiplistRecord<'_>> {
        let key = self.words_of(key);
        let node = some(self.seek_words(&key))?;
        let is_there = self.record(node).compare_key(&key) == Compare::Equal;
        self.version(is_there.then_some(node)?, seqno).map(|entry| self.record(entry))
    }

    /// The newest entry of a node's key; none of no node.
    #[inline]
    fn newest(&self, node: ArenaOffset) -> Option<ArenaOffset> {
        let node = some(node)?;
        some(self.record(node).chained()).or(Some(node))
    }

    /// The newest entry of a node's key that is not newer than `seqno`.
    fn version(&self, node: ArenaOffset, seqno: u64) -> Option<ArenaOffset> {
        let mut entry = self.newest(node)?;
        loop {
            let record = self.record(entry);
            if record.seqno() <= seqno {
                return Some(entry);
            }
            if !record.is_later() {
                return None;
            }
            entry = record.chained();
        }
    }

    #[inline]
    fn link(&self, address: ArenaOffset, level: usize) -> Link {
        // Acquire: pairs with the release store in `inserter.rs`, so the node behind the link is complete.
        Link(self.arena.at(link_place(address, level))[0].load(Ordering::Acquire))
    }

    /// The first node whose key is not below.
    fn seek_words(&self, key: &KeyWords) -> ArenaOffset {
        let mut place = Neighbours::EMPTY;
        for level in (0..HEIGHT_MAX).rev() {
            place = self.walk(key, place, level);
        }
        place.after.address()
    }

    /// Walks right on one level to the place of the key, from its place on a level above.
    #[inline]
    fn walk(&self, key: &KeyWords, from: Neighbours, level: usize) -> Neighbours {
        let mut before = from.before;
        loop {
            let after = self.link(before.address(), level);
            // The node behind the place above was judged there.
            if after.address() == from.after.address() || !self.is_before(after, key) {
                return Neighbours { before, after };
            }
            before = after;
        }
    }

    /// Whether the node behind a link comes before `key`; nothing does not.
    #[inline]
    fn is_before(&self, link: Link, key: &KeyWords) -> bool {
        match link.code().cmp(&key.code) {
            _ if link.is_none() => false,
            Compare::Less => true,
            Compare::Equal => self.record(link.address()).compare_key(key) == Compare::Less,
            Compare::Greater => false,
        }
    }

    /// Whether the node behind a link has this key.
    #[inline]
    fn has_key(&self, link: Link, key: &KeyWords) -> bool {
        link.code() == key.code
            && !link.is_none()
            && self.record(link.address()).compare_key(key) == Compare::Equal
    }
}

#[cfg(all(test, not(loom)))]
impl SkipList {
    /// Asserts that each level has nodes of the level below it only, all that are high enough, with rising keys.
    pub(crate) fn check_levels(&self) {
        let level_of = |level: usize| {
            let first = some(self.link(HEAD, level).address());
            std::iter::successors(first, |node| some(self.link(*node, level).address()))
                .collect::<Vec<_>>()
        };
        let all = level_of(0);
        let key = |node: &ArenaOffset| {
            let mut key = Vec::new();
            self.record(*node).copy_key(&mut key);
            key
        };
        assert!(all.iter().map(key).is_sorted_by(|a, b| a < b), "one node a key, in order");
        for level in 1..HEIGHT_MAX {
            let high: Vec<_> =
                all.iter().filter(|node| self.record(**node).height() > level).copied().collect();
            assert_eq!(level_of(level), high, "level {level}");
        }
    }
}

/// Where the link of a node on a level lies.
#[inline]
fn link_place(node: ArenaOffset, level: usize) -> ArenaOffset {
    node - 1 - level as ArenaOffset
}

fn padded_be(tail: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..tail.len()].copy_from_slice(tail);
    u64::from_be_bytes(word)
}

#[inline]
fn some(address: ArenaOffset) -> Option<ArenaOffset> {
    (address != NONE).then_some(address)
}
