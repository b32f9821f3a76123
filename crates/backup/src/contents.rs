//! What a backup holds, as far as it shows without a key: how many records of which kind, and under which data keys.

use std::collections::BTreeMap;

use data_encoding::HEXLOWER;
use kallisto_api::json::{self, Json};
use kallisto_barrier::{ENVELOPE_OVERHEAD, envelope_key_version};

use crate::file::NotWhole;

/// What the barrier keeps for itself, without an envelope: the seal and the keyring (docs/format.md).
const BARRIER: u8 = 0x00;
const SEAL_KEY: &[u8] = &[BARRIER, 1];
const KEYRING_KEY: &[u8] = &[BARRIER, 2];
/// Records of namespaces: the kind, four bytes of number, then a key as any other.
const INSIDE: u8 = 0x30;
const NUMBER_BYTES: usize = 4;
const KV_RECORD: u8 = 0x11;
/// Data keys that one backup names at the most; a keyring holds fewer.
const KEY_VERSIONS_MAX: usize = 1 << 16;

/// The kinds of records by the first byte of their keys, and what a reader of the report calls them.
const KINDS: &[(u8, &str)] = &[
    (0x01, "cluster"),
    (0x02, "mounts"),
    (0x04, "tokens"),
    (0x05, "policies"),
    (0x06, "token_roles"),
    (0x08, "authority"),
    (0x09, "namespaces"),
    (0x0c, "leases"),
    (0x10, "kv_settings"),
    (0x13, "kv_v1_secrets"),
    (0x20, "engine_records"),
];

/// What the seal's record says without a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealFacts {
    /// The scheme, `shamir` or what unseals by itself.
    pub scheme: String,
    /// How many shares there are, and how many are enough.
    pub shares: u64,
    /// How many are enough.
    pub threshold: u64,
    /// The root key as the unseal key wraps it.
    pub(crate) root: Vec<u8>,
}

impl SealFacts {
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let map = json::parse_object(bytes).ok()?;
        let count = |name: &str| match map.get(name)? {
            Json::Number(text) => text.parse().ok(),
            _ => None,
        };
        Some(Self {
            scheme: map.get("type")?.as_str()?.to_owned(),
            shares: count("shares")?,
            threshold: count("threshold")?,
            root: HEXLOWER.decode(map.get("root")?.as_str()?.as_bytes()).ok()?,
        })
    }
}

/// Records counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BackupContents {
    /// How many, of which kind.
    pub kinds: BTreeMap<&'static str, u64>,
    /// How many records are under which data key.
    pub key_versions: BTreeMap<u32, u64>,
    /// Bytes of keys and values.
    pub bytes: u64,
    /// What is known of the seal; `None` in a backup of a server that has none.
    pub seal: Option<SealFacts>,
    pub(crate) keyring: Option<Vec<u8>>,
}

impl BackupContents {
    /// Counts a record; whether it is one that an envelope seals.
    pub(crate) fn add(&mut self, key: &[u8], value: &[u8]) -> Result<bool, NotWhole> {
        self.bytes += (key.len() + value.len()) as u64;
        if key.first() == Some(&BARRIER) {
            self.add_barrier(key, value)?;
            return Ok(false);
        }
        let version = match envelope_key_version(value) {
            Some(version) if value.len() >= ENVELOPE_OVERHEAD => version,
            _ => return Err(NotWhole::new(format!("record {} is no envelope", name(key)))),
        };
        *self.kinds.entry(kind(key)).or_default() += 1;
        if self.key_versions.len() < KEY_VERSIONS_MAX || self.key_versions.contains_key(&version) {
            *self.key_versions.entry(version).or_default() += 1;
        }
        Ok(true)
    }

    fn add_barrier(&mut self, key: &[u8], value: &[u8]) -> Result<(), NotWhole> {
        *self.kinds.entry("barrier").or_default() += 1;
        match key {
            SEAL_KEY => {
                let facts = SealFacts::read(value);
                self.seal = Some(facts.ok_or_else(|| NotWhole::from("its seal cannot be read"))?);
            }
            KEYRING_KEY => self.keyring = Some(value.to_vec()),
            _ => {}
        }
        Ok(())
    }
}

fn kind(key: &[u8]) -> &'static str {
    let inner = match key.first() {
        Some(&INSIDE) => key.get(1 + NUMBER_BYTES..).unwrap_or_default(),
        _ => key,
    };
    match inner.first() {
        // Metadata has the version 0; storage keys of both begin alike.
        Some(&KV_RECORD) if inner.ends_with(&0_u64.to_be_bytes()) => "kv_v2_secrets",
        Some(&KV_RECORD) => "kv_v2_versions",
        Some(first) => {
            KINDS.iter().find(|(kind, _)| kind == first).map_or("others", |(_, name)| name)
        }
        None => "others",
    }
}

/// A storage key, as a finding names it: hidden names stay hidden.
pub(crate) fn name(key: &[u8]) -> String {
    HEXLOWER.encode(key)
}
