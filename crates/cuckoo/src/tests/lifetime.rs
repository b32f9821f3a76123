//! When headers are dropped: never while a reader can hold them, once, and at the latest when
//! table and guards are gone.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use crate::{Entry, Error, Guard, Table};

/// Upserts that fill several batches of retired entries.
const UPSERTS: u32 = 4 * crate::limits::RETIRE_BATCH as u32;

/// Counts the live ones.
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn new(live: &Arc<AtomicUsize>) -> Self {
        live.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(live))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn live() -> Arc<AtomicUsize> {
    Arc::new(AtomicUsize::new(0))
}

/// Pins of other tests' threads take time to go: tries until what must be free is free.
fn eventually(mut holds: impl FnMut() -> bool) -> bool {
    const QUICK: u32 = 2_000;
    (0..if cfg!(miri) { QUICK } else { QUICK + 30_000 }).any(|attempt| {
        if attempt < QUICK {
            thread::yield_now();
        } else {
            thread::sleep(Duration::from_millis(1));
        }
        holds()
    })
}

#[test]
fn entries_outlive_removal_replacement_and_the_table() {
    let live = live();
    let table = Table::with_capacity(0).unwrap();
    let guard = table.pin();
    table.insert(b"removed", Counted::new(&live), b"one").unwrap();
    table.insert(b"replaced", Counted::new(&live), b"two").unwrap();
    table.insert(b"kept", Counted::new(&live), b"three").unwrap();
    let entries: Vec<Entry<'_, Counted>> =
        [&b"removed"[..], b"replaced", b"kept"].map(|key| table.get(key, &guard).unwrap()).to_vec();
    let all = table.iter(&guard);
    assert!(table.remove(b"removed"));
    table.upsert(b"replaced", Counted::new(&live), b"new").unwrap();
    for number in 0..UPSERTS {
        table.upsert(&number.to_be_bytes(), Counted::new(&live), b"x").unwrap();
        table.upsert(&number.to_be_bytes(), Counted::new(&live), b"y").unwrap();
    }
    drop(table);
    let values: Vec<_> = entries.iter().map(Entry::value).collect();
    assert_eq!(values, [&b"one"[..], b"two", b"three"]);
    assert_eq!(all.count(), 3);
    assert_eq!(
        live.load(Ordering::Relaxed),
        4 + 2 * UPSERTS as usize,
        "nothing is dropped under a guard"
    );
    drop(guard);
    assert!(eventually(|| {
        drop(Table::<()>::with_capacity(0).unwrap().pin());
        live.load(Ordering::Relaxed) == 0
    }));
}

#[test]
fn without_readers_memory_comes_back_while_the_table_works() {
    let live = live();
    let table = Table::with_capacity(0).unwrap();
    assert!(eventually(|| {
        for number in 0..UPSERTS {
            table.upsert(&(number % 7).to_be_bytes(), Counted::new(&live), &[1; 300]).unwrap();
        }
        live.load(Ordering::Relaxed) < 7 + 2 * crate::limits::RETIRE_BATCH
    }));
    assert_eq!(table.len(), 7);
    table.clear();
    assert!(eventually(|| {
        table.clear();
        table.remove(b"nothing");
        table.insert(b"x", Counted::new(&live), b"").unwrap();
        table.remove(b"x");
        table.clear();
        live.load(Ordering::Relaxed) <= 1
    }));
}

#[test]
fn refused_headers_are_dropped() {
    let live = live();
    let table = Table::with_capacity(0).unwrap();
    table.insert(b"k", Counted::new(&live), b"").unwrap();
    table.insert(b"k", Counted::new(&live), b"").unwrap();
    let long = vec![0; crate::limits::KEY_BYTES_MAX + 1];
    assert_eq!(table.insert(&long, Counted::new(&live), b""), Err(Error::KeyTooLong));
    assert_eq!(live.load(Ordering::Relaxed), 1);
}

#[test]
fn a_guard_of_one_table_serves_another() {
    let one = Table::<()>::with_capacity(0).unwrap();
    let two = Table::with_capacity(0).unwrap();
    let guard = one.pin();
    drop(one);
    two.insert(b"key", 1_u64, b"value").unwrap();
    let entry = two.get(b"key", &guard).unwrap();
    two.upsert(b"key", 2, b"other").unwrap();
    for number in 0..UPSERTS {
        two.upsert(b"key", u64::from(number), b"again").unwrap();
    }
    drop(two);
    assert_eq!((entry.value(), *entry.header()), (&b"value"[..], 1));
}

#[test]
fn guards_nest_and_leave_in_any_order() {
    let live = live();
    let table = Table::with_capacity(0).unwrap();
    table.insert(b"key", Counted::new(&live), b"value").unwrap();
    let outer = table.pin();
    let inner = table.pin();
    let entry = table.get(b"key", &inner).unwrap();
    drop(outer);
    drop(table);
    assert_eq!(entry.value(), b"value");
    assert_eq!(live.load(Ordering::Relaxed), 1);
}

/// A guard in a thread-local is dropped, and made, when other thread-locals are gone already.
#[test]
fn guards_may_live_in_thread_locals() {
    struct Last(Option<Guard>, Option<Arc<Table<u64>>>);
    impl Drop for Last {
        fn drop(&mut self) {
            let table = self.1.take().expect("set by the thread");
            let guard = table.pin();
            assert_eq!(table.get(b"key", &guard).unwrap().value(), b"value");
            self.0.take();
        }
    }
    thread_local! {
        static LAST: std::cell::RefCell<Option<Last>> = const { std::cell::RefCell::new(None) };
    }
    let table = Arc::new(Table::with_capacity(0).unwrap());
    table.insert(b"key", 1_u64, b"value").unwrap();
    for _ in 0..3 {
        let table = Arc::clone(&table);
        let thread = thread::spawn(move || {
            // The table's own thread-local is made either after or before ours.
            LAST.with(|last| *last.borrow_mut() = Some(Last(None, Some(Arc::clone(&table)))));
            let guard = table.pin();
            LAST.with(|last| last.borrow_mut().as_mut().unwrap().0 = Some(guard));
        });
        thread.join().unwrap();
    }
    drop(table);
}

#[test]
fn entries_can_be_read_by_other_threads_under_the_guard() {
    let table = Table::with_capacity(0).unwrap();
    table.insert(b"key", 7_u64, b"value").unwrap();
    let guard = table.pin();
    let entry = table.get(b"key", &guard).unwrap();
    let read = thread::scope(|scope| scope.spawn(|| *entry.header()).join().unwrap());
    assert_eq!(read, 7);
}

#[test]
fn a_panicking_destructor_leaves_the_table_in_order() {
    struct Panics(bool);
    impl Drop for Panics {
        fn drop(&mut self) {
            assert!(!self.0, "a destructor's panic");
        }
    }
    let table = Table::with_capacity(0).unwrap();
    table.insert(b"key", Panics(true), b"").unwrap();
    table.remove(b"key");
    let panics = eventually(|| {
        let write = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            table.upsert(b"other", Panics(false), b"").unwrap();
        }));
        write.is_err()
    });
    assert!(panics, "it panics in the write that frees it");
    assert_eq!(table.len(), 1);
    assert_eq!(table.check(), Ok(()), "its block went back all the same");
    table.upsert(b"third", Panics(false), b"").unwrap();
    assert!(table.get(b"third", &table.pin()).is_some());
    assert!(
        eventually(|| {
            table.clear();
            table.stats().retired == 0
        }),
        "the rest of its batch is freed by later writes"
    );
    assert_eq!(table.memory().entry_bytes, 0);
}
