//! Floods: keys chosen by somebody who knows the hash key.
//!
//! Outside of tests there is no way to choose the key; here it is fixed, keys that all collide
//! under it are found by trying, and the table must finish: bounded work for each insert, a fresh
//! key when it grows.

use std::cell::Cell;

use crate::array::{Array, HashedKey};
use crate::siphash::SipKey;
use crate::{Error, Inserted, Table};

const KNOWN: [u8; 16] = *b"a known hash key";

thread_local! {
    static DRAWN: Cell<u32> = const { Cell::new(0) };
}

fn known_always() -> Result<SipKey, Error> {
    Ok(SipKey::from_bytes(KNOWN))
}

fn known_first() -> Result<SipKey, Error> {
    let drawn = DRAWN.replace(DRAWN.get() + 1);
    if drawn == 0 { known_always() } else { SipKey::make_random() }
}

fn never_again() -> Result<SipKey, Error> {
    let drawn = DRAWN.replace(DRAWN.get() + 1);
    if drawn == 0 { known_always() } else { Err(Error::Randomness) }
}

/// `count` keys with the same two buckets in an array of `buckets` under the known key.
fn colliding(count: usize, buckets: usize) -> Vec<[u8; 8]> {
    let array = Array::<()>::new(buckets, SipKey::from_bytes(KNOWN)).unwrap();
    let pair = |HashedKey { first, tag }: HashedKey| {
        let second = array.other(first, tag);
        (first.min(second), first.max(second))
    };
    let goal = pair(array.spot(b"the first of them"));
    (0_u64..)
        .map(u64::to_le_bytes)
        .filter(|key| pair(array.spot(key)) == goal)
        .take(count)
        .collect()
}

#[test]
fn colliding_keys_under_a_known_key_go_in_8_000_of_them() {
    let (count, buckets) = if cfg!(miri) { (40, 4) } else { (8_000, 64) };
    let keys = colliding(count, buckets);
    let table = Table::with_draw(buckets * 8 * 9 / 10, known_first).unwrap();
    assert_eq!(table.capacity(), buckets * 8);
    for key in &keys {
        assert_eq!(table.insert(key, (), b"v"), Ok(Inserted::Inserted));
    }
    assert_eq!(table.check(), Ok(()));
    let guard = table.pin();
    assert!(keys.iter().all(|key| table.get(key, &guard).is_some()));
    let stats = table.stats();
    // The first flood costs a new key of the same size; later growth is for room.
    assert!(stats.growths >= 1);
    assert_eq!(stats.rebuilds, 0);
    assert!(table.capacity() <= (2 * count * 100 / 95).next_power_of_two().max(buckets * 8));
}

#[test]
fn a_flood_of_a_sparse_table_redraws_the_key_and_takes_no_memory() {
    let buckets = if cfg!(miri) { 8 } else { 64 };
    let keys = colliding(17, buckets);
    let table = Table::with_draw(buckets * 8 * 9 / 10, known_first).unwrap();
    for key in &keys {
        assert_eq!(table.insert(key, (), b""), Ok(Inserted::Inserted));
    }
    assert_eq!(table.stats().growths, 1);
    assert_eq!(table.capacity(), buckets * 8);
}

/// Not under Miri: minutes of rebuilding there, and no unsafe step the others do not take.
#[cfg(not(miri))]
#[test]
fn when_every_key_drawn_is_known_inserts_are_refused_and_memory_stays() {
    let buckets = 64;
    let keys = colliding(40, buckets);
    let table = Table::with_draw(buckets * 8 * 9 / 10, known_always).unwrap();
    let (taken, refused): (Vec<_>, Vec<_>) =
        keys.into_iter().partition(|key| table.insert(key, (), b"").is_ok());
    // Sixteen fill their two buckets; a growth that cannot help has room for as many again.
    assert!((16..=32).contains(&taken.len()));
    assert_eq!(table.insert(&refused[0], (), b""), Err(Error::Crowded));
    assert_eq!(table.len(), taken.len());
    assert_eq!(table.check(), Ok(()));
    assert!(table.capacity() <= buckets * 8);
    let guard = table.pin();
    assert!(taken.iter().all(|key| table.get(key, &guard).is_some()));
}

#[test]
fn without_randomness_a_table_refuses_to_grow_and_keeps_what_it_has() {
    let keys = colliding(17, 4);
    let table = Table::with_draw(29, never_again).unwrap();
    for key in &keys[..16] {
        assert_eq!(table.insert(key, (), b""), Ok(Inserted::Inserted));
    }
    assert_eq!(table.insert(&keys[16], (), b""), Err(Error::Randomness));
    assert!(table.remove(&keys[0]));
    assert_eq!(table.insert(&keys[16], (), b""), Ok(Inserted::Inserted));
    assert_eq!(table.check(), Ok(()));
}
