//! The cipher of what stays in memory: the hot table's records.
//!
//! A key drawn when the barrier is unsealed, never stored, gone with the cipher. It is used in one process and one unseal,
//! so a counter is nonce enough, and nobody else has to open what it sealed: the cipher is the one that this machine is
//! fastest at, AES-256-GCM where its processor has instructions for it and ChaCha20-Poly1305 elsewhere (`docs/decisions/0145`).
//!
//! ```text
//! sealed := counter u64, little-endian | ciphertext | tag 16
//! ```

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use aws_lc_rs::aead::{AES_256_GCM, Algorithm, CHACHA20_POLY1305};

use crate::counted::{COUNTER_BYTES, CountedCipher, TAG_BYTES};
use crate::error::{Error, Result};
use crate::secret::SecretKey;

/// By how much sealing makes bytes longer.
pub const MEMORY_OVERHEAD: usize = COUNTER_BYTES + TAG_BYTES;

/// Encrypts for this process and this unseal. Any number of threads use it; none waits for another.
pub struct MemoryCipher {
    cipher: CountedCipher,
    sealed: AtomicU64,
}

impl MemoryCipher {
    /// One under a fresh key.
    ///
    /// # Errors
    /// [`Error::Machine`] if there is no memory or no randomness.
    pub fn generate() -> Result<Self> {
        let key = SecretKey::generate()?;
        Ok(Self {
            cipher: CountedCipher::under(fastest(), key.expose()),
            sealed: AtomicU64::new(0),
        })
    }

    /// Appends `plain`, sealed and bound to `aad`, to `out`.
    pub fn seal(&self, aad: &[u8], plain: &[u8], out: &mut Vec<u8>) {
        // Relaxed: that each value is given out once is all that counts. 2^64 of them outlast the machine.
        let counter = self.sealed.fetch_add(1, Ordering::Relaxed).to_le_bytes();
        out.reserve(MEMORY_OVERHEAD + plain.len());
        out.extend_from_slice(&counter);
        self.cipher.seal(counter, aad, plain, out);
    }

    /// Appends the plaintext of `sealed` to `out`; on failure `out` is as before and nothing of it stays.
    ///
    /// `out` should have room: a buffer that grows leaves a copy of what was in it behind.
    ///
    /// # Errors
    /// [`Error::Damaged`] if these are not bytes that this cipher sealed for `aad`.
    pub fn open(&self, aad: &[u8], sealed: &[u8], out: &mut Vec<u8>) -> Result<()> {
        if sealed.len() < MEMORY_OVERHEAD {
            return Err(Error::Damaged("a record in memory is cut off"));
        }
        let (counter, rest) = sealed.split_first_chunk().expect("the length was checked");
        let (ciphertext, tag) = rest.split_at(rest.len() - TAG_BYTES);
        self.cipher.open(*counter, aad, ciphertext, tag, out)
    }
}

/// The cipher that this processor is made for.
fn fastest() -> &'static Algorithm {
    #[cfg(target_arch = "x86_64")]
    let has_aes = is_x86_feature_detected!("aes") && is_x86_feature_detected!("pclmulqdq");
    #[cfg(target_arch = "aarch64")]
    let has_aes = std::arch::is_aarch64_feature_detected!("aes");
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let has_aes = false;
    if has_aes { &AES_256_GCM } else { &CHACHA20_POLY1305 }
}

impl fmt::Debug for MemoryCipher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MemoryCipher")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_sealed_opens_under_its_name_and_in_its_process_only() {
        let cipher = MemoryCipher::generate().unwrap();
        let mut sealed = Vec::new();
        cipher.seal(b"name", b"value", &mut sealed);
        assert_eq!(sealed.len(), MEMORY_OVERHEAD + 5);
        let mut out = b"before".to_vec();
        cipher.open(b"name", &sealed, &mut out).unwrap();
        assert_eq!(out, b"beforevalue");
        assert!(cipher.open(b"other", &sealed, &mut out).is_err());
        let other = MemoryCipher::generate().unwrap();
        assert!(other.open(b"name", &sealed, &mut out).is_err());
        assert_eq!(out, b"beforevalue");
    }

    #[test]
    fn what_is_sealed_has_any_length_and_its_buffer_room_for_that() {
        let cipher = MemoryCipher::generate().unwrap();
        for length in [0, 1, 23, 24, 25, 1_000, 100_000] {
            let plain: Vec<u8> = (0..=255).cycle().take(length).collect();
            let (mut sealed, mut opened) = (Vec::new(), Vec::new());
            cipher.seal(b"name", &plain, &mut sealed);
            assert_eq!(sealed.len(), MEMORY_OVERHEAD + length);
            assert!(sealed.capacity() <= 2 * sealed.len(), "{length}: {}", sealed.capacity());
            cipher.open(b"name", &sealed, &mut opened).unwrap();
            assert_eq!(opened, plain);
        }
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_refused() {
        for algorithm in [&AES_256_GCM, &CHACHA20_POLY1305] {
            let cipher = CountedCipher::under(algorithm, &[7; 32]);
            refuse_changes(&MemoryCipher { cipher, sealed: AtomicU64::new(0) });
        }
    }

    fn refuse_changes(cipher: &MemoryCipher) {
        let mut sealed = Vec::new();
        cipher.seal(b"", b"value", &mut sealed);
        let mut out = Vec::new();
        for bit in 0..sealed.len() * 8 {
            let mut flipped = sealed.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(cipher.open(b"", &flipped, &mut out).is_err(), "bit {bit}");
        }
        for length in 0..sealed.len() {
            assert!(cipher.open(b"", &sealed[..length], &mut out).is_err());
        }
        assert!(out.is_empty());
    }

    /// The key lasts as long as the process: a counter of fewer bits would come back to its first nonces.
    #[test]
    fn the_counter_never_wraps() {
        for number in (1..64).map(|bit| (1_u64 << bit) - 1) {
            let cipher = CountedCipher::under(&AES_256_GCM, &[7; 32]);
            let cipher = MemoryCipher { cipher, sealed: AtomicU64::new(number) };
            for expected in [number, number + 1] {
                let mut sealed = Vec::new();
                cipher.seal(b"", b"value", &mut sealed);
                assert_eq!(sealed[..COUNTER_BYTES], expected.to_le_bytes());
                // What was sealed under this number, and no part of it, is the nonce.
                let mut bare = Vec::new();
                cipher.cipher.seal(expected.to_le_bytes(), b"", b"value", &mut bare);
                assert_eq!(sealed[COUNTER_BYTES..], bare);
            }
        }
    }

    #[test]
    fn threads_never_share_a_counter() {
        const THREADS: usize = 4;
        const EACH: usize = 1_000;
        let cipher = MemoryCipher::generate().unwrap();
        let mut counters: Vec<Vec<u8>> = std::thread::scope(|scope| {
            let seal = || {
                (0..EACH)
                    .map(|_| {
                        let mut sealed = Vec::new();
                        cipher.seal(b"", b"", &mut sealed);
                        sealed[..COUNTER_BYTES].to_vec()
                    })
                    .collect::<Vec<_>>()
            };
            let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(seal)).collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        counters.sort_unstable();
        counters.dedup();
        assert_eq!(counters.len(), THREADS * EACH);
    }
}
