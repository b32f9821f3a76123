//! The sync mode between every commit and never: how much a power cut may take is bounded by operations and by time.
//! Time is the test's own.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use kallisto_lsm::clock::Clock;
use kallisto_lsm::disk::cuts::left_at_the_end;
use kallisto_lsm::disk::{FaultyDisk, UnsyncedTail};
use kallisto_lsm::{Background, Engine, EntryBatch, LogKeeping, Options, Sync, SyncMode};

mod common;

const NEVER: Duration = Duration::from_secs(3600);

/// Stands still unless it is told to go on.
#[derive(Debug, Default)]
struct TestClock(AtomicU64);

impl TestClock {
    fn advance(&self, duration: Duration) {
        self.0.fetch_add(duration.as_nanos().try_into().unwrap(), Ordering::SeqCst);
    }
}

impl Clock for TestClock {
    fn now(&self) -> Duration {
        Duration::from_nanos(self.0.load(Ordering::SeqCst))
    }

    fn sleep(&self, duration: Duration) {
        self.advance(duration);
    }
}

struct Fixture {
    disk: Arc<FaultyDisk>,
    clock: Arc<TestClock>,
    engine: Engine,
    options: Options,
}

fn open(ops: u64, interval: Duration, background: Background) -> Fixture {
    let (disk, clock) = (FaultyDisk::shared(), Arc::new(TestClock::default()));
    let options = Options {
        durability: LogKeeping::Wal(SyncMode::Every { ops, interval }),
        clock: clock.clone(),
        // A new segment and a flush sync what is before them: there are none here.
        wal_segment_bytes: 1 << 20,
        memtable_bytes: 1 << 20,
        ..common::small(background)
    };
    let engine = Engine::open(disk.clone(), "store", options.clone()).unwrap();
    Fixture { disk, clock, engine, options }
}

impl Fixture {
    /// How many of the keys 0, 1, 2... are there after a power cut right now that takes all it may.
    fn left_by_a_cut(&self) -> u32 {
        let image = Arc::new(left_at_the_end(&self.disk.events(), UnsyncedTail::Lost, 0));
        let engine = Engine::open(image, "store", self.options.clone()).unwrap();
        let keys = engine.scan(..).unwrap().map(|entry| entry.unwrap().0);
        let mut next = 0u32;
        for key in keys {
            assert_eq!(key, next.to_be_bytes(), "a prefix of what was put");
            next += 1;
        }
        next
    }

    fn put(&self, n: u32) {
        self.engine.put(&n.to_be_bytes(), b"value").unwrap();
    }
}

#[test]
fn so_many_operations_are_at_stake_and_not_one_more() {
    let store = open(10, NEVER, Background::Inline);
    for n in 0..9 {
        store.put(n);
        assert_eq!((store.engine.stats().syncs, store.left_by_a_cut()), (0, 0));
    }
    store.put(9);
    assert_eq!((store.engine.stats().syncs, store.left_by_a_cut()), (1, 10));
    for n in 10..200 {
        store.put(n);
        assert_eq!(store.left_by_a_cut(), (n + 1) / 10 * 10, "whole tens are durable");
    }
}

#[test]
fn a_batch_counts_each_of_its_operations_and_a_sync_commit_starts_anew() {
    let store = open(10, NEVER, Background::Inline);
    let batch = |range: std::ops::Range<u32>| {
        let mut batch = EntryBatch::new();
        range.for_each(|n| batch.put(&n.to_be_bytes(), b"value").unwrap());
        batch
    };
    store.engine.write(&batch(0..9), Sync::Mode).unwrap();
    assert_eq!(store.left_by_a_cut(), 0);
    store.engine.write(&batch(9..12), Sync::Mode).unwrap();
    assert_eq!(store.left_by_a_cut(), 12);
    store.engine.write(&batch(12..15), Sync::Now).unwrap();
    assert_eq!(store.left_by_a_cut(), 15);
    store.engine.write(&batch(15..24), Sync::Mode).unwrap();
    assert_eq!(store.left_by_a_cut(), 15);
    store.engine.sync().unwrap();
    assert_eq!(store.left_by_a_cut(), 24);
}

#[test]
fn a_commit_after_the_interval_syncs() {
    let store = open(u64::MAX, Duration::from_millis(5), Background::Inline);
    store.put(0);
    store.clock.advance(Duration::from_micros(4_999));
    store.put(1);
    assert_eq!(store.left_by_a_cut(), 0);
    store.clock.advance(Duration::from_micros(1));
    store.put(2);
    assert_eq!(store.left_by_a_cut(), 3);
    store.clock.advance(Duration::from_micros(4_999));
    store.put(3);
    assert_eq!(store.left_by_a_cut(), 3);
}

#[test]
fn the_interval_ends_without_another_commit() {
    let store = open(u64::MAX, Duration::from_millis(1), Background::Threads(1));
    store.put(0);
    assert_eq!(store.left_by_a_cut(), 0, "the clock stands still");
    store.clock.advance(Duration::from_millis(1));
    while store.engine.stats().syncs == 0 {
        std::thread::yield_now();
    }
    assert_eq!(store.left_by_a_cut(), 1);
}
