//! Ed25519 (RFC 8032): signatures over the message itself, which the scheme hashes twice.

use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der, PublicKeyX509Der};
use aws_lc_rs::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use zeroize::Zeroizing;

use crate::error::{Error, Result};
use crate::random;

const SEED_BYTES: usize = 32;

/// A key pair with the seed it came from.
pub(crate) struct Ed25519 {
    seed: Zeroizing<[u8; SEED_BYTES]>,
    pair: Ed25519KeyPair,
}

impl Ed25519 {
    pub(crate) fn make() -> Result<Self> {
        let seed = random::make_bytes(SEED_BYTES)?;
        Self::from_seed(&seed)
    }

    pub(crate) fn from_seed(seed: &[u8]) -> Result<Self> {
        const WRONG: Error = Error::Damaged("an ed25519 seed");
        let seed = Zeroizing::new(*seed.as_array().ok_or(WRONG)?);
        let pair = Ed25519KeyPair::from_seed_unchecked(&*seed).map_err(|_| WRONG)?;
        Ok(Self { seed, pair })
    }

    /// The pair of a PKCS#8 document.
    pub(crate) fn from_pkcs8(pkcs8: &[u8]) -> Result<Self> {
        let refuse = || Error::invalid("error parsing asymmetric key: no ed25519 key in PKCS#8");
        let pair = Ed25519KeyPair::from_pkcs8_maybe_unchecked(pkcs8).map_err(|_| refuse())?;
        let seed = pair.seed().map_err(|_| refuse())?;
        use aws_lc_rs::encoding::{AsBigEndian, Curve25519SeedBin};
        let bytes: Curve25519SeedBin<'_> = seed.as_be_bytes().map_err(|_| refuse())?;
        Self::from_seed(bytes.as_ref())
    }

    pub(crate) fn seed(&self) -> &[u8] {
        &*self.seed
    }

    pub(crate) fn public(&self) -> &[u8] {
        self.pair.public_key().as_ref()
    }

    /// Seed and public key, which is what the contract calls the private key.
    pub(crate) fn private(&self) -> Zeroizing<Vec<u8>> {
        Zeroizing::new([self.seed(), self.public()].concat())
    }

    pub(crate) fn pkcs8(&self) -> Result<Zeroizing<Vec<u8>>> {
        let der: Pkcs8V1Der<'_> = self.pair.as_der().map_err(|_| unwritable())?;
        Ok(Zeroizing::new(der.as_ref().to_vec()))
    }

    pub(crate) fn public_der(&self) -> Result<Vec<u8>> {
        let der: PublicKeyX509Der<'_> =
            self.pair.public_key().as_der().map_err(|_| unwritable())?;
        Ok(der.as_ref().to_vec())
    }

    pub(crate) fn sign(&self, message: &[u8]) -> Vec<u8> {
        self.pair.sign(message).as_ref().to_vec()
    }

    pub(crate) fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        verifies(self.public(), message, signature)
    }
}

/// Whether a signature is of this message, by a public key.
pub(crate) fn verifies(public: &[u8], message: &[u8], signature: &[u8]) -> bool {
    UnparsedPublicKey::new(&ED25519, public).verify(message, signature).is_ok()
}

const fn unwritable() -> Error {
    Error::Machine("an ed25519 key could not be written")
}
