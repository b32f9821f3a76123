//! What secrets with versions cannot do without besides: for each write the metadata is found in an ordered map, opened, given one more
//! version and sealed again, and the version is a record of its own; both are logged, and the table keeps what reads need. Storage keys are as long as
//! Kallisto's (29 bytes) and made without a keyed hash; the metadata is as short as can be: the name, which is nowhere else, and the versions.
//!
//! At a start, the log is read and the metadata of each secret is opened for its name; its value is left as it is until somebody asks for it.

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
/// In place of the length of a record that is gone.
const REMOVED: u32 = u32::MAX;

pub(crate) type StorageKey = [u8; KEY_BYTES];

/// A secret that a log holds: its name, and where its value is, with the number it was sealed with.
pub(crate) type Logged = (Vec<u8>, StorageKey, u64, Vec<u8>);

/// Encrypted records in the order of their keys: metadata before its versions.
#[derive(Default)]
pub(crate) struct Versions {
    records: BTreeMap<StorageKey, (u64, Vec<u8>)>,
    /// What was read at the start, until it is in its places.
    log: Vec<u8>,
    opened: Vec<u8>,
}

/// The records of a log: where each is, and what it is now, with the number it was sealed with; nothing if it is gone.
struct Records<'a>(&'a [u8]);

impl<'a> Iterator for Records<'a> {
    type Item = (&'a StorageKey, Option<(u64, &'a [u8])>);

    fn next(&mut self) -> Option<Self::Item> {
        let (place, rest) = self.0.split_first_chunk::<KEY_BYTES>()?;
        let (bytes, rest) = rest.split_first_chunk::<4>()?;
        let bytes = u32::from_le_bytes(*bytes);
        if bytes == REMOVED {
            self.0 = rest;
            return Some((place, None));
        }
        let (number, rest) = rest.split_first_chunk::<8>()?;
        let (record, rest) = rest.split_at_checked(bytes as usize)?;
        self.0 = rest;
        Some((place, Some((u64::from_le_bytes(*number), record))))
    }
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

/// The number of the last version in the metadata behind the name; 0 if there is none.
fn last_version(versions: &[u8]) -> u64 {
    let last = versions.last_chunk::<VERSION_BYTES>();
    last.map_or(0, |last| u64::from_le_bytes(*last.first_chunk().expect("16 bytes")))
}

impl Versions {
    /// Reads a log, and says which secrets it holds; how many records were sealed by then. The records themselves take their places when somebody writes.
    pub(crate) fn load(&mut self, key: &LessSafeKey, log: Vec<u8>) -> (Vec<Logged>, u64) {
        let (mut sealed, mut secrets) = (0, Vec::new());
        let mut name = None;
        for (place, record) in Records(&log) {
            let Some((number, record)) = record else { continue };
            sealed = sealed.max(number);
            // The version comes behind the metadata that tells of it.
            if let Some(name) = name.take() {
                secrets.push((name, *place, number, record.to_vec()));
                continue;
            }
            self.opened.clear();
            self.opened.extend_from_slice(record);
            let plain = key
                .open_in_place(nonce(number), Aad::from(place), &mut self.opened)
                .expect("what was sealed here");
            let (length, rest) = plain.split_first_chunk::<2>().expect("a length");
            name = Some(rest[..usize::from(u16::from_le_bytes(*length))].to_vec());
        }
        self.log = log;
        (secrets, sealed)
    }

    /// Puts what was read into its places.
    fn settle(&mut self) {
        for (place, record) in Records(&std::mem::take(&mut self.log)) {
            match record {
                Some((number, record)) => self.records.insert(*place, (number, record.to_vec())),
                None => self.records.remove(place),
            };
        }
    }

    /// Writes a version of a secret; what it wrote stands in `log`.
    pub(crate) fn put(
        &mut self,
        key: &LessSafeKey,
        sealed: &mut u64,
        (name, value, now): (&[u8], &[u8], u64),
        log: &mut Vec<u8>,
    ) {
        if !self.log.is_empty() {
            self.settle();
        }
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
        if self.opened.is_empty() {
            self.opened.extend_from_slice(&(name.len() as u16).to_le_bytes());
            self.opened.extend_from_slice(name);
        }
        let head = 2 + name.len();
        let version = last_version(&self.opened[head..]) + 1;
        if self.opened.len() == head + VERSIONS_MAX * VERSION_BYTES {
            let oldest = u64::from_le_bytes(*self.opened[head..].first_chunk().expect("a version"));
            let oldest = storage_key(name, oldest);
            log.extend_from_slice(&oldest);
            log.extend_from_slice(&REMOVED.to_le_bytes());
            self.records.remove(&oldest);
            self.opened.drain(head..head + VERSION_BYTES);
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
