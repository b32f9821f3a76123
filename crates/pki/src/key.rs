//! Keys: making, reading and writing them, and signing with them.

use std::fmt;
use std::sync::Arc;

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use aws_lc_rs::encoding::{AsBigEndian as _, AsDer as _, Pkcs8V1Der, PublicKeyX509Der};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1_SIGNING, ECDSA_P384_SHA384_ASN1_SIGNING, ECDSA_P521_SHA512_ASN1_SIGNING,
    EcdsaKeyPair, EcdsaSigningAlgorithm, Ed25519KeyPair, KeyPair as _, RsaKeyPair,
};
use der::asn1::{AnyRef, BitStringRef, ObjectIdentifier, OctetStringRef, SetOfVec, UintRef};
use der::{Any, Decode as _, Encode as _, Sequence};
use zeroize::Zeroizing;

use crate::error::{Error, Result};
use crate::oid;
use crate::pem::{self, Label};
use crate::signature::SignatureAlgorithm;

/// A kind of key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PkiKeyKind {
    /// RSA, with a modulus of so many bits.
    Rsa(u16),
    /// ECDSA over P-256.
    P256,
    /// ECDSA over P-384.
    P384,
    /// ECDSA over P-521.
    P521,
    /// Ed25519.
    Ed25519,
}

impl PkiKeyKind {
    /// The kind that a request names by its type and bits, 0 for the usual ones.
    ///
    /// # Errors
    /// [`Error::Invalid`] saying what is not supported.
    pub fn named(key_type: &str, bits: i64) -> Result<Self> {
        match (key_type, bits) {
            ("rsa", 0 | 2048) => Ok(Self::Rsa(2048)),
            ("rsa", 3072) => Ok(Self::Rsa(3072)),
            ("rsa", 4096) => Ok(Self::Rsa(4096)),
            ("rsa", 8192) => Ok(Self::Rsa(8192)),
            ("rsa", bits) if bits < 2048 => Err(Error::invalid(format!(
                "RSA keys < 2048 bits are unsafe and not supported: got {bits}"
            ))),
            ("rsa", bits) => {
                Err(Error::invalid(format!("unsupported bit length for RSA key: {bits}")))
            }
            ("ec", 0 | 256) => Ok(Self::P256),
            ("ec", 384) => Ok(Self::P384),
            ("ec", 521) => Ok(Self::P521),
            ("ec", bits) => {
                Err(Error::invalid(format!("unsupported bit length for EC key: {bits}")))
            }
            ("ed25519", _) => Ok(Self::Ed25519),
            (other, _) => Err(Error::invalid(format!("unknown key type {other}"))),
        }
    }

    /// Its type as requests name it.
    pub const fn type_name(self) -> &'static str {
        match self {
            Self::Rsa(_) => "rsa",
            Self::P256 | Self::P384 | Self::P521 => "ec",
            Self::Ed25519 => "ed25519",
        }
    }

    /// Its bits as requests name them; 0 where there is but one size.
    pub const fn bits(self) -> u16 {
        match self {
            Self::Rsa(bits) => bits,
            Self::P256 => 256,
            Self::P384 => 384,
            Self::P521 => 521,
            Self::Ed25519 => 0,
        }
    }
}

/// How a private key is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrivateKeyForm {
    /// PKCS #1 for RSA, SEC 1 for curves, PKCS #8 for Ed25519.
    Traditional,
    /// PKCS #8.
    Pkcs8,
}

enum KeyPair {
    Rsa(Box<RsaKeyPair>),
    Ec(EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
}

/// A private key. Never printed.
pub struct PrivateKey {
    kind: PkiKeyKind,
    pair: KeyPair,
    pkcs8: Zeroizing<Vec<u8>>,
    public: PublicKey,
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PrivateKey")
    }
}

#[derive(Sequence)]
struct AlgorithmRef<'a> {
    oid: ObjectIdentifier,
    parameters: Option<AnyRef<'a>>,
}

#[derive(Sequence)]
struct PrivateKeyInfoRef<'a> {
    version: u8,
    algorithm: AlgorithmRef<'a>,
    private_key: &'a OctetStringRef,
    #[asn1(context_specific = "0", tag_mode = "IMPLICIT", optional = "true")]
    attributes: Option<SetOfVec<Any>>,
    #[asn1(context_specific = "1", tag_mode = "IMPLICIT", optional = "true")]
    public_key: Option<BitStringRef<'a>>,
}

/// RFC 5915.
#[derive(Sequence)]
struct EcPrivateKeyRef<'a> {
    version: u8,
    scalar: &'a OctetStringRef,
    #[asn1(context_specific = "0", tag_mode = "EXPLICIT", optional = "true")]
    curve: Option<ObjectIdentifier>,
    #[asn1(context_specific = "1", tag_mode = "EXPLICIT", optional = "true")]
    point: Option<BitStringRef<'a>>,
}

#[derive(Sequence)]
struct SpkiRef<'a> {
    algorithm: AlgorithmRef<'a>,
    bits: BitStringRef<'a>,
}

#[derive(Sequence)]
struct RsaPublicRef<'a> {
    modulus: UintRef<'a>,
    exponent: UintRef<'a>,
}

const fn ec_algorithm(kind: PkiKeyKind) -> Option<&'static EcdsaSigningAlgorithm> {
    match kind {
        PkiKeyKind::P256 => Some(&ECDSA_P256_SHA256_ASN1_SIGNING),
        PkiKeyKind::P384 => Some(&ECDSA_P384_SHA384_ASN1_SIGNING),
        PkiKeyKind::P521 => Some(&ECDSA_P521_SHA512_ASN1_SIGNING),
        PkiKeyKind::Rsa(_) | PkiKeyKind::Ed25519 => None,
    }
}

const fn curve_of(kind: PkiKeyKind) -> Option<ObjectIdentifier> {
    match kind {
        PkiKeyKind::P256 => Some(oid::P256),
        PkiKeyKind::P384 => Some(oid::P384),
        PkiKeyKind::P521 => Some(oid::P521),
        PkiKeyKind::Rsa(_) | PkiKeyKind::Ed25519 => None,
    }
}

/// An ECPrivateKey, with the name of its curve where nothing around it has it. The library would compute the coordinates of the public point anew for each
/// text that it writes, which takes as long as all else in it.
fn write_ec(pair: &EcdsaKeyPair, curve: Option<ObjectIdentifier>) -> Result<Zeroizing<Vec<u8>>> {
    let scalar = pair.private_key().as_be_bytes();
    let scalar = scalar.map_err(|_| Error::Machine("a key could not be written"))?;
    let key = EcPrivateKeyRef {
        version: 1,
        scalar: OctetStringRef::new(scalar.as_ref())?,
        curve,
        point: Some(BitStringRef::from_bytes(pair.public_key().as_ref())?),
    };
    Ok(Zeroizing::new(key.to_der()?))
}

const CURVES: [PkiKeyKind; 3] = [PkiKeyKind::P256, PkiKeyKind::P384, PkiKeyKind::P521];

fn unmakable<T>(_: T) -> Error {
    Error::Machine("a key could not be made")
}

impl PrivateKey {
    /// A new key. RSA takes up to seconds.
    ///
    /// # Errors
    /// When the library gives none.
    pub fn make(kind: PkiKeyKind) -> Result<Self> {
        let pair = match kind {
            PkiKeyKind::Rsa(bits) => {
                let size = match bits {
                    2048 => KeySize::Rsa2048,
                    3072 => KeySize::Rsa3072,
                    4096 => KeySize::Rsa4096,
                    8192 => KeySize::Rsa8192,
                    _ => return Err(Error::Machine("an RSA key of another size")),
                };
                KeyPair::Rsa(Box::new(RsaKeyPair::generate(size).map_err(unmakable)?))
            }
            PkiKeyKind::Ed25519 => KeyPair::Ed25519(Ed25519KeyPair::generate().map_err(unmakable)?),
            PkiKeyKind::P256 | PkiKeyKind::P384 | PkiKeyKind::P521 => {
                let algorithm = ec_algorithm(kind).ok_or(Error::Machine("no curve"))?;
                KeyPair::Ec(EcdsaKeyPair::generate(algorithm).map_err(unmakable)?)
            }
        };
        Self::of(kind, pair)
    }

    fn of(kind: PkiKeyKind, pair: KeyPair) -> Result<Self> {
        let unwritable = |_| Error::Machine("a key could not be written");
        let (pkcs8, public) = match &pair {
            KeyPair::Rsa(pair) => {
                let pkcs8: Pkcs8V1Der<'_> = pair.as_der().map_err(unwritable)?;
                let spki: PublicKeyX509Der<'_> = pair.public_key().as_der().map_err(unwritable)?;
                let public = PublicKey::from_spki(spki.as_ref())?;
                (Zeroizing::new(pkcs8.as_ref().to_vec()), public)
            }
            KeyPair::Ec(pair) => {
                let curve = curve_of(kind);
                let key = write_ec(pair, None)?;
                let info = PrivateKeyInfoRef {
                    version: 0,
                    algorithm: AlgorithmRef {
                        oid: oid::EC_PUBLIC_KEY,
                        parameters: curve.as_ref().map(AnyRef::from),
                    },
                    private_key: OctetStringRef::new(&key)?,
                    attributes: None,
                    public_key: None,
                };
                let pkcs8 = Zeroizing::new(info.to_der()?);
                (pkcs8, PublicKey::of_curve(kind, pair.public_key().as_ref())?)
            }
            KeyPair::Ed25519(pair) => {
                let pkcs8 = pair.to_pkcs8v1().map_err(unwritable)?;
                let public = PublicKey::of_curve(kind, pair.public_key().as_ref())?;
                (Zeroizing::new(pkcs8.as_ref().to_vec()), public)
            }
        };
        Ok(Self { kind, pair, pkcs8, public })
    }

    /// The key of a PKCS #8 document.
    ///
    /// # Errors
    /// [`Error::Invalid`] when there is none, or of a kind that is not supported.
    pub fn from_pkcs8(bytes: &[u8]) -> Result<Self> {
        let unreadable = || Error::invalid("the private key could not be parsed");
        let info = PrivateKeyInfoRef::from_der(bytes).map_err(|_| unreadable())?;
        if info.algorithm.oid == oid::RSA_ENCRYPTION {
            let pair = RsaKeyPair::from_pkcs8(bytes).map_err(|_| unreadable())?;
            return Self::of_rsa(pair);
        }
        if info.algorithm.oid == oid::ED25519 {
            let pair = Ed25519KeyPair::from_pkcs8_maybe_unchecked(bytes);
            return Self::of(
                PkiKeyKind::Ed25519,
                KeyPair::Ed25519(pair.map_err(|_| unreadable())?),
            );
        }
        for kind in CURVES {
            if let Some(algorithm) = ec_algorithm(kind)
                && let Ok(pair) = EcdsaKeyPair::from_pkcs8(algorithm, bytes)
            {
                return Self::of(kind, KeyPair::Ec(pair));
            }
        }
        Err(unreadable())
    }

    fn of_rsa(pair: RsaKeyPair) -> Result<Self> {
        let bits = pair.public_modulus_len() * 8;
        if bits < 2048 {
            return Err(Error::invalid(format!(
                "RSA keys < 2048 bits are unsafe and not supported: got {bits}"
            )));
        }
        let bits = u16::try_from(bits).map_err(|_| Error::invalid("the RSA key is too long"))?;
        Self::of(PkiKeyKind::Rsa(bits), KeyPair::Rsa(Box::new(pair)))
    }

    /// The key of a block of PEM, of whichever form.
    ///
    /// # Errors
    /// As [`from_pkcs8`](Self::from_pkcs8).
    pub fn from_pem(label: Label, bytes: &[u8]) -> Result<Self> {
        let unreadable = || Error::invalid("the private key could not be parsed");
        match label {
            Label::PrivateKey => Self::from_pkcs8(bytes),
            Label::RsaPrivateKey => {
                Self::of_rsa(RsaKeyPair::from_der(bytes).map_err(|_| unreadable())?)
            }
            Label::EcPrivateKey => {
                for kind in CURVES {
                    if let Some(algorithm) = ec_algorithm(kind)
                        && let Ok(pair) = EcdsaKeyPair::from_private_key_der(algorithm, bytes)
                    {
                        return Self::of(kind, KeyPair::Ec(pair));
                    }
                }
                Err(unreadable())
            }
            Label::Certificate | Label::Request | Label::Crl => Err(unreadable()),
        }
    }

    /// Its kind.
    pub const fn kind(&self) -> PkiKeyKind {
        self.kind
    }

    /// PKCS #8, as it is stored.
    pub fn pkcs8(&self) -> &[u8] {
        &self.pkcs8
    }

    /// The SubjectPublicKeyInfo.
    pub fn spki(&self) -> &[u8] {
        self.public.spki()
    }

    /// Its public half.
    pub const fn public(&self) -> &PublicKey {
        &self.public
    }

    /// The key in DER, and what PEM calls it.
    ///
    /// # Errors
    /// When the library cannot write it.
    pub fn write(&self, form: PrivateKeyForm) -> Result<(Label, Zeroizing<Vec<u8>>)> {
        match (form, &self.pair) {
            (PrivateKeyForm::Pkcs8, _) | (PrivateKeyForm::Traditional, KeyPair::Ed25519(_)) => {
                Ok((Label::PrivateKey, self.pkcs8.clone()))
            }
            (PrivateKeyForm::Traditional, KeyPair::Ec(pair)) => {
                Ok((Label::EcPrivateKey, write_ec(pair, curve_of(self.kind))?))
            }
            (PrivateKeyForm::Traditional, KeyPair::Rsa(_)) => {
                let info = PrivateKeyInfoRef::from_der(&self.pkcs8)?;
                let inner = info.private_key.as_bytes().to_vec();
                Ok((Label::RsaPrivateKey, Zeroizing::new(inner)))
            }
        }
    }

    /// The key in PEM.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub fn to_pem(&self, form: PrivateKeyForm) -> Result<Zeroizing<String>> {
        let (label, bytes) = self.write(form)?;
        Ok(Zeroizing::new(pem::write(label, &bytes)))
    }

    /// Whether a signature takes milliseconds: RSA beyond 2048 bits.
    pub const fn signs_slowly(&self) -> bool {
        matches!(self.kind, PkiKeyKind::Rsa(bits) if bits > 2048)
    }

    /// Signs. The algorithm is one that goes with the key's kind.
    ///
    /// # Errors
    /// When the library does not sign.
    pub fn sign(&self, algorithm: SignatureAlgorithm, message: &[u8]) -> Result<Vec<u8>> {
        // What is signed names the algorithm: it would say another one than signs.
        if !algorithm.is_for(self.kind) {
            return Err(Error::Machine("a key signs by no algorithm of another kind"));
        }
        let unsigned = |_| Error::Machine("a signature could not be made");
        match &self.pair {
            KeyPair::Rsa(pair) => {
                let encoding =
                    algorithm.rsa_encoding().ok_or(Error::Machine("RSA signs by its own"))?;
                let mut signature = vec![0; pair.public_modulus_len()];
                pair.sign(encoding, &SystemRandom::new(), message, &mut signature)
                    .map_err(unsigned)?;
                Ok(signature)
            }
            KeyPair::Ec(pair) => {
                let signature = pair.sign(&SystemRandom::new(), message).map_err(unsigned)?;
                Ok(signature.as_ref().to_vec())
            }
            KeyPair::Ed25519(pair) => {
                Ok(pair.try_sign(message).map_err(unsigned)?.as_ref().to_vec())
            }
        }
    }
}

/// The public half of a key, of its SubjectPublicKeyInfo.
#[derive(Clone, PartialEq, Eq)]
pub struct PublicKey {
    /// Shared by the copies of a key.
    spki: Arc<[u8]>,
    /// Where its bits begin, which are the last of it.
    bits_at: usize,
    kind: Option<PkiKeyKind>,
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({:?})", self.kind)
    }
}

impl PublicKey {
    /// Reads a SubjectPublicKeyInfo.
    ///
    /// # Errors
    /// [`Error::Invalid`] for what is none.
    pub fn from_spki(spki: &[u8]) -> Result<Self> {
        let unreadable = || Error::invalid("the public key could not be parsed");
        let parsed = SpkiRef::from_der(spki).map_err(|_| unreadable())?;
        let bits = parsed.bits.as_bytes().ok_or_else(unreadable)?;
        let kind = match parsed.algorithm.oid {
            oid::RSA_ENCRYPTION => {
                let public = RsaPublicRef::from_der(bits).map_err(|_| unreadable())?;
                let modulus = public.modulus.as_bytes();
                let leading = modulus.first().map_or(8, |byte| byte.leading_zeros() as usize);
                u16::try_from(modulus.len() * 8 - leading).ok().map(PkiKeyKind::Rsa)
            }
            oid::ED25519 => Some(PkiKeyKind::Ed25519),
            oid::EC_PUBLIC_KEY => {
                let curve = parsed.algorithm.parameters;
                let curve = curve.and_then(|any| any.decode_as::<ObjectIdentifier>().ok());
                match curve {
                    Some(oid::P256) => Some(PkiKeyKind::P256),
                    Some(oid::P384) => Some(PkiKeyKind::P384),
                    Some(oid::P521) => Some(PkiKeyKind::P521),
                    _ => None,
                }
            }
            _ => None,
        };
        Ok(Self { spki: spki.into(), bits_at: spki.len() - bits.len(), kind })
    }

    /// The key of a curve, of the bits of its point: those of a SubjectPublicKeyInfo.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a kind that has no curve; for a point of another length.
    pub fn of_curve(kind: PkiKeyKind, bits: &[u8]) -> Result<Self> {
        let curve = curve_of(kind);
        let len = match kind {
            PkiKeyKind::P256 => 65,
            PkiKeyKind::P384 => 97,
            PkiKeyKind::P521 => 133,
            PkiKeyKind::Ed25519 => 32,
            PkiKeyKind::Rsa(_) => return Err(Error::invalid("RSA has no curve")),
        };
        if bits.len() != len {
            return Err(Error::invalid("the point of the public key is not as long as its curve"));
        }
        let algorithm = if curve.is_some() { oid::EC_PUBLIC_KEY } else { oid::ED25519 };
        let algorithm =
            AlgorithmRef { oid: algorithm, parameters: curve.as_ref().map(AnyRef::from) };
        let spki = SpkiRef { algorithm, bits: BitStringRef::from_bytes(bits)? };
        let spki = spki.to_der()?;
        Ok(Self { bits_at: spki.len() - bits.len(), spki: spki.into(), kind: Some(kind) })
    }

    /// The RSA key of a modulus and an exponent, big-endian.
    ///
    /// # Errors
    /// [`Error::Invalid`] for numbers that cannot be written.
    pub fn of_rsa(modulus: &[u8], exponent: &[u8]) -> Result<Self> {
        let public =
            RsaPublicRef { modulus: UintRef::new(modulus)?, exponent: UintRef::new(exponent)? };
        let bits = public.to_der()?;
        let algorithm = AlgorithmRef { oid: oid::RSA_ENCRYPTION, parameters: Some(AnyRef::NULL) };
        let spki = SpkiRef { algorithm, bits: BitStringRef::from_bytes(&bits)? };
        Self::from_spki(&spki.to_der()?)
    }

    /// The SubjectPublicKeyInfo.
    pub fn spki(&self) -> &[u8] {
        &self.spki
    }

    /// Its kind; `None` for those that are not supported.
    pub const fn kind(&self) -> Option<PkiKeyKind> {
        self.kind
    }

    /// The bits of the key, as SubjectPublicKeyInfo has them, which is also how the library takes them.
    pub(crate) fn library_bytes(&self) -> &[u8] {
        self.bits()
    }

    /// The bits of the key.
    pub fn bits(&self) -> &[u8] {
        &self.spki[self.bits_at..]
    }

    /// SHA-1 of the bits of the key, by which certificates name keys (RFC 5280, 4.2.1.2, method 1).
    pub fn key_id(&self) -> [u8; 20] {
        let mut id = [0; 20];
        id.copy_from_slice(digest(&SHA1_FOR_LEGACY_USE_ONLY, self.bits()).as_ref());
        id
    }
}

#[cfg(test)]
mod tests {
    use aws_lc_rs::encoding::EcPrivateKeyRfc5915Der;

    use super::*;

    #[test]
    fn keys_of_curves_are_written_byte_for_byte_as_the_library_writes_them() {
        for kind in CURVES {
            for _ in 0..20 {
                let key = PrivateKey::make(kind).unwrap();
                let KeyPair::Ec(pair) = &key.pair else { panic!("a curve") };
                let pkcs8 = pair.to_pkcs8v1().unwrap();
                assert_eq!(key.pkcs8(), pkcs8.as_ref());
                let spki: PublicKeyX509Der<'_> = pair.public_key().as_der().unwrap();
                assert_eq!(key.spki(), spki.as_ref());
                assert_eq!(*key.public(), PublicKey::from_spki(spki.as_ref()).unwrap());
                let alone: EcPrivateKeyRfc5915Der<'_> = pair.private_key().as_der().unwrap();
                let (label, written) = key.write(PrivateKeyForm::Traditional).unwrap();
                assert_eq!((label, written.as_slice()), (Label::EcPrivateKey, alone.as_ref()));
                let read = PrivateKey::from_pem(label, &written).unwrap();
                assert_eq!((read.kind(), read.pkcs8()), (kind, key.pkcs8()));
            }
        }
        let key = PrivateKey::make(PkiKeyKind::Ed25519).unwrap();
        assert_eq!(*key.public(), PublicKey::from_spki(key.spki()).unwrap());
    }
}
