//! A power of two of buckets and the hash key that aims into them.
//!
//! A key hashes to a first bucket (low bits) and a tag (top sixteen bits, never zero). Its second
//! bucket is the first one xor a mix of the tag, so either bucket follows from the other and the
//! tag alone: an entry is moved without being read. The mix is odd, so the two always differ.
//!
//! The array owns no entries; `writer` does. It is shared between readers and the writer, and
//! dropped when the last reader's pin is gone (`reclaim`).

#![expect(unsafe_code, reason = "finding a key reads entries through the addresses in slots")]

use std::ptr::NonNull;

use crate::bucket::{Bucket, SLOTS, SlotCell, Word};
use crate::entry::{Entry, EntryHead};
use crate::region::Buckets;
use crate::siphash::{SipHash24, SipKey};
use crate::{Error, limits, prefetch};

/// Where a key belongs: its first bucket and its tag.
#[derive(Clone, Copy)]
pub(crate) struct HashedKey {
    pub(crate) first: usize,
    pub(crate) tag: u16,
}

pub(crate) struct Array<H> {
    buckets: Buckets<H>,
    mask: usize,
    key: SipKey,
}

impl<H> Array<H> {
    /// An array of `count` buckets, a power of two.
    pub(crate) fn new(count: usize, key: SipKey) -> Result<Self, Error> {
        assert!(count.is_power_of_two(), "buckets are chosen by a mask");
        assert!(count >= limits::BUCKETS_MIN, "a key needs two buckets");
        if count > limits::BUCKETS_MAX {
            return Err(Error::Capacity);
        }
        Ok(Self { buckets: Buckets::new(count)?, mask: count - 1, key })
    }

    pub(crate) fn buckets(&self) -> &[Bucket<H>] {
        &self.buckets
    }

    pub(crate) fn slots(&self) -> usize {
        self.buckets.len() * SLOTS
    }

    /// Entries the array is filled to at most.
    pub(crate) fn entries_max(&self) -> usize {
        entries_max(self.buckets.len())
    }

    #[inline]
    pub(crate) fn bucket(&self, index: usize) -> &Bucket<H> {
        debug_assert!(index <= self.mask);
        &self.buckets[index & self.mask]
    }

    #[inline]
    pub(crate) fn spot(&self, key: &[u8]) -> HashedKey {
        let hash = SipHash24::hash(&self.key, key);
        // Zero is the tag of a free slot.
        let tag = ((hash >> 48) as u16).max(1);
        HashedKey { first: hash as usize & self.mask, tag }
    }

    /// The other bucket of an entry with this tag.
    #[inline]
    pub(crate) fn other(&self, bucket: usize, tag: u16) -> usize {
        // The fractional bits of the golden ratio spread neighbouring tags; `| 1` keeps the two
        // buckets apart.
        let mix = (u64::from(tag).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 24) as usize | 1;
        (bucket ^ mix) & self.mask
    }

    #[inline]
    pub(crate) fn prefetch(&self, spot: HashedKey) {
        prefetch::line(self.bucket(spot.first));
        prefetch::line(self.bucket(self.other(spot.first, spot.tag)));
    }

    /// The first word under the tag of `spot`, for a prefetch: most likely the one looked for.
    #[inline]
    pub(crate) fn guess(&self, spot: HashedKey) -> Option<NonNull<EntryHead<H>>> {
        let second = self.other(spot.first, spot.tag);
        let mut words =
            self.bucket(spot.first).tagged(spot.tag).chain(self.bucket(second).tagged(spot.tag));
        words.next().and_then(|(_, word)| word.entry())
    }

    /// The slot that holds `key`, and its entry, if a scan of both buckets meets it.
    ///
    /// # Safety
    /// All through `'g` the caller keeps what the slots point to alive: it is pinned, or it is the
    /// writer.
    #[inline]
    pub(crate) unsafe fn find<'g>(
        &self,
        spot: HashedKey,
        key: &[u8],
    ) -> Option<(&SlotCell<H>, Word<H>, Entry<'g, H>)>
    where
        H: 'g,
    {
        let second = self.bucket(self.other(spot.first, spot.tag));
        // Both lines are fetched at once: a miss, and a hit in the second, wait for one only.
        prefetch::line(second);
        for bucket in [self.bucket(spot.first), second] {
            for (cell, word) in bucket.tagged(spot.tag) {
                let Some(head) = word.entry() else { continue };
                prefetch::entry(head.as_ptr());
                // SAFETY: just read from a slot, so live for as long as the caller says.
                let entry = unsafe { Entry::new(head) };
                if entry.key() == key {
                    return Some((cell, word, entry));
                }
            }
        }
        None
    }
}

/// Entries that `buckets` buckets are filled to at most.
pub(crate) fn entries_max(buckets: usize) -> usize {
    buckets * SLOTS * limits::LOAD_MAX_PERCENT / 100
}

/// The fewest buckets, a power of two, that take `entries` entries without growing.
pub(crate) fn buckets_for(entries: usize) -> Result<usize, Error> {
    let mut count = limits::BUCKETS_MIN;
    while entries_max(count) < entries {
        if count == limits::BUCKETS_MAX {
            return Err(Error::Capacity);
        }
        count *= 2;
    }
    Ok(count)
}
