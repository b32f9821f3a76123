//! A leaf page: up to `LEAF_PATHS_MAX` paths, their common prefix kept once.
//!
//! ```text
//! generation | header | tail | fingerprints, 4 a word | offsets, 4 a word | prefix | suffix 0 | ...
//! ```
//!
//! The paths a page is written with, its entries, lie in order. Up to `ROOM_MAX` more are put
//! behind them in place, in the order they come; the tail word says how many and how they sort.
//! One store of it takes a path in, so an insert writes a few words and not the page. When the
//! room is used up the page is written anew, everything in order.
//!
//! A membership test scans the fingerprints, which lie side by side (two or three cache lines for a
//! hundred paths), and compares one suffix. Order is in the suffixes and the tail alone.
//!
//! Invariants:
//! - entries ascend strictly; every path starts with the prefix (which need not be the longest
//!   such); no path is there twice;
//! - fingerprint `i` is that of path `i`; lanes past the last path are zero, which is no path's fingerprint,
//!   or belong to a path whose insert is under way;
//! - offset `i` is where suffix `i` starts, in words from the first suffix; the one after the
//!   last path is the end of its suffix;
//! - what the tail word counts was written before it (release), and a reader loads it before
//!   anything else (acquire).

use std::cmp::Ordering;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Relaxed, Release};

use crate::fingerprint::HashedPath;
use crate::header::{HEADER_WORDS, PageHeader};
use crate::limits::{LEAF_PATHS_MAX, LEAF_WORDS_MAX};
use crate::packed::{
    LANES, PageWord, be_word, common_bytes, common_bytes_packed, compare, compare_packed,
    compare_prefix, equals, lane, part, push_packed, push_shifted, push_unpacked, zero_lanes,
};
use crate::pages::slot_words;

/// Where the tail word is.
const TAIL_AT: usize = HEADER_WORDS;

/// Words before a leaf's arrays.
pub(crate) const LEAF_HEADER_WORDS: usize = HEADER_WORDS + 1;

/// The most paths behind the entries: as many as one word can order.
const ROOM_MAX: usize = 15;

/// The least room a page that is to grow is given.
const ROOM_MIN: usize = 3;

/// With fewer paths than this, a page that is to grow keeps no more of a common prefix than
/// whole segments: the next path hardly shares the last bytes.
const PATHS_OF_CLOSE_PREFIX: usize = 16;

/// The most bytes of a common prefix of several paths that are given up so.
const CLOSE_BYTES_MAX: usize = 16;

/// The paths behind the entries: their number in the low four bits, then, four bits each, their
/// places in the order they sort.
#[derive(Clone, Copy)]
struct LeafTail(u64);

impl LeafTail {
    #[inline(always)]
    fn len(self) -> usize {
        (self.0 & 15) as usize
    }

    /// The place of the one that sorts as number `rank`.
    fn place(self, rank: usize) -> usize {
        (self.0 >> (4 + 4 * rank)) as usize & 15
    }

    /// With one more, which comes last by place and as number `rank` by order.
    fn with(self, rank: usize) -> Self {
        let (len, shift) = (self.len() as u64, 4 * rank);
        let ranks = self.0 >> 4;
        let low = ranks & ((1 << shift) - 1);
        let high = (ranks >> shift).checked_shl(shift as u32 + 4).unwrap_or(0);
        Self((low | len << shift | high) << 4 | (len + 1))
    }
}

/// What a page is left beside the paths it is written with.
#[derive(Clone, Copy)]
pub(crate) enum LeafRoom<'a> {
    /// For paths like those in it.
    Some,
    /// For this path at least.
    For(&'a [u8]),
}

/// How far a walk through a leaf's paths in order has come.
#[derive(Clone, Copy, Default)]
pub(crate) struct Passed {
    entries: usize,
    /// By rank.
    tail: usize,
}

impl Passed {
    fn count(self) -> usize {
        self.entries + self.tail
    }
}

/// The places of a leaf's paths in the order of the paths.
pub(crate) struct LeafOrder {
    places: [u8; LEAF_PATHS_MAX],
    count: usize,
}

const _: () = assert!(LEAF_PATHS_MAX <= 1 << u8::BITS);

impl LeafOrder {
    pub(crate) fn all(&self) -> &[u8] {
        &self.places[..self.count]
    }

    pub(crate) fn take_out(&mut self, rank: usize) {
        self.places.copy_within(rank + 1..self.count, rank);
        self.count -= 1;
    }

    fn push(&mut self, place: usize) {
        self.places[self.count] = place as u8;
        self.count += 1;
    }
}

/// A leaf page as read from shared words or a private copy of them.
pub(crate) struct Leaf<'a, C> {
    header: PageHeader,
    tail: LeafTail,
    fingerprints: &'a [C],
    offsets: &'a [C],
    prefix: &'a [C],
    suffixes: &'a [C],
}

impl<'a, C: PageWord> Leaf<'a, C> {
    #[inline(always)]
    pub(crate) fn new(header: PageHeader, words: &'a [C]) -> Self {
        let lanes = header.entries + header.room;
        let offsets = LEAF_HEADER_WORDS + lanes.div_ceil(LANES);
        let prefix = offsets + (lanes + 1).div_ceil(LANES);
        let suffixes = prefix + header.prefix_bytes.div_ceil(8);
        Self {
            header,
            tail: LeafTail(words.get(TAIL_AT).map_or(0, PageWord::load_first)),
            fingerprints: part(words, LEAF_HEADER_WORDS, offsets - LEAF_HEADER_WORDS),
            offsets: part(words, offsets, prefix - offsets),
            prefix: part(words, prefix, suffixes - prefix),
            suffixes: part(words, suffixes, header.words.saturating_sub(suffixes)),
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.header.entries + self.tail.len()
    }

    /// Words taken up, free ones left out.
    pub(crate) fn words(&self) -> usize {
        self.header.words - self.suffixes.len() + usize::from(lane(self.offsets, self.count()))
    }

    pub(crate) fn fingerprint(&self, place: usize) -> u16 {
        lane(self.fingerprints, place)
    }

    #[inline(always)]
    fn suffix(&self, place: usize) -> &'a [C] {
        let start = usize::from(lane(self.offsets, place));
        let end = usize::from(lane(self.offsets, place + 1));
        part(self.suffixes, start, end.saturating_sub(start))
    }

    /// Whether the path is in this leaf, exactly.
    #[inline(always)]
    pub(crate) fn contains(&self, key: HashedPath<'_>) -> bool {
        let (prefix, count) = (self.header.prefix_bytes, self.count());
        let wanted = key.fingerprints();
        // A place past the tail is that of a path put in after this look at the page began.
        let is_at = |place: usize| {
            place < count
                && equals(self.suffix(place), key.bytes, prefix)
                && compare_prefix(key.bytes, self.prefix, prefix).is_eq()
        };
        for (i, fingerprints) in self.fingerprints.iter().enumerate() {
            let mut equal = zero_lanes(fingerprints.load() ^ wanted);
            while equal != 0 {
                if is_at(i * LANES + equal.trailing_zeros() as usize / 16) {
                    return true;
                }
                equal &= equal - 1;
            }
        }
        false
    }

    /// How many paths sort below `path`, which is there (`Ok`) or not (`Err`).
    pub(crate) fn rank(&self, path: &[u8]) -> Result<usize, usize> {
        self.passed_at(path).map(Passed::count).map_err(Passed::count)
    }

    /// How far a walk has come before `path`, which is there (`Ok`) or not (`Err`).
    pub(crate) fn passed_at(&self, path: &[u8]) -> Result<Passed, Passed> {
        match compare_prefix(path, self.prefix, self.header.prefix_bytes) {
            Ordering::Less => return Err(Passed::default()),
            Ordering::Greater => {
                return Err(Passed { entries: self.header.entries, tail: self.tail.len() });
            }
            Ordering::Equal => {}
        }
        let in_entries = search(self.header.entries, |at| self.compare_at(at, path));
        let in_tail = self.rank_in_tail(path);
        let (Ok(entries) | Err(entries), Ok(tail) | Err(tail)) = (in_entries, in_tail);
        let passed = Passed { entries, tail };
        if in_entries.or(in_tail).is_ok() { Ok(passed) } else { Err(passed) }
    }

    /// The place of the path a walk comes to next, and how far it has come with it.
    // Called for each name of a list. Not inlined, the pair went through memory word by word and was read there as one: a stall each time.
    #[inline(always)]
    pub(crate) fn next(&self, passed: Passed) -> Option<(usize, Passed)> {
        let Passed { entries, tail } = passed;
        let is_entry = match (entries < self.header.entries, tail < self.tail.len()) {
            (false, false) => return None,
            (true, true) => {
                let (entry, behind) = (self.suffix(entries), self.suffix(self.tail_place(tail)));
                compare_packed(entry, behind).is_lt()
            }
            (has_entry, _) => has_entry,
        };
        Some(if is_entry {
            (entries, Passed { entries: entries + 1, tail })
        } else {
            (self.tail_place(tail), Passed { entries, tail: tail + 1 })
        })
    }

    /// The place of the path that sorts last.
    pub(crate) fn last(&self) -> Option<usize> {
        let entry = self.header.entries.checked_sub(1);
        let behind = self.tail.len().checked_sub(1).map(|rank| self.tail_place(rank));
        entry
            .into_iter()
            .chain(behind)
            .max_by(|&left, &right| compare_packed(self.suffix(left), self.suffix(right)))
    }

    fn rank_in_tail(&self, path: &[u8]) -> Result<usize, usize> {
        search(self.tail.len(), |rank| self.compare_at(self.tail_place(rank), path))
    }

    fn tail_place(&self, rank: usize) -> usize {
        self.header.entries + self.tail.place(rank)
    }

    fn compare_at(&self, place: usize, path: &[u8]) -> Ordering {
        compare(self.suffix(place), path, self.header.prefix_bytes)
    }

    /// The paths' places in order. Not for a page that may change underfoot.
    pub(crate) fn places(&self) -> LeafOrder {
        let mut places = LeafOrder { places: [0; LEAF_PATHS_MAX], count: 0 };
        let mut next = 0;
        for rank in 0..self.tail.len() {
            let place = self.tail_place(rank);
            let suffix = self.suffix(place);
            let (Ok(below) | Err(below)) = search(self.header.entries - next, |at| {
                compare_packed(self.suffix(next + at), suffix)
            });
            (next..next + below).for_each(|entry| places.push(entry));
            next += below;
            places.push(place);
        }
        (next..self.header.entries).for_each(|entry| places.push(entry));
        places
    }

    /// Bytes every path here starts with.
    pub(crate) fn prefix_bytes(&self) -> usize {
        self.header.prefix_bytes
    }

    /// Replaces `bytes` by the prefix.
    pub(crate) fn prefix_into(&self, bytes: &mut Vec<u8>) {
        bytes.clear();
        push_unpacked(bytes, self.prefix);
        bytes.truncate(self.header.prefix_bytes);
    }

    /// Appends what the path at `place` has after the prefix.
    pub(crate) fn suffix_onto(&self, place: usize, bytes: &mut Vec<u8>) {
        push_unpacked(bytes, self.suffix(place));
    }

    /// Replaces `bytes` by the path at `place`.
    pub(crate) fn path_into(&self, place: usize, bytes: &mut Vec<u8>) {
        self.prefix_into(bytes);
        self.suffix_onto(place, bytes);
    }

    /// Replaces `copy` by the page's words as they were when this look at it began.
    pub(crate) fn copy_to(&self, words: &[C], copy: &mut Vec<u64>) {
        copy.clear();
        copy.extend(words.iter().take(self.words()).map(PageWord::load));
        if let Some([_, header, tail]) = copy.first_chunk_mut::<LEAF_HEADER_WORDS>() {
            *header = PageHeader { words: self.words(), ..self.header }.pack();
            *tail = self.tail.0;
        }
    }

    /// Whether one more path fits, if the page may be written anew.
    pub(crate) fn has_room_for(&self, path: &[u8]) -> bool {
        let rest = path.len().saturating_sub(self.header.prefix_bytes);
        let grown = match compare_prefix(path, self.prefix, self.header.prefix_bytes) {
            Ordering::Equal => self.words() + rest.div_ceil(8),
            // The prefix shrinks and every suffix takes up what it loses.
            _ => self.words() + (self.count() + 1) * (self.prefix.len() + 1) + path.len() / 8,
        };
        self.count() < 2 || (self.count() < LEAF_PATHS_MAX && grown <= LEAF_WORDS_MAX)
    }

    /// Whether one more path fits in place.
    pub(crate) fn takes_in_place(&self, path: &[u8]) -> bool {
        let (prefix, used) = (self.header.prefix_bytes, lane(self.offsets, self.count()));
        self.tail.len() < self.header.room
            && usize::from(used) + path.len().saturating_sub(prefix).div_ceil(8)
                <= self.suffixes.len()
            && compare_prefix(path, self.prefix, prefix).is_eq()
    }

    /// Writes a page of the paths at `places`, which ascend.
    pub(crate) fn write(&self, places: &[u8], room: LeafRoom<'_>, words: &mut Vec<u64>) {
        let mut first = Vec::new();
        match (places.first(), room) {
            (Some(&place), _) => self.path_into(usize::from(place), &mut first),
            (None, LeafRoom::For(path)) => first.extend_from_slice(path),
            (None, _) => {}
        }
        let prefix = self.prefix_of(places, room, &first);
        let count = places.len();
        let spare = (count / 4).clamp(ROOM_MIN, ROOM_MAX).min(LEAF_PATHS_MAX - count);
        let (mut fingerprints, mut offsets) = ([0; LANES_MAX], [0; LANES_MAX]);
        words.clear();
        words.extend([0; LEAF_HEADER_WORDS]);
        let lanes = words.len();
        let print_words = (count + spare).div_ceil(LANES);
        words.resize(lanes + print_words + (count + spare + 1).div_ceil(LANES), 0);
        push_packed(words, &first[..prefix]);
        let suffixes = words.len();
        for (at, &place) in places.iter().enumerate() {
            fingerprints[at] = self.fingerprint(usize::from(place));
            self.push_suffix(usize::from(place), prefix, words);
            offsets[at + 1] = (words.len() - suffixes) as u16;
        }
        fill_lanes(&mut words[lanes..], &fingerprints[..count]);
        fill_lanes(&mut words[lanes + print_words..], &offsets[..=count]);
        let likely = (words.len() - suffixes) / count.max(1) * spare;
        let likely = likely.min(LEAF_WORDS_MAX.saturating_sub(words.len()));
        let page_words = words.len()
            + match room {
                LeafRoom::Some => likely,
                LeafRoom::For(path) => likely.max((path.len() - prefix).div_ceil(8)),
            };
        let header = PageHeader {
            is_leaf: true,
            entries: count,
            room: spare,
            prefix_bytes: prefix,
            words: if page_words < LEAF_WORDS_MAX { slot_words(page_words) } else { page_words },
        };
        words[1] = header.pack();
    }

    /// Bytes of the prefix of a page with the paths at `places`, the first of which is `first`.
    fn prefix_of(&self, places: &[u8], room: LeafRoom<'_>, first: &[u8]) -> usize {
        let shared = match places {
            [left, .., right] => {
                let (left, right) = (usize::from(*left), usize::from(*right));
                self.header.prefix_bytes
                    + common_bytes_packed(self.suffix(left), self.suffix(right))
            }
            _ => first.len(),
        };
        let shared = match room {
            LeafRoom::Some => shared,
            LeafRoom::For(path) => shared.min(common_bytes(first, path)),
        };
        let segments = first[..shared].iter().rposition(|&byte| byte == b'/');
        let segments = segments.map_or(0, |slash| slash + 1);
        let is_cheap = places.len() < 2
            || (places.len() < PATHS_OF_CLOSE_PREFIX && shared - segments <= CLOSE_BYTES_MAX);
        if is_cheap { segments } else { shared }
    }

    /// Appends what the path at `place` has after `prefix` bytes.
    fn push_suffix(&self, place: usize, prefix: usize, words: &mut Vec<u64>) {
        match prefix.checked_sub(self.header.prefix_bytes) {
            Some(dropped) => push_shifted(words, self.suffix(place), dropped),
            None => {
                let mut path = Vec::new();
                self.path_into(place, &mut path);
                push_packed(words, &path[prefix..]);
            }
        }
    }

    /// Where to cut the paths at `places`: see [`crate::paths::OrderedPaths::cut`].
    pub(crate) fn cut(&self, places: &[u8]) -> usize {
        let count = places.len();
        let (lowest, highest) = ((count * 3 / 8).max(1), (count * 5 / 8).max(1));
        (lowest..=highest)
            .min_by_key(|&at| (self.shared_at(places, at), at.abs_diff(count / 2)))
            .unwrap_or(count / 2)
    }

    /// Bytes of suffix that the paths on either side of a cut share.
    fn shared_at(&self, places: &[u8], at: usize) -> usize {
        let (left, right) = (usize::from(places[at - 1]), usize::from(places[at]));
        common_bytes_packed(self.suffix(left), self.suffix(right))
    }

    /// The shortest string above the path before the cut and not above the one behind it.
    pub(crate) fn separator(&self, places: &[u8], at: usize) -> Vec<u8> {
        let mut separator = Vec::new();
        self.path_into(usize::from(places[at]), &mut separator);
        separator.truncate(self.header.prefix_bytes + self.shared_at(places, at) + 1);
        separator
    }
}

impl Leaf<'_, AtomicU64> {
    /// Takes in a path that is not there and [fits in place](Self::takes_in_place). `words` are
    /// the page's, and only the writer calls this.
    pub(crate) fn take_in(&self, key: HashedPath<'_>, words: &[AtomicU64]) {
        let (place, prefix) = (self.count(), self.header.prefix_bytes);
        let (Ok(rank) | Err(rank)) = self.rank_in_tail(key.bytes);
        let start = usize::from(lane(self.offsets, place));
        let len = (key.bytes.len() - prefix).div_ceil(8);
        for (i, cell) in self.suffixes[start..start + len].iter().enumerate() {
            // Relaxed, here and in `set_lane`: the release below orders them.
            cell.store(be_word(key.bytes, prefix + 8 * i), Relaxed);
        }
        set_lane(self.offsets, place + 1, (start + len) as u16);
        set_lane(self.fingerprints, place, key.fingerprint);
        words[TAIL_AT].store(self.tail.with(rank).0, Release);
    }
}

/// Sets a lane that is zero.
fn set_lane(words: &[AtomicU64], at: usize, value: u16) {
    let word = &words[at / LANES];
    word.store(word.load(Relaxed) | u64::from(value) << (16 * (at % LANES)), Relaxed);
}

/// Lanes of the offsets of a page, at most.
const LANES_MAX: usize = LEAF_PATHS_MAX + 1;

/// Puts `lanes` in the first words.
fn fill_lanes(words: &mut [u64], lanes: &[u16]) {
    for (word, four) in words.iter_mut().zip(lanes.chunks(LANES)) {
        *word = four.iter().rev().fold(0, |word, &lane| word << 16 | u64::from(lane));
    }
}

/// Where among `count` in order the wanted one is (`Ok`), or would be (`Err`).
fn search(count: usize, compare: impl Fn(usize) -> Ordering) -> Result<usize, usize> {
    let (mut low, mut high) = (0, count);
    while low < high {
        let middle = low.midpoint(high);
        match compare(middle) {
            Ordering::Less => low = middle + 1,
            Ordering::Greater => high = middle,
            Ordering::Equal => return Ok(middle),
        }
    }
    Err(low)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::SplitMix;

    #[test]
    fn a_tail_sorts_whatever_comes() {
        let mut dice = SplitMix::new(11);
        for _ in 0..500 {
            let (mut tail, mut sorted) = (LeafTail(0), Vec::new());
            for place in 0..ROOM_MAX {
                let rank = dice.below(place as u64 + 1) as usize;
                tail = tail.with(rank);
                sorted.insert(rank, place);
                assert_eq!(tail.len(), place + 1);
                assert!((0..=place).all(|rank| tail.place(rank) == sorted[rank]), "{sorted:?}");
            }
        }
    }
}
