//! Masks of values that many records have: a token and its accessor stand in every record of who bears it, and the value of a secret in every record of
//! a read of it.
//!
//! ```text
//! value --two keyed hashes--> 128 bits: a slot, and the proof that what lies there is the mask of this value
//! ```
//! Invariants:
//! - No value is kept, and nothing that can be computed from one without the random keys of this process.
//! - What is kept for a device is bounded: a slot is overwritten by whatever comes to it.

use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::mask::MASK_PREFIX;

/// Slots that are made together, when the first of them is needed.
const SEGMENT_SLOTS: usize = 512;
/// Segments for tokens and accessors.
const TOKEN_SEGMENTS: usize = 1;
/// Segments for values of secrets: 1.7 MB when all are in use.
const VALUE_SEGMENTS: usize = 32;
/// Bytes of a mask: its prefix and 64 digits.
const MASK_BYTES: usize = MASK_PREFIX.len() + 64;

/// The masks that one device remembers of one kind of values.
pub(crate) struct MaskCache {
    keys: [RandomState; 2],
    segments: Box<[OnceLock<MaskSegment>]>,
}

type MaskSegment = Box<[Mutex<Option<KnownMask>>]>;

/// A mask, and of what.
struct KnownMask {
    hashes: [u64; 2],
    mask: [u8; MASK_BYTES],
}

impl MaskCache {
    /// For tokens and accessors.
    pub(crate) fn of_tokens() -> Self {
        Self::new(TOKEN_SEGMENTS)
    }

    /// For values of secrets.
    pub(crate) fn of_values() -> Self {
        Self::new(VALUE_SEGMENTS)
    }

    fn new(segments: usize) -> Self {
        Self {
            keys: [RandomState::new(), RandomState::new()],
            segments: (0..segments).map(|_| OnceLock::new()).collect(),
        }
    }

    /// Appends the mask of a value, by `make` when it is not known.
    pub(crate) fn push(&self, value: &str, out: &mut Vec<u8>, make: impl FnOnce(&mut Vec<u8>)) {
        let hashes = [self.keys[0].hash_one(value), self.keys[1].hash_one(value)];
        let place = hashes[0] as usize % (self.segments.len() * SEGMENT_SLOTS);
        let segment = self.segments[place / SEGMENT_SLOTS]
            .get_or_init(|| (0..SEGMENT_SLOTS).map(|_| Mutex::new(None)).collect());
        let slot = &segment[place % SEGMENT_SLOTS];
        let mut known = slot.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known.as_ref().filter(|known| known.hashes == hashes) {
            out.extend_from_slice(&known.mask);
            return;
        }
        let start = out.len();
        make(out);
        *known = out[start..].try_into().ok().map(|mask| KnownMask { hashes, mask });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_is_made_once_and_given_to_its_own_value_only() {
        for segments in [1, 3] {
            is_made_once(&MaskCache::new(segments), segments * SEGMENT_SLOTS);
        }
    }

    fn is_made_once(cache: &MaskCache, slots: usize) {
        let made = std::cell::Cell::new(0);
        let mask = |value: &str| {
            let mut out = Vec::new();
            cache.push(value, &mut out, |out| {
                made.set(made.get() + 1);
                out.extend_from_slice(format!("{value:->MASK_BYTES$}").as_bytes());
            });
            String::from_utf8(out).unwrap()
        };
        for value in ["a", "b", "a", "a"] {
            assert_eq!(mask(value), format!("{value:->MASK_BYTES$}"));
        }
        assert_eq!(made.get(), 2);
        // Many more than there are slots.
        for round in 0..2 {
            for number in 0..4 * slots {
                let value = format!("value {number}");
                assert_eq!(mask(&value), format!("{value:->MASK_BYTES$}"), "{round}");
            }
        }
        assert!(made.get() > 4 * slots, "what does not fit is made anew");
    }
}
