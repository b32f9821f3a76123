//! An entry: header, key and value in one allocation, never written once it is reachable.
//!
//! ```text
//!   | header: H | key_len: u32 | value_len: u32 | key bytes | value bytes |
//!   ^ the address a slot holds                  ^ size_of::<Head<H>>()
//! ```
//!
//! One allocation means one cache miss to compare the key, and the header and the first bytes of
//! the value come with it. The address must fit in 48 bits, since a slot packs a tag above it.
//! `writer` makes and frees entries; lookups read them through [`Entry`], which a guard keeps
//! alive.

#![expect(unsafe_code, reason = "an entry is laid out by hand behind a pointer")]

use std::alloc::Layout;
use std::fmt;
use std::marker::PhantomData;
use std::ptr::NonNull;

use crate::arena::Arena;
use crate::{Error, limits};

/// The fixed-size front of an entry. Key and value bytes follow it in the same allocation.
#[repr(C)]
pub(crate) struct EntryHead<H> {
    pub(crate) header: H,
    key_len: u32,
    value_len: u32,
}

impl<H> EntryHead<H> {
    /// Copies an entry into memory of the arena.
    pub(crate) fn make(
        arena: &mut Arena,
        header: H,
        key: &[u8],
        value: &[u8],
    ) -> Result<NonNull<Self>, Error> {
        let head = Self { header, key_len: len32(key), value_len: len32(value) };
        let place = arena.alloc(Self::layout(key.len(), value.len()))?.cast::<Self>();
        // SAFETY: the arena gave a block of the layout of these lengths, aligned for `Self`, that
        // nobody else refers to.
        unsafe { place.write(head) };
        // SAFETY: the block goes on for key and value bytes after the head.
        let bytes = unsafe { place.add(1) }.cast::<u8>();
        // SAFETY: as above; a fresh block cannot overlap the caller's slice.
        unsafe { bytes.copy_from_nonoverlapping(NonNull::from(key).cast(), key.len()) };
        // SAFETY: the value follows the key within the block.
        let bytes = unsafe { bytes.add(key.len()) };
        // SAFETY: as for the key.
        unsafe { bytes.copy_from_nonoverlapping(NonNull::from(value).cast(), value.len()) };
        Ok(place)
    }

    /// Drops the header and gives the memory back.
    ///
    /// # Safety
    /// - `entry` came from [`EntryHead::make`] with this arena and was not freed before.
    /// - Nobody can reach it any more: it is in no slot and no pin that saw it is left.
    pub(crate) unsafe fn free(arena: &mut Arena, entry: NonNull<Self>) {
        // SAFETY: live until the end of this function, says the caller.
        let layout = unsafe { Self::layout_of(entry) };
        // Before the destructor, so that the block goes back even if that panics.
        let _block = FreedBlock { arena, start: entry.cast(), layout };
        // SAFETY: nobody else can reach the header, so it may be dropped, once.
        unsafe { entry.drop_in_place() };
    }

    /// The layout a live entry was made with.
    ///
    /// # Safety
    /// `entry` is live.
    pub(crate) unsafe fn layout_of(entry: NonNull<Self>) -> Layout {
        // SAFETY: live, says the caller; the lengths are never written after `make`.
        let head = unsafe { entry.as_ref() };
        Self::layout(head.key_len as usize, head.value_len as usize)
    }

    fn layout(key_len: usize, value_len: usize) -> Layout {
        Layout::new::<Self>()
            .extend(Layout::array::<u8>(key_len + value_len).expect("both lengths are bounded"))
            .expect("both lengths are bounded")
            .0
    }
}

/// The block of an entry that is being freed; given back on drop.
struct FreedBlock<'a> {
    arena: &'a mut Arena,
    start: NonNull<u8>,
    layout: Layout,
}

impl Drop for FreedBlock<'_> {
    fn drop(&mut self) {
        // SAFETY: made by this arena with this layout, and freed once, says `EntryHead::free`.
        unsafe { self.arena.free(self.start, self.layout) };
    }
}

fn len32(bytes: &[u8]) -> u32 {
    u32::try_from(bytes.len()).expect("lengths are checked against the limits first")
}

/// Refuses a key that is too long.
pub(crate) fn check_key(key: &[u8]) -> Result<(), Error> {
    if key.len() > limits::KEY_BYTES_MAX {
        return Err(Error::KeyTooLong);
    }
    Ok(())
}

/// Refuses a value that is too long.
pub(crate) fn check_value(value: &[u8]) -> Result<(), Error> {
    if value.len() > limits::VALUE_BYTES_MAX {
        return Err(Error::ValueTooLong);
    }
    Ok(())
}

/// A record found in a table, borrowed for as long as the guard lives.
///
/// It stays readable when the key is replaced or removed meanwhile, and when the table is dropped.
pub struct Entry<'g, H> {
    head: NonNull<EntryHead<H>>,
    pinned: PhantomData<&'g EntryHead<H>>,
}

impl<'g, H> Entry<'g, H> {
    /// Lends out an entry.
    ///
    /// # Safety
    /// `head` was reachable from a slot at some moment of the pin that `'g` stands for, so that it
    /// stays live all through `'g`; it has the provenance of its whole block.
    #[inline]
    pub(crate) unsafe fn new(head: NonNull<EntryHead<H>>) -> Self {
        Self { head, pinned: PhantomData }
    }

    /// The header the entry was written with.
    #[inline]
    pub fn header(&self) -> &'g H {
        &self.head().header
    }

    /// The key.
    #[inline]
    pub fn key(&self) -> &'g [u8] {
        self.bytes(0, self.head().key_len as usize)
    }

    /// The value.
    #[inline]
    pub fn value(&self) -> &'g [u8] {
        let head = self.head();
        self.bytes(head.key_len as usize, head.value_len as usize)
    }

    #[inline]
    fn head(&self) -> &'g EntryHead<H> {
        // SAFETY: live and unwritten all through 'g (`Entry::new`).
        unsafe { self.head.as_ref() }
    }

    /// `len` bytes of key and value from `from` on; both come from the lengths in the head.
    #[inline]
    fn bytes(&self, from: usize, len: usize) -> &'g [u8] {
        debug_assert!(from + len <= (self.head().key_len + self.head().value_len) as usize);
        // SAFETY: the block goes on behind the head.
        let bytes = unsafe { self.head.add(1) }.cast::<u8>();
        // SAFETY: key and value follow, and `from` lies within them.
        let start = unsafe { bytes.add(from) };
        // SAFETY: initialised by `make`, live and unwritten all through 'g.
        unsafe { NonNull::slice_from_raw_parts(start, len).as_ref() }
    }
}

impl<H> Clone for Entry<'_, H> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<H> Copy for Entry<'_, H> {}

impl<H> fmt::Debug for Entry<'_, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Values may be secrets: sizes only.
        f.debug_struct("Entry")
            .field("key_len", &self.key().len())
            .field("value_len", &self.value().len())
            .finish_non_exhaustive()
    }
}

// SAFETY: an entry hands out shared references only, to bytes and to an `H`; the pin that keeps it
// alive is borrowed, so it outlasts the entry on whichever thread that is.
unsafe impl<H: Sync> Send for Entry<'_, H> {}
// SAFETY: as above.
unsafe impl<H: Sync> Sync for Entry<'_, H> {}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::EntryHead;
    use crate::arena::Arena;
    use crate::entry::Entry;

    #[test]
    fn parts_come_back_as_they_went_in() {
        #[repr(align(64))]
        #[derive(Debug, PartialEq)]
        struct Wide(u8);
        let mut arena = Arena::new();
        for (key, value) in [(0, 0), (1, 0), (0, 1), (39, 128), (3, 70_000)] {
            let (key, value) = (vec![7; key], vec![9; value]);
            let entry = EntryHead::make(&mut arena, Wide(5), &key, &value).unwrap();
            // SAFETY: the entry is freed only below.
            let seen = unsafe { Entry::new(entry) };
            assert_eq!(seen.header(), &Wide(5));
            assert_eq!(seen.key(), key);
            assert_eq!(seen.value(), value);
            // SAFETY: made above by this arena; `seen` is not used again.
            unsafe { EntryHead::free(&mut arena, entry) };
        }
        assert_eq!(arena.used_bytes(), 0);
    }
}
