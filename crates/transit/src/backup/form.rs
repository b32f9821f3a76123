//! The JSON of a backup, as Vault and OpenBao write it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// The version of the convergent scheme that keys have here; older ones took nonces from callers.
pub(super) const CONVERGENT_VERSION: i64 = 3;
/// How backups number [`Kdf`](crate::settings::Kdf); keys that are not derived have the first.
pub(super) const KDF_COUNTER: i64 = 0;
pub(super) const KDF_HKDF: i64 = 1;
pub(super) const NANOS: i64 = 1_000_000_000;
/// The time that Go writes for none.
pub(super) const NO_TIME: &str = "0001-01-01T00:00:00Z";

#[derive(Serialize, Deserialize)]
pub(super) struct Backup {
    pub(super) policy: BackupPolicy,
    pub(super) archived_keys: Option<Archive>,
}

#[derive(Default, Serialize, Deserialize)]
pub(super) struct Archive {
    pub(super) keys: Vec<BackupEntry>,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct BackupPolicy {
    pub(super) name: String,
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) key_size: i64,
    pub(super) keys: BTreeMap<u32, BackupEntry>,
    pub(super) derived: bool,
    pub(super) kdf: i64,
    pub(super) convergent_encryption: bool,
    pub(super) exportable: bool,
    pub(super) min_decryption_version: u32,
    pub(super) min_encryption_version: u32,
    pub(super) latest_version: u32,
    pub(super) archive_version: u32,
    pub(super) archive_min_version: u32,
    pub(super) min_available_version: u32,
    pub(super) deletion_allowed: bool,
    pub(super) convergent_version: i64,
    #[serde(rename = "type")]
    pub(super) kind: u8,
    pub(super) backup_info: Option<BackupInfo>,
    pub(super) restore_info: Option<BackupInfo>,
    pub(super) allow_plaintext_backup: bool,
    pub(super) version_template: String,
    pub(super) storage_prefix: String,
    pub(super) auto_rotate_period: i64,
    #[serde(rename = "Imported")]
    pub(super) imported: bool,
    #[serde(rename = "AllowImportedKeyRotation")]
    pub(super) allow_imported_key_rotation: bool,
    pub(super) soft_deleted: bool,
}

#[derive(Serialize, Deserialize)]
pub(super) struct BackupInfo {
    pub(super) time: String,
    pub(super) version: u32,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct BackupEntry {
    pub(super) key: Option<String>,
    pub(super) hmac_key: Option<String>,
    pub(super) time: String,
    pub(super) ec_x: Option<Box<RawValue>>,
    pub(super) ec_y: Option<Box<RawValue>>,
    pub(super) ec_d: Option<Box<RawValue>>,
    pub(super) rsa_key: Option<RsaEntry>,
    /// Only in keys without a private half.
    pub(super) rsa_public_key: Option<RsaPublicEntry>,
    pub(super) public_key: String,
    pub(super) convergent_version: i64,
    pub(super) creation_time: i64,
    #[serde(skip_deserializing)]
    pub(super) certificate_chain: Option<()>,
    pub(super) external_key_ref: String,
}

#[derive(Serialize, Deserialize)]
pub(super) struct RsaPublicEntry {
    #[serde(rename = "N")]
    pub(super) n: Box<RawValue>,
    #[serde(rename = "E")]
    pub(super) e: Box<RawValue>,
}

#[derive(Serialize, Deserialize)]
pub(super) struct RsaEntry {
    #[serde(rename = "N")]
    pub(super) n: Box<RawValue>,
    #[serde(rename = "E")]
    pub(super) e: Box<RawValue>,
    #[serde(rename = "D")]
    pub(super) d: Box<RawValue>,
    #[serde(rename = "Primes")]
    pub(super) primes: Vec<Box<RawValue>>,
    #[serde(rename = "Precomputed")]
    pub(super) precomputed: Precomputed,
}

#[derive(Serialize, Deserialize)]
pub(super) struct Precomputed {
    #[serde(rename = "Dp")]
    pub(super) dp: Box<RawValue>,
    #[serde(rename = "Dq")]
    pub(super) dq: Box<RawValue>,
    #[serde(rename = "Qinv")]
    pub(super) qinv: Box<RawValue>,
    #[serde(rename = "CRTValues", skip_deserializing)]
    pub(super) crt_values: [(); 0],
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
const fn is_zero(number: &i64) -> bool {
    *number == 0
}
