//! The table against the obvious one, a `HashMap`, over many small tables and skewed operations.
//! `fuzz::cuckoo_ops` does the same from bytes; here are the shapes bytes rarely spell.

use std::collections::HashMap;

use crate::{Gated, Inserted, Table, Upserted};

#[test]
fn agrees_with_a_hash_map_through_growth_and_shrinking() {
    let (rounds, operations) = if cfg!(miri) { (1, 100) } else { (20, 20_000) };
    for seed in 0..rounds {
        let mut random = fastrand::Rng::with_seed(seed);
        let table = Table::with_capacity(random.usize(..200)).unwrap();
        let mut model: HashMap<Vec<u8>, u32> = HashMap::new();
        for step in 0..operations {
            // Waves: mostly inserts, then mostly removals.
            let grows = step / (operations / 4) % 2 == 0;
            let key = format!("path/{}", random.u32(..operations / 5)).into_bytes();
            match random.u8(..10) {
                0..6 if grows => {
                    let new = !model.contains_key(&key);
                    let answer = table.insert(&key, step, &key).unwrap();
                    assert_eq!(answer == Inserted::Inserted, new);
                    model.entry(key).or_insert(step);
                }
                0..6 => assert_eq!(table.remove(&key), model.remove(&key).is_some()),
                6..8 => {
                    let answer = table.upsert(&key, step, &key).unwrap();
                    assert_eq!(answer == Upserted::Replaced, model.insert(key, step).is_some());
                }
                _ => {
                    let guard = table.pin();
                    let found = table.get(&key, &guard).map(|entry| *entry.header());
                    assert_eq!(found, model.get(&key).copied());
                    let passed = match table.get_gated(&key, &guard, || true) {
                        Gated::Found(entry) => Some(*entry.header()),
                        Gated::Missing => None,
                        Gated::Refused => panic!("the gate let it pass"),
                    };
                    assert_eq!(passed, found);
                    let refused = table.get_gated(&key, &guard, || false);
                    assert!(matches!(refused, Gated::Refused));
                }
            }
            // In the middle of a wave, and of whatever growth is under way.
            if step == operations / 8 {
                table.reserve(model.len() * 3).unwrap();
            }
            if step % (operations / 50) == 0 {
                assert_eq!(table.check(), Ok(()));
                assert_eq!(table.len(), model.len());
            }
        }
    }
}

#[test]
fn iteration_is_one_moment() {
    let table = Table::with_capacity(0).unwrap();
    for number in 0_u32..50 {
        table.insert(&number.to_be_bytes(), number, b"before").unwrap();
    }
    let guard = table.pin();
    let entries = table.iter(&guard);
    table.clear();
    table.insert(b"later", 99, b"").unwrap();
    let mut numbers: Vec<_> = entries.map(|entry| *entry.header()).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (0..50).collect::<Vec<_>>());
    assert_eq!(table.iter(&guard).count(), 1);
}

const COUNT: u32 = if cfg!(miri) { 20 } else { 100 };

#[test]
fn cleared_tables_serve_again() {
    let table = Table::with_capacity(10).unwrap();
    for round in 0..3 {
        for number in 0..COUNT {
            let answer = table.insert(&number.to_be_bytes(), round, b"");
            assert_eq!(answer, Ok(Inserted::Inserted));
        }
        table.clear();
        assert!(table.is_empty());
        assert!(table.get(&1_u32.to_be_bytes(), &table.pin()).is_none());
        assert_eq!(table.check(), Ok(()));
        assert_eq!(table.memory().entry_bytes, 0);
    }
    assert_eq!(table.stats().removed, 3 * u64::from(COUNT));
}
