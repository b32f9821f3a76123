//! The hash algorithms by their names on the wire, and what the library beneath can do with each.

use aws_lc_rs::{digest, hmac};

use crate::error::{Error, Result};

/// A hash algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HashAlgorithm {
    /// SHA-1, for what was signed long ago.
    Sha1,
    /// SHA-224.
    Sha2_224,
    /// SHA-256.
    Sha2_256,
    /// SHA-384.
    Sha2_384,
    /// SHA-512.
    Sha2_512,
    /// SHA3-256.
    Sha3_256,
    /// SHA3-384.
    Sha3_384,
    /// SHA3-512.
    Sha3_512,
}

const HASHES: [(&str, HashAlgorithm); 8] = [
    ("sha1", HashAlgorithm::Sha1),
    ("sha2-224", HashAlgorithm::Sha2_224),
    ("sha2-256", HashAlgorithm::Sha2_256),
    ("sha2-384", HashAlgorithm::Sha2_384),
    ("sha2-512", HashAlgorithm::Sha2_512),
    ("sha3-256", HashAlgorithm::Sha3_256),
    ("sha3-384", HashAlgorithm::Sha3_384),
    ("sha3-512", HashAlgorithm::Sha3_512),
];

impl HashAlgorithm {
    /// The algorithm with this name. `sha3-224` has none here: no maintained library in the tree has it.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        HASHES.iter().find(|(known, _)| *known == name).map(|&(_, hash)| hash)
    }

    /// The digest of `input`.
    #[must_use]
    pub fn digest(self, input: &[u8]) -> Vec<u8> {
        digest::digest(self.algorithm(), input).as_ref().to_vec()
    }

    pub(crate) const fn algorithm(self) -> &'static digest::Algorithm {
        match self {
            Self::Sha1 => &digest::SHA1_FOR_LEGACY_USE_ONLY,
            Self::Sha2_224 => &digest::SHA224,
            Self::Sha2_256 => &digest::SHA256,
            Self::Sha2_384 => &digest::SHA384,
            Self::Sha2_512 => &digest::SHA512,
            Self::Sha3_256 => &digest::SHA3_256,
            Self::Sha3_384 => &digest::SHA3_384,
            Self::Sha3_512 => &digest::SHA3_512,
        }
    }

    /// The HMAC over this hash.
    pub(crate) fn hmac(self) -> Result<hmac::Algorithm> {
        Ok(match self {
            Self::Sha1 => hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY,
            Self::Sha2_224 => hmac::HMAC_SHA224,
            Self::Sha2_256 => hmac::HMAC_SHA256,
            Self::Sha2_384 => hmac::HMAC_SHA384,
            Self::Sha2_512 => hmac::HMAC_SHA512,
            Self::Sha3_256 | Self::Sha3_384 | Self::Sha3_512 => {
                return Err(Error::invalid("HMACs are made with sha1 and sha2 only"));
            }
        })
    }
}
