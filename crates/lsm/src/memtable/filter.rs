//! A small Bloom filter beside the skip list, so that a key the memtable does not hold costs one memory access and not
//! a walk of twenty; and so, mostly, does the newest entry of one that it holds.
//!
//! A key belongs to one 64-bit word, and sets four bits of its lower half. The upper half is the address of the entry that
//! was written last to any key of the word. The filter is sized to one word per 256 bytes of memtable, or two thirds of a
//! word for an entry of 160 bytes; when entries are tiny it answers "maybe" more often and only speed suffers. All of it
//! is touched as soon as keys come, so it is memory that an engine has whatever it holds.
//!
//! Invariants:
//! - an entry is linked before its address is here;
//! - an address that is of a key's entry is of the newest one that was written when the word was read.

use super::arena::ArenaOffset;
use crate::sync::{AtomicU64, Ordering};

/// Bytes of memtable for each word.
const BYTES_PER_WORD: usize = 4 * 64;
/// Bits of one word and where they come from in the hash.
const BITS_SHIFTS: [u32; 4] = [0, 5, 10, 15];

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

    /// Adds a key's hash, with its entry; only the one writer calls this.
    #[inline]
    pub(crate) fn insert(&self, hash: u64, entry: ArenaOffset) {
        let word = &self.words[self.place(hash)];
        // Relaxed: the writer reads what it stored itself.
        let bits = word.load(Ordering::Relaxed) & u64::from(u32::MAX) | pattern(hash);
        // Release: who sees the address finds the entry whole. A reader asks for an entry only after it acquired the
        // visible sequence number that covers it, and that is released after this store, so it sees the bits as well.
        word.store(u64::from(entry) << ArenaOffset::BITS | bits, Ordering::Release);
    }

    /// Where the newest entry of a key with this hash may be, if the memtable may hold one.
    #[inline]
    pub(crate) fn find(&self, hash: u64) -> Option<ArenaOffset> {
        let pattern = pattern(hash);
        // Acquire: pairs with the release store in `insert`.
        let word = self.words[self.place(hash)].load(Ordering::Acquire);
        (word & pattern == pattern).then_some((word >> ArenaOffset::BITS) as ArenaOffset)
    }

    #[inline]
    fn place(&self, hash: u64) -> usize {
        (hash >> 32) as usize & (self.words.len() - 1)
    }
}

#[inline]
fn pattern(hash: u64) -> u64 {
    BITS_SHIFTS.iter().fold(0, |bits, shift| bits | 1 << (hash >> shift & 31))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::hash::key_hash;

    #[test]
    fn it_never_forgets_and_seldom_lies() {
        let filter = MemtableFilter::new(64 << 20);
        let hash = |n: u64| key_hash(&n.to_be_bytes());
        (0..400_000).for_each(|n| filter.insert(hash(n), n as ArenaOffset));
        assert!((0..400_000).all(|n| filter.find(hash(n)).is_some()));
        let known =
            (0..400_000).filter(|&n| filter.find(hash(n)) == Some(n as ArenaOffset)).count();
        assert!(known > 150_000, "{known} of 400,000");
        let lies = (400_000..500_000).filter(|&n| filter.find(hash(n)).is_some()).count();
        assert!(lies < 1_000, "{lies} of 100,000");
    }
}
