//! XChaCha20-Poly1305: HChaCha20 here, ChaCha20-Poly1305 from `aws-lc-rs`.
//!
//! The 24-byte nonce falls apart: its first 16 bytes and the key go through HChaCha20 and give a subkey, its last 8 are the
//! nonce of ChaCha20-Poly1305 (four zero bytes before them) under that subkey. So whoever keeps the 16 bytes for many
//! records keeps the subkey, too, and pays for HChaCha20 once. (draft-irtf-cfrg-xchacha-03.)
//!
//! HChaCha20 adds, rotates and xors words: no table, no branch on data, so its time says nothing about the key.

use aws_lc_rs::aead::CHACHA20_POLY1305;
use zeroize::{Zeroize, Zeroizing};

use crate::counted::{COUNTER_BYTES, CountedCipher};
use crate::error::Result;
use crate::limits::KEY_BYTES;

/// Length of the part of a nonce that chooses the subkey, in bytes.
pub(crate) const PREFIX_BYTES: usize = 16;
/// Length of a nonce, in bytes.
pub const NONCE_BYTES: usize = PREFIX_BYTES + COUNTER_BYTES;

/// Appends the ciphertext of `plain` and its tag to `out`: one record under a nonce of its own.
///
/// For callers whose records carry whole nonces (named keys); records of the barrier go through a
/// [`Keyring`](crate::Keyring). A nonce must never meet the same key with another plaintext.
pub fn seal(
    key: &[u8; KEY_BYTES],
    nonce: &[u8; NONCE_BYTES],
    aad: &[u8],
    plain: &[u8],
    out: &mut Vec<u8>,
) {
    let (prefix, counter) = split(nonce);
    CountedCipher::new(key, prefix).seal(*counter, aad, plain, out);
}

/// Appends the plaintext of what [`seal`] made to `out`, which on failure is as before.
///
/// # Errors
/// [`crate::Error::Damaged`] if the tag does not fit key, nonce, `aad` and bytes.
pub fn open(
    key: &[u8; KEY_BYTES],
    nonce: &[u8; NONCE_BYTES],
    aad: &[u8],
    ciphertext: &[u8],
    tag: &[u8],
    out: &mut Vec<u8>,
) -> Result<()> {
    let (prefix, counter) = split(nonce);
    CountedCipher::new(key, prefix).open(*counter, aad, ciphertext, tag, out)
}

fn split(nonce: &[u8; NONCE_BYTES]) -> (&[u8; PREFIX_BYTES], &[u8; COUNTER_BYTES]) {
    let prefix = nonce.first_chunk().expect("a nonce starts with a prefix");
    (prefix, nonce.last_chunk().expect("a nonce ends in a counter"))
}

/// "expand 32-byte k" as little-endian words.
const CONSTANTS: [u32; 4] = [0x6170_7865, 0x3320_646e, 0x7962_2d32, 0x6b20_6574];

impl CountedCipher {
    /// The cipher for all nonces that start with `prefix`.
    pub(crate) fn new(key: &[u8; KEY_BYTES], prefix: &[u8; PREFIX_BYTES]) -> Self {
        let mut subkey = Zeroizing::new([0; KEY_BYTES]);
        hchacha20(key, prefix, &mut subkey);
        Self::under(&CHACHA20_POLY1305, &subkey)
    }
}

/// HChaCha20: the first and the last row of ChaCha's state after twenty rounds, without the final addition.
pub(crate) fn hchacha20(
    key: &[u8; KEY_BYTES],
    prefix: &[u8; PREFIX_BYTES],
    out: &mut [u8; KEY_BYTES],
) {
    let mut state = [0u32; 16];
    state[..4].copy_from_slice(&CONSTANTS);
    let words = key.as_chunks::<4>().0.iter().chain(prefix.as_chunks::<4>().0);
    for (word, bytes) in state[4..].iter_mut().zip(words) {
        *word = u32::from_le_bytes(*bytes);
    }
    for _ in 0..10 {
        for [a, b, c, d] in COLUMNS {
            quarter_round(&mut state, a, b, c, d);
        }
        for [a, b, c, d] in DIAGONALS {
            quarter_round(&mut state, a, b, c, d);
        }
    }
    let kept = state[..4].iter().chain(&state[12..]);
    for (bytes, word) in out.as_chunks_mut::<4>().0.iter_mut().zip(kept) {
        *bytes = word.to_le_bytes();
    }
    state.zeroize();
}

const COLUMNS: [[usize; 4]; 4] = [[0, 4, 8, 12], [1, 5, 9, 13], [2, 6, 10, 14], [3, 7, 11, 15]];
const DIAGONALS: [[usize; 4]; 4] = [[0, 5, 10, 15], [1, 6, 11, 12], [2, 7, 8, 13], [3, 4, 9, 14]];

#[inline(always)]
fn quarter_round(state: &mut [u32; 16], a: usize, b: usize, c: usize, d: usize) {
    for (target, addend, rotated, by) in [(a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)]
    {
        state[target] = state[target].wrapping_add(state[addend]);
        state[rotated] = (state[rotated] ^ state[target]).rotate_left(by);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// draft-irtf-cfrg-xchacha-03, section 2.2.1.
    #[test]
    fn hchacha20_of_the_draft() {
        let key: [u8; 32] = std::array::from_fn(|n| u8::try_from(n).unwrap());
        let prefix = hex::<16>("000000090000004a0000000031415927");
        let mut out = [0; 32];
        hchacha20(&key, &prefix, &mut out);
        let expected = hex("82413b4227b27bfed30e42508a877d73a0f9e4d58a74a853c12ec41326d3ecdc");
        assert_eq!(out, expected);
    }

    /// draft-irtf-cfrg-xchacha-03, appendix A.3.1.
    #[test]
    fn xchacha20_poly1305_of_the_draft() {
        let plain =
            b"Ladies and Gentlemen of the class of '99: If I could offer you only one tip for the \
                      future, sunscreen would be it.";
        let aad = hex::<12>("50515253c0c1c2c3c4c5c6c7");
        let key: [u8; 32] = std::array::from_fn(|n| 0x80 + u8::try_from(n).unwrap());
        let nonce: [u8; 24] = std::array::from_fn(|n| 0x40 + u8::try_from(n).unwrap());
        let mut sealed = Vec::new();
        seal(&key, &nonce, &aad, plain, &mut sealed);
        assert_eq!(sealed[..114], hex::<114>(DRAFT_CIPHERTEXT));
        assert_eq!(sealed[114..], hex::<16>("c0875924c1c7987947deafd8780acf49"));

        let mut opened = b"before".to_vec();
        let (ciphertext, tag) = sealed.split_at(114);
        open(&key, &nonce, &aad, ciphertext, tag, &mut opened).unwrap();
        assert_eq!(opened, [b"before".as_slice(), plain].concat());
    }

    const DRAFT_CIPHERTEXT: &str = "bd6d179d3e83d43b9576579493c0e939572a1700252bfaccbed2902c21396cbb\
                                    731c7f1b0b4aa6440bf3a82f4eda7e39ae64c6708c54c216cb96b72e1213b452\
                                    2f8c9ba40db5d945b11b69b982c1bb9e3f3fac2bc369488f76b2383565d3fff9\
                                    21f9664c97637da9768812f615c68b13b52e";

    /// The bytes of a string of hexadecimal digits.
    fn hex<const N: usize>(text: &str) -> [u8; N] {
        assert_eq!(text.len(), 2 * N);
        std::array::from_fn(|n| u8::from_str_radix(&text[2 * n..2 * n + 2], 16).unwrap())
    }
}
