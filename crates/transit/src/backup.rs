//! Backups: a key with all its versions as base64 of JSON, in the form Vault and OpenBao write and
//! take, so that keys move between servers in either direction.
//!
//! It is the one place where key material becomes text, and happens only to keys whose owner said
//! so twice (`exportable` and `allow_plaintext_backup`). Refusals name a place in the text, never
//! what stands there.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use zeroize::Zeroizing;

use crate::base64;
use crate::codec::check_record;
use crate::decimal;
use crate::ecdsa::{Curve, Ecdsa};
use crate::ed25519::Ed25519;
use crate::error::{Error, Result};
use crate::key::TransitKey;
use crate::kind::{KeyFamily, KeyKind};
use crate::limits::{BACKUP_BYTES_MAX, VERSIONS_MAX};
use crate::material::{KeyVersionMaterial, Material};
use crate::public::{PublicHalf, TransitPublicKey};
use crate::rsa::{Rsa, RsaNumbers};
use crate::settings::{Derivation, KeyOrigin, KeySettings, Stamp};

/// The version of the convergent scheme that keys have here; older ones took nonces from callers.
const CONVERGENT_VERSION: i64 = 3;
/// HKDF-SHA-256, as backups number it.
const KDF_HKDF: i64 = 1;
const NANOS: i64 = 1_000_000_000;
/// The time that Go writes for none.
const NO_TIME: &str = "0001-01-01T00:00:00Z";

/// A key that came back, and the name it had.
#[derive(Debug)]
pub struct RestoredKey {
    /// The name it had when the backup was made.
    pub name: String,
    /// The key.
    pub key: TransitKey,
}

/// A number as long as a curve's coordinates.
type Coordinate = Zeroizing<Vec<u8>>;

#[derive(Serialize, Deserialize)]
struct Backup {
    policy: BackupPolicy,
    archived_keys: Option<Archive>,
}

#[derive(Default, Serialize, Deserialize)]
struct Archive {
    keys: Vec<BackupEntry>,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct BackupPolicy {
    name: String,
    #[serde(skip_serializing_if = "is_zero")]
    key_size: i64,
    keys: BTreeMap<u32, BackupEntry>,
    derived: bool,
    kdf: i64,
    convergent_encryption: bool,
    exportable: bool,
    min_decryption_version: u32,
    min_encryption_version: u32,
    latest_version: u32,
    archive_version: u32,
    archive_min_version: u32,
    min_available_version: u32,
    deletion_allowed: bool,
    convergent_version: i64,
    #[serde(rename = "type")]
    kind: u8,
    backup_info: Option<BackupInfo>,
    restore_info: Option<BackupInfo>,
    allow_plaintext_backup: bool,
    version_template: String,
    storage_prefix: String,
    auto_rotate_period: i64,
    #[serde(rename = "Imported")]
    imported: bool,
    #[serde(rename = "AllowImportedKeyRotation")]
    allow_imported_key_rotation: bool,
    soft_deleted: bool,
}

#[derive(Serialize, Deserialize)]
struct BackupInfo {
    time: String,
    version: u32,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct BackupEntry {
    key: Option<String>,
    hmac_key: Option<String>,
    time: String,
    ec_x: Option<Box<RawValue>>,
    ec_y: Option<Box<RawValue>>,
    ec_d: Option<Box<RawValue>>,
    rsa_key: Option<RsaEntry>,
    /// Only in keys without a private half.
    rsa_public_key: Option<RsaPublicEntry>,
    public_key: String,
    convergent_version: i64,
    creation_time: i64,
    #[serde(skip_deserializing)]
    certificate_chain: Option<()>,
    external_key_ref: String,
}

#[derive(Serialize, Deserialize)]
struct RsaPublicEntry {
    #[serde(rename = "N")]
    n: Box<RawValue>,
    #[serde(rename = "E")]
    e: Box<RawValue>,
}

#[derive(Serialize, Deserialize)]
struct RsaEntry {
    #[serde(rename = "N")]
    n: Box<RawValue>,
    #[serde(rename = "E")]
    e: Box<RawValue>,
    #[serde(rename = "D")]
    d: Box<RawValue>,
    #[serde(rename = "Primes")]
    primes: Vec<Box<RawValue>>,
    #[serde(rename = "Precomputed")]
    precomputed: Precomputed,
}

#[derive(Serialize, Deserialize)]
struct Precomputed {
    #[serde(rename = "Dp")]
    dp: Box<RawValue>,
    #[serde(rename = "Dq")]
    dq: Box<RawValue>,
    #[serde(rename = "Qinv")]
    qinv: Box<RawValue>,
    #[serde(rename = "CRTValues", skip_deserializing)]
    crt_values: [(); 0],
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
const fn is_zero(number: &i64) -> bool {
    *number == 0
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

fn write_backup(key: &TransitKey, name: &str) -> Result<Backup> {
    let settings = &key.settings;
    let used = key.versions.range(settings.min_decryption_version..);
    let keys = used.map(|(&number, version)| Ok((number, write_entry(key, version)?)));
    let mut archived = Vec::with_capacity(key.versions.len() + 1);
    if settings.min_available_version == 0 {
        archived.push(BackupEntry { time: NO_TIME.into(), ..BackupEntry::default() });
    }
    for version in key.versions.values() {
        archived.push(write_entry(key, version)?);
    }
    let derived = key.derivation != Derivation::None;
    let convergent = key.derivation == Derivation::Convergent;
    let auto_rotate_ns =
        i64::try_from(settings.auto_rotate_secs).unwrap_or(i64::MAX).saturating_mul(NANOS);
    let policy = BackupPolicy {
        name: name.to_owned(),
        key_size: i64::try_from(key.hmac_key_bytes).unwrap_or_default(),
        keys: keys.collect::<Result<_>>()?,
        derived,
        kdf: if derived { KDF_HKDF } else { 0 },
        convergent_encryption: convergent,
        exportable: settings.exportable,
        min_decryption_version: settings.min_decryption_version,
        min_encryption_version: settings.min_encryption_version,
        latest_version: key.latest_version(),
        archive_version: key.latest_version(),
        archive_min_version: settings.min_available_version,
        min_available_version: settings.min_available_version,
        deletion_allowed: settings.deletion_allowed,
        convergent_version: if convergent { -1 } else { 0 },
        kind: key.kind.number(),
        backup_info: settings.backup.map(write_stamp),
        restore_info: settings.restore.map(write_stamp),
        allow_plaintext_backup: settings.allow_plaintext_backup,
        auto_rotate_period: auto_rotate_ns,
        imported: settings.origin != KeyOrigin::Made,
        allow_imported_key_rotation: settings.origin == KeyOrigin::ImportedRotatable,
        soft_deleted: settings.soft_deleted,
        ..BackupPolicy::default()
    };
    Ok(Backup { policy, archived_keys: Some(Archive { keys: archived }) })
}

fn write_entry(key: &TransitKey, version: &KeyVersionMaterial) -> Result<BackupEntry> {
    let convergent = key.derivation == Derivation::Convergent;
    let mut entry = BackupEntry {
        hmac_key: Some(base64::encode(version.hmac_key(key.kind))),
        time: write_time(version.made_ns),
        convergent_version: if convergent { CONVERGENT_VERSION } else { 0 },
        creation_time: version.made_ns.div_euclid(NANOS),
        ..BackupEntry::default()
    };
    match &version.material {
        Material::Bytes(bytes) => entry.key = Some(base64::encode(bytes)),
        Material::Ed25519(pair) => {
            entry.key = Some(base64::encode(&pair.private()));
            entry.public_key = base64::encode(pair.public());
        }
        Material::Ecdsa(pair) => {
            let (x, y) = pair.coordinates();
            entry.ec_x = Some(number(x)?);
            entry.ec_y = Some(number(y)?);
            entry.ec_d = Some(number(&pair.scalar()?)?);
            let pem = crate::der::pem("PUBLIC KEY", &pair.public_der()?);
            entry.public_key = pem.to_string();
        }
        Material::Rsa(pair) => entry.rsa_key = Some(write_rsa(&pair.numbers()?)?),
        Material::Public(half) => write_public(half, &mut entry)?,
    }
    Ok(entry)
}

fn write_public(half: &PublicHalf, entry: &mut BackupEntry) -> Result<()> {
    match half.key() {
        TransitPublicKey::Ed25519(bytes) => entry.public_key = base64::encode(bytes),
        TransitPublicKey::Ecdsa(curve, point) => {
            let (x, y) = point[1..].split_at(curve.coordinate_bytes);
            entry.ec_x = Some(number(x)?);
            entry.ec_y = Some(number(y)?);
            entry.public_key = crate::der::pem("PUBLIC KEY", half.spki()).to_string();
        }
        TransitPublicKey::Rsa(..) => {
            let unwritable = Error::Machine("a public key could not be written");
            let (n, e) = half.rsa_numbers().ok_or(unwritable)?;
            entry.rsa_public_key = Some(RsaPublicEntry { n: number(n)?, e: number(e)? });
        }
    }
    Ok(())
}

fn write_rsa(numbers: &RsaNumbers) -> Result<RsaEntry> {
    Ok(RsaEntry {
        n: number(&numbers.n)?,
        e: number(&numbers.e)?,
        d: number(&numbers.d)?,
        primes: vec![number(&numbers.p)?, number(&numbers.q)?],
        precomputed: Precomputed {
            dp: number(&numbers.dp)?,
            dq: number(&numbers.dq)?,
            qinv: number(&numbers.qinv)?,
            crt_values: [],
        },
    })
}

fn number(bytes: &[u8]) -> Result<Box<RawValue>> {
    RawValue::from_string(decimal::write(bytes).to_string())
        .map_err(|_| Error::Machine("a number could not be written"))
}

fn write_stamp(stamp: Stamp) -> BackupInfo {
    BackupInfo { time: write_time(stamp.at_ns), version: stamp.version }
}

fn write_time(at_ns: i64) -> String {
    Timestamp::from_nanosecond(i128::from(at_ns))
        .map_or_else(|_| NO_TIME.to_owned(), |time| time.to_string())
}

fn read_backup(backup: Backup) -> Result<TransitKey> {
    let Backup { policy, archived_keys } = backup;
    let kind = KeyKind::numbered(policy.kind)
        .ok_or_else(|| Error::invalid(format!("unsupported key type {}", policy.kind)))?;
    let derivation = read_derivation(&policy)?;
    if kind == KeyKind::XChaCha20Poly1305 && has_hmac_marks(&policy, archived_keys.as_ref()) {
        return Err(Error::invalid(format!(
            "key type {} with the marks of a key for HMACs: Vault numbers its types otherwise",
            policy.kind
        )));
    }
    if !matches!(policy.version_template.as_str(), "" | "vault:v{{version}}:") {
        return Err(Error::invalid("keys with a version template of their own are not taken"));
    }
    let archive = archived_keys.unwrap_or_default().keys;
    let first = policy.min_available_version.max(1);
    let count = u64::from(policy.latest_version) + 1;
    if count - u64::from(first.min(policy.latest_version)) > VERSIONS_MAX as u64 {
        return Err(Error::invalid(format!("the backup has over {VERSIONS_MAX} versions")));
    }
    let mut versions = BTreeMap::new();
    for number in first..=policy.latest_version {
        let at = usize::try_from(number - policy.min_available_version).unwrap_or(usize::MAX);
        let entry = policy.keys.get(&number).or_else(|| archive.get(at));
        let Some(entry) = entry else {
            return Err(Error::invalid(format!("malformed backup: version {number} is missing")));
        };
        let version = read_entry(kind, derivation, entry).map_err(|error| match error {
            Error::Invalid(why) => Error::invalid(format!("version {number} of the backup: {why}")),
            other => other,
        })?;
        versions.insert(number, Arc::new(version));
    }
    Ok(TransitKey {
        kind,
        derivation,
        hmac_key_bytes: read_key_size(kind, &policy, &versions),
        settings: read_settings(&policy),
        versions,
    })
}

/// Whether this is a key for HMACs, whatever its number says. Vault gives them 11, which is another type in OpenBao and here: taken for that one it
/// would encrypt with what others verify HMACs by. Only keys for HMACs have a size, and only they make HMACs with the key itself.
fn has_hmac_marks(policy: &BackupPolicy, archive: Option<&Archive>) -> bool {
    let archived = archive.into_iter().flat_map(|archive| &archive.keys);
    let mut entries = policy.keys.values().chain(archived);
    policy.key_size != 0
        || entries.any(|entry| entry.hmac_key.is_some() && entry.hmac_key == entry.key)
}

fn read_derivation(policy: &BackupPolicy) -> Result<Derivation> {
    match (policy.derived, policy.convergent_encryption) {
        (false, false) => Ok(Derivation::None),
        (true, _) if policy.kdf != KDF_HKDF => {
            Err(Error::invalid("unsupported key derivation mode"))
        }
        (true, false) => Ok(Derivation::ByContext),
        (true, true) => Ok(Derivation::Convergent),
        (false, true) => {
            Err(Error::invalid("convergent encryption requires derivation to be enabled"))
        }
    }
}

fn read_key_size(
    kind: KeyKind,
    policy: &BackupPolicy,
    versions: &BTreeMap<u32, Arc<KeyVersionMaterial>>,
) -> usize {
    if kind != KeyKind::Hmac {
        return 0;
    }
    let latest = versions.last_key_value().map_or(0, |(_, version)| version.hmac_key(kind).len());
    usize::try_from(policy.key_size).ok().filter(|&size| size > 0).unwrap_or(latest)
}

fn read_settings(policy: &BackupPolicy) -> KeySettings {
    let stamp = |info: &Option<BackupInfo>| {
        info.as_ref().map(|info| Stamp { at_ns: read_time(&info.time), version: info.version })
    };
    KeySettings {
        deletion_allowed: policy.deletion_allowed,
        exportable: policy.exportable,
        allow_plaintext_backup: policy.allow_plaintext_backup,
        soft_deleted: policy.soft_deleted,
        min_decryption_version: policy.min_decryption_version.max(1),
        min_encryption_version: policy.min_encryption_version,
        min_available_version: policy.min_available_version,
        auto_rotate_secs: u64::try_from(policy.auto_rotate_period / NANOS).unwrap_or_default(),
        origin: match (policy.imported, policy.allow_imported_key_rotation) {
            (false, _) => KeyOrigin::Made,
            (true, false) => KeyOrigin::Imported,
            (true, true) => KeyOrigin::ImportedRotatable,
        },
        backup: stamp(&policy.backup_info),
        restore: None,
    }
}

fn read_time(text: &str) -> i64 {
    let time = text.parse::<Timestamp>().map(|time| i64::try_from(time.as_nanosecond()));
    time.ok().and_then(|at_ns| at_ns.ok()).unwrap_or_default()
}

fn read_entry(
    kind: KeyKind,
    derivation: Derivation,
    entry: &BackupEntry,
) -> Result<KeyVersionMaterial> {
    if derivation == Derivation::Convergent && entry.convergent_version != CONVERGENT_VERSION {
        return Err(Error::invalid("an old convergent encryption key is not taken"));
    }
    let material = match kind.family() {
        KeyFamily::Aead(_) | KeyFamily::Hmac => Material::from_bytes(kind, &secret(&entry.key)?)?,
        _ if let Some(half) = read_public(kind, entry)? => Material::Public(Box::new(half)),
        KeyFamily::Ed25519 => {
            let private = secret(&entry.key)?;
            let seed = private.first_chunk::<32>().ok_or_else(no_private_key)?;
            Material::Ed25519(Ed25519::from_seed(seed)?)
        }
        KeyFamily::Ecdsa => Material::Ecdsa(read_ecdsa(kind, entry)?),
        KeyFamily::Rsa => Material::Rsa(Box::new(read_rsa(kind, entry)?)),
    };
    let hmac_key = match &entry.hmac_key {
        Some(text) if kind != KeyKind::Hmac => Zeroizing::new(base64::decode(text)?),
        _ => Zeroizing::new(Vec::new()),
    };
    if hmac_key.len() > usize::from(u16::MAX) {
        return Err(Error::invalid("an HMAC key is too long"));
    }
    Ok(KeyVersionMaterial::from_parts(read_time(&entry.time), material, hmac_key))
}

fn secret(text: &Option<String>) -> Result<Zeroizing<Vec<u8>>> {
    let text = text.as_ref().ok_or_else(no_private_key)?;
    base64::decode(text).map(Zeroizing::new)
}

/// The public half of a version that has no private one.
fn read_public(kind: KeyKind, entry: &BackupEntry) -> Result<Option<PublicHalf>> {
    let half = match kind.family() {
        KeyFamily::Ed25519 if entry.key.is_none() && !entry.public_key.is_empty() => {
            PublicHalf::from_edwards(&base64::decode(&entry.public_key)?)?
        }
        KeyFamily::Ecdsa if entry.ec_d.is_none() && entry.ec_x.is_some() => {
            let (x, y) = read_point(kind, entry)?;
            PublicHalf::from_point(kind, &[&[4], &x[..], &y].concat())?
        }
        KeyFamily::Rsa
            if entry.rsa_key.is_none()
                && let Some(public) = &entry.rsa_public_key =>
        {
            let part = |value: &RawValue| decimal::parse(value.get()).ok_or_else(no_number);
            PublicHalf::from_rsa_numbers(kind, &part(&public.n)?, &part(&public.e)?)?
        }
        _ => return Ok(None),
    };
    Ok(Some(half))
}

/// The coordinates of the public point.
fn read_point(kind: KeyKind, entry: &BackupEntry) -> Result<(Coordinate, Coordinate)> {
    Ok((read_coordinate(kind, &entry.ec_x)?, read_coordinate(kind, &entry.ec_y)?))
}

fn read_coordinate(kind: KeyKind, value: &Option<Box<RawValue>>) -> Result<Coordinate> {
    let digits = value.as_ref().ok_or_else(no_private_key)?;
    let number = decimal::parse(digits.get()).ok_or_else(no_number)?;
    decimal::pad(&number, Curve::of(kind)?.coordinate_bytes).ok_or_else(no_number)
}

fn read_ecdsa(kind: KeyKind, entry: &BackupEntry) -> Result<Ecdsa> {
    let (x, y) = read_point(kind, entry)?;
    Ecdsa::from_parts(kind, &read_coordinate(kind, &entry.ec_d)?, &x, &y)
}

fn read_rsa(kind: KeyKind, entry: &BackupEntry) -> Result<Rsa> {
    let key = entry.rsa_key.as_ref().ok_or_else(no_private_key)?;
    let [p, q] = &key.primes[..] else {
        return Err(Error::invalid("an RSA key has two primes"));
    };
    let part = |value: &RawValue| decimal::parse(value.get()).ok_or_else(no_number);
    let numbers = RsaNumbers {
        n: part(&key.n)?,
        e: part(&key.e)?,
        d: part(&key.d)?,
        p: part(p)?,
        q: part(q)?,
        dp: part(&key.precomputed.dp)?,
        dq: part(&key.precomputed.dq)?,
        qinv: part(&key.precomputed.qinv)?,
    };
    Rsa::from_numbers(kind, &numbers)
}

fn no_private_key() -> Error {
    Error::invalid("there is no private key")
}

fn no_number() -> Error {
    Error::invalid("a part of the key is not a number of its length")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::{KeyChange, KeySpec};

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
            (KeyKind::Aes256Gcm96, Derivation::ByContext),
            (KeyKind::XChaCha20Poly1305, Derivation::Convergent),
            (KeyKind::Ed25519, Derivation::ByContext),
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
            ("\"derived\":false", "\"derived\":true", "unsupported key derivation mode"),
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
