//! The membership filter: a table of short fingerprints of all paths, one cache line per question.
//!
//! A path's hash picks a line; the line holds the fingerprints of the paths that picked it. No such fingerprint:
//! no such path. That is all the gate costs for an unknown path, and all [`may_contain`] costs:
//! a single line whose address depends on nothing but the question, so the processor fetches it
//! while it works on something else. The tree never answers that fast: the way down is a chain
//! of lines, each found in the one before.
//!
//! A line that overflows says "maybe" to everything until the next table. When there are too many paths a
//! table of twice the size is filled from the leaves, a few paths per write, and takes over when
//! it is complete. So no write ever pays for all paths.
//!
//! Invariants:
//! - a path's fingerprint is in the table in use from before the tree holds the path until after it
//!   holds it no more;
//! - a fingerprint never moves, so a reader who scans while others come and go cannot miss it;
//! - the table being filled has the paths below `Filling::next`, and no others.
//!
//! [`may_contain`]: crate::PathIndex::may_contain

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64};

use crate::fingerprint::HashedPath;
use crate::packed::{LANES, in_all_lanes, zero_lanes};
use crate::segments::LazyArrays;

/// Words of a line.
const LINE_WORDS: usize = 8;

/// Fingerprints a line has room for.
pub(crate) const LINE_FINGERPRINTS: usize = LINE_WORDS * LANES;

/// Paths per line at which a larger table is begun. By the Poisson
/// distribution one line in two hundred has overflowed by then.
const PATHS_PER_LINE_MAX: u64 = 20;

/// What all words of an overflowed line say. As fingerprints these would be `0xFFFF`, which is none.
const OVERFLOWED: u64 = u64::MAX;

/// Table sizes, each twice the one before: the last is for forty billion paths.
const LEVELS: usize = 32;

/// The tables, the one in use and those outgrown: a reader may still be in one.
pub(crate) struct MembershipFilter {
    tables: LazyArrays<{ LEVELS - 1 }>,
    level: AtomicU32,
}

/// A table being filled.
pub(crate) struct Filling {
    level: usize,
    /// Paths below this are in it.
    pub(crate) next: Vec<u8>,
}

/// The top bit of each lane that holds `fingerprint`.
#[inline(always)]
fn matches(word: u64, fingerprint: u16) -> u64 {
    zero_lanes(word ^ in_all_lanes(fingerprint))
}

fn line_of<'a>(table: &'a [AtomicU64], key: &HashedPath<'_>) -> &'a [AtomicU64] {
    let lines = (table.len() / LINE_WORDS) as u64;
    let line = (((key.hash >> 32) * lines) >> 32) as usize;
    table.get(line * LINE_WORDS..line * LINE_WORDS + LINE_WORDS).unwrap_or(&[])
}

impl MembershipFilter {
    pub(crate) fn new() -> Self {
        Self { tables: LazyArrays::new(), level: AtomicU32::new(0) }
    }

    /// Whether the path may be there. Never `false` for one that is.
    #[inline(always)]
    pub(crate) fn may_contain(&self, key: &HashedPath<'_>) -> bool {
        // Acquire pairs with the release in `use_level`: the table is complete. A reader who
        // still sees an outgrown one misses only paths that came in after it began.
        let level = self.level.load(Acquire) as usize;
        let Some(table) = self.tables.get(level) else { return true };
        let fingerprints = key.fingerprints();
        let found = line_of(table, key).iter().fold(0, |found, word| {
            // Acquire pairs with the release of whoever took the fingerprint out or put it in.
            let word = word.load(Acquire);
            found | zero_lanes(word ^ fingerprints) | zero_lanes(!word)
        });
        found != 0
    }

    fn table(&self, level: usize) -> &[AtomicU64] {
        self.tables.get_or_make(level, LINE_WORDS << level)
    }

    /// Puts a path's fingerprint in the table in use. Writers only, as all below.
    pub(crate) fn add(&self, key: &HashedPath<'_>) {
        self.add_at(self.level.load(Relaxed) as usize, key);
    }

    /// Takes a path's fingerprint out of the table in use.
    pub(crate) fn remove(&self, key: &HashedPath<'_>) {
        self.remove_at(self.level.load(Relaxed) as usize, key);
    }

    pub(crate) fn add_to(&self, filling: &Filling, key: &HashedPath<'_>) {
        self.add_at(filling.level, key);
    }

    pub(crate) fn remove_from(&self, filling: &Filling, key: &HashedPath<'_>) {
        self.remove_at(filling.level, key);
    }

    fn add_at(&self, level: usize, key: &HashedPath<'_>) {
        let line = line_of(self.table(level), key);
        for cell in line {
            let word = cell.load(Relaxed);
            let free = zero_lanes(word);
            if free != 0 {
                let shift = free.trailing_zeros() & !15;
                // Release: see `may_contain`.
                cell.store(word | u64::from(key.fingerprint) << shift, Release);
                return;
            }
        }
        line.iter().for_each(|cell| cell.store(OVERFLOWED, Release));
    }

    fn remove_at(&self, level: usize, key: &HashedPath<'_>) {
        for cell in line_of(self.table(level), key) {
            let word = cell.load(Relaxed);
            let found = matches(word, key.fingerprint);
            if found != 0 {
                let shift = found.trailing_zeros() & !15;
                cell.store(word & !(0xFFFF << shift), Release);
                return;
            }
        }
    }

    /// A larger table to fill, if there are too many paths for the one in use.
    pub(crate) fn outgrown(&self, paths: u64) -> Option<Filling> {
        let level = self.level.load(Relaxed) as usize;
        if paths <= PATHS_PER_LINE_MAX << level || level + 1 == LEVELS {
            return None;
        }
        self.table(level + 1);
        Some(Filling { level: level + 1, next: Vec::new() })
    }

    /// Uses the table that has been filled.
    pub(crate) fn use_filled(&self, filling: &Filling) {
        self.level.store(filling.level as u32, Release);
    }

    /// Chooses the table for `paths` paths while nobody reads.
    pub(crate) fn prepare_for(&self, paths: u64) {
        let fits = |level: &usize| paths <= PATHS_PER_LINE_MAX << level;
        let level = (0..LEVELS - 1).find(fits).unwrap_or(LEVELS - 1);
        self.table(level);
        self.level.store(level as u32, Release);
    }

    /// Empties the table in use.
    pub(crate) fn clear(&self) {
        let level = self.level.load(Relaxed) as usize;
        self.table(level).iter().for_each(|cell| cell.store(0, Release));
    }

    /// Empties the table being filled, for another filling to start from nothing.
    pub(crate) fn give_up(&self, filling: &Filling) {
        self.table(filling.level).iter().for_each(|cell| cell.store(0, Release));
    }

    /// Fingerprints in the table in use, and how many of its lines have overflowed.
    pub(crate) fn census(&self) -> (u64, u64) {
        let level = self.level.load(Relaxed) as usize;
        let (mut fingerprints, mut overflowed) = (0, 0);
        for line in self.table(level).chunks(LINE_WORDS) {
            if line[0].load(Relaxed) == OVERFLOWED {
                overflowed += 1;
            } else {
                let free = line.iter().map(|cell| zero_lanes(cell.load(Relaxed)).count_ones());
                fingerprints += LINE_FINGERPRINTS as u64 - u64::from(free.sum::<u32>());
            }
        }
        (fingerprints, overflowed)
    }

    /// Bytes allocated, outgrown tables included.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.tables.memory_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_line_says_maybe_and_an_emptied_one_does_not() {
        let filter = MembershipFilter::new();
        filter.prepare_for(1);
        let names: Vec<String> = (0..LINE_FINGERPRINTS).map(|n| format!("name-{n}")).collect();
        let keys: Vec<HashedPath<'_>> =
            names.iter().map(|name| HashedPath::new(name.as_bytes())).collect();
        for key in &keys {
            assert!(!filter.may_contain(key));
            filter.add(key);
            assert!(filter.may_contain(key));
        }
        assert_eq!(filter.census(), (LINE_FINGERPRINTS as u64, 0));
        keys.iter().for_each(|key| filter.remove(key));
        assert_eq!(filter.census(), (0, 0));
        keys.iter().chain(&keys[..1]).for_each(|key| filter.add(key));
        assert_eq!(filter.census(), (0, 1));
        keys.iter().for_each(|key| filter.remove(key));
        assert!(keys.iter().all(|key| filter.may_contain(key)), "what overflowed stays so");
    }
}
