//! Memory for entries: `pages` for the usual sizes, the global allocator for the rest.
//!
//! Used by the writer only, under its lock; freed blocks come back through `reclaim`. Why entries
//! have pages of their own: `docs/decisions/0003-cuckoo-table.md`.

#![expect(unsafe_code, reason = "entries live in memory managed by hand")]

use std::alloc::Layout;
use std::ptr::NonNull;

use crate::Error;
use crate::pages::ArenaPages;

/// Bits of an address a slot can hold.
const ADDRESS_BITS: u32 = 48;

/// Hands out and takes back the blocks that entries live in.
#[derive(Default)]
pub(crate) struct Arena {
    pages: ArenaPages,
    used_bytes: usize,
    outside_bytes: usize,
}

impl Arena {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Bytes of all live blocks.
    pub(crate) fn used_bytes(&self) -> usize {
        self.used_bytes
    }

    /// Bytes taken from the system for blocks.
    pub(crate) fn reserved_bytes(&self) -> usize {
        self.pages.reserved_bytes() + self.outside_bytes
    }

    /// A fresh block. Its layout is never of size zero.
    pub(crate) fn alloc(&mut self, layout: Layout) -> Result<NonNull<u8>, Error> {
        assert!(layout.size() > 0, "an entry has at least its lengths");
        let block = if ArenaPages::takes(layout) {
            self.pages.alloc(layout.size())?
        } else {
            self.alloc_outside(layout)?
        };
        assert!(block.addr().get() >> ADDRESS_BITS == 0, "user addresses fit in 48 bits");
        self.used_bytes += layout.size();
        Ok(block)
    }

    fn alloc_outside(&mut self, layout: Layout) -> Result<NonNull<u8>, Error> {
        // SAFETY: the size is not zero (`alloc`).
        let block = unsafe { std::alloc::alloc(layout) };
        let block = NonNull::new(block).ok_or(Error::Memory)?;
        self.outside_bytes += layout.size();
        Ok(block)
    }

    /// Takes a block back.
    ///
    /// # Safety
    /// `block` came from [`alloc`](Self::alloc) of this arena with the same layout, was not given
    /// back before, and nobody uses it any more.
    pub(crate) unsafe fn free(&mut self, block: NonNull<u8>, layout: Layout) {
        self.used_bytes -= layout.size();
        if ArenaPages::takes(layout) {
            self.pages.free(block.addr().get());
        } else {
            self.outside_bytes -= layout.size();
            // SAFETY: from `alloc_outside` with this layout, says the caller.
            unsafe { std::alloc::dealloc(block.as_ptr(), layout) };
        }
    }
}
