//! One version of a key: its secret material, its HMAC key and when it was made.
//!
//! Versions are immutable and shared between a key and its successors. The cipher of a version is
//! set up at its first use and kept: doing it per request costs more than a small encryption.

use std::sync::OnceLock;

use zeroize::Zeroizing;

use crate::cipher::KeyedCipher;
use crate::ecdsa::Ecdsa;
use crate::ed25519::Ed25519;
use crate::error::{Error, Result};
use crate::kind::{KeyFamily, KeyKind};
use crate::limits::{HMAC_KEY_BYTES_MAX, HMAC_KEY_BYTES_MIN};
use crate::public::PublicHalf;
use crate::random;
use crate::rsa::Rsa;

/// Bytes of the HMAC key that every version of another type has besides.
const SIDE_HMAC_KEY_BYTES: usize = 32;

/// What a key is made of.
pub(crate) enum Material {
    /// The key of a cipher or of an HMAC.
    Bytes(Zeroizing<Vec<u8>>),
    Ed25519(Ed25519),
    Ecdsa(Ecdsa),
    Rsa(Box<Rsa>),
    /// The public half of any of the pairs, without its private one.
    Public(Box<PublicHalf>),
}

/// One version.
pub(crate) struct KeyVersionMaterial {
    /// Nanoseconds since 1970.
    pub(crate) made_ns: i64,
    pub(crate) material: Material,
    /// What HMACs are made with, unless the key is for HMACs only; empty then, and if it has none.
    pub(crate) hmac_key: Zeroizing<Vec<u8>>,
    cipher: OnceLock<KeyedCipher>,
}

impl Material {
    /// New material of a type; `hmac_bytes` is how long an HMAC key is.
    pub(crate) fn make(kind: KeyKind, hmac_bytes: usize) -> Result<Self> {
        Ok(match kind.family() {
            KeyFamily::Aead(count) => Self::Bytes(random::make_bytes(count)?),
            KeyFamily::Hmac => Self::Bytes(random::make_bytes(hmac_bytes)?),
            KeyFamily::Ed25519 => Self::Ed25519(Ed25519::make()?),
            KeyFamily::Ecdsa => Self::Ecdsa(Ecdsa::make(kind)?),
            KeyFamily::Rsa => Self::Rsa(Box::new(Rsa::make(kind)?)),
        })
    }

    /// Material of its bytes in a record or an import: a raw key, a seed, or a PKCS#8 document.
    pub(crate) fn from_bytes(kind: KeyKind, bytes: &[u8]) -> Result<Self> {
        Ok(match kind.family() {
            KeyFamily::Aead(count) if bytes.len() != count => {
                return Err(Error::invalid(format!(
                    "invalid key size {} bytes for key type {}",
                    bytes.len(),
                    kind.name()
                )));
            }
            KeyFamily::Hmac
                if bytes.len() < HMAC_KEY_BYTES_MIN || bytes.len() > HMAC_KEY_BYTES_MAX =>
            {
                return Err(Error::invalid(format!(
                    "invalid key size for HMAC key, must be between {HMAC_KEY_BYTES_MIN} and \
                     {HMAC_KEY_BYTES_MAX} bytes"
                )));
            }
            KeyFamily::Aead(_) | KeyFamily::Hmac => Self::Bytes(Zeroizing::new(bytes.to_vec())),
            KeyFamily::Ed25519 => Self::Ed25519(Ed25519::from_seed(bytes)?),
            KeyFamily::Ecdsa => Self::Ecdsa(Ecdsa::from_pkcs8(kind, bytes)?),
            KeyFamily::Rsa => Self::Rsa(Box::new(Rsa::from_pkcs8(kind, bytes)?)),
        })
    }

    /// The public half, of pairs.
    pub(crate) fn public_spki(&self) -> Result<Option<Vec<u8>>> {
        Ok(match self {
            Self::Bytes(_) => None,
            Self::Ed25519(pair) => Some(pair.public_der()?),
            Self::Ecdsa(pair) => Some(pair.public_der()?),
            Self::Rsa(pair) => Some(pair.public_der()?),
            Self::Public(half) => Some(half.spki().to_vec()),
        })
    }

    /// The bytes of which [`from_bytes`](Self::from_bytes) makes the same again, or a SubjectPublicKeyInfo.
    pub(crate) fn to_bytes(&self) -> Result<Zeroizing<Vec<u8>>> {
        match self {
            Self::Bytes(bytes) => Ok(bytes.clone()),
            Self::Ed25519(pair) => Ok(Zeroizing::new(pair.seed().to_vec())),
            Self::Ecdsa(pair) => pair.pkcs8(),
            Self::Rsa(pair) => Ok(Zeroizing::new(pair.pkcs8().to_vec())),
            Self::Public(half) => Ok(Zeroizing::new(half.spki().to_vec())),
        }
    }

    /// What keys are derived from.
    pub(crate) fn derivation_key(&self) -> Result<Zeroizing<Vec<u8>>> {
        match self {
            Self::Bytes(bytes) => Ok(bytes.clone()),
            Self::Ed25519(pair) => Ok(pair.private()),
            Self::Ecdsa(_) | Self::Rsa(_) | Self::Public(_) => {
                Err(Error::Damaged("a derived key of a type with none"))
            }
        }
    }
}

impl KeyVersionMaterial {
    /// A new version of a type.
    pub(crate) fn make(kind: KeyKind, hmac_bytes: usize, made_ns: i64) -> Result<Self> {
        Self::with_material(kind, Material::make(kind, hmac_bytes)?, made_ns)
    }

    /// A new version of material brought from elsewhere.
    pub(crate) fn with_material(kind: KeyKind, material: Material, made_ns: i64) -> Result<Self> {
        let side_bytes = if kind == KeyKind::Hmac { 0 } else { SIDE_HMAC_KEY_BYTES };
        Ok(Self::from_parts(made_ns, material, random::make_bytes(side_bytes)?))
    }

    /// A version that was stored.
    pub(crate) const fn from_parts(
        made_ns: i64,
        material: Material,
        hmac_key: Zeroizing<Vec<u8>>,
    ) -> Self {
        Self { made_ns, material, hmac_key, cipher: OnceLock::new() }
    }

    /// The cipher under this version's own key.
    pub(crate) fn cipher(&self, kind: KeyKind) -> Result<&KeyedCipher> {
        if let Some(cipher) = self.cipher.get() {
            return Ok(cipher);
        }
        let Material::Bytes(key) = &self.material else {
            return Err(Error::Damaged("a cipher of a key that is none"));
        };
        let made = KeyedCipher::new(kind, key)?;
        Ok(self.cipher.get_or_init(|| made))
    }

    /// The key that HMACs are made with; empty if there is none.
    pub(crate) fn hmac_key(&self, kind: KeyKind) -> &[u8] {
        match &self.material {
            Material::Bytes(key) if kind == KeyKind::Hmac => key,
            _ => &self.hmac_key,
        }
    }
}
