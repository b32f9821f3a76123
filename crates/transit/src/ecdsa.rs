//! ECDSA over the NIST curves, signing digests of any length.
//!
//! The library pairs each curve with one hash. The scheme itself takes the leftmost bits of any
//! digest, as many as the curve has, and a shorter one as the number it is (FIPS 186-5, 6.4.1;
//! RFC 6979, 2.3.2). So a digest is cut or led by zeros to the length of the hash the library
//! expects, which is the same number, and may be of any hash.

use aws_lc_rs::digest::{Algorithm, Digest, SHA256, SHA384, SHA512};
use aws_lc_rs::encoding::{
    AsBigEndian, AsDer, EcPrivateKeyBin, EcPrivateKeyRfc5915Der, PublicKeyX509Der,
};
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1, ECDSA_P256_SHA256_ASN1_SIGNING, ECDSA_P256_SHA256_FIXED,
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_ASN1, ECDSA_P384_SHA384_ASN1_SIGNING,
    ECDSA_P384_SHA384_FIXED, ECDSA_P384_SHA384_FIXED_SIGNING, ECDSA_P521_SHA512_ASN1,
    ECDSA_P521_SHA512_ASN1_SIGNING, ECDSA_P521_SHA512_FIXED, ECDSA_P521_SHA512_FIXED_SIGNING,
    EcdsaKeyPair, EcdsaSigningAlgorithm, EcdsaVerificationAlgorithm, KeyPair, ParsedPublicKey,
    UnparsedPublicKey,
};
use zeroize::Zeroizing;

use crate::error::{Error, Result};
use crate::kind::KeyKind;
use crate::sign::Marshaling;

/// A curve, with what the library has for it.
pub(crate) struct Curve {
    /// The name on the wire.
    pub(crate) name: &'static str,
    /// Length of a coordinate, in bytes.
    pub(crate) coordinate_bytes: usize,
    digest: &'static Algorithm,
    asn1: &'static EcdsaSigningAlgorithm,
    fixed: &'static EcdsaSigningAlgorithm,
    verify_asn1: &'static EcdsaVerificationAlgorithm,
    verify_fixed: &'static EcdsaVerificationAlgorithm,
}

static P256: Curve = Curve {
    name: "P-256",
    coordinate_bytes: 32,
    digest: &SHA256,
    asn1: &ECDSA_P256_SHA256_ASN1_SIGNING,
    fixed: &ECDSA_P256_SHA256_FIXED_SIGNING,
    verify_asn1: &ECDSA_P256_SHA256_ASN1,
    verify_fixed: &ECDSA_P256_SHA256_FIXED,
};
static P384: Curve = Curve {
    name: "P-384",
    coordinate_bytes: 48,
    digest: &SHA384,
    asn1: &ECDSA_P384_SHA384_ASN1_SIGNING,
    fixed: &ECDSA_P384_SHA384_FIXED_SIGNING,
    verify_asn1: &ECDSA_P384_SHA384_ASN1,
    verify_fixed: &ECDSA_P384_SHA384_FIXED,
};
static P521: Curve = Curve {
    name: "P-521",
    coordinate_bytes: 66,
    digest: &SHA512,
    asn1: &ECDSA_P521_SHA512_ASN1_SIGNING,
    fixed: &ECDSA_P521_SHA512_FIXED_SIGNING,
    verify_asn1: &ECDSA_P521_SHA512_ASN1,
    verify_fixed: &ECDSA_P521_SHA512_FIXED,
};

impl Curve {
    /// The curve of a type of key.
    pub(crate) fn of(kind: KeyKind) -> Result<&'static Self> {
        match kind {
            KeyKind::EcdsaP256 => Ok(&P256),
            KeyKind::EcdsaP384 => Ok(&P384),
            KeyKind::EcdsaP521 => Ok(&P521),
            _ => Err(Error::Damaged("a curve of a key that has none")),
        }
    }

    /// Whether a point, uncompressed, is one of the curve.
    pub(crate) fn holds(&self, point: &[u8]) -> bool {
        point.len() == 1 + 2 * self.coordinate_bytes
            && ParsedPublicKey::new(self.verify_asn1, point).is_ok()
    }

    /// Whether a signature is of this digest, by the public point.
    pub(crate) fn verifies(
        &self,
        point: &[u8],
        digest: &[u8],
        signature: &[u8],
        marshaling: Marshaling,
    ) -> Result<bool> {
        let algorithm = match marshaling {
            Marshaling::Asn1 => self.verify_asn1,
            Marshaling::Jws => self.verify_fixed,
        };
        let public = UnparsedPublicKey::new(algorithm, point);
        Ok(public.verify_digest(&self.fit(digest)?, signature).is_ok())
    }

    /// A digest of any hash as one of the hash that goes with this curve.
    fn fit(&self, digest: &[u8]) -> Result<Digest> {
        let wanted = self.digest.output_len();
        // P-521 has more bits than its hash: what is longer would have to be cut to 521 bits.
        if digest.len() > wanted && wanted < self.coordinate_bytes {
            return Err(Error::invalid("the prehashed input is longer than any digest"));
        }
        let mut bytes = vec![0; wanted.saturating_sub(digest.len())];
        bytes.extend_from_slice(&digest[..digest.len().min(wanted)]);
        Digest::import_less_safe(&bytes, self.digest)
            .map_err(|_| Error::Machine("a digest was not taken"))
    }
}

/// A key pair. The library ties a pair to a form of signature, so there are two of it.
pub(crate) struct Ecdsa {
    curve: &'static Curve,
    asn1: EcdsaKeyPair,
    fixed: EcdsaKeyPair,
}

impl Ecdsa {
    pub(crate) fn make(kind: KeyKind) -> Result<Self> {
        let curve = Curve::of(kind)?;
        let pair = EcdsaKeyPair::generate(curve.asn1)
            .map_err(|_| Error::Machine("an elliptic-curve key could not be made"))?;
        Self::from_pair(curve, pair)
    }

    /// The pair of a PKCS#8 document.
    pub(crate) fn from_pkcs8(kind: KeyKind, pkcs8: &[u8]) -> Result<Self> {
        let curve = Curve::of(kind)?;
        let pair = EcdsaKeyPair::from_pkcs8(curve.asn1, pkcs8).map_err(|_| {
            let name = curve.name;
            Error::invalid(format!("error parsing asymmetric key: no {name} key in PKCS#8"))
        })?;
        Self::from_pair(curve, pair)
    }

    /// The pair of a private scalar and a public point, each coordinate big-endian and padded.
    pub(crate) fn from_parts(kind: KeyKind, scalar: &[u8], x: &[u8], y: &[u8]) -> Result<Self> {
        let curve = Curve::of(kind)?;
        let point = [&[4], x, y].concat();
        let pair = EcdsaKeyPair::from_private_key_and_public_key(curve.asn1, scalar, &point)
            .map_err(|_| Error::invalid("the parts of an elliptic-curve key do not fit"))?;
        Self::from_pair(curve, pair)
    }

    fn from_pair(curve: &'static Curve, asn1: EcdsaKeyPair) -> Result<Self> {
        let der = pkcs8(&asn1)?;
        let fixed = EcdsaKeyPair::from_pkcs8(curve.fixed, &der)
            .map_err(|_| Error::Machine("an elliptic-curve key could not be read back"))?;
        Ok(Self { curve, asn1, fixed })
    }

    pub(crate) const fn curve(&self) -> &'static Curve {
        self.curve
    }

    pub(crate) fn pkcs8(&self) -> Result<Zeroizing<Vec<u8>>> {
        pkcs8(&self.asn1)
    }

    /// The private key in the form of RFC 5915.
    pub(crate) fn sec1(&self) -> Result<Zeroizing<Vec<u8>>> {
        let der: EcPrivateKeyRfc5915Der<'_> =
            self.asn1.private_key().as_der().map_err(|_| unwritable())?;
        Ok(Zeroizing::new(der.as_ref().to_vec()))
    }

    /// The private scalar, big-endian and padded.
    pub(crate) fn scalar(&self) -> Result<Zeroizing<Vec<u8>>> {
        let bytes: EcPrivateKeyBin<'_> =
            self.asn1.private_key().as_be_bytes().map_err(|_| unwritable())?;
        Ok(Zeroizing::new(bytes.as_ref().to_vec()))
    }

    /// The coordinates of the public point.
    pub(crate) fn coordinates(&self) -> (&[u8], &[u8]) {
        let point = self.asn1.public_key().as_ref();
        point[1..].split_at(self.curve.coordinate_bytes)
    }

    pub(crate) fn public_der(&self) -> Result<Vec<u8>> {
        let der: PublicKeyX509Der<'_> =
            self.asn1.public_key().as_der().map_err(|_| unwritable())?;
        Ok(der.as_ref().to_vec())
    }

    pub(crate) fn sign(&self, digest: &[u8], marshaling: Marshaling) -> Result<Vec<u8>> {
        let pair = match marshaling {
            Marshaling::Asn1 => &self.asn1,
            Marshaling::Jws => &self.fixed,
        };
        let signature = pair
            .sign_digest(&self.curve.fit(digest)?)
            .map_err(|_| Error::Machine("a signature could not be made"))?;
        Ok(signature.as_ref().to_vec())
    }

    pub(crate) fn verifies(
        &self,
        digest: &[u8],
        signature: &[u8],
        marshaling: Marshaling,
    ) -> Result<bool> {
        self.curve.verifies(self.asn1.public_key().as_ref(), digest, signature, marshaling)
    }
}

fn pkcs8(pair: &EcdsaKeyPair) -> Result<Zeroizing<Vec<u8>>> {
    let document = pair.to_pkcs8v1().map_err(|_| unwritable())?;
    Ok(Zeroizing::new(document.as_ref().to_vec()))
}

const fn unwritable() -> Error {
    Error::Machine("an elliptic-curve key could not be written")
}
