//! A log that comes back shorter than it was synced: said loudly, refused, and opened only by somebody's decision. What a
//! crash may leave is never taken for it: `crash.rs` opens thousands of those, with marks in them.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use kallisto_lsm::disk::{Disk, DiskEvent, FaultyDisk, MemDisk, OpenFor};
use kallisto_store::{Durability, Error, Losses, RaftOptions, RaftStore, Store};

mod common;

use common::{ManualClock, inline, open, put, state_of};

const STRICT: Durability = Durability::Strict;
/// Longer than a mark may be behind.
const PAUSE: Duration = Duration::from_secs(1);

/// A store whose process died some time after it wrote `batches` batches, and the segments of its log, oldest first.
fn dead(
    options: &RaftOptions,
    clock: &ManualClock,
    batches: usize,
) -> (Arc<MemDisk>, Vec<PathBuf>) {
    let disk = MemDisk::shared();
    let store = open(disk.clone(), options).unwrap();
    for n in 0..batches {
        store.commit(put(&format!("key-{n}"), "value")).wait().unwrap();
    }
    clock.advance(PAUSE);
    store.turn();
    std::mem::forget(store);
    disk.break_locks();
    let segments = segments(&disk);
    (disk, segments)
}

/// Segments that hold frames, oldest first.
fn segments(disk: &MemDisk) -> Vec<PathBuf> {
    let files = disk.files();
    // A segment that is to be used again holds frames with its earlier number.
    let named = |path: &Path, bytes: &[u8]| {
        let number = path.file_stem().and_then(|stem| u64::from_str_radix(stem.to_str()?, 16).ok());
        number.is_some_and(|number| bytes.get(8..16) == Some(&number.to_le_bytes()[..]))
    };
    let used = files
        .iter()
        .filter(|(path, bytes)| path.starts_with("store/raft_log") && named(path, bytes));
    used.map(|(path, _)| path.clone()).collect()
}

fn with_clock() -> (Arc<ManualClock>, RaftOptions) {
    let clock = Arc::new(ManualClock::default());
    (Arc::clone(&clock), RaftOptions { clock, ..inline(STRICT) })
}

fn lost(opened: Result<Arc<RaftStore>, Error>) -> String {
    match opened {
        Err(Error::Lost(what)) => what,
        Err(other) => panic!("another error: {other}"),
        Ok(_) => panic!("it opened"),
    }
}

#[test]
fn a_lost_last_segment_is_named_and_refused_until_it_is_accepted() {
    let (clock, options) = with_clock();
    let (disk, segments) = dead(&options, &clock, 60);
    disk.remove(segments.last().unwrap()).unwrap();
    let what = lost(open(disk.clone(), &options));
    let name = segments.last().unwrap().file_stem().unwrap().to_str().unwrap();
    assert!(what.contains("entries") && what.contains(name), "{what}");
    disk.break_locks();
    assert!(lost(open(disk.clone(), &options)).contains("synced up to"), "every start says so");
    disk.break_locks();
    let accepting = RaftOptions { losses: Losses::Accepted, ..options.clone() };
    let store = open(disk.clone(), &accepting).unwrap();
    assert!(store.lost().unwrap().contains(name));
    let kept = state_of(&*store).len();
    assert!(0 < kept && kept < 60, "{kept} are left");
    store.commit(put("later", "value")).wait().unwrap();
    drop(store);
    // It was decided: nobody is asked again.
    let store = open(disk, &options).unwrap();
    assert_eq!((store.lost(), state_of(&*store).len()), (None, kept + 1));
}

#[test]
fn a_cut_tail_is_noticed_wherever_it_is_cut() {
    let (clock, options) = with_clock();
    let (disk, segments) = dead(&options, &clock, 30);
    let last = segments.last().unwrap();
    let bytes = disk.files()[last].clone();
    let end = bytes.iter().rposition(|byte| *byte != 0).unwrap() + 1;
    let mut refused = 0;
    for at in (0..end).step_by(7) {
        let disk = Arc::new(disk.fork());
        let file = disk.open(last, OpenFor::ReadWrite).unwrap();
        file.write_at(&vec![0; end - at], at as u64).unwrap();
        lost(open(disk, &options));
        refused += 1;
    }
    assert!(refused > 20, "{refused}");
    assert!(open(disk, &options).is_ok(), "what nobody cut is whole");
}

#[test]
fn after_a_stop_even_the_last_write_is_known() {
    let (_, options) = with_clock();
    let disk = MemDisk::shared();
    let store = open(disk.clone(), &options).unwrap();
    for n in 0..5 {
        store.commit(put(&format!("key-{n}"), "value")).wait().unwrap();
    }
    drop(store);
    let last = segments(&disk).pop().unwrap();
    let end = disk.files()[&last].iter().rposition(|byte| *byte != 0).unwrap();
    disk.open(&last, OpenFor::ReadWrite).unwrap().write_at(&[0; 20], end as u64 - 20).unwrap();
    lost(open(disk, &options));
}

/// The engine's files are never ahead of the log: where they are, no mark is needed to see it. Without an engine's word for
/// what it lacks a log cannot go on, so it begins anew behind the engine.
#[test]
fn an_engine_ahead_of_its_log_says_so_without_a_mark() {
    let (_, options) = with_clock();
    let disk = MemDisk::shared();
    let store = open(disk.clone(), &options).unwrap();
    store.commit(put("first", "value")).wait().unwrap();
    std::mem::forget(store);
    let early = segments(&disk);
    let early: Vec<_> =
        early.into_iter().map(|path| (path.clone(), disk.files()[&path].clone())).collect();
    disk.break_locks();
    let store = open(disk.clone(), &options).unwrap();
    store.commit(put("second", "value")).wait().unwrap();
    store.close().unwrap();
    drop(store);
    segments(&disk).iter().for_each(|path| disk.remove(path).unwrap());
    for (path, bytes) in early {
        disk.create(&path).unwrap().write_at(&bytes, 0).unwrap();
    }
    disk.remove(Path::new("store/SYNCED")).unwrap();
    assert!(lost(open(disk.clone(), &options)).contains("the engine has all up to"));
    disk.break_locks();
    let accepting = RaftOptions { losses: Losses::Accepted, ..options.clone() };
    let store = open(disk.clone(), &accepting).unwrap();
    assert_eq!(state_of(&*store).len(), 2, "what is in the engine's files is not lost");
    store.commit(put("third", "value")).wait().unwrap();
    drop(store);
    assert_eq!(state_of(&*open(disk, &options).unwrap()).len(), 3);
}

/// A directory of an earlier release has no mark, and a mark may be damaged: neither is a loss.
#[test]
fn a_mark_that_cannot_be_read_says_nothing() {
    let (clock, options) = with_clock();
    let (disk, _) = dead(&options, &clock, 10);
    for damage in [None, Some(&b"damage"[..])] {
        let path = Path::new("store/SYNCED");
        disk.remove(path).unwrap();
        if let Some(bytes) = damage {
            disk.create(path).unwrap().write_at(bytes, 0).unwrap();
        }
        let store = open(disk.clone(), &options).unwrap();
        assert_eq!(state_of(&*store).len(), 10);
        clock.advance(PAUSE);
        store.commit(put("key-0", "again")).wait().unwrap();
        drop(store);
        assert_eq!(disk.files()[path].len(), 8192, "there is one again");
    }
}

#[test]
fn the_name_of_a_new_stores_directory_is_durable() {
    let disk = FaultyDisk::shared();
    drop(open(disk.clone(), &RaftOptions::default()).unwrap());
    let events = disk.events();
    let is_synced = |event: &DiskEvent| match event {
        DiskEvent::SyncDir { dir } => dir == Path::new("."),
        _ => false,
    };
    assert!(events.iter().any(is_synced), "in the directory of the process");
}
