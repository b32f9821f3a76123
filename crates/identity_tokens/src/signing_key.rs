//! One version of a key: the private half, which signs, and the public half, which is published.
//!
//! A version is known by its `kid`, the thumbprint of its public half (RFC 7638): it says nothing of which mount or key it is of, and no
//! two versions share one.

use std::fmt;

use aws_lc_rs::digest;
use aws_lc_rs::encoding::AsDer;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::{KeySize, PublicKeyComponents};
use aws_lc_rs::signature::{
    self, ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED,
    ECDSA_P384_SHA384_FIXED_SIGNING, ECDSA_P521_SHA512_FIXED, ECDSA_P521_SHA512_FIXED_SIGNING,
    ED25519, EcdsaKeyPair, EcdsaSigningAlgorithm, Ed25519KeyPair, KeyPair, RSA_PKCS1_SHA256,
    RSA_PKCS1_SHA384, RSA_PKCS1_SHA512, RsaEncoding, RsaKeyPair, UnparsedPublicKey,
};
use data_encoding::BASE64URL_NOPAD;
use der::asn1::UintRef;
use der::{Decode as _, Sequence};
use kallisto_api::{Error, Json, Map};
use zeroize::Zeroizing;

use crate::algorithm::SigningAlgorithm;
use crate::record;

/// A public key of RSA (RFC 8017, A.1.1).
#[derive(Sequence)]
struct Pkcs1RsaPublic<'a> {
    modulus: UintRef<'a>,
    exponent: UintRef<'a>,
}

enum SigningPair {
    Rsa(Box<RsaKeyPair>),
    Ec(EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
}

/// The private half of a version. Never printed.
pub struct TokenSigningKey {
    pair: SigningPair,
    pkcs8: Zeroizing<Vec<u8>>,
    public: JsonWebKey,
}

/// A version as it is stored, to be opened when it signs: reading the key set opens none. Never printed.
#[derive(Clone)]
pub struct StoredSigningKey {
    public: JsonWebKey,
    pkcs8: Zeroizing<Vec<u8>>,
}

/// The public half of a version, as a JSON Web Key (RFC 7517).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonWebKey {
    algorithm: SigningAlgorithm,
    kid: String,
    /// The members that make the key, such as `n` and `e`.
    members: Vec<(&'static str, String)>,
}

impl fmt::Debug for TokenSigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenSigningKey")
    }
}

impl fmt::Debug for StoredSigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StoredSigningKey")
    }
}

const fn curve(
    algorithm: SigningAlgorithm,
) -> Option<(&'static str, &'static EcdsaSigningAlgorithm)> {
    match algorithm {
        SigningAlgorithm::Es256 => Some(("P-256", &ECDSA_P256_SHA256_FIXED_SIGNING)),
        SigningAlgorithm::Es384 => Some(("P-384", &ECDSA_P384_SHA384_FIXED_SIGNING)),
        SigningAlgorithm::Es512 => Some(("P-521", &ECDSA_P521_SHA512_FIXED_SIGNING)),
        SigningAlgorithm::Rs256
        | SigningAlgorithm::Rs384
        | SigningAlgorithm::Rs512
        | SigningAlgorithm::EdDsa => None,
    }
}

fn machine<T>(_: T) -> Error {
    Error::internal(&"the library made no key or no signature")
}

impl TokenSigningKey {
    /// A new version. RSA takes tens of milliseconds, as [`SigningAlgorithm::is_slow_to_make`] says.
    ///
    /// # Errors
    /// [`Error::Internal`] when the library gives none.
    pub fn make(algorithm: SigningAlgorithm) -> Result<Self, Error> {
        let (pair, pkcs8) = match curve(algorithm) {
            Some((_, curve)) => {
                let pair = EcdsaKeyPair::generate(curve).map_err(machine)?;
                let pkcs8 = pair.to_pkcs8v1().map_err(machine)?.as_ref().to_vec();
                (SigningPair::Ec(pair), pkcs8)
            }
            None if algorithm == SigningAlgorithm::EdDsa => {
                let pair = Ed25519KeyPair::generate().map_err(machine)?;
                let pkcs8 = pair.to_pkcs8v1().map_err(machine)?.as_ref().to_vec();
                (SigningPair::Ed25519(pair), pkcs8)
            }
            None => {
                let pair = RsaKeyPair::generate(KeySize::Rsa2048).map_err(machine)?;
                let pkcs8 = pair.as_der().map_err(machine)?.as_ref().to_vec();
                (SigningPair::Rsa(Box::new(pair)), pkcs8)
            }
        };
        Self::of(algorithm, pair, Zeroizing::new(pkcs8)).ok_or_else(|| machine(()))
    }

    /// `None` when the library writes its public half otherwise than the specifications say.
    fn of(
        algorithm: SigningAlgorithm,
        pair: SigningPair,
        pkcs8: Zeroizing<Vec<u8>>,
    ) -> Option<Self> {
        let encode = |bytes: &[u8]| BASE64URL_NOPAD.encode(bytes);
        let members = match &pair {
            SigningPair::Rsa(pair) => {
                let public = Pkcs1RsaPublic::from_der(pair.public_key().as_ref()).ok()?;
                vec![
                    ("e", encode(public.exponent.as_bytes())),
                    ("kty", "RSA".to_owned()),
                    ("n", encode(public.modulus.as_bytes())),
                ]
            }
            SigningPair::Ec(pair) => {
                // An uncompressed point: 4, x, y.
                let (_, point) = pair.public_key().as_ref().split_first()?;
                let (x, y) = point.split_at(point.len() / 2);
                let name = curve(algorithm).map_or("", |(name, _)| name);
                vec![
                    ("crv", name.to_owned()),
                    ("kty", "EC".to_owned()),
                    ("x", encode(x)),
                    ("y", encode(y)),
                ]
            }
            SigningPair::Ed25519(pair) => vec![
                ("crv", "Ed25519".to_owned()),
                ("kty", "OKP".to_owned()),
                ("x", encode(pair.public_key().as_ref())),
            ],
        };
        Some(Self { pair, pkcs8, public: JsonWebKey::of(algorithm, members) })
    }

    /// The public half.
    pub const fn public(&self) -> &JsonWebKey {
        &self.public
    }

    /// Signs.
    ///
    /// # Errors
    /// [`Error::Internal`] when the library does not.
    pub fn sign(&self, message: &[u8]) -> Result<Vec<u8>, Error> {
        match &self.pair {
            SigningPair::Rsa(pair) => {
                let encoding: &'static dyn RsaEncoding = match self.public.algorithm {
                    SigningAlgorithm::Rs384 => &RSA_PKCS1_SHA384,
                    SigningAlgorithm::Rs512 => &RSA_PKCS1_SHA512,
                    _ => &RSA_PKCS1_SHA256,
                };
                let mut signature = vec![0; pair.public_modulus_len()];
                pair.sign(encoding, &SystemRandom::new(), message, &mut signature)
                    .map_err(machine)?;
                Ok(signature)
            }
            SigningPair::Ec(pair) => {
                let signature = pair.sign(&SystemRandom::new(), message).map_err(machine)?;
                Ok(signature.as_ref().to_vec())
            }
            SigningPair::Ed25519(pair) => Ok(pair.sign(message).as_ref().to_vec()),
        }
    }

    /// What is stored of it.
    pub fn store(&self) -> StoredSigningKey {
        StoredSigningKey { public: self.public.clone(), pkcs8: self.pkcs8.clone() }
    }
}

impl StoredSigningKey {
    /// The public half.
    pub const fn public(&self) -> &JsonWebKey {
        &self.public
    }

    /// The key, to sign with.
    ///
    /// # Errors
    /// [`Error::Internal`] when it is damaged.
    pub fn open(&self) -> Result<TokenSigningKey, Error> {
        let algorithm = self.public.algorithm;
        let read = || {
            let pair = match curve(algorithm) {
                Some((_, curve)) => {
                    SigningPair::Ec(EcdsaKeyPair::from_pkcs8(curve, &self.pkcs8).ok()?)
                }
                None if algorithm == SigningAlgorithm::EdDsa => SigningPair::Ed25519(
                    Ed25519KeyPair::from_pkcs8_maybe_unchecked(&self.pkcs8).ok()?,
                ),
                None => SigningPair::Rsa(Box::new(RsaKeyPair::from_pkcs8(&self.pkcs8).ok()?)),
            };
            let key = TokenSigningKey::of(algorithm, pair, self.pkcs8.clone())?;
            (key.public == self.public).then_some(key)
        };
        read().ok_or_else(|| Error::internal(&"a key for identity tokens is damaged"))
    }

    pub(crate) fn to_json(&self) -> Json {
        Json::object([
            ("jwk", self.public.jwk()),
            ("pkcs8", BASE64URL_NOPAD.encode(&self.pkcs8).into()),
        ])
    }

    /// Reads it back; `None` when it is damaged.
    pub(crate) fn from_json(json: &Json) -> Option<Self> {
        let map = json.as_object()?;
        let pkcs8 = BASE64URL_NOPAD.decode(map.get("pkcs8")?.as_str()?.as_bytes()).ok()?;
        Some(Self { public: JsonWebKey::from_jwk(map.get("jwk")?)?, pkcs8: Zeroizing::new(pkcs8) })
    }
}

impl JsonWebKey {
    fn of(algorithm: SigningAlgorithm, members: Vec<(&'static str, String)>) -> Self {
        // The members in the order of their names, and no others (RFC 7638, 3.2).
        let thumb: Map = members
            .iter()
            .map(|(name, value)| ((*name).to_owned(), value.clone().into()))
            .collect();
        let hash = digest::digest(&digest::SHA256, &Json::Object(thumb).to_text());
        Self { algorithm, kid: BASE64URL_NOPAD.encode(hash.as_ref()), members }
    }

    /// Its algorithm.
    pub const fn algorithm(&self) -> SigningAlgorithm {
        self.algorithm
    }

    /// What tokens name it by.
    pub fn kid(&self) -> &str {
        &self.kid
    }

    /// The JSON Web Key.
    pub fn jwk(&self) -> Json {
        let members = self.members.iter().map(|(name, value)| (*name, value.as_str()));
        let about = [("alg", self.algorithm.name()), ("kid", &self.kid), ("use", "sig")];
        let all = members.chain(about);
        Json::Object(all.map(|(name, value)| (name.to_owned(), value.into())).collect())
    }

    /// Reads the JSON Web Key back; `None` when it is none of ours.
    pub(crate) fn from_jwk(json: &Json) -> Option<Self> {
        let map = json.as_object()?;
        let algorithm = SigningAlgorithm::named(map.get("alg")?.as_str()?)?;
        let names: &[&'static str] = match algorithm {
            SigningAlgorithm::Rs256 | SigningAlgorithm::Rs384 | SigningAlgorithm::Rs512 => {
                &["e", "kty", "n"]
            }
            SigningAlgorithm::Es256 | SigningAlgorithm::Es384 | SigningAlgorithm::Es512 => {
                &["crv", "kty", "x", "y"]
            }
            SigningAlgorithm::EdDsa => &["crv", "kty", "x"],
        };
        let member = |name: &&'static str| Some((*name, record::text(map, name)?));
        let members = names.iter().map(member).collect::<Option<_>>()?;
        Some(Self::of(algorithm, members))
    }

    fn bytes(&self, name: &str) -> Option<Vec<u8>> {
        let (_, text) = self.members.iter().find(|(member, _)| *member == name)?;
        BASE64URL_NOPAD.decode(text.as_bytes()).ok()
    }

    /// Whether `signature` is this key's of `message`.
    pub fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        let check = || -> Option<()> {
            let rsa = match self.algorithm {
                SigningAlgorithm::Rs256 => &signature::RSA_PKCS1_2048_8192_SHA256,
                SigningAlgorithm::Rs384 => &signature::RSA_PKCS1_2048_8192_SHA384,
                SigningAlgorithm::Rs512 => &signature::RSA_PKCS1_2048_8192_SHA512,
                SigningAlgorithm::Es256 | SigningAlgorithm::Es384 | SigningAlgorithm::Es512 => {
                    let point = [vec![4], self.bytes("x")?, self.bytes("y")?].concat();
                    let curve = match self.algorithm {
                        SigningAlgorithm::Es384 => &ECDSA_P384_SHA384_FIXED,
                        SigningAlgorithm::Es512 => &ECDSA_P521_SHA512_FIXED,
                        _ => &ECDSA_P256_SHA256_FIXED,
                    };
                    return UnparsedPublicKey::new(curve, point).verify(message, signature).ok();
                }
                SigningAlgorithm::EdDsa => {
                    let key = UnparsedPublicKey::new(&ED25519, self.bytes("x")?);
                    return key.verify(message, signature).ok();
                }
            };
            let key = PublicKeyComponents { n: self.bytes("n")?, e: self.bytes("e")? };
            key.verify(rsa, message, signature).ok()
        };
        check().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_half_signs_the_other_verifies_after_both_were_stored() {
        for algorithm in SigningAlgorithm::ALL {
            let key = TokenSigningKey::make(algorithm).unwrap();
            let stored = StoredSigningKey::from_json(&key.store().to_json()).unwrap();
            let again = stored.open().unwrap();
            assert_eq!(again.public(), key.public());
            let public = JsonWebKey::from_jwk(&key.public().jwk()).unwrap();
            assert_eq!(&public, key.public());
            let signature = again.sign(b"message").unwrap();
            assert!(public.verifies(b"message", &signature), "{algorithm:?}");
            assert!(!public.verifies(b"Message", &signature), "{algorithm:?}");
            assert!(!public.verifies(b"message", &signature[1..]), "{algorithm:?}");
            assert!(!public.verifies(b"message", b""), "{algorithm:?}");
            let other = TokenSigningKey::make(algorithm).unwrap();
            assert!(!other.public().verifies(b"message", &signature), "{algorithm:?}");
            assert_ne!(other.public().kid(), key.public().kid());
        }
    }

    #[test]
    fn a_kid_is_the_thumbprint_of_its_key() {
        // RFC 8037, A.3.
        let members = [
            ("crv", "Ed25519"),
            ("kty", "OKP"),
            ("x", "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"),
        ];
        let members = members.map(|(name, value)| (name, value.to_owned())).to_vec();
        let key = JsonWebKey::of(SigningAlgorithm::EdDsa, members);
        assert_eq!(key.kid(), "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k");
    }

    #[test]
    fn nothing_of_a_private_key_is_printed() {
        let key = TokenSigningKey::make(SigningAlgorithm::EdDsa).unwrap();
        assert_eq!(format!("{key:?} {:?}", key.store()), "TokenSigningKey StoredSigningKey");
    }

    #[test]
    fn a_point_is_published_by_its_two_halves() {
        let key = TokenSigningKey::make(SigningAlgorithm::Es256).unwrap();
        let jwk = key.public().jwk();
        for half in ["x", "y"] {
            let text = jwk.as_object().unwrap()[half].as_str().unwrap().to_owned();
            assert_eq!(BASE64URL_NOPAD.decode(text.as_bytes()).unwrap().len(), 32, "{half}");
        }
    }
}
