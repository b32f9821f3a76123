//! Whole paths on their way into leaf pages.
//!
//! A split, a merge and a bulk load unpack what they move, decide where to cut, and write pages of
//! the parts ([`OrderedPaths::write`]). The layout of a page is told in `leaf`; this is its one writer,
//! `leaf` its reader and the one that inserts in place.
//!
//! Invariant: paths ascend strictly, and fingerprint `i` is that of path `i`.

use crate::fingerprint::HashedPath;
use crate::header::PageHeader;
use crate::leaf::{LEAF_HEADER_WORDS, Leaf};
use crate::packed::{LANES, PageWord, common_bytes, push_lanes, push_packed};

/// Whole paths in order with their fingerprints, on their way into leaf pages.
#[derive(Default)]
pub(crate) struct OrderedPaths {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    fingerprints: Vec<u16>,
}

impl OrderedPaths {
    pub(crate) fn count(&self) -> usize {
        self.ends.len()
    }

    pub(crate) fn path(&self, at: usize) -> &[u8] {
        let start = if at == 0 { 0 } else { self.ends[at - 1] };
        &self.bytes[start..self.ends[at]]
    }

    pub(crate) fn push(&mut self, key: HashedPath<'_>) {
        self.bytes.extend_from_slice(key.bytes);
        self.ends.push(self.bytes.len());
        self.fingerprints.push(key.fingerprint);
    }

    pub(crate) fn push_all<C: PageWord>(&mut self, leaf: &Leaf<'_, C>) {
        let mut path = Vec::new();
        for &place in leaf.places().all() {
            leaf.path_into(usize::from(place), &mut path);
            self.bytes.extend_from_slice(&path);
            self.ends.push(self.bytes.len());
            self.fingerprints.push(leaf.fingerprint(usize::from(place)));
        }
    }

    /// Drops the first `count` paths.
    pub(crate) fn drop_first(&mut self, count: usize) {
        let cut = if count == 0 { 0 } else { self.ends[count - 1] };
        self.bytes.drain(..cut);
        self.ends.drain(..count);
        self.ends.iter_mut().for_each(|end| *end -= cut);
        self.fingerprints.drain(..count);
    }

    /// Words of a page holding the paths `from..to`.
    pub(crate) fn page_words(&self, from: usize, to: usize) -> usize {
        let prefix = self.prefix_bytes(from, to);
        let suffixes: usize = (from..to).map(|at| (self.path(at).len() - prefix).div_ceil(8)).sum();
        let count = to - from;
        LEAF_HEADER_WORDS
            + count.div_ceil(LANES)
            + (count + 1).div_ceil(LANES)
            + prefix.div_ceil(8)
            + suffixes
    }

    /// Words of a page holding all of them, no prefix counted on.
    pub(crate) fn words_at_most(&self) -> usize {
        LEAF_HEADER_WORDS + 2 + self.bytes.len() / 8 + 2 * self.count()
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
        words.extend([0; LEAF_HEADER_WORDS]);
        push_lanes(words, &self.fingerprints[from..to]);
        push_lanes(words, &offsets);
        if from < to {
            push_packed(words, &self.path(from)[..prefix]);
        }
        words.append(&mut suffixes);
        let (entries, words_used) = (to - from, words.len());
        let header =
            PageHeader { is_leaf: true, entries, room: 0, prefix_bytes: prefix, words: words_used };
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
