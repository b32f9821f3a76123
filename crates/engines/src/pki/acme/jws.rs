//! Signed requests of ACME (RFC 8555, section 6.2): JWS in the flattened JSON serialization (RFC 7515, 7.2.2), and the keys that sign them
//! (RFC 7517, 7518, 8037).
//!
//! Called by [`super::exchange`] for each request, for the inner request of a change of keys, and for external account bindings. Only what the
//! bytes say is decided here; whose key it is, and whether the nonce is good, is decided there.
//!
//! Invariants:
//! - There is no algorithm that verifies without a public key: `none` and HMAC are refused, but HMAC for a binding, whose key is ours.
//! - An algorithm goes with one kind of key; it is not chosen by the sender alone.
//! - What is verified is the text that was sent, not what was read of it.

use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ECDSA_P521_SHA512_FIXED, ED25519,
    RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey, VerificationAlgorithm,
};
use aws_lc_rs::{digest, hmac};
use data_encoding::BASE64URL_NOPAD;
use kallisto_api::json::{self, Json, Map};
use kallisto_pki::{PkiKeyKind, PublicKey};

use super::problem::{Failure, Kind, Problem, fail, malformed};

/// Longest request.
const REQUEST_BYTES_MAX: usize = 128 << 10;
/// Largest modulus of an RSA key, in bytes.
const MODULUS_BYTES_MAX: usize = 1024;
/// Smallest modulus of an RSA key, in bytes.
const MODULUS_BYTES_MIN: usize = 256;

/// The algorithms that requests are signed with.
const ALGORITHMS: [&str; 5] = ["ES256", "ES384", "ES512", "RS256", "EdDSA"];

/// A public key that signs requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::pki) struct Jwk {
    /// Its required members alone, in the order of their names: what its thumbprint is of (RFC 7638).
    canonical: String,
    public: PublicKey,
}

fn member<'m>(map: &'m Map, name: &str) -> Option<&'m str> {
    map.get(name).and_then(Json::as_str)
}

fn bytes(map: &Map, name: &str) -> Result<Vec<u8>, Failure> {
    let text = member(map, name).unwrap_or_default();
    let bytes = BASE64URL_NOPAD.decode(text.as_bytes()).ok().filter(|bytes| !bytes.is_empty());
    bytes.ok_or_else(|| malformed(format!("the member {name:?} of the JWK is no base64url")))
}

impl Jwk {
    /// Reads a key.
    pub(super) fn read(jwk: &Map) -> Result<Self, Failure> {
        if jwk.contains_key("d") {
            return Err(fail(Kind::BadPublicKey, "the JWK is a private key"));
        }
        let unsupported = || fail(Kind::BadPublicKey, "the key is of a type that is not supported");
        let (canonical, public) = match (member(jwk, "kty"), member(jwk, "crv")) {
            (Some("EC"), Some(curve)) => {
                let (kind, width) = match curve {
                    "P-256" => (PkiKeyKind::P256, 32),
                    "P-384" => (PkiKeyKind::P384, 48),
                    "P-521" => (PkiKeyKind::P521, 66),
                    _ => return Err(unsupported()),
                };
                let (x, y) = (bytes(jwk, "x")?, bytes(jwk, "y")?);
                if x.len() != width || y.len() != width {
                    return Err(fail(
                        Kind::BadPublicKey,
                        "a coordinate is not as long as its curve",
                    ));
                }
                let canonical = format!(
                    r#"{{"crv":"{curve}","kty":"EC","x":"{}","y":"{}"}}"#,
                    BASE64URL_NOPAD.encode(&x),
                    BASE64URL_NOPAD.encode(&y)
                );
                (canonical, PublicKey::of_curve(kind, &[&[4], &x[..], &y[..]].concat()))
            }
            (Some("OKP"), Some("Ed25519")) => {
                let x = bytes(jwk, "x")?;
                let canonical = format!(
                    r#"{{"crv":"Ed25519","kty":"OKP","x":"{}"}}"#,
                    BASE64URL_NOPAD.encode(&x)
                );
                (canonical, PublicKey::of_curve(PkiKeyKind::Ed25519, &x))
            }
            (Some("RSA"), _) => {
                let (n, e) = (bytes(jwk, "n")?, bytes(jwk, "e")?);
                if n[0] == 0 || !(MODULUS_BYTES_MIN..=MODULUS_BYTES_MAX).contains(&n.len()) {
                    return Err(fail(Kind::BadPublicKey, "an RSA key has 2048 to 8192 bits"));
                }
                if e[0] == 0 || e.len() > 4 {
                    return Err(fail(
                        Kind::BadPublicKey,
                        "the exponent of the RSA key is too long",
                    ));
                }
                let canonical = format!(
                    r#"{{"e":"{}","kty":"RSA","n":"{}"}}"#,
                    BASE64URL_NOPAD.encode(&e),
                    BASE64URL_NOPAD.encode(&n)
                );
                (canonical, PublicKey::of_rsa(&n, &e))
            }
            _ => return Err(unsupported()),
        };
        let public = public.map_err(|_| fail(Kind::BadPublicKey, "the key cannot be read"))?;
        Ok(Self { canonical, public })
    }

    /// The key that was written as [`text`](Self::text).
    pub(super) fn parse(text: &str) -> Option<Self> {
        Self::read(&json::parse_object(text.as_bytes()).ok()?).ok()
    }

    /// The key in JSON.
    pub(super) fn text(&self) -> &str {
        &self.canonical
    }

    /// RFC 7638, by SHA-256.
    pub(super) fn thumbprint(&self) -> String {
        let digest = digest::digest(&digest::SHA256, self.canonical.as_bytes());
        BASE64URL_NOPAD.encode(digest.as_ref())
    }

    /// The key as certificates have it.
    pub(super) const fn public(&self) -> &PublicKey {
        &self.public
    }

    /// Checks a signature.
    fn verify(&self, algorithm: &str, message: &[u8], signature: &[u8]) -> Result<(), Failure> {
        let verification: &'static dyn VerificationAlgorithm = match (algorithm, self.public.kind())
        {
            ("ES256", Some(PkiKeyKind::P256)) => &ECDSA_P256_SHA256_FIXED,
            ("ES384", Some(PkiKeyKind::P384)) => &ECDSA_P384_SHA384_FIXED,
            ("ES512", Some(PkiKeyKind::P521)) => &ECDSA_P521_SHA512_FIXED,
            ("RS256", Some(PkiKeyKind::Rsa(_))) => &RSA_PKCS1_2048_8192_SHA256,
            ("EdDSA", Some(PkiKeyKind::Ed25519)) => &ED25519,
            _ => return Err(malformed("the algorithm does not go with the key")),
        };
        let key = UnparsedPublicKey::new(verification, self.public.bits());
        key.verify(message, signature).map_err(|_| malformed("failed to verify signature"))
    }
}

/// Who signed, as the request says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum JwsSigner {
    /// The key itself.
    Key(Jwk),
    /// The URL of an account.
    Account(String),
}

/// A signed request, read and not yet verified.
#[derive(Clone, Debug)]
pub(super) struct Jws {
    pub(super) algorithm: String,
    pub(super) nonce: Option<String>,
    pub(super) url: String,
    pub(super) signer: JwsSigner,
    /// The payload; empty for POST-as-GET.
    pub(super) payload: Vec<u8>,
    message: Vec<u8>,
    signature: Vec<u8>,
}

/// The three parts of a JWS.
struct JwsParts {
    protected: Map,
    payload: Vec<u8>,
    message: Vec<u8>,
    signature: Vec<u8>,
}

impl JwsParts {
    fn read(body: &Map) -> Result<Self, Failure> {
        if body.contains_key("header") || body.contains_key("signatures") {
            return Err(malformed("a JWS has one signature and no header that is not protected"));
        }
        let part = |name: &str| {
            let text = member(body, name);
            text.ok_or_else(|| malformed(format!("the JWS has no member {name:?}")))
        };
        let decode = |name: &str, text: &str| {
            let decoded = BASE64URL_NOPAD.decode(text.as_bytes());
            decoded.map_err(|_| malformed(format!("the member {name:?} is no base64url")))
        };
        let (protected, payload) = (part("protected")?, part("payload")?);
        let message = format!("{protected}.{payload}").into_bytes();
        let header = decode("protected", protected)?;
        let header = json::parse_object(&header)
            .map_err(|_| malformed("the member \"protected\" is no JSON object"))?;
        if header.contains_key("crit") || header.contains_key("b64") {
            return Err(malformed("the JWS has an extension that is not supported"));
        }
        Ok(Self {
            protected: header,
            payload: decode("payload", payload)?,
            message,
            signature: decode("signature", part("signature")?)?,
        })
    }

    fn algorithm(&self) -> Result<&str, Failure> {
        member(&self.protected, "alg").ok_or_else(|| malformed("the JWS names no algorithm"))
    }

    fn url(&self) -> Result<&str, Failure> {
        member(&self.protected, "url").ok_or_else(|| malformed("the JWS names no url"))
    }
}

impl Jws {
    /// Reads a request.
    pub(super) fn read(body: &[u8]) -> Result<Self, Failure> {
        if body.len() > REQUEST_BYTES_MAX {
            return Err(malformed(format!("a request of more than {REQUEST_BYTES_MAX} bytes")));
        }
        let body = json::parse_object(body)
            .map_err(|_| malformed("the request is no JWS in the flattened JSON serialization"))?;
        Self::of(&body)
    }

    /// Reads one that was parsed: the inner request of a change of keys.
    pub(super) fn of(body: &Map) -> Result<Self, Failure> {
        let parts = JwsParts::read(body)?;
        let algorithm = parts.algorithm()?.to_owned();
        if !ALGORITHMS.contains(&&*algorithm) {
            let problem = Problem::new(Kind::BadSignatureAlgorithm, "");
            return Err(problem.also("algorithms", Json::strings(ALGORITHMS)).into());
        }
        let header = &parts.protected;
        let signer = match (header.get("jwk"), header.get("kid")) {
            (Some(Json::Object(jwk)), None) => JwsSigner::Key(Jwk::read(jwk)?),
            (None, Some(Json::String(kid))) => JwsSigner::Account(kid.clone()),
            _ => return Err(malformed("the JWS names its key by one of jwk and kid")),
        };
        let nonce = match header.get("nonce") {
            None => None,
            Some(Json::String(nonce)) => Some(nonce.clone()),
            Some(_) => return Err(malformed("the nonce is no text")),
        };
        Ok(Self {
            nonce,
            url: parts.url()?.to_owned(),
            algorithm,
            signer,
            payload: parts.payload,
            message: parts.message,
            signature: parts.signature,
        })
    }

    /// Checks who signed it.
    pub(super) fn verify(&self, key: &Jwk) -> Result<(), Failure> {
        key.verify(&self.algorithm, &self.message, &self.signature)
    }

    /// The payload as an object. There are clients that write what they do not say as null: those members are not there.
    pub(super) fn object(&self) -> Result<Map, Failure> {
        let payload = json::parse_object(&self.payload);
        let mut payload = payload.map_err(|_| malformed("the payload is no JSON object"))?;
        payload.retain(|_, member| *member != Json::Null);
        Ok(payload)
    }
}

/// An external account binding (RFC 8555, 7.3.4), not yet verified.
pub(super) struct Binding {
    pub(super) key_id: String,
    parts: JwsParts,
}

impl Binding {
    /// Reads one. It is of a request to `url`, for the account of `key`.
    pub(super) fn read(binding: &Map, url: &str, key: &Jwk) -> Result<Self, Failure> {
        let parts = JwsParts::read(binding)?;
        if parts.algorithm()? != "HS256" {
            let problem = Problem::new(Kind::BadSignatureAlgorithm, "");
            return Err(problem.also("algorithms", Json::strings(["HS256"])).into());
        }
        if parts.protected.contains_key("nonce") {
            return Err(malformed("an external account binding has no nonce"));
        }
        if parts.url()? != url {
            return Err(malformed("the external account binding is of another url"));
        }
        let Some(key_id) = member(&parts.protected, "kid") else {
            return Err(malformed("the external account binding has no kid"));
        };
        let bound = json::parse_object(&parts.payload).map_err(|_| ());
        let is_same = bound.is_ok_and(|bound| Jwk::read(&bound).is_ok_and(|bound| bound == *key));
        if !is_same {
            return Err(malformed("the external account binding is of another key"));
        }
        Ok(Self { key_id: key_id.to_owned(), parts })
    }

    /// Checks it against the key that was handed out.
    pub(super) fn verify(&self, secret: &[u8]) -> Result<(), Failure> {
        let key = hmac::Key::new(hmac::HMAC_SHA256, secret);
        hmac::verify(&key, &self.parts.message, &self.parts.signature)
            .map_err(|_| fail(Kind::Unauthorized, "the external account binding is not verified"))
    }
}
