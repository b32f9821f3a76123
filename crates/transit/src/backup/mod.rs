//! Backups: a key with all its versions as base64 of JSON, in the form Vault and OpenBao write and
//! take, so that keys move between servers in either direction.
//!
//! It is the one place where key material becomes text, and happens only to keys whose owner said
//! so twice (`exportable` and `allow_plaintext_backup`). Refusals name a place in the text, never
//! what stands there.

mod form;
mod read;
mod write;

use zeroize::Zeroizing;

use crate::base64;
use crate::codec::check_record;
use crate::error::{Error, Result};
use crate::key::TransitKey;
use crate::limits::BACKUP_BYTES_MAX;
use crate::settings::Stamp;
use form::Backup;
use read::read_backup;
use write::write_backup;

/// A key that came back, and the name it had.
#[derive(Debug)]
pub struct RestoredKey {
    /// The name it had when the backup was made.
    pub name: String,
    /// The key.
    pub key: TransitKey,
}

impl TransitKey {
    /// The key's backup under this name, and the key with a note of it.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the key's owner did not allow it.
    pub fn backup(&self, name: &str, now_ns: i64) -> Result<(Self, Zeroizing<String>)> {
        self.check_usable()?;
        if !self.settings.exportable {
            return Err(Error::invalid("exporting is disallowed on the policy"));
        }
        if !self.settings.allow_plaintext_backup {
            return Err(Error::invalid("plaintext backup is disallowed on the policy"));
        }
        let mut key = self.clone();
        key.settings.backup = Some(Stamp { at_ns: now_ns, version: self.latest_version() });
        let backup = write_backup(&key, name)?;
        let text = serde_json::to_vec(&backup);
        let text =
            Zeroizing::new(text.map_err(|_| Error::Machine("a backup could not be written"))?);
        Ok((key, Zeroizing::new(base64::encode(&text))))
    }

    /// The key of a backup, with a note of this restore.
    ///
    /// # Errors
    /// [`Error::Invalid`] if this is no backup, or of a key that cannot be kept here.
    pub fn restore(backup: &str, now_ns: i64) -> Result<RestoredKey> {
        if backup.len() / 4 * 3 > BACKUP_BYTES_MAX {
            return Err(Error::invalid(format!(
                "the backup is longer than {BACKUP_BYTES_MAX} bytes"
            )));
        }
        let text = Zeroizing::new(base64::decode(backup)?);
        let backup: Backup = serde_json::from_slice(&text).map_err(|error| {
            let (line, column) = (error.line(), error.column());
            Error::invalid(format!("malformed backup: line {line}, column {column}"))
        })?;
        let name = backup.policy.name.clone();
        let mut key = read_backup(backup)?;
        key.settings.restore = Some(Stamp { at_ns: now_ns, version: key.latest_version() });
        check_record(&key)
            .map_err(|_| Error::invalid("malformed backup: its parts do not go together"))?;
        Ok(RestoredKey { name, key })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::KeySpec;
    use crate::key_change::KeyChange;
    use crate::kind::KeyKind;
    use crate::settings::{Derivation, Kdf};

    fn portable(kind: KeyKind, derivation: Derivation) -> TransitKey {
        let spec = KeySpec {
            derivation,
            exportable: true,
            allow_plaintext_backup: true,
            ..KeySpec::default()
        };
        TransitKey::make(kind, &spec, 1_500_000_000_123_456_789).unwrap()
    }

    #[test]
    fn every_type_comes_back_whole() {
        for (kind, derivation) in [
            (KeyKind::Aes128Gcm96, Derivation::None),
            (KeyKind::Aes256Gcm96, Derivation::ByContext(Kdf::HkdfSha256)),
            (KeyKind::ChaCha20Poly1305, Derivation::ByContext(Kdf::HmacSha256Counter)),
            (KeyKind::XChaCha20Poly1305, Derivation::Convergent),
            (KeyKind::Ed25519, Derivation::ByContext(Kdf::HkdfSha256)),
            (KeyKind::Ed25519, Derivation::ByContext(Kdf::HmacSha256Counter)),
            (KeyKind::EcdsaP256, Derivation::None),
            (KeyKind::EcdsaP521, Derivation::None),
            (KeyKind::Rsa2048, Derivation::None),
            (KeyKind::Hmac, Derivation::None),
        ] {
            let key = portable(kind, derivation).rotated(7).unwrap();
            let (noted, text) = key.backup("name", 9).unwrap();
            assert_eq!(noted.settings().backup, Some(Stamp { at_ns: 9, version: 2 }));
            let RestoredKey { name, key: mut again } = TransitKey::restore(&text, 11).unwrap();
            assert_eq!(name, "name");
            assert_eq!(again.settings.restore.take(), Some(Stamp { at_ns: 11, version: 2 }));
            assert_eq!(again.encode().unwrap(), noted.encode().unwrap(), "{}", kind.name());
        }
    }

    #[test]
    fn archived_and_trimmed_versions_come_back_as_they_were() {
        let key = portable(KeyKind::Aes256Gcm96, Derivation::None);
        let key = key.rotated(0).unwrap().rotated(0).unwrap().rotated(0).unwrap();
        let change = |decryption, encryption| KeyChange {
            min_decryption_version: Some(decryption),
            min_encryption_version: Some(encryption),
            ..KeyChange::default()
        };
        let key = key.configured(&change(3, 3)).unwrap().0.unwrap();
        let again = TransitKey::restore(&key.backup("k", 0).unwrap().1, 0).unwrap().key;
        assert_eq!(again.versions.len(), 4);
        let key = key.trimmed(2).unwrap();
        let again = TransitKey::restore(&key.backup("k", 0).unwrap().1, 0).unwrap().key;
        assert_eq!(again.versions.keys().copied().collect::<Vec<_>>(), [2, 3, 4]);
    }

    #[test]
    fn a_backup_is_made_only_of_what_its_owner_lets_go() {
        let key = TransitKey::make(KeyKind::Hmac, &KeySpec::default(), 0).unwrap();
        let refusal = |key: &TransitKey| key.backup("k", 0).err().unwrap().to_string();
        assert_eq!(refusal(&key), "exporting is disallowed on the policy");
        let spec = KeySpec { exportable: true, ..KeySpec::default() };
        let key = TransitKey::make(KeyKind::Hmac, &spec, 0).unwrap();
        assert_eq!(refusal(&key), "plaintext backup is disallowed on the policy");
    }

    #[test]
    fn a_key_for_hmacs_under_the_number_that_vault_gives_it_is_refused() {
        let key = portable(KeyKind::XChaCha20Poly1305, Derivation::None);
        let (_, good) = key.backup("k", 0).unwrap();
        let good: serde_json::Value =
            serde_json::from_slice(&base64::decode(&good).unwrap()).unwrap();
        let restored = |backup: &serde_json::Value| {
            TransitKey::restore(&base64::encode(backup.to_string().as_bytes()), 0)
        };
        assert!(restored(&good).is_ok());
        let mut sized = good.clone();
        sized["policy"]["key_size"] = 32.into();
        let mut same = good.clone();
        let material = good["policy"]["keys"]["1"]["key"].clone();
        same["policy"]["keys"]["1"]["hmac_key"] = material.clone();
        let mut archived = good;
        archived["archived_keys"]["keys"][1]["hmac_key"] = material;
        for bad in [sized, same, archived] {
            let refused = restored(&bad).unwrap_err().to_string();
            assert!(refused.contains("key type 11 with the marks"), "{refused}");
        }
    }

    #[test]
    fn what_is_no_backup_is_refused_without_being_repeated() {
        let (_, good) = portable(KeyKind::Aes256Gcm96, Derivation::None).backup("k", 0).unwrap();
        let good = String::from_utf8(base64::decode(&good).unwrap()).unwrap();
        assert!(TransitKey::restore(&base64::encode(good.as_bytes()), 0).is_ok());
        for (from, to, why) in [
            ("\"type\":0", "\"type\":\"canary\"", "malformed backup: line 1"),
            ("\"type\":0", "\"type\":77", "unsupported key type 77"),
            ("\"type\":0", "\"type\":1", "there is no private key"),
            ("\"derived\":false,\"kdf\":0", "\"derived\":true,\"kdf\":2", "key derivation mode"),
            (
                "\"derived\":false,\"kdf\":0,\"convergent_encryption\":false",
                "\"derived\":true,\"kdf\":0,\"convergent_encryption\":true",
                "key derivation mode",
            ),
            ("\"latest_version\":1", "\"latest_version\":9", "version 2"),
            ("\"latest_version\":1", "\"latest_version\":4294967295", "over 4096 versions"),
            ("\"min_decryption_version\":1", "\"min_decryption_version\":5", "do not go together"),
            ("\"version_template\":\"\"", "\"version_template\":\"canary\"", "template"),
        ] {
            let bad = good.replacen(from, to, 1);
            assert_ne!(bad, good, "{from}");
            let refused =
                TransitKey::restore(&base64::encode(bad.as_bytes()), 0).unwrap_err().to_string();
            assert!(refused.contains(why), "{refused}");
            assert!(!refused.contains("canary"), "{refused}");
        }
        for text in ["!", "", "e30=", "eyJwb2xpY3kiOnt9fQ=="] {
            assert!(TransitKey::restore(text, 0).is_err(), "{text}");
        }
    }
}
