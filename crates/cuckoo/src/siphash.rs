//! SipHash-2-4: a short-input PRF under a 128-bit key.
//!
//! Jean-Philippe Aumasson and Daniel J. Bernstein, "SipHash: a fast short-input PRF" (2012). The
//! table hashes every key with it under a key drawn from the operating system, so that an
//! outsider who chooses paths cannot aim them at one bucket. The key is never printed, stored or
//! configured. All 64 vectors of the paper's reference implementation are tests below.

use std::fmt;

use crate::Error;

/// Rounds per message word: the 2 of SipHash-2-4.
const ROUNDS_PER_WORD: usize = 2;
/// Rounds after the last word: the 4 of SipHash-2-4.
const ROUNDS_AT_END: usize = 4;

/// A 128-bit SipHash key. Compared by nobody and printed by nobody.
#[derive(Clone)]
pub struct SipKey {
    k0: u64,
    k1: u64,
}

impl SipKey {
    /// Draws a key from the operating system.
    pub fn make_random() -> Result<Self, Error> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).map_err(|_| Error::Randomness)?;
        Ok(Self::from_bytes(bytes))
    }

    /// The key of sixteen bytes, each half little-endian as in the paper.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        let whole = u128::from_le_bytes(bytes);
        Self { k0: whole as u64, k1: (whole >> 64) as u64 }
    }
}

impl fmt::Debug for SipKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SipKey")
    }
}

/// The SipHash-2-4 function.
#[derive(Clone, Copy, Debug)]
pub struct SipHash24;

impl SipHash24 {
    /// The 64-bit hash of `bytes` under `key`.
    #[inline]
    pub fn hash(key: &SipKey, bytes: &[u8]) -> u64 {
        let mut state = SipState::new(key);
        let (words, tail) = bytes.as_chunks::<8>();
        for word in words {
            state.absorb(u64::from_le_bytes(*word));
        }
        state.absorb(last_word(bytes, tail));
        state.finish()
    }
}

/// The bytes left over, `tail`, with the length modulo 256 on top.
#[inline]
fn last_word(bytes: &[u8], tail: &[u8]) -> u64 {
    let len = (bytes.len() as u64) << 56;
    if let Some(last) = bytes.last_chunk::<8>() {
        // One load that ends where the message does, without the bytes before the tail.
        let unused_bits = 64 - 8 * tail.len() as u32;
        return len | u64::from_le_bytes(*last).checked_shr(unused_bits).unwrap_or(0);
    }
    tail.iter().enumerate().fold(len, |word, (place, byte)| word | u64::from(*byte) << (8 * place))
}

struct SipState {
    v0: u64,
    v1: u64,
    v2: u64,
    v3: u64,
}

impl SipState {
    #[inline]
    fn new(key: &SipKey) -> Self {
        // "somepseudorandomlygeneratedbytes", the constants of the paper.
        Self {
            v0: key.k0 ^ 0x736f_6d65_7073_6575,
            v1: key.k1 ^ 0x646f_7261_6e64_6f6d,
            v2: key.k0 ^ 0x6c79_6765_6e65_7261,
            v3: key.k1 ^ 0x7465_6462_7974_6573,
        }
    }

    #[inline]
    fn absorb(&mut self, word: u64) {
        self.v3 ^= word;
        for _ in 0..ROUNDS_PER_WORD {
            self.round();
        }
        self.v0 ^= word;
    }

    #[inline]
    fn finish(mut self) -> u64 {
        self.v2 ^= 0xff;
        for _ in 0..ROUNDS_AT_END {
            self.round();
        }
        self.v0 ^ self.v1 ^ self.v2 ^ self.v3
    }

    #[inline]
    fn round(&mut self) {
        self.v0 = self.v0.wrapping_add(self.v1);
        self.v2 = self.v2.wrapping_add(self.v3);
        self.v1 = self.v1.rotate_left(13) ^ self.v0;
        self.v3 = self.v3.rotate_left(16) ^ self.v2;
        self.v0 = self.v0.rotate_left(32);
        self.v2 = self.v2.wrapping_add(self.v1);
        self.v0 = self.v0.wrapping_add(self.v3);
        self.v1 = self.v1.rotate_left(17) ^ self.v2;
        self.v3 = self.v3.rotate_left(21) ^ self.v0;
        self.v2 = self.v2.rotate_left(32);
    }
}

#[cfg(test)]
mod tests {
    use super::{SipHash24, SipKey};

    /// Outputs of the reference implementation for the messages 00, 00 01, 00 01 02 ... under the
    /// key 00 01 .. 0f, starting with the empty message.
    #[rustfmt::skip]
    const VECTORS: [u64; 64] = [
        0x726fdb47dd0e0e31, 0x74f839c593dc67fd, 0x0d6c8009d9a94f5a, 0x85676696d7fb7e2d,
        0xcf2794e0277187b7, 0x18765564cd99a68d, 0xcbc9466e58fee3ce, 0xab0200f58b01d137,
        0x93f5f5799a932462, 0x9e0082df0ba9e4b0, 0x7a5dbbc594ddb9f3, 0xf4b32f46226bada7,
        0x751e8fbc860ee5fb, 0x14ea5627c0843d90, 0xf723ca908e7af2ee, 0xa129ca6149be45e5,
        0x3f2acc7f57c29bdb, 0x699ae9f52cbe4794, 0x4bc1b3f0968dd39c, 0xbb6dc91da77961bd,
        0xbed65cf21aa2ee98, 0xd0f2cbb02e3b67c7, 0x93536795e3a33e88, 0xa80c038ccd5ccec8,
        0xb8ad50c6f649af94, 0xbce192de8a85b8ea, 0x17d835b85bbb15f3, 0x2f2e6163076bcfad,
        0xde4daaaca71dc9a5, 0xa6a2506687956571, 0xad87a3535c49ef28, 0x32d892fad841c342,
        0x7127512f72f27cce, 0xa7f32346f95978e3, 0x12e0b01abb051238, 0x15e034d40fa197ae,
        0x314dffbe0815a3b4, 0x027990f029623981, 0xcadcd4e59ef40c4d, 0x9abfd8766a33735c,
        0x0e3ea96b5304a7d0, 0xad0c42d6fc585992, 0x187306c89bc215a9, 0xd4a60abcf3792b95,
        0xf935451de4f21df2, 0xa9538f0419755787, 0xdb9acddff56ca510, 0xd06c98cd5c0975eb,
        0xe612a3cb9ecba951, 0xc766e62cfcadaf96, 0xee64435a9752fe72, 0xa192d576b245165a,
        0x0a8787bf8ecb74b2, 0x81b3e73d20b49b6f, 0x7fa8220ba3b2ecea, 0x245731c13ca42499,
        0xb78dbfaf3a8d83bd, 0xea1ad565322a1a0b, 0x60e61c23a3795013, 0x6606d7e446282b93,
        0x6ca4ecb15c5f91e1, 0x9f626da15c9625f3, 0xe51b38608ef25f57, 0x958a324ceb064572,
    ];

    #[test]
    fn all_64_reference_vectors_hold() {
        let bytes: [u8; 64] = std::array::from_fn(|place| place as u8);
        let mut key = [0; 16];
        key.copy_from_slice(&bytes[..16]);
        let key = SipKey::from_bytes(key);
        for (len, expected) in VECTORS.iter().enumerate() {
            assert_eq!(SipHash24::hash(&key, &bytes[..len]), *expected, "message of {len} bytes");
        }
    }

    /// The deprecated hasher of `std` is SipHash-2-4 too: an oracle for lengths past the vectors.
    #[test]
    #[expect(deprecated, reason = "nothing else in std is SipHash-2-4")]
    fn agrees_with_std_on_random_messages() {
        use std::hash::{Hasher, SipHasher};
        let mut random = fastrand::Rng::with_seed(2012);
        let (messages, longest) = if cfg!(miri) { (10, 70) } else { (200, 700) };
        for _ in 0..messages {
            let key: [u8; 16] = std::array::from_fn(|_| random.u8(..));
            let message: Vec<u8> = (0..random.usize(..longest)).map(|_| random.u8(..)).collect();
            let whole = u128::from_le_bytes(key);
            let mut oracle = SipHasher::new_with_keys(whole as u64, (whole >> 64) as u64);
            oracle.write(&message);
            assert_eq!(SipHash24::hash(&SipKey::from_bytes(key), &message), oracle.finish());
        }
    }

    #[test]
    fn drawn_keys_differ_and_print_nothing() {
        let one = SipKey::make_random().unwrap();
        let two = SipKey::make_random().unwrap();
        assert_ne!(SipHash24::hash(&one, b"path"), SipHash24::hash(&two, b"path"));
        assert_eq!(format!("{one:?}"), "SipKey");
    }
}
