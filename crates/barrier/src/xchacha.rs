//! XChaCha20-Poly1305: HChaCha20 here, ChaCha20-Poly1305 from `aws-lc-rs`.
//!
//! The 24-byte nonce falls apart: its first 16 bytes and the key go through HChaCha20 and give a subkey, its last 8 are the
//! nonce of ChaCha20-Poly1305 (four zero bytes before them) under that subkey. So whoever keeps the 16 bytes for many
//! records keeps the subkey, too, and pays for HChaCha20 once. (draft-irtf-cfrg-xchacha-03.)
//!
//! HChaCha20 adds, rotates and xors words: no table, no branch on data, so its time says nothing about the key.

use aws_lc_rs::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use zeroize::{Zeroize, Zeroizing};

use crate::error::{Error, Result};
use crate::limits::KEY_BYTES;

/// Length of the part of a nonce that chooses the subkey, in bytes.
pub(crate) const PREFIX_BYTES: usize = 16;
/// Length of the part that is counted up, in bytes.
pub(crate) const COUNTER_BYTES: usize = 8;
/// Length of a nonce, in bytes.
pub const NONCE_BYTES: usize = PREFIX_BYTES + COUNTER_BYTES;
/// Length of a tag, in bytes.
pub(crate) const TAG_BYTES: usize = 16;

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
    Cipher::new(key, prefix).seal(*counter, aad, plain, out);
}

/// Appends the plaintext of what [`seal`] made to `out`, which on failure is as before.
///
/// # Errors
/// [`Error::Damaged`] if the tag does not fit key, nonce, `aad` and bytes.
pub fn open(
    key: &[u8; KEY_BYTES],
    nonce: &[u8; NONCE_BYTES],
    aad: &[u8],
    ciphertext: &[u8],
    tag: &[u8],
    out: &mut Vec<u8>,
) -> Result<()> {
    let (prefix, counter) = split(nonce);
    Cipher::new(key, prefix).open(*counter, aad, ciphertext, tag, out)
}

fn split(nonce: &[u8; NONCE_BYTES]) -> (&[u8; PREFIX_BYTES], &[u8; COUNTER_BYTES]) {
    let prefix = nonce.first_chunk().expect("a nonce starts with a prefix");
    (prefix, nonce.last_chunk().expect("a nonce ends in a counter"))
}

/// "expand 32-byte k" as little-endian words.
const CONSTANTS: [u32; 4] = [0x6170_7865, 0x3320_646e, 0x7962_2d32, 0x6b20_6574];

/// ChaCha20-Poly1305 under one subkey. The library wipes the subkey when this is dropped.
pub(crate) struct Cipher(LessSafeKey);

impl Cipher {
    /// The cipher for all nonces that start with `prefix`.
    pub(crate) fn new(key: &[u8; KEY_BYTES], prefix: &[u8; PREFIX_BYTES]) -> Self {
        let mut subkey = Zeroizing::new([0; KEY_BYTES]);
        hchacha20(key, prefix, &mut subkey);
        Self::with_subkey(&subkey)
    }

    /// The cipher under a key of its own, where no prefix is needed.
    pub(crate) fn with_subkey(subkey: &[u8; KEY_BYTES]) -> Self {
        let unbound = UnboundKey::new(&CHACHA20_POLY1305, subkey);
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

    #[test]
    fn a_failure_leaves_nothing_behind() {
        let cipher = Cipher::with_subkey(&[7; 32]);
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

    /// The bytes of a string of hexadecimal digits.
    fn hex<const N: usize>(text: &str) -> [u8; N] {
        assert_eq!(text.len(), 2 * N);
        std::array::from_fn(|n| u8::from_str_radix(&text[2 * n..2 * n + 2], 16).unwrap())
    }
}
