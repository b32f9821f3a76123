//! Signature algorithms: how they are named in DER, what makes and what checks them.

use aws_lc_rs::digest;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1, ECDSA_P384_SHA384_ASN1, ECDSA_P521_SHA512_ASN1, ED25519,
    EcdsaVerificationAlgorithm, RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_2048_8192_SHA384,
    RSA_PKCS1_2048_8192_SHA512, RSA_PKCS1_SHA256, RSA_PKCS1_SHA384, RSA_PKCS1_SHA512,
    RSA_PSS_2048_8192_SHA256, RSA_PSS_2048_8192_SHA384, RSA_PSS_2048_8192_SHA512, RSA_PSS_SHA256,
    RSA_PSS_SHA384, RSA_PSS_SHA512, RsaEncoding, UnparsedPublicKey, VerificationAlgorithm,
};
use der::asn1::{AnyRef, ObjectIdentifier};
use der::{Any, Decode as _, Encode as _, Sequence};

use crate::error::{Error, Result};
use crate::key::{PkiKeyKind, PublicKey};
use crate::oid;

/// A hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hash {
    /// SHA-256.
    Sha256,
    /// SHA-384.
    Sha384,
    /// SHA-512.
    Sha512,
}

impl Hash {
    const ALL: [Self; 3] = [Self::Sha256, Self::Sha384, Self::Sha512];

    /// The hash of so many bits.
    ///
    /// # Errors
    /// [`Error::Invalid`] for other numbers.
    pub fn of_bits(bits: i64) -> Result<Self> {
        match bits {
            256 => Ok(Self::Sha256),
            384 => Ok(Self::Sha384),
            512 => Ok(Self::Sha512),
            _ => Err(Error::invalid(format!(
                "invalid signature bits: {bits}: supported are 0, 256, 384 and 512"
            ))),
        }
    }

    pub(crate) const fn algorithm(self) -> &'static digest::Algorithm {
        match self {
            Self::Sha256 => &digest::SHA256,
            Self::Sha384 => &digest::SHA384,
            Self::Sha512 => &digest::SHA512,
        }
    }

    const fn oid(self) -> ObjectIdentifier {
        match self {
            Self::Sha256 => oid::SHA256,
            Self::Sha384 => oid::SHA384,
            Self::Sha512 => oid::SHA512,
        }
    }

    const fn bytes(self) -> u8 {
        match self {
            Self::Sha256 => 32,
            Self::Sha384 => 48,
            Self::Sha512 => 64,
        }
    }
}

/// How something is signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignatureAlgorithm {
    /// RSASSA-PKCS1-v1_5.
    RsaPkcs1(Hash),
    /// RSASSA-PSS, with a salt as long as the hash.
    RsaPss(Hash),
    /// ECDSA.
    Ecdsa(Hash),
    /// Ed25519.
    Ed25519,
}

/// What a caller says of a signature.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SignatureWish {
    /// The hash; `None` for the one that goes with the key.
    pub hash: Option<Hash>,
    /// Whether RSA pads with PSS.
    pub use_pss: bool,
}

#[derive(Sequence)]
struct SignatureIdentifier<'a> {
    oid: ObjectIdentifier,
    parameters: Option<AnyRef<'a>>,
}

#[derive(Sequence)]
struct PssParameters {
    #[asn1(context_specific = "0", tag_mode = "EXPLICIT")]
    hash: OwnedIdentifier,
    #[asn1(context_specific = "1", tag_mode = "EXPLICIT")]
    mask: OwnedIdentifier,
    #[asn1(context_specific = "2", tag_mode = "EXPLICIT")]
    salt_bytes: u8,
}

#[derive(Sequence)]
struct OwnedIdentifier {
    oid: ObjectIdentifier,
    parameters: Option<Any>,
}

impl SignatureAlgorithm {
    /// How a key of this kind signs.
    ///
    /// # Errors
    /// None: what does not fit the kind is not looked at, as the API wants it.
    pub fn choose(kind: PkiKeyKind, wish: SignatureWish) -> Self {
        match kind {
            PkiKeyKind::Rsa(_) => {
                let hash = wish.hash.unwrap_or(Hash::Sha256);
                if wish.use_pss { Self::RsaPss(hash) } else { Self::RsaPkcs1(hash) }
            }
            // The hash goes with the curve: a longer one adds nothing, and a shorter one takes away.
            PkiKeyKind::P256 => Self::Ecdsa(Hash::Sha256),
            PkiKeyKind::P384 => Self::Ecdsa(Hash::Sha384),
            PkiKeyKind::P521 => Self::Ecdsa(Hash::Sha512),
            PkiKeyKind::Ed25519 => Self::Ed25519,
        }
    }

    /// Whether a key of this kind signs so: RSA by any hash and padding, a curve by its own hash alone.
    pub fn is_for(self, kind: PkiKeyKind) -> bool {
        match (self, kind) {
            (Self::RsaPkcs1(_) | Self::RsaPss(_), PkiKeyKind::Rsa(_)) => true,
            _ => self == Self::choose(kind, SignatureWish::default()),
        }
    }

    /// The AlgorithmIdentifier, in DER.
    pub fn to_der(self) -> Result<Vec<u8>> {
        let null = || Some(AnyRef::NULL);
        let (oid, parameters) = match self {
            Self::RsaPkcs1(Hash::Sha256) => (oid::RSA_SHA256, null()),
            Self::RsaPkcs1(Hash::Sha384) => (oid::RSA_SHA384, null()),
            Self::RsaPkcs1(Hash::Sha512) => (oid::RSA_SHA512, null()),
            Self::Ecdsa(Hash::Sha256) => (oid::ECDSA_SHA256, None),
            Self::Ecdsa(Hash::Sha384) => (oid::ECDSA_SHA384, None),
            Self::Ecdsa(Hash::Sha512) => (oid::ECDSA_SHA512, None),
            Self::Ed25519 => (oid::ED25519, None),
            Self::RsaPss(hash) => {
                let parameters = Any::encode_from(&pss_parameters(hash)?)?;
                let identifier =
                    OwnedIdentifier { oid: oid::RSA_PSS, parameters: Some(parameters) };
                return Ok(identifier.to_der()?);
            }
        };
        Ok(SignatureIdentifier { oid, parameters }.to_der()?)
    }

    /// The algorithm that an AlgorithmIdentifier names.
    ///
    /// # Errors
    /// [`Error::Invalid`] for those that are not known or not safe.
    pub fn from_der(bytes: &[u8]) -> Result<Self> {
        let unknown = || Error::invalid("the signature algorithm is not supported");
        let identifier = SignatureIdentifier::from_der(bytes).map_err(|_| unknown())?;
        let known = [
            (oid::RSA_SHA256, Self::RsaPkcs1(Hash::Sha256)),
            (oid::RSA_SHA384, Self::RsaPkcs1(Hash::Sha384)),
            (oid::RSA_SHA512, Self::RsaPkcs1(Hash::Sha512)),
            (oid::ECDSA_SHA256, Self::Ecdsa(Hash::Sha256)),
            (oid::ECDSA_SHA384, Self::Ecdsa(Hash::Sha384)),
            (oid::ECDSA_SHA512, Self::Ecdsa(Hash::Sha512)),
            (oid::ED25519, Self::Ed25519),
        ];
        if let Some((_, found)) = known.iter().find(|(oid, _)| *oid == identifier.oid) {
            return Ok(*found);
        }
        if identifier.oid == oid::RSA_PSS {
            for hash in Hash::ALL {
                if Self::RsaPss(hash).to_der()? == bytes {
                    return Ok(Self::RsaPss(hash));
                }
            }
        }
        Err(unknown())
    }

    /// Whether `signature` is of `message`, by a public key.
    pub fn verifies(self, key: &PublicKey, message: &[u8], signature: &[u8]) -> bool {
        let holds = |algorithm: &'static dyn VerificationAlgorithm| {
            UnparsedPublicKey::new(algorithm, key.library_bytes())
                .verify(message, signature)
                .is_ok()
        };
        match (self, key.kind()) {
            (Self::RsaPkcs1(hash), Some(PkiKeyKind::Rsa(_))) => holds(match hash {
                Hash::Sha256 => &RSA_PKCS1_2048_8192_SHA256,
                Hash::Sha384 => &RSA_PKCS1_2048_8192_SHA384,
                Hash::Sha512 => &RSA_PKCS1_2048_8192_SHA512,
            }),
            (Self::RsaPss(hash), Some(PkiKeyKind::Rsa(_))) => holds(match hash {
                Hash::Sha256 => &RSA_PSS_2048_8192_SHA256,
                Hash::Sha384 => &RSA_PSS_2048_8192_SHA384,
                Hash::Sha512 => &RSA_PSS_2048_8192_SHA512,
            }),
            (Self::Ecdsa(hash), Some(kind)) => {
                let Some(curve) = curve(kind) else { return false };
                let digest = digest::digest(hash.algorithm(), message);
                let Some(fitted) = fit(digest.as_ref(), kind) else { return false };
                UnparsedPublicKey::new(curve, key.library_bytes())
                    .verify_digest(&fitted, signature)
                    .is_ok()
            }
            (Self::Ed25519, Some(PkiKeyKind::Ed25519)) => holds(&ED25519),
            _ => false,
        }
    }

    /// What the library pads with, for RSA.
    pub(crate) fn rsa_encoding(self) -> Option<&'static dyn RsaEncoding> {
        Some(match self {
            Self::RsaPkcs1(Hash::Sha256) => &RSA_PKCS1_SHA256,
            Self::RsaPkcs1(Hash::Sha384) => &RSA_PKCS1_SHA384,
            Self::RsaPkcs1(Hash::Sha512) => &RSA_PKCS1_SHA512,
            Self::RsaPss(Hash::Sha256) => &RSA_PSS_SHA256,
            Self::RsaPss(Hash::Sha384) => &RSA_PSS_SHA384,
            Self::RsaPss(Hash::Sha512) => &RSA_PSS_SHA512,
            Self::Ecdsa(_) | Self::Ed25519 => return None,
        })
    }

    /// The name that the API has for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::RsaPkcs1(Hash::Sha256) => "SHA256WithRSA",
            Self::RsaPkcs1(Hash::Sha384) => "SHA384WithRSA",
            Self::RsaPkcs1(Hash::Sha512) => "SHA512WithRSA",
            Self::RsaPss(Hash::Sha256) => "SHA256WithRSAPSS",
            Self::RsaPss(Hash::Sha384) => "SHA384WithRSAPSS",
            Self::RsaPss(Hash::Sha512) => "SHA512WithRSAPSS",
            Self::Ecdsa(Hash::Sha256) => "ECDSAWithSHA256",
            Self::Ecdsa(Hash::Sha384) => "ECDSAWithSHA384",
            Self::Ecdsa(Hash::Sha512) => "ECDSAWithSHA512",
            Self::Ed25519 => "PureEd25519",
        }
    }

    /// The algorithm of this name.
    pub fn named(name: &str) -> Option<Self> {
        let of_hash = |make: fn(Hash) -> Self| Hash::ALL.into_iter().map(make);
        let mut all = of_hash(Self::RsaPkcs1)
            .chain(of_hash(Self::RsaPss))
            .chain(of_hash(Self::Ecdsa))
            .chain([Self::Ed25519]);
        let name = if name.eq_ignore_ascii_case("Ed25519") { "PureEd25519" } else { name };
        all.find(|known| known.name().eq_ignore_ascii_case(name))
    }
}

fn pss_parameters(hash: Hash) -> Result<PssParameters> {
    let identifier = || OwnedIdentifier { oid: hash.oid(), parameters: Some(Any::null()) };
    Ok(PssParameters {
        hash: identifier(),
        mask: OwnedIdentifier {
            oid: oid::MGF1,
            parameters: Some(Any::encode_from(&identifier())?),
        },
        salt_bytes: hash.bytes(),
    })
}

fn curve(kind: PkiKeyKind) -> Option<&'static EcdsaVerificationAlgorithm> {
    match kind {
        PkiKeyKind::P256 => Some(&ECDSA_P256_SHA256_ASN1),
        PkiKeyKind::P384 => Some(&ECDSA_P384_SHA384_ASN1),
        PkiKeyKind::P521 => Some(&ECDSA_P521_SHA512_ASN1),
        PkiKeyKind::Rsa(_) | PkiKeyKind::Ed25519 => None,
    }
}

/// A digest of any hash as one of the hash that the library pairs with the curve: the scheme takes the leftmost bits of a longer digest,
/// and a shorter one as the number it is (FIPS 186-5, 6.4.1).
fn fit(bytes: &[u8], kind: PkiKeyKind) -> Option<digest::Digest> {
    let algorithm = match kind {
        PkiKeyKind::P256 => &digest::SHA256,
        PkiKeyKind::P384 => &digest::SHA384,
        PkiKeyKind::P521 => &digest::SHA512,
        PkiKeyKind::Rsa(_) | PkiKeyKind::Ed25519 => return None,
    };
    let wanted = algorithm.output_len();
    let mut fitted = vec![0; wanted.saturating_sub(bytes.len())];
    fitted.extend_from_slice(bytes.get(..bytes.len().min(wanted))?);
    digest::Digest::import_less_safe(&fitted, algorithm).ok()
}
