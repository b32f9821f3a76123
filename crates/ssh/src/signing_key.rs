//! The keys of CAs: what they look like as keys of SSH, and how they sign.

use std::fmt;

use der::asn1::UintRef;
use der::{Decode as _, Sequence};
use kallisto_pki::pem;
use kallisto_pki::{
    Error, Hash, PkiKeyKind, PrivateKey, PrivateKeyForm, PublicKey as Spki, Result,
    SignatureAlgorithm,
};
use zeroize::Zeroizing;

use crate::openssh;
use crate::public_key::{KeyType, SshPublicKey, bits_of};
use crate::wire::SshWriter;

/// Longest text of a private key, in bytes.
const PRIVATE_TEXT_BYTES_MAX: usize = 32 << 10;

/// The hash of a signature of RSA (RFC 8332). SHA-1 signs nothing here: OpenSSH refuses it since 8.8.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RsaHash {
    /// `rsa-sha2-256`.
    #[default]
    Sha256,
    /// `rsa-sha2-512`.
    Sha512,
}

impl RsaHash {
    /// Its name on the wire.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sha256 => "rsa-sha2-256",
            Self::Sha512 => "rsa-sha2-512",
        }
    }
}

/// A private key that signs certificates, with its public half. Never printed.
pub struct SshSigningKey {
    private: PrivateKey,
    public: SshPublicKey,
}

impl fmt::Debug for SshSigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SshSigningKey({:?})", self.public)
    }
}

#[derive(Sequence)]
struct SshRsaPublic<'a> {
    modulus: UintRef<'a>,
    exponent: UintRef<'a>,
}

#[derive(Sequence)]
struct EcdsaSignature<'a> {
    r: UintRef<'a>,
    s: UintRef<'a>,
}

impl SshSigningKey {
    /// A new key. RSA takes up to seconds.
    ///
    /// # Errors
    /// When the library gives none.
    pub fn make(kind: PkiKeyKind) -> Result<Self> {
        Self::of(PrivateKey::make(kind)?)
    }

    /// Reads a private key: the form of OpenSSH, PKCS #8, PKCS #1 or SEC 1, in PEM and without a passphrase.
    ///
    /// # Errors
    /// [`Error::Invalid`] saying what it is not.
    pub fn from_pem(text: &str) -> Result<Self> {
        if text.len() > PRIVATE_TEXT_BYTES_MAX {
            return Err(Error::invalid("ssh: the private key is too long"));
        }
        if let Some(private) = openssh::read(text)? {
            return Self::of(private);
        }
        if text.contains("ENCRYPTED") {
            return Err(Error::invalid("ssh: the private key has a passphrase: take it off"));
        }
        let no_key = || Error::invalid("ssh: no key found");
        let blocks = pem::read(text).map_err(|_| no_key())?;
        let mut private = blocks.into_iter().filter(|(label, _)| label.is_private());
        let (label, der) = private.next().ok_or_else(no_key)?;
        if private.next().is_some() {
            return Err(Error::invalid("ssh: more than one private key"));
        }
        Self::of(PrivateKey::from_pem(label, &der)?)
    }

    /// The key of a PKCS #8 document, as it is stored.
    ///
    /// # Errors
    /// [`Error::Invalid`] when there is none.
    pub fn from_pkcs8(bytes: &[u8]) -> Result<Self> {
        Self::of(PrivateKey::from_pkcs8(bytes)?)
    }

    fn of(private: PrivateKey) -> Result<Self> {
        let kind = private.kind();
        let key_type = KeyType::of(kind);
        let spki = Spki::from_spki(private.spki())?;
        let mut fields = SshWriter::default();
        let bits = match kind {
            PkiKeyKind::Rsa(_) => {
                let public = SshRsaPublic::from_der(spki.bits())?;
                let (modulus, exponent) = (public.modulus.as_bytes(), public.exponent.as_bytes());
                fields.positive(exponent).positive(modulus);
                bits_of(modulus)
            }
            PkiKeyKind::P256 | PkiKeyKind::P384 | PkiKeyKind::P521 => {
                let (curve, ..) = key_type.curve().ok_or(Error::Machine("no curve"))?;
                fields.string(curve.as_bytes()).string(spki.bits());
                usize::from(kind.bits())
            }
            PkiKeyKind::Ed25519 => {
                fields.string(spki.bits());
                256
            }
        };
        let bits = u16::try_from(bits).map_err(|_| Error::Machine("a key is too long"))?;
        Ok(Self { private, public: SshPublicKey::of(key_type, bits, fields) })
    }

    /// Its public half.
    pub const fn public(&self) -> &SshPublicKey {
        &self.public
    }

    /// PKCS #8, as it is stored.
    pub fn pkcs8(&self) -> &[u8] {
        self.private.pkcs8()
    }

    /// The key as `ssh` reads it: PEM of PKCS #1 or SEC 1, and the form of OpenSSH for Ed25519, for which it has no other.
    ///
    /// # Errors
    /// When the library cannot write it.
    pub fn to_pem(&self) -> Result<Zeroizing<String>> {
        if self.private.kind() == PkiKeyKind::Ed25519 {
            return openssh::write_ed25519(&self.private, &self.public);
        }
        let text = self.private.to_pem(PrivateKeyForm::Traditional)?;
        Ok(Zeroizing::new(format!("{}\n", text.as_str())))
    }

    /// Whether a signature takes a millisecond or more: RSA.
    pub const fn signs_slowly(&self) -> bool {
        matches!(self.private.kind(), PkiKeyKind::Rsa(_))
    }

    /// Signs: the blob of a signature, with the name of its algorithm. The hash is that of RSA; other keys have but one.
    ///
    /// # Errors
    /// When the library does not sign.
    pub(crate) fn sign(&self, message: &[u8], hash: RsaHash) -> Result<Vec<u8>> {
        let (algorithm, name) = match self.private.kind() {
            PkiKeyKind::Rsa(_) => {
                let of_library = match hash {
                    RsaHash::Sha256 => Hash::Sha256,
                    RsaHash::Sha512 => Hash::Sha512,
                };
                (SignatureAlgorithm::RsaPkcs1(of_library), hash.name())
            }
            PkiKeyKind::P256 => {
                (SignatureAlgorithm::Ecdsa(Hash::Sha256), self.public.key_type().name())
            }
            PkiKeyKind::P384 => {
                (SignatureAlgorithm::Ecdsa(Hash::Sha384), self.public.key_type().name())
            }
            PkiKeyKind::P521 => {
                (SignatureAlgorithm::Ecdsa(Hash::Sha512), self.public.key_type().name())
            }
            PkiKeyKind::Ed25519 => (SignatureAlgorithm::Ed25519, self.public.key_type().name()),
        };
        let signature = self.private.sign(algorithm, message)?;
        let mut writer = SshWriter::default();
        writer.string(name.as_bytes());
        if matches!(algorithm, SignatureAlgorithm::Ecdsa(_)) {
            let parsed = EcdsaSignature::from_der(&signature)?;
            let mut numbers = SshWriter::default();
            numbers.positive(parsed.r.as_bytes()).positive(parsed.s.as_bytes());
            writer.string(&numbers.into_bytes());
        } else {
            writer.string(&signature);
        }
        Ok(writer.into_bytes())
    }
}
