//! The Raft store on a disk that is full: what is refused, what is taken from the reserve, and that everybody hears.

use std::sync::Arc;
use std::time::Duration;

use kallisto_lsm::disk::{DiskFault, FaultKind, FaultyDisk};
use kallisto_store::{Batch, Durability, Error, Records, Store};

mod common;

use common::{Mirror, inline, open, put, state_of, threaded};

const STRICT: Durability = Durability::Strict;

fn fault(kind: FaultKind, from: u64) -> Option<DiskFault> {
    Some(DiskFault { kind, from, until: u64::MAX })
}

#[test]
fn a_full_disk_refuses_writes_and_heals() {
    for options in [inline(STRICT), threaded(STRICT)] {
        let disk = FaultyDisk::shared();
        let store = open(disk.clone(), &options).unwrap();
        let mirror = Arc::new(Mirror::default());
        store.attach(mirror.clone()).unwrap();
        store.commit(put("a", "1")).wait().unwrap();
        disk.plan(fault(FaultKind::NoSpace, disk.operations() + 40));
        let mut unsure = 0;
        let mut n = 0;
        loop {
            match store.commit(put(&format!("k{n}"), &"x".repeat(200))).wait() {
                Ok(_) => {}
                Err(Error::Full(_)) => break,
                Err(Error::Unknown(_)) => unsure += 1,
                // A write into a segment that meets the wall is the other honest answer.
                Err(Error::Poisoned(_)) => break,
                Err(error) => panic!("{error}"),
            }
            n += 1;
            assert!(n < 100_000, "a full disk is noticed");
        }
        assert!(unsure <= n);
        assert!(store.get(b"a").unwrap().is_some(), "reads go on");
        disk.plan(None);
        let poisoned = matches!(store.save().wait(), Err(Error::Poisoned(_)));
        if !poisoned {
            let healed = (0..10_000).any(|_| {
                // The thread that flushes needs a processor for it, which may be busy.
                std::thread::sleep(Duration::from_millis(1));
                store.commit(put("after", "2")).wait().is_ok()
            });
            assert!(healed, "space came back and so do writes");
            assert_eq!(mirror.state(), state_of(&*store), "nothing was skipped");
        }
        drop(store);
        let store = open(disk, &options).unwrap();
        for m in 0..n - unsure {
            assert!(store.get(format!("k{m}").as_bytes()).unwrap().is_some() || unsure > 0);
        }
    }
}

/// Pours usual batches until a full disk refuses them; says how many it took.
fn pour_until_full(store: &dyn Store) -> usize {
    for n in 0..100_000 {
        match store.commit(put(&format!("filler-{}", n % 9), &"x".repeat(300))).wait() {
            Ok(_) => {}
            Err(Error::Full(_)) => return n,
            Err(error) => panic!("{error}"),
        }
    }
    panic!("a full disk is noticed");
}

#[test]
fn what_is_essential_is_taken_on_a_full_disk_until_the_reserve_is_used_up() {
    // Once the log is full first, once the engine.
    for (segment_bytes, memtable_bytes) in [(64 << 10, 1 << 20), (16 << 20, 64 << 10)] {
        for mut options in [inline(STRICT), threaded(STRICT)] {
            options.log_segment_bytes = segment_bytes;
            options.engine.memtable_bytes = memtable_bytes;
            let disk = FaultyDisk::shared();
            let store = open(disk.clone(), &options).unwrap();
            (0..30).for_each(|n| _ = store.commit(put(&format!("k{n}"), "1")).wait().unwrap());
            disk.plan(fault(FaultKind::NoSpace, 0));
            pour_until_full(&*store);
            for n in 0..10 {
                let mut batch = Batch::new();
                batch.delete(format!("k{n}").into_bytes()).set_essential();
                store.commit(batch).wait().unwrap();
                let usual = store.commit(put("usual", "1")).wait();
                assert!(matches!(usual, Ok(_) | Err(Error::Full(_))), "{usual:?}");
            }
            assert!(store.get(b"k9").unwrap().is_none());
            let mut exhausted = false;
            for n in 0..20_000 {
                let mut batch = Batch::new();
                batch.delete(format!("k{}-{}", n, "x".repeat(200)).into_bytes()).set_essential();
                match store.commit(batch).wait() {
                    Ok(_) => {}
                    // The one that finds memory used up is in the log already.
                    Err(Error::Full(_) | Error::Unknown(_)) => {
                        exhausted = true;
                        break;
                    }
                    Err(error) => panic!("{error}"),
                }
            }
            assert!(exhausted, "the reserve is bounded");
            let mut large = put("large", &"x".repeat(200 << 10));
            large.set_essential();
            assert!(matches!(store.commit(large).wait(), Err(Error::Full(_))));
            disk.plan(None);
            let healed = (0..10_000).any(|_| {
                // The thread that flushes needs a processor for it, which may be busy.
                std::thread::sleep(Duration::from_millis(1));
                store.commit(put("after", "2")).wait().is_ok()
            });
            assert!(healed, "space came back and so do writes");
            let state = state_of(&*store);
            drop(store);
            assert_eq!(state_of(&*open(disk, &options).unwrap()), state);
        }
    }
}

#[test]
fn nobody_waits_for_space_on_a_full_disk() {
    for mut options in [inline(STRICT), threaded(STRICT)] {
        // The log has room for everything below; it is the engine that has none.
        options.log_segment_bytes = 1 << 20;
        let disk = FaultyDisk::shared();
        let store = open(disk.clone(), &options).unwrap();
        store.commit(put("a", "1")).wait().unwrap();
        disk.plan(fault(FaultKind::NoSpace, 0));
        let (tell, told) = std::sync::mpsc::channel();
        let other = Arc::clone(&store);
        let writer = std::thread::spawn(move || {
            for n in 0.. {
                let key = |m| format!("k{n}-{m}");
                let together: Vec<_> =
                    (0..64).map(|m| other.commit(put(&key(m), &"x".repeat(99)))).collect();
                // Together with the writes, and behind them.
                let saved = other.save().wait();
                let outcomes: Vec<_> =
                    together.into_iter().map(kallisto_store::Commit::wait).collect();
                if matches!(outcomes.last(), Some(Err(Error::Full(_)))) {
                    return tell.send((outcomes, saved)).unwrap();
                }
                assert!(n < 100, "a full disk is noticed");
            }
        });
        let heard = told.recv_timeout(Duration::from_secs(20));
        // Whoever still waits is answered once there is space, so that a failure ends.
        let (outcomes, saved) = heard.inspect_err(|_| disk.plan(None)).expect("everybody hears");
        let honest =
            |one: &Result<_, _>| matches!(one, Ok(_) | Err(Error::Full(_) | Error::Unknown(_)));
        assert!(outcomes.iter().all(honest), "{outcomes:?}");
        // What the log has is on the disk, whether the engine has room for it or not.
        assert!(matches!(saved, Ok(_) | Err(Error::Full(_))), "{saved:?}");
        assert!(store.get(b"a").unwrap().is_some(), "reads go on");
        disk.plan(None);
        writer.join().unwrap();
        let healed = (0..10_000).any(|_| {
            std::thread::sleep(Duration::from_millis(1));
            store.commit(put("after", "2")).wait().is_ok()
        });
        assert!(healed, "space came back and so do writes");
        store.save().wait().unwrap();
    }
}

#[test]
fn a_store_closes_and_opens_on_a_full_disk_and_loses_nothing() {
    for mut options in [inline(STRICT), threaded(STRICT)] {
        options.log_segment_bytes = 64 << 10;
        options.engine.memtable_bytes = 1 << 20;
        let disk = FaultyDisk::shared();
        let store = open(disk.clone(), &options).unwrap();
        store.commit(put("a", "1")).wait().unwrap();
        disk.plan(fault(FaultKind::NoSpace, 0));
        pour_until_full(&*store);
        let state = state_of(&*store);
        let closed = |store: &dyn Store| {
            let closed = store.close();
            assert!(matches!(closed, Ok(()) | Err(Error::Full(_))), "{closed:?}");
        };
        closed(&*store);
        drop(store);
        for start in 0..3 {
            let store = open(disk.clone(), &options).unwrap();
            assert_eq!(state_of(&*store), state);
            // What revokes and removes is taken from the reserve, as before the start.
            let mut batch = Batch::new();
            batch.delete(format!("gone-{start}").into_bytes()).set_essential();
            store.commit(batch).wait().unwrap();
            let usual = store.commit(put("usual", &"x".repeat(1 << 10))).wait();
            assert!(matches!(usual, Err(Error::Full(_))), "{usual:?}");
            closed(&*store);
        }
        disk.plan(None);
        let store = open(disk, &options).unwrap();
        assert_eq!(state_of(&*store), state);
        let healed = (0..10_000).any(|_| {
            std::thread::sleep(Duration::from_millis(1));
            store.commit(put("after", "2")).wait().is_ok()
        });
        assert!(healed, "space came back and so do writes");
    }
}

#[test]
fn a_store_that_waits_for_space_can_be_stopped_and_goes_on_at_the_next_start() {
    let mut options = threaded(STRICT);
    options.log_segment_bytes = 16 << 20;
    options.engine.memtable_bytes = 16 << 10;
    let disk = FaultyDisk::shared();
    let store = open(disk.clone(), &options).unwrap();
    store.commit(put("a", "1")).wait().unwrap();
    disk.plan(fault(FaultKind::NoSpace, 0));
    pour_until_full(&*store);
    let stalled = (0..20_000).any(|n| {
        let mut batch = Batch::new();
        batch.delete(format!("k{}-{}", n, "x".repeat(200)).into_bytes()).set_essential();
        matches!(store.commit(batch).wait(), Err(Error::Unknown(_)))
    });
    assert!(stalled, "what is committed waits for space");
    let (tell, told) = std::sync::mpsc::channel();
    let stop = std::thread::spawn(move || {
        drop(store);
        tell.send(()).unwrap();
    });
    let stopped = told.recv_timeout(Duration::from_secs(20)).is_ok();
    disk.plan(None);
    stop.join().unwrap();
    assert!(stopped, "it stops without any");
    let store = open(disk, &options).unwrap();
    assert!(store.get(b"a").unwrap().is_some());
    store.commit(put("after", "2")).wait().unwrap();
}
