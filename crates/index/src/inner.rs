//! An inner page: the ids of its children and the separators between them.
//!
//! ```text
//! generation | header | heads | ids, 2 a word | offsets, 4 a word | prefix | rest 0 | rest 1 ...
//! ```
//!
//! A separator is the prefix, then its head (the next eight bytes, as a big-endian word), then
//! its rest. The heads lie side by side and a search is a binary search over them; only where
//! several separators share the wanted head are rests compared.
//!
//! Invariants:
//! - separators ascend strictly and start with the prefix;
//! - child `i` holds the paths not below separator `i - 1` and below separator `i`;
//! - there is one child more than separators, and at least one.

use std::cmp::Ordering;

use crate::header::{HEADER_WORDS, PageHeader};
use crate::packed::{
    LANES, PageWord, add_to_lanes, be_word, common_bytes, compare, compare_prefix, lane, part,
    push_lanes, push_lanes_with, push_packed, push_unpacked, word_at,
};
use crate::pages::LivePageId;

/// Ids in a word.
const IDS: usize = 2;

/// An inner page as read from shared words.
pub(crate) struct InnerPage<'a, C> {
    header: PageHeader,
    heads: &'a [C],
    ids: &'a [C],
    offsets: &'a [C],
    prefix: &'a [C],
    rests: &'a [C],
}

impl<'a, C: PageWord> InnerPage<'a, C> {
    #[inline(always)]
    pub(crate) fn new(header: PageHeader, words: &'a [C]) -> Self {
        let count = header.entries;
        let ids = HEADER_WORDS + count.saturating_sub(1);
        let offsets = ids + count.div_ceil(IDS);
        let prefix = offsets + count.div_ceil(LANES);
        let rests = prefix + header.prefix_bytes.div_ceil(8);
        Self {
            header,
            heads: part(words, HEADER_WORDS, ids - HEADER_WORDS),
            ids: part(words, ids, offsets - ids),
            offsets: part(words, offsets, prefix - offsets),
            prefix: part(words, prefix, rests - prefix),
            rests: part(words, rests, header.words.saturating_sub(rests)),
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.header.entries
    }

    /// Words the page would have if its prefix had to be given up.
    pub(crate) fn words_unprefixed(&self) -> usize {
        self.header.words + self.heads.len() * (self.prefix.len() + 1)
    }

    #[inline(always)]
    pub(crate) fn id(&self, at: usize) -> LivePageId {
        (word_at(self.ids, at / IDS) >> (32 * (at % IDS))) as LivePageId
    }

    fn rest(&self, at: usize) -> &'a [C] {
        let start = usize::from(lane(self.offsets, at));
        let end = usize::from(lane(self.offsets, at + 1));
        part(self.rests, start, end.saturating_sub(start))
    }

    /// Which child holds `path`: how many separators are not above it.
    #[inline(always)]
    pub(crate) fn child_at(&self, path: &[u8]) -> usize {
        let start = self.header.prefix_bytes;
        match compare_prefix(path, self.prefix, start) {
            Ordering::Less => return 0,
            Ordering::Greater => return self.heads.len(),
            Ordering::Equal => {}
        }
        let head = be_word(path, start);
        let below = count_sorted(self.heads, |other| other < head);
        if word_at(self.heads, below) != head || below == self.heads.len() {
            return below;
        }
        let same = count_sorted(&self.heads[below..], |other| other <= head);
        let (mut low, mut high) = (below, below + same);
        while low < high {
            let middle = low.midpoint(high);
            match compare(self.rest(middle), path, start + 8) {
                Ordering::Greater => high = middle,
                Ordering::Less | Ordering::Equal => low = middle + 1,
            }
        }
        low
    }

    /// Separator `at`, between the children `at` and `at + 1`.
    pub(crate) fn separator(&self, at: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        push_unpacked(&mut bytes, self.prefix);
        bytes.truncate(self.header.prefix_bytes);
        let head = word_at(self.heads, at);
        if head != 0 {
            push_unpacked(&mut bytes, &[head]);
        }
        push_unpacked(&mut bytes, self.rest(at));
        bytes
    }

    /// The page with child `at` replaced by two that `separator` divides. All else is copied as
    /// it lies. `false`, and nothing written: the separator does not start with the prefix.
    #[must_use]
    pub(crate) fn with_cut_kid(
        &self,
        at: usize,
        halves: [LivePageId; 2],
        separator: &[u8],
        words: &mut Vec<u64>,
    ) -> bool {
        let start = self.header.prefix_bytes;
        if compare_prefix(separator, self.prefix, start).is_ne() {
            return false;
        }
        words.clear();
        words.extend([0; HEADER_WORDS]);
        words.extend(self.heads[..at].iter().map(PageWord::load));
        words.push(be_word(separator, start));
        words.extend(self.heads[at..].iter().map(PageWord::load));
        let id = |place: usize| match place.checked_sub(at) {
            None => self.id(place),
            Some(half @ (0 | 1)) => halves[half],
            Some(_) => self.id(place - 1),
        };
        let count = self.count() + 1;
        words.extend((0..count).step_by(IDS).map(|place| {
            let second = if place + 1 < count { id(place + 1) } else { 0 };
            u64::from(id(place)) | u64::from(second) << 32
        }));
        let offsets = words.len();
        push_lanes_with(words, self.offsets, self.count(), at, lane(self.offsets, at));
        let prefix = words.len();
        words.extend(self.prefix.iter().map(PageWord::load));
        let rest = usize::from(lane(self.offsets, at));
        words.extend(self.rests[..rest].iter().map(PageWord::load));
        let before = words.len();
        push_packed(words, separator.get(start + 8..).unwrap_or(&[]));
        let grown = (words.len() - before) as u16;
        words.extend(self.rests[rest..].iter().map(PageWord::load));
        // Lanes past the last offset are spare: what they say means nothing.
        add_to_lanes(&mut words[offsets..prefix], at + 1, grown);
        words[1] = PageHeader { entries: count, words: words.len(), ..self.header }.pack();
        true
    }
}

/// How many of the sorted `words` satisfy `below`, which none does after one that does not.
/// The steps are the same for every answer, so that no branch depends on what is read.
#[inline(always)]
fn count_sorted<C: PageWord>(words: &[C], below: impl Fn(u64) -> bool) -> usize {
    let (mut first, mut len) = (0, words.len());
    while len > 1 {
        let half = len / 2;
        first += if below(word_at(words, first + half - 1)) { half } else { 0 };
        len -= half;
    }
    first + usize::from(len == 1 && below(word_at(words, first)))
}

/// The children of an inner page, on their way into one.
#[derive(Default)]
pub(crate) struct Kids {
    pub(crate) ids: Vec<LivePageId>,
    /// Separator `i` is between the ids `i` and `i + 1`.
    pub(crate) separators: Vec<Box<[u8]>>,
}

impl Kids {
    pub(crate) fn of<C: PageWord>(inner: &InnerPage<'_, C>) -> Self {
        Self {
            ids: (0..inner.count()).map(|at| inner.id(at)).collect(),
            separators: (0..inner.count().saturating_sub(1))
                .map(|at| inner.separator(at).into())
                .collect(),
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.ids.len()
    }

    /// Adds the children of the page to the right, `separator` between the two.
    pub(crate) fn append(&mut self, separator: Box<[u8]>, mut right: Self) {
        self.separators.push(separator);
        self.ids.append(&mut right.ids);
        self.separators.append(&mut right.separators);
    }

    /// Takes the children from `at` on, and the separator in front of them.
    pub(crate) fn split_off(&mut self, at: usize) -> (Box<[u8]>, Self) {
        let ids = self.ids.split_off(at);
        let separators = self.separators.split_off(at);
        let separator = self.separators.pop().expect("a cut lies between two children");
        (separator, Self { ids, separators })
    }

    /// Puts `new` in place of the `old` children from `at` on.
    pub(crate) fn replace(&mut self, at: usize, old: usize, new: Self) {
        self.ids.splice(at..at + old, new.ids);
        self.separators.splice(at..at + old - 1, new.separators);
    }

    /// Words of the page, its prefix not counted on.
    pub(crate) fn words_at_most(&self) -> usize {
        self.words_of_last(self.count())
    }

    /// Words of a page holding the last `count` children.
    pub(crate) fn words_of_last(&self, count: usize) -> usize {
        let separators = self.separators.iter().rev().take(count - 1);
        let separators: usize = separators.map(|bytes| bytes.len().div_ceil(8)).sum();
        HEADER_WORDS + 2 * count + separators
    }

    /// Where to cut: around the middle, the place with the shortest separator. At least two
    /// children go to either side.
    pub(crate) fn cut(&self) -> usize {
        let count = self.count();
        let (lowest, highest) = ((count * 3 / 8).max(2), (count * 5 / 8).max(2));
        (lowest..=highest)
            .min_by_key(|&at| (self.separators[at - 1].len(), at.abs_diff(count / 2)))
            .unwrap_or(count / 2)
    }

    fn prefix_bytes(&self) -> usize {
        match (self.separators.first(), self.separators.last()) {
            (Some(first), Some(last)) => common_bytes(first, last),
            _ => 0,
        }
    }

    /// Writes the page.
    pub(crate) fn write(&self, words: &mut Vec<u64>) {
        let prefix = self.prefix_bytes();
        let (mut offsets, mut rests) = (Vec::with_capacity(self.count()), Vec::new());
        words.clear();
        words.extend([0; HEADER_WORDS]);
        for separator in &self.separators {
            words.push(be_word(separator, prefix));
            offsets.push(rests.len() as u16);
            push_packed(&mut rests, separator.get(prefix + 8..).unwrap_or(&[]));
        }
        offsets.push(rests.len() as u16);
        words.extend(
            self.ids
                .chunks(IDS)
                .map(|two| two.iter().rev().fold(0, |word, &id| word << 32 | u64::from(id))),
        );
        push_lanes(words, &offsets);
        if let Some(first) = self.separators.first() {
            push_packed(words, &first[..prefix]);
        }
        words.append(&mut rests);
        let entries = self.count();
        words[1] = PageHeader {
            is_leaf: false,
            entries,
            room: 0,
            prefix_bytes: prefix,
            words: words.len(),
        }
        .pack();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::SplitMix;

    #[test]
    fn the_child_is_the_one_a_plain_search_finds() {
        let mut dice = SplitMix::new(3);
        for _ in 0..300 {
            let stem = "s".repeat(dice.below(20) as usize);
            let mut draw = || -> Box<[u8]> {
                let tail: String =
                    (0..=dice.below(12)).map(|_| char::from(b'a' + dice.byte_below(2))).collect();
                format!("{stem}{tail}").into_bytes().into()
            };
            let mut separators: Vec<_> = (0..40).map(|_| draw()).collect();
            separators.sort();
            separators.dedup();
            let ids = (0..=separators.len() as LivePageId).map(|id| id * 7).collect();
            let kids = Kids { ids, separators };
            let mut words = Vec::new();
            kids.write(&mut words);
            let inner = InnerPage::new(PageHeader::unpack(words[1]), &words);
            for _ in 0..200 {
                let path = draw();
                let want = kids.separators.iter().filter(|separator| **separator <= path).count();
                assert_eq!(inner.child_at(&path), want, "{path:?}");
                assert_eq!(inner.id(want), want as LivePageId * 7);
            }
            assert_eq!(inner.child_at(b""), 0);
            assert_eq!(inner.child_at(b"zz"), kids.separators.len());
            let back = Kids::of(&inner);
            assert_eq!((&back.ids, &back.separators), (&kids.ids, &kids.separators));
            assert_cuts_as_kids_do(&inner, kids, &draw());
        }
    }

    /// A child cut by copying is the child cut by taking the page apart.
    fn assert_cuts_as_kids_do(inner: &InnerPage<'_, u64>, mut kids: Kids, separator: &[u8]) {
        if kids.separators.iter().any(|known| **known == *separator) {
            return;
        }
        let (at, mut words) = (inner.child_at(separator), Vec::new());
        let could = inner.with_cut_kid(at, [1000, 1001], separator, &mut words);
        let stem = &kids.separators[0][..inner.header.prefix_bytes];
        assert_eq!(could, separator.starts_with(stem));
        if could {
            let cut = InnerPage::new(PageHeader::unpack(words[1]), &words);
            let new = Kids { ids: vec![1000, 1001], separators: vec![separator.into()] };
            kids.replace(at, 1, new);
            let back = Kids::of(&cut);
            assert_eq!((back.ids, back.separators), (kids.ids, kids.separators));
        }
    }
}
