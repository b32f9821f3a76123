//! Keys at rest in memory.
//!
//! A [`SecretKey`] is 32 bytes in a memory page of its own that is locked (never swapped), left out of core dumps, absent
//! from forked children, and overwritten with zeros before it is given back. Keys are made in place: a value of this type
//! moves a pointer, so no copy stays behind on a stack.
//!
//! Called by every room of this crate that holds a key; calls the system through `memmap2`, whose calls for all this are
//! safe (`docs/decisions/0020-locked-memory.md`). Where the limit on locked memory is too low the key is kept unlocked and
//! [`SecretKey::is_locked`] says so: whether that is fatal is the operator's choice, not this crate's.

use std::fmt;

use memmap2::MmapMut;
use subtle::ConstantTimeEq;
use zeroize::Zeroize;

use crate::error::{Error, Result};
use crate::limits::KEY_BYTES;
use crate::random;

/// Where in its page a key lies: away from both ends, so that a short overrun of a neighbour does not meet it.
const OFFSET: usize = 1 << 10;
/// Bytes asked for; the system rounds up to a page.
const REGION_BYTES: usize = 2 << 10;

const _: () = assert!(OFFSET + KEY_BYTES <= REGION_BYTES);

/// A key of 32 bytes. `Debug` shows none of them; there is no `Clone`.
pub struct SecretKey {
    region: MmapMut,
    locked: bool,
}

impl SecretKey {
    /// A key drawn from the system's randomness.
    ///
    /// # Errors
    /// [`Error::Machine`] if there is no memory or no randomness.
    pub fn generate() -> Result<Self> {
        Self::make(random::fill)
    }

    /// A copy of `bytes`, which the caller wipes.
    ///
    /// # Errors
    /// [`Error::Invalid`] unless there are 32 of them and not all the same, [`Error::Machine`] if there is no memory.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let Some(bytes) = bytes.as_array::<KEY_BYTES>() else {
            return Err(Error::Invalid("a key has 32 bytes"));
        };
        // A key of one repeated byte is a buffer nobody filled. Every byte is looked at, whatever the others are.
        let differences = bytes.iter().fold(0, |seen, byte| seen | (byte ^ bytes[0]));
        if differences == 0 {
            return Err(Error::Invalid("a key of one repeated byte is no key"));
        }
        Self::make(|out| {
            out.copy_from_slice(bytes);
            Ok(())
        })
    }

    /// A key that `fill` writes in place.
    pub(crate) fn make(fill: impl FnOnce(&mut [u8]) -> Result<()>) -> Result<Self> {
        let region =
            MmapMut::map_anon(REGION_BYTES).map_err(|_| Error::Machine("no memory for a key"))?;
        let locked = region.lock().is_ok();
        keep_from_others(&region);
        let mut key = Self { region, locked };
        fill(&mut key.region[OFFSET..OFFSET + KEY_BYTES])?;
        Ok(key)
    }

    /// The key itself. Where this is called is where key material is used: keep it short, copy nothing.
    #[must_use]
    pub fn expose(&self) -> &[u8; KEY_BYTES] {
        self.region[OFFSET..].first_chunk().expect("a region holds a key")
    }

    /// A key that the system would not lock.
    #[cfg(test)]
    pub(crate) fn unlocked(bytes: &[u8; KEY_BYTES]) -> Self {
        let mut key = Self::from_bytes(bytes).expect("there is memory");
        key.region.unlock().expect("what was locked can be unlocked");
        key.locked = false;
        key
    }

    /// Whether the system promised never to write this key to swap space.
    #[must_use]
    pub fn is_locked(&self) -> bool {
        self.locked
    }
}

/// Leaves a region out of core dumps and forked children. A kernel that cannot is no reason to stop.
fn keep_from_others(region: &MmapMut) {
    #[cfg(target_os = "linux")]
    for advice in [memmap2::Advice::DontDump, memmap2::Advice::DontFork] {
        let _ = region.advise(advice);
    }
    #[cfg(not(target_os = "linux"))]
    let _ = region;
}

impl ConstantTimeEq for SecretKey {
    fn ct_eq(&self, other: &Self) -> subtle::Choice {
        self.expose().ct_eq(other.expose())
    }
}

impl Drop for SecretKey {
    fn drop(&mut self) {
        self.region[OFFSET..OFFSET + KEY_BYTES].zeroize();
    }
}

impl fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretKey")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_what_it_was_made_of() {
        let bytes: Vec<u8> = (0..32).collect();
        let key = SecretKey::from_bytes(&bytes).expect("there is memory");
        assert_eq!(key.expose().as_slice(), bytes);
        assert_eq!(format!("{key:?}"), "SecretKey");
    }

    #[test]
    fn an_empty_short_long_or_blank_key_is_refused() {
        for length in [0, 1, 16, 31, 33, 64] {
            let bytes: Vec<u8> = (0..length).collect();
            assert_eq!(
                SecretKey::from_bytes(&bytes).err(),
                Some(Error::Invalid("a key has 32 bytes"))
            );
        }
        for byte in [0, 0xff, b'a'] {
            let refused = SecretKey::from_bytes(&[byte; 32]).err();
            assert_eq!(refused, Some(Error::Invalid("a key of one repeated byte is no key")));
        }
    }

    #[test]
    fn drawn_keys_differ() {
        let (a, b) = (SecretKey::generate().unwrap(), SecretKey::generate().unwrap());
        assert!(!bool::from(a.ct_eq(&b)));
        assert!(bool::from(a.ct_eq(&a)));
    }

    #[test]
    fn a_failure_to_fill_is_passed_on() {
        let refused = SecretKey::make(|_| Err(Error::Machine("no random bytes from the system")));
        assert!(refused.is_err());
    }
}
