//! The nonces of convergent keys: equal inputs have equal nonces, and different inputs different ones.
//!
//! A nonce is an HMAC-SHA-256 over everything the cipher is given: two inputs under one key and one
//! nonce would tell whoever has both ciphertexts the key that authenticates, and with it how to
//! forge. The context needs no place in the nonce: it makes the cipher's key and the keys here.
//!
//! ```text
//! without associated data   HMAC(first key, plaintext)                     as Vault's version 3
//! with associated data      HMAC(second key, length u64 | data | plaintext)
//! ```
//!
//! Two keys, since a plaintext may read like the framed form. Vault takes no notice of associated
//! data; why this does, and what it means for texts from before, is in `docs/decisions/0192`.

use aws_lc_rs::hmac::{self, HMAC_SHA256};

use crate::error::{Error, Result};

const KEY_BYTES: usize = 32;
/// Bytes to derive, behind the cipher's key, for [`NonceKeys::new`].
pub(crate) const KEYS_BYTES: usize = 2 * KEY_BYTES;

/// What makes the nonces of one version in one context.
pub(crate) struct NonceKeys {
    of_plaintext: hmac::Key,
    of_both: hmac::Key,
}

impl NonceKeys {
    /// The keys in [`KEYS_BYTES`] derived bytes.
    pub(crate) fn new(derived: &[u8]) -> Result<Self> {
        let (of_plaintext, of_both) = derived
            .split_at_checked(KEY_BYTES)
            .filter(|(_, rest)| rest.len() == KEY_BYTES)
            .ok_or(Error::Damaged("nonce keys of another length"))?;
        let key = |bytes| hmac::Key::new(HMAC_SHA256, bytes);
        Ok(Self { of_plaintext: key(of_plaintext), of_both: key(of_both) })
    }

    /// What the nonce is cut from.
    pub(crate) fn nonce(&self, associated: &[u8], plaintext: &[u8]) -> hmac::Tag {
        if associated.is_empty() {
            return hmac::sign(&self.of_plaintext, plaintext);
        }
        let mut context = hmac::Context::with_key(&self.of_both);
        context.update(&(associated.len() as u64).to_le_bytes());
        context.update(associated);
        context.update(plaintext);
        context.sign()
    }
}
