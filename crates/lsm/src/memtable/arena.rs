//! The arena of the memtable: words that are written once and read by everyone.
//!
//! Memory is a list of chunks of atomic 64-bit words. A chunk, once there, stays until the arena is dropped, so an
//! address (chunk number and word) is valid for the arena's life and readers need no lock. Using atomic words instead
//! of raw bytes keeps the whole memtable in safe Rust: a relaxed load of a word compiles to a plain load.
//!
//! Invariants:
//! - one writer allocates; it is the only one that may store to words it has not published yet;
//! - objects of one [`ArenaRegion`] share chunks with their like only, so that what a search walks over lies close together;
//! - an object never crosses a chunk; one that would waste more than a quarter of a chunk gets its own;
//! - address 0 is the first object ever allocated, so it can serve as "none" for links.

use std::sync::OnceLock;

use crate::sync::AtomicU64;

/// Bits of an address that say the word inside its chunk.
const WORD_BITS: u32 = 17;
/// Words in a full-size chunk: 1 MiB.
const CHUNK_WORDS_MAX: usize = 1 << WORD_BITS;
/// Words in the smallest chunk.
const CHUNK_WORDS_MIN: usize = if cfg!(loom) { 16 } else { 512 };

/// Where an object lies.
pub(crate) type ArenaOffset = u32;

/// Chunks of atomic words.
#[derive(Debug)]
pub(crate) struct WordArena {
    chunks: Box<[OnceLock<Box<[AtomicU64]>>]>,
}

/// What an object is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ArenaRegion {
    /// Searches walk over it.
    Index,
    /// It is looked at when a search has ended.
    Values,
}

/// The writer's end of an arena.
#[derive(Debug)]
pub(crate) struct Allocator {
    chunk_words: usize,
    chunks_used: usize,
    /// The chunk that small objects of each region go to.
    open: [Option<OpenChunk>; 2],
    words_reserved: usize,
}

/// A chunk with room, and its first free word.
#[derive(Debug)]
struct OpenChunk {
    chunk: usize,
    word: usize,
}

impl WordArena {
    /// An arena that can hold `bytes_max` bytes in objects of any size.
    pub(crate) fn new(bytes_max: usize, chunk_bytes: usize) -> (Self, Allocator) {
        let chunk_words = (chunk_bytes / 8).clamp(CHUNK_WORDS_MIN, CHUNK_WORDS_MAX);
        // A chunk closes at least three quarters full, or holds one object of at least a quarter of a chunk.
        let slots = (bytes_max / 8 / (chunk_words / 4) + 3).min(1 << (u32::BITS - WORD_BITS));
        let arena = Self { chunks: (0..slots).map(|_| OnceLock::new()).collect() };
        let allocator =
            Allocator { chunk_words, chunks_used: 0, open: [None, None], words_reserved: 0 };
        (arena, allocator)
    }

    /// The words from `address` to the end of its chunk.
    #[inline]
    pub(crate) fn at(&self, address: ArenaOffset) -> &[AtomicU64] {
        let chunk = self.chunks[(address >> WORD_BITS) as usize].get();
        let chunk = chunk.expect("an address names an allocated chunk");
        &chunk[address as usize & (CHUNK_WORDS_MAX - 1)..]
    }
}

impl Allocator {
    /// Room for `words` words, zeroed or holding what an abandoned allocation left; `None` if the arena has no chunk left.
    pub(crate) fn allocate(
        &mut self,
        arena: &WordArena,
        region: ArenaRegion,
        words: usize,
    ) -> Option<ArenaOffset> {
        if let Some(open) = &mut self.open[region as usize]
            && open.word + words <= self.chunk_words
        {
            let address = address_of(open.chunk, open.word);
            open.word += words;
            return Some(address);
        }
        if words > self.chunk_words / 4 {
            return Some(address_of(self.add_chunk(arena, words)?, 0));
        }
        let chunk = self.add_chunk(arena, self.chunk_words)?;
        self.open[region as usize] = Some(OpenChunk { chunk, word: words });
        Some(address_of(chunk, 0))
    }

    /// The memory taken so far, in bytes.
    pub(crate) fn reserved_bytes(&self) -> usize {
        self.words_reserved * 8
    }

    fn add_chunk(&mut self, arena: &WordArena, words: usize) -> Option<usize> {
        let slot = arena.chunks.get(self.chunks_used)?;
        let fresh = (0..words).map(|_| AtomicU64::new(0)).collect();
        slot.set(fresh).expect("the one writer fills each slot once");
        self.chunks_used += 1;
        self.words_reserved += words;
        Some(self.chunks_used - 1)
    }
}

fn address_of(chunk: usize, word: usize) -> ArenaOffset {
    let address = chunk << WORD_BITS | word;
    u32::try_from(address).expect("an arena has at most 2^15 chunks")
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::sync::Ordering::Relaxed;

    #[test]
    fn objects_do_not_overlap_and_large_ones_get_their_own_chunk() {
        let (arena, mut allocator) = WordArena::new(1 << 20, 4096);
        let mut taken = Vec::new();
        for n in 0..200usize {
            let region = if n % 3 == 0 { ArenaRegion::Index } else { ArenaRegion::Values };
            let words = if n % 50 == 49 { 3000 } else { n % 60 + 1 };
            let address = allocator.allocate(&arena, region, words).unwrap();
            for word in &arena.at(address)[..words] {
                assert_eq!(word.load(Relaxed), 0, "fresh words are zero");
                word.store(n as u64 + 1, Relaxed);
            }
            taken.push((address, words, n as u64 + 1));
        }
        for (address, words, mark) in taken {
            assert!(arena.at(address)[..words].iter().all(|word| word.load(Relaxed) == mark));
        }
    }

    #[test]
    fn a_full_arena_says_so() {
        let (arena, mut allocator) = WordArena::new(8192, 4096);
        let mut objects = 0;
        while allocator.allocate(&arena, ArenaRegion::Values, 512).is_some() {
            objects += 1;
        }
        assert!(objects * 4096 >= 8192, "{objects} chunks");
        assert_eq!(allocator.reserved_bytes(), objects * 4096);
    }
}
