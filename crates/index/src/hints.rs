//! Hints: which leaf the paths of a folder are in, without the way down from the root.
//!
//! A hint is a guess. It is followed only to a leaf that holds the path, or whose paths enclose
//! it, which settles the matter whoever sent us there; otherwise the tree is asked. So a hint may
//! be stale, lost or another folder's: it costs time, never truth.
//!
//! One line of eight hints per bucket, a full bucket forgets one. The table grows with the number
//! of leaves, so a million folders of one leaf each do not make it large.

use std::sync::OnceLock;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64};

use crate::pages::Id;

/// Hints in a bucket: a cache line of them.
const WAYS: usize = 8;

/// Room for hints per leaf of the tree.
const HINTS_PER_LEAF: usize = 4;

/// Table sizes, each twice the one before. The last has room for half a billion hints.
const LEVELS: usize = 26;

/// A hint is the folder's hash above the leaf's id; zero is no hint.
pub(crate) struct Hints {
    levels: [OnceLock<Box<[AtomicU64]>>; LEVELS],
    level: AtomicU32,
}

impl Hints {
    pub(crate) fn new() -> Self {
        Self { levels: [const { OnceLock::new() }; LEVELS], level: AtomicU32::new(0) }
    }

    /// The bucket of a folder in the table as it is now.
    #[inline(always)]
    fn bucket(&self, folder: u32) -> &[AtomicU64] {
        // Acquire pairs with the release in `grow`: old hints are in the new table already.
        let level = self.level.load(Acquire) as usize;
        let Some(table) = self.levels.get(level).and_then(OnceLock::get) else { return &[] };
        let bucket = (u64::from(folder) << level >> 32) as usize;
        table.get(bucket * WAYS..bucket * WAYS + WAYS).unwrap_or(&[])
    }

    /// The leaf the folder's paths were last seen in.
    #[inline(always)]
    pub(crate) fn leaf_of(&self, folder: u32) -> Option<Id> {
        // Relaxed: nothing is concluded from a hint but where to look.
        let hints = self.bucket(folder).iter().map(|hint| hint.load(Relaxed));
        hints.filter(|hint| (hint >> 32) as u32 == folder).map(|hint| hint as Id).next()
    }

    /// Remembers that paths of the folder are in `leaf`. Writers only.
    pub(crate) fn remember(&self, folder: u32, leaf: Id) {
        let hint = u64::from(folder) << 32 | u64::from(leaf);
        let bucket = self.bucket(folder);
        let mut place = None;
        for (way, old) in bucket.iter().enumerate() {
            let old = old.load(Relaxed);
            if old == hint {
                return;
            }
            if (old >> 32) as u32 == folder || (old == 0 && place.is_none()) {
                place = Some(way);
            }
        }
        if let Some(cell) = bucket.get(place.unwrap_or(folder as usize % WAYS)) {
            cell.store(hint, Relaxed);
        }
    }

    /// Makes room for the hints of `leaves` leaves. Writers only.
    pub(crate) fn grow(&self, leaves: usize) {
        let mut level = self.level.load(Relaxed) as usize;
        while WAYS << level < leaves * HINTS_PER_LEAF && level + 1 < LEVELS {
            level += 1;
        }
        let first = self.levels[level].get().is_none();
        self.levels[level].get_or_init(|| (0..WAYS << level).map(|_| AtomicU64::new(0)).collect());
        let old_level = self.level.load(Relaxed) as usize;
        if first && level > old_level {
            self.level.store(level as u32, Release);
            for hint in self.levels[old_level].get().into_iter().flatten() {
                match hint.load(Relaxed) {
                    0 => {}
                    hint => self.remember((hint >> 32) as u32, hint as Id),
                }
            }
        }
    }

    /// Bytes allocated, outgrown tables included: a reader may still be in one.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.levels.iter().filter_map(OnceLock::get).map(|table| size_of_val(&**table)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Dice;

    #[test]
    fn hints_survive_growth_and_stay_bounded() {
        let (hints, mut dice) = (Hints::new(), Dice::new(5));
        assert_eq!(hints.leaf_of(1), None);
        let folders: Vec<u32> = (0..1000).map(|_| dice.next() as u32 | 1).collect();
        for (leaf, &folder) in folders.iter().enumerate() {
            hints.grow(leaf + 1);
            hints.remember(folder, leaf as Id);
            assert_eq!(hints.leaf_of(folder), Some(leaf as Id));
        }
        let kept =
            (0..).zip(&folders).filter(|&(leaf, &folder)| hints.leaf_of(folder) == Some(leaf));
        assert!(kept.count() > 950, "most hints outlive the growth");
        assert!(hints.memory_bytes() <= 1000 * HINTS_PER_LEAF * 8 * 4);
    }
}
