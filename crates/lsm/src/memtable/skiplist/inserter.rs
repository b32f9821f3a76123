//! Where entries go in: the one writer's end of the list.
//!
//! An insertion begins where the one before it ended, or at the node it was made to, and climbs only as far as it has to: what is written
//! together lies close together, as a secret's metadata and its versions do.
//!
//! Invariant: the places below level `near` enclose each other, each level's within the one above, and so do those from level `far` on; where there
//! are levels between them, nothing is known of those.

use std::ops::Range;

use super::{
    ADDRESS_BITS, HEADER_WORDS, HEIGHT_MAX, HEIGHT_SHIFT, IS_LATER, KeyWords, LATER_WORDS, Link,
    NONE, Neighbours, SkipList, link_place, some,
};
use crate::batch::BatchOperation;
use crate::memtable::arena::{Allocator, ArenaOffset, ArenaRegion};
use crate::sync::{AtomicU64, Ordering};

/// The one writer's end.
#[derive(Debug)]
pub(crate) struct Inserter {
    allocator: Allocator,
    /// Where the last nodes went in: the nodes before and after them on each level.
    splice: [Neighbours; HEIGHT_MAX],
    /// The places below this level are of the last node.
    near: usize,
    /// Those from this level on are of one before it. 0 if all are of the last.
    far: usize,
    /// The node of the last entry, if that hangs on one.
    finger: Option<Link>,
    height: usize,
    dice: u64,
}

impl Inserter {
    /// That of an empty list, whose head is in the arena already.
    pub(super) fn new(allocator: Allocator) -> Self {
        Self {
            allocator,
            splice: [Neighbours::EMPTY; HEIGHT_MAX],
            near: HEIGHT_MAX,
            far: 0,
            finger: None,
            height: 1,
            dice: 0x2545_f491_4f6c_dd1d,
        }
    }

    /// Adds an entry and returns where it is; sequence numbers of one key must rise. `known` is an entry that may be of the same key. `None` if the arena
    /// is full.
    pub(crate) fn insert(
        &mut self,
        list: &SkipList,
        seqno: u64,
        operation: BatchOperation<'_>,
        known: Option<ArenaOffset>,
    ) -> Option<ArenaOffset> {
        if let Some(known) = known.map(|entry| list.record(entry))
            && known.is_of(operation.key)
        {
            let code = list.prefixes.code(operation.key);
            return self.add_later(list, seqno, operation, Link::new(code, known.node()));
        }
        let key = list.words_of(operation.key);
        let height = self.roll_height();
        self.find_splice(list, &key, height);
        let after = self.splice[0].after;
        if list.has_key(after, &key) {
            return self.add_later(list, seqno, operation, after);
        }
        let arena = &list.arena;
        let value = self.add_value(list, operation.value)?;
        let words = height + HEADER_WORDS + key.words().len();
        let start = self.allocator.allocate(arena, ArenaRegion::Index, words)?;
        let address = start + height as ArenaOffset;
        let (links, node) = arena.at(start)[..words].split_at(height);
        // Relaxed, as all of the entry: nobody knows it before the release store of its first link.
        let header = header_of(operation) | (height as u64) << HEIGHT_SHIFT;
        let header = [header, seqno, u64::from(value) << ADDRESS_BITS];
        for (slot, word) in node.iter().zip(header.iter().chain(key.words())) {
            slot.store(*word, Ordering::Relaxed);
        }
        for (slot, place) in links.iter().rev().zip(&self.splice) {
            slot.store(place.after.0, Ordering::Relaxed);
        }
        let link = Link::new(key.code, address);
        for (level, place) in self.splice[..height].iter_mut().enumerate() {
            // Release: everything stored to the node comes before the link that publishes it.
            let slot = &arena.at(link_place(place.before.address(), level))[0];
            slot.store(link.0, Ordering::Release);
            place.before = link;
        }
        Some(address)
    }

    /// Adds an entry whose key has a node.
    fn add_later(
        &mut self,
        list: &SkipList,
        seqno: u64,
        operation: BatchOperation<'_>,
        node: Link,
    ) -> Option<ArenaOffset> {
        let arena = &list.arena;
        let value = self.add_value(list, operation.value)?;
        let address = self.allocator.allocate(arena, ArenaRegion::Index, LATER_WORDS)?;
        let places = &arena.at(node.address())[2];
        // Relaxed: this is the one thread that stores to it.
        let known = places.load(Ordering::Relaxed);
        let before = some(known as ArenaOffset).unwrap_or(node.address());
        let header = [
            header_of(operation) | IS_LATER,
            seqno,
            u64::from(value) << ADDRESS_BITS | u64::from(before),
            u64::from(node.address()),
        ];
        for (slot, word) in arena.at(address)[..LATER_WORDS].iter().zip(header) {
            slot.store(word, Ordering::Relaxed);
        }
        let own_value = known >> ADDRESS_BITS << ADDRESS_BITS;
        // Release: everything stored to the entry comes before the word that publishes it.
        places.store(own_value | u64::from(address), Ordering::Release);
        self.finger = Some(node);
        Some(address)
    }

    /// Stores a value and returns its place.
    fn add_value(&mut self, list: &SkipList, value: &[u8]) -> Option<ArenaOffset> {
        let words = value.len().div_ceil(8);
        if words == 0 {
            return Some(NONE);
        }
        let place = self.allocator.allocate(&list.arena, ArenaRegion::Values, words)?;
        store_bytes(&list.arena.at(place)[..words], value);
        Some(place)
    }

    /// The memory taken so far, in bytes.
    pub(crate) fn reserved_bytes(&self) -> usize {
        self.allocator.reserved_bytes()
    }

    /// Finds the place of a key that has no node yet on the lowest `height` levels at least.
    fn find_splice(&mut self, list: &SkipList, key: &KeyWords, height: usize) {
        if let Some(finger) = self.finger.take()
            && self.find_splice_behind(list, key, height, finger)
        {
            return;
        }
        let encloses = |place: &Neighbours| {
            (place.before == Link::HEAD || list.is_before(place.before, key))
                && !list.is_before(place.after, key)
        };
        // From the place of the last node up to the first level whose place encloses the key, then down again. What lies above encloses it too.
        let levels = &mut self.splice[..self.height];
        let first_that_encloses = |levels: Range<usize>, all: &[Neighbours]| {
            levels.into_iter().find(|level| encloses(&all[*level]))
        };
        let near = if height <= self.near { self.near.min(levels.len()) } else { 0 };
        let from = first_that_encloses(0..near, levels).unwrap_or_else(|| {
            let far = if near == levels.len() { near } else { self.far };
            (self.near, self.far) = (HEIGHT_MAX, 0);
            first_that_encloses(far..levels.len(), levels).unwrap_or(levels.len())
        });
        let mut place = levels.get(from).copied().unwrap_or(Neighbours::EMPTY);
        for level in (0..from).rev() {
            place = list.walk(key, place, level);
            levels[level] = place;
        }
    }

    /// The same from a node that comes before the key, if on the way to it is one that is high enough.
    fn find_splice_behind(
        &mut self,
        list: &SkipList,
        key: &KeyWords,
        height: usize,
        finger: Link,
    ) -> bool {
        if !list.is_before(finger, key) {
            return false;
        }
        // Each step goes as far as the node's highest link, so nodes get higher with the way.
        let mut before = finger;
        let (top, after) = loop {
            let top = list.record(before.address()).height() - 1;
            let after = list.link(before.address(), top);
            if !list.is_before(after, key) {
                break (top, after);
            }
            before = after;
        };
        if top < height - 1 {
            return false;
        }
        let mut place = Neighbours { before, after };
        self.splice[top] = place;
        for level in (0..top).rev() {
            place = list.walk(key, place, level);
            self.splice[level] = place;
        }
        self.near = top + 1;
        self.far = self.far.max(top + 1);
        true
    }

    /// One node in two rises a level. Xorshift64*: the shape of the list needs spread, not secrecy.
    fn roll_height(&mut self) -> usize {
        self.dice ^= self.dice >> 12;
        self.dice ^= self.dice << 25;
        self.dice ^= self.dice >> 27;
        let roll = self.dice.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32;
        let height = (1 + roll.trailing_zeros() as usize).min(HEIGHT_MAX);
        if height > self.height {
            // Levels above the old height were empty: their place is from the head to nowhere.
            self.splice[self.height..height].fill(Neighbours::EMPTY);
            self.height = height;
        }
        height
    }
}

/// The header of an entry that is no node.
#[inline]
fn header_of(operation: BatchOperation<'_>) -> u64 {
    let lengths = (operation.value.len() as u64) << 32 | (operation.key.len() as u64) << 8;
    lengths | u64::from(operation.kind.code())
}

/// Stores bytes as little-endian words; the last one is padded.
fn store_bytes(slots: &[AtomicU64], bytes: &[u8]) {
    let (whole, tail) = bytes.as_chunks::<8>();
    for (slot, bytes) in slots.iter().zip(whole) {
        slot.store(u64::from_le_bytes(*bytes), Ordering::Relaxed);
    }
    if let (false, Some(slot)) = (tail.is_empty(), slots.last()) {
        let mut word = [0; 8];
        word[..tail.len()].copy_from_slice(tail);
        slot.store(u64::from_le_bytes(word), Ordering::Relaxed);
    }
}
