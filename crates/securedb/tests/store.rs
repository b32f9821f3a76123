//! The store from outside: what it keeps, what it refuses, what it loses and what it shows.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use kallisto_lsm::disk::cuts::{PowerCut, Promises, every_cut, left_at_the_end};
use kallisto_lsm::disk::{FaultyDisk, MemDisk, UnsyncedTail};
use kallisto_lsm::{Background, Error as StoreError, Options as EngineOptions};
use kallisto_securedb::{DbOptions, Error, SecureDb, WriteBatch, WriteDurability};

fn key(seed: u8) -> [u8; 32] {
    std::array::from_fn(|n| seed ^ u8::try_from(n).unwrap())
}

fn options(disk: Arc<dyn kallisto_lsm::disk::Disk>) -> DbOptions {
    let engine = EngineOptions {
        background: Background::Inline,
        memtable_bytes: 4 << 10,
        wal_segment_bytes: 2 << 10,
        sst_bytes: 4 << 10,
        level_base_bytes: 16 << 10,
        cache_bytes: 64 << 10,
        ..EngineOptions::default()
    };
    DbOptions { disk, engine, now_unix: || 1_000, ..DbOptions::default() }
}

fn open(disk: &Arc<MemDisk>) -> SecureDb {
    SecureDb::open_with("store", &key(1), &options(disk.clone())).unwrap()
}

fn contents(db: &SecureDb) -> BTreeMap<String, Vec<u8>> {
    db.scan("").map(|entry| entry.map(|(name, value)| (name, value.to_vec())).unwrap()).collect()
}

type Model = BTreeMap<String, Vec<u8>>;

#[test]
fn it_is_a_sorted_map_whatever_happens_to_it() {
    let disk = MemDisk::shared();
    let mut db = open(&disk);
    let mut model = Model::new();
    let mut dice = fastrand::Rng::with_seed(4);
    for step in 0..3_000 {
        let name = format!("f{}/n{}", dice.u8(..5), dice.u8(..40));
        let value = vec![dice.u8(..); dice.usize(..200)];
        match dice.u32(..1_000) {
            0..500 => {
                db.insert(&name, &value).unwrap();
                model.insert(name, value);
            }
            500..650 => assert_eq!(db.remove(&name).unwrap(), model.remove(&name).is_some()),
            650..800 => {
                assert_eq!(db.get(&name).unwrap().as_deref(), model.get(&name));
                assert_eq!(db.contains(&name), model.contains_key(&name));
            }
            800..950 => write_batch(&db, &mut model, &mut dice),
            950..960 => assert_eq!(contents(&db), model),
            960..970 => compare_prefix(&db, &model, &name[..dice.usize(1..name.len())]),
            970..980 => {
                db.rotate().unwrap();
            }
            980..985 => {
                db.reencrypt(|_| ()).unwrap();
            }
            985..992 => {
                let mode = [WriteDurability::Batch, WriteDurability::Strict][dice.usize(..2)];
                db.set_durability(mode).unwrap();
            }
            _ => {
                if dice.bool() {
                    db.close().unwrap();
                    drop(db);
                } else {
                    std::mem::forget(db);
                    disk.break_locks();
                }
                db = open(&disk);
            }
        }
        assert_eq!(db.len(), model.len() as u64, "after step {step}");
    }
    assert_eq!(contents(&db), model);
}

fn write_batch(db: &SecureDb, model: &mut Model, dice: &mut fastrand::Rng) {
    let mut batch = WriteBatch::new();
    for _ in 0..dice.usize(1..20) {
        // Few names, so that a batch meets one more than once.
        let name = format!("f{}/n{}", dice.u8(..2), dice.u8(..6));
        if dice.u8(..) < 90 {
            batch.remove(&name);
            model.remove(&name);
        } else {
            let value = vec![dice.u8(..); dice.usize(..60)];
            batch.insert(&name, &value).unwrap();
            model.insert(name, value);
        }
    }
    db.write(&batch).unwrap();
}

fn compare_prefix(db: &SecureDb, model: &Model, prefix: &str) {
    let found: Vec<_> = db.scan(prefix).map(|entry| entry.unwrap().0).collect();
    let wanted: Vec<_> = model.keys().filter(|name| name.starts_with(prefix)).cloned().collect();
    assert_eq!(found, wanted, "{prefix}");
}

#[test]
fn a_wrong_key_is_refused_and_nothing_changes() {
    let disk = MemDisk::shared();
    let db = open(&disk);
    db.insert("name", b"value").unwrap();
    db.close().unwrap();
    drop(db);
    let before = disk.files();
    let refused = SecureDb::open_with("store", &key(2), &options(disk.clone())).err();
    assert_eq!(refused, Some(Error::WrongKey));
    assert_eq!(disk.files(), before);

    // Not even a look at the records: their files are gone and it is still the key that is wrong.
    let kept = before.into_iter().filter(|(path, _)| !path.starts_with("store/data"));
    let disk = Arc::new(MemDisk::from_files(kept));
    let refused = SecureDb::open_with("store", &key(2), &options(disk)).err();
    assert_eq!(refused, Some(Error::WrongKey));
}

#[test]
fn an_empty_short_or_blank_key_is_refused_before_anything_is_made() {
    for key in [&[][..], &[1; 16], &key(1)[..31], &[0; 32], &[7; 33]] {
        let disk = MemDisk::shared();
        let refused = SecureDb::open_with("store", key, &options(disk.clone())).err();
        assert!(matches!(refused, Some(Error::Invalid(_))));
        assert!(disk.files().is_empty());
    }
}

#[test]
fn the_key_can_be_changed() {
    let disk = MemDisk::shared();
    let db = open(&disk);
    db.insert("name", b"value").unwrap();
    assert!(matches!(db.change_key(b"short"), Err(Error::Invalid(_))));
    db.change_key(&key(9)).unwrap();
    db.rotate().unwrap();
    drop(db);
    let old = SecureDb::open_with("store", &key(1), &options(disk.clone())).err();
    assert_eq!(old, Some(Error::WrongKey));
    let db = SecureDb::open_with("store", &key(9), &options(disk)).unwrap();
    assert_eq!(db.get("name").unwrap().unwrap().as_slice(), b"value");
}

#[test]
fn records_without_their_keys_are_not_given_new_ones() {
    let disk = MemDisk::shared();
    drop(open(&disk));
    let kept = disk.files().into_iter().filter(|(path, _)| path != Path::new("store/KEYS"));
    let disk = Arc::new(MemDisk::from_files(kept));
    let before = disk.files();
    let refused = SecureDb::open_with("store", &key(1), &options(disk.clone())).err();
    assert_eq!(refused, Some(Error::KeysMissing("store/KEYS".into())));
    assert_eq!(disk.files(), before);
}

#[test]
fn a_damaged_file_of_keys_is_told_from_a_wrong_key() {
    let disk = MemDisk::shared();
    drop(open(&disk));
    let files = disk.files();
    let length = files[Path::new("store/KEYS")].len();
    for at in 0..length {
        let flipped = files.iter().map(|(path, bytes)| {
            let mut bytes = bytes.to_vec();
            if path == Path::new("store/KEYS") {
                bytes[at] ^= 1;
            }
            (path.clone(), Arc::new(bytes))
        });
        let disk = Arc::new(MemDisk::from_files(flipped));
        let refused = SecureDb::open_with("store", &key(1), &options(disk)).err();
        assert!(matches!(refused, Some(Error::Damaged(_))), "byte {at}: {refused:?}");
    }
}

#[test]
fn a_second_opening_is_refused() {
    let disk = MemDisk::shared();
    let db = open(&disk);
    let refused = SecureDb::open_with("store", &key(1), &options(disk.clone())).err();
    assert_eq!(refused, Some(Error::Store(StoreError::Locked("store".into()))));
    drop(db);
    open(&disk);
}

#[test]
fn names_that_cannot_be_are_refused_and_change_nothing() {
    let disk = MemDisk::shared();
    let db = open(&disk);
    for name in ["", "/a", "a/", "a//b", &"a".repeat(5_000)] {
        assert!(matches!(db.insert(name, b"x"), Err(Error::Name(_))), "{name}");
        let mut batch = WriteBatch::new();
        batch.insert("good", b"x").unwrap();
        if batch.insert(name, b"x").is_ok() {
            assert!(matches!(db.write(&batch), Err(Error::Name(_))), "{name}");
        }
        assert_eq!(db.get(name).unwrap(), None);
        assert!(!db.remove(name).unwrap());
    }
    assert!(db.is_empty() && db.get("good").unwrap().is_none());
}

#[test]
fn the_files_show_no_name_and_no_value() {
    let disk = FaultyDisk::shared();
    let db = SecureDb::open_with("store", &key(1), &options(disk.clone())).unwrap();
    let key_material = key(1);
    for n in 0..200 {
        db.insert(&format!("planted-name-{n}/leaf"), format!("planted-value-{n}").as_bytes())
            .unwrap();
    }
    db.rotate().unwrap();
    db.reencrypt(|_| ()).unwrap();
    db.close().unwrap();
    // Every byte that was ever written, files that are gone again included.
    for event in disk.events() {
        let kallisto_lsm::disk::DiskEvent::Write { bytes, .. } = event else { continue };
        for planted in [b"planted".as_slice(), b"leaf", &key_material] {
            assert!(!bytes.windows(planted.len()).any(|window| window == planted));
        }
    }
}

/// Every point of a run at which the power can fail, in every way a disk may be left: what was acknowledged in strict is there,
/// through rotations and re-encryptions.
#[test]
fn a_cut_after_every_disk_operation_loses_nothing_acknowledged() {
    let disk = FaultyDisk::shared();
    let mut model = Model::new();
    let (mut states, mut promises) = (vec![model.clone()], Promises::default());
    let db = SecureDb::open_with("store", &key(1), &options(disk.clone())).unwrap();
    let mut dice = fastrand::Rng::with_seed(11);
    for n in 0..120u8 {
        promises.begin(disk.events_len());
        let name = format!("n{}", dice.u8(..20));
        match n % 20 {
            13 => {
                db.rotate().unwrap();
            }
            17 => {
                db.reencrypt(|_| ()).unwrap();
            }
            4 | 9 => {
                db.remove(&name).unwrap();
                model.remove(&name);
            }
            _ => {
                db.insert(&name, &[n; 100]).unwrap();
                model.insert(name, vec![n; 100]);
            }
        }
        states.push(model.clone());
        promises.keep(disk.events_len(), usize::from(n) + 1);
    }
    let tails =
        [UnsyncedTail::Lost, UnsyncedTail::NamesLost, UnsyncedTail::Torn, UnsyncedTail::Reordered];
    let images = every_cut(&disk.events(), &tails, 0, |PowerCut { at, tail, disk, .. }| {
        let db = SecureDb::open_with("store", &key(1), &options(Arc::new(disk)))
            .unwrap_or_else(|error| panic!("{error}: after event {at}, {tail:?}"));
        let possible = promises.at(at);
        let whole = states[possible.clone()].contains(&contents(&db));
        assert!(whole, "not the state after {possible:?}: event {at}, {tail:?}");
    });
    assert!(images > 1_000, "{images} images");
}

#[test]
fn a_change_to_strict_and_a_flush_drain_what_batch_acknowledged() {
    for drain in [|db: &SecureDb| db.set_durability(WriteDurability::Strict), SecureDb::flush] {
        let disk = FaultyDisk::shared();
        let batch = DbOptions { durability: WriteDurability::Batch, ..options(disk.clone()) };
        let db = SecureDb::open_with("store", &key(1), &batch).unwrap();
        let names: Vec<String> = (0..10).map(|n| format!("n{n}")).collect();
        for name in &names {
            db.insert(name, b"value").unwrap();
        }
        let survivors = |events: &[kallisto_lsm::disk::DiskEvent]| {
            let image = Arc::new(left_at_the_end(events, UnsyncedTail::Lost, 0));
            let db = SecureDb::open_with("store", &key(1), &options(image)).unwrap();
            contents(&db).into_keys().collect::<Vec<_>>()
        };
        assert!(survivors(&disk.events()).is_empty(), "batch has synced nothing yet");
        drain(&db).unwrap();
        assert_eq!(survivors(&disk.events()), names);
        std::mem::forget(db);
    }
}

#[test]
fn a_power_cut_in_batch_takes_at_most_the_stated_number() {
    const OPS: u64 = 8;
    let disk = FaultyDisk::shared();
    let interval = std::time::Duration::from_secs(3_600);
    let batch = DbOptions {
        durability: WriteDurability::Batch,
        batch_ops: OPS,
        batch_interval: interval,
        ..options(disk.clone())
    };
    let db = SecureDb::open_with("store", &key(1), &batch).unwrap();
    let mut acknowledged = vec![disk.events_len()];
    for n in 0..100 {
        db.insert(&format!("n{n}"), &[1; 50]).unwrap();
        acknowledged.push(disk.events_len());
    }
    every_cut(&disk.events(), &[UnsyncedTail::Lost], 0, |PowerCut { at, disk, .. }| {
        let count = acknowledged.partition_point(|&events| events <= at).saturating_sub(1);
        let db = SecureDb::open_with("store", &key(1), &options(Arc::new(disk))).unwrap();
        assert!(db.len() + OPS > count as u64, "{} of {count} after event {at}", db.len());
    });
}

#[test]
fn a_disk_that_fails_is_an_error_and_the_index_keeps_step() {
    let disk = FaultyDisk::shared();
    let db = SecureDb::open_with("store", &key(1), &options(disk.clone())).unwrap();
    db.insert("there", b"value").unwrap();
    let from = disk.operations();
    let kind = kallisto_lsm::disk::FaultKind::SyncFails;
    disk.plan(Some(kallisto_lsm::disk::DiskFault { kind, from, until: u64::MAX }));
    assert!(matches!(db.insert("new", b"value"), Err(Error::Store(_))));
    assert!(!db.contains("new"));
    let mut batch = WriteBatch::new();
    batch.insert("newer", b"value").unwrap();
    batch.remove("there");
    assert!(matches!(db.write(&batch), Err(Error::Store(_))));
    assert!(!db.contains("newer") && db.contains("there"));
    assert_eq!(db.get("there").unwrap().unwrap().as_slice(), b"value");
}

#[test]
fn threads_rotations_and_reencryptions_do_not_disturb_each_other() {
    const THREADS: usize = 4;
    const STEPS: usize = 400;
    let disk = MemDisk::shared();
    let mut options = options(disk.clone());
    options.engine.background = Background::Threads(1);
    options.engine.memtable_bytes = 64 << 10;
    options.durability = WriteDurability::Batch;
    let db = SecureDb::open_with("store", &key(1), &options).unwrap();
    let models: Vec<Model> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let db = &db;
                scope.spawn(move || own_names(db, thread, STEPS))
            })
            .collect();
        for _ in 0..8 {
            db.rotate().unwrap();
            db.reencrypt(|_| ()).unwrap();
        }
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let all: Model = models.into_iter().flatten().collect();
    assert_eq!(contents(&db), all);
    db.reencrypt(|_| ()).unwrap();
    assert_eq!(db.stats().key_versions.len(), 1);
    drop(db);
    assert_eq!(contents(&open(&disk)), all);
}

/// One thread's work on names of its own: what it reads is what it wrote.
fn own_names(db: &SecureDb, thread: usize, steps: usize) -> Model {
    let mut model = Model::new();
    let mut dice = fastrand::Rng::with_seed(thread as u64);
    for _ in 0..steps {
        let name = format!("t{thread}/n{}", dice.u8(..16));
        match dice.u8(..4) {
            0 => assert_eq!(db.remove(&name).unwrap(), model.remove(&name).is_some()),
            1 => assert_eq!(db.get(&name).unwrap().as_deref(), model.get(&name)),
            _ => {
                let value = vec![dice.u8(..); dice.usize(..80)];
                db.insert(&name, &value).unwrap();
                model.insert(name, value);
            }
        }
    }
    model
}
