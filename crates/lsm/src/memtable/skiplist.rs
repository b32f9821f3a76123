//! The skip list: entries ordered by key, newest version first, read without locks while one writer inserts.
//!
//! A node lies in the arena as words:
//!
//! ```text
//! word 0      value length << 32 | key length << 8 | kind << 7 | height
//! word 1      sequence number
//! next 2..    one link per level, the address of the next node or 0
//! key         big-endian words, zero-padded: comparing words compares bytes
//! value       little-endian words, zero-padded
//! ```
//!
//! Invariants:
//! - a node is complete before a link to it is stored with `Release`; a reader loads links with `Acquire`, so what it
//!   reaches is complete;
//! - nodes are linked from the bottom up and never unlinked or changed;
//! - a node on level n is on every level below it.
//!
//! Pugh, "Skip lists: a probabilistic alternative to balanced trees" (1990); one writer as in LevelDB.

use std::cmp::Ordering as Compare;

use super::arena::{Address, Allocator, Arena};
use crate::batch::{Kind, Operation};
use crate::sync::{AtomicU64, Ordering};

/// Levels of the list; with one node in four rising, enough for 4^12 entries.
const HEIGHT_MAX: usize = if cfg!(loom) { 2 } else { 12 };
/// Words before the links of a node.
const HEADER_WORDS: usize = 2;
/// The link that leads nowhere, and the address of the head, which no link leads to.
const NONE: Address = 0;
/// Keys up to this many words are compared from the stack.
const STACK_WORDS: usize = 16;

/// The readers' end.
#[derive(Debug)]
pub(crate) struct SkipList {
    arena: Arena,
}

/// The one writer's end.
#[derive(Debug)]
pub(crate) struct Inserter {
    allocator: Allocator,
    /// Where the last node went in: the nodes before and after it on each level.
    splice: [Place; HEIGHT_MAX],
    height: usize,
    dice: u64,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    before: Address,
    after: Address,
}

/// A key as words, on the stack if it is short.
struct KeyWords {
    len: usize,
    short: [u64; STACK_WORDS],
    long: Vec<u64>,
}

impl KeyWords {
    #[inline]
    fn new(key: &[u8]) -> Self {
        let mut this = Self { len: key.len(), short: [0; STACK_WORDS], long: Vec::new() };
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

/// A node as the reader sees it.
#[derive(Clone, Copy)]
pub(crate) struct Node<'a> {
    words: &'a [AtomicU64],
    header: u64,
}

impl<'a> Node<'a> {
    #[inline]
    fn new(arena: &'a Arena, address: Address) -> Self {
        let words = arena.at(address);
        // Relaxed: the acquire load of the link that led here ordered the node's words before this.
        Node { words, header: words[0].load(Ordering::Relaxed) }
    }

    #[inline]
    fn height(self) -> usize {
        (self.header & 0x7f) as usize
    }

    #[inline]
    fn key_len(self) -> usize {
        (self.header >> 8 & 0xff_ffff) as usize
    }

    #[inline]
    fn value_len(self) -> usize {
        (self.header >> 32) as usize
    }

    /// What the entry says.
    pub(crate) fn kind(self) -> Kind {
        if self.header & 0x80 == 0 { Kind::Delete } else { Kind::Put }
    }

    /// The entry's place in the order of writes.
    #[inline]
    pub(crate) fn seqno(self) -> u64 {
        self.words[1].load(Ordering::Relaxed)
    }

    #[inline]
    fn key_words(self) -> &'a [AtomicU64] {
        &self.words[HEADER_WORDS + self.height()..][..self.key_len().div_ceil(8)]
    }

    /// Copies the key out.
    pub(crate) fn copy_key(self, out: &mut Vec<u8>) {
        out.clear();
        for word in self.key_words() {
            out.extend_from_slice(&word.load(Ordering::Relaxed).to_be_bytes());
        }
        out.truncate(self.key_len());
    }

    /// Copies the value out.
    pub(crate) fn copy_value(self, out: &mut Vec<u8>) {
        let start = HEADER_WORDS + self.height() + self.key_len().div_ceil(8);
        let words = &self.words[start..][..self.value_len().div_ceil(8)];
        out.clear();
        out.reserve(words.len() * 8);
        for word in words {
            out.extend_from_slice(&word.load(Ordering::Relaxed).to_le_bytes());
        }
        out.truncate(self.value_len());
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

    /// Whether the entry comes before version `seqno` of `key`: smaller key, or the same with a newer version.
    #[inline]
    fn is_before(self, key: &KeyWords, seqno: u64) -> bool {
        match self.compare_key(key) {
            Compare::Less => true,
            Compare::Equal => self.seqno() > seqno,
            Compare::Greater => false,
        }
    }
}

impl SkipList {
    /// An empty list that can hold `bytes_max` bytes.
    pub(crate) fn new(bytes_max: usize, chunk_bytes: usize) -> (Self, Inserter) {
        let (arena, mut allocator) = Arena::new(bytes_max, chunk_bytes);
        let head = allocator.allocate(&arena, HEADER_WORDS + HEIGHT_MAX);
        assert_eq!(head, Some(NONE), "the head is the first object");
        arena.at(NONE)[0].store(HEIGHT_MAX as u64, Ordering::Relaxed);
        let inserter = Inserter {
            allocator,
            splice: [Place { before: NONE, after: NONE }; HEIGHT_MAX],
            height: 1,
            dice: 0x2545_f491_4f6c_dd1d,
        };
        (Self { arena }, inserter)
    }

    /// The node behind an address from `first`, `seek` or `after`.
    pub(crate) fn node(&self, address: Address) -> Node<'_> {
        Node::new(&self.arena, address)
    }

    /// The first entry.
    pub(crate) fn first(&self) -> Option<Address> {
        some(self.link(NONE, 0))
    }

    /// The entry after one.
    pub(crate) fn after(&self, address: Address) -> Option<Address> {
        some(self.link(address, 0))
    }

    /// The first entry that is not before version `seqno` of `key`.
    pub(crate) fn seek(&self, key: &[u8], seqno: u64) -> Option<Address> {
        let key = KeyWords::new(key);
        some(self.seek_words(&key, seqno))
    }

    /// The newest version of `key` that is not newer than `seqno`.
    pub(crate) fn find(&self, key: &[u8], seqno: u64) -> Option<Node<'_>> {
        let key = KeyWords::new(key);
        let node = self.node(some(self.seek_words(&key, seqno))?);
        (node.compare_key(&key) == Compare::Equal).then_some(node)
    }

    #[inline]
    fn link(&self, address: Address, level: usize) -> Address {
        // Acquire: pairs with the release store in `insert`, so the node behind the link is complete.
        let link = self.arena.at(address)[HEADER_WORDS + level].load(Ordering::Acquire);
        (link & u64::from(u32::MAX)) as u32
    }

    fn seek_words(&self, key: &KeyWords, seqno: u64) -> Address {
        let mut before = NONE;
        let mut known_after = NONE;
        for level in (0..HEIGHT_MAX).rev() {
            let place = self.walk(key, seqno, before, known_after, level);
            before = place.before;
            known_after = place.after;
        }
        known_after
    }

    /// Walks right on one level from `before` to the place of the key. `known_after` is known not to be before it.
    #[inline]
    fn walk(
        &self,
        key: &KeyWords,
        seqno: u64,
        mut before: Address,
        known_after: Address,
        level: usize,
    ) -> Place {
        loop {
            let after = self.link(before, level);
            if after == NONE || after == known_after || !self.node(after).is_before(key, seqno) {
                return Place { before, after };
            }
            before = after;
        }
    }
}

impl Inserter {
    /// Adds an entry; sequence numbers of one key must rise. False if the arena is full.
    pub(crate) fn insert(&mut self, list: &SkipList, seqno: u64, operation: Operation<'_>) -> bool {
        let key = KeyWords::new(operation.key);
        let height = self.roll_height();
        let value_words = operation.value.len().div_ceil(8);
        let words = HEADER_WORDS + height + key.words().len() + value_words;
        let Some(address) = self.allocator.allocate(&list.arena, words) else { return false };
        let node = &list.arena.at(address)[..words];
        fill(node, height, seqno, operation, &key);
        self.find_splice(list, &key, seqno);
        for level in 0..height {
            let place = self.splice[level];
            node[HEADER_WORDS + level].store(u64::from(place.after), Ordering::Relaxed);
        }
        for level in 0..height {
            let before = self.splice[level].before;
            // Release: everything stored to the node comes before the link that publishes it.
            list.arena.at(before)[HEADER_WORDS + level]
                .store(u64::from(address), Ordering::Release);
            self.splice[level].before = address;
        }
        true
    }

    /// The memory taken so far, in bytes.
    pub(crate) fn reserved_bytes(&self) -> usize {
        self.allocator.reserved_bytes()
    }

    /// Finds the place of a key on every level. A key right after the last one, as in a sorted load, costs two
    /// comparisons.
    fn find_splice(&mut self, list: &SkipList, key: &KeyWords, seqno: u64) {
        let Place { before, after } = self.splice[0];
        let follows = before != NONE
            && list.node(before).is_before(key, seqno)
            && (after == NONE || !list.node(after).is_before(key, seqno));
        if follows {
            return;
        }
        let mut before = NONE;
        let mut known_after = NONE;
        for level in (0..self.height).rev() {
            let place = list.walk(key, seqno, before, known_after, level);
            self.splice[level] = place;
            before = place.before;
            known_after = place.after;
        }
    }

    /// One node in four rises a level. Xorshift64*: the shape of the list needs spread, not secrecy.
    fn roll_height(&mut self) -> usize {
        self.dice ^= self.dice >> 12;
        self.dice ^= self.dice << 25;
        self.dice ^= self.dice >> 27;
        let roll = self.dice.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32;
        let height = (1 + (roll.trailing_zeros() / 2) as usize).min(HEIGHT_MAX);
        if height > self.height {
            // Levels above the old height were empty: their place is from the head to nowhere.
            self.splice[self.height..height].fill(Place { before: NONE, after: NONE });
            self.height = height;
        }
        height
    }
}

/// Writes everything of a node but its links.
fn fill(node: &[AtomicU64], height: usize, seqno: u64, operation: Operation<'_>, key: &KeyWords) {
    let kind = u64::from(operation.kind.code()) << 7;
    let lengths = (operation.value.len() as u64) << 32 | (operation.key.len() as u64) << 8;
    // Relaxed throughout: nobody knows this node before the release store of its first link.
    node[0].store(lengths | kind | height as u64, Ordering::Relaxed);
    node[1].store(seqno, Ordering::Relaxed);
    let (key_slots, value_slots) = node[HEADER_WORDS + height..].split_at(key.words().len());
    for (slot, word) in key_slots.iter().zip(key.words()) {
        slot.store(*word, Ordering::Relaxed);
    }
    let (whole, tail) = operation.value.as_chunks::<8>();
    for (slot, bytes) in value_slots.iter().zip(whole) {
        slot.store(u64::from_le_bytes(*bytes), Ordering::Relaxed);
    }
    if let (false, Some(slot)) = (tail.is_empty(), value_slots.last()) {
        let mut word = [0; 8];
        word[..tail.len()].copy_from_slice(tail);
        slot.store(u64::from_le_bytes(word), Ordering::Relaxed);
    }
}

fn padded_be(tail: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..tail.len()].copy_from_slice(tail);
    u64::from_be_bytes(word)
}

#[inline]
fn some(address: Address) -> Option<Address> {
    (address != NONE).then_some(address)
}
