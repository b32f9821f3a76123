//! Fill: nothing is lost at any size, and the table runs as full as it says.

use crate::limits::{KEY_BYTES_MAX, LOAD_MAX_PERCENT, VALUE_BYTES_MAX};
use crate::{Error, Inserted, Table, Upserted};

fn key(number: u64) -> Vec<u8> {
    format!("secret/data/team-{:06}/service-{number:012}", number % 997).into_bytes()
}

/// Inserts `count` keys into a table that starts at `capacity` and looks every one up.
fn none_is_lost(count: u64, capacity: usize) {
    let table = Table::with_capacity(capacity).unwrap();
    for number in 0..count {
        let inserted = table.insert(&key(number), number, &number.to_le_bytes());
        assert_eq!(inserted, Ok(Inserted::Inserted));
    }
    assert_eq!(table.len() as u64, count);
    assert_eq!(table.check(), Ok(()));
    let guard = table.pin();
    for number in 0..count {
        let entry = table.get(&key(number), &guard).expect("inserted");
        assert_eq!(*entry.header(), number);
        assert_eq!(entry.value(), number.to_le_bytes());
    }
    assert!(table.get(&key(count), &guard).is_none());
}

#[test]
fn of_20_000_inserts_none_is_lost() {
    none_is_lost(if cfg!(miri) { 50 } else { 20_000 }, 0);
}

#[test]
fn of_30_000_inserts_none_is_lost() {
    none_is_lost(if cfg!(miri) { 60 } else { 30_000 }, 100);
}

#[test]
fn of_2_000_000_inserts_none_is_lost() {
    none_is_lost(if cfg!(miri) { 70 } else { 2_000_000 }, 0);
}

#[test]
fn runs_to_95_percent_load_without_growing() {
    let buckets: u32 = if cfg!(miri) { 8 } else { 1 << 13 };
    let slots = buckets as usize * 8;
    let table = Table::with_capacity(slots * LOAD_MAX_PERCENT / 100).unwrap();
    assert_eq!(table.capacity(), slots);
    for number in 0..(slots * LOAD_MAX_PERCENT / 100) as u64 {
        assert_eq!(table.insert(&key(number), (), b""), Ok(Inserted::Inserted));
    }
    assert_eq!(table.stats().growths, 0);
    assert!(table.load_factor() > 0.94);
    assert_eq!(table.check(), Ok(()));
    // One more begins a growth, and reads go on meanwhile.
    assert_eq!(table.insert(b"one more", (), b""), Ok(Inserted::Inserted));
    assert_eq!(table.stats().growths, 1);
    assert_eq!(table.capacity(), 2 * slots);
    assert_eq!(table.check(), Ok(()));
    let guard = table.pin();
    for number in 0..(slots * LOAD_MAX_PERCENT / 100) as u64 {
        assert!(table.get(&key(number), &guard).is_some());
    }
    assert_eq!(table.finish_growth(), Ok(()));
    assert_eq!(table.stats().buckets_to_move, 0);
    assert_eq!(table.check(), Ok(()));
}

#[test]
fn a_full_table_under_turnover_does_not_grow() {
    let slots = if cfg!(miri) { 64 } else { 8192 };
    let live = (slots * 90 / 100) as u64;
    let turns = if cfg!(miri) { 30 } else { 100_000 };
    let table = Table::with_capacity(live as usize).unwrap();
    for number in 0..live {
        table.insert(&key(number), (), &[1; 100]).unwrap();
    }
    let reserved = table.memory().reserved_bytes;
    for number in live..live + turns {
        assert!(table.remove(&key(number - live)));
        assert_eq!(table.insert(&key(number), (), &[2; 100]), Ok(Inserted::Inserted));
    }
    assert_eq!(table.capacity(), slots);
    assert_eq!(table.stats().growths, 0);
    // Freed blocks serve again: turnover takes one more region at most.
    assert!(table.memory().reserved_bytes <= reserved + (2 << 20));
    assert_eq!(table.check(), Ok(()));
}

#[test]
fn keys_have_a_limit() {
    let table = Table::with_capacity(4).unwrap();
    let key = vec![0; KEY_BYTES_MAX + 1];
    assert_eq!(table.upsert(&key, (), b""), Err(Error::KeyTooLong));
    assert_eq!(table.insert(&key, (), b""), Err(Error::KeyTooLong));
    assert!(table.is_empty());
    if cfg!(miri) {
        return; // Hashing 64 KiB takes minutes there.
    }
    let longest = &key[..KEY_BYTES_MAX];
    assert_eq!(table.upsert(longest, (), b""), Ok(Upserted::Inserted));
    assert_eq!(table.upsert(b"", (), b""), Ok(Upserted::Inserted));
    let guard = table.pin();
    assert_eq!(table.get(longest, &guard).unwrap().key(), longest);
    assert_eq!(table.get(b"", &guard).unwrap().value(), b"");
    assert_eq!(table.check(), Ok(()));
}

#[test]
fn values_have_a_limit() {
    let table = Table::with_capacity(4).unwrap();
    // Zero bytes, which cost no time to make: Miri runs this, too.
    let value = vec![0; VALUE_BYTES_MAX + 1];
    assert_eq!(table.upsert(b"k", (), &value), Err(Error::ValueTooLong));
    assert_eq!(table.insert(b"k", (), &value), Err(Error::ValueTooLong));
    assert!(table.is_empty());
    assert_eq!(table.insert(b"k", (), &value[..VALUE_BYTES_MAX]), Ok(Inserted::Inserted));
    assert_eq!(table.get(b"k", &table.pin()).unwrap().value().len(), VALUE_BYTES_MAX);
    assert_eq!(table.check(), Ok(()));
}

#[test]
fn too_large_a_table_is_refused() {
    assert_eq!(Table::<()>::with_capacity(usize::MAX).unwrap_err(), Error::Capacity);
}

#[test]
fn get_many_answers_in_order() {
    let table = Table::with_capacity(0).unwrap();
    let keys: Vec<_> = (0..100).map(key).collect();
    for (number, key) in keys.iter().enumerate().filter(|(number, _)| number % 3 != 0) {
        table.insert(key, number, b"v").unwrap();
    }
    let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    let guard = table.pin();
    let mut found = Vec::new();
    for count in [0, 1, 15, 16, 17, 100] {
        table.get_many(&keys[..count], &mut found, &guard);
        let numbers: Vec<_> =
            found.iter().map(|entry| entry.map(|entry| *entry.header())).collect();
        let expected: Vec<_> =
            (0..count).map(|number| (number % 3 != 0).then_some(number)).collect();
        assert_eq!(numbers, expected);
    }
}

#[test]
fn a_table_with_room_reserved_does_not_grow() {
    let count: u64 = if cfg!(miri) { 60 } else { 20_000 };
    let table = Table::with_capacity(0).unwrap();
    for number in 0..count / 4 {
        assert_eq!(table.insert(&key(number), number, b""), Ok(Inserted::Inserted));
    }
    table.reserve(count as usize).unwrap();
    let (growths, capacity) = (table.stats().growths, table.capacity());
    for number in count / 4..count {
        assert_eq!(table.insert(&key(number), number, b""), Ok(Inserted::Inserted));
        if number.is_multiple_of(count / 10) {
            assert_eq!(table.check(), Ok(()));
        }
    }
    let guard = table.pin();
    for number in 0..count {
        table.prefetch(&key(number), &guard);
        assert_eq!(table.get(&key(number), &guard).map(|entry| *entry.header()), Some(number));
    }
    table.reserve(1).unwrap();
    assert_eq!((table.stats().growths, table.capacity()), (growths, capacity));
    assert_eq!(table.reserve(usize::MAX), Err(Error::Capacity));
    assert_eq!(table.check(), Ok(()));
}

#[test]
fn a_growth_leaves_no_old_array_behind() {
    let table = Table::with_capacity(0).unwrap();
    for number in 0..if cfg!(miri) { 40 } else { 3_000 } {
        table.insert(&key(number), (), b"").unwrap();
    }
    assert!(table.stats().growths > 0);
    // Pins of other tests' threads take time to go.
    let done = (0..30_000).any(|_| {
        table.finish_growth().unwrap();
        table.stats().retired == 0 || {
            std::thread::sleep(std::time::Duration::from_millis(1));
            false
        }
    });
    assert!(done, "nothing was replaced or removed, so nothing may stay retired");
}
