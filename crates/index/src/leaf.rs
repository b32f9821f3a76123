//! A leaf page: up to `LEAF_PATHS_MAX` paths in order, their common prefix kept once.
//!
//! ```text
//! generation | header | prints, 4 a word | offsets, 4 a word | prefix | suffix 0 | suffix 1 ...
//! ```
//!
//! A membership test scans the prints, which lie side by side (two or three cache lines for a
//! hundred paths), and compares one suffix. Order is in the suffixes alone.
//!
//! Invariants:
//! - paths ascend strictly; each starts with the prefix (which need not be the longest such);
//! - print `i` is that of path `i`; unused lanes are zero, which is no path's print;
//! - offset `i` is where suffix `i` starts, in words from the first suffix; the last one is the
//!   end of the last suffix.

use std::cmp::Ordering;

use crate::header::{HEADER_WORDS, Header, Kind};
use crate::limits::{LEAF_PATHS_MAX, LEAF_WORDS_MAX};
use crate::packed::{
    Cell, LANES, add_to_lanes, common_bytes, compare, compare_prefix, equals, lane, part,
    push_lanes, push_lanes_with, push_lanes_without, push_packed, push_unpacked, zero_lanes,
};
use crate::print::Key;

/// A leaf page as read from shared words or a private copy of them.
pub(crate) struct Leaf<'a, C> {
    header: Header,
    prints: &'a [C],
    offsets: &'a [C],
    prefix: &'a [C],
    suffixes: &'a [C],
}

impl<'a, C: Cell> Leaf<'a, C> {
    #[inline(always)]
    pub(crate) fn new(header: Header, words: &'a [C]) -> Self {
        let count = header.entries;
        let (print_words, offset_words) = (count.div_ceil(LANES), (count + 1).div_ceil(LANES));
        let offsets = HEADER_WORDS + print_words;
        let prefix = offsets + offset_words;
        let suffixes = prefix + header.prefix_bytes.div_ceil(8);
        Self {
            header,
            prints: part(words, HEADER_WORDS, print_words),
            offsets: part(words, offsets, offset_words),
            prefix: part(words, prefix, suffixes - prefix),
            suffixes: part(words, suffixes, header.words.saturating_sub(suffixes)),
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.header.entries
    }

    pub(crate) fn words(&self) -> usize {
        self.header.words
    }

    pub(crate) fn print(&self, at: usize) -> u16 {
        lane(self.prints, at)
    }

    #[inline(always)]
    fn suffix(&self, at: usize) -> &'a [C] {
        let start = usize::from(lane(self.offsets, at));
        let end = usize::from(lane(self.offsets, at + 1));
        part(self.suffixes, start, end.saturating_sub(start))
    }

    /// Whether the path is in this leaf, exactly.
    #[inline(always)]
    pub(crate) fn contains(&self, key: Key<'_>) -> bool {
        let prefix = self.header.prefix_bytes;
        let wanted = key.prints();
        let may_be_at = |at: usize| {
            equals(self.suffix(at), key.bytes, prefix)
                && compare_prefix(key.bytes, self.prefix, prefix).is_eq()
        };
        for (i, prints) in self.prints.iter().enumerate() {
            let mut equal = zero_lanes(prints.load() ^ wanted);
            while equal != 0 {
                if may_be_at(i * LANES + equal.trailing_zeros() as usize / 16) {
                    return true;
                }
                equal &= equal - 1;
            }
        }
        false
    }

    /// Where `path` is (`Ok`), or would be (`Err`).
    pub(crate) fn rank(&self, path: &[u8]) -> Result<usize, usize> {
        match compare_prefix(path, self.prefix, self.header.prefix_bytes) {
            Ordering::Less => return Err(0),
            Ordering::Greater => return Err(self.count()),
            Ordering::Equal => {}
        }
        let (mut low, mut high) = (0, self.count());
        while low < high {
            let middle = low.midpoint(high);
            match compare(self.suffix(middle), path, self.header.prefix_bytes) {
                Ordering::Less => low = middle + 1,
                Ordering::Greater => high = middle,
                Ordering::Equal => return Ok(middle),
            }
        }
        Err(low)
    }

    /// Replaces `bytes` by path `at`.
    pub(crate) fn path_into(&self, at: usize, bytes: &mut Vec<u8>) {
        bytes.clear();
        push_unpacked(bytes, self.prefix);
        bytes.truncate(self.header.prefix_bytes);
        push_unpacked(bytes, self.suffix(at));
    }

    /// Whether there is room for one more path.
    pub(crate) fn has_room_for(&self, path: &[u8]) -> bool {
        let rest = path.len().saturating_sub(self.header.prefix_bytes);
        let grown = match compare_prefix(path, self.prefix, self.header.prefix_bytes) {
            Ordering::Equal => self.words() + rest.div_ceil(8),
            // The prefix shrinks and every suffix takes up what it loses.
            _ => self.words() + (self.count() + 1) * (self.prefix.len() + 1) + path.len() / 8,
        };
        self.count() < 2 || (self.count() < LEAF_PATHS_MAX && grown <= LEAF_WORDS_MAX)
    }

    /// The page with `key` put in front of path `at`.
    pub(crate) fn with(&self, at: usize, key: Key<'_>, words: &mut Vec<u64>) {
        if compare_prefix(key.bytes, self.prefix, self.header.prefix_bytes).is_ne() {
            let mut paths = Paths::default();
            paths.push_all(self);
            paths.insert(at, key);
            return paths.write(0, paths.count(), words);
        }
        let count = self.count();
        let suffix = usize::from(lane(self.offsets, at));
        words.clear();
        words.extend([0; HEADER_WORDS]);
        push_lanes_with(words, self.prints, count, at, key.print);
        let offsets = words.len();
        push_lanes_with(words, self.offsets, count + 1, at, lane(self.offsets, at));
        let prefix = words.len();
        words.extend(self.prefix.iter().map(Cell::load));
        words.extend(part(self.suffixes, 0, suffix).iter().map(Cell::load));
        let before = words.len();
        let rest = &key.bytes[self.header.prefix_bytes..];
        push_packed(words, rest);
        let grown = (words.len() - before) as u16;
        words.extend(self.suffixes[suffix..].iter().map(Cell::load));
        add_to_lanes(&mut words[offsets..prefix], at + 1, count + 2, grown);
        self.seal(count + 1, words);
    }

    /// The page without path `at`.
    pub(crate) fn without(&self, at: usize, words: &mut Vec<u64>) {
        let count = self.count();
        let (start, end) = (lane(self.offsets, at), lane(self.offsets, at + 1));
        words.clear();
        words.extend([0; HEADER_WORDS]);
        push_lanes_without(words, self.prints, count, at);
        let offsets = words.len();
        push_lanes_without(words, self.offsets, count + 1, at);
        let prefix = words.len();
        add_to_lanes(&mut words[offsets..prefix], at, count, start.wrapping_sub(end));
        words.extend(self.prefix.iter().map(Cell::load));
        words.extend(part(self.suffixes, 0, usize::from(start)).iter().map(Cell::load));
        words.extend(self.suffixes[usize::from(end)..].iter().map(Cell::load));
        self.seal(count - 1, words);
    }

    fn seal(&self, entries: usize, words: &mut [u64]) {
        words[1] = Header { entries, words: words.len(), ..self.header }.pack();
    }
}

/// Whole paths in order with their prints, on their way into leaf pages.
#[derive(Default)]
pub(crate) struct Paths {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    prints: Vec<u16>,
}

impl Paths {
    pub(crate) fn count(&self) -> usize {
        self.ends.len()
    }

    pub(crate) fn path(&self, at: usize) -> &[u8] {
        let start = if at == 0 { 0 } else { self.ends[at - 1] };
        &self.bytes[start..self.ends[at]]
    }

    pub(crate) fn push(&mut self, key: Key<'_>) {
        self.bytes.extend_from_slice(key.bytes);
        self.ends.push(self.bytes.len());
        self.prints.push(key.print);
    }

    pub(crate) fn push_all<C: Cell>(&mut self, leaf: &Leaf<'_, C>) {
        let mut path = Vec::new();
        for at in 0..leaf.count() {
            leaf.path_into(at, &mut path);
            self.bytes.extend_from_slice(&path);
            self.ends.push(self.bytes.len());
            self.prints.push(leaf.print(at));
        }
    }

    fn insert(&mut self, at: usize, key: Key<'_>) {
        let start = if at == 0 { 0 } else { self.ends[at - 1] };
        self.bytes.splice(start..start, key.bytes.iter().copied());
        self.ends[at..].iter_mut().for_each(|end| *end += key.bytes.len());
        self.ends.insert(at, start + key.bytes.len());
        self.prints.insert(at, key.print);
    }

    /// Drops the first `count` paths.
    pub(crate) fn drop_first(&mut self, count: usize) {
        let cut = if count == 0 { 0 } else { self.ends[count - 1] };
        self.bytes.drain(..cut);
        self.ends.drain(..count);
        self.ends.iter_mut().for_each(|end| *end -= cut);
        self.prints.drain(..count);
    }

    /// Words of a page holding the paths `from..to`.
    pub(crate) fn page_words(&self, from: usize, to: usize) -> usize {
        let prefix = self.prefix_bytes(from, to);
        let suffixes: usize = (from..to).map(|at| (self.path(at).len() - prefix).div_ceil(8)).sum();
        let count = to - from;
        HEADER_WORDS
            + count.div_ceil(LANES)
            + (count + 1).div_ceil(LANES)
            + prefix.div_ceil(8)
            + suffixes
    }

    /// Words of a page holding all of them, no prefix counted on.
    pub(crate) fn words_at_most(&self) -> usize {
        HEADER_WORDS + 2 + self.bytes.len() / 8 + 2 * self.count()
    }

    fn prefix_bytes(&self, from: usize, to: usize) -> usize {
        if from == to { 0 } else { common_bytes(self.path(from), self.path(to - 1)) }
    }

    /// Writes the page holding the paths `from..to`.
    pub(crate) fn write(&self, from: usize, to: usize, words: &mut Vec<u64>) {
        let prefix = self.prefix_bytes(from, to);
        let mut offsets = Vec::with_capacity(to - from + 1);
        let mut suffixes = Vec::new();
        for at in from..to {
            offsets.push(suffixes.len() as u16);
            push_packed(&mut suffixes, &self.path(at)[prefix..]);
        }
        offsets.push(suffixes.len() as u16);
        words.clear();
        words.extend([0; HEADER_WORDS]);
        push_lanes(words, &self.prints[from..to]);
        push_lanes(words, &offsets);
        if from < to {
            push_packed(words, &self.path(from)[..prefix]);
        }
        words.append(&mut suffixes);
        let kind = Kind::Leaf;
        let header = Header { kind, entries: to - from, prefix_bytes: prefix, words: words.len() };
        words[1] = header.pack();
    }

    /// Where to cut so that the paths share least across it: between two folders, if any end
    /// within `lowest..=highest`. Of equals the one nearest to `wanted`.
    pub(crate) fn cut(&self, lowest: usize, wanted: usize, highest: usize) -> usize {
        (lowest..=highest)
            .min_by_key(|&at| (common_bytes(self.path(at - 1), self.path(at)), at.abs_diff(wanted)))
            .unwrap_or(wanted)
    }

    /// The shortest string above path `at - 1` and not above path `at`.
    pub(crate) fn separator(&self, at: usize) -> &[u8] {
        let shared = common_bytes(self.path(at - 1), self.path(at));
        &self.path(at)[..=shared]
    }
}
