//! What is made of a key: commitments and keys for one purpose each.
//!
//! HMAC-SHA-256 and HKDF-SHA-256 of `aws-lc-rs`. Every label below is part of the format and is used in one place.

use aws_lc_rs::{hkdf, hmac};

use crate::error::Result;
use crate::limits::KEY_BYTES;
use crate::secret::SecretKey;

/// Length of a commitment, in bytes.
pub(crate) const COMMITMENT_BYTES: usize = 32;

/// What starts every label of HKDF here, so that no other use of a key meets one of ours.
const DERIVE_LABEL: &[u8] = b"kallisto/derive/";
/// What starts the message whose HMAC is a commitment.
const COMMIT_LABEL: &[u8] = b"kallisto/commit/v1/";

/// The commitment of a key for `purpose`: it names the key without giving it away. Two keys with one commitment would be a
/// collision of SHA-256, which a tag of Poly1305 cannot promise.
pub(crate) fn commitment(key: &SecretKey, purpose: &[u8]) -> [u8; COMMITMENT_BYTES] {
    let key = hmac::Key::new(hmac::HMAC_SHA256, key.expose());
    let mut context = hmac::Context::with_key(&key);
    context.update(COMMIT_LABEL);
    context.update(purpose);
    let tag = context.sign();
    tag.as_ref().try_into().expect("an HMAC-SHA-256 has 32 bytes")
}

/// The key for `label`, bound to `context`.
pub(crate) fn subkey(key: &SecretKey, context: &[u8], label: &[u8]) -> Result<SecretKey> {
    let prk = hkdf::Salt::new(hkdf::HKDF_SHA256, context).extract(key.expose());
    let info = [DERIVE_LABEL, label];
    let okm = prk.expand(&info, KeyLength).expect("32 bytes are within what HKDF gives");
    SecretKey::make(|out| {
        okm.fill(out).expect("the length was agreed on");
        Ok(())
    })
}

/// The length of what HKDF is asked for.
struct KeyLength;

impl hkdf::KeyType for KeyLength {
    fn len(&self) -> usize {
        KEY_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(seed: u8) -> SecretKey {
        let bytes: Vec<u8> = (0..32).map(|n| n ^ seed).collect();
        SecretKey::from_bytes(&bytes).unwrap()
    }

    #[test]
    fn purposes_and_keys_have_their_own_commitments() {
        let reference = commitment(&key(1), b"root");
        assert_eq!(reference, commitment(&key(1), b"root"));
        assert_ne!(reference, commitment(&key(1), b"keyring"));
        assert_ne!(reference, commitment(&key(2), b"root"));
    }

    #[test]
    fn labels_and_contexts_have_their_own_keys() {
        let reference = subkey(&key(1), b"cluster", b"a").unwrap();
        let same = subkey(&key(1), b"cluster", b"a").unwrap();
        assert_eq!(reference.expose(), same.expose());
        for other in [
            subkey(&key(1), b"cluster", b"b").unwrap(),
            subkey(&key(1), b"other", b"a").unwrap(),
            subkey(&key(2), b"cluster", b"a").unwrap(),
        ] {
            assert_ne!(reference.expose(), other.expose());
        }
        assert_ne!(reference.expose(), key(1).expose());
    }
}
