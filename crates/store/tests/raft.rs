//! The Raft store by its promises: order, folds, restarts, durability modes, failures.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kallisto_lsm::disk::{
    Disk, DiskFault, DiskFile, DiskLock, FaultKind, FaultyDisk, MemDisk, OpenFor,
};
use kallisto_store::{
    Batch, Durability, Error, MemoryStore, OnFatal, Position, Records, Seqno, Store,
};

mod common;

use common::{ManualClock, Mirror, inline, open, put, random_batch, state_of, threaded};

const STRICT: Durability = Durability::Strict;

fn fault(kind: FaultKind, from: u64) -> Option<DiskFault> {
    Some(DiskFault { kind, from, until: u64::MAX })
}

#[test]
fn what_is_committed_is_read_and_survives() {
    for options in [inline(STRICT), threaded(STRICT), threaded(Durability::BATCH)] {
        let disk = MemDisk::shared();
        let store = open(disk.clone(), &options).unwrap();
        let position = store.commit(put("a", "1")).wait().unwrap();
        assert_eq!(store.position(), position);
        let record = store.get(b"a").unwrap().unwrap();
        assert_eq!((&record.value[..], record.seqno), (&b"1"[..], Seqno(position.0)));
        let later = store.commit(put("b", "2")).wait().unwrap();
        assert!(later > position);
        drop(store);
        let store = open(disk.clone(), &options).unwrap();
        assert_eq!(store.get(b"b").unwrap().unwrap().seqno, Seqno(later.0));
        store.close().unwrap();
        assert!(matches!(store.commit(put("c", "3")).wait(), Err(Error::Unavailable(_))));
        store.close().unwrap();
        drop(store);
        let store = open(disk, &options).unwrap();
        assert_eq!(state_of(&*store).len(), 2);
    }
}

/// The same batches to both: the same outcomes, the same records, the same folds.
#[test]
fn it_is_a_memory_store_that_lasts() {
    for (seed, options) in [(1, inline(STRICT)), (2, threaded(Durability::BATCH))] {
        let disk = MemDisk::shared();
        let mut dice = fastrand::Rng::with_seed(seed);
        let model = MemoryStore::new();
        let (theirs, ours) = (Arc::new(Mirror::default()), Arc::new(Mirror::default()));
        model.attach(theirs.clone()).unwrap();
        let mut store = open(disk.clone(), &options).unwrap();
        store.attach(ours.clone()).unwrap();
        let mut conflicts = 0;
        // The model's positions have no gaps: this one's, by the model's.
        let mut positions = vec![Position(0)];
        for n in 0..2000 {
            let batch = random_batch(&mut dice, &theirs.state(), n);
            let mut translated = Batch::new();
            for expectation in batch.expectations() {
                let there = usize::try_from(expectation.seqno.0).unwrap();
                let here = positions.get(there).map_or(u64::MAX, |position| position.0);
                translated.expect(expectation.key.clone(), Seqno(here));
            }
            for op in batch.ops() {
                match op.clone() {
                    kallisto_store::StoreOp::Put { key, value } => translated.put(key, value),
                    kallisto_store::StoreOp::Delete { key, note } => {
                        translated.delete_noted(key, note)
                    }
                };
            }
            let expected = model.commit(batch).wait();
            let outcome = store.commit(translated).wait();
            match (expected, outcome) {
                (Ok(_), Ok(position)) => positions.push(position),
                (expected, outcome) => {
                    assert_eq!((expected, outcome), (Err(Error::Conflict), Err(Error::Conflict)));
                    conflicts += 1;
                }
            }
            if n % 400 == 399 {
                store.close().unwrap();
                drop(store);
                store = open(disk.clone(), &options).unwrap();
                assert_eq!(ours.state(), state_of(&*store));
                store.attach(ours.clone()).unwrap();
            }
        }
        assert!(conflicts > 100, "{conflicts} conflicts");
        let values = |state: common::StoredState| -> Vec<_> {
            let translate = |seqno: Seqno| positions[usize::try_from(seqno.0).unwrap()];
            state.into_iter().map(|(key, (value, seqno))| (key, value, translate(seqno))).collect()
        };
        let here = state_of(&*store)
            .into_iter()
            .map(|(key, (value, seqno))| (key, value, Position(seqno.0)));
        assert_eq!(values(theirs.state()), here.collect::<Vec<_>>());
        assert_eq!(ours.state(), state_of(&*store));
    }
}

#[test]
fn a_fold_is_told_the_note_of_a_delete() {
    let store = open(MemDisk::shared(), &inline(STRICT)).unwrap();
    let mirror = Arc::new(Mirror::default());
    store.commit(put("a", "1")).wait().unwrap();
    store.attach(mirror.clone()).unwrap();
    let mut batch = Batch::new();
    batch.delete_noted(b"a".to_vec(), b"the path of a".to_vec()).delete(b"b".to_vec());
    store.commit(batch).wait().unwrap();
    assert_eq!(mirror.notes(), [b"the path of a".to_vec(), Vec::new()]);
    store.detach();
    store.commit(put("c", "2")).wait().unwrap();
    assert_eq!(mirror.folded(), 1);
}

#[test]
fn a_fold_attached_while_others_write_misses_nothing() {
    let store = open(MemDisk::shared(), &threaded(STRICT)).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for writer in 0..4 {
            let (store, stop) = (&store, &stop);
            scope.spawn(move || {
                let mut n = 0_u64;
                while !stop.load(Ordering::Relaxed) {
                    let batch = put(&format!("{writer}-{}", n % 50), &n.to_string());
                    store.commit(batch).wait().unwrap();
                    n += 1;
                }
            });
        }
        for _ in 0..200 {
            let mirror = Arc::new(Mirror::default());
            let position = store.attach(mirror.clone()).unwrap();
            let seen = store.commit(put("mark", "x")).wait().unwrap();
            assert!(mirror.position() >= seen && seen > position, "folded before it resolved");
            store.detach();
            let at = mirror.position();
            assert!(mirror.folded() <= at.0 - position.0, "none twice");
            // What came after the detach is not in the mirror; what came before must be.
            let newer = |seqno: Seqno| seqno.0 > at.0;
            for (key, (value, seqno)) in state_of(&*store) {
                let same = mirror.state().get(&key) == Some(&(value, seqno));
                assert!(same || newer(seqno), "a batch was missed");
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn a_restart_replays_exactly_once_and_the_first_entry_survives_every_restart() {
    let disk = MemDisk::shared();
    let options = inline(STRICT);
    let mut expected = common::StoredState::new();
    for round in 0..40_u64 {
        let store = open(disk.clone(), &options).unwrap();
        assert_eq!(state_of(&*store), expected, "round {round}");
        let mirror = Arc::new(Mirror::default());
        store.attach(mirror.clone()).unwrap();
        if round == 0 {
            store.commit(put("first", "entry")).wait().unwrap();
        }
        for n in 0..round % 7 {
            let mut counted = put(&format!("k{}", n % 3), &format!("{round}-{n}"));
            // Applied twice, this would be a conflict or a second count.
            let count = store.get(b"count").unwrap();
            let seqno = count.as_ref().map_or(Seqno::ABSENT, |record| record.seqno);
            let next = count.map_or(0, |record| record.value[0]) + 1;
            counted.expect(b"count".to_vec(), seqno).put(b"count".to_vec(), vec![next]);
            store.commit(counted).wait().unwrap();
        }
        assert_eq!(mirror.state(), state_of(&*store));
        expected = mirror.state();
        if round % 3 == 0 {
            store.close().unwrap();
        } else if round % 3 == 1 {
            // The process dies.
            std::mem::forget(store);
            disk.break_locks();
        }
    }
    assert!(expected.contains_key(&b"first"[..]));
}

/// A change of the members lies in the log, committed and not yet in the engine's files: the library lets nobody stand for
/// election before it is applied, and the last entries wait for a leader to be known as committed.
#[test]
fn a_server_that_moves_and_dies_opens_with_everything() {
    for mut options in [inline(STRICT), threaded(STRICT), threaded(Durability::BATCH)] {
        let mut disk = MemDisk::shared();
        let mut expected = common::StoredState::new();
        for round in 0..12_u64 {
            options.peer.cluster_address = format!("127.0.0.1:{}", 8200 + round);
            let store = open(disk.clone(), &options).unwrap();
            assert_eq!(state_of(&*store), expected, "round {round}");
            for n in 0..=round % 3 {
                store.commit(put(&format!("k{n}"), &format!("{round}-{n}"))).wait().unwrap();
            }
            expected = state_of(&*store);
            if round == 0 {
                // So the directory that the engine's files hold has the first address.
                store.close().unwrap();
                continue;
            }
            // The process dies: what its threads still do, they do to a disk that nobody reads again.
            disk = Arc::new(disk.fork());
            drop(store);
        }
    }
}

#[test]
fn an_open_store_is_locked() {
    let disk = MemDisk::shared();
    let store = open(disk.clone(), &inline(STRICT)).unwrap();
    assert_eq!(open(disk.clone(), &inline(STRICT)).err(), Some(Error::Locked("store".into())));
    drop(store);
    let mut other = inline(STRICT);
    other.node_id = 2;
    let store = open(disk, &other).unwrap();
    assert_eq!(store.stats().raft.unwrap().node_id, 1, "a directory remembers whose it is");
}

#[test]
fn a_failed_sync_poisons_for_good_and_tells_the_server() {
    for options in [inline(STRICT), threaded(STRICT)] {
        let disk = FaultyDisk::shared();
        let told = Arc::new(Mutex::new(Vec::new()));
        let hear = Arc::clone(&told);
        let mut options = options;
        options.on_fatal = OnFatal::new(move |error| hear.lock().unwrap().push(error.clone()));
        let store = open(disk.clone(), &options).unwrap();
        store.commit(put("a", "1")).wait().unwrap();
        disk.plan(fault(FaultKind::SyncFails, 0));
        assert!(matches!(store.commit(put("b", "2")).wait(), Err(Error::Unknown(_))));
        disk.plan(None);
        while told.lock().unwrap().is_empty() {
            std::thread::yield_now();
        }
        assert!(matches!(store.commit(put("c", "3")).wait(), Err(Error::Poisoned(_))));
        assert!(matches!(store.save().wait(), Err(Error::Poisoned(_))));
        assert_eq!(told.lock().unwrap().len(), 1);
        assert!(store.get(b"a").unwrap().is_some(), "reads go on");
        assert_eq!(store.get(b"b").unwrap(), None, "what was not acknowledged is not visible");
        assert!(matches!(store.close(), Err(Error::Poisoned(_))));
        drop(store);
        let store = open(disk, &inline(STRICT)).unwrap();
        assert!(store.get(b"a").unwrap().is_some());
    }
}

#[test]
fn batch_mode_syncs_by_count_by_time_and_on_save() {
    let disk = FaultyDisk::shared();
    let clock = Arc::new(ManualClock::default());
    let mode = Durability::Batch { ops: 10, interval: Duration::from_millis(100) };
    let mut options = inline(mode);
    options.clock = clock.clone();
    options.log_segment_bytes = 1 << 20;
    options.engine.memtable_bytes = 1 << 20;
    let store = open(disk, &options).unwrap();
    let raft = || store.stats().raft.unwrap();
    let base = raft().log_syncs;
    for n in 0..9 {
        store.commit(put("k", &n.to_string())).wait().unwrap();
        assert_eq!((raft().log_syncs, raft().unsynced), (base, n + 1));
    }
    store.commit(put("k", "9")).wait().unwrap();
    assert_eq!((raft().log_syncs, raft().unsynced), (base + 1, 0), "by count");
    store.commit(put("k", "10")).wait().unwrap();
    clock.advance(Duration::from_millis(99));
    store.commit(put("k", "11")).wait().unwrap();
    assert_eq!(raft().unsynced, 2);
    clock.advance(Duration::from_millis(1));
    store.commit(put("k", "12")).wait().unwrap();
    assert_eq!((raft().log_syncs, raft().unsynced), (base + 2, 0), "by time");
    store.commit(put("k", "13")).wait().unwrap();
    store.save().wait().unwrap();
    assert_eq!(raft().unsynced, 0, "on save");
    store.commit(put("k", "14")).wait().unwrap();
    store.set_durability(STRICT).wait().unwrap();
    assert_eq!((raft().unsynced, store.durability()), (0, STRICT), "before strict holds");
    let before = raft().log_syncs;
    store.commit(put("k", "15")).wait().unwrap();
    assert_eq!(raft().log_syncs, before + 1);
    store.set_durability(mode).wait().unwrap();
    store.commit(put("k", "16")).wait().unwrap();
    assert_eq!((raft().unsynced, store.durability()), (1, mode));
}

#[test]
fn batch_mode_syncs_when_nobody_writes_any_more() {
    let mode = Durability::Batch { ops: 1000, interval: Duration::from_millis(5) };
    let store = open(MemDisk::shared(), &threaded(mode)).unwrap();
    store.commit(put("k", "1")).wait().unwrap();
    let synced = (0..2000).any(|_| {
        std::thread::park_timeout(Duration::from_millis(5));
        store.stats().raft.unwrap().unsynced == 0
    });
    assert!(synced);
}

#[test]
fn writers_share_syncs() {
    let store = open(MemDisk::shared(), &threaded(STRICT)).unwrap();
    let before = store.stats().raft.unwrap();
    let committed = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for writer in 0..16 {
            let (store, committed) = (&store, &committed);
            scope.spawn(move || {
                for n in 0..200 {
                    let commits: Vec<_> = (0..4)
                        .map(|m| store.commit(put(&format!("{writer}-{m}"), &n.to_string())))
                        .collect();
                    for commit in commits {
                        commit.wait().unwrap();
                        committed.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    let after = store.stats().raft.unwrap();
    assert_eq!(committed.into_inner(), 12_800);
    assert_eq!(after.log_entries - before.log_entries, 12_800);
    assert!(after.log_syncs - before.log_syncs < 6_400, "{} syncs", after.log_syncs);
    assert_eq!(store.approximate_len() > 0, !state_of(&*store).is_empty());
}

#[test]
fn purged_segments_come_back_and_the_log_stays_short() {
    for options in [inline(STRICT), threaded(STRICT)] {
        let disk = MemDisk::shared();
        let store = open(disk.clone(), &options).unwrap();
        for n in 0..3000 {
            store.commit(put(&format!("k{}", n % 100), &"v".repeat(40))).wait().unwrap();
        }
        let raft = store.stats().raft.unwrap();
        assert!(raft.flushed_index > 2000, "{raft:?}");
        assert!(raft.log_bytes < 100 << 10, "{} bytes of log", raft.log_bytes);
        drop(store);
        let store = open(disk, &options).unwrap();
        assert_eq!(state_of(&*store).len(), 100);
    }
}

#[test]
fn a_damaged_log_is_loud_and_a_torn_tail_is_not() {
    let disk = MemDisk::shared();
    let options = inline(STRICT);
    let store = open(disk.clone(), &options).unwrap();
    for n in 0..20 {
        store.commit(put(&format!("k{n}"), "value")).wait().unwrap();
    }
    std::mem::forget(store);
    let logs = |disk: &MemDisk| -> Vec<_> {
        disk.files().into_iter().filter(|(path, _)| path.starts_with("store/raft_log")).collect()
    };
    let find = |disk: &MemDisk, what: &[u8]| {
        logs(disk).into_iter().find_map(|(path, bytes)| {
            let at = bytes.windows(what.len()).position(|window| window == what)?;
            Some((path, at as u64))
        })
    };
    let flip = |disk: &MemDisk, what: &[u8]| {
        let (path, at) = find(disk, what).unwrap();
        disk.open(&path, OpenFor::ReadWrite).unwrap().write_at(b"?", at).unwrap();
    };
    let torn = Arc::new(disk.fork());
    flip(&torn, b"k19");
    let store = open(torn, &options).unwrap();
    assert_eq!(state_of(&*store).len(), 19);
    let damaged = Arc::new(disk.fork());
    flip(&damaged, b"k7");
    assert!(matches!(open(damaged, &options), Err(Error::Damaged(_))));
    let gone = Arc::new(disk.fork());
    for (path, _) in logs(&gone) {
        gone.remove(&path).unwrap();
    }
    let lost = open(gone, &options);
    assert!(matches!(lost, Err(Error::Damaged(_))), "an engine without its log");
}

/// A disk whose log can be read once, and then no more.
#[derive(Debug)]
struct Forgetful {
    inner: Arc<MemDisk>,
    /// What was opened for reading; `None` for as often as anyone likes.
    seen: Option<Mutex<std::collections::BTreeSet<std::path::PathBuf>>>,
}

impl Disk for Forgetful {
    fn open(&self, path: &Path, access: OpenFor) -> io::Result<Arc<dyn DiskFile>> {
        if let Some(seen) = &self.seen
            && access == OpenFor::Read
            && path.starts_with("store/raft_log")
            && !seen.lock().expect("no test panicked here").insert(path.to_owned())
        {
            return Err(io::Error::from_raw_os_error(5));
        }
        self.inner.open(path, access)
    }

    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        self.inner.create_dir(dir)
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        self.inner.create(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.inner.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.inner.remove(path)
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.inner.link(from, to)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.inner.list(dir)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.inner.sync_dir(dir)
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn DiskLock>> {
        self.inner.lock(path)
    }
}

/// More than the log keeps in memory is replayed from its segments; when they cannot be read, the store says so and ends.
#[test]
fn a_long_log_is_replayed_from_the_disk_or_ends_the_store() {
    let disk = MemDisk::shared();
    let mut options = threaded(STRICT);
    options.engine.memtable_bytes = 128 << 20;
    options.log_segment_bytes = 4 << 20;
    let store = open(disk.clone(), &options).unwrap();
    for n in 0..24_u8 {
        let mut batch = Batch::new();
        batch.put(vec![n], vec![n; 1 << 20]);
        store.commit(batch).wait().unwrap();
    }
    // At once: a store at rest writes to files what is to be replayed here.
    let died = disk.fork();
    drop(store);
    let disk = |seen| Arc::new(Forgetful { inner: Arc::new(died.fork()), seen });
    let store = open(disk(None), &options).unwrap();
    assert_eq!(state_of(&*store).len(), 24);
    let told = Arc::new(AtomicU64::new(0));
    let hear = Arc::clone(&told);
    options.on_fatal = OnFatal::new(move |_| hear.store(1, Ordering::Relaxed));
    let error = open(disk(Some(Mutex::default())), &options).err();
    assert!(matches!(&error, Some(Error::Io(what)) if what.contains("raft_log")), "{error:?}");
    assert_eq!(told.load(Ordering::Relaxed), 1);
}
