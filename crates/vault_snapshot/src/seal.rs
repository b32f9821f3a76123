//! From shares to the keys of records.
//!
//! Shares give a key, which opens the root key, which opens the keyring. A server that was never given a seal of its own since early releases has no
//! wrapped root key: there the shares give the root key itself.

use std::collections::BTreeMap;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use data_encoding::BASE64;
use kallisto_api::json::{Json, Map, parse, parse_object};
use kallisto_barrier::shamir::{Share, combine};
use zeroize::Zeroizing;

use crate::error::{Error, Result};
use crate::file::{SnapshotFile, sums_of};
use crate::limits::{KEYS_MAX, SHARES_MAX, SLOTS_MAX};
use crate::open::OpenSnapshot;
use crate::protobuf::{WireValue, fields};

const SEAL_CONFIG: &str = "core/seal-config";
const WRAPPED_ROOT: &str = "core/hsm/barrier-unseal-keys";
const KEYRING: &str = "core/keyring";
const NONCE_BYTES: usize = 12;
/// Bytes in front of a record's ciphertext: the term and the version.
const HEAD_BYTES: usize = 5;

/// How a snapshot is sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotSeal {
    /// How many shares there are.
    pub shares: u64,
    /// How many of them it takes.
    pub threshold: u64,
}

impl SnapshotFile {
    /// How it is sealed.
    ///
    /// # Errors
    /// [`Error::Seal`] where shares do not open it.
    pub fn seal(&self) -> Result<SnapshotSeal> {
        let unknown = || Error::Seal("its seal is not understood".to_owned());
        let config = self.record(SEAL_CONFIG).ok_or_else(unknown)?;
        let config = parse_object(config).map_err(|_| unknown())?;
        let kind = config.get("type").and_then(Json::as_str).unwrap_or_default();
        if kind != "shamir" {
            return Err(Error::Seal(format!(
                "it is sealed by {kind:?}, whose key is elsewhere: shares open seals of type \"shamir\" alone"
            )));
        }
        let number = |name: &str| match config.get(name) {
            Some(Json::Number(text)) => {
                text.parse::<u64>().ok().filter(|number| (1..=SHARES_MAX).contains(number))
            }
            _ => None,
        };
        let facts = number("secret_shares").zip(number("secret_threshold"));
        let (shares, threshold) = facts.ok_or_else(unknown)?;
        Ok(SnapshotSeal { shares, threshold })
    }

    /// Opens it with shares.
    ///
    /// # Errors
    /// [`Error::Shares`] if they are not its own or too few, [`Error::Seal`] for a seal that is not understood, [`Error::File`] if the file is not the
    /// one that was sealed.
    pub fn unseal(self, shares: &[Share]) -> Result<OpenSnapshot> {
        let facts = self.seal()?;
        if u64::try_from(shares.len()).is_ok_and(|given| given < facts.threshold) {
            let given = shares.len();
            let wanted = facts.threshold;
            return Err(Error::Shares(format!("it takes {wanted} shares, and {given} were given")));
        }
        let wrong = || {
            Error::Shares(
                "these shares do not open it: they are too few, or of another server".into(),
            )
        };
        let combined = combine(shares).map_err(|error| Error::Shares(error.to_string()))?;
        let key = Cipher::new(combined.expose()).ok_or_else(wrong)?;
        let root = match self.record(WRAPPED_ROOT) {
            Some(wrapped) => {
                let keys = open_blob(&key, wrapped)?.ok_or_else(wrong)?;
                root_cipher(&keys)?
            }
            None => Cipher::new(combined.expose()).ok_or_else(wrong)?,
        };
        let keyring = self.record(KEYRING).ok_or_else(|| Error::file("it has no keyring"))?;
        let keyring = open_record(&root, KEYRING, keyring).ok_or_else(wrong)?;
        let keys = read_keyring(&keyring)?;
        // What vouches for the file as a whole: that nothing was left out of it.
        let sealed = open_blob(&key, &self.sealed_sums)?;
        if sealed.is_none_or(|sealed| sums_of(&sealed) != self.sums) {
            return Err(Error::file("its sums are not those that the server sealed"));
        }
        Ok(OpenSnapshot::new(self.records, keys, self.passed_by))
    }
}

/// AES-256-GCM under one key.
pub(crate) struct Cipher(LessSafeKey);

impl Cipher {
    pub(crate) fn new(key: &[u8]) -> Option<Self> {
        UnboundKey::new(&AES_256_GCM, key).ok().map(|key| Self(LessSafeKey::new(key)))
    }

    /// What `sealed` hides: a nonce, the ciphertext, the tag.
    fn open(&self, sealed: &[u8], associated: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
        let (nonce, ciphertext) = sealed.split_first_chunk::<NONCE_BYTES>()?;
        let mut opened = Zeroizing::new(ciphertext.to_vec());
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let len = self.0.open_in_place(nonce, Aad::from(associated), &mut opened).ok()?.len();
        opened.truncate(len);
        Some(opened)
    }
}

/// The term of the key that a record is sealed with.
pub(crate) fn term_of(record: &[u8]) -> Option<u32> {
    record.first_chunk().map(|term| u32::from_be_bytes(*term))
}

/// The plaintext of a record, if this is its key.
pub(crate) fn open_record(key: &Cipher, path: &str, record: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    let (head, sealed) = record.split_first_chunk::<HEAD_BYTES>()?;
    match head {
        [.., 1] => key.open(sealed, &[]),
        [.., 2] => key.open(sealed, path.as_bytes()),
        _ => None,
    }
}

/// What a wrapped blob hides; `None` if this is not its key. Servers with one seal write the blob, some write a list of them.
fn open_blob(key: &Cipher, bytes: &[u8]) -> Result<Option<Zeroizing<Vec<u8>>>> {
    let unknown = || Error::Seal("a key is wrapped in a way that is not understood".to_owned());
    let all = fields(bytes).map_err(|_| unknown())?;
    let is_list = !all.iter().any(|it| it.number == 1 && matches!(it.value, WireValue::Bytes(_)));
    let blobs: Vec<&[u8]> = if is_list {
        let slots = all.iter().filter(|field| field.number == 2);
        slots.take(SLOTS_MAX).filter_map(|field| field.bytes().ok()).collect()
    } else {
        vec![bytes]
    };
    for blob in blobs {
        let fields = fields(blob).map_err(|_| unknown())?;
        let ciphertext = fields.iter().find(|field| field.number == 1);
        let ciphertext = ciphertext.ok_or_else(unknown)?.bytes().map_err(|_| unknown())?;
        if let Some(opened) = key.open(ciphertext, &[]) {
            return Ok(Some(opened));
        }
    }
    Ok(None)
}

/// The key in a list of root keys, which is one.
fn root_cipher(keys: &[u8]) -> Result<Cipher> {
    let unknown = || Error::Seal("its root key is not understood".to_owned());
    let keys = parse(keys).map_err(|_| unknown())?;
    let key = match &keys {
        Json::Array(keys) => match &keys[..] {
            [key] => key.as_str(),
            _ => None,
        },
        _ => None,
    };
    key.and_then(decoded).and_then(|key| Cipher::new(&key)).ok_or_else(unknown)
}

fn decoded(text: &str) -> Option<Zeroizing<Vec<u8>>> {
    BASE64.decode(text.as_bytes()).ok().map(Zeroizing::new)
}

/// The keys of a keyring by their terms.
fn read_keyring(keyring: &[u8]) -> Result<BTreeMap<u32, Cipher>> {
    let unknown = || Error::Seal("its keyring is not understood".to_owned());
    let keyring = parse_object(keyring).map_err(|_| unknown())?;
    let Some(Json::Array(keys)) = keyring.get("Keys") else { return Err(unknown()) };
    let read = |key: &Json| -> Option<(u32, Cipher)> {
        let key: &Map = key.as_object()?;
        let Some(Json::Number(term)) = key.get("Term") else { return None };
        let value = decoded(key.get("Value")?.as_str()?)?;
        Some((term.parse().ok()?, Cipher::new(&value)?))
    };
    if keys.len() > KEYS_MAX {
        return Err(unknown());
    }
    keys.iter().map(|key| read(key).ok_or_else(unknown)).collect()
}
