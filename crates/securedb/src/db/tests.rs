//! What only the inside can see: places, envelopes and nonces.

use std::collections::HashSet;
use std::sync::Arc;

use kallisto_lsm::disk::MemDisk;
use kallisto_lsm::{Background, Options as EngineOptions};

use super::*;
use crate::error::Error;
use crate::options::DbOptions;
use crate::record::{KIND, storage_key};

fn key() -> [u8; 32] {
    std::array::from_fn(|n| 0x40 + u8::try_from(n).unwrap())
}

fn options(disk: &Arc<MemDisk>) -> DbOptions {
    let engine = EngineOptions {
        background: Background::Inline,
        memtable_bytes: 8 << 10,
        wal_segment_bytes: 4 << 10,
        cache_bytes: 64 << 10,
        ..EngineOptions::default()
    };
    DbOptions { disk: disk.clone(), engine, now_unix: || 1_000, ..DbOptions::default() }
}

fn open(disk: &Arc<MemDisk>) -> SecureDb {
    SecureDb::open_with("store", &key(), &options(disk)).unwrap()
}

fn envelope(db: &SecureDb, name: &str) -> Vec<u8> {
    let key = storage_key(&db.keyring.load(), name);
    db.engine.get(&key).unwrap().unwrap().to_vec()
}

/// The process dies without a flush, a new one writes over the same names: no nonce comes again.
#[test]
fn no_nonce_twice_over_a_thousand_crashes() {
    const CYCLES: usize = 1_000;
    const NAMES: [&str; 3] = ["a", "b/c", "d"];
    let disk = MemDisk::shared();
    let mut nonces = HashSet::new();
    for _ in 0..CYCLES {
        let db = open(&disk);
        for name in NAMES {
            db.insert(name, b"value").unwrap();
            nonces.insert(envelope(&db, name)[5..29].to_vec());
        }
        std::mem::forget(db);
        disk.break_locks();
    }
    assert_eq!(nonces.len(), CYCLES * NAMES.len());
}

#[test]
fn a_record_copied_to_another_name_is_refused() {
    let disk = MemDisk::shared();
    let db = open(&disk);
    let names: Vec<String> = (0..12).map(|n| format!("name/{n}")).collect();
    for name in &names {
        db.insert(name, name.as_bytes()).unwrap();
    }
    let keyring = db.keyring.load();
    let envelopes: Vec<_> = names.iter().map(|name| envelope(&db, name)).collect();
    for (n, name) in names.iter().enumerate() {
        let place = storage_key(&keyring, name);
        for other in (0..names.len()).filter(|&other| other != n) {
            db.engine.put(&place, &envelopes[other]).unwrap();
            assert!(matches!(db.get(name), Err(Error::Damaged(_))), "{other} in place of {n}");
        }
        db.engine.put(&place, &envelopes[n]).unwrap();
    }
    // An older value of the same name in its own place is a rollback, which no cipher can tell.
    assert!(db.scan("").all(|entry| entry.is_ok()));
}

#[test]
fn a_store_with_a_misplaced_record_does_not_open() {
    let disk = MemDisk::shared();
    let db = open(&disk);
    db.insert("a", b"1").unwrap();
    db.insert("b", b"2").unwrap();
    let place = storage_key(&db.keyring.load(), "a");
    db.engine.put(&place, &envelope(&db, "b")).unwrap();
    db.close().unwrap();
    drop(db);
    let refused = SecureDb::open_with("store", &key(), &options(&disk)).err();
    assert!(matches!(refused, Some(Error::Damaged(_))));
}

#[test]
fn whatever_a_name_looks_like_its_record_is_a_record() {
    let disk = MemDisk::shared();
    let db = open(&disk);
    let keys_before = disk.files()[std::path::Path::new("store/KEYS")].clone();
    let names = ["KEYS", "LOCK", "data", "..", "../KEYS", "\u{1}", "CURRENT", "sys/raw"];
    for name in names {
        db.insert(name, b"x").unwrap();
        assert_eq!(db.get(name).unwrap().unwrap().as_slice(), b"x");
    }
    let entries: Vec<_> = db.engine.scan(..).unwrap().map(|entry| entry.unwrap()).collect();
    assert_eq!(entries.len(), names.len());
    assert!(entries.iter().all(|(key, _)| key.len() == 17 && key[0] == KIND));
    assert_eq!(disk.files()[std::path::Path::new("store/KEYS")], keys_before);
    for name in names {
        assert!(db.remove(name).unwrap());
    }
    assert!(db.is_empty());
}

#[test]
fn reencryption_leaves_no_record_under_an_old_key_and_drops_it() {
    let disk = MemDisk::shared();
    let db = open(&disk);
    for n in 0..600 {
        db.insert(&format!("n/{n}"), &[7; 40]).unwrap();
    }
    assert_eq!(db.rotate().unwrap(), 2);
    db.insert("n/0", b"new").unwrap();
    let mut calls = 0;
    let done = db.reencrypt(|_| calls += 1).unwrap();
    assert_eq!(done, Reencrypted { seen: 600, rewritten: 599 });
    assert!(calls >= 3);
    let versions: Vec<u32> = db.stats().key_versions.iter().map(|key| key.version).collect();
    assert_eq!(versions, [2]);
    assert_eq!(db.get("n/0").unwrap().unwrap().as_slice(), b"new");
    drop(db);
    let db = open(&disk);
    assert_eq!(db.len(), 600);
    assert!((0..600).all(|n| envelope(&db, &format!("n/{n}"))[1..5] == 2u32.to_le_bytes()));
    assert_eq!(db.reencrypt(|_| ()).unwrap(), Reencrypted { seen: 600, rewritten: 0 });
}
