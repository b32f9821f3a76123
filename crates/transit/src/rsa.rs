//! RSA: signatures (PSS and PKCS #1 v1.5) over SHA-2 digests, encryption by OAEP with SHA-256.
//!
//! What a wrong padding may tell is the library's matter: it decrypts in constant time and says no
//! more than that it failed.

use aws_lc_rs::digest::Digest;
use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der, PublicKeyX509Der};
use aws_lc_rs::rsa::{
    KeyPair, KeyPairComponents, KeySize, OAEP_SHA256_MGF1SHA256, OaepPrivateDecryptingKey,
    OaepPublicEncryptingKey, PrivateDecryptingKey, PublicKeyComponents,
};
use aws_lc_rs::signature::{
    KeyPair as _, RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_2048_8192_SHA384,
    RSA_PKCS1_2048_8192_SHA512, RSA_PKCS1_SHA256, RSA_PKCS1_SHA384, RSA_PKCS1_SHA512,
    RSA_PSS_2048_8192_SHA256, RSA_PSS_2048_8192_SHA384, RSA_PSS_2048_8192_SHA512, RSA_PSS_SHA256,
    RSA_PSS_SHA384, RSA_PSS_SHA512, RsaParameters, RsaPssSaltLength, RsaSignatureEncoding,
    UnparsedPublicKey,
};
use zeroize::Zeroizing;

use crate::der;
use crate::error::{Error, Result};
use crate::hash::HashAlgorithm;
use crate::kind::KeyKind;
use crate::sign::{RsaPadding, SaltBytes};

/// A key pair, in the forms the library wants for each of its uses.
pub(crate) struct Rsa {
    pkcs8: Zeroizing<Vec<u8>>,
    signing: KeyPair,
    decrypting: OaepPrivateDecryptingKey,
    encrypting: OaepPublicEncryptingKey,
}

/// The numbers of a key pair, big-endian.
pub(crate) struct RsaNumbers {
    pub(crate) n: Zeroizing<Vec<u8>>,
    pub(crate) e: Zeroizing<Vec<u8>>,
    pub(crate) d: Zeroizing<Vec<u8>>,
    pub(crate) p: Zeroizing<Vec<u8>>,
    pub(crate) q: Zeroizing<Vec<u8>>,
    pub(crate) dp: Zeroizing<Vec<u8>>,
    pub(crate) dq: Zeroizing<Vec<u8>>,
    pub(crate) qinv: Zeroizing<Vec<u8>>,
}

/// How a digest becomes a signature: to sign with, and to verify with.
struct SignatureScheme {
    signing: &'static RsaSignatureEncoding,
    verifying: &'static RsaParameters,
}

/// The bits of a modulus.
pub(crate) const fn modulus_bits(kind: KeyKind) -> Result<usize> {
    match kind {
        KeyKind::Rsa2048 => Ok(2048),
        KeyKind::Rsa3072 => Ok(3072),
        KeyKind::Rsa4096 => Ok(4096),
        _ => Err(Error::Damaged("a modulus of a key that has none")),
    }
}

impl Rsa {
    pub(crate) fn make(kind: KeyKind) -> Result<Self> {
        let size = match kind {
            KeyKind::Rsa2048 => KeySize::Rsa2048,
            KeyKind::Rsa3072 => KeySize::Rsa3072,
            _ => KeySize::Rsa4096,
        };
        let pair =
            KeyPair::generate(size).map_err(|_| Error::Machine("an RSA key could not be made"))?;
        Self::from_pair(kind, pair)
    }

    /// The pair of a PKCS#8 document.
    pub(crate) fn from_pkcs8(kind: KeyKind, pkcs8: &[u8]) -> Result<Self> {
        let pair = KeyPair::from_pkcs8(pkcs8)
            .map_err(|_| Error::invalid("error parsing asymmetric key: no RSA key in PKCS#8"))?;
        Self::from_pair(kind, pair)
    }

    pub(crate) fn from_numbers(kind: KeyKind, numbers: &RsaNumbers) -> Result<Self> {
        let components = KeyPairComponents {
            public_key: PublicKeyComponents { n: &*numbers.n, e: &*numbers.e },
            d: &*numbers.d,
            p: &*numbers.p,
            q: &*numbers.q,
            dP: &*numbers.dp,
            dQ: &*numbers.dq,
            qInv: &*numbers.qinv,
        };
        let pair = KeyPair::from_components(&components)
            .map_err(|_| Error::invalid("the numbers of an RSA key do not fit"))?;
        Self::from_pair(kind, pair)
    }

    fn from_pair(kind: KeyKind, signing: KeyPair) -> Result<Self> {
        let wanted = modulus_bits(kind)? / 8;
        let found = signing.public_modulus_len();
        if found != wanted {
            return Err(Error::invalid(format!(
                "invalid key size: expected {wanted} bytes, got {found} bytes"
            )));
        }
        let der: Pkcs8V1Der<'_> = signing.as_der().map_err(|_| unwritable())?;
        let pkcs8 = Zeroizing::new(der.as_ref().to_vec());
        let unusable = |_| Error::Machine("an RSA key could not be read back");
        let private = PrivateDecryptingKey::from_pkcs8(&pkcs8)
            .map_err(|_| Error::Machine("an RSA key could not be read back"))?;
        let encrypting = OaepPublicEncryptingKey::new(private.public_key()).map_err(unusable)?;
        let decrypting = OaepPrivateDecryptingKey::new(private).map_err(unusable)?;
        Ok(Self { pkcs8, signing, decrypting, encrypting })
    }

    pub(crate) fn pkcs8(&self) -> &[u8] {
        &self.pkcs8
    }

    /// The private key in the form of PKCS #1.
    pub(crate) fn pkcs1(&self) -> Result<&[u8]> {
        der::pkcs8_private_key(&self.pkcs8).ok_or(unwritable())
    }

    pub(crate) fn numbers(&self) -> Result<RsaNumbers> {
        let integers = der::integers(self.pkcs1()?).ok_or(unwritable())?;
        let [_version, n, e, d, p, q, dp, dq, qinv] = integers[..] else {
            return Err(unwritable());
        };
        let own = |number: &[u8]| Zeroizing::new(number.to_vec());
        Ok(RsaNumbers {
            n: own(n),
            e: own(e),
            d: own(d),
            p: own(p),
            q: own(q),
            dp: own(dp),
            dq: own(dq),
            qinv: own(qinv),
        })
    }

    pub(crate) fn public_der(&self) -> Result<Vec<u8>> {
        let der: PublicKeyX509Der<'_> =
            self.signing.public_key().as_der().map_err(|_| unwritable())?;
        Ok(der.as_ref().to_vec())
    }

    pub(crate) fn encrypt(&self, plain: &[u8]) -> Result<Vec<u8>> {
        encrypt(&self.encrypting, plain)
    }

    pub(crate) fn decrypt(&self, sealed: &[u8]) -> Result<Zeroizing<Vec<u8>>> {
        let mut plain = Zeroizing::new(vec![0; self.decrypting.min_output_size()]);
        let length = self
            .decrypting
            .decrypt(&OAEP_SHA256_MGF1SHA256, sealed, &mut plain, None)
            .map_err(|_| Error::invalid("failed to RSA decrypt the ciphertext: decryption error"))?
            .len();
        plain.truncate(length);
        Ok(plain)
    }

    pub(crate) fn sign(
        &self,
        hash: HashAlgorithm,
        digest: &[u8],
        padding: RsaPadding,
    ) -> Result<Vec<u8>> {
        let scheme = scheme(self.signing.public_modulus_len(), hash, padding)?;
        let mut signature = vec![0; self.signing.public_modulus_len()];
        self.signing
            .sign_digest(scheme.signing, &import(hash, digest)?, &mut signature)
            .map_err(|_| Error::Machine("a signature could not be made"))?;
        Ok(signature)
    }

    pub(crate) fn verifies(
        &self,
        hash: HashAlgorithm,
        digest: &[u8],
        signature: &[u8],
        padding: RsaPadding,
    ) -> Result<bool> {
        let public = self.signing.public_key().as_ref();
        verifies(public, self.signing.public_modulus_len(), (hash, digest), signature, padding)
    }
}

/// Encrypts for a public key.
pub(crate) fn encrypt(key: &OaepPublicEncryptingKey, plain: &[u8]) -> Result<Vec<u8>> {
    if plain.len() > key.max_plaintext_size(&OAEP_SHA256_MGF1SHA256) {
        return Err(Error::invalid(
            "failed to RSA encrypt the plaintext: message too long for RSA key size",
        ));
    }
    let mut sealed = vec![0; key.ciphertext_size()];
    key.encrypt(&OAEP_SHA256_MGF1SHA256, plain, &mut sealed, None)
        .map_err(|_| Error::Machine("RSA encryption failed"))?;
    Ok(sealed)
}

/// Whether a signature is of this digest, by a public key in the form of PKCS #1.
pub(crate) fn verifies(
    public: &[u8],
    modulus_bytes: usize,
    (hash, digest): (HashAlgorithm, &[u8]),
    signature: &[u8],
    padding: RsaPadding,
) -> Result<bool> {
    let digest = import(hash, digest)?;
    let holds = |padding| {
        let scheme = scheme(modulus_bytes, hash, padding)?;
        let public = UnparsedPublicKey::new(scheme.verifying, public);
        Ok(public.verify_digest(&digest, signature).is_ok())
    };
    // A signer that was not told a length takes the longest, or that of the hash.
    if padding == RsaPadding::Pss(SaltBytes::Auto) && holds(RsaPadding::Pss(SaltBytes::Hash))? {
        return Ok(true);
    }
    holds(padding)
}

fn scheme(
    modulus_bytes: usize,
    hash: HashAlgorithm,
    padding: RsaPadding,
) -> Result<SignatureScheme> {
    let length = match padding {
        RsaPadding::Pkcs1v15 => return pkcs1(hash),
        RsaPadding::Pss(SaltBytes::Auto) => SaltLength::Longest,
        RsaPadding::Pss(SaltBytes::Hash) => SaltLength::Hash,
        RsaPadding::Pss(SaltBytes::Bytes(count)) => salt_length(modulus_bytes, hash, count)?,
    };
    pss(hash, length)
}

/// The library fixes lengths when it is compiled, so two are on offer: the hash's and the longest.
fn salt_length(modulus_bytes: usize, hash: HashAlgorithm, count: usize) -> Result<SaltLength> {
    let digest = hash.algorithm().output_len();
    let longest = modulus_bytes.saturating_sub(digest + 2);
    match count {
        count if count == digest => Ok(SaltLength::Hash),
        count if count == longest => Ok(SaltLength::Longest),
        count if count > longest => {
            Err(Error::invalid(format!("requested salt length {count} is invalid")))
        }
        _ => Err(Error::invalid(format!(
            "salt length {count} is not available: use auto ({longest}) or hash ({digest})"
        ))),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum SaltLength {
    Hash,
    Longest,
}

fn pkcs1(hash: HashAlgorithm) -> Result<SignatureScheme> {
    let (signing, verifying) = match hash {
        HashAlgorithm::Sha2_256 => (&RSA_PKCS1_SHA256, &RSA_PKCS1_2048_8192_SHA256),
        HashAlgorithm::Sha2_384 => (&RSA_PKCS1_SHA384, &RSA_PKCS1_2048_8192_SHA384),
        HashAlgorithm::Sha2_512 => (&RSA_PKCS1_SHA512, &RSA_PKCS1_2048_8192_SHA512),
        _ => return Err(no_such_hash()),
    };
    Ok(SignatureScheme { signing, verifying })
}

fn pss(hash: HashAlgorithm, salt: SaltLength) -> Result<SignatureScheme> {
    const MAX: RsaPssSaltLength = RsaPssSaltLength::Max;
    let (signing, verifying) = match (hash, salt) {
        (HashAlgorithm::Sha2_256, SaltLength::Hash) => (&RSA_PSS_SHA256, &RSA_PSS_2048_8192_SHA256),
        (HashAlgorithm::Sha2_384, SaltLength::Hash) => (&RSA_PSS_SHA384, &RSA_PSS_2048_8192_SHA384),
        (HashAlgorithm::Sha2_512, SaltLength::Hash) => (&RSA_PSS_SHA512, &RSA_PSS_2048_8192_SHA512),
        (HashAlgorithm::Sha2_256, SaltLength::Longest) => (
            &const { RSA_PSS_SHA256.with_pss_salt_length(MAX) },
            &const { RSA_PSS_2048_8192_SHA256.with_pss_salt_length(MAX) },
        ),
        (HashAlgorithm::Sha2_384, SaltLength::Longest) => (
            &const { RSA_PSS_SHA384.with_pss_salt_length(MAX) },
            &const { RSA_PSS_2048_8192_SHA384.with_pss_salt_length(MAX) },
        ),
        (HashAlgorithm::Sha2_512, SaltLength::Longest) => (
            &const { RSA_PSS_SHA512.with_pss_salt_length(MAX) },
            &const { RSA_PSS_2048_8192_SHA512.with_pss_salt_length(MAX) },
        ),
        _ => return Err(no_such_hash()),
    };
    Ok(SignatureScheme { signing, verifying })
}

fn no_such_hash() -> Error {
    Error::invalid("unsupported hash algorithm: RSA signs sha2-256, sha2-384 and sha2-512")
}

fn import(hash: HashAlgorithm, digest: &[u8]) -> Result<Digest> {
    Digest::import_less_safe(digest, hash.algorithm()).map_err(|_| {
        let wanted = hash.algorithm().output_len();
        let found = digest.len();
        Error::invalid(format!("the prehashed input has {found} bytes, its hash has {wanted}"))
    })
}

const fn unwritable() -> Error {
    Error::Machine("an RSA key could not be written")
}
