//! HMACs under a version's HMAC key: `vault:vN:` base64(tag).

use aws_lc_rs::hmac;
use data_encoding::BASE64;

use crate::base64;
use crate::error::{Error, Result};
use crate::hash::HashAlgorithm;
use crate::key::TransitKey;
use crate::tagged::{self, TaggedSubject};

/// A version's key, ready to make many HMACs.
#[derive(Debug)]
pub struct Mac {
    key: hmac::Key,
    version: u32,
}

impl TransitKey {
    /// The key of `version` (0 for the latest) to make HMACs with.
    ///
    /// # Errors
    /// [`Error::Invalid`] if there is no such version or it may not be used.
    pub fn mac(&self, version: i64, hash: HashAlgorithm) -> Result<Mac> {
        let latest = self.latest_version();
        let version = if version == 0 { i64::from(latest) } else { version };
        if version != i64::from(latest) && version < i64::from(self.settings.min_encryption_version)
        {
            return Err(Error::invalid(
                "cannot generate HMAC: version is too old (disallowed by policy)",
            ));
        }
        self.mac_of(version, hash)
    }

    fn mac_of(&self, version: i64, hash: HashAlgorithm) -> Result<Mac> {
        self.check_usable()?;
        let latest = self.latest_version();
        let number = match u32::try_from(version) {
            Ok(number) if number <= latest => number,
            Err(_) if version < 0 => {
                return Err(Error::invalid("key version does not exist (cannot be negative)"));
            }
            _ => {
                return Err(Error::invalid(format!(
                    "key version does not exist; latest key version is {latest}"
                )));
            }
        };
        let key = self.version(number)?.hmac_key(self.kind);
        if key.is_empty() {
            return Err(Error::invalid("no HMAC key exists for that key version"));
        }
        Ok(Mac { key: hmac::Key::new(hash.hmac()?, key), version: number })
    }

    /// Whether `text` is the HMAC of `input`; compared in constant time.
    ///
    /// # Errors
    /// [`Error::Invalid`] if it is no HMAC of a version in use.
    pub fn verify_mac(&self, hash: HashAlgorithm, input: &[u8], text: &str) -> Result<bool> {
        let tagged = tagged::parse(text, TaggedSubject::Hmac)?;
        let tag = base64::decode(tagged.payload).map_err(|error| {
            Error::invalid(format!("unable to decode verification HMAC as base64: {error}"))
        })?;
        if tagged.version > i64::from(self.latest_version()) {
            return Err(Error::invalid("invalid HMAC: version is too new"));
        }
        if tagged.version < i64::from(self.settings.min_decryption_version) {
            return Err(Error::invalid(
                "cannot verify HMAC: version is too old (disallowed by policy)",
            ));
        }
        let mac = self.mac_of(tagged.version, hash)?;
        Ok(hmac::verify(&mac.key, input, &tag).is_ok())
    }
}

impl Mac {
    /// The HMAC of `input`.
    #[must_use]
    pub fn make(&self, input: &[u8]) -> String {
        let tag = hmac::sign(&self.key, input);
        let mut text = tagged::start(self.version, BASE64.encode_len(tag.as_ref().len()));
        base64::append(&BASE64, tag.as_ref(), &mut text);
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::KeySpec;
    use crate::key_change::KeyChange;
    use crate::kind::KeyKind;

    fn refusal<T>(result: Result<T>) -> String {
        result.err().expect("it is refused").to_string()
    }

    #[test]
    fn every_type_makes_hmacs_that_verify() {
        for kind in [KeyKind::Hmac, KeyKind::Aes256Gcm96, KeyKind::EcdsaP256, KeyKind::Ed25519] {
            let key = TransitKey::make(kind, &KeySpec::default(), 0).unwrap();
            for name in ["sha1", "sha2-224", "sha2-256", "sha2-384", "sha2-512"] {
                let hash = HashAlgorithm::named(name).unwrap();
                let text = key.mac(0, hash).unwrap().make(b"input");
                assert!(text.starts_with("vault:v1:"));
                assert!(key.verify_mac(hash, b"input", &text).unwrap());
                assert!(!key.verify_mac(hash, b"other", &text).unwrap());
                let rotated = key.rotated(0).unwrap();
                assert!(rotated.verify_mac(hash, b"input", &text).unwrap());
            }
            assert!(key.mac(0, HashAlgorithm::Sha3_256).is_err());
        }
    }

    #[test]
    fn versions_out_of_use_make_and_verify_none() {
        let key = TransitKey::make(KeyKind::Hmac, &KeySpec::default(), 0).unwrap();
        let old = key.mac(0, HashAlgorithm::Sha2_256).unwrap().make(b"x");
        let change = KeyChange {
            min_decryption_version: Some(2),
            min_encryption_version: Some(2),
            ..KeyChange::default()
        };
        let key = key.rotated(0).unwrap().configured(&change).unwrap().0.unwrap();
        let mac = |version| key.mac(version, HashAlgorithm::Sha2_256).map(|_| ());
        assert!(mac(2).is_ok());
        assert!(refusal(mac(1)).contains("too old"));
        assert!(refusal(mac(3)).contains("latest key version is 2"));
        let verify = |text: &str| key.verify_mac(HashAlgorithm::Sha2_256, b"x", text);
        assert!(refusal(verify(&old)).contains("too old"));
        assert!(refusal(verify("vault:v3:")).contains("too new"));
        assert!(refusal(verify("vault:v2:!")).contains("input byte 0"));
        assert!(!verify("vault:v2:").unwrap());
    }
}
