//! A machine in a store without threads: what a restore leaves, whose engine it is, and what it says of its records.

use std::sync::Arc;

use bytes::Bytes;
use kallisto_lsm::disk::{Disk, DiskFault, FaultKind, FaultyDisk, MemDisk};
use kallisto_lsm::{Background, EntryBatch};

use super::*;
use crate::batch::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use crate::{RaftOptions, RaftStore, Replicated, Store};

fn options(seed: u64) -> RaftOptions {
    let engine =
        kallisto_lsm::Options { background: Background::Inline, ..RaftOptions::default().engine };
    RaftOptions { engine, seed, has_threads: false, ..RaftOptions::default() }
}

fn open(disk: &Arc<MemDisk>, seed: u64) -> Result<Arc<RaftStore>, Error> {
    RaftStore::open(Arc::clone(disk) as Arc<dyn kallisto_lsm::disk::Disk>, "s", options(seed))
}

fn store() -> Arc<RaftStore> {
    open(&MemDisk::shared(), 1).unwrap()
}

fn put(store: &RaftStore, key: &[u8], bytes: usize) {
    let mut batch = Batch::new();
    batch.put(key.to_vec(), vec![1; bytes]);
    store.commit(batch).wait().unwrap();
}

/// Begins a restore and stages so many records.
fn stage(store: &RaftStore, count: u16) -> Position {
    let generation = store.begin_restore().wait().unwrap();
    let record = |n: u16| (Bytes::copy_from_slice(&n.to_be_bytes()), Bytes::from_static(b"v"));
    store.stage(generation, (0..count).map(record).collect()).wait().unwrap();
    generation
}

/// How many records of each generation there are in the engine.
fn counted(store: &RaftStore) -> Vec<(u64, usize)> {
    let records = store.shared.machine.records();
    let mut scan = records.raw_scan(&records.0.read_point()).unwrap();
    let mut counts: Vec<(u64, usize)> = Vec::new();
    while let Some((key, _)) = scan.next_entry().unwrap() {
        if key == GENERATIONS_KEY {
            continue;
        }
        let generation = generation_of(key);
        match counts.last_mut() {
            Some((known, count)) if *known == generation => *count += 1,
            _ => counts.push((generation, 1)),
        }
    }
    counts
}

fn sweep_all(store: &RaftStore) {
    while store.shared.machine.sweep().unwrap() {}
}

#[test]
fn what_is_neither_in_use_nor_staged_is_swept_and_the_rest_stays() {
    let store = store();
    (1..4).for_each(|n| put(&store, &[n], 1));
    let first = stage(&store, 5);
    sweep_all(&store);
    assert_eq!(counted(&store), [(0, 3), (first.0, 5)], "one in use, one staged");
    store.finish_restore(first, 5).wait().unwrap();
    let second = stage(&store, 4);
    let third = stage(&store, 2);
    assert_eq!(counted(&store), [(0, 3), (first.0, 5), (second.0, 4), (third.0, 2)]);
    sweep_all(&store);
    assert_eq!(counted(&store), [(first.0, 5), (third.0, 2)]);
    store.abandon_restore(third).wait().unwrap();
    sweep_all(&store);
    assert_eq!(counted(&store), [(first.0, 5)]);
    assert!(!store.shared.machine.sweep().unwrap(), "nothing is left to do");
}

#[test]
fn a_sweep_removes_some_at_a_time_and_begins_again_after_a_start() {
    let disk = MemDisk::shared();
    let store = open(&disk, 1).unwrap();
    let count = u16::try_from(SWEEP_MAX).unwrap() + 88;
    let given_up = stage(&store, count);
    store.abandon_restore(given_up).wait().unwrap();
    assert!(store.shared.machine.sweep().unwrap());
    assert_eq!(counted(&store), [(given_up.0, 88)]);
    store.close().unwrap();
    drop(store);
    let store = open(&disk, 1).unwrap();
    assert!(store.shared.machine.sweep().unwrap());
    assert_eq!(counted(&store), []);
    assert!(!store.shared.machine.sweep().unwrap());
}

/// A power cut may come between the flush of what was swept and the first write after the start.
#[test]
fn a_sweep_behind_a_start_is_no_reason_to_ask_the_log_for_what_it_gave_back() {
    let disk = MemDisk::shared();
    let store = open(&disk, 1).unwrap();
    (1..9).for_each(|n| put(&store, &[n], 1));
    let given_up = stage(&store, 600);
    store.abandon_restore(given_up).wait().unwrap();
    store.close().unwrap();
    drop(store);
    let store = open(&disk, 1).unwrap();
    sweep_all(&store);
    store.shared.machine.records().0.flush().unwrap();
    drop(store);
    let store = open(&disk, 1).unwrap();
    assert_eq!(counted(&store), [(0, 8)]);
}

#[test]
fn a_sweep_on_a_full_disk_waits_for_space_and_ends_nothing() {
    let disk = FaultyDisk::shared();
    let mut options = options(1);
    (options.engine.memtable_bytes, options.engine.frozen_max) = (16 << 10, 1);
    let store = RaftStore::open(Arc::clone(&disk) as Arc<dyn Disk>, "s", options).unwrap();
    let given_up = stage(&store, 5_000);
    store.abandon_restore(given_up).wait().unwrap();
    disk.plan(Some(DiskFault { kind: FaultKind::NoSpace, from: 0, until: u64::MAX }));
    for _ in 0..10 {
        store.shared.do_chores().unwrap();
    }
    assert_ne!(counted(&store), [], "there is no room to say that they are gone");
    disk.plan(None);
    for _ in 0..20 {
        store.shared.do_chores().unwrap();
    }
    assert_eq!(counted(&store), []);
}

/// A backup is believed at its end only, and staged before; what an entry says has limits that a reader of the log holds.
#[test]
fn what_no_entry_holds_is_not_staged_and_the_store_opens_again() {
    let disk = MemDisk::shared();
    let store = open(&disk, 1).unwrap();
    put(&store, b"k", 1);
    let generation = store.begin_restore().wait().unwrap();
    let record = |key: usize, value: usize| (vec![1; key].into(), vec![2; value].into());
    let too_large = vec![record(1, 20 << 20), record(2, 20 << 20)];
    let refused =
        [too_large, vec![record(KEY_BYTES_MAX + 1, 1)], vec![record(1, VALUE_BYTES_MAX + 1)]];
    for records in refused {
        let staged = store.stage(generation, records).wait();
        assert!(matches!(staged, Err(Error::TooLarge(_))), "{staged:?}");
    }
    let longest = vec![record(KEY_BYTES_MAX, 1), record(1, VALUE_BYTES_MAX)];
    store.stage(generation, longest).wait().unwrap();
    store.finish_restore(generation, 2).wait().unwrap();
    // Records that were restored have longer keys below than those before.
    put(&store, &[1; KEY_BYTES_MAX], 1);
    drop(store);
    let store = open(&disk, 1).unwrap();
    assert!(store.get(&[1; KEY_BYTES_MAX]).unwrap().is_some());
}

#[test]
fn a_restore_that_was_given_up_or_never_began_comes_to_nothing() {
    let store = store();
    put(&store, b"k", 1);
    let generation = stage(&store, 3);
    let other = Position(generation.0 + 1);
    assert_eq!(store.abandon_restore(other).wait(), Err(Error::Conflict), "of another");
    store.abandon_restore(generation).wait().unwrap();
    assert_eq!(store.finish_restore(generation, 3).wait(), Err(Error::Conflict));
    assert_eq!(store.abandon_restore(generation).wait(), Err(Error::Conflict), "once");
    assert!(store.get(b"k").unwrap().is_some());
}

#[test]
fn an_entry_that_is_applied_is_not_applied_again() {
    let store = store();
    put(&store, b"k", 1);
    let machine = &store.shared.machine;
    let index = machine.position().0;
    for index in [index, index - 1] {
        let entry = Committed { index, term: 1, data: Bytes::new(), members: None };
        assert!(matches!(machine.apply(&entry, None), Err(Error::Unknown(_))));
    }
    assert_eq!(machine.position().0, index);
}

/// The files of one store with the engine of another.
fn with_engine_of(log: &MemDisk, engine: &MemDisk) -> Arc<MemDisk> {
    let of_engine = |path: &std::path::Path| path.starts_with("s/engine");
    let theirs = engine.files().into_iter().filter(|(path, _)| of_engine(path));
    let ours = log.files().into_iter().filter(|(path, _)| !of_engine(path));
    Arc::new(MemDisk::from_files(ours.chain(theirs)))
}

#[test]
fn an_engine_of_another_store_is_refused_and_so_is_one_that_does_not_say() {
    let disks = [1, 2].map(|seed| {
        let disk = MemDisk::shared();
        let store = open(&disk, seed).unwrap();
        put(&store, b"k", 1);
        store.close().unwrap();
        disk
    });
    let damaged = |disk: &Arc<MemDisk>| match open(disk, 1) {
        Err(Error::Damaged(what)) => what,
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("it was opened"),
    };
    assert!(open(&with_engine_of(&disks[0], &disks[0]), 1).is_ok());
    let what = damaged(&with_engine_of(&disks[0], &disks[1]));
    assert!(what.contains("two stores"), "{what}");
    let nameless = MemDisk::shared();
    let home = EngineHome {
        disk: Arc::clone(&nameless) as Arc<dyn kallisto_lsm::disk::Disk>,
        dir: "s".into(),
        options: kallisto_lsm::Options {
            durability: kallisto_lsm::LogKeeping::External,
            ..options(1).engine
        },
    };
    let engine = home.open_apart(0).unwrap();
    let mut batch = EntryBatch::new();
    batch.put(&engine_key(0, b"k"), &[0; 9]).unwrap();
    batch.set_position(2);
    engine.write(&batch, Sync::Mode).unwrap();
    engine.flush_to(2).unwrap();
    engine.close().unwrap();
    drop(engine);
    let what = damaged(&with_engine_of(&disks[0], &nameless));
    assert!(what.contains("whose it is"), "{what}");
}

#[test]
fn what_a_crash_left_of_other_engines_is_gone_after_the_next_start() {
    let disk = MemDisk::shared();
    open(&disk, 1).unwrap().close().unwrap();
    for engine in [1, REPLACED_AFTER] {
        use kallisto_lsm::disk::Disk;
        disk.create(format!("s/engine-{engine}/left").as_ref()).unwrap();
    }
    let store = open(&disk, 1).unwrap();
    let left = disk.files().into_keys().filter(|path| path.ends_with("left")).count();
    assert_eq!(left, 0);
    drop(store);
}

/// As far from the engine in use as one that a crash left may be.
const REPLACED_AFTER: u64 = crate::raft::REPLACED_MAX;

#[test]
fn the_rest_of_a_scan_is_what_lies_behind_its_key() {
    let store = store();
    for key in [&b""[..], b"a", b"b"] {
        put(&store, key, 1);
    }
    let records = store.shared.machine.records();
    let point = records.0.read_point();
    let behind = |key: &[u8]| {
        let mut scan = records.raw_scan_behind(&point, key).unwrap();
        let mut keys = Vec::new();
        while let Some((key, _)) = scan.next_entry().unwrap() {
            keys.push(key.to_vec());
        }
        keys
    };
    let all = [&[1][..], b"\x01a", b"\x01b"];
    assert_eq!(behind(b""), all, "nothing of what the engine says of itself");
    assert_eq!(behind(&[1]), all[1..]);
    assert_eq!(behind(b"\x01a"), all[2..]);
    assert!(behind(b"\x01b").is_empty());
}

#[test]
fn the_number_of_records_is_about_right() {
    const BYTES: usize = 2000;
    let store = store();
    // What is in memory is guessed from the memory that it takes, a quarter of a mebibyte at a time.
    let between = |least: u64, most: u64| {
        let found = store.approximate_len();
        assert!((least..=most).contains(&found), "{found} is not within {least} and {most}");
    };
    let flush = || store.shared.machine.records().0.flush().unwrap();
    (0..100).for_each(|n| put(&store, &[n], BYTES));
    flush();
    between(100, 240);
    (100..150).for_each(|n| put(&store, &[n], BYTES));
    between(150, 420);
    for n in 100..150 {
        let mut batch = Batch::new();
        batch.delete(vec![n]);
        store.commit(batch).wait().unwrap();
    }
    flush();
    // A delete takes a record and itself away.
    between(100, 140);
    let mut seen = 0;
    store
        .scan_borrowed(&[], None, &mut |_, _, value| {
            assert_eq!(value.len(), BYTES);
            seen += 1;
            Visit::Continue
        })
        .unwrap();
    assert_eq!(seen, 100);
}

#[test]
fn a_scan_goes_on_behind_a_key_whether_it_is_there_or_not() {
    let (raft, memory) = (store(), crate::MemoryStore::new());
    let keys = ["a", "a/1", "a/2", "a/2/x", "a0", "b", "b/1"];
    for key in keys {
        let mut batch = Batch::new();
        batch.put(key.as_bytes().to_vec(), b"v".to_vec());
        raft.commit(batch.clone()).wait().unwrap();
        memory.commit(batch).wait().unwrap();
    }
    let seen = |records: &dyn Records, prefix: &str, behind: Option<&str>| {
        let mut seen = Vec::new();
        let behind = behind.map(str::as_bytes);
        records
            .scan_borrowed(prefix.as_bytes(), behind, &mut |key, _, value| {
                assert_eq!(value, b"v");
                seen.push(String::from_utf8(key.to_vec()).unwrap());
                Visit::Continue
            })
            .unwrap();
        seen
    };
    for prefix in ["", "a", "a/", "a/2", "b", "c"] {
        for behind in ["", "0", "a", "a/", "a/1", "a/15", "a/2", "a/9", "b", "c"] {
            let expected: Vec<&str> =
                keys.into_iter().filter(|key| key.starts_with(prefix) && *key > behind).collect();
            assert_eq!(seen(&*raft, prefix, Some(behind)), expected, "{prefix} behind {behind}");
            assert_eq!(seen(&memory, prefix, Some(behind)), expected, "{prefix} behind {behind}");
        }
        let all: Vec<&str> = keys.into_iter().filter(|key| key.starts_with(prefix)).collect();
        assert_eq!(
            (seen(&*raft, prefix, None), seen(&memory, prefix, None)),
            (
                all.iter().map(|&key| key.to_owned()).collect(),
                all.iter().map(|&key| key.to_owned()).collect()
            )
        );
    }
}

/// Notes what came with each batch, and the first key that it writes.
#[derive(Default)]
struct HeardCompanions(Mutex<Vec<(Option<u32>, u8)>>);

impl Fold for HeardCompanions {
    fn load(&self, _: Position, _: &dyn Records) -> Result<(), Error> {
        Ok(())
    }

    fn fold(&self, _: Position, batch: &Batch, _: &dyn Records) {
        let (StoreOp::Put { key, .. } | StoreOp::Delete { key, .. }) = &batch.ops()[0];
        lock(&self.0).push((batch.companion::<u32>().copied(), key[0]));
    }
}

#[test]
fn a_companion_comes_to_the_fold_with_its_own_batch_unless_that_is_long() {
    let disk = MemDisk::shared();
    let store = open(&disk, 1).unwrap();
    let heard = Arc::<HeardCompanions>::default();
    store.attach(Arc::clone(&heard) as Arc<dyn Fold>).unwrap();
    let batch = |key: u8, bytes: usize| {
        let mut batch = Batch::new();
        batch.put(vec![key], vec![key; bytes]);
        batch
    };
    let with = |key: u8, bytes: usize| {
        let mut batch = batch(key, bytes);
        batch.set_companion(Arc::new(u32::from(key)));
        batch
    };
    let mut refused = with(9, 1);
    refused.expect(vec![1], Seqno(77));
    let mut other = batch(5, 1);
    other.set_companion(Arc::new("of another type"));
    let long = crate::raft::limits::BATCH_KEPT_BYTES_MAX;
    let commits: Vec<_> = [with(1, 1), batch(2, 1), refused, with(3, long), with(4, 1), other]
        .into_iter()
        .map(|batch| store.commit(batch))
        .collect();
    let outcomes: Vec<_> = commits.into_iter().map(|commit| commit.wait().is_ok()).collect();
    assert_eq!(outcomes, [true, true, false, true, true, true]);
    let expected = [(Some(1), 1), (None, 2), (None, 3), (Some(4), 4), (None, 5)];
    assert_eq!(*lock(&heard.0), expected);
    drop(store);
    let store = open(&disk, 1).unwrap();
    for key in 1..=5 {
        assert_eq!(store.get(&[key]).unwrap().unwrap().value[0], key, "as the log has it");
    }
}
