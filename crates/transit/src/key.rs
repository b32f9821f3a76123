//! A named key: its versions and the rules for which of them serve.
//!
//! Nothing here changes a [`TransitKey`]; what would change it returns the key it becomes. Versions are
//! numbered from 1 without gaps, from `min_available_version` to the latest, and shared.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use zeroize::Zeroizing;

use crate::base64;
use crate::der;
use crate::derive::derive_bytes;
use crate::ed25519::Ed25519;
use crate::error::{Error, Result};
use crate::kind::{KeyFamily, KeyKind};
use crate::limits::{AUTO_ROTATE_SECS_MIN, HMAC_KEY_BYTES_MAX, HMAC_KEY_BYTES_MIN, VERSIONS_MAX};
use crate::material::{KeyVersionMaterial, Material};
use crate::public::TransitPublicKey;
use crate::settings::{Derivation, Kdf, KeyOrigin, KeySettings};

/// Material for the next version of a key.
pub struct NextVersion {
    kind: KeyKind,
    hmac_key_bytes: usize,
    version: Arc<KeyVersionMaterial>,
}

/// A named key. It holds no name: whoever keeps it knows.
#[derive(Clone)]
pub struct TransitKey {
    pub(crate) kind: KeyKind,
    pub(crate) derivation: Derivation,
    /// Length of an HMAC key; 0 for other types.
    pub(crate) hmac_key_bytes: usize,
    pub(crate) settings: KeySettings,
    pub(crate) versions: BTreeMap<u32, Arc<KeyVersionMaterial>>,
}

/// What a new key shall be.
#[derive(Clone, Debug, Default)]
pub struct KeySpec {
    /// Whether keys are derived of it.
    pub derivation: Derivation,
    /// Length of an HMAC key, 0 where it is not given.
    pub hmac_key_bytes: i64,
    /// Whether its material may leave.
    pub exportable: bool,
    /// Whether a backup in the clear may be made.
    pub allow_plaintext_backup: bool,
    /// After how many seconds it should be rotated; 0 for never.
    pub auto_rotate_secs: i64,
}

/// What may be told of a version to who may read the key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its number.
    pub version: u32,
    /// When it was made, in nanoseconds since 1970.
    pub made_ns: i64,
    /// Its public half, for keys that have one.
    pub public: Option<Public>,
}

/// The public half of a version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Public {
    /// The name of the curve or size, as the wire has it.
    pub name: &'static str,
    /// PEM, or base64 for Ed25519; empty for a derived key when no context was given.
    pub text: String,
}

impl KeySpec {
    /// Whether a key of this type may be so.
    ///
    /// # Errors
    /// [`Error::Invalid`] for what does not go together.
    pub fn check(&self, kind: KeyKind) -> Result<()> {
        TransitKey::empty(kind, self).map(drop)
    }
}

impl TransitKey {
    /// A new key with one version.
    ///
    /// # Errors
    /// [`Error::Invalid`] for what does not go together, [`Error::Machine`] without randomness.
    pub fn make(kind: KeyKind, spec: &KeySpec, now_ns: i64) -> Result<Self> {
        let key = Self::empty(kind, spec)?;
        key.with_version(KeyVersionMaterial::make(kind, key.hmac_key_bytes, now_ns)?)
    }

    /// A key of these properties that has no version yet.
    pub(crate) fn empty(kind: KeyKind, spec: &KeySpec) -> Result<Self> {
        check_derivation(kind, spec.derivation)?;
        Ok(Self {
            kind,
            derivation: spec.derivation,
            hmac_key_bytes: hmac_key_bytes(kind, spec.hmac_key_bytes)?,
            settings: KeySettings {
                exportable: spec.exportable,
                allow_plaintext_backup: spec.allow_plaintext_backup,
                auto_rotate_secs: auto_rotate_secs(spec.auto_rotate_secs)?,
                ..KeySettings::default()
            },
            versions: BTreeMap::new(),
        })
    }

    /// The type.
    #[must_use]
    pub const fn kind(&self) -> KeyKind {
        self.kind
    }

    /// Whether keys are derived of it.
    #[must_use]
    pub const fn derivation(&self) -> Derivation {
        self.derivation
    }

    /// Length of an HMAC key, 0 for other types.
    #[must_use]
    pub const fn hmac_key_bytes(&self) -> usize {
        self.hmac_key_bytes
    }

    /// What is said of it.
    #[must_use]
    pub const fn settings(&self) -> &KeySettings {
        &self.settings
    }

    /// The newest version.
    #[must_use]
    pub fn latest_version(&self) -> u32 {
        self.versions.last_key_value().map_or(0, |(&number, _)| number)
    }

    /// When the next version is due, in nanoseconds since 1970; `None` if the key does not rotate
    /// by itself.
    #[must_use]
    pub fn rotation_due_ns(&self) -> Option<i64> {
        let set_aside = self.settings.soft_deleted || self.settings.origin == KeyOrigin::Imported;
        let secs = self.settings.auto_rotate_secs;
        if set_aside || secs == 0 {
            return None;
        }
        let (_, latest) = self.versions.last_key_value()?;
        let period_ns = i64::try_from(secs).ok()?.checked_mul(1_000_000_000)?;
        latest.made_ns.checked_add(period_ns)
    }

    /// The versions in use, with the public half of those that have one. A derived key's public
    /// half depends on the context.
    ///
    /// # Errors
    /// [`Error::Machine`] if a key could not be written.
    pub fn list(&self, context: &[u8]) -> Result<Vec<Listed>> {
        let used = self.versions.range(self.settings.min_decryption_version..);
        let list = used.map(|(&version, entry)| {
            let public = self.public(entry, context)?;
            Ok(Listed { version, made_ns: entry.made_ns, public })
        });
        list.collect()
    }

    fn public(&self, version: &KeyVersionMaterial, context: &[u8]) -> Result<Option<Public>> {
        let name = self.kind.name();
        Ok(match &version.material {
            Material::Bytes(_) => None,
            Material::Ed25519(pair) => {
                let text = match self.derivation.kdf() {
                    None => base64::encode(pair.public()),
                    Some(_) if context.is_empty() => String::new(),
                    Some(kdf) => base64::encode(derived_pair(kdf, pair, context)?.public()),
                };
                Some(Public { name, text })
            }
            Material::Ecdsa(pair) => {
                let text = der::pem("PUBLIC KEY", &pair.public_der()?).to_string();
                Some(Public { name: pair.curve().name, text })
            }
            Material::Rsa(pair) => {
                let text = der::pem("PUBLIC KEY", &pair.public_der()?).to_string();
                Some(Public { name, text })
            }
            Material::Public(half) => Some(match half.key() {
                TransitPublicKey::Ed25519(bytes) => Public { name, text: base64::encode(bytes) },
                TransitPublicKey::Ecdsa(curve, _) => Public {
                    name: curve.name,
                    text: der::pem("PUBLIC KEY", half.spki()).to_string(),
                },
                TransitPublicKey::Rsa(..) => {
                    Public { name, text: der::pem("PUBLIC KEY", half.spki()).to_string() }
                }
            }),
        })
    }

    /// The key with one version more.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the key may not be rotated, [`Error::Machine`] without randomness.
    pub fn rotated(&self, now_ns: i64) -> Result<Self> {
        self.rotated_to(&self.next_version(now_ns)?)
    }

    /// Material for a version of this key, or of one like it: for [`TransitKey::rotated_to`].
    ///
    /// # Errors
    /// [`Error::Invalid`] when the key may not be rotated, [`Error::Machine`] without randomness.
    pub fn next_version(&self, now_ns: i64) -> Result<NextVersion> {
        self.check_rotatable()?;
        let version = KeyVersionMaterial::make(self.kind, self.hmac_key_bytes, now_ns)?;
        Ok(NextVersion {
            kind: self.kind,
            hmac_key_bytes: self.hmac_key_bytes,
            version: Arc::new(version),
        })
    }

    /// The key with one version more, of material that was made before.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the key may not be rotated, or the material is of another kind of key.
    pub fn rotated_to(&self, next: &NextVersion) -> Result<Self> {
        self.check_rotatable()?;
        if (next.kind, next.hmac_key_bytes) != (self.kind, self.hmac_key_bytes) {
            return Err(Error::invalid("the key was replaced by one of another type meanwhile"));
        }
        let mut key = self.with_shared(Arc::clone(&next.version))?;
        key.settings.origin = KeyOrigin::Made;
        Ok(key)
    }

    fn check_rotatable(&self) -> Result<()> {
        self.check_usable()?;
        if self.settings.origin == KeyOrigin::Imported {
            return Err(Error::invalid("imported key does not allow rotation within Vault"));
        }
        Ok(())
    }

    /// The key with this version behind its latest.
    pub(crate) fn with_version(&self, version: KeyVersionMaterial) -> Result<Self> {
        self.with_shared(Arc::new(version))
    }

    fn with_shared(&self, version: Arc<KeyVersionMaterial>) -> Result<Self> {
        if self.versions.len() >= VERSIONS_MAX {
            return Err(Error::invalid(format!(
                "the key has {VERSIONS_MAX} versions, which is the most: trim it first"
            )));
        }
        let next = self.latest_version().checked_add(1);
        let next = next.ok_or_else(|| Error::invalid("all version numbers are used up"))?;
        let mut key = self.clone();
        key.versions.insert(next, version);
        Ok(key)
    }

    /// The key set aside: kept, and refused for every use.
    #[must_use]
    pub fn set_aside(&self) -> Self {
        let mut key = self.clone();
        key.settings.soft_deleted = true;
        key
    }

    /// The key taken up again.
    #[must_use]
    pub fn taken_up(&self) -> Self {
        let mut key = self.clone();
        key.settings.soft_deleted = false;
        key
    }

    /// Refuses every use of a key that was set aside.
    pub(crate) fn check_usable(&self) -> Result<()> {
        if self.settings.soft_deleted {
            return Err(Error::invalid("refusing to use soft-deleted key"));
        }
        Ok(())
    }

    /// The version of this number, if it is still in use.
    pub(crate) fn version(&self, number: u32) -> Result<&KeyVersionMaterial> {
        let used = number >= self.settings.min_decryption_version;
        let found = if used { self.versions.get(&number) } else { None };
        found.map(|version| &**version).ok_or_else(|| Error::invalid("no such key version"))
    }

    /// The version to encrypt or sign with: 0 asks for the latest.
    pub(crate) fn writing_version(&self, asked: i64, verb: &str) -> Result<u32> {
        if asked == 0 {
            return Ok(self.latest_version());
        }
        let refuse =
            |why: &str| Err(Error::invalid(format!("requested version for {verb} is {why}")));
        match u32::try_from(asked) {
            Err(_) if asked < 0 => refuse("negative"),
            Ok(version) if version <= self.latest_version() => {
                if version < self.settings.min_encryption_version {
                    return refuse("less than the minimum encryption key version");
                }
                Ok(version)
            }
            _ => refuse("higher than the latest key version"),
        }
    }

    /// The version that made a ciphertext or signature.
    pub(crate) fn reading_version(&self, written: i64, subject: &str) -> Result<u32> {
        if written > i64::from(self.latest_version()) {
            return Err(Error::invalid(format!("invalid {subject}: version is too new")));
        }
        match u32::try_from(written) {
            Ok(version) if version >= self.settings.min_decryption_version => Ok(version),
            _ => Err(Error::invalid(
                "ciphertext or signature version is disallowed by policy (too old)",
            )),
        }
    }
}

impl fmt::Debug for TransitKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TransitKey")
    }
}

/// The Ed25519 pair for a context.
pub(crate) fn derived_pair(kdf: Kdf, pair: &Ed25519, context: &[u8]) -> Result<Ed25519> {
    let private: Zeroizing<Vec<u8>> = pair.private();
    Ed25519::from_seed(&derive_bytes(kdf, &private, context, 32)?)
}

fn check_derivation(kind: KeyKind, derivation: Derivation) -> Result<()> {
    let name = kind.name();
    match (kind.family(), derivation) {
        (_, Derivation::None)
        | (KeyFamily::Aead(_), _)
        | (KeyFamily::Ed25519, Derivation::ByContext(_)) => Ok(()),
        (KeyFamily::Ed25519, Derivation::Convergent) => Err(Error::invalid(format!(
            "convergent encryption not supported for keys of type {name}"
        ))),
        (KeyFamily::Ecdsa | KeyFamily::Rsa | KeyFamily::Hmac, _) => Err(Error::invalid(format!(
            "key derivation and convergent encryption not supported for keys of type {name}"
        ))),
    }
}

fn hmac_key_bytes(kind: KeyKind, asked: i64) -> Result<usize> {
    if kind != KeyKind::Hmac {
        return match asked {
            0 => Ok(0),
            _ => {
                Err(Error::invalid(format!("key_size is not valid for algorithm {}", kind.name())))
            }
        };
    }
    if asked == 0 {
        return Ok(HMAC_KEY_BYTES_MIN);
    }
    usize::try_from(asked)
        .ok()
        .filter(|count| (HMAC_KEY_BYTES_MIN..=HMAC_KEY_BYTES_MAX).contains(count))
        .ok_or_else(|| Error::invalid(format!("invalid key_size {asked}")))
}

pub(crate) fn auto_rotate_secs(asked: i64) -> Result<u64> {
    match u64::try_from(asked) {
        Ok(secs) if secs == 0 || secs >= AUTO_ROTATE_SECS_MIN => Ok(secs),
        _ => Err(Error::invalid("auto rotate period must be 0 to disable or at least an hour")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BY_CONTEXT: Derivation = Derivation::ByContext(Kdf::HkdfSha256);

    fn key(kind: KeyKind) -> TransitKey {
        TransitKey::make(kind, &KeySpec::default(), 5).unwrap()
    }

    fn refusal<T>(result: Result<T>) -> String {
        result.err().expect("it is refused").to_string()
    }

    #[test]
    fn a_key_starts_with_one_version_and_grows_by_rotation() {
        let first = key(KeyKind::Aes256Gcm96);
        let second = first.rotated(9).unwrap();
        assert_eq!((first.latest_version(), second.latest_version()), (1, 2));
        let listed = second.list(b"").unwrap();
        assert_eq!(
            listed.iter().map(|v| (v.version, v.made_ns)).collect::<Vec<_>>(),
            [(1, 5), (2, 9)]
        );
        assert_eq!(format!("{second:?}"), "TransitKey");
    }

    #[test]
    fn types_and_properties_that_do_not_go_together_are_refused() {
        let make = |kind, derivation, bytes| {
            let spec = KeySpec { derivation, hmac_key_bytes: bytes, ..KeySpec::default() };
            TransitKey::make(kind, &spec, 0)
        };
        assert!(make(KeyKind::EcdsaP256, BY_CONTEXT, 0).is_err());
        assert!(make(KeyKind::Hmac, BY_CONTEXT, 0).is_err());
        assert!(make(KeyKind::Ed25519, Derivation::Convergent, 0).is_err());
        assert!(make(KeyKind::Ed25519, BY_CONTEXT, 0).is_ok());
        assert!(make(KeyKind::Aes128Gcm96, Derivation::Convergent, 0).is_ok());
        assert_eq!(
            refusal(make(KeyKind::Aes128Gcm96, Derivation::None, 32)),
            "key_size is not valid for algorithm aes128-gcm96"
        );
        for bytes in [-1, 31, 513] {
            assert_eq!(
                refusal(make(KeyKind::Hmac, Derivation::None, bytes)),
                format!("invalid key_size {bytes}")
            );
        }
        assert_eq!(make(KeyKind::Hmac, Derivation::None, 512).unwrap().hmac_key_bytes(), 512);
    }

    #[test]
    fn a_key_set_aside_serves_nobody_and_comes_back() {
        let aside = key(KeyKind::Hmac).set_aside();
        assert_eq!(refusal(aside.rotated(0)), "refusing to use soft-deleted key");
        assert!(aside.taken_up().rotated(0).is_ok());
    }

    #[test]
    fn rotation_is_due_a_period_after_the_latest_version() {
        let spec = KeySpec { auto_rotate_secs: 3600, ..KeySpec::default() };
        let made = TransitKey::make(KeyKind::Hmac, &spec, 7).unwrap();
        assert_eq!(made.rotation_due_ns(), Some(7 + 3_600_000_000_000));
        assert_eq!(made.set_aside().rotation_due_ns(), None);
        assert_eq!(key(KeyKind::Hmac).rotation_due_ns(), None);
        // A key of which this server makes no version is never due for one.
        for (origin, is_due) in [(KeyOrigin::Imported, false), (KeyOrigin::ImportedRotatable, true)]
        {
            let spec = KeySpec { auto_rotate_secs: 3600, ..KeySpec::default() };
            let key = TransitKey::import(KeyKind::Aes256Gcm96, &spec, origin, &[4; 32], 7).unwrap();
            assert_eq!(key.rotation_due_ns().is_some(), is_due, "{origin:?}");
            assert_eq!(key.rotated(8).is_ok(), is_due, "{origin:?}");
        }
        let short = KeySpec { auto_rotate_secs: 3599, ..KeySpec::default() };
        assert!(TransitKey::make(KeyKind::Hmac, &short, 0).is_err());
    }
}
