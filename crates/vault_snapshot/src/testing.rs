//! Snapshots as servers write them, for tests.

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::digest::{SHA256, digest};
use data_encoding::{BASE64, HEXLOWER};
use kallisto_barrier::SecretKey;
use kallisto_barrier::shamir::{Share, split};

use crate::file::SnapshotFile;
use crate::open::OpenSnapshot;

const KEK: [u8; 32] = *b"the key that the shares give....";
const ROOT: [u8; 32] = *b"the root key behind that one....";
/// The key of the records, which has term 2.
const RECORDS: [u8; 32] = *b"the key of the records .........";
pub(crate) const META: &str = r#"{"Version":1,"ID":"bolt-snapshot","Index":188,"Term":3}"#;

pub(crate) fn put_varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number.to_le_bytes()[0] | 0x80);
        number >>= 7;
    }
    out.push(number.to_le_bytes()[0]);
}

pub(crate) fn put_number(out: &mut Vec<u8>, field: u64, number: u64) {
    put_varint(out, field << 3);
    put_varint(out, number);
}

pub(crate) fn put_bytes(out: &mut Vec<u8>, field: u64, bytes: &[u8]) {
    put_varint(out, field << 3 | 2);
    put_varint(out, u64::try_from(bytes.len()).unwrap());
    out.extend_from_slice(bytes);
}

fn seal(key: &[u8], text: &[u8], associated: &[u8]) -> Vec<u8> {
    let key = LessSafeKey::new(UnboundKey::new(&AES_256_GCM, key).unwrap());
    // Tests have one text a path, and need no nonce that nobody guesses.
    let named = digest(&SHA256, &[text, associated].concat());
    let nonce: [u8; 12] = *named.as_ref().first_chunk().unwrap();
    let mut sealed = text.to_vec();
    let unique = Nonce::assume_unique_for_key(nonce);
    key.seal_in_place_append_tag(unique, Aad::from(associated), &mut sealed).unwrap();
    [&nonce[..], &sealed].concat()
}

pub(crate) fn record(key: &[u8], term: u8, version: u8, path: &str, text: &[u8]) -> Vec<u8> {
    let associated = if version == 2 { path.as_bytes() } else { &[] };
    [&[0, 0, 0, term, version][..], &seal(key, text, associated)].concat()
}

fn blob(text: &[u8]) -> Vec<u8> {
    let mut blob = Vec::new();
    put_bytes(&mut blob, 1, &seal(&KEK, text, &[]));
    put_bytes(&mut blob, 5, b"");
    blob
}

/// A snapshot in the making.
pub(crate) struct Writer {
    pub(crate) records: Vec<(String, Vec<u8>)>,
    pub(crate) seal_kind: &'static str,
    pub(crate) threshold: u64,
    /// Whether the wrapped key is in a list.
    pub(crate) is_listed: bool,
}

impl Writer {
    pub(crate) const fn new() -> Self {
        Self { records: Vec::new(), seal_kind: "shamir", threshold: 2, is_listed: false }
    }

    pub(crate) fn put(&mut self, path: &str, text: &[u8]) {
        self.records.push((path.to_owned(), record(&RECORDS, 2, 2, path, text)));
    }

    pub(crate) fn state(&self) -> Vec<u8> {
        let config = format!(
            r#"{{"type":"{}","secret_shares":3,"secret_threshold":{}}}"#,
            self.seal_kind, self.threshold
        );
        let keys = format!(r#"["{}"]"#, BASE64.encode(&ROOT));
        let mut wrapped = blob(keys.as_bytes());
        if self.is_listed {
            let mut list = Vec::new();
            put_number(&mut list, 1, 1);
            put_bytes(&mut list, 2, &wrapped);
            wrapped = list;
        }
        let keyring = format!(
            r#"{{"Keys":[{{"Term":2,"Version":1,"Value":"{}"}}]}}"#,
            BASE64.encode(&RECORDS)
        );
        let mut state = Vec::new();
        let fixed = [
            ("core/seal-config".to_owned(), config.into_bytes()),
            ("core/hsm/barrier-unseal-keys".to_owned(), wrapped),
            ("core/keyring".to_owned(), record(&ROOT, 1, 2, "core/keyring", keyring.as_bytes())),
        ];
        for (path, value) in fixed.iter().chain(&self.records) {
            let mut entry = Vec::new();
            put_bytes(&mut entry, 1, path.as_bytes());
            put_bytes(&mut entry, 2, value);
            put_varint(&mut state, u64::try_from(entry.len()).unwrap());
            state.extend_from_slice(&entry);
        }
        state
    }

    pub(crate) fn file(&self) -> Vec<u8> {
        pack(&self.state())
    }
}

/// A whole file around a state.
pub(crate) fn pack(state: &[u8]) -> Vec<u8> {
    let sum = |bytes: &[u8]| HEXLOWER.encode(digest(&SHA256, bytes).as_ref());
    let sums = format!("{}  meta.json\n{}  state.bin\n", sum(META.as_bytes()), sum(state));
    // As servers do, in another order where they are sealed.
    let sealed = format!("{}  state.bin\n{}  meta.json\n", sum(state), sum(META.as_bytes()));
    let members = [
        ("meta.json", META.as_bytes()),
        ("state.bin", state),
        ("SHA256SUMS", sums.as_bytes()),
        ("SHA256SUMS.sealed", &blob(sealed.as_bytes())),
    ];
    pack_members(&members)
}

pub(crate) fn pack_members(members: &[(&str, &[u8])]) -> Vec<u8> {
    let gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    let mut tar = tar::Builder::new(gzip);
    for (name, bytes) in members {
        let mut header = tar::Header::new_ustar();
        header.set_size(u64::try_from(bytes.len()).unwrap());
        header.set_mode(0o600);
        tar.append_data(&mut header, name, *bytes).unwrap();
    }
    tar.into_inner().unwrap().finish().unwrap()
}

pub(crate) fn shares() -> Vec<Share> {
    let mut shares = split(&SecretKey::from_bytes(&KEK).unwrap(), 3, 2).unwrap();
    shares.truncate(2);
    shares
}

pub(crate) fn open(writer: &Writer) -> OpenSnapshot {
    SnapshotFile::read(&*writer.file()).unwrap().unseal(&shares()).unwrap()
}
