//! Growing arrays of atomic words that never move, so that readers need no lock to walk them.
//!
//! [`LazyArrays`] is a row of such arrays of which only the first is at hand: the table of all others
//! is made with the first of them, so that an index of a few paths does without. [`Segments`]
//! lays one long array out over them: a first segment, then segments of about a quarter of what
//! is there, so at most that much is unused. Words start as zero.

use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;

type AtomicWords = OnceLock<Box<[AtomicU64]>>;

/// A first array and up to `N` others, each made when it is first needed.
pub(crate) struct LazyArrays<const N: usize> {
    first: AtomicWords,
    others: OnceLock<Box<[AtomicWords; N]>>,
}

impl<const N: usize> LazyArrays<N> {
    pub(crate) fn new() -> Self {
        Self { first: OnceLock::new(), others: OnceLock::new() }
    }

    /// Array `at`, if it has been made.
    #[inline(always)]
    pub(crate) fn get(&self, at: usize) -> Option<&[AtomicU64]> {
        let words = match at.checked_sub(1) {
            None => &self.first,
            Some(other) => self.others.get()?.get(other)?,
        };
        words.get().map(|words| &**words)
    }

    /// Array `at`, made of `len` words if it was not there.
    pub(crate) fn get_or_make(&self, at: usize, len: usize) -> &[AtomicU64] {
        let words = match at.checked_sub(1) {
            None => &self.first,
            Some(other) => {
                &self.others.get_or_init(|| Box::new([const { OnceLock::new() }; N]))[other]
            }
        };
        words.get_or_init(|| (0..len).map(|_| AtomicU64::new(0)).collect())
    }

    /// Bytes allocated.
    pub(crate) fn memory_bytes(&self) -> usize {
        let words: usize = (0..=N).filter_map(|at| self.get(at)).map(size_of_val).sum();
        words + self.others.get().map_or(0, |others| size_of_val(&**others))
    }
}

/// An array of words: `FIRST` at first, `FIRST` in each of the next four segments; every four
/// segments the size doubles.
pub(crate) struct Segments<const N: usize, const FIRST: usize> {
    segments: LazyArrays<N>,
}

impl<const N: usize, const FIRST: usize> Segments<N, FIRST> {
    /// Words of all segments.
    pub(crate) const WORDS: usize = FIRST + 4 * FIRST * ((1 << (N / 4)) - 1);

    pub(crate) fn new() -> Self {
        const { assert!(FIRST.is_power_of_two() && N.is_multiple_of(4)) };
        Self { segments: LazyArrays::new() }
    }

    /// Where a word is: which segment, how far into it, and how long the segment is.
    #[inline(always)]
    fn locate(word: usize) -> (usize, usize, usize) {
        if word < FIRST {
            return (0, word, FIRST);
        }
        let place = word + 3 * FIRST;
        let shift = place.ilog2() - 2;
        let segment = 1 + ((shift - FIRST.ilog2()) as usize) * 4 + ((place >> shift) & 3);
        (segment, place & ((1 << shift) - 1), 1 << shift)
    }

    /// Words from `word` to the end of its segment; empty where nothing was ever allocated.
    #[inline(always)]
    pub(crate) fn from(&self, word: usize) -> &[AtomicU64] {
        let (segment, offset, _) = Self::locate(word);
        self.segments.get(segment).and_then(|words| words.get(offset..)).unwrap_or(&[])
    }

    /// How many words lie from `word` to its segment's end, allocated or not.
    pub(crate) fn left_from(word: usize) -> usize {
        let (_, offset, len) = Self::locate(word);
        len - offset
    }

    /// Makes sure `word`, below [`WORDS`](Self::WORDS), is there.
    pub(crate) fn reserve(&self, word: usize) {
        let (segment, _, len) = Self::locate(word);
        self.segments.get_or_make(segment, len);
    }

    /// Bytes allocated.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.segments.memory_bytes()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;

    type Small = Segments<24, 64>;

    #[test]
    fn every_word_has_its_own_place() {
        let segments = Small::new();
        assert!(segments.from(0).is_empty());
        let words = 5000;
        for word in 0..words {
            segments.reserve(word);
            segments.from(word)[0].store(word as u64, Relaxed);
        }
        for word in 0..words {
            let rest = segments.from(word);
            assert_eq!(rest[0].load(Relaxed), word as u64);
            assert_eq!(rest.len(), Small::left_from(word));
        }
        assert!(segments.memory_bytes() <= words * 8 * 13 / 10 + 24 * size_of::<AtomicWords>());
        assert!(segments.from(usize::MAX >> 8).is_empty());
    }

    #[test]
    fn the_last_word_has_a_place_and_the_next_has_none() {
        let locate = |word| Small::locate(word).0;
        assert_eq!((locate(Small::WORDS - 1), locate(Small::WORDS)), (24, 25));
        assert_eq!(Small::left_from(Small::WORDS - 1), 1);
    }
}
