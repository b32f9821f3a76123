//! The writer's half of a table: everything behind the one lock.
//!
//! `table` takes the lock and calls in here; `growth` adds the moving between arrays. The writer
//! keeps the invariants that readers rely on:
//! 1. A key is in one slot only, but while it moves, when its entry is in two.
//! 2. A slot whose entry stays in the table is overwritten only after the entry was copied
//!    elsewhere *and then* `moves` was stepped: a reader that missed both places sees the step.
//!    From an old array to the current one the copy is enough, since readers look in that order.
//! 3. What is retired is in no slot.

#![expect(unsafe_code, reason = "the writer owns the entries behind the addresses in slots")]

use std::ptr::NonNull;
use std::sync::Arc;

use crate::arena::Arena;
use crate::array::{Array, HashedKey};
use crate::bucket::{SlotCell, Word};
use crate::entry::{Entry, EntryHead};
use crate::growth::Growth;
use crate::path::PathSearch;
use crate::primitive::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use crate::reclaim::Limbo;
use crate::siphash::SipKey;
use crate::stats::TableStats;
use crate::{Error, limits};

/// The arrays a reader looks in. Immutable; growing publishes another.
pub(crate) struct BucketArrays<H> {
    /// Where new entries go.
    pub(crate) current: Arc<Array<H>>,
    /// What a growing table still moves entries from.
    pub(crate) old: Option<Arc<Array<H>>>,
}

/// What readers see without the lock. The two words are on lines of their own: `moves` changes
/// often and `arrays` hardly ever.
pub(crate) struct TableShared<H> {
    pub(crate) arrays: CacheLine<AtomicPtr<BucketArrays<H>>>,
    pub(crate) moves: CacheLine<AtomicU64>,
    pub(crate) len: AtomicUsize,
}

#[repr(align(128))]
pub(crate) struct CacheLine<T>(pub(crate) T);

/// A thing that left the table.
pub(crate) enum RetiredMemory<H> {
    Entry(NonNull<EntryHead<H>>),
    Arrays(NonNull<BucketArrays<H>>),
}

// SAFETY: whoever holds a retired entry owns it, like a box of an `H` and bytes; arrays hold only
// addresses that they do not own.
unsafe impl<H: Send + Sync> Send for RetiredMemory<H> {}

pub(crate) struct TableWriter<H> {
    pub(crate) current: Arc<Array<H>>,
    pub(crate) growth: Option<Growth<H>>,
    pub(crate) draw: fn() -> Result<SipKey, Error>,
    pub(crate) arena: Arena,
    pub(crate) limbo: Limbo<RetiredMemory<H>>,
    pub(crate) retired_bytes: usize,
    pub(crate) search: PathSearch,
    pub(crate) stats: TableStats,
}

// SAFETY: the entries behind the addresses belong to the writer, and `H` may change threads.
unsafe impl<H: Send + Sync> Send for TableWriter<H> {}

impl<H> TableWriter<H> {
    pub(crate) fn new(current: Arc<Array<H>>, draw: fn() -> Result<SipKey, Error>) -> Self {
        Self {
            current,
            growth: None,
            draw,
            arena: Arena::new(),
            limbo: Limbo::new(),
            retired_bytes: 0,
            search: PathSearch::default(),
            stats: TableStats::default(),
        }
    }

    /// The array that holds `key`, if any does, its slot there and the word in it.
    pub(crate) fn find(&self, key: &[u8]) -> Option<(FoundSlot<H>, Word<H>)> {
        let old = self.growth.as_ref().map(|growth| &growth.old);
        for array in old.into_iter().chain([&self.current]) {
            // SAFETY: entries in slots live until this writer frees them, and it is borrowed.
            if let Some((cell, word, _)) = unsafe { array.find(array.spot(key), key) } {
                return Some((FoundSlot::new(array, cell), word));
            }
        }
        None
    }

    /// The key of an entry in a slot.
    pub(crate) fn key_of(&self, entry: NonNull<EntryHead<H>>) -> &[u8] {
        // SAFETY: entries in slots live until this writer frees them, and it is borrowed.
        unsafe { Entry::new(entry) }.key()
    }

    /// Puts an entry of a key that is not in the table.
    pub(crate) fn add(
        &mut self,
        shared: &TableShared<H>,
        key: &[u8],
        header: H,
        value: &[u8],
    ) -> Result<(), Error> {
        let (cell, tag) = self.make_room(shared, key)?;
        let entry = EntryHead::make(&mut self.arena, header, key, value)?;
        cell.store(Word::new(entry, tag));
        self.stats.inserted += 1;
        // Relaxed: a count, written under the lock and read as a hint.
        shared.len.store(shared.len.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        Ok(())
    }

    /// A free slot for `spot`, after pushing entries on if both buckets are full.
    pub(crate) fn free_cell<'a>(
        &mut self,
        shared: &TableShared<H>,
        array: &'a Array<H>,
        spot: HashedKey,
    ) -> Option<&'a SlotCell<H>> {
        let second = array.other(spot.first, spot.tag);
        let direct = array.bucket(spot.first).free_cell();
        if let Some(cell) = direct.or_else(|| array.bucket(second).free_cell()) {
            return Some(cell);
        }
        let path = self.search.run(array, spot)?;
        let moves = path.len() as u64 - 1;
        for pair in path.windows(2).rev() {
            let [source, target] = pair else { unreachable!("windows of two") };
            let word = array.bucket(source.bucket).cells()[source.slot].load();
            assert!(!word.is_empty(), "only the path's end is free");
            assert_eq!(array.other(source.bucket, word.tag()), target.bucket, "a step of a path");
            array.bucket(target.bucket).cells()[target.slot].store(word);
            // The source is overwritten next, by the step before or by the new entry.
            shared.step_moves();
        }
        let freed = path[0];
        let cell = &array.bucket(freed.bucket).cells()[freed.slot];
        cell.store(Word::EMPTY);
        self.stats.moved += moves;
        self.stats.path_moves_max = self.stats.path_moves_max.max(moves);
        Some(cell)
    }

    /// Hands an unlinked entry to the readers that may still see it.
    pub(crate) fn retire(&mut self, word: Word<H>) {
        let Some(entry) = word.entry() else { return };
        // SAFETY: unlinked but not freed yet.
        let bytes = unsafe { EntryHead::layout_of(entry) }.size();
        self.retired_bytes += bytes;
        self.limbo.retire(RetiredMemory::Entry(entry), bytes);
    }

    /// Frees what no reader can see. The last thing of every write: a header's destructor that
    /// panics then finds a table in order, and what it kept from being freed goes with a later
    /// write.
    pub(crate) fn free_retired(&mut self) {
        while let Some(thing) = self.limbo.pop_free() {
            self.free(thing);
        }
    }

    fn free(&mut self, thing: RetiredMemory<H>) {
        match thing {
            RetiredMemory::Arrays(arrays) => {
                // SAFETY: made by `Box::into_raw` when published, swapped out before it was
                // retired, retired once, and no pin that saw it is left (`Limbo`).
                drop(unsafe { Box::from_raw(arrays.as_ptr()) });
            }
            RetiredMemory::Entry(entry) => {
                // SAFETY: not freed yet.
                self.retired_bytes -= unsafe { EntryHead::layout_of(entry) }.size();
                // SAFETY: made by this writer's arena, unlinked before it was retired, retired
                // once, and no pin that saw it is left (`Limbo`).
                unsafe { EntryHead::free(&mut self.arena, entry) };
            }
        }
    }

    /// Every word that holds an entry, and its slot.
    pub(crate) fn cells(&self) -> impl Iterator<Item = (&SlotCell<H>, Word<H>)> {
        let old = self.growth.as_ref().map(|growth| &growth.old);
        old.into_iter()
            .chain([&self.current])
            .flat_map(|array| array.buckets())
            .flat_map(|bucket| bucket.cells())
            .map(|cell| (cell, cell.load()))
            .filter(|(_, word)| !word.is_empty())
    }

    /// Bytes of the blocks of all entries in slots.
    pub(crate) fn live_bytes(&self) -> usize {
        self.cells()
            .filter_map(|(_, word)| word.entry())
            // SAFETY: entries in slots live until this writer frees them, and it is borrowed.
            .map(|entry| unsafe { EntryHead::layout_of(entry) }.size())
            .sum()
    }

    /// Frees every entry.
    ///
    /// # Safety
    /// No reader is left, nor can one come, and no slot is read afterwards.
    pub(crate) unsafe fn free_everything(&mut self) {
        let live: Vec<_> = self.cells().filter_map(|(_, word)| word.entry()).collect();
        for entry in live {
            // SAFETY: made by this arena; each is in one slot, and slots are not read again.
            unsafe { EntryHead::free(&mut self.arena, entry) };
        }
        let retired: Vec<_> = self.limbo.take_all().collect();
        for thing in retired {
            self.free(thing);
        }
    }
}

/// A slot of an array that is kept from being dropped meanwhile.
pub(crate) struct FoundSlot<H> {
    _array: Arc<Array<H>>,
    cell: NonNull<SlotCell<H>>,
}

impl<H> FoundSlot<H> {
    /// The slot must be inside the array.
    pub(crate) fn new(array: &Arc<Array<H>>, cell: &SlotCell<H>) -> Self {
        Self { _array: Arc::clone(array), cell: NonNull::from(cell) }
    }

    pub(crate) fn store(&self, word: Word<H>) {
        // SAFETY: the slot is inside the array held beside it, and slots are atomic.
        unsafe { self.cell.as_ref() }.store(word);
    }
}

impl<H> TableShared<H> {
    /// Tells readers that an entry is about to leave a slot it was copied from.
    pub(crate) fn step_moves(&self) {
        // Relaxed load: only the writer, under its lock, stores here.
        let moves = self.moves.0.load(Ordering::Relaxed);
        // Release: who sees this step sees the copy made before it.
        self.moves.0.store(moves + 1, Ordering::Release);
    }
}

// A retired batch is bounded in things, too.
const _: () = assert!(limits::RETIRE_BATCH > 0);
