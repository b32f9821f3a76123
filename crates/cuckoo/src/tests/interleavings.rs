//! Every interleaving, within a bound on preemptions, of the protocols that readers rely on: an
//! entry pushed to its other bucket, a growth, and a retired entry. Run by
//! `RUSTFLAGS="--cfg loom" cargo test -p kallisto-cuckoo --release`. Buckets have two slots here,
//! and every retired thing is a batch of its own.

#![expect(unsafe_code, reason = "loom's cell shows unordered access to a header")]

use std::sync::Arc;

use loom::cell::UnsafeCell;
use loom::model::Builder;
use loom::thread;

use crate::array::Array;
use crate::siphash::Key;
use crate::{Error, Table};

const KNOWN: [u8; 16] = *b"a known hash key";

fn known() -> Result<Key, Error> {
    Ok(Key::from_bytes(KNOWN))
}

fn explore(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

/// The `nth` key whose buckets, in an array of four, are `first` and `second`.
fn key_of(first: usize, second: usize, nth: usize) -> [u8; 2] {
    let array = Array::<()>::new(4, Key::from_bytes(KNOWN)).unwrap();
    (0_u16..)
        .map(u16::to_le_bytes)
        .filter(|key| {
            let spot = array.spot(key);
            spot.first == first && array.other(first, spot.tag) == second
        })
        .nth(nth)
        .unwrap()
}

#[test]
fn an_entry_pushed_to_its_other_bucket_is_never_missed() {
    explore(|| {
        let table = Arc::new(Table::with_draw(7, known).unwrap());
        // Two keys sit in their second bucket, 0, since their first, 1, was full. Pushed back to
        // the first, they go against the order of a scan: past a reader that is between the two.
        let full = [key_of(1, 2, 0), key_of(1, 2, 1)];
        let (one, two) = (key_of(1, 0, 0), key_of(1, 0, 1));
        for key in [full[0], full[1], one, two, key_of(3, 2, 0), key_of(3, 2, 1)] {
            table.insert(&key, (), b"").unwrap();
        }
        full.iter().for_each(|key| assert!(table.remove(key)));
        // Buckets 0 and 3 are full; the new key belongs to both, so one of 0 goes to 1.
        let reader = {
            let table = Arc::clone(&table);
            thread::spawn(move || {
                let guard = table.pin();
                assert!(table.get(&one, &guard).is_some());
                assert!(table.get(&two, &guard).is_some());
            })
        };
        let new = key_of(0, 3, 0);
        table.insert(&new, (), b"").unwrap();
        assert_eq!(table.stats().moved, 1);
        reader.join().unwrap();
        assert!(table.get(&new, &table.pin()).is_some());
    });
}

#[test]
fn an_entry_that_goes_to_the_new_array_is_never_missed() {
    explore(|| {
        let table = Arc::new(Table::with_draw(3, known).unwrap());
        for key in [b"1", b"2", b"3"] {
            table.insert(key, (), b"").unwrap();
        }
        let reader = {
            let table = Arc::clone(&table);
            thread::spawn(move || {
                let guard = table.pin();
                assert!(table.get(b"2", &guard).is_some());
                assert!(table.get(b"0", &guard).is_none());
            })
        };
        table.insert(b"4", (), b"").unwrap();
        table.finish_growth().unwrap();
        assert_eq!(table.stats().growths, 1);
        reader.join().unwrap();
    });
}

/// Read through the cell by readers, written by the destructor: unless the one comes before the
/// other in every interleaving, loom says so.
struct Watched(UnsafeCell<u32>);

// SAFETY: the cell is only read while shared; that it is not written meanwhile is the test.
unsafe impl Sync for Watched {}

impl Watched {
    fn new() -> Self {
        Self(UnsafeCell::new(7))
    }

    fn read(&self) -> u32 {
        // SAFETY: reads only.
        self.0.with(|value| unsafe { *value })
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        // SAFETY: dropped by its owner.
        self.0.with_mut(|value| unsafe { *value = 0 });
    }
}

#[test]
fn a_replaced_entry_is_not_freed_under_a_reader() {
    explore(|| {
        let table = Arc::new(Table::with_draw(3, known).unwrap());
        table.insert(b"key", Watched::new(), b"").unwrap();
        let reader = {
            let table = Arc::clone(&table);
            thread::spawn(move || {
                for _ in 0..2 {
                    let guard = table.pin();
                    let entry = table.get(b"key", &guard).expect("always there");
                    assert_eq!(entry.header().read(), 7);
                }
            })
        };
        table.upsert(b"key", Watched::new(), b"").unwrap();
        table.upsert(b"key", Watched::new(), b"").unwrap();
        reader.join().unwrap();
    });
}

#[test]
fn a_dropped_table_is_not_freed_under_a_reader() {
    explore(|| {
        let table = Arc::new(Table::with_draw(3, known).unwrap());
        table.insert(b"key", Watched::new(), b"").unwrap();
        let reader = {
            let table = Arc::clone(&table);
            thread::spawn(move || {
                let guard = table.pin();
                let entry = table.get(b"key", &guard).expect("always there");
                drop(table);
                assert_eq!(entry.header().read(), 7);
            })
        };
        drop(table);
        reader.join().unwrap();
    });
}
