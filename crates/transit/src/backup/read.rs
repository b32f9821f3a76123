//! From the form of a backup to a key: what stands there is not trusted to go together.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::value::RawValue;
use zeroize::Zeroizing;

use super::form::{
    Archive, Backup, BackupEntry, BackupInfo, BackupPolicy, CONVERGENT_VERSION, KDF_COUNTER,
    KDF_HKDF, NANOS,
};
use crate::base64;
use crate::decimal;
use crate::ecdsa::{Curve, Ecdsa};
use crate::ed25519::Ed25519;
use crate::error::{Error, Result};
use crate::key::TransitKey;
use crate::kind::{KeyFamily, KeyKind};
use crate::limits::VERSIONS_MAX;
use crate::material::{KeyVersionMaterial, Material};
use crate::public::PublicHalf;
use crate::rsa::{Rsa, RsaNumbers};
use crate::settings::{Derivation, Kdf, KeyOrigin, KeySettings, Stamp};

/// A number as long as a curve's coordinates.
type Coordinate = Zeroizing<Vec<u8>>;

pub(super) fn read_backup(backup: Backup) -> Result<TransitKey> {
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
    match (policy.derived, policy.convergent_encryption, policy.kdf) {
        (false, false, _) => Ok(Derivation::None),
        (false, true, _) => {
            Err(Error::invalid("convergent encryption requires derivation to be enabled"))
        }
        (true, false, KDF_HKDF) => Ok(Derivation::ByContext(Kdf::HkdfSha256)),
        (true, false, KDF_COUNTER) => Ok(Derivation::ByContext(Kdf::HmacSha256Counter)),
        (true, true, KDF_HKDF) => Ok(Derivation::Convergent),
        (true, ..) => Err(Error::invalid("unsupported key derivation mode")),
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
