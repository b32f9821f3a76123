//! Signing and verifying: `vault:vN:` base64(signature), or base64url where JWS wants it.

use aws_lc_rs::digest::digest;
use data_encoding::{BASE64, BASE64URL_NOPAD, Encoding};

use crate::base64;
use crate::ed25519;
use crate::error::{Error, Result};
use crate::hash::HashAlgorithm;
use crate::key::{TransitKey, derived_pair};
use crate::material::Material;
use crate::public::TransitPublicKey;
use crate::rsa;
use crate::tagged::{self, TaggedSubject};

/// How a signature is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Marshaling {
    /// Elliptic-curve signatures in DER, all in base64.
    #[default]
    Asn1,
    /// Elliptic-curve signatures as two numbers of fixed length, all in base64url.
    Jws,
}

/// How many bytes of salt a PSS signature has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SaltBytes {
    /// As many as fit; to verify, that or the hash's length.
    #[default]
    Auto,
    /// As many as the hash has.
    Hash,
    /// So many.
    Bytes(usize),
}

/// How an RSA signature pads its digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RsaPadding {
    /// RSASSA-PSS.
    Pss(SaltBytes),
    /// RSASSA-PKCS1-v1_5.
    Pkcs1v15,
}

/// What is signed.
#[derive(Clone, Copy, Debug)]
pub enum SignInput<'a> {
    /// A message, which types that sign digests hash first.
    Message(&'a [u8]),
    /// Its digest. Ed25519 signs these bytes as a message.
    Digest(&'a [u8]),
}

/// How to sign or verify.
#[derive(Clone, Copy, Debug)]
pub struct SignOptions {
    /// The hash of types that sign digests.
    pub hash: HashAlgorithm,
    /// How the signature is written.
    pub marshaling: Marshaling,
    /// How RSA pads.
    pub padding: RsaPadding,
}

/// What to sign, with which version and context.
#[derive(Clone, Copy, Debug)]
pub struct Sign<'a> {
    /// What is signed.
    pub input: SignInput<'a>,
    /// What a derived key is derived by; ignored for others.
    pub context: &'a [u8],
    /// The version to sign with, 0 for the latest; not looked at to verify.
    pub version: i64,
}

/// A signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransitSignature {
    /// `vault:vN:…`
    pub text: String,
    /// The version that made it.
    pub version: u32,
    /// The public key that verifies it, if it is one derived by the context.
    pub public: Option<Vec<u8>>,
}

impl Marshaling {
    /// The way with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "asn1" => Some(Self::Asn1),
            "jws" => Some(Self::Jws),
            _ => None,
        }
    }

    fn alphabet(self) -> Encoding {
        match self {
            Self::Asn1 => BASE64,
            Self::Jws => BASE64URL_NOPAD,
        }
    }
}

impl TransitKey {
    /// Signs.
    ///
    /// # Errors
    /// [`Error::Invalid`] for what this key cannot do.
    pub fn sign(&self, request: &Sign<'_>, options: SignOptions) -> Result<TransitSignature> {
        self.check_usable()?;
        let name = self.kind.name();
        if !self.kind.signs() {
            return Err(Error::invalid(format!("key type {name} does not support signing")));
        }
        let number = self.writing_version(request.version, "signing")?;
        let input = self.prepare(request.input, options.hash);
        let mut public = None;
        let signature = match &self.version(number)?.material {
            Material::Ecdsa(pair) => pair.sign(&input, options.marshaling)?,
            Material::Rsa(pair) => pair.sign(options.hash, &input, options.padding)?,
            Material::Ed25519(pair) => match self.derivation.kdf() {
                None => pair.sign(&input),
                Some(kdf) => {
                    let derived = derived_pair(kdf, pair, request.context)?;
                    public = Some(derived.public().to_vec());
                    derived.sign(&input)
                }
            },
            Material::Public(_) => {
                return Err(Error::invalid(
                    "requested version for signing does not contain a private part",
                ));
            }
            Material::Bytes(_) => return Err(Error::Damaged("a signing key of bytes")),
        };
        let alphabet = options.marshaling.alphabet();
        let mut text = tagged::start(number, alphabet.encode_len(signature.len()));
        base64::append(&alphabet, &signature, &mut text);
        Ok(TransitSignature { text, version: number, public })
    }

    /// Whether `text` is a signature of the input.
    ///
    /// # Errors
    /// [`Error::Invalid`] if it is no signature of a version in use.
    pub fn verify(&self, request: &Sign<'_>, options: SignOptions, text: &str) -> Result<bool> {
        self.check_usable()?;
        let name = self.kind.name();
        if !self.kind.signs() {
            return Err(Error::invalid(format!("key type {name} does not support verification")));
        }
        let tagged = tagged::parse(text, TaggedSubject::Signature)?;
        let number = self.reading_version(tagged.version, "signature")?;
        let decoded = match options.marshaling {
            Marshaling::Asn1 => base64::decode(tagged.payload),
            Marshaling::Jws => base64::decode_url(tagged.payload),
        };
        let signature = decoded.map_err(|_| Error::invalid("invalid base64 signature value"))?;
        let input = self.prepare(request.input, options.hash);
        match &self.version(number)?.material {
            Material::Ecdsa(pair) => pair.verifies(&input, &signature, options.marshaling),
            Material::Rsa(pair) => pair.verifies(options.hash, &input, &signature, options.padding),
            Material::Ed25519(pair) => Ok(match self.derivation.kdf() {
                None => pair.verifies(&input, &signature),
                Some(kdf) => derived_pair(kdf, pair, request.context)?.verifies(&input, &signature),
            }),
            Material::Public(half) => match half.key() {
                TransitPublicKey::Ed25519(public) => {
                    Ok(ed25519::verifies(public, &input, &signature))
                }
                TransitPublicKey::Ecdsa(curve, point) => {
                    curve.verifies(point, &input, &signature, options.marshaling)
                }
                TransitPublicKey::Rsa(public, encrypting) => {
                    let (bytes, digest) = (encrypting.ciphertext_size(), (options.hash, &*input));
                    rsa::verifies(public, bytes, digest, &signature, options.padding)
                }
            },
            Material::Bytes(_) => Err(Error::Damaged("a signing key of bytes")),
        }
    }

    /// What the scheme signs: the digest of a message where it signs digests.
    fn prepare(&self, input: SignInput<'_>, hash: HashAlgorithm) -> Vec<u8> {
        match input {
            SignInput::Message(message) if self.kind.signs_digests() => {
                digest(hash.algorithm(), message).as_ref().to_vec()
            }
            SignInput::Message(bytes) | SignInput::Digest(bytes) => bytes.to_vec(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::KeySpec;
    use crate::kind::KeyKind;
    use crate::settings::{Derivation, Kdf};

    const OPTIONS: SignOptions = SignOptions {
        hash: HashAlgorithm::Sha2_256,
        marshaling: Marshaling::Asn1,
        padding: RsaPadding::Pss(SaltBytes::Auto),
    };

    const fn message(input: &[u8]) -> Sign<'_> {
        Sign { input: SignInput::Message(input), context: b"", version: 0 }
    }

    /// Signs, verifies, and refuses the signature for another message and with a bit flipped.
    fn round_trip(key: &TransitKey, options: SignOptions) {
        let signed = key.sign(&message(b"message"), options).unwrap();
        assert!(key.verify(&message(b"message"), options, &signed.text).unwrap());
        assert!(!key.verify(&message(b"messagf"), options, &signed.text).unwrap());
        let (start, payload) = signed.text.rsplit_once(':').unwrap();
        let alphabet = options.marshaling.alphabet();
        let mut bytes = alphabet.decode(payload.as_bytes()).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        let flipped = format!("{start}:{}", alphabet.encode(&bytes));
        assert!(!key.verify(&message(b"message"), options, &flipped).unwrap());
        let digest = options.hash.digest(b"message");
        let prehashed = Sign { input: SignInput::Digest(&digest), ..message(b"") };
        if key.kind().signs_digests() {
            assert!(key.verify(&prehashed, options, &signed.text).unwrap());
        }
    }

    #[test]
    fn curves_sign_digests_of_any_hash_in_both_forms() {
        for kind in [KeyKind::EcdsaP256, KeyKind::EcdsaP384, KeyKind::EcdsaP521] {
            let key = TransitKey::make(kind, &KeySpec::default(), 0).unwrap();
            for name in ["sha1", "sha2-224", "sha2-256", "sha2-384", "sha2-512", "sha3-256"] {
                for marshaling in [Marshaling::Asn1, Marshaling::Jws] {
                    let hash = HashAlgorithm::named(name).unwrap();
                    round_trip(&key, SignOptions { hash, marshaling, ..OPTIONS });
                }
            }
        }
    }

    #[test]
    fn rsa_signs_with_either_padding() {
        let key = TransitKey::make(KeyKind::Rsa2048, &KeySpec::default(), 0).unwrap();
        for name in ["sha2-256", "sha2-384", "sha2-512"] {
            let hash = HashAlgorithm::named(name).unwrap();
            for padding in [
                RsaPadding::Pkcs1v15,
                RsaPadding::Pss(SaltBytes::Auto),
                RsaPadding::Pss(SaltBytes::Hash),
            ] {
                round_trip(&key, SignOptions { hash, padding, ..OPTIONS });
            }
        }
        let with = |padding| SignOptions { padding, ..OPTIONS };
        let short = key.sign(&message(b"m"), with(RsaPadding::Pss(SaltBytes::Hash))).unwrap();
        assert!(key.verify(&message(b"m"), OPTIONS, &short.text).unwrap());
        let bytes = |count| with(RsaPadding::Pss(SaltBytes::Bytes(count)));
        assert!(key.verify(&message(b"m"), bytes(32), &short.text).unwrap());
        assert!(!key.verify(&message(b"m"), bytes(222), &short.text).unwrap());
        assert!(key.sign(&message(b"m"), bytes(5)).unwrap_err().to_string().contains("5 is not"));
        assert!(key.sign(&message(b"m"), bytes(223)).unwrap_err().to_string().contains("invalid"));
        let sha1 = SignOptions { hash: HashAlgorithm::Sha1, ..OPTIONS };
        assert!(key.sign(&message(b"m"), sha1).is_err());
        let long = Sign { input: SignInput::Digest(&[0; 33]), ..message(b"") };
        assert!(key.sign(&long, OPTIONS).unwrap_err().to_string().contains("33 bytes"));
    }

    #[test]
    fn ed25519_signs_messages_and_derives() {
        let key = TransitKey::make(KeyKind::Ed25519, &KeySpec::default(), 0).unwrap();
        round_trip(&key, OPTIONS);
        assert_eq!(key.sign(&message(b"m"), OPTIONS).unwrap().public, None);
        let spec =
            KeySpec { derivation: Derivation::ByContext(Kdf::HkdfSha256), ..KeySpec::default() };
        let key = TransitKey::make(KeyKind::Ed25519, &spec, 0).unwrap();
        let by = |context| Sign { context, ..message(b"m") };
        let signed = key.sign(&by(b"a"), OPTIONS).unwrap();
        assert!(key.verify(&by(b"a"), OPTIONS, &signed.text).unwrap());
        assert!(!key.verify(&by(b"b"), OPTIONS, &signed.text).unwrap());
        assert!(key.sign(&by(b""), OPTIONS).is_err());
        let listed = key.list(b"a").unwrap();
        let public = listed[0].public.as_ref().unwrap();
        assert_eq!(public.text, base64::encode(&signed.public.unwrap()));
        assert_eq!(key.list(b"").unwrap()[0].public.as_ref().unwrap().text, "");
    }

    #[test]
    fn keys_that_do_not_sign_say_so_and_texts_that_are_no_signature_are_refused() {
        let key = TransitKey::make(KeyKind::Aes256Gcm96, &KeySpec::default(), 0).unwrap();
        let refused = key.sign(&message(b"m"), OPTIONS).unwrap_err().to_string();
        assert_eq!(refused, "key type aes256-gcm96 does not support signing");
        let key = TransitKey::make(KeyKind::EcdsaP256, &KeySpec::default(), 0).unwrap();
        for (text, refusal) in [
            ("x", "invalid signature: no prefix"),
            ("vault:v2:aaaa", "invalid signature: version is too new"),
            ("vault:v0:aaaa", "ciphertext or signature version is disallowed by policy (too old)"),
            ("vault:v1:!", "invalid base64 signature value"),
        ] {
            let refused = key.verify(&message(b"m"), OPTIONS, text).unwrap_err().to_string();
            assert_eq!(refused, refusal);
        }
        assert!(!key.verify(&message(b"m"), OPTIONS, "vault:v1:aaaa").unwrap());
    }
}
