//! Masks of values that many records have: a token and its accessor stand in every record of who bears it.
//!
//! ```text
//! value --two keyed hashes--> 128 bits: a slot, and the proof that what lies there is the mask of this value
//! ```
//! Invariants:
//! - No value is kept, and nothing that can be computed from one without the random keys of this process.
//! - What is kept for a device is bounded: a slot is overwritten by whatever comes to it.

use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, PoisonError};

use crate::mask::MASK_PREFIX;

/// Slots of a device.
const SLOTS: usize = 512;
/// Bytes of a mask: its prefix and 64 digits.
const MASK_BYTES: usize = MASK_PREFIX.len() + 64;

/// The masks that one device remembers.
pub(crate) struct MaskCache {
    keys: [RandomState; 2],
    slots: Box<[Mutex<Option<KnownMask>>]>,
}

/// A mask, and of what.
struct KnownMask {
    hashes: [u64; 2],
    mask: [u8; MASK_BYTES],
}

impl Default for MaskCache {
    fn default() -> Self {
        Self {
            keys: [RandomState::new(), RandomState::new()],
            slots: (0..SLOTS).map(|_| Mutex::new(None)).collect(),
        }
    }
}

impl MaskCache {
    /// Appends the mask of a value, by `make` when it is not known.
    pub(crate) fn push(&self, value: &str, out: &mut Vec<u8>, make: impl FnOnce(&mut Vec<u8>)) {
        let hashes = [self.keys[0].hash_one(value), self.keys[1].hash_one(value)];
        let slot = &self.slots[hashes[0] as usize % SLOTS];
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
        let cache = MaskCache::default();
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
            for number in 0..4 * SLOTS {
                let value = format!("value {number}");
                assert_eq!(mask(&value), format!("{value:->MASK_BYTES$}"), "{round}");
            }
        }
        assert!(made.get() > 4 * SLOTS, "what does not fit is made anew");
    }
}
