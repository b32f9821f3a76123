//! Public halves alone: keys that were brought without their private half. They verify and encrypt.
//!
//! ```text
//! SubjectPublicKeyInfo := SEQUENCE { SEQUENCE { algorithm }, BIT STRING { key } }     (RFC 5280, 4.1)
//! key                  := Ed25519: 32 bytes | curves: 04, x, y | RSA: SEQUENCE { modulus, exponent }
//! ```

use aws_lc_rs::rsa::{OaepPublicEncryptingKey, PublicEncryptingKey};
use aws_lc_rs::signature::{ED25519, ParsedPublicKey};

use crate::der;
use crate::ecdsa::Curve;
use crate::error::{Error, Result};
use crate::kind::{KeyFamily, KeyKind};
use crate::rsa::modulus_bits;

/// What the algorithm of an RSA key is (RFC 3279, 2.3.1).
const RSA: &[u8] = b"\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x01\x01\x05\x00";
/// That of Ed25519 (RFC 8410, 3).
const EDWARDS: &[u8] = b"\x06\x03\x2b\x65\x70";
/// How the algorithm of an elliptic curve begins (RFC 5480, 2.1.1); the curve follows.
const ELLIPTIC: &[u8] = b"\x06\x07\x2a\x86\x48\xce\x3d\x02\x01";
/// The curves, by type.
const CURVES: [(KeyKind, &[u8]); 3] = [
    (KeyKind::EcdsaP256, b"\x06\x08\x2a\x86\x48\xce\x3d\x03\x01\x07"),
    (KeyKind::EcdsaP384, b"\x06\x05\x2b\x81\x04\x00\x22"),
    (KeyKind::EcdsaP521, b"\x06\x05\x2b\x81\x04\x00\x23"),
];
/// Bytes of a public key of Ed25519.
const EDWARDS_BYTES: usize = 32;
/// Longest PEM text that is looked at: a key of RSA-4096 has 800 bytes.
const PEM_BYTES_MAX: usize = 16 << 10;

/// A public half.
pub(crate) struct PublicHalf {
    /// The SubjectPublicKeyInfo.
    spki: Vec<u8>,
    key: TransitPublicKey,
}

/// What it is of.
pub(crate) enum TransitPublicKey {
    Ed25519([u8; EDWARDS_BYTES]),
    /// A curve, and a point on it, uncompressed.
    Ecdsa(&'static Curve, Vec<u8>),
    /// The key in the form of PKCS #1, and what encrypts.
    Rsa(Vec<u8>, OaepPublicEncryptingKey),
}

impl PublicHalf {
    /// The public half in a PEM text; what stands before and behind it is passed over.
    ///
    /// # Errors
    /// [`Error::Invalid`] if there is none of this type.
    pub(crate) fn from_pem(kind: KeyKind, text: &str) -> Result<Self> {
        if !matches!(kind.family(), KeyFamily::Ed25519 | KeyFamily::Ecdsa | KeyFamily::Rsa) {
            return Err(Error::invalid("provided type does not support public_key import"));
        }
        let spki = (text.len() <= PEM_BYTES_MAX).then(|| der::from_pem(text)).flatten();
        let spki =
            spki.ok_or_else(|| Error::invalid("error parsing public key: not in PEM format"))?;
        Self::from_spki(kind, &spki)
    }

    /// The public half of a SubjectPublicKeyInfo.
    ///
    /// # Errors
    /// [`Error::Invalid`] if it is none of this type.
    pub(crate) fn from_spki(kind: KeyKind, spki: &[u8]) -> Result<Self> {
        let (algorithm, key) = der::public_key_info(spki).ok_or_else(malformed)?;
        let key = match kind.family() {
            KeyFamily::Ed25519 if algorithm == EDWARDS => edwards(key)?,
            KeyFamily::Ecdsa if algorithm.starts_with(ELLIPTIC) => {
                elliptic(kind, &algorithm[ELLIPTIC.len()..], key)?
            }
            KeyFamily::Rsa if algorithm == RSA => rsa_key(kind, spki, key)?,
            _ => {
                let wanted = kind.name();
                return Err(Error::invalid(format!("invalid key type: expected {wanted}")));
            }
        };
        Ok(Self { spki: spki.to_vec(), key })
    }

    pub(crate) fn spki(&self) -> &[u8] {
        &self.spki
    }

    pub(crate) const fn key(&self) -> &TransitPublicKey {
        &self.key
    }

    /// The modulus and exponent of an RSA key, big-endian.
    pub(crate) fn rsa_numbers(&self) -> Option<(&[u8], &[u8])> {
        let TransitPublicKey::Rsa(pkcs1, _) = &self.key else { return None };
        match der::integers(pkcs1)?[..] {
            [n, e] => Some((n, e)),
            _ => None,
        }
    }

    /// The public half of an RSA key of these numbers.
    pub(crate) fn from_rsa_numbers(kind: KeyKind, n: &[u8], e: &[u8]) -> Result<Self> {
        Self::from_spki(kind, &der::make_public_key_info(RSA, &der::make_integers(&[n, e])))
    }

    /// The public half of an elliptic-curve key with this point.
    pub(crate) fn from_point(kind: KeyKind, point: &[u8]) -> Result<Self> {
        let curve = CURVES.iter().find(|(known, _)| *known == kind);
        let (_, curve) = curve.ok_or_else(malformed)?;
        Self::from_spki(kind, &der::make_public_key_info(&[ELLIPTIC, curve].concat(), point))
    }

    /// The public half of Ed25519 of these bytes.
    pub(crate) fn from_edwards(bytes: &[u8]) -> Result<Self> {
        Self::from_spki(KeyKind::Ed25519, &der::make_public_key_info(EDWARDS, bytes))
    }
}

fn edwards(key: &[u8]) -> Result<TransitPublicKey> {
    let bytes = *key.as_array().ok_or_else(malformed)?;
    ParsedPublicKey::new(&ED25519, bytes).map_err(|_| malformed())?;
    Ok(TransitPublicKey::Ed25519(bytes))
}

fn elliptic(kind: KeyKind, named: &[u8], point: &[u8]) -> Result<TransitPublicKey> {
    let curve = Curve::of(kind)?;
    let found = CURVES.iter().find(|(_, known)| *known == named).map(|(kind, _)| *kind);
    if found != Some(kind) {
        let found = found.and_then(|kind| Curve::of(kind).ok()).map_or("another", |it| it.name);
        let wanted = curve.name;
        return Err(Error::invalid(format!("invalid curve: expected {wanted}, got {found}")));
    }
    if point.first() != Some(&4) || !curve.holds(point) {
        return Err(malformed());
    }
    Ok(TransitPublicKey::Ecdsa(curve, point.to_vec()))
}

fn rsa_key(kind: KeyKind, spki: &[u8], pkcs1: &[u8]) -> Result<TransitPublicKey> {
    let wanted = modulus_bits(kind)? / 8;
    let numbers = der::integers(pkcs1).ok_or_else(malformed)?;
    let [n, _] = numbers[..] else { return Err(malformed()) };
    if n.len() != wanted {
        let found = n.len();
        return Err(Error::invalid(format!(
            "invalid key size: expected {wanted} bytes, got {found} bytes"
        )));
    }
    let key = PublicEncryptingKey::from_der(spki).map_err(|_| malformed())?;
    let encrypting = OaepPublicEncryptingKey::new(key).map_err(|_| malformed())?;
    Ok(TransitPublicKey::Rsa(pkcs1.to_vec(), encrypting))
}

fn malformed() -> Error {
    Error::invalid("error parsing public key: no such key in it")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backup::RestoredKey;
    use crate::encrypt::{Decrypt, Encrypt};
    use crate::export::{ExportFormat, ExportKind};
    use crate::hash::HashAlgorithm;
    use crate::key::{KeySpec, TransitKey};
    use crate::material::Material;
    use crate::settings::{Derivation, Kdf, KeyOrigin};
    use crate::sign::{Marshaling, RsaPadding, SaltBytes, Sign, SignInput, SignOptions};

    const OPTIONS: SignOptions = SignOptions {
        hash: HashAlgorithm::Sha2_256,
        marshaling: Marshaling::Asn1,
        padding: RsaPadding::Pss(SaltBytes::Auto),
    };
    const MESSAGE: Sign<'_> = Sign { input: SignInput::Message(b"m"), context: b"", version: 0 };
    const KINDS: [KeyKind; 5] = [
        KeyKind::Ed25519,
        KeyKind::EcdsaP256,
        KeyKind::EcdsaP384,
        KeyKind::EcdsaP521,
        KeyKind::Rsa2048,
    ];

    fn refusal<T>(result: Result<T>) -> String {
        result.err().expect("it is refused").to_string()
    }

    fn portable() -> KeySpec {
        KeySpec { exportable: true, allow_plaintext_backup: true, ..KeySpec::default() }
    }

    /// A whole key, its private half in PKCS#8 and its public one as a text.
    fn whole(kind: KeyKind) -> (TransitKey, Vec<u8>, String) {
        let key = TransitKey::make(kind, &portable(), 0).unwrap();
        let private = match &key.version(1).unwrap().material {
            Material::Ed25519(pair) => pair.pkcs8().unwrap(),
            other => other.to_bytes().unwrap(),
        };
        let public = key.export(ExportKind::Public, ExportFormat::Pem, None).unwrap();
        (key, private.to_vec(), public[0].1.to_string())
    }

    fn import(kind: KeyKind, text: &str) -> Result<TransitKey> {
        TransitKey::import_public(kind, &portable(), KeyOrigin::Imported, text, 5)
    }

    #[test]
    fn a_public_half_verifies_and_nothing_more_until_the_private_one_comes() {
        for kind in KINDS {
            let (whole, private, text) = whole(kind);
            let signed = whole.sign(&MESSAGE, OPTIONS).unwrap().text;
            let half = import(kind, &text).unwrap();
            let half = TransitKey::decode(&half.encode().unwrap()).unwrap();
            assert!(half.verify(&MESSAGE, OPTIONS, &signed).unwrap());
            let other = Sign { input: SignInput::Message(b"n"), ..MESSAGE };
            assert!(!half.verify(&other, OPTIONS, &signed).unwrap());
            let lacking = "requested version for signing does not contain a private part";
            assert_eq!(refusal(half.sign(&MESSAGE, OPTIONS)), lacking);
            assert_eq!(half.list(b"").unwrap()[0].public, whole.list(b"").unwrap()[0].public);
            let export = |kind, format| half.export(kind, format, None).map(|all| all[0].1.clone());
            assert_eq!(*export(ExportKind::Public, ExportFormat::Pem).unwrap(), text);
            assert_eq!(*export(ExportKind::Signing, ExportFormat::Default).unwrap(), "");
            assert!(half.rotated(0).is_err());
            let (noted, backup) = half.backup("k", 1).unwrap();
            let RestoredKey { mut key, .. } = TransitKey::restore(&backup, 1).unwrap();
            key.settings.restore = None;
            assert_eq!(key.encode().unwrap(), noted.encode().unwrap());
            // The private half.
            let (_, strange, _) = self::whole(kind);
            let complete = |private: &[u8], version| half.completed(version, private);
            assert_eq!(
                refusal(complete(&strange, 1)),
                "cannot import key, key pair does not match"
            );
            for version in [0, 2, -1] {
                assert_eq!(refusal(complete(&private, version)), "no such key version");
            }
            let key = complete(&private, 1).unwrap();
            let signed = key.sign(&MESSAGE, OPTIONS).unwrap().text;
            assert!(whole.verify(&MESSAGE, OPTIONS, &signed).unwrap());
            assert_eq!(key.list(b"").unwrap(), half.list(b"").unwrap());
            assert_eq!(key.version(1).unwrap().hmac_key, half.version(1).unwrap().hmac_key);
            let again = refusal(key.completed(1, &private));
            assert_eq!(again, "private key imported, key version cannot be updated");
            // And one more public half.
            let next = key.imported_public_version(&text, 6).unwrap();
            assert_eq!(
                (next.latest_version(), refusal(next.sign(&MESSAGE, OPTIONS))),
                (2, lacking.into())
            );
            assert!(next.sign(&Sign { version: 1, ..MESSAGE }, OPTIONS).is_ok());
        }
    }

    #[test]
    fn a_public_half_of_rsa_encrypts_and_does_not_decrypt() {
        let (whole, _, text) = whole(KeyKind::Rsa2048);
        let half = import(KeyKind::Rsa2048, &text).unwrap();
        let request = Encrypt { plaintext: b"x", context: b"", associated: b"", version: 0 };
        let text = half.encrypt(&request).unwrap().text;
        let request = Decrypt { ciphertext: &text, context: b"", associated: b"" };
        assert_eq!(*whole.decrypt(&request).unwrap(), b"x");
        let lacking = "cannot decrypt ciphertext, key version does not have a private counterpart";
        assert_eq!(refusal(half.decrypt(&request)), lacking);
        assert_eq!(refusal(half.rewrap(&request, 0)), lacking);
    }

    #[test]
    fn a_text_of_another_type_or_of_none_is_refused() {
        let texts = KINDS.map(|kind| whole(kind).2);
        for (kind, own) in KINDS.iter().zip(&texts) {
            assert!(import(*kind, &format!("before\n{own}behind")).is_ok());
            for other in texts.iter().filter(|text| *text != own) {
                let refused = refusal(import(*kind, other));
                assert!(
                    refused.starts_with("invalid key type") || refused.starts_with("invalid curve"),
                    "{refused}"
                );
            }
            let spki = der::from_pem(own).unwrap();
            for length in 0..spki.len() {
                assert!(PublicHalf::from_spki(*kind, &spki[..length]).is_err(), "{length}");
            }
            assert!(PublicHalf::from_spki(*kind, &[&spki[..], &[0]].concat()).is_err());
        }
        let refused = refusal(import(KeyKind::EcdsaP256, &texts[2]));
        assert_eq!(refused, "invalid curve: expected P-256, got P-384");
        let refused = refusal(import(KeyKind::Rsa3072, &texts[4]));
        assert_eq!(refused, "invalid key size: expected 384 bytes, got 256 bytes");
        for text in ["", "abc", "-----BEGIN PUBLIC KEY-----\n!\n-----END PUBLIC KEY-----\n"] {
            let refused = refusal(import(KeyKind::Rsa2048, text));
            assert_eq!(refused, "error parsing public key: not in PEM format");
        }
        for kind in [KeyKind::Aes256Gcm96, KeyKind::Hmac] {
            let refused = refusal(import(kind, &texts[4]));
            assert_eq!(refused, "provided type does not support public_key import");
        }
        // A point that is not on the curve.
        let mut spki = der::from_pem(&texts[1]).unwrap();
        *spki.last_mut().unwrap() ^= 1;
        assert!(PublicHalf::from_spki(KeyKind::EcdsaP256, &spki).is_err());
        let spec =
            KeySpec { derivation: Derivation::ByContext(Kdf::HkdfSha256), ..KeySpec::default() };
        let derived =
            TransitKey::import_public(KeyKind::Ed25519, &spec, KeyOrigin::Imported, &texts[0], 0);
        assert!(refusal(derived).contains("derived Ed25519 key"));
    }
}
