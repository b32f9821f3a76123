//! The bytes of a key's record, little-endian, led by a format number; see `docs/format.md`.
//!
//! ```text
//! record  := format u8 (1 or 2) | type u8 | derivation u8 | flags u8 | hmac key bytes u16
//!          | min decryption u32 | min encryption u32 | min available u32 | auto rotate secs u64
//!          | backup stamp | restore stamp | first version u32 | versions u32 | version+
//! stamp   := at i64 | version u32                                     zeros without its flag
//! version := made at i64 | length u32 | material | length u16 | hmac key
//! ```
//!
//! Format 2 is written for keys of which a version has no private half; its material is a SubjectPublicKeyInfo there.
//!
//! Decoding is total: lengths are checked before anything is allocated, and a record whose parts
//! do not go together is as damaged as one that is cut short.

use std::collections::BTreeMap;
use std::sync::Arc;

use kallisto_codec::ByteReader;
use zeroize::Zeroizing;

use crate::error::{Error, Result};
use crate::key::TransitKey;
use crate::key_change::check_minimums;
use crate::kind::KeyKind;
use crate::limits::{RECORD_BYTES_MAX, VERSIONS_MAX};
use crate::material::{KeyVersionMaterial, Material};
use crate::public::PublicHalf;
use crate::settings::{Derivation, Kdf, KeyOrigin, KeySettings, Stamp};

const FORMAT: u8 = 1;
const FORMAT_WITH_PUBLIC_HALVES: u8 = 2;
const DELETION_ALLOWED: u8 = 1;
const EXPORTABLE: u8 = 2;
const PLAINTEXT_BACKUP: u8 = 4;
const SOFT_DELETED: u8 = 8;
const IMPORTED: u8 = 16;
const IMPORTED_ROTATABLE: u8 = 32;
const HAS_BACKUP: u8 = 64;
const HAS_RESTORE: u8 = 128;

impl TransitKey {
    /// The key's record.
    ///
    /// # Errors
    /// [`Error::Invalid`] if it would be over its limit: old versions have to be trimmed first.
    pub fn encode(&self) -> Result<Zeroizing<Vec<u8>>> {
        let mut materials = Vec::with_capacity(self.versions.len());
        for version in self.versions.values() {
            materials.push(version.material.to_bytes()?);
        }
        let bytes: usize = materials.iter().map(|material| material.len() + 64).sum();
        // Reserved in one piece: growing would leave copies of key material behind.
        let mut out = Zeroizing::new(Vec::with_capacity(128 + bytes));
        self.encode_head(&mut out);
        for (version, material) in self.versions.values().zip(&materials) {
            out.extend_from_slice(&version.made_ns.to_le_bytes());
            put_length::<4>(&mut out, material.len());
            out.extend_from_slice(material);
            put_length::<2>(&mut out, version.hmac_key.len());
            out.extend_from_slice(&version.hmac_key);
        }
        if out.len() > RECORD_BYTES_MAX {
            return Err(Error::invalid(format!(
                "the key would take {} bytes, of at most {RECORD_BYTES_MAX}: trim old versions",
                out.len()
            )));
        }
        Ok(out)
    }

    fn encode_head(&self, out: &mut Vec<u8>) {
        let settings = &self.settings;
        let derivation = match self.derivation {
            Derivation::None => 0,
            Derivation::ByContext(Kdf::HkdfSha256) => 1,
            Derivation::Convergent => 2,
            Derivation::ByContext(Kdf::HmacSha256Counter) => 3,
        };
        let lacks =
            |version: &Arc<KeyVersionMaterial>| matches!(version.material, Material::Public(_));
        let format = match self.versions.values().any(lacks) {
            true => FORMAT_WITH_PUBLIC_HALVES,
            false => FORMAT,
        };
        out.extend_from_slice(&[format, self.kind.number(), derivation, flags(settings)]);
        put_length::<2>(out, self.hmac_key_bytes);
        for minimum in [
            settings.min_decryption_version,
            settings.min_encryption_version,
            settings.min_available_version,
        ] {
            out.extend_from_slice(&minimum.to_le_bytes());
        }
        out.extend_from_slice(&settings.auto_rotate_secs.to_le_bytes());
        for stamp in [settings.backup, settings.restore] {
            let stamp = stamp.unwrap_or(Stamp { at_ns: 0, version: 0 });
            out.extend_from_slice(&stamp.at_ns.to_le_bytes());
            out.extend_from_slice(&stamp.version.to_le_bytes());
        }
        let first = self.versions.first_key_value().map_or(1, |(&number, _)| number);
        out.extend_from_slice(&first.to_le_bytes());
        put_length::<4>(out, self.versions.len());
    }

    /// Reads a record back.
    ///
    /// # Errors
    /// [`Error::Damaged`] if these bytes are no record of this format.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let mut reader = ByteReader::new(bytes);
        let key = read_key(&mut reader).ok_or(Error::Damaged("cut short or malformed"))?;
        if !reader.is_empty() {
            return Err(Error::Damaged("bytes behind its end"));
        }
        check_record(&key)?;
        Ok(key)
    }
}

fn flags(settings: &KeySettings) -> u8 {
    let origin = match settings.origin {
        KeyOrigin::Made => 0,
        KeyOrigin::Imported => IMPORTED,
        KeyOrigin::ImportedRotatable => IMPORTED_ROTATABLE,
    };
    [
        (settings.deletion_allowed, DELETION_ALLOWED),
        (settings.exportable, EXPORTABLE),
        (settings.allow_plaintext_backup, PLAINTEXT_BACKUP),
        (settings.soft_deleted, SOFT_DELETED),
        (settings.backup.is_some(), HAS_BACKUP),
        (settings.restore.is_some(), HAS_RESTORE),
    ]
    .into_iter()
    .filter(|(set, _)| *set)
    .fold(origin, |flags, (_, flag)| flags | flag)
}

/// Appends a length of `N` bytes; what is written was held to its limit when it was made.
fn put_length<const N: usize>(out: &mut Vec<u8>, length: usize) {
    let bytes = length.to_le_bytes();
    assert!(bytes[N..].iter().all(|byte| *byte == 0), "a length fits its field");
    out.extend_from_slice(&bytes[..N]);
}

fn read_stamp(reader: &mut ByteReader<'_>) -> Option<Stamp> {
    Some(Stamp { at_ns: reader.i64()?, version: reader.u32()? })
}

fn read_key(reader: &mut ByteReader<'_>) -> Option<TransitKey> {
    let [format, kind, derivation, flags] = reader.array()?;
    if !matches!(format, FORMAT | FORMAT_WITH_PUBLIC_HALVES) {
        return None;
    }
    let kind = KeyKind::numbered(kind)?;
    let derivation = match derivation {
        0 => Derivation::None,
        1 => Derivation::ByContext(Kdf::HkdfSha256),
        2 => Derivation::Convergent,
        3 => Derivation::ByContext(Kdf::HmacSha256Counter),
        _ => return None,
    };
    let hmac_key_bytes = usize::from(reader.u16()?);
    let settings = read_settings(reader, flags)?;
    let versions = read_versions(reader, format, kind)?;
    Some(TransitKey { kind, derivation, hmac_key_bytes, settings, versions })
}

fn read_settings(reader: &mut ByteReader<'_>, flags: u8) -> Option<KeySettings> {
    let [min_decryption_version, min_encryption_version, min_available_version] =
        [reader.u32()?, reader.u32()?, reader.u32()?];
    let auto_rotate_secs = reader.u64()?;
    let (backup, restore) = (read_stamp(reader)?, read_stamp(reader)?);
    let has = |flag: u8| flags & flag != 0;
    let origin = match (has(IMPORTED), has(IMPORTED_ROTATABLE)) {
        (false, false) => KeyOrigin::Made,
        (true, false) => KeyOrigin::Imported,
        (false, true) => KeyOrigin::ImportedRotatable,
        (true, true) => return None,
    };
    Some(KeySettings {
        deletion_allowed: has(DELETION_ALLOWED),
        exportable: has(EXPORTABLE),
        allow_plaintext_backup: has(PLAINTEXT_BACKUP),
        soft_deleted: has(SOFT_DELETED),
        min_decryption_version,
        min_encryption_version,
        min_available_version,
        auto_rotate_secs,
        origin,
        backup: flagged(flags, HAS_BACKUP, backup)?,
        restore: flagged(flags, HAS_RESTORE, restore)?,
    })
}

/// A stamp that its flag says is there; one that is not consists of zeros.
fn flagged(flags: u8, flag: u8, stamp: Stamp) -> Option<Option<Stamp>> {
    let there = flags & flag != 0;
    let blank = stamp == Stamp { at_ns: 0, version: 0 };
    (there || blank).then(|| there.then_some(stamp))
}

fn read_versions(
    reader: &mut ByteReader<'_>,
    format: u8,
    kind: KeyKind,
) -> Option<BTreeMap<u32, Arc<KeyVersionMaterial>>> {
    let (first, count) = (reader.u32()?, reader.u32()?);
    if usize::try_from(count).ok()? > VERSIONS_MAX {
        return None;
    }
    let mut versions = BTreeMap::new();
    for number in first..first.checked_add(count)? {
        let made_ns = reader.i64()?;
        let length = usize::try_from(reader.u32()?).ok()?;
        let material = read_material(format, kind, reader.take(length)?)?;
        let length = usize::from(reader.u16()?);
        let hmac_key = Zeroizing::new(reader.take(length)?.to_vec());
        versions
            .insert(number, Arc::new(KeyVersionMaterial::from_parts(made_ns, material, hmac_key)));
    }
    Some(versions)
}

fn read_material(format: u8, kind: KeyKind, bytes: &[u8]) -> Option<Material> {
    // A private half is a seed, or begins with its version: neither is a public one.
    if format == FORMAT_WITH_PUBLIC_HALVES
        && let Ok(half) = PublicHalf::from_spki(kind, bytes)
    {
        return Some(Material::Public(Box::new(half)));
    }
    Material::from_bytes(kind, bytes).ok()
}

/// What holds of every key that was made by this crate; of a backup from elsewhere, too.
pub(crate) fn check_record(key: &TransitKey) -> Result<()> {
    let settings = &key.settings;
    let latest = key.latest_version();
    let Some((&first, _)) = key.versions.first_key_value() else {
        return Err(Error::Damaged("a key without versions"));
    };
    let gapless = key.versions.len() as u64 == u64::from(latest - first) + 1;
    if first == 0 || first != settings.min_available_version.max(1) || !gapless {
        return Err(Error::Damaged("versions that do not follow each other"));
    }
    let decryption = settings.min_decryption_version;
    if decryption < first || decryption > latest || settings.min_encryption_version > latest {
        return Err(Error::Damaged("minimal versions that there are not"));
    }
    check_minimums(settings).map_err(|_| Error::Damaged("minimal versions that contradict"))?;
    let derives = key.derivation == Derivation::None || key.kind.derives();
    let converges = key.derivation != Derivation::Convergent || key.kind.takes_associated_data();
    if !derives || !converges {
        return Err(Error::Damaged("a derivation that its type has not"));
    }
    if (key.kind == KeyKind::Hmac) != (key.hmac_key_bytes > 0) {
        return Err(Error::Damaged("a key size that its type has not"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::KeySpec;
    use crate::key_change::KeyChange;

    fn full() -> TransitKey {
        let spec = KeySpec {
            derivation: Derivation::Convergent,
            exportable: true,
            auto_rotate_secs: 7200,
            ..KeySpec::default()
        };
        let key = TransitKey::make(KeyKind::XChaCha20Poly1305, &spec, -3).unwrap();
        let key = key.rotated(1).unwrap().rotated(2).unwrap();
        let change = KeyChange {
            min_decryption_version: Some(2),
            min_encryption_version: Some(3),
            deletion_allowed: Some(true),
            allow_plaintext_backup: Some(true),
            ..KeyChange::default()
        };
        let mut key = key.configured(&change).unwrap().0.unwrap().trimmed(2).unwrap();
        key.settings.backup = Some(Stamp { at_ns: 8, version: 2 });
        key.settings.restore = Some(Stamp { at_ns: 9, version: 3 });
        key.settings.origin = KeyOrigin::ImportedRotatable;
        key.set_aside()
    }

    #[test]
    fn every_type_reads_back() {
        for kind in [
            KeyKind::Aes128Gcm96,
            KeyKind::ChaCha20Poly1305,
            KeyKind::Ed25519,
            KeyKind::EcdsaP256,
            KeyKind::EcdsaP384,
            KeyKind::EcdsaP521,
            KeyKind::Rsa2048,
            KeyKind::Hmac,
        ] {
            let key = TransitKey::make(kind, &KeySpec::default(), 1).unwrap().rotated(2).unwrap();
            let bytes = key.encode().unwrap();
            let again = TransitKey::decode(&bytes).unwrap();
            assert_eq!(again.encode().unwrap(), bytes);
            assert_eq!(again.list(b"").unwrap(), key.list(b"").unwrap());
        }
        let key = full();
        let again = TransitKey::decode(&key.encode().unwrap()).unwrap();
        assert_eq!(again.settings(), key.settings());
        assert_eq!((again.derivation(), again.kind()), (key.derivation(), key.kind()));
    }

    #[test]
    fn a_record_is_these_bytes() {
        let mut key = TransitKey::make(KeyKind::Aes128Gcm96, &KeySpec::default(), 5).unwrap();
        let material = Material::from_bytes(KeyKind::Aes128Gcm96, &[7; 16]).unwrap();
        let version = KeyVersionMaterial::from_parts(5, material, Zeroizing::new(vec![9; 32]));
        key.versions = BTreeMap::from([(1, Arc::new(version))]);
        key.settings.restore = Some(Stamp { at_ns: -2, version: 1 });
        let bytes = key.encode().unwrap();
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let wanted = concat!(
            "0108008000000100000000000000000000000000000000000000000000000000000000000000feffffffffffffff0100",
            "000001000000010000000500000000000000100000000707070707070707070707070707070720000909090909090909",
            "090909090909090909090909090909090909090909090909",
        );
        assert_eq!(hex, wanted);
        assert_eq!(TransitKey::decode(&bytes).unwrap().encode().unwrap(), bytes);
    }

    /// Releases that know only one function take a key of the other for damaged, and not for one of theirs.
    #[test]
    fn a_record_says_how_keys_are_derived() {
        for (derivation, byte) in [
            (Derivation::None, 0),
            (Derivation::ByContext(Kdf::HkdfSha256), 1),
            (Derivation::Convergent, 2),
            (Derivation::ByContext(Kdf::HmacSha256Counter), 3),
        ] {
            let spec = KeySpec { derivation, ..KeySpec::default() };
            let key = TransitKey::make(KeyKind::Aes256Gcm96, &spec, 5).unwrap();
            let mut bytes = key.encode().unwrap();
            assert_eq!(bytes[2], byte);
            assert_eq!(TransitKey::decode(&bytes).unwrap().derivation(), derivation);
            bytes[2] = 4;
            assert!(matches!(TransitKey::decode(&bytes), Err(Error::Damaged(_))));
        }
    }

    #[test]
    fn a_cut_or_lengthened_record_is_damaged() {
        let bytes = full().encode().unwrap();
        for length in 0..bytes.len() {
            assert!(
                matches!(TransitKey::decode(&bytes[..length]), Err(Error::Damaged(_))),
                "{length}"
            );
        }
        let longer = [&bytes[..], &[0]].concat();
        assert!(matches!(TransitKey::decode(&longer), Err(Error::Damaged(_))));
    }

    #[test]
    fn a_record_whose_parts_contradict_is_damaged() {
        let damage = |change: fn(&mut TransitKey)| {
            let mut key = full();
            change(&mut key);
            matches!(TransitKey::decode(&key.encode().unwrap()), Err(Error::Damaged(_)))
        };
        assert!(!damage(|_| {}));
        assert!(damage(|key| key.versions.clear()));
        assert!(damage(|key| key.settings.min_available_version = 0));
        assert!(damage(|key| key.settings.min_decryption_version = 1));
        assert!(damage(|key| key.settings.min_decryption_version = 9));
        assert!(damage(|key| key.settings.min_encryption_version = 1));
        assert!(damage(|key| key.hmac_key_bytes = 32));
        assert!(damage(|key| key.kind = KeyKind::Hmac));
    }
}
