//! A small Bloom filter beside the skip list, so that a key the memtable does not hold costs one memory access and not
//! a walk of twenty.
//!
//! Register-blocked: a key sets four bits of one 64-bit word. It is sized to one bit per 4 bytes of memtable, about 40
//! bits for an entry of 160 bytes; when entries are tiny it answers "maybe" more often and only speed suffers. All of it
//! is touched as soon as keys come, so it is memory that an engine has whatever it holds.

use crate::sync::{AtomicU64, Ordering};

/// Bytes of memtable for each word.
const BYTES_PER_WORD: usize = 4 * 64;
/// Bits of one word and where they come from in the hash.
const BITS_SHIFTS: [u32; 4] = [0, 6, 12, 18];

/// A filter that one writer sets and many readers ask.
#[derive(Debug)]
pub(crate) struct MemtableFilter {
    words: Box<[AtomicU64]>,
}

impl MemtableFilter {
    /// A filter for a memtable of `bytes_max` bytes.
    pub(crate) fn new(bytes_max: usize) -> Self {
        let words = (bytes_max / BYTES_PER_WORD).next_power_of_two().clamp(1, 1 << 24);
        Self { words: (0..words).map(|_| AtomicU64::new(0)).collect() }
    }

    /// Adds a key's hash; only the one writer calls this.
    #[inline]
    pub(crate) fn insert(&self, hash: u64) {
        let word = &self.words[self.place(hash)];
        // Relaxed: a reader asks for an entry only after it acquired the visible sequence number that covers it, and
        // that is released after this store.
        let old = word.load(Ordering::Relaxed);
        let new = old | pattern(hash);
        if new != old {
            word.store(new, Ordering::Relaxed);
        }
    }

    /// Whether a key with this hash may be in the memtable.
    #[inline]
    pub(crate) fn may_contain(&self, hash: u64) -> bool {
        let pattern = pattern(hash);
        self.words[self.place(hash)].load(Ordering::Relaxed) & pattern == pattern
    }

    #[inline]
    fn place(&self, hash: u64) -> usize {
        (hash >> 32) as usize & (self.words.len() - 1)
    }
}

#[inline]
fn pattern(hash: u64) -> u64 {
    BITS_SHIFTS.iter().fold(0, |bits, shift| bits | 1 << (hash >> shift & 63))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::hash::key_hash;

    #[test]
    fn it_never_forgets_and_seldom_lies() {
        let filter = MemtableFilter::new(64 << 20);
        let hash = |n: u64| key_hash(&n.to_be_bytes());
        (0..400_000).for_each(|n| filter.insert(hash(n)));
        assert!((0..400_000).all(|n| filter.may_contain(hash(n))));
        let lies = (400_000..500_000).filter(|&n| filter.may_contain(hash(n))).count();
        assert!(lies < 1_000, "{lies} of 100,000");
    }
}
