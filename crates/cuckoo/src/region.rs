//! Zeroed memory in huge pages where the system has them.
//!
//! A lookup lands on a random line of a table of many megabytes; with 4 KiB pages each landing
//! also costs a page walk. On Linux a region comes straight from `mmap`, aligned to 2 MiB and
//! advised to use huge pages. The kernel zeroes it on first touch, so making a large array does
//! not stop the write that grows the table. Elsewhere, and under Miri, the global allocator
//! serves; under loom buckets are made one by one, since its atomics are not all zero.

#![expect(unsafe_code, reason = "raw zeroed memory becomes buckets")]

use std::ops::Deref;
use std::ptr::NonNull;

use crate::Error;
use crate::bucket::Bucket;

/// Bytes of a huge page on x86-64 and on AArch64 with 4 KiB base pages.
pub(crate) const HUGE_PAGE_BYTES: usize = 2 << 20;

/// Zeroed memory, given back on drop. Aligned to a huge page when it is at least that large, else
/// to a cache line.
pub(crate) struct ZeroedMemory {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the region owns its memory and gives no access to it but by address.
unsafe impl Send for ZeroedMemory {}
// SAFETY: as above.
unsafe impl Sync for ZeroedMemory {}

/// What pages a region asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Backing {
    /// Huge ones: the first touch takes 2 MiB, and a landing costs no page walk.
    Huge,
    /// What the system gives: only what is touched is taken.
    Base,
}

impl ZeroedMemory {
    /// The first byte, with the provenance of the whole region.
    #[inline]
    pub(crate) fn start(&self) -> NonNull<u8> {
        self.start
    }
}

mod from_allocator {
    use std::alloc::{Layout, alloc_zeroed, dealloc};
    use std::ptr::NonNull;

    use super::HUGE_PAGE_BYTES;
    use crate::Error;
    use crate::prefetch::LINE_BYTES;

    fn layout(bytes: usize) -> Layout {
        let align = if bytes >= HUGE_PAGE_BYTES { HUGE_PAGE_BYTES } else { LINE_BYTES };
        Layout::from_size_align(bytes, align).expect("region sizes are bounded")
    }

    pub(super) fn take(bytes: usize) -> Result<NonNull<u8>, Error> {
        assert!(bytes > 0, "a region has bytes");
        // SAFETY: the size is not zero.
        NonNull::new(unsafe { alloc_zeroed(layout(bytes)) }).ok_or(Error::Memory)
    }

    /// # Safety
    /// `start` came from [`take`] with the same size and is not used again.
    pub(super) unsafe fn give_back(start: NonNull<u8>, bytes: usize) {
        // SAFETY: same layout as in `take`, says the caller.
        unsafe { dealloc(start.as_ptr(), layout(bytes)) };
    }
}

#[cfg(all(not(miri), target_os = "linux"))]
mod from_kernel {
    use std::ptr::{self, NonNull};

    use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

    use super::{Backing, HUGE_PAGE_BYTES};
    use crate::Error;

    pub(super) fn take(bytes: usize, backing: Backing) -> Result<NonNull<u8>, Error> {
        assert!(bytes.is_multiple_of(HUGE_PAGE_BYTES), "whole huge pages");
        // One huge page more than asked for, so that an aligned start lies inside.
        let mapped = bytes + HUGE_PAGE_BYTES;
        // SAFETY: a new anonymous mapping at a place the kernel chooses aliases nothing.
        let map = unsafe {
            mmap_anonymous(
                ptr::null_mut(),
                mapped,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE,
            )
        };
        let base = map.map_err(|_| Error::Memory)?.cast::<u8>();
        let before = base.addr().next_multiple_of(HUGE_PAGE_BYTES) - base.addr();
        let after = HUGE_PAGE_BYTES - before;
        let start = base.wrapping_add(before);
        if before > 0 {
            // SAFETY: the unaligned front of the mapping made above, used by nobody.
            let _ = unsafe { munmap(base.cast(), before) };
        }
        if after > 0 {
            // SAFETY: the unused rest behind the aligned part.
            let _ = unsafe { munmap(start.wrapping_add(bytes).cast(), after) };
        }
        if backing == Backing::Huge {
            // SAFETY: within the mapping; the advice changes no content. Refused where there are no
            // huge pages, and then small ones serve.
            let _ = unsafe { madvise(start.cast(), bytes, Advice::LinuxHugepage) };
        }
        NonNull::new(start).ok_or(Error::Memory)
    }

    /// # Safety
    /// `start` came from [`take`] with the same size and is not used again.
    pub(super) unsafe fn give_back(start: NonNull<u8>, bytes: usize) {
        // SAFETY: exactly the part of the mapping that `take` kept, says the caller.
        let _ = unsafe { munmap(start.as_ptr().cast(), bytes) };
    }
}

/// Whether a region of this size comes straight from the kernel.
#[cfg(all(not(miri), target_os = "linux"))]
fn is_mapped(bytes: usize) -> bool {
    bytes.is_multiple_of(HUGE_PAGE_BYTES)
}

impl ZeroedMemory {
    /// `bytes` zero bytes. The backing is the kernel's business: it says nothing elsewhere.
    pub(crate) fn new(bytes: usize, backing: Backing) -> Result<Self, Error> {
        #[cfg(all(not(miri), target_os = "linux"))]
        if is_mapped(bytes) {
            return Ok(Self { start: from_kernel::take(bytes, backing)?, bytes });
        }
        let _ = backing;
        Ok(Self { start: from_allocator::take(bytes)?, bytes })
    }
}

impl Drop for ZeroedMemory {
    fn drop(&mut self) {
        #[cfg(all(not(miri), target_os = "linux"))]
        if is_mapped(self.bytes) {
            // SAFETY: `new` took it from the kernel by the same test; the owner is gone.
            unsafe { from_kernel::give_back(self.start, self.bytes) };
            return;
        }
        // SAFETY: `new` took it from the allocator; the owner is gone.
        unsafe { from_allocator::give_back(self.start, self.bytes) };
    }
}

/// The buckets of an array.
#[cfg(not(loom))]
pub(crate) struct Buckets<H> {
    region: ZeroedMemory,
    count: usize,
    _buckets: std::marker::PhantomData<Bucket<H>>,
}

#[cfg(not(loom))]
impl<H> Buckets<H> {
    /// `count` buckets of free slots.
    pub(crate) fn new(count: usize) -> Result<Self, Error> {
        let bytes = count * size_of::<Bucket<H>>();
        let region = ZeroedMemory::new(bytes, Backing::Huge)?;
        Ok(Self { region, count, _buckets: std::marker::PhantomData })
    }
}

#[cfg(not(loom))]
impl<H> Deref for Buckets<H> {
    type Target = [Bucket<H>];

    #[inline]
    fn deref(&self) -> &[Bucket<H>] {
        let buckets = NonNull::slice_from_raw_parts(self.region.start().cast(), self.count);
        // SAFETY: the region holds `count` buckets, aligned to a cache line at least; zeroed
        // memory is a bucket of null pointers; buckets are only ever written through atomics.
        unsafe { buckets.as_ref() }
    }
}

/// The buckets of an array.
#[cfg(loom)]
pub(crate) struct Buckets<H>(Vec<Bucket<H>>);

#[cfg(loom)]
impl<H> Buckets<H> {
    /// `count` buckets of free slots.
    pub(crate) fn new(count: usize) -> Result<Self, Error> {
        Ok(Self((0..count).map(|_| Bucket::new()).collect()))
    }
}

#[cfg(loom)]
impl<H> Deref for Buckets<H> {
    type Target = [Bucket<H>];

    fn deref(&self) -> &[Bucket<H>] {
        &self.0
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{Backing, HUGE_PAGE_BYTES, ZeroedMemory};

    #[test]
    fn regions_are_zero_and_aligned() {
        for bytes in [128, 4096, HUGE_PAGE_BYTES, 2 * HUGE_PAGE_BYTES] {
            let backing = if bytes == HUGE_PAGE_BYTES { Backing::Base } else { Backing::Huge };
            let region = ZeroedMemory::new(bytes, backing).unwrap();
            let align = if bytes >= HUGE_PAGE_BYTES { HUGE_PAGE_BYTES } else { 64 };
            assert_eq!(region.start().addr().get() % align, 0);
            for place in [0, bytes / 2, bytes - 1] {
                // SAFETY: inside the region.
                let byte = unsafe { region.start().add(place) };
                // SAFETY: mapped, and nobody else uses the region.
                assert_eq!(unsafe { byte.read() }, 0);
            }
        }
    }
}
