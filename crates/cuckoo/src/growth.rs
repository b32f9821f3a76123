//! Growing: a new array under a fresh hash key, filled from the old one a little with each write.
//!
//! Growing begins when the array is as full as it may be, or when a key finds no eviction path.
//! The new array has twice the buckets - or as many as before when the old one was not even half
//! full: then keys collide, and what helps is the new hash key, not memory. From then on new
//! entries go to the new array, and each write first moves a few buckets over; lookups look in
//! both, in the old one first. So an entry that is copied first and cleared from the old slot then
//! needs no step of `moves`: who sees the slot cleared comes to its copy afterwards. What needs the
//! step is publishing, since a reader with the arrays from before knows only the old one.
//!
//! If the new array itself finds no place (with a secret key that does not happen), everything is
//! put into one more array at once; a bounded number of tries, then the write is refused.

use std::sync::Arc;

use crate::array::{self, Array};
use crate::bucket::Word;
use crate::primitive::Ordering;
use crate::writer::{BucketArrays, FoundSlot, RetiredMemory, TableShared, TableWriter};
use crate::{Error, limits};

/// The old array of a growing table.
pub(crate) struct Growth<H> {
    pub(crate) old: Arc<Array<H>>,
    /// Buckets before this one are empty.
    moved: usize,
}

impl<H> Growth<H> {
    pub(crate) fn buckets_to_move(&self) -> usize {
        self.old.buckets().len() - self.moved
    }

    /// Buckets before this one hold nothing any more.
    pub(crate) fn moved(&self) -> usize {
        self.moved
    }
}

impl<H> TableWriter<H> {
    /// A free slot of the current array for `key`, which is not in the table, and its tag there.
    pub(crate) fn make_room(
        &mut self,
        shared: &TableShared<H>,
        key: &[u8],
    ) -> Result<(FoundSlot<H>, u16), Error> {
        // Relaxed: written under this lock.
        let len = shared.len.load(Ordering::Relaxed);
        if len >= self.current.entries_max() {
            self.finish_growth(shared)?;
            self.begin_growth(shared, len)?;
        }
        for _ in 0..=limits::REBUILD_TRIES_MAX {
            let array = Arc::clone(&self.current);
            let spot = array.spot(key);
            if let Some(cell) = self.free_cell(shared, &array, spot) {
                return Ok((FoundSlot::new(&array, cell), spot.tag));
            }
            match self.growth {
                None => self.begin_growth(shared, len)?,
                Some(_) => self.rebuild(shared, len)?,
            }
        }
        Err(Error::Crowded)
    }

    /// Moves a bounded number of buckets, if the table is growing.
    pub(crate) fn move_some(&mut self, shared: &TableShared<H>) -> Result<(), Error> {
        self.move_buckets(shared, limits::MIGRATE_BUCKETS)
    }

    /// Moves all that is left to move.
    pub(crate) fn finish_growth(&mut self, shared: &TableShared<H>) -> Result<(), Error> {
        self.move_buckets(shared, usize::MAX)
    }

    /// Grows to `buckets` buckets, unless there are as many.
    pub(crate) fn grow_to(&mut self, shared: &TableShared<H>, buckets: usize) -> Result<(), Error> {
        if buckets <= self.current.buckets().len() {
            return Ok(());
        }
        self.finish_growth(shared)?;
        self.begin_growth_to(shared, buckets)
    }

    fn begin_growth(&mut self, shared: &TableShared<H>, len: usize) -> Result<(), Error> {
        self.begin_growth_to(shared, self.next_size(len))
    }

    fn begin_growth_to(&mut self, shared: &TableShared<H>, buckets: usize) -> Result<(), Error> {
        assert!(self.growth.is_none(), "one growth at a time");
        let array = Arc::new(Array::new(buckets, (self.draw)()?)?);
        let old = std::mem::replace(&mut self.current, array);
        self.growth = Some(Growth { old, moved: 0 });
        self.stats.growths += 1;
        self.publish(shared);
        Ok(())
    }

    /// Twice the buckets, or as many as before if they are not even half full.
    fn next_size(&self, len: usize) -> usize {
        let buckets = self.current.buckets().len();
        if len * 100 < self.current.slots() * limits::REDRAW_LOAD_PERCENT {
            buckets
        } else {
            buckets * 2
        }
    }

    fn move_buckets(&mut self, shared: &TableShared<H>, count: usize) -> Result<(), Error> {
        for _ in 0..count {
            let Some(growth) = &self.growth else { return Ok(()) };
            if growth.buckets_to_move() == 0 {
                self.growth = None;
                self.publish(shared);
                return Ok(());
            }
            let (old, bucket) = (Arc::clone(&growth.old), growth.moved);
            if !self.move_bucket(shared, &old, bucket) {
                // Relaxed: written under this lock.
                return self.rebuild(shared, shared.len.load(Ordering::Relaxed));
            }
            if let Some(growth) = &mut self.growth {
                growth.moved += 1;
            }
        }
        Ok(())
    }

    /// Moves one bucket's entries. False when one found no place; the others are moved.
    fn move_bucket(&mut self, shared: &TableShared<H>, old: &Array<H>, bucket: usize) -> bool {
        let array = Arc::clone(&self.current);
        for cell in old.bucket(bucket).cells() {
            let Some(entry) = cell.load().entry() else { continue };
            let spot = array.spot(self.key_of(entry));
            let Some(place) = self.free_cell(shared, &array, spot) else { return false };
            place.store(Word::new(entry, spot.tag));
            // No step of `moves`: see above.
            cell.store(Word::EMPTY);
        }
        true
    }

    /// Puts every entry into one new array and publishes that instead of the old ones.
    fn rebuild(&mut self, shared: &TableShared<H>, len: usize) -> Result<(), Error> {
        let mut buckets = self.next_size(len).max(array::buckets_for(len + 1)?);
        for _ in 0..limits::REBUILD_TRIES_MAX {
            let array = Arc::new(Array::new(buckets, (self.draw)()?)?);
            if self.fill(shared, &array) {
                self.current = array;
                self.growth = None;
                self.stats.rebuilds += 1;
                self.publish(shared);
                return Ok(());
            }
            // More room as well, as long as it stays within a small factor of what is needed.
            buckets = (buckets * 2).min(array::buckets_for((len + 1) * 2)?);
        }
        Err(Error::Crowded)
    }

    /// Puts every entry into an array no reader knows of yet.
    fn fill(&mut self, shared: &TableShared<H>, array: &Array<H>) -> bool {
        let entries: Vec<_> = self.cells().filter_map(|(_, word)| word.entry()).collect();
        entries.into_iter().all(|entry| {
            let spot = array.spot(self.key_of(entry));
            let cell = self.free_cell(shared, array, spot);
            cell.map(|cell| cell.store(Word::new(entry, spot.tag))).is_some()
        })
    }

    /// Shows readers the arrays as they are now.
    fn publish(&mut self, shared: &TableShared<H>) {
        let old = self.growth.as_ref().map(|growth| Arc::clone(&growth.old));
        let arrays = Box::new(BucketArrays { current: Arc::clone(&self.current), old });
        let before = shared.swap_arrays(arrays);
        // A reader with the arrays from before may miss entries from now on.
        shared.step_moves();
        self.limbo.retire(RetiredMemory::Arrays(before), 0);
        // An array is large and a table that only gains entries retires nothing else: no waiting
        // for a batch to fill.
        self.limbo.close();
    }
}
