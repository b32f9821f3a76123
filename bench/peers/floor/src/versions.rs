//! What secrets with versions cannot do without besides: for each write the metadata is found in an ordered map, opened, given one more
//! version and sealed again, and the version is a record of its own; both are logged, and the table keeps what reads need. Storage keys are as long as
//! Kallisto's (29 bytes) and made without a keyed hash; the metadata is as short as can be.

use std::collections::BTreeMap;

use aws_lc_rs::aead::{Aad, LessSafeKey};

use crate::nonce;

/// Versions that are kept.
const VERSIONS_MAX: usize = 10;
/// Bytes of a version in the metadata: its number and when it was written.
const VERSION_BYTES: usize = 16;
const HASH_BYTES: usize = 16;
/// Kind, mount, name and version.
const KEY_BYTES: usize = 1 + 4 + HASH_BYTES + 8;

type StorageKey = [u8; KEY_BYTES];

/// Encrypted records in the order of their keys: metadata before its versions.
#[derive(Default)]
pub(crate) struct Versions {
    records: BTreeMap<StorageKey, (u64, Vec<u8>)>,
    opened: Vec<u8>,
}

fn storage_key(name: &[u8], version: u64) -> StorageKey {
    let mut key = [0; KEY_BYTES];
    let (mut one, mut two) = (0xcbf2_9ce4_8422_2325_u64, 0x9e37_79b9_7f4a_7c15_u64);
    for byte in name {
        one = (one ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        two = (two ^ one).rotate_left(23).wrapping_mul(0xff51_afd7_ed55_8ccd);
    }
    key[5..13].copy_from_slice(&one.to_le_bytes());
    key[13..21].copy_from_slice(&two.to_le_bytes());
    key[21..].copy_from_slice(&version.to_be_bytes());
    key
}

impl Versions {
    /// Writes a version of a secret; what it wrote stands in `log`.
    pub(crate) fn put(
        &mut self,
        key: &LessSafeKey,
        sealed: &mut u64,
        (name, value, now): (&[u8], &[u8], u64),
        log: &mut Vec<u8>,
    ) {
        let place = storage_key(name, 0);
        self.opened.clear();
        if let Some((number, record)) = self.records.get(&place) {
            self.opened.extend_from_slice(record);
            let plain = key
                .open_in_place(nonce(*number), Aad::from(place), &mut self.opened)
                .expect("what was sealed here")
                .len();
            self.opened.truncate(plain);
        }
        let last = self.opened.last_chunk::<VERSION_BYTES>();
        let version = last.map_or(0, |last| u64::from_le_bytes(*last.first_chunk().expect("16 bytes"))) + 1;
        if self.opened.len() == VERSIONS_MAX * VERSION_BYTES {
            let oldest = u64::from_le_bytes(*self.opened.first_chunk().expect("a version"));
            let oldest = storage_key(name, oldest);
            log.extend_from_slice(&oldest);
            self.records.remove(&oldest);
            self.opened.drain(..VERSION_BYTES);
        }
        self.opened.extend_from_slice(&version.to_le_bytes());
        self.opened.extend_from_slice(&now.to_le_bytes());
        let metadata = self.opened.clone();
        for (place, plain) in [(place, metadata), (storage_key(name, version), value.to_vec())] {
            *sealed += 1;
            let mut record = plain;
            key.seal_in_place_append_tag(nonce(*sealed), Aad::from(place), &mut record)
                .expect("it is short");
            log.extend_from_slice(&place);
            log.extend_from_slice(&(record.len() as u32).to_le_bytes());
            log.extend_from_slice(&sealed.to_le_bytes());
            log.extend_from_slice(&record);
            self.records.insert(place, (*sealed, record));
        }
    }
}
