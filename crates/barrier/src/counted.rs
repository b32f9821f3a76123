//! One key of an authenticated cipher whose nonces are counted.
//!
//! The ciphers are the library's; all that are used here take a key of 32 bytes, a nonce of 12 and make a tag of 16. The
//! nonce is four zero bytes and a counter: whoever has the key sees to it that no count is used twice.

use aws_lc_rs::aead::{Aad, Algorithm, LessSafeKey, Nonce, UnboundKey};
use zeroize::Zeroize;

use crate::error::{Error, Result};
use crate::limits::KEY_BYTES;

/// Length of the part of a nonce that is counted up, in bytes.
pub(crate) const COUNTER_BYTES: usize = 8;
/// Length of a tag, in bytes.
pub(crate) const TAG_BYTES: usize = 16;

/// A cipher under one key, which the library wipes when this is dropped.
pub(crate) struct CountedCipher(LessSafeKey);

impl CountedCipher {
    /// The cipher `algorithm` under a key of its own.
    pub(crate) fn under(algorithm: &'static Algorithm, key: &[u8; KEY_BYTES]) -> Self {
        let unbound = UnboundKey::new(algorithm, key);
        Self(LessSafeKey::new(unbound.expect("a key of this cipher has 32 bytes")))
    }

    /// Appends the ciphertext of `plain` and its tag to `out`.
    pub(crate) fn seal(
        &self,
        counter: [u8; COUNTER_BYTES],
        aad: &[u8],
        plain: &[u8],
        out: &mut Vec<u8>,
    ) {
        let start = out.len();
        out.resize(start + plain.len() + TAG_BYTES, 0);
        let (ciphertext, tag) = out[start..].split_at_mut(plain.len());
        self.0
            .seal_out_of_place_scatter(nonce(counter), Aad::from(aad), plain, ciphertext, &[], tag)
            .expect("lengths agree and are far below what a nonce may encrypt");
    }

    /// Puts ciphertext in place of what `out` holds from `start` on, and appends the tag.
    pub(crate) fn seal_in_place(
        &self,
        counter: [u8; COUNTER_BYTES],
        aad: &[u8],
        start: usize,
        out: &mut Vec<u8>,
    ) {
        let plain = &mut out[start..];
        let tag = self.0.seal_in_place_separate_tag(nonce(counter), Aad::from(aad), plain);
        let tag = tag.expect("it is far shorter than what a nonce may encrypt");
        out.extend_from_slice(tag.as_ref());
    }

    /// Appends the plaintext of `ciphertext` to `out`; on failure `out` is as long as before and what came after is wiped.
    pub(crate) fn open(
        &self,
        counter: [u8; COUNTER_BYTES],
        aad: &[u8],
        ciphertext: &[u8],
        tag: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let start = out.len();
        out.resize(start + ciphertext.len(), 0);
        let opened = self.open_into(counter, aad, ciphertext, tag, &mut out[start..]);
        if opened.is_err() {
            out.truncate(start);
        }
        opened
    }

    /// Writes the plaintext of `ciphertext` to `out`, which is as long; on failure `out` is all zeros.
    fn open_into(
        &self,
        counter: [u8; COUNTER_BYTES],
        aad: &[u8],
        ciphertext: &[u8],
        tag: &[u8],
        out: &mut [u8],
    ) -> Result<()> {
        let nonce = nonce(counter);
        let opened = self.0.open_separate_gather(nonce, Aad::from(aad), ciphertext, tag, out);
        opened.map_err(|_| {
            out.zeroize();
            Error::Damaged("the tag does not fit the bytes and their place")
        })
    }
}

/// The inner nonce: four zero bytes, then the counter.
fn nonce(counter: [u8; COUNTER_BYTES]) -> Nonce {
    let mut bytes = [0; 12];
    bytes[4..].copy_from_slice(&counter);
    Nonce::assume_unique_for_key(bytes)
}

#[cfg(test)]
mod tests {
    use aws_lc_rs::aead::{AES_256_GCM, CHACHA20_POLY1305};

    use super::*;

    #[test]
    fn a_failure_leaves_nothing_behind() {
        for algorithm in [&CHACHA20_POLY1305, &AES_256_GCM] {
            leave_nothing(algorithm);
        }
    }

    fn leave_nothing(algorithm: &'static Algorithm) {
        let cipher = CountedCipher::under(algorithm, &[7; 32]);
        let mut sealed = Vec::new();
        cipher.seal([0; 8], b"", b"a planted secret", &mut sealed);
        sealed[20] ^= 1;
        let (ciphertext, tag) = sealed.split_at(16);
        let mut out = b"before".to_vec();
        assert!(cipher.open([0; 8], b"", ciphertext, tag, &mut out).is_err());
        assert_eq!(out, b"before");
        let mut out = [0xaa; 16];
        assert!(cipher.open_into([0; 8], b"", ciphertext, tag, &mut out).is_err());
        assert_eq!(out, [0; 16]);
    }
}
