//! The bytes of a record, and what it is bound to.
//!
//! ```text
//! envelope        := format u8 (1) | key_version u32 | prefix 16 | counter 8 | ciphertext | tag 16
//! additional data := format u8 (1) | key_version u32 | cluster id 16 | storage key
//! ```
//!
//! All but the last part of the additional data has a fixed length, so two different places never look the same.

use crate::counted::{COUNTER_BYTES, TAG_BYTES};
use crate::error::{Error, Result};
use crate::limits::{CLUSTER_ID_BYTES, STORAGE_KEY_BYTES_MAX};
use crate::xchacha::{NONCE_BYTES, PREFIX_BYTES};

const FORMAT: u8 = 1;
const KEY_VERSION_BYTES: usize = 4;
const HEAD_BYTES: usize = 1 + KEY_VERSION_BYTES + NONCE_BYTES;
const AAD_FIXED_BYTES: usize = 1 + KEY_VERSION_BYTES + CLUSTER_ID_BYTES;
const AAD_BYTES_MAX: usize = AAD_FIXED_BYTES + STORAGE_KEY_BYTES_MAX;

/// By how much an envelope is longer than what is in it, in bytes.
pub const ENVELOPE_OVERHEAD: usize = HEAD_BYTES + TAG_BYTES;

const _: () = assert!(AAD_BYTES_MAX == 128);

/// The key version an envelope was made under; `None` if it is no envelope of a known format.
#[must_use]
pub fn envelope_key_version(envelope: &[u8]) -> Option<u32> {
    EnvelopeParts::of(envelope).ok().map(|parts| parts.key_version)
}

/// An envelope, taken apart.
pub(super) struct EnvelopeParts<'a> {
    pub(super) key_version: u32,
    pub(super) prefix: &'a [u8; PREFIX_BYTES],
    pub(super) counter: &'a [u8; COUNTER_BYTES],
    pub(super) ciphertext: &'a [u8],
    pub(super) tag: &'a [u8],
}

impl<'a> EnvelopeParts<'a> {
    /// Takes an envelope apart; total over any bytes.
    pub(super) fn of(envelope: &'a [u8]) -> Result<Self> {
        const CUT: Error = Error::Damaged("a record is cut off");
        let (&format, rest) = envelope.split_first().ok_or(CUT)?;
        if format != FORMAT {
            return Err(Error::Unsupported(format));
        }
        let (key_version, rest) = rest.split_first_chunk().ok_or(CUT)?;
        let (prefix, rest) = rest.split_first_chunk().ok_or(CUT)?;
        let (counter, rest) = rest.split_first_chunk().ok_or(CUT)?;
        let (ciphertext, tag) = rest.split_last_chunk::<TAG_BYTES>().ok_or(CUT)?;
        let key_version = u32::from_le_bytes(*key_version);
        Ok(Self { key_version, prefix, counter, ciphertext, tag })
    }
}

/// Appends what stands before the ciphertext.
pub(super) fn put_head(
    key_version: u32,
    prefix: &[u8; PREFIX_BYTES],
    counter: [u8; COUNTER_BYTES],
    out: &mut Vec<u8>,
) {
    out.push(FORMAT);
    out.extend_from_slice(&key_version.to_le_bytes());
    out.extend_from_slice(prefix);
    out.extend_from_slice(&counter);
}

/// What a record is bound to, put together without an allocation.
pub(super) struct Aad {
    bytes: [u8; AAD_BYTES_MAX],
    length: usize,
}

impl Aad {
    pub(super) fn new(
        key_version: u32,
        cluster_id: &[u8; CLUSTER_ID_BYTES],
        storage_key: &[u8],
    ) -> Result<Self> {
        if storage_key.len() > STORAGE_KEY_BYTES_MAX {
            return Err(Error::Invalid("a storage key is longer than 107 bytes"));
        }
        let length = AAD_FIXED_BYTES + storage_key.len();
        let mut bytes = [0; AAD_BYTES_MAX];
        bytes[0] = FORMAT;
        bytes[1..1 + KEY_VERSION_BYTES].copy_from_slice(&key_version.to_le_bytes());
        bytes[1 + KEY_VERSION_BYTES..AAD_FIXED_BYTES].copy_from_slice(cluster_id);
        bytes[AAD_FIXED_BYTES..length].copy_from_slice(storage_key);
        Ok(Self { bytes, length })
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}
