//! A signed JWT (RFC 7519) in its compact form, and the keys that may have signed it.
//!
//! The header says which algorithm and which key; the algorithm must be one of [`ALGORITHMS`], all of
//! which verify with a public key. There is no `none` and nothing symmetric in the list, so a public
//! key can never be taken for a secret (RFC 8725, sections 2.1 and 3.1). A key verifies under the
//! algorithms of its own kind alone: its bytes do not parse under others.

use aws_lc_rs::signature::{
    self, EcdsaVerificationAlgorithm, RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey,
};
use data_encoding::BASE64URL_NOPAD;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, SubjectPublicKeyInfoDer};

use kallisto_api::json::{self, Json, Map};

/// Longest JWT taken, in bytes.
pub(crate) const JWT_BYTES_MAX: usize = 16 << 10;
/// Most keys in one set.
pub(crate) const KEYS_MAX: usize = 64;

#[derive(Clone, Copy)]
enum JwsScheme {
    Rsa(&'static RsaParameters),
    Ecdsa(&'static EcdsaVerificationAlgorithm),
    Ed25519,
}

/// The algorithms taken, by their name in RFC 7518 and 8037.
const ALGORITHMS: [(&str, JwsScheme); 10] = [
    ("RS256", JwsScheme::Rsa(&signature::RSA_PKCS1_2048_8192_SHA256)),
    ("RS384", JwsScheme::Rsa(&signature::RSA_PKCS1_2048_8192_SHA384)),
    ("RS512", JwsScheme::Rsa(&signature::RSA_PKCS1_2048_8192_SHA512)),
    ("PS256", JwsScheme::Rsa(&signature::RSA_PSS_2048_8192_SHA256)),
    ("PS384", JwsScheme::Rsa(&signature::RSA_PSS_2048_8192_SHA384)),
    ("PS512", JwsScheme::Rsa(&signature::RSA_PSS_2048_8192_SHA512)),
    ("ES256", JwsScheme::Ecdsa(&signature::ECDSA_P256_SHA256_FIXED)),
    ("ES384", JwsScheme::Ecdsa(&signature::ECDSA_P384_SHA384_FIXED)),
    ("ES512", JwsScheme::Ecdsa(&signature::ECDSA_P521_SHA512_FIXED)),
    ("EdDSA", JwsScheme::Ed25519),
];

/// Whether an algorithm is one of those taken.
pub(crate) fn is_algorithm(name: &str) -> bool {
    ALGORITHMS.iter().any(|(known, _)| *known == name)
}

/// A JWT taken apart, not yet believed.
pub(crate) struct Jwt<'t> {
    pub(crate) algorithm: String,
    pub(crate) key_id: Option<String>,
    /// What it claims; only to be looked at before [`Jwt::is_signed_by`] to choose a key.
    pub(crate) claims: Map,
    signed: &'t str,
    signature: Vec<u8>,
}

impl<'t> Jwt<'t> {
    /// Takes a JWT apart, which may have blanks and line ends around it, as one of a file has; `None` when it is none.
    pub(crate) fn parse(text: &'t str) -> Option<Self> {
        let text = text.trim();
        if text.len() > JWT_BYTES_MAX {
            return None;
        }
        let (signed, signature) = text.rsplit_once('.')?;
        let (header, claims) = signed.split_once('.')?;
        let object =
            |part: &str| json::parse_object(&BASE64URL_NOPAD.decode(part.as_bytes()).ok()?).ok();
        let header = object(header)?;
        // What it says must be understood is not (RFC 7515, section 4.1.11).
        if header.contains_key("crit") {
            return None;
        }
        Some(Self {
            algorithm: header.get("alg")?.as_str()?.to_owned(),
            key_id: header.get("kid").and_then(Json::as_str).map(str::to_owned),
            claims: object(claims)?,
            signed,
            signature: BASE64URL_NOPAD.decode(signature.as_bytes()).ok()?,
        })
    }

    /// Whether one of these keys signed it: the one it names where they have names.
    pub(crate) fn is_signed_by(&self, keys: &[JwtKey]) -> bool {
        let Some((_, scheme)) = ALGORITHMS.iter().find(|(name, _)| *name == self.algorithm) else {
            return false;
        };
        keys.iter()
            .any(|key| self.may_be(key) && key.verifies(*scheme, self.signed, &self.signature))
    }

    /// Whether the key it names is among these, or it or they name none.
    pub(crate) fn names_one_of(&self, keys: &[JwtKey]) -> bool {
        keys.iter().any(|key| self.may_be(key))
    }

    fn may_be(&self, key: &JwtKey) -> bool {
        let same_id = match (&self.key_id, &key.id) {
            (Some(named), Some(id)) => named == id,
            _ => true,
        };
        same_id && key.algorithm.as_ref().is_none_or(|only| *only == self.algorithm)
    }
}

/// A public key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct JwtKey {
    id: Option<String>,
    /// The one algorithm it is for, if it says so.
    algorithm: Option<String>,
    bytes: KeyBytes,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum KeyBytes {
    /// As X.509 has it, or a point, or an Ed25519 key: what the algorithm takes.
    Plain(Vec<u8>),
    /// Modulus and exponent.
    Rsa(Vec<u8>, Vec<u8>),
}

impl JwtKey {
    /// Reads the keys of a PEM text: public keys and those of certificates.
    pub(crate) fn from_pem(pem: &str) -> Option<Vec<Self>> {
        let plain =
            |bytes: Vec<u8>| Self { id: None, algorithm: None, bytes: KeyBytes::Plain(bytes) };
        let mut keys = Vec::new();
        for key in SubjectPublicKeyInfoDer::pem_slice_iter(pem.as_bytes()) {
            keys.push(plain(key.ok()?.to_vec()));
        }
        for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
            let certificate = certificate.ok()?;
            let parsed = webpki::EndEntityCert::try_from(&certificate).ok()?;
            keys.push(plain(parsed.subject_public_key_info().to_vec()));
        }
        (!keys.is_empty() && keys.len() <= KEYS_MAX).then_some(keys)
    }

    /// Reads a JWK set (RFC 7517); keys of kinds that verify nothing here are passed over.
    pub(crate) fn from_jwks(body: &[u8]) -> Option<Vec<Self>> {
        let set = json::parse_object(body).ok()?;
        let Some(Json::Array(keys)) = set.get("keys") else { return None };
        let keys = keys.iter().take(KEYS_MAX);
        Some(keys.filter_map(|key| Self::from_jwk(key.as_object()?)).collect())
    }

    fn from_jwk(jwk: &Map) -> Option<Self> {
        let text = |name: &str| jwk.get(name).and_then(Json::as_str);
        if text("use").is_some_and(|purpose| purpose != "sig") {
            return None;
        }
        let bytes =
            |name: &str| BASE64URL_NOPAD.decode(text(name)?.trim_end_matches('=').as_bytes()).ok();
        // Some write the sign of a number, a byte that is zero (RFC 7518, 6.3.1.1, forbids it), and the library takes none.
        let number = |mut bytes: Vec<u8>| {
            bytes.drain(..bytes.iter().take_while(|byte| **byte == 0).count());
            bytes
        };
        let bytes = match text("kty")? {
            "RSA" => KeyBytes::Rsa(number(bytes("n")?), number(bytes("e")?)),
            // An uncompressed point: a four, then both coordinates.
            "EC" => KeyBytes::Plain([vec![4], bytes("x")?, bytes("y")?].concat()),
            "OKP" if text("crv") == Some("Ed25519") => KeyBytes::Plain(bytes("x")?),
            _ => return None,
        };
        Some(Self {
            id: text("kid").map(str::to_owned),
            algorithm: text("alg").map(str::to_owned),
            bytes,
        })
    }

    fn verifies(&self, scheme: JwsScheme, signed: &str, signature: &[u8]) -> bool {
        let signed = signed.as_bytes();
        match (&self.bytes, scheme) {
            (KeyBytes::Rsa(n, e), JwsScheme::Rsa(parameters)) => {
                RsaPublicKeyComponents { n, e }.verify(parameters, signed, signature).is_ok()
            }
            (KeyBytes::Rsa(..), _) => false,
            (KeyBytes::Plain(bytes), JwsScheme::Rsa(parameters)) => {
                UnparsedPublicKey::new(parameters, bytes).verify(signed, signature).is_ok()
            }
            (KeyBytes::Plain(bytes), JwsScheme::Ecdsa(algorithm)) => {
                UnparsedPublicKey::new(algorithm, bytes).verify(signed, signature).is_ok()
            }
            (KeyBytes::Plain(bytes), JwsScheme::Ed25519) => {
                UnparsedPublicKey::new(&signature::ED25519, bytes).verify(signed, signature).is_ok()
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use aws_lc_rs::encoding::{AsDer, PublicKeyX509Der};
    use aws_lc_rs::rand::SystemRandom;
    use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
    use data_encoding::BASE64;

    use super::*;

    /// A key pair with its public half as PEM.
    pub(crate) fn make_pair() -> (EcdsaKeyPair, String) {
        let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap();
        let der: PublicKeyX509Der<'_> = pair.public_key().as_der().unwrap();
        let pem = format!(
            "-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----\n",
            BASE64.encode(der.as_ref())
        );
        (pair, pem)
    }

    /// A JWT of these parts, signed.
    pub(crate) fn sign(pair: &EcdsaKeyPair, header: &str, claims: &str) -> String {
        let [header, claims] = [header, claims].map(|part| BASE64URL_NOPAD.encode(part.as_bytes()));
        let signed = format!("{header}.{claims}");
        let signature = pair.sign(&SystemRandom::new(), signed.as_bytes()).unwrap();
        format!("{signed}.{}", BASE64URL_NOPAD.encode(signature.as_ref()))
    }

    fn holds(text: &str, keys: &[JwtKey]) -> bool {
        Jwt::parse(text).is_some_and(|jwt| jwt.is_signed_by(keys))
    }

    #[test]
    fn a_signature_holds_for_its_key_and_text_alone() {
        let (pair, pem) = make_pair();
        let keys = JwtKey::from_pem(&pem).unwrap();
        let text = sign(&pair, r#"{"alg":"ES256"}"#, r#"{"sub":"a"}"#);
        assert!(holds(&text, &keys));
        assert!(!holds(&text, &JwtKey::from_pem(&make_pair().1).unwrap()));
        for at in 0..text.len() {
            let mut bytes = text.clone().into_bytes();
            bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
            assert!(!holds(std::str::from_utf8(&bytes).unwrap(), &keys), "{at}");
            assert!(!holds(&text[..at], &keys), "{at}");
        }
    }

    /// RFC 8725: no unsigned ones, no public key as a secret, no algorithm of another kind.
    #[test]
    fn no_header_talks_a_key_into_another_algorithm() {
        let (pair, pem) = make_pair();
        let keys = JwtKey::from_pem(&pem).unwrap();
        for algorithm in ["none", "None", "", "HS256", "HS512", "RS256", "PS256", "ES384", "EdDSA"]
        {
            let header = format!(r#"{{"alg":"{algorithm}"}}"#);
            let text = sign(&pair, &header, r#"{"sub":"a"}"#);
            assert!(!holds(&text, &keys), "{algorithm}");
            let unsigned = format!("{}.", text.rsplit_once('.').unwrap().0);
            assert!(!holds(&unsigned, &keys), "{algorithm}");
        }
        let secret = aws_lc_rs::hmac::Key::new(aws_lc_rs::hmac::HMAC_SHA256, pem.as_bytes());
        let signed = format!(
            "{}.{}",
            BASE64URL_NOPAD.encode(br#"{"alg":"HS256"}"#),
            BASE64URL_NOPAD.encode(br#"{"sub":"a"}"#)
        );
        let tag = aws_lc_rs::hmac::sign(&secret, signed.as_bytes());
        assert!(!holds(&format!("{signed}.{}", BASE64URL_NOPAD.encode(tag.as_ref())), &keys));
        let critical = sign(&pair, r#"{"alg":"ES256","crit":["b64"]}"#, "{}");
        assert!(!holds(&critical, &keys));
    }

    #[test]
    fn a_set_of_keys_is_chosen_from_by_id() {
        let (pair, _) = make_pair();
        let point = pair.public_key().as_ref();
        let [x, y] = [&point[1..33], &point[33..]].map(|part| BASE64URL_NOPAD.encode(part));
        let set = format!(
            r#"{{"keys":[{{"kty":"oct","k":"AAAA"}},{{"kty":"EC","kid":"one","crv":"P-256",
                "x":"{x}","y":"{y}","alg":"ES256"}},{{"kty":"EC","kid":"two","use":"enc",
                "crv":"P-256","x":"{x}","y":"{y}"}}]}}"#
        );
        let keys = JwtKey::from_jwks(set.as_bytes()).unwrap();
        assert_eq!(keys.len(), 1);
        for (id, good) in [("one", true), ("two", false)] {
            let header = format!(r#"{{"alg":"ES256","kid":"{id}"}}"#);
            let text = sign(&pair, &header, "{}");
            assert_eq!(holds(&text, &keys), good, "{id}");
            assert_eq!(Jwt::parse(&text).unwrap().names_one_of(&keys), good, "{id}");
        }
        assert_eq!(JwtKey::from_jwks(b"{}"), None);
        assert_eq!(JwtKey::from_pem("no pem"), None);
    }

    /// Numbers as they should be, with the sign that Java writes, and with more zeros than anybody does.
    #[test]
    fn a_key_of_rsa_verifies_whatever_zeros_lead_its_numbers() {
        let pair = aws_lc_rs::rsa::KeyPair::generate(aws_lc_rs::rsa::KeySize::Rsa2048).unwrap();
        let signed = [r#"{"alg":"RS256","kid":"one"}"#, "{}"]
            .map(|part| BASE64URL_NOPAD.encode(part.as_bytes()))
            .join(".");
        let mut signature = vec![0; pair.public_modulus_len()];
        let encoding = &signature::RSA_PKCS1_SHA256;
        pair.sign(encoding, &SystemRandom::new(), signed.as_bytes(), &mut signature).unwrap();
        let text = format!("{signed}.{}", BASE64URL_NOPAD.encode(&signature));
        // A sequence of an integer of 257 bytes, the first of which is its sign, and of 65537 (RFC 8017, A.1.1).
        let der = pair.public_key().as_ref();
        let (modulus, exponent) = (&der[9..265], &der[267..]);
        assert_eq!((der[8], exponent), (0, &[1, 0, 1][..]));
        for zeros in 0..4 {
            let number = |bytes: &[u8]| BASE64URL_NOPAD.encode(&[&vec![0; zeros], bytes].concat());
            let (n, e) = (number(modulus), number(exponent));
            let set = format!(r#"{{"keys":[{{"kty":"RSA","kid":"one","n":"{n}","e":"{e}"}}]}}"#);
            assert!(holds(&text, &JwtKey::from_jwks(set.as_bytes()).unwrap()), "{zeros}");
        }
        for (n, e) in [("", "AQAB"), ("AAAA", "AQAB"), (&*BASE64URL_NOPAD.encode(modulus), "AA")] {
            let set = format!(r#"{{"keys":[{{"kty":"RSA","kid":"one","n":"{n}","e":"{e}"}}]}}"#);
            assert!(!holds(&text, &JwtKey::from_jwks(set.as_bytes()).unwrap()), "{n} {e}");
        }
    }

    #[test]
    fn a_jwt_is_the_same_with_blanks_and_line_ends_around_it() {
        let (pair, pem) = make_pair();
        let keys = JwtKey::from_pem(&pem).unwrap();
        let text = sign(&pair, r#"{"alg":"ES256"}"#, r#"{"sub":"a"}"#);
        for around in [format!("{text}\n"), format!("{text}\r\n"), format!(" {text} ")] {
            assert!(holds(&around, &keys), "{around:?}");
        }
        assert!(!holds(&text.replacen('.', "\n.", 1), &keys));
    }

    /// RFC 8037, appendix A: an Ed25519 key and what it signed.
    #[test]
    fn the_published_ed25519_example_verifies() {
        let set = br#"{"keys":[{"kty":"OKP","crv":"Ed25519",
            "x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}"#;
        let keys = JwtKey::from_jwks(set).unwrap();
        let signed = "eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc";
        let signature = "hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9\
                         g7sVvpAr_MuM0KAg";
        let signature = BASE64URL_NOPAD.decode(signature.as_bytes()).unwrap();
        assert!(keys[0].verifies(JwsScheme::Ed25519, signed, &signature));
    }
}
