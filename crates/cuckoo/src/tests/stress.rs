//! Readers against writers: no key that is present is ever missed, none that is gone is returned,
//! and what is found is whole. Bounded by counts of operations, not by time.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use crate::Table;

const READERS: usize = if cfg!(miri) { 1 } else { 3 };

fn key(kind: &str, number: u64) -> Vec<u8> {
    format!("{kind}/{number:010}").into_bytes()
}

/// A value that tells whether it is whole and whose it is.
fn value(key: &[u8], version: u64) -> Vec<u8> {
    let mut value = version.to_le_bytes().to_vec();
    value.extend_from_slice(key);
    value.extend(std::iter::repeat_n(version as u8, (version % 300) as usize));
    value
}

/// Stops the readers when the writer is done, even by a panic.
struct Done<'a>(&'a AtomicBool);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Kept keys stay for good while others come and go around them at high load, so they are moved
/// all the time; the table grows on the way.
#[test]
fn a_present_key_is_never_missed() {
    let (kept, writes) = if cfg!(miri) { (12, 30) } else { (4_000, 300_000) };
    let table = Table::with_capacity(kept as usize).unwrap();
    for number in 0..kept {
        table.insert(&key("kept", number), 0, &value(&key("kept", number), 0)).unwrap();
    }
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for seed in 0..READERS as u64 {
            let (table, done) = (&table, &done);
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(seed);
                while !done.load(Ordering::Relaxed) {
                    let keys: Vec<_> = (0..8).map(|_| key("kept", random.u64(..kept))).collect();
                    let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
                    let guard = table.pin();
                    for key in &keys {
                        let entry = table.get(key, &guard).expect("a kept key");
                        assert_eq!(entry.value(), value(key, *entry.header()));
                    }
                    let mut found = Vec::new();
                    table.get_many(&keys, &mut found, &guard);
                    assert!(found.iter().all(Option::is_some), "a kept key of a batch");
                    assert!(table.get(&key("never", random.u64(..)), &guard).is_none());
                }
            });
        }
        let _done = Done(&done);
        write_around_the_kept(&table, kept, writes);
    });
    assert_eq!(table.check(), Ok(()));
}

fn write_around_the_kept(table: &Table<u64>, kept: u64, writes: u64) {
    let mut random = fastrand::Rng::with_seed(99);
    // Grows to several times the kept keys, then goes on at that size.
    let others = kept * 5;
    for step in 1..=writes {
        let other = key("other", random.u64(..others));
        match random.u8(..4) {
            0 => drop(table.remove(&other)),
            1 => {
                let key = key("kept", random.u64(..kept));
                table.upsert(&key, step, &value(&key, step)).unwrap();
            }
            _ => drop(table.upsert(&other, step, &value(&other, step)).unwrap()),
        }
    }
}

/// Keys whose number is below a mark are removed for good, and the mark is published after the
/// removal; versions of one key never go back.
#[test]
fn a_removed_key_is_never_returned_and_versions_never_go_back() {
    let count = if cfg!(miri) { 15 } else { 60_000 };
    let table = Table::with_capacity(0).unwrap();
    for number in 0..count {
        table.insert(&key("gone", number), 0, b"v").unwrap();
    }
    table.insert(b"version", 0, &value(b"version", 0)).unwrap();
    let removed = AtomicU64::new(0);
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for seed in 0..READERS as u64 {
            let (table, done, removed) = (&table, &done, &removed);
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(seed);
                let mut last = 0;
                while !done.load(Ordering::Relaxed) {
                    let guard = table.pin();
                    let mark = removed.load(Ordering::Acquire);
                    if mark > 0 {
                        let gone = random.u64(..mark);
                        assert!(table.get(&key("gone", gone), &guard).is_none());
                    }
                    let entry = table.get(b"version", &guard).expect("always there");
                    assert!(*entry.header() >= last, "a version went back");
                    last = *entry.header();
                    assert_eq!(entry.value(), value(b"version", last));
                }
            });
        }
        let _done = Done(&done);
        for number in 0..count {
            assert!(table.remove(&key("gone", number)));
            removed.store(number + 1, Ordering::Release);
            table.upsert(b"version", number, &value(b"version", number)).unwrap();
            table.upsert(&key("new", number % 500), number, b"").unwrap();
        }
    });
    assert_eq!(table.check(), Ok(()));
}

/// Writers exclude each other; none of their keys is lost.
#[test]
fn writers_from_many_threads_lose_nothing() {
    let count = if cfg!(miri) { 8 } else { 20_000 };
    let table = Table::with_capacity(0).unwrap();
    thread::scope(|scope| {
        for writer in ["a", "b", "c"] {
            let table = &table;
            scope.spawn(move || {
                for number in 0..count {
                    table.insert(&key(writer, number), number, b"v").unwrap();
                }
            });
        }
    });
    assert_eq!(table.len() as u64, 3 * count);
    let guard = table.pin();
    for writer in ["a", "b", "c"] {
        assert!((0..count).all(|number| table.get(&key(writer, number), &guard).is_some()));
    }
    assert_eq!(table.check(), Ok(()));
}
