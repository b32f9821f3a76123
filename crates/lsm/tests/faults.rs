//! A disk that fails: errors are clear, nothing acknowledged is lost, nothing is written after a failed sync.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kallisto_lsm::disk::cuts::left_at_the_end;
use kallisto_lsm::disk::{Disk, DiskFault, FaultKind, FaultyDisk, MemDisk, UnsyncedTail};
use kallisto_lsm::{Background, Engine, Error, Options};

mod common;

use common::small;

fn fault(kind: FaultKind, from: u64, until: u64) -> Option<DiskFault> {
    Some(DiskFault { kind, from, until })
}

fn open(disk: Arc<dyn Disk>, options: &Options) -> Result<Engine, Error> {
    Engine::open(disk, "store", options.clone())
}

#[test]
fn a_failed_sync_poisons_and_no_retry_is_believed() {
    let disk = FaultyDisk::shared();
    let options = small(Background::Inline);
    let engine = open(disk.clone(), &options).unwrap();
    engine.put(b"a", b"1").unwrap();
    disk.plan(fault(FaultKind::SyncFails, 0, u64::MAX));
    assert!(matches!(engine.put(b"b", b"2"), Err(Error::Poisoned(_))));
    disk.plan(None);
    assert!(matches!(engine.put(b"c", b"3"), Err(Error::Poisoned(_))), "for good");
    assert!(matches!(engine.flush(), Err(Error::Poisoned(_))));
    assert_eq!(engine.get(b"a").unwrap().as_deref(), Some(&b"1"[..]), "reads go on");
    assert!(engine.get(b"b").unwrap().is_none(), "what failed is not visible");
    let operations = disk.operations();
    assert!(engine.sync().is_err() && engine.put(b"d", b"4").is_err());
    assert_eq!(disk.operations(), operations, "nothing touches the disk any more");
}

/// Puts numbered entries until a put fails; what it said.
fn put_until_refused(engine: &Engine, written: &mut u32) -> Error {
    loop {
        match engine.put(&written.to_be_bytes(), &[7; 200]) {
            Ok(()) => *written += 1,
            Err(error) => return error,
        }
        assert!(*written < 100_000, "a full disk is noticed");
    }
}

/// Space came back: a call works again after a few that hear of failures from before.
fn heals(mut call: impl FnMut() -> Result<(), Error>) {
    let healed = (0..10_000).any(|_| {
        // The thread that flushes needs a processor for it, which may be busy.
        call().is_ok() || {
            std::thread::sleep(Duration::from_millis(1));
            false
        }
    });
    assert!(healed, "space came back and so does writing");
}

#[test]
fn a_full_disk_makes_it_read_only_until_there_is_space() {
    for background in [Background::Inline, Background::Threads(1)] {
        let disk = FaultyDisk::shared();
        let options = small(background);
        let engine = open(disk.clone(), &options).unwrap();
        let mut written = 0;
        // Full at any moment: while the log, an SST or the manifest grows.
        for round in 0..40 {
            disk.plan(fault(FaultKind::NoSpace, disk.operations() + round, u64::MAX));
            let error = put_until_refused(&engine, &mut written);
            assert!(matches!(error, Error::Full(_)), "{error}");
            let refused = written.to_be_bytes();
            assert!(engine.get(&refused).unwrap().is_none(), "nothing of it was applied");
            assert!((0..written).all(|n| engine.get(&n.to_be_bytes()).unwrap().is_some()));
            disk.plan(None);
            heals(|| engine.put(b"after", b"2"));
        }
        heals(|| engine.flush());
        drop(engine);
        let engine = open(disk, &options).unwrap();
        assert!((0..written).all(|n| engine.get(&n.to_be_bytes()).unwrap().is_some()));
        engine.check().unwrap();
    }
}

/// What was put before a disk filled up, and what of it is there.
fn holds(engine: &Engine, written: u32) -> bool {
    (0..written).all(|n| engine.get(&n.to_be_bytes()).unwrap().is_some())
}

#[test]
fn a_store_opens_on_a_full_disk_for_reads_and_goes_on_when_there_is_space() {
    for background in [Background::Inline, Background::Threads(1)] {
        let disk = FaultyDisk::shared();
        let options = small(background);
        let mut engine = open(disk.clone(), &options).unwrap();
        let mut written = 0;
        for round in 0..30 {
            disk.plan(fault(FaultKind::NoSpace, disk.operations() + round, u64::MAX));
            put_until_refused(&engine, &mut written);
            // Again and again, so that it opens what an open on a full disk left too.
            for _ in 0..3 {
                drop(engine);
                engine = open(disk.clone(), &options).unwrap();
                assert!(holds(&engine, written));
                let refused = put_until_refused(&engine, &mut written);
                assert!(matches!(refused, Error::Full(_)), "{refused}");
            }
            disk.plan(None);
            heals(|| engine.put(b"after", b"2"));
        }
        heals(|| engine.flush());
        engine.check().unwrap();
        drop(engine);
        assert!(holds(&open(disk, &options).unwrap(), written));
    }
}

/// A disk that fills up at the `after`-th operation of an open, and a cut of the power at any moment from then on.
fn open_full_and_cut(after: u64) -> bool {
    let disk = FaultyDisk::shared();
    let options = small(Background::Inline);
    let engine = open(disk.clone(), &options).unwrap();
    for n in 0..60u32 {
        engine.put(&n.to_be_bytes(), &[7; 200]).unwrap();
    }
    drop(engine);
    let (from, begun) = (disk.operations() + after, disk.events_len());
    disk.plan(fault(FaultKind::NoSpace, from, u64::MAX));
    let engine = open(disk.clone(), &options).unwrap();
    let met = disk.operations() > from;
    let _ = (engine.put(b"more", &[1; 100]), engine.flush());
    disk.plan(None);
    let mut more = 60u32;
    for _ in 0..60 {
        more += u32::from(engine.put(&more.to_be_bytes(), &[8; 200]).is_ok());
    }
    let events = disk.events();
    for end in begun..=events.len() {
        for tail in [UnsyncedTail::Kept, UnsyncedTail::Lost, UnsyncedTail::Reordered] {
            let image: Arc<MemDisk> = Arc::new(left_at_the_end(&events[..end], tail, after));
            let engine = open(image, &options)
                .unwrap_or_else(|error| panic!("{error}: full at {after}, cut at {end}, {tail:?}"));
            engine.check().unwrap();
            let held = if end == events.len() { more } else { 60 };
            assert!(holds(&engine, held), "full at {after}, cut at {end}, {tail:?}");
        }
    }
    met
}

#[test]
fn a_cut_after_an_open_on_a_full_disk_loses_nothing() {
    let mut after = 0;
    while open_full_and_cut(after) {
        after += 1;
    }
    assert!(after > 5, "the disk was full at {after} operations of an open");
}

#[test]
fn a_network_file_system_is_refused_unless_allowed() {
    let disk = FaultyDisk::shared();
    disk.pretend_remote();
    let mut options = small(Background::Inline);
    assert!(matches!(open(disk.clone(), &options), Err(Error::Invalid(_))));
    assert!(disk.events().is_empty(), "nothing was touched");
    options.allows_network_disks = true;
    open(disk, &options).unwrap().put(b"a", b"1").unwrap();
}

#[test]
fn short_writes_are_completed() {
    let disk = FaultyDisk::shared();
    let options = small(Background::Inline);
    disk.plan(fault(FaultKind::ShortWrite, 0, u64::MAX));
    let engine = open(disk.clone(), &options).unwrap();
    for n in 0..500u32 {
        engine.put(&n.to_be_bytes(), &[1; 30]).unwrap();
    }
    engine.compact().unwrap();
    engine.check().unwrap();
    drop(engine);
    let engine = open(disk, &options).unwrap();
    assert_eq!(engine.scan(..).unwrap().count(), 500);
}

/// Runs a workload that meets `kind` at operation `from`, then reopens what is on the disk; returns false if the fault
/// was never met.
fn survive(kind: FaultKind, from: u64, until: u64) -> bool {
    let disk = FaultyDisk::shared();
    let options = small(Background::Inline);
    disk.plan(fault(kind, from, until));
    let mut acked: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
    let mut unsure: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
    if let Ok(engine) = open(disk.clone(), &options) {
        let mut dice = fastrand::Rng::with_seed(from);
        for n in 0..150u32 {
            let (key, value) = (vec![dice.u8(..50)], vec![n as u8; dice.usize(..150)]);
            match engine.put(&key, &value) {
                Ok(()) => drop(acked.insert(key, value)),
                Err(Error::Full(_)) => {}
                Err(_) => unsure.push((key, value)),
            }
            for (key, value) in &acked {
                // A crashed disk cannot be read; nothing it says may be wrong.
                if let Ok(got) = engine.get(key) {
                    assert_eq!(got.as_deref(), Some(&value[..]));
                }
            }
        }
    }
    let met = disk.operations() > from;
    let events = disk.events();
    for tail in [UnsyncedTail::Kept, UnsyncedTail::Lost, UnsyncedTail::Reordered] {
        let image: Arc<MemDisk> = Arc::new(left_at_the_end(&events, tail, from));
        let engine = open(image, &options)
            .unwrap_or_else(|error| panic!("{error}: {kind:?} at {from}, tail {tail:?}"));
        engine.check().unwrap();
        for (key, value) in &acked {
            let got = engine.get(key).unwrap().map(kallisto_lsm::ValueBytes::into_vec);
            let later = unsure.iter().any(|(k, v)| k == key && Some(v) == got.as_ref());
            assert!(got.as_ref() == Some(value) || later, "{kind:?} at {from}, tail {tail:?}");
        }
    }
    met
}

#[test]
fn a_fault_at_any_operation_loses_nothing_acknowledged() {
    let kinds = [FaultKind::Eio, FaultKind::NoSpace, FaultKind::SyncFails, FaultKind::Crash];
    for kind in kinds {
        let mut from = 0;
        while survive(kind, from, u64::MAX) {
            from += 1;
        }
        assert!(from > 100, "{kind:?} was met {from} times");
        for once in (0..from).step_by(3) {
            survive(kind, once, once + 1);
        }
    }
}
