//! Every interleaving, within a bound on preemptions, of the protocols that readers rely on: an
//! entry pushed to its other bucket, a growth, and a retired entry. Run by
//! `RUSTFLAGS="--cfg loom" cargo test -p kallisto-cuckoo --release`. Buckets have two slots here,
//! and every retired thing is a batch of its own.

#![expect(unsafe_code, reason = "loom's cell shows unordered access to a header")]

use std::ptr;
use std::sync::Arc;

use loom::cell::UnsafeCell;
use loom::model::Builder;
use loom::sync::atomic::{AtomicPtr, Ordering};
use loom::thread;

use crate::array::Array;
use crate::reclaim::{Guard, Limbo};
use crate::siphash::SipKey;
use crate::{Error, Table};

/// Preemptions of an interleaving. Every mutation that the decision record lists fails at two; the
/// third costs most of the time and is kept for what nobody thought of.
const PREEMPTIONS: usize = 3;

const KNOWN: [u8; 16] = *b"a known hash key";

fn known() -> Result<SipKey, Error> {
    Ok(SipKey::from_bytes(KNOWN))
}

fn explore(model: impl Fn() + Sync + Send + 'static) {
    explore_preempted(PREEMPTIONS, model);
}

fn explore_preempted(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}

/// The `nth` key whose buckets, in an array of four, are `first` and `second`.
fn key_of(first: usize, second: usize, nth: usize) -> [u8; 2] {
    let array = Array::<()>::new(4, SipKey::from_bytes(KNOWN)).unwrap();
    (0_u16..)
        .map(u16::to_le_bytes)
        .filter(|key| {
            let spot = array.spot(key);
            spot.first == first && array.other(first, spot.tag) == second
        })
        .nth(nth)
        .unwrap()
}

/// How a model's reader looks keys up that are all present.
type Find = fn(&Table<()>, &[&[u8]]);

fn find_each(table: &Table<()>, keys: &[&[u8]]) {
    let guard = table.pin();
    assert!(keys.iter().all(|key| table.get(key, &guard).is_some()));
}

fn find_batch(table: &Table<()>, keys: &[&[u8]]) {
    let guard = table.pin();
    let mut found = Vec::new();
    table.get_many(keys, &mut found, &guard);
    assert!(found.iter().all(Option::is_some), "a key of a batch");
}

#[test]
fn an_entry_pushed_to_its_other_bucket_is_never_missed() {
    push_beside(find_each);
}

#[test]
fn a_batch_never_misses_an_entry_pushed_to_its_other_bucket() {
    push_beside(find_batch);
}

fn push_beside(find: Find) {
    explore(move || {
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
            thread::spawn(move || find(&table, &[&one, &two]))
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
    grow_beside(|table, present| {
        find_each(table, present);
        assert!(table.get(b"0", &table.pin()).is_none());
    });
}

#[test]
fn a_batch_never_misses_an_entry_that_goes_to_the_new_array() {
    grow_beside(find_batch);
}

fn grow_beside(find: Find) {
    explore(move || {
        let table = Arc::new(Table::with_draw(3, known).unwrap());
        for key in [b"1", b"2", b"3"] {
            table.insert(key, (), b"").unwrap();
        }
        let reader = {
            let table = Arc::clone(&table);
            thread::spawn(move || find(&table, &[b"2"]))
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

/// The epochs alone, so that more preemptions can be tried: a reader pins twice, in epochs that
/// the writer steps between, and the slot was there before, so that claiming it orders nothing.
#[test]
fn what_left_before_an_epoch_is_not_seen_in_it() {
    explore_preempted(5, || {
        drop(Guard::pin());
        let watched = Box::into_raw(Box::new(Watched::new()));
        let place = Arc::new(AtomicPtr::new(watched));
        let reader = {
            let place = Arc::clone(&place);
            thread::spawn(move || {
                for _ in 0..2 {
                    let _guard = Guard::pin();
                    // SAFETY: null, or not freed under the guard: that is the test.
                    if let Some(watched) = unsafe { place.load(Ordering::Acquire).as_ref() } {
                        assert_eq!(watched.read(), 7);
                    }
                }
            })
        };
        place.store(ptr::null_mut(), Ordering::Release);
        let mut limbo = Limbo::new();
        limbo.retire(Owned(watched), 0);
        // Loom switches threads before a load, but not before the fence that comes next.
        place.load(Ordering::Relaxed);
        drop(limbo.pop_free());
        reader.join().unwrap();
        drop(limbo.take_all().collect::<Vec<_>>());
    });
}

/// A retired box, which readers may still see: not as a `Box`, which would claim to be the only
/// way to it.
struct Owned(*mut Watched);

impl Drop for Owned {
    fn drop(&mut self) {
        // SAFETY: made by `Box::into_raw` and retired once.
        drop(unsafe { Box::from_raw(self.0) });
    }
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
