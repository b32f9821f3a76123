//! From a key to the form of a backup.

use jiff::Timestamp;
use serde_json::value::RawValue;

use super::form::{
    Archive, Backup, BackupEntry, BackupInfo, BackupPolicy, CONVERGENT_VERSION, KDF_COUNTER,
    KDF_HKDF, NANOS, NO_TIME, Precomputed, RsaEntry, RsaPublicEntry,
};
use crate::base64;
use crate::decimal;
use crate::error::{Error, Result};
use crate::key::TransitKey;
use crate::material::{KeyVersionMaterial, Material};
use crate::public::{PublicHalf, TransitPublicKey};
use crate::rsa::RsaNumbers;
use crate::settings::{Derivation, Kdf, KeyOrigin, Stamp};

pub(super) fn write_backup(key: &TransitKey, name: &str) -> Result<Backup> {
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
    let kdf = key.derivation.kdf();
    let convergent = key.derivation == Derivation::Convergent;
    let auto_rotate_ns =
        i64::try_from(settings.auto_rotate_secs).unwrap_or(i64::MAX).saturating_mul(NANOS);
    let policy = BackupPolicy {
        name: name.to_owned(),
        key_size: i64::try_from(key.hmac_key_bytes).unwrap_or_default(),
        keys: keys.collect::<Result<_>>()?,
        derived: kdf.is_some(),
        kdf: match kdf {
            None | Some(Kdf::HmacSha256Counter) => KDF_COUNTER,
            Some(Kdf::HkdfSha256) => KDF_HKDF,
        },
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
