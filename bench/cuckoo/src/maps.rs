//! The maps, each used as its documentation says.

use std::collections::HashMap;
use std::sync::RwLock;

use kallisto_cuckoo::Table;

use crate::keys::{KEY_BYTES, key};

/// A concurrent map of bytes to bytes. Work comes in batches, so that one dynamic call and one
/// guard serve many lookups.
pub trait Map: Sync + Send {
    /// Which map this is.
    fn name(&self) -> &'static str;
    /// Inserts or replaces.
    fn put(&self, key: &[u8], value: &[u8]);
    /// Looks all up under one guard; the sum of two bytes of each value found.
    fn read(&self, numbers: &[u32]) -> u64;
    /// Looks one up, guard and all.
    fn read_one(&self, key: &[u8]) -> u64;
    /// How many entries there are.
    fn count(&self) -> usize;
}

/// The names `make` knows, ours first.
pub const NAMES: [&str; 7] = [
    "kallisto",
    "kallisto get_many",
    "dashmap",
    "papaya",
    "scc HashMap",
    "scc HashIndex",
    "std RwLock",
];

/// An empty map with room for `entries`.
pub fn make(name: &str, entries: usize) -> Box<dyn Map> {
    match name {
        "kallisto" => Box::new(Ours(Table::with_capacity(entries).expect("a table"))),
        "dashmap" => Box::new(Dash(dashmap::DashMap::with_capacity(entries))),
        "papaya" => Box::new(Papaya(papaya::HashMap::with_capacity(entries))),
        "scc HashMap" => Box::new(SccMap(scc::HashMap::with_capacity(entries))),
        "scc HashIndex" => Box::new(SccIndex(scc::HashIndex::with_capacity(entries))),
        "std RwLock" => Box::new(Std(RwLock::new(HashMap::with_capacity(entries)))),
        other => panic!("no map of the name {other}"),
    }
}

type Bytes = Box<[u8]>;

#[inline]
fn touch(value: &[u8]) -> u64 {
    u64::from(value[0]) + u64::from(value[value.len() - 1])
}

/// Ours. The header is a version number, as the product's entries carry one.
pub struct Ours(pub Table<u64>);

impl Map for Ours {
    fn name(&self) -> &'static str {
        "kallisto"
    }
    fn put(&self, key: &[u8], value: &[u8]) {
        self.0.upsert(key, 1, value).expect("room");
    }
    fn read(&self, numbers: &[u32]) -> u64 {
        let guard = self.0.pin();
        let find = |number: &u32| self.0.get(&key(*number), &guard);
        numbers.iter().filter_map(find).map(|entry| touch(entry.value())).sum()
    }
    fn read_one(&self, key: &[u8]) -> u64 {
        self.0.get(key, &self.0.pin()).map_or(0, |entry| touch(entry.value()))
    }
    fn count(&self) -> usize {
        self.0.len()
    }
}

/// A view of ours that reads by `get_many`.
pub struct Many<'t>(pub &'t Ours);

impl Map for Many<'_> {
    fn name(&self) -> &'static str {
        "kallisto get_many"
    }
    fn put(&self, key: &[u8], value: &[u8]) {
        self.0.put(key, value);
    }
    fn read(&self, numbers: &[u32]) -> u64 {
        let guard = self.0.0.pin();
        let mut found = Vec::with_capacity(16);
        let mut sum = 0;
        for numbers in numbers.chunks(16) {
            let mut keys = [[0; KEY_BYTES]; 16];
            let mut slices = [&[][..]; 16];
            for (slot, number) in keys.iter_mut().zip(numbers) {
                *slot = key(*number);
            }
            for (slot, key) in slices.iter_mut().zip(&keys) {
                *slot = key;
            }
            self.0.0.get_many(&slices[..numbers.len()], &mut found, &guard);
            sum += found.iter().flatten().map(|entry| touch(entry.value())).sum::<u64>();
        }
        sum
    }
    fn read_one(&self, key: &[u8]) -> u64 {
        self.0.read_one(key)
    }
    fn count(&self) -> usize {
        self.0.count()
    }
}

struct Dash(dashmap::DashMap<Bytes, Bytes>);

impl Map for Dash {
    fn name(&self) -> &'static str {
        "dashmap"
    }
    fn put(&self, key: &[u8], value: &[u8]) {
        self.0.insert(key.into(), value.into());
    }
    fn read(&self, numbers: &[u32]) -> u64 {
        numbers.iter().map(|number| self.read_one(&key(*number))).sum()
    }
    fn read_one(&self, key: &[u8]) -> u64 {
        self.0.get(key).map_or(0, |value| touch(&value))
    }
    fn count(&self) -> usize {
        self.0.len()
    }
}

struct Papaya(papaya::HashMap<Bytes, Bytes>);

impl Map for Papaya {
    fn name(&self) -> &'static str {
        "papaya"
    }
    fn put(&self, key: &[u8], value: &[u8]) {
        self.0.pin().insert(key.into(), value.into());
    }
    fn read(&self, numbers: &[u32]) -> u64 {
        let map = self.0.pin();
        numbers
            .iter()
            .filter_map(|number| map.get(&key(*number)[..]))
            .map(|value| touch(value))
            .sum()
    }
    fn read_one(&self, key: &[u8]) -> u64 {
        self.0.pin().get(key).map_or(0, |value| touch(value))
    }
    fn count(&self) -> usize {
        self.0.len()
    }
}

struct SccMap(scc::HashMap<Bytes, Bytes>);

impl Map for SccMap {
    fn name(&self) -> &'static str {
        "scc HashMap"
    }
    fn put(&self, key: &[u8], value: &[u8]) {
        self.0.upsert_sync(key.into(), value.into());
    }
    fn read(&self, numbers: &[u32]) -> u64 {
        numbers.iter().map(|number| self.read_one(&key(*number))).sum()
    }
    fn read_one(&self, key: &[u8]) -> u64 {
        self.0.read_sync(key, |_, value| touch(value)).unwrap_or(0)
    }
    fn count(&self) -> usize {
        self.0.len()
    }
}

struct SccIndex(scc::HashIndex<Bytes, Bytes>);

impl Map for SccIndex {
    fn name(&self) -> &'static str {
        "scc HashIndex"
    }
    fn put(&self, key: &[u8], value: &[u8]) {
        match self.0.entry_sync(key.into()) {
            scc::hash_index::Entry::Occupied(mut entry) => entry.update(value.into()),
            scc::hash_index::Entry::Vacant(entry) => drop(entry.insert_entry(value.into())),
        }
    }
    fn read(&self, numbers: &[u32]) -> u64 {
        let guard = scc::Guard::new();
        let find = |number: &u32| self.0.peek(&key(*number)[..], &guard);
        numbers.iter().filter_map(find).map(|value| touch(value)).sum()
    }
    fn read_one(&self, key: &[u8]) -> u64 {
        self.0.peek_with(key, |_, value| touch(value)).unwrap_or(0)
    }
    fn count(&self) -> usize {
        self.0.len()
    }
}

struct Std(RwLock<HashMap<Bytes, Bytes>>);

impl Map for Std {
    fn name(&self) -> &'static str {
        "std RwLock"
    }
    fn put(&self, key: &[u8], value: &[u8]) {
        self.0.write().expect("no panics").insert(key.into(), value.into());
    }
    fn read(&self, numbers: &[u32]) -> u64 {
        numbers.iter().map(|number| self.read_one(&key(*number))).sum()
    }
    fn read_one(&self, key: &[u8]) -> u64 {
        self.0.read().expect("no panics").get(key).map_or(0, |value| touch(value))
    }
    fn count(&self) -> usize {
        self.0.read().expect("no panics").len()
    }
}
