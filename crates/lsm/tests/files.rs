//! Which files and versions a store keeps, and which it lets go of.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use kallisto_lsm::disk::{Disk, DiskEvent, FaultyDisk, MemDisk, UnsyncedTail, cuts};
use kallisto_lsm::{Background, Engine, EntryBatch, Error, LogKeeping, Options, Sync, SyncMode};

mod common;

use common::small;

fn open(disk: &Arc<MemDisk>) -> Engine {
    Engine::open(disk.clone(), "store", small(Background::Inline)).unwrap()
}

/// Names of the store's files that end so.
fn named(disk: &MemDisk, end: &str) -> Vec<String> {
    let mut names = disk.list(Path::new("store")).unwrap();
    names.retain(|name| name.ends_with(end));
    names.sort();
    names
}

fn live(engine: &Engine) -> usize {
    engine.stats().levels.iter().map(|level| level.files).sum()
}

#[test]
fn files_that_nobody_needs_go_and_a_reader_keeps_its_own() {
    let disk = MemDisk::shared();
    let engine = open(&disk);
    let fill = |value: &[u8]| {
        (0..300u32).for_each(|n| engine.put(&n.to_be_bytes(), value).unwrap());
        engine.compact().unwrap();
        // What is let go of by a merge is removed by the work after it.
        engine.flush().unwrap();
    };
    fill(b"first");
    assert_eq!(named(&disk, ".sst").len(), live(&engine));
    let mut scan = engine.scan(..).unwrap();
    let read_first = scan.next_entry().unwrap().map(|(_, value)| value.to_vec());
    assert_eq!(read_first.as_deref(), Some(&b"first"[..]));
    let before = named(&disk, ".sst");
    fill(b"second");
    let now = named(&disk, ".sst");
    assert!(before.iter().all(|name| now.contains(name)), "the reader is not done");
    assert_eq!(scan.by_ref().filter(|entry| entry.as_ref().unwrap().1 == b"first").count(), 299);
    drop(scan);
    fill(b"third");
    assert_eq!(named(&disk, ".sst").len(), live(&engine));
    assert!(before.iter().all(|name| !named(&disk, ".sst").contains(name)));
}

#[test]
fn an_open_removes_what_no_manifest_names() {
    let disk = MemDisk::shared();
    let engine = open(&disk);
    engine.put(b"key", b"value").unwrap();
    engine.close().unwrap();
    drop(engine);
    let stray = ["00000000000000f0.sst", "00000000000000f1.manifest", "00000000000000f2.wal"];
    let other = ["notes.txt", "f3.log"];
    for name in stray.iter().chain(&other) {
        disk.create(&Path::new("store").join(name)).unwrap();
    }
    let engine = open(&disk);
    let left = disk.list(Path::new("store")).unwrap();
    assert!(stray.iter().all(|name| !left.contains(&(*name).to_owned())), "{left:?}");
    assert!(other.iter().all(|name| left.contains(&(*name).to_owned())), "they are not ours");
    assert_eq!(named(&disk, ".manifest").len(), 1);
    engine.put(b"later", b"value").unwrap();
    engine.flush().unwrap();
    assert!(named(&disk, ".sst").last().unwrap().as_str() > "00000000000000f2.sst");
    assert_eq!(engine.scan(..).unwrap().count(), 2);
}

/// Without the file that names the manifest a store would begin anew, over everything that is there.
#[test]
fn a_store_that_lost_its_current_is_not_a_new_one() {
    let current = Path::new("store/CURRENT");
    let disk = MemDisk::shared();
    let engine = open(&disk);
    engine.put(b"key", b"value").unwrap();
    let in_log = disk.fork();
    engine.flush().unwrap();
    drop(engine);
    let files: Vec<PathBuf> = disk.files().into_keys().collect();
    let without = |disk: &MemDisk, end: &str| {
        let disk = Arc::new(disk.fork());
        disk.remove(current).unwrap();
        let all = disk.files();
        all.keys()
            .filter(|p| p.to_string_lossy().ends_with(end))
            .for_each(|p| disk.remove(p).unwrap());
        Engine::open(disk, "store", small(Background::Inline)).map(|_| ())
    };
    assert!(files.iter().any(|path| path.to_string_lossy().ends_with(".sst")));
    let lost = Err(Error::Corrupt {
        file: current.to_owned(),
        offset: 0,
        what: "it is missing beside data files",
    });
    assert_eq!(without(&disk, ".wal"), lost, "files alone");
    assert_eq!(without(&in_log, ".sst"), lost, "a log alone");
    let first = Arc::new(MemDisk::default());
    first.create(Path::new("store/0000000000000001.manifest")).unwrap();
    assert!(
        Engine::open(first, "store", small(Background::Inline)).is_ok(),
        "a first open that died"
    );
}

#[test]
fn versions_stay_while_somebody_may_ask_for_them() {
    let disk = MemDisk::shared();
    let engine = open(&disk);
    let entries = || -> u64 { engine.stats().levels.iter().map(|level| level.entries).sum() };
    let put = |value: &[u8]| {
        engine.put(b"key", value).unwrap();
        engine.flush().unwrap();
    };
    put(b"1");
    let first = engine.read_point();
    let again = first.clone();
    assert_eq!((first.seqno(), again.seqno()), (1, 1));
    put(b"2");
    let second = engine.read_point();
    assert_eq!(second.seqno(), 2);
    put(b"3");
    engine.compact().unwrap();
    assert_eq!(entries(), 3);
    drop(first);
    put(b"4");
    engine.compact().unwrap();
    assert_eq!(entries(), 3, "1 and 2 are held, and 4 is the newest");
    drop(again);
    put(b"5");
    engine.compact().unwrap();
    assert_eq!(entries(), 2);
    assert_eq!(engine.get_at(&second, b"key").unwrap().as_deref(), Some(&b"2"[..]));
    drop(second);
    put(b"6");
    engine.compact().unwrap();
    assert_eq!(entries(), 1);
}

#[test]
fn a_closed_store_neither_reads_nor_writes() {
    let disk = MemDisk::shared();
    let engine = open(&disk);
    engine.put(b"key", b"value").unwrap();
    let point = engine.read_point();
    engine.close().unwrap();
    assert_eq!(engine.get(b"key").err(), Some(Error::Closed));
    assert_eq!(engine.get_at(&point, b"key").err(), Some(Error::Closed));
    assert_eq!(engine.scan(..).err(), Some(Error::Closed));
    assert_eq!(engine.put(b"key", b"value"), Err(Error::Closed));
    assert_eq!((engine.sync(), engine.flush()), (Err(Error::Closed), Err(Error::Closed)));
}

#[test]
fn a_batch_of_nothing_syncs_what_came_before_if_it_is_asked_to() {
    let disk = FaultyDisk::shared();
    let durability = LogKeeping::Wal(SyncMode::OnDemand);
    let options = Options { durability, ..small(Background::Inline) };
    let engine = Engine::open(disk.clone(), "store", options.clone()).unwrap();
    engine.put(b"key", b"value").unwrap();
    let is_there = || {
        let events = disk.events();
        let left = cuts::left_at_the_end(&events, UnsyncedTail::Lost, 1);
        let engine = Engine::open(Arc::new(left), "store", options.clone()).unwrap();
        engine.get(b"key").unwrap().is_some()
    };
    engine.write(&EntryBatch::new(), Sync::Mode).unwrap();
    assert!(!is_there());
    engine.write(&EntryBatch::new(), Sync::Now).unwrap();
    assert!(is_there());
}

/// What a process that died left unsynced is durable once the next one opened the store: it may build on it.
#[test]
fn what_an_open_read_is_durable() {
    let disk = FaultyDisk::shared();
    let durability = LogKeeping::Wal(SyncMode::OnDemand);
    let options = Options { durability, ..small(Background::Inline) };
    let engine = Engine::open(disk.clone(), "store", options.clone()).unwrap();
    engine.put(b"key", b"value").unwrap();
    std::mem::forget(engine);
    disk.memory().break_locks();
    let _engine = Engine::open(disk.clone(), "store", options.clone()).unwrap();
    let left = cuts::left_at_the_end(&disk.events(), UnsyncedTail::Lost, 1);
    let engine = Engine::open(Arc::new(left), "store", options).unwrap();
    assert!(engine.get(b"key").unwrap().is_some());
}

#[test]
fn a_checkpoint_goes_on_with_numbers_of_its_own() {
    let disk = MemDisk::shared();
    let engine = open(&disk);
    engine.put(b"key", b"value").unwrap();
    engine.checkpoint(Path::new("copy")).unwrap();
    let names = disk.list(Path::new("copy")).unwrap();
    let number = |end: &str| {
        let of = |name: &String| {
            let stem = name.strip_suffix(end)?;
            u64::from_str_radix(stem, 16).ok()
        };
        names.iter().filter_map(of).max().unwrap()
    };
    assert!(number(".manifest") > number(".sst"), "{names:?}");
    let copy = Engine::open(disk.clone(), "copy", small(Background::Inline)).unwrap();
    copy.put(b"other", b"value").unwrap();
    copy.flush().unwrap();
    drop(copy);
    let copy = Engine::open(disk.clone(), "copy", small(Background::Inline)).unwrap();
    copy.check().unwrap();
    assert_eq!(copy.scan(..).unwrap().count(), 2);
    assert_eq!(engine.scan(..).unwrap().count(), 1);
}

#[test]
fn the_name_of_a_new_store_and_of_a_copy_is_durable() {
    let disk = FaultyDisk::shared();
    let synced = |since: usize| {
        let events = &disk.events()[since..];
        events.iter().any(|event| match event {
            DiskEvent::SyncDir { dir } => dir == Path::new("."),
            _ => false,
        })
    };
    let engine = Engine::open(disk.clone(), "store", small(Background::Inline)).unwrap();
    assert!(synced(0), "the store");
    engine.put(b"key", b"value").unwrap();
    let before = disk.events_len();
    engine.checkpoint(Path::new("copy")).unwrap();
    assert!(synced(before), "the copy");
}
