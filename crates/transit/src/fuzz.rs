//! The bodies of the fuzz targets: what a client or a disk hands this crate, as any bytes.
//!
//! libFuzzer, the corpus and the smoke test of the `fuzz` crate all call these.

use std::sync::LazyLock;

use crate::encrypt::{Decrypt, Encrypt};
use crate::error::Error;
use crate::hash::HashAlgorithm;
use crate::key::{KeySpec, TransitKey};
use crate::kind::KeyKind;
use crate::sign::{Marshaling, RsaPadding, SaltBytes, Sign, SignInput, SignOptions};
use crate::tagged::{self, TaggedSubject};

/// One key of each kind of ciphertext and signature. Which keys they are does not matter to what
/// the targets promise.
static KEYS: LazyLock<Vec<TransitKey>> = LazyLock::new(|| {
    [
        KeyKind::Aes256Gcm96,
        KeyKind::XChaCha20Poly1305,
        KeyKind::Ed25519,
        KeyKind::EcdsaP256,
        KeyKind::Hmac,
    ]
    .into_iter()
    .map(|kind| TransitKey::make(kind, &KeySpec::default(), 0).expect("there is randomness"))
    .collect()
});

/// Any text as a ciphertext, signature and HMAC is refused or, once in 2^128, opened; the parts it
/// falls into make it up again. And what was encrypted opens.
///
/// # Panics
/// If a promise is broken.
pub fn ciphertext(bytes: &[u8]) {
    if let Ok(text) = std::str::from_utf8(bytes) {
        for subject in [TaggedSubject::Ciphertext, TaggedSubject::Signature, TaggedSubject::Hmac] {
            if let Ok(tagged) = tagged::parse(text, subject) {
                assert!(text.starts_with("vault:v") && text.ends_with(tagged.payload));
            }
        }
        KEYS.iter().for_each(|key| refuse(key, text));
    }
    for key in &KEYS[..2] {
        let request = Encrypt { plaintext: bytes, context: b"", associated: b"", version: 0 };
        let text = key.encrypt(&request).expect("a fresh key encrypts").text;
        let request = Decrypt { ciphertext: &text, context: b"", associated: b"" };
        assert_eq!(*key.decrypt(&request).expect("it was just encrypted"), bytes);
    }
}

fn refuse(key: &TransitKey, text: &str) {
    let request = Decrypt { ciphertext: text, context: b"", associated: b"" };
    assert!(matches!(key.decrypt(&request), Err(Error::Invalid(_))));
    let request = Sign { input: SignInput::Message(b""), context: b"", version: 0 };
    for marshaling in [Marshaling::Asn1, Marshaling::Jws] {
        let padding = RsaPadding::Pss(SaltBytes::Auto);
        let options = SignOptions { hash: HashAlgorithm::Sha2_256, marshaling, padding };
        assert!(!key.verify(&request, options, text).unwrap_or(false));
    }
    assert!(!key.verify_mac(HashAlgorithm::Sha2_256, b"", text).unwrap_or(false));
}

/// Any bytes as a record: an error, or a key whose record decodes to the same again. (The bytes may
/// differ: a key pair in them may be written in more ways than one.) The same bytes as the JSON of a
/// backup: refused, or a key that can be stored.
///
/// # Panics
/// If a promise is broken.
pub fn record(bytes: &[u8]) {
    if let Ok(key) = TransitKey::decode(bytes) {
        let record = key.encode().expect("it came from a record");
        let again = TransitKey::decode(&record).expect("it was just encoded");
        assert_eq!(again.encode().expect("it came from a record"), record);
    }
    if let Ok(restored) = TransitKey::restore(&crate::base64::encode(bytes), 0) {
        let record = restored.key.encode().expect("a restored key can be stored");
        assert!(TransitKey::decode(&record).is_ok());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_targets_hold_for_what_they_are_about() {
        for text in ["", "vault:v1:", "vault:v1:aaaa", "vault:v1:YWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFh"]
        {
            ciphertext(text.as_bytes());
        }
        let spec = KeySpec { exportable: true, allow_plaintext_backup: true, ..KeySpec::default() };
        let key = TransitKey::make(KeyKind::Aes256Gcm96, &spec, 0).unwrap();
        record(&key.encode().unwrap());
        let backup = crate::base64::decode(&key.backup("k", 0).unwrap().1).unwrap();
        record(&backup);
    }
}
