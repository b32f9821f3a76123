//! The bodies of the fuzz targets: what a disk or a peer hands this crate, as any bytes.
//!
//! libFuzzer, the corpus and the smoke test of the `fuzz` crate all call these. The keys are fixed, so an input means the
//! same in every run. Where a check in front (a tag, a commitment) would stop nearly every input, the target also goes on
//! as if it had held.

use crate::derive::commitment;
use crate::keyring::fuzz::{decode_and_encode, fixed, repair};
use crate::wrap::{self, WrapPurpose};
use crate::{Error, Keyring, SecretKey, envelope_key_version};

/// The fixed key of a number.
fn key(number: u8) -> SecretKey {
    let bytes: [u8; 32] = std::array::from_fn(|n| number.wrapping_mul(31) ^ n as u8);
    SecretKey::from_bytes(&bytes).expect("a key of many bytes")
}

/// Any bytes as an envelope are refused and leave nothing behind; what is sealed opens, and not after a change. The first
/// byte says how many of the next are the storage key.
///
/// # Panics
/// If a promise is broken.
pub fn envelope(bytes: &[u8]) {
    let (length, rest) = bytes.split_first().unwrap_or((&0, bytes));
    let (storage_key, plain) = rest.split_at(rest.len().min(usize::from(*length)));
    let keyring = fixed(key(1), [key(2), key(3)]);
    refuse(&keyring, storage_key, plain);

    let mut sealed = Vec::new();
    if keyring.seal_record(storage_key, plain, &mut sealed).is_err() {
        assert!(storage_key.len() > crate::limits::STORAGE_KEY_BYTES_MAX && sealed.is_empty());
        return;
    }
    assert_eq!(envelope_key_version(&sealed), Some(2));
    let mut opened = b"before".to_vec();
    assert_eq!(keyring.open_record(storage_key, &sealed, &mut opened), Ok(()));
    assert_eq!(opened[6..], *plain);

    let place = plain.first().map_or(0, |&first| usize::from(first) % sealed.len());
    sealed[place] ^= plain.last().copied().filter(|&last| last != 0).unwrap_or(1);
    refuse(&keyring, storage_key, &sealed);
    refuse(&keyring, storage_key, &sealed[..place]);
}

fn refuse(keyring: &Keyring, storage_key: &[u8], envelope: &[u8]) {
    let mut out = b"before".to_vec();
    assert!(keyring.open_record(storage_key, envelope, &mut out).is_err());
    assert_eq!(out, b"before");
}

/// Any bytes as a sealed and as an opened keyring: an error, or a keyring whose bytes are these.
///
/// # Panics
/// If a promise is broken.
pub fn keyring(bytes: &[u8]) {
    let root_key = key(4);
    if wrap::open(&root_key, WrapPurpose::Keyring, bytes).is_ok() {
        panic!("bytes that nobody sealed were opened");
    }
    let mut committed = bytes.to_vec();
    if let Some(place) = committed.get_mut(1..33) {
        place.copy_from_slice(&commitment(&root_key, b"keyring/v1"));
        let refused = wrap::open(&root_key, WrapPurpose::Keyring, &committed).err();
        assert!(matches!(refused, Some(Error::Damaged(_) | Error::Unsupported(_))));
    }
    for bytes in [bytes.to_vec(), repair(bytes)] {
        if let Some(encoded) = decode_and_encode(&bytes) {
            assert_eq!(encoded, bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_targets_hold_for_what_they_are_about() {
        let ring = fixed(key(1), [key(2), key(3)]);
        let encoded = crate::keyring::fuzz::encode(&ring);
        keyring(&encoded);
        assert_eq!(repair(&encoded), encoded);
        assert!(decode_and_encode(&encoded).is_some());
        for length in 0..64 {
            envelope(&encoded[..length]);
        }
    }
}
