//! A hint that a cache line will be read soon.
//!
//! A lookup is two dependent cache misses, bucket and entry; what it knows early it asks for
//! early. Where the machine has no such hint the functions do nothing.

#![cfg_attr(
    all(target_arch = "x86_64", not(miri)),
    expect(unsafe_code, reason = "the instruction is only reachable as an unsafe intrinsic")
)]

/// Bytes of a cache line on the machines the table is laid out for.
pub(crate) const LINE_BYTES: usize = 64;

/// Asks for the line at `place`. Any address will do: a hint never faults.
#[inline(always)]
pub(crate) fn line<T>(place: *const T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: prefetching is a hint that cannot fault and reads nothing the program sees.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(place.cast()) };
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = place;
}

/// Lines of an entry asked for at once: head, key and a small value.
const ENTRY_LINES: usize = 3;

/// Asks for the first lines of an entry. Where the value is follows from a length in the head, so
/// without the hint its lines would be waited for one after the other.
#[inline(always)]
pub(crate) fn entry<T>(place: *const T) {
    for number in 0..ENTRY_LINES {
        line(place.wrapping_byte_add(number * LINE_BYTES));
    }
}
