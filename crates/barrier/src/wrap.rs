//! Sealing key material under another key.
//!
//! ```text
//! sealed := format u8 (1) | commitment 32 | nonce 24 | ciphertext | tag 16
//! ```
//!
//! The commitment is that of the sealing key for the purpose, and is compared first: a wrong key is told from damage, and
//! nothing is decrypted with it. Format, commitment and purpose are bound as additional data; the purpose chooses the
//! encrypting key, too. Nonces are random: a key is wrapped a few times in its life.

use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

use crate::counted::{CountedCipher, TAG_BYTES};
use crate::derive::{COMMITMENT_BYTES, commitment, subkey};
use crate::error::{Error, Result};
use crate::random;
use crate::secret::SecretKey;
use crate::xchacha::{NONCE_BYTES, PREFIX_BYTES};

const FORMAT: u8 = 1;
const HEAD_BYTES: usize = 1 + COMMITMENT_BYTES;
const OVERHEAD: usize = HEAD_BYTES + NONCE_BYTES + TAG_BYTES;

/// What the sealed bytes are; part of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WrapPurpose {
    /// A root key under an unseal key.
    RootKey,
    /// A keyring under a root key.
    Keyring,
    /// An unseal key under a key that opens the barrier without people.
    UnsealKey,
}

impl WrapPurpose {
    fn label(self) -> &'static [u8] {
        match self {
            Self::RootKey => b"root-key/v1",
            Self::Keyring => b"keyring/v1",
            Self::UnsealKey => b"unseal-key/v1",
        }
    }
}

/// Seals `plain` under `key`.
pub(crate) fn seal(key: &SecretKey, purpose: WrapPurpose, plain: &[u8]) -> Result<Vec<u8>> {
    let mut nonce = [0; NONCE_BYTES];
    random::fill(&mut nonce)?;
    let mut out = Vec::with_capacity(OVERHEAD + plain.len());
    out.push(FORMAT);
    out.extend_from_slice(&commitment(key, purpose.label()));
    let aad = additional_data(&out, purpose);
    out.extend_from_slice(&nonce);
    cipher(key, purpose, &nonce)?.seal(counter(&nonce), &aad, plain, &mut out);
    Ok(out)
}

/// Opens what [`seal`] made.
pub(crate) fn open(
    key: &SecretKey,
    purpose: WrapPurpose,
    sealed: &[u8],
) -> Result<Zeroizing<Vec<u8>>> {
    let &format = sealed.first().ok_or(Error::Damaged("sealed keys are empty"))?;
    if format != FORMAT {
        return Err(Error::Unsupported(format));
    }
    if sealed.len() < OVERHEAD {
        return Err(Error::Damaged("sealed keys are cut off"));
    }
    let (head, rest) = sealed.split_at(HEAD_BYTES);
    if !bool::from(head[1..].ct_eq(&commitment(key, purpose.label()))) {
        return Err(Error::WrongKey);
    }
    let (nonce, rest) = rest.split_first_chunk().expect("the length was checked");
    let (ciphertext, tag) = rest.split_at(rest.len() - TAG_BYTES);
    let mut plain = Zeroizing::new(Vec::with_capacity(ciphertext.len()));
    let aad = additional_data(head, purpose);
    cipher(key, purpose, nonce)?.open(counter(nonce), &aad, ciphertext, tag, &mut plain)?;
    Ok(plain)
}

fn additional_data(head: &[u8], purpose: WrapPurpose) -> Vec<u8> {
    [head, purpose.label()].concat()
}

fn cipher(
    key: &SecretKey,
    purpose: WrapPurpose,
    nonce: &[u8; NONCE_BYTES],
) -> Result<CountedCipher> {
    let key = subkey(key, b"", purpose.label())?;
    let prefix = nonce.first_chunk::<PREFIX_BYTES>().expect("a nonce starts with its prefix");
    Ok(CountedCipher::new(key.expose(), prefix))
}

fn counter(nonce: &[u8; NONCE_BYTES]) -> [u8; NONCE_BYTES - PREFIX_BYTES] {
    *nonce.last_chunk().expect("a nonce ends in its counter")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_sealed_opens_for_its_key_and_purpose_only() {
        let (key, other) = (SecretKey::generate().unwrap(), SecretKey::generate().unwrap());
        let sealed = seal(&key, WrapPurpose::Keyring, b"keys").unwrap();
        assert_eq!(sealed.len(), OVERHEAD + 4);
        assert_eq!(**open(&key, WrapPurpose::Keyring, &sealed).unwrap(), *b"keys");
        assert_eq!(open(&other, WrapPurpose::Keyring, &sealed).err(), Some(Error::WrongKey));
        assert_eq!(open(&key, WrapPurpose::RootKey, &sealed).err(), Some(Error::WrongKey));
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_refused() {
        let key = SecretKey::generate().unwrap();
        let sealed = seal(&key, WrapPurpose::RootKey, b"key material").unwrap();
        for bit in 0..sealed.len() * 8 {
            let mut flipped = sealed.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            let expected = match bit / 8 {
                0 => Error::Unsupported(FORMAT ^ 1 << bit),
                1..HEAD_BYTES => Error::WrongKey,
                _ => Error::Damaged("the tag does not fit the bytes and their place"),
            };
            assert_eq!(
                open(&key, WrapPurpose::RootKey, &flipped).err(),
                Some(expected),
                "bit {bit}"
            );
        }
        for length in 0..sealed.len() {
            assert!(open(&key, WrapPurpose::RootKey, &sealed[..length]).is_err());
        }
    }

    #[test]
    fn nothing_can_be_sealed_too() {
        let key = SecretKey::generate().unwrap();
        let sealed = seal(&key, WrapPurpose::Keyring, b"").unwrap();
        assert_eq!(sealed.len(), OVERHEAD);
        assert_eq!(**open(&key, WrapPurpose::Keyring, &sealed).unwrap(), *b"");
    }

    /// Put together by hand, as the head of this file says it: what is bound to other data, or to none, does not open.
    #[test]
    fn format_commitment_and_purpose_are_bound_as_additional_data() {
        let (key, purpose) = (SecretKey::generate().unwrap(), WrapPurpose::RootKey);
        let nonce = [5; NONCE_BYTES];
        let head = [&[FORMAT][..], &commitment(&key, b"root-key/v1")].concat();
        let sealed_with = |aad: &[u8]| {
            let mut sealed = [&head[..], &nonce].concat();
            let cipher = cipher(&key, purpose, &nonce).unwrap();
            cipher.seal(counter(&nonce), aad, b"keys", &mut sealed);
            open(&key, purpose, &sealed).map(|plain| plain.to_vec())
        };
        assert_eq!(sealed_with(&[&head[..], b"root-key/v1"].concat()).unwrap(), b"keys");
        let others = [&b""[..], &[0], &[1], &head, b"root-key/v1"];
        for aad in others.into_iter().chain([&[&head[..], b"keyring/v1"].concat()[..]]) {
            assert!(matches!(sealed_with(aad), Err(Error::Damaged(_))), "{aad:?}");
        }
    }

    /// The tag is never asked: bytes that are damaged as well still say that the key is wrong.
    #[test]
    fn a_wrong_key_is_known_before_anything_is_decrypted() {
        let (key, other) = (SecretKey::generate().unwrap(), SecretKey::generate().unwrap());
        let mut sealed = seal(&key, WrapPurpose::Keyring, b"keys").unwrap();
        let last = sealed.len() - 1;
        sealed[last] ^= 1;
        assert_eq!(open(&other, WrapPurpose::Keyring, &sealed).err(), Some(Error::WrongKey));
    }
}
