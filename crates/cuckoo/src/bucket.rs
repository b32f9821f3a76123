//! A bucket: one cache line of eight slots, each an entry's address under a 16-bit tag.
//!
//! ```text
//!   63      48 47                                  0
//!   +---------+------------------------------------+
//!   |   tag   |         address of the entry       |   all zero: the slot is free
//!   +---------+------------------------------------+
//! ```
//!
//! Tag and address share a word, so one load gives both, one store changes both, and a line holds
//! eight slots with no tag array beside them. A lookup compares tags first and touches an entry
//! only when its tag fits: a wrong one in 65,000.
//!
//! Orderings: the writer (one at a time) stores with `Release`, which publishes the entry; readers
//! load with `Acquire`, which also keeps the loads of one lookup in order - the check for moves
//! (`table`) relies on that.

use std::ptr::{self, NonNull};

use crate::entry::EntryHead;
use crate::primitive::{AtomicPtr, Ordering};

/// Slots of a bucket. Two under the model checker, which tries every interleaving.
#[cfg(not(loom))]
pub(crate) const SLOTS: usize = 8;
#[cfg(loom)]
pub(crate) const SLOTS: usize = 2;

const TAG_SHIFT: u32 = 48;
const ADDRESS_MASK: usize = (1 << TAG_SHIFT) - 1;

/// What a slot holds: nothing, or an entry's address under its tag.
pub(crate) struct Word<H>(*mut EntryHead<H>);

impl<H> Word<H> {
    pub(crate) const EMPTY: Self = Self(ptr::null_mut());

    pub(crate) fn new(entry: NonNull<EntryHead<H>>, tag: u16) -> Self {
        let address = entry.addr().get();
        assert!(address & !ADDRESS_MASK == 0, "the arena gives addresses of 48 bits");
        Self(entry.as_ptr().map_addr(|address| address | usize::from(tag) << TAG_SHIFT))
    }

    #[inline]
    pub(crate) fn is_empty(self) -> bool {
        self.0.is_null()
    }

    #[inline]
    pub(crate) fn tag(self) -> u16 {
        (self.0.addr() >> TAG_SHIFT) as u16
    }

    #[inline]
    pub(crate) fn entry(self) -> Option<NonNull<EntryHead<H>>> {
        NonNull::new(self.0.map_addr(|address| address & ADDRESS_MASK))
    }
}

impl<H> Clone for Word<H> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<H> Copy for Word<H> {}

/// One slot.
pub(crate) struct SlotCell<H>(AtomicPtr<EntryHead<H>>);

impl<H> SlotCell<H> {
    #[inline]
    pub(crate) fn load(&self) -> Word<H> {
        // Acquire: pairs with `store`, so the entry behind the address is seen whole.
        Word(self.0.load(Ordering::Acquire))
    }

    /// Only under the writer's lock.
    pub(crate) fn store(&self, word: Word<H>) {
        // Release: publishes the entry, and whatever the writer did before, to who loads the word.
        self.0.store(word.0, Ordering::Release);
    }
}

/// A cache line of slots. All bits zero is a bucket of free slots.
#[repr(C, align(64))]
pub(crate) struct Bucket<H> {
    cells: [SlotCell<H>; SLOTS],
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<Bucket<u64>>() == crate::prefetch::LINE_BYTES);

impl<H> Bucket<H> {
    #[cfg(loom)]
    pub(crate) fn new() -> Self {
        Self { cells: std::array::from_fn(|_| SlotCell(AtomicPtr::new(ptr::null_mut()))) }
    }

    #[inline]
    pub(crate) fn cells(&self) -> &[SlotCell<H>; SLOTS] {
        &self.cells
    }

    /// The words under `tag`. No branch depends on a single word, so eight compares run together.
    #[inline]
    pub(crate) fn tagged(&self, tag: u16) -> impl Iterator<Item = (&SlotCell<H>, Word<H>)> {
        let mut fits = 0_u32;
        for (slot, cell) in self.cells.iter().enumerate() {
            fits |= u32::from(cell.load().tag() == tag) << slot;
        }
        std::iter::from_fn(move || {
            while fits != 0 {
                let cell = &self.cells[fits.trailing_zeros() as usize % SLOTS];
                fits &= fits - 1;
                // The slot may have changed since; then it is judged as it is now.
                let word = cell.load();
                if word.tag() == tag {
                    return Some((cell, word));
                }
            }
            None
        })
    }

    pub(crate) fn free_cell(&self) -> Option<&SlotCell<H>> {
        self.cells.iter().find(|cell| cell.load().is_empty())
    }
}
