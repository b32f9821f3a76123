//! The engine against a `BTreeMap`: same operations, same answers, through flushes, compactions and reopenings.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

use kallisto_lsm::disk::{Disk, MemDisk};
use kallisto_lsm::{
    Background, CheckReport, Engine, EntryBatch, Error, LogKeeping, Options, ReadPoint, Sync,
    SyncMode,
};

mod common;

use common::small;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn open(disk: &Arc<MemDisk>, options: &Options) -> Engine {
    Engine::open(disk.clone(), "store", options.clone()).unwrap()
}

fn key(dice: &mut fastrand::Rng) -> Vec<u8> {
    let n = dice.u32(..400);
    let mut key = format!("key-{n:04}").into_bytes();
    key.truncate(if dice.u8(..) < 20 { dice.usize(..key.len()) } else { key.len() });
    key
}

fn contents(engine: &Engine, point: &ReadPoint) -> Model {
    engine.scan_at(point, ..).unwrap().map(Result::unwrap).collect()
}

fn run_model(background: Background, seed: u64, steps: usize) {
    let mut dice = fastrand::Rng::with_seed(seed);
    let disk = MemDisk::shared();
    let options = small(background);
    let mut engine = open(&disk, &options);
    let mut model = Model::new();
    let mut points: Vec<(ReadPoint, Model)> = Vec::new();
    for step in 0..steps {
        match dice.u32(..1000) {
            0..700 => {
                let mut batch = EntryBatch::new();
                for _ in 0..dice.usize(1..6) {
                    let key = key(&mut dice);
                    if dice.u8(..) < 80 {
                        batch.delete(&key).unwrap();
                        model.remove(&key);
                    } else {
                        let value = vec![step as u8; dice.usize(..80)];
                        batch.put(&key, &value).unwrap();
                        model.insert(key, value);
                    }
                }
                engine.write(&batch, Sync::Mode).unwrap();
            }
            700..900 => {
                let key = key(&mut dice);
                assert_eq!(engine.get(&key).unwrap().as_deref(), model.get(&key).map(|v| &v[..]));
            }
            900..950 => check_scan(&engine, &model, &mut dice),
            950..960 => engine.flush().unwrap(),
            960..964 => engine.compact().unwrap(),
            964..976 if points.len() < 4 => points.push((engine.read_point(), model.clone())),
            976..990 if !points.is_empty() => {
                let (point, then) = points.swap_remove(dice.usize(..points.len()));
                assert_eq!(contents(&engine, &point), then);
                let key = key(&mut dice);
                let got = engine.get_at(&point, &key).unwrap();
                assert_eq!(got.as_deref(), then.get(&key).map(|v| &v[..]));
            }
            990..994 => {
                engine.check().unwrap();
            }
            994..1000 => {
                points.clear();
                if dice.bool() {
                    engine.close().unwrap();
                    assert_eq!(engine.put(b"k", b"v"), Err(Error::Closed));
                }
                drop(engine);
                engine = open(&disk, &options);
            }
            _ => {}
        }
    }
    assert_eq!(contents(&engine, &engine.read_point()), model);
    engine.check().unwrap();
    let deep: usize = engine.stats().levels[1..].iter().map(|level| level.files).sum();
    assert!(deep > 0, "the run reached the deeper levels");
}

fn check_scan(engine: &Engine, model: &Model, dice: &mut fastrand::Rng) {
    let (a, b) = (key(dice), key(dice));
    let bound = |key: Vec<u8>, dice: &mut fastrand::Rng| match dice.u8(..3) {
        0 => Bound::Unbounded,
        1 => Bound::Included(key),
        _ => Bound::Excluded(key),
    };
    let (start, end) = (bound(a.clone(), dice), bound(b, dice));
    let slice = |bound: &Bound<Vec<u8>>| -> Bound<Vec<u8>> { bound.clone() };
    let in_range = |key: &Vec<u8>| {
        (match &start {
            Bound::Unbounded => true,
            Bound::Included(start) => key >= start,
            Bound::Excluded(start) => key > start,
        }) && (match &end {
            Bound::Unbounded => true,
            Bound::Included(end) => key <= end,
            Bound::Excluded(end) => key < end,
        })
    };
    let want: Vec<_> = model.iter().filter(|(key, _)| in_range(key)).collect();
    let (start_key, end_key) = (slice(&start), slice(&end));
    let range = (start_key.as_ref().map(|k| &k[..]), end_key.as_ref().map(|k| &k[..]));
    let got: Vec<_> = engine.scan(range).unwrap().map(Result::unwrap).collect();
    assert!(got.iter().map(|(k, v)| (k, v)).eq(want));
    let want = model.iter().filter(|(key, _)| key.starts_with(&a));
    let got: Vec<_> = engine.prefix(&a).unwrap().map(Result::unwrap).collect();
    assert!(got.iter().map(|(k, v)| (k, v)).eq(want));
}

#[test]
fn it_agrees_with_a_btree_map_inline() {
    (0..6).for_each(|seed| run_model(Background::Inline, seed, 4000));
}

#[test]
fn it_agrees_with_a_btree_map_with_threads() {
    (10..14).for_each(|seed| run_model(Background::Threads(2), seed, 4000));
}

#[test]
fn two_engines_cannot_open_one_store() {
    let disk = MemDisk::shared();
    let options = small(Background::Inline);
    let engine = open(&disk, &options);
    let second = Engine::open(disk.clone(), "store", options.clone());
    assert_eq!(second.err(), Some(Error::Locked("store".into())));
    drop(engine);
    open(&disk, &options);
}

#[test]
fn threads_read_their_writes_and_lose_none() {
    let disk = MemDisk::shared();
    let options = small(Background::Threads(2));
    let engine = open(&disk, &options);
    std::thread::scope(|scope| {
        for writer in 0..4u32 {
            let engine = &engine;
            scope.spawn(move || {
                for n in 0..1500u32 {
                    let key = [writer.to_be_bytes(), (n % 300).to_be_bytes()].concat();
                    engine.put(&key, &n.to_be_bytes()).unwrap();
                    let got = engine.get(&key).unwrap().expect("a key that was put is there");
                    assert_eq!(*got, n.to_be_bytes());
                }
            });
        }
        let engine = &engine;
        scope.spawn(move || {
            for _ in 0..60 {
                let all: Vec<_> = engine.scan(..).unwrap().map(Result::unwrap).collect();
                assert!(all.is_sorted_by(|a, b| a.0 < b.0));
            }
        });
    });
    drop(engine);
    let engine = open(&disk, &options);
    assert_eq!(engine.scan(..).unwrap().count(), 1200);
    for (_, value) in engine.scan(..).unwrap().map(Result::unwrap) {
        assert!(u32::from_be_bytes(value.try_into().unwrap()) >= 1200, "the newest value");
    }
    engine.check().unwrap();
}

#[test]
fn a_checkpoint_is_a_store_of_that_moment() {
    let disk = MemDisk::shared();
    let options = small(Background::Inline);
    let engine = open(&disk, &options);
    for n in 0..500u32 {
        engine.put(&n.to_be_bytes(), b"before").unwrap();
    }
    engine.checkpoint(Path::new("copy")).unwrap();
    assert!(matches!(engine.checkpoint(Path::new("copy")), Err(Error::Invalid(_))));
    for n in 0..500u32 {
        engine.put(&n.to_be_bytes(), b"after").unwrap();
    }
    engine.compact().unwrap();
    let copy = Engine::open(disk.clone(), "copy", options.clone()).unwrap();
    copy.check().unwrap();
    assert_eq!(copy.scan(..).unwrap().count(), 500);
    assert!(copy.scan(..).unwrap().all(|entry| entry.unwrap().1 == b"before"));
    assert!(engine.scan(..).unwrap().all(|entry| entry.unwrap().1 == b"after"));
}

#[test]
fn an_outer_log_learns_what_is_flushed() {
    let disk = MemDisk::shared();
    let options = Options { durability: LogKeeping::External, ..small(Background::Inline) };
    let engine = open(&disk, &options);
    for position in 1..=2000u64 {
        let mut batch = EntryBatch::new();
        batch.put(&(position % 300).to_be_bytes(), &position.to_be_bytes()).unwrap();
        batch.set_position(position);
        engine.write(&batch, Sync::Mode).unwrap();
    }
    let flushed = engine.flushed_position();
    assert!(flushed > 0 && flushed < 2000);
    assert!(disk.list(Path::new("store")).unwrap().iter().all(|name| !name.ends_with(".wal")));
    drop(engine);
    let engine = open(&disk, &options);
    assert_eq!(engine.flushed_position(), flushed);
    let newest =
        engine.scan(..).unwrap().map(|e| u64::from_be_bytes(e.unwrap().1.try_into().unwrap()));
    assert_eq!(newest.max(), Some(flushed), "exactly the flushed prefix is there");
    engine.flush_to(3000).unwrap();
    engine.flush_to(2500).unwrap();
    drop(engine);
    assert_eq!(open(&disk, &options).flushed_position(), 3000, "what wrote nothing counts too");
}

#[test]
fn unsynced_commits_survive_the_process_in_every_mode() {
    for mode in [SyncMode::OnDemand, SyncMode::EveryCommit] {
        let disk = MemDisk::shared();
        let options = Options { durability: LogKeeping::Wal(mode), ..small(Background::Inline) };
        let engine = open(&disk, &options);
        engine.put(b"a", b"1").unwrap();
        // No drop, no close: the process dies here.
        let after = Arc::new(disk.fork());
        let engine_after = open(&after, &options);
        assert_eq!(engine_after.get(b"a").unwrap().as_deref(), Some(&b"1"[..]));
        drop(engine);
    }
}

#[test]
fn numbers_about_a_store_say_what_was_done() {
    let disk = MemDisk::shared();
    let options = small(Background::Inline);
    let engine = open(&disk, &options);
    let mut batch = EntryBatch::new();
    batch.put(b"a", b"1").unwrap();
    batch.delete(b"c").unwrap();
    engine.write(&batch, Sync::Mode).unwrap();
    let stats = engine.stats();
    assert_eq!((stats.operations, stats.groups, stats.syncs, stats.seqno), (2, 1, 1, 2));
    let bytes = batch.encoded_bytes() as u64;
    assert_eq!((stats.user_bytes, stats.wal_bytes), (bytes, (40 + bytes).next_multiple_of(8)));
    assert_eq!((stats.wal_bytes_in_use, stats.frozen), (options.wal_segment_bytes, 0));
    assert!(stats.memtable_bytes > 0 && stats.levels.iter().all(|level| level.files == 0));
    engine.flush().unwrap();
    let stats = engine.stats();
    let first = stats.levels[0];
    assert_eq!((first.files, first.entries, first.deletes), (1, 2, 1));
    assert_eq!((stats.flushes, stats.flush_bytes, stats.wal_bytes_in_use), (1, first.bytes, 0));
    let read = CheckReport { files: 1, entries: 2, bytes: first.bytes };
    assert_eq!(engine.check().unwrap(), read);
    for _ in 0..3 {
        engine.get(b"a").unwrap().unwrap();
    }
    assert!(engine.get(b"b").unwrap().is_none() && engine.get(b"d").unwrap().is_none());
    let stats = engine.stats();
    assert_eq!((stats.cache_misses, stats.cache_hits), (1, 2));
    assert!(stats.cache_bytes > 0 && stats.index_bytes > 0);
    assert_eq!(stats.filter_ruled_out + stats.filter_in_vain, 1, "one of them lies in the file");
    engine.put(b"c", b"3").unwrap();
    engine.flush().unwrap();
    let before = engine.stats().levels[0];
    assert_eq!((before.files, before.entries, before.deletes), (2, 3, 1));
    engine.compact().unwrap();
    let stats = engine.stats();
    let last = stats.levels[6];
    assert_eq!((stats.levels[0].files, last.files, last.entries, last.deletes), (0, 1, 2, 0));
    assert_eq!((stats.flushes, stats.compactions, stats.moves), (2, 1, 0));
    assert_eq!(stats.compaction_read_bytes, before.bytes);
    assert_eq!(stats.compaction_write_bytes, last.bytes);
}

/// Long keys make long edits, so that few flushes are enough.
#[test]
fn a_manifest_that_grew_is_replaced_and_the_store_goes_on() {
    let disk = MemDisk::shared();
    let options = Options { memtable_bytes: 1 << 20, ..small(Background::Inline) };
    let engine = open(&disk, &options);
    let manifests = || {
        let names = disk.list(Path::new("store")).unwrap();
        names.into_iter().filter(|name| name.ends_with(".manifest")).collect::<Vec<_>>()
    };
    let first = manifests();
    let key = |n: u32| [&n.to_be_bytes()[..], &vec![7; (64 << 10) - 4]].concat();
    let mut count = 0;
    while manifests() == first {
        engine.put(&key(count), &count.to_be_bytes()).unwrap();
        engine.put(&key(count + 1), &count.to_be_bytes()).unwrap();
        engine.flush().unwrap();
        count += 2;
        assert!(count < 200, "4 MiB are 32 files, and what compactions say");
    }
    assert_eq!(manifests().len(), 1, "the old one is gone");
    let bytes = |name: &String| disk.files()[&Path::new("store").join(name)].len();
    assert!(bytes(&manifests()[0]) < 4 << 20);
    assert!(count > 10, "{count}");
    drop(engine);
    let engine = open(&disk, &options);
    engine.check().unwrap();
    assert_eq!(engine.scan(..).unwrap().count(), count as usize);
    engine.put(b"later", b"value").unwrap();
    drop(engine);
    assert_eq!(open(&disk, &options).scan(..).unwrap().count(), count as usize + 1);
}

/// Who writes without a place, as one that tidies up does, may be the first after an open.
#[test]
fn a_write_that_says_no_place_of_the_outer_log_takes_back_none() {
    let disk = MemDisk::shared();
    let options = Options { durability: LogKeeping::External, ..small(Background::Inline) };
    let engine = open(&disk, &options);
    let mut batch = EntryBatch::new();
    batch.put(b"a", b"1").unwrap();
    batch.set_position(7);
    engine.write(&batch, Sync::Mode).unwrap();
    engine.close().unwrap();
    drop(engine);
    let engine = open(&disk, &options);
    engine.delete(b"b").unwrap();
    engine.flush().unwrap();
    assert_eq!(engine.flushed_position(), 7);
    drop(engine);
    assert_eq!(open(&disk, &options).flushed_position(), 7);
}
