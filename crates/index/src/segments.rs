//! A growing array of atomic words that never moves, so that readers need no lock to walk it.
//!
//! Segments are added at the end, each about a quarter of what is there, so at most that much
//! is unused. Words start as zero.

use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;

/// Words of the first four segments; every four segments the size doubles.
const FIRST_WORDS: usize = 64;
const FIRST_BITS: u32 = FIRST_WORDS.ilog2();

/// At most `N` segments.
pub(crate) struct Segments<const N: usize> {
    segments: [OnceLock<Box<[AtomicU64]>>; N],
}

/// Where a word is: which segment, and how far into it.
#[inline(always)]
fn locate(word: usize) -> (usize, usize) {
    let place = word + 4 * FIRST_WORDS;
    let shift = place.ilog2() - 2;
    let segment = ((shift - FIRST_BITS) as usize) * 4 + ((place >> shift) & 3);
    (segment, place & ((1 << shift) - 1))
}

impl<const N: usize> Segments<N> {
    pub(crate) fn new() -> Self {
        Self { segments: [const { OnceLock::new() }; N] }
    }

    /// Words from `word` to the end of its segment; empty where nothing was ever allocated.
    #[inline(always)]
    pub(crate) fn from(&self, word: usize) -> &[AtomicU64] {
        let (segment, offset) = locate(word);
        let Some(words) = self.segments.get(segment).and_then(OnceLock::get) else { return &[] };
        words.get(offset..).unwrap_or(&[])
    }

    /// Makes sure `word` is there, and tells how many words lie from it to its segment's end.
    pub(crate) fn reserve(&self, word: usize) -> usize {
        let (segment, offset) = locate(word);
        assert!(segment < N, "the index has outgrown its address space");
        let size = FIRST_WORDS << (segment / 4);
        self.segments[segment].get_or_init(|| (0..size).map(|_| AtomicU64::new(0)).collect()).len()
            - offset
    }

    /// Bytes allocated for words.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.segments.iter().filter_map(OnceLock::get).map(|words| size_of_val(&**words)).sum()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;

    #[test]
    fn every_word_has_its_own_place() {
        let segments = Segments::<24>::new();
        assert!(segments.from(0).is_empty());
        let words = 5000;
        for word in 0..words {
            assert!(segments.reserve(word) > 0);
            segments.from(word)[0].store(word as u64, Relaxed);
        }
        for word in 0..words {
            let rest = segments.from(word);
            assert_eq!(rest[0].load(Relaxed), word as u64);
            assert_eq!(rest.len(), segments.reserve(word));
        }
        assert!(segments.memory_bytes() <= words * 8 * 13 / 10);
        assert!(segments.from(usize::MAX >> 8).is_empty());
    }
}
