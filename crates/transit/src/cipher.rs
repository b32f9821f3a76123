//! The authenticated ciphers under one key: `nonce | ciphertext | tag` and back.
//!
//! A 96-bit nonce drawn at random is good for 2^32 encryptions under one version (NIST SP 800-38D,
//! 8.3); rotation is how a key goes on. Callers who need more take XChaCha20-Poly1305.

use aws_lc_rs::aead::{
    AES_128_GCM, AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey,
};
use kallisto_barrier::xchacha;
use zeroize::Zeroizing;

use crate::error::{Error, Result};
use crate::kind::KeyKind;
use crate::random;

/// Length of the tag of every cipher here, in bytes.
const TAG_BYTES: usize = 16;

/// A cipher with its key; dropping it wipes the key.
pub(crate) enum KeyedCipher {
    /// AES-GCM or ChaCha20-Poly1305. Boxed: an AES-256 schedule is half a kilobyte.
    Short(Box<LessSafeKey>),
    /// XChaCha20-Poly1305, whose subkey depends on the nonce.
    Extended(Zeroizing<[u8; 32]>),
}

impl KeyedCipher {
    /// The cipher of `kind` under `key`.
    pub(crate) fn new(kind: KeyKind, key: &[u8]) -> Result<Self> {
        const WRONG: Error = Error::Damaged("a key of another length than its type's");
        let algorithm = match kind {
            KeyKind::Aes128Gcm96 => &AES_128_GCM,
            KeyKind::Aes256Gcm96 => &AES_256_GCM,
            KeyKind::ChaCha20Poly1305 => &CHACHA20_POLY1305,
            KeyKind::XChaCha20Poly1305 => {
                let key = key.as_array().ok_or(WRONG)?;
                return Ok(Self::Extended(Zeroizing::new(*key)));
            }
            _ => return Err(Error::Damaged("a cipher of a key that is none")),
        };
        let unbound = UnboundKey::new(algorithm, key).map_err(|_| WRONG)?;
        Ok(Self::Short(Box::new(LessSafeKey::new(unbound))))
    }

    /// Length of a nonce, in bytes.
    pub(crate) const fn nonce_bytes(&self) -> usize {
        match self {
            Self::Short(_) => NONCE_LEN,
            Self::Extended(_) => xchacha::NONCE_BYTES,
        }
    }

    /// Encrypts under a nonce drawn from the system.
    pub(crate) fn seal(&self, associated: &[u8], plain: &[u8]) -> Result<Vec<u8>> {
        let mut nonce = [0; xchacha::NONCE_BYTES];
        let nonce = &mut nonce[..self.nonce_bytes()];
        random::fill(nonce)?;
        self.seal_with(nonce, associated, plain)
    }

    /// Encrypts under a nonce that belongs to these inputs alone, as convergent keys do.
    pub(crate) fn seal_with(
        &self,
        nonce: &[u8],
        associated: &[u8],
        plain: &[u8],
    ) -> Result<Vec<u8>> {
        assert_eq!(nonce.len(), self.nonce_bytes(), "a nonce is as long as its cipher wants it");
        let mut sealed = Vec::with_capacity(nonce.len() + plain.len() + TAG_BYTES);
        sealed.extend_from_slice(nonce);
        match self {
            Self::Short(key) => {
                sealed.resize(nonce.len() + plain.len() + TAG_BYTES, 0);
                let (ciphertext, tag) = sealed[nonce.len()..].split_at_mut(plain.len());
                key.seal_out_of_place_scatter(
                    short_nonce(nonce),
                    Aad::from(associated),
                    plain,
                    ciphertext,
                    &[],
                    tag,
                )
                .map_err(|_| Error::invalid("the plaintext is longer than a nonce may encrypt"))?;
            }
            Self::Extended(key) => {
                let nonce = nonce.as_array().expect("the length was just checked");
                xchacha::seal(key, nonce, associated, plain, &mut sealed);
            }
        }
        Ok(sealed)
    }

    /// Decrypts what [`seal`](Self::seal) made; on failure no plaintext is left behind.
    pub(crate) fn open(&self, associated: &[u8], sealed: &[u8]) -> Result<Zeroizing<Vec<u8>>> {
        let Some((nonce, rest)) = sealed.split_at_checked(self.nonce_bytes()) else {
            return Err(Error::invalid("invalid ciphertext length"));
        };
        let Some((ciphertext, tag)) = rest.split_last_chunk::<TAG_BYTES>() else {
            return Err(not_authentic());
        };
        let mut plain = Zeroizing::new(Vec::new());
        let opened = match self {
            Self::Short(key) => {
                plain.resize(ciphertext.len(), 0);
                let aad = Aad::from(associated);
                key.open_separate_gather(short_nonce(nonce), aad, ciphertext, tag, &mut plain)
                    .is_ok()
            }
            Self::Extended(key) => {
                let nonce = nonce.as_array().expect("the sealed bytes were split there");
                plain.reserve_exact(ciphertext.len());
                xchacha::open(key, nonce, associated, ciphertext, tag, &mut plain).is_ok()
            }
        };
        if opened { Ok(plain) } else { Err(not_authentic()) }
    }
}

fn short_nonce(nonce: &[u8]) -> Nonce {
    Nonce::try_assume_unique_for_key(nonce).expect("a nonce of twelve bytes")
}

/// One answer for a wrong key, wrong associated data, and flipped, missing or added bytes.
fn not_authentic() -> Error {
    Error::invalid("cipher: message authentication failed")
}

#[cfg(test)]
mod tests {
    use super::*;

    const KINDS: [(KeyKind, usize); 4] = [
        (KeyKind::Aes128Gcm96, 16),
        (KeyKind::Aes256Gcm96, 32),
        (KeyKind::ChaCha20Poly1305, 32),
        (KeyKind::XChaCha20Poly1305, 32),
    ];

    #[test]
    fn what_was_sealed_opens_and_no_changed_bit_does() {
        for (kind, key_bytes) in KINDS {
            let cipher = KeyedCipher::new(kind, &vec![7; key_bytes]).unwrap();
            let sealed = cipher.seal(b"beside", b"a plaintext").unwrap();
            assert_eq!(sealed.len(), cipher.nonce_bytes() + 11 + TAG_BYTES);
            assert_eq!(*cipher.open(b"beside", &sealed).unwrap(), b"a plaintext");
            assert_eq!(cipher.open(b"", &sealed).unwrap_err(), not_authentic());
            for bit in 0..8 * sealed.len() {
                let mut flipped = sealed.clone();
                flipped[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(cipher.open(b"beside", &flipped).unwrap_err(), not_authentic());
            }
            for length in 0..sealed.len() {
                assert!(cipher.open(b"beside", &sealed[..length]).is_err());
            }
        }
    }

    #[test]
    fn nonces_differ_and_keys_have_their_length() {
        for (kind, key_bytes) in KINDS {
            let cipher = KeyedCipher::new(kind, &vec![7; key_bytes]).unwrap();
            assert_ne!(cipher.seal(b"", b"x").unwrap(), cipher.seal(b"", b"x").unwrap());
            assert!(KeyedCipher::new(kind, &vec![7; key_bytes + 1]).is_err());
        }
        assert!(KeyedCipher::new(KeyKind::Hmac, &[7; 32]).is_err());
    }
}
