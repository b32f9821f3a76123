//! The memtable: the newest entries, in memory, ordered.
//!
//! One writer (the commit leader, through [`MemtableWriter`]) inserts; any number of readers look up and iterate
//! without locks. A memtable that has no room freezes: its writer is dropped, and a background flush turns it into an
//! SST. It never moves or frees an entry before it is dropped as a whole.
//!
//! Invariants:
//! - at most one [`MemtableWriter`] exists per memtable;
//! - memory stays near `bytes_max`, because the leader asks `has_room` before it inserts and makes a larger memtable for a
//!   group that is larger than the usual one;
//! - entries become visible to readers through the engine's visible sequence number, never earlier.

mod arena;
mod filter;
mod prefix_codes;
mod skiplist;

use std::cell::{Cell, OnceCell};
use std::fmt;
use std::sync::Arc;

use self::arena::ArenaOffset;
use self::filter::MemtableFilter;
pub(crate) use self::prefix_codes::SharedPrefixes;
use self::skiplist::{Inserter, SkipList};
use crate::batch::{BatchOperation, EntryKind};
use crate::cursor::Cursor;
use crate::error::Result;
use crate::hash::key_hash;
use crate::value::{LookupOutcome, ValueBytes};

/// What a node takes beside its key and value: header, links and padding, 46 bytes on average.
const NODE_OVERHEAD_BYTES: usize = 48;
/// The arena has room for this many times the memtable's bytes, for heights and padding above average and chunk ends.
const ARENA_SLACK: usize = 4;
/// A memtable that knows no shared prefixes freezes at this many bytes, so that the next one does; but not before it has so many
/// entries.
const LEARNING_BYTES: usize = 1 << 20;
const LEARNING_ENTRIES: u64 = 1 << 10;
/// A memtable is made of about this many chunks. The first of each region is there from the start, so an engine that holds
/// little takes two of them.
const CHUNKS_USUAL: usize = 64;

/// Entries in memory.
#[derive(Debug)]
pub(crate) struct Memtable {
    list: SkipList,
    filter: MemtableFilter,
}

/// The right to insert into one memtable.
#[derive(Debug)]
pub(crate) struct MemtableWriter {
    table: Arc<Memtable>,
    inserter: Inserter,
    bytes_max: usize,
    /// No shared prefixes are known yet.
    learns: bool,
    bytes: usize,
    entries: u64,
}

/// What a group of operations takes in a memtable, in bytes: a little more than it will.
pub(crate) fn room_for(bytes: usize, ops: usize) -> usize {
    bytes + ops * NODE_OVERHEAD_BYTES
}

impl Memtable {
    /// An empty memtable that freezes at about `bytes_max` bytes and has room for a group of `room`, and its writer. It is
    /// fastest if the keys have the shared prefixes.
    pub(crate) fn new(
        bytes_max: usize,
        room: usize,
        prefixes: SharedPrefixes,
    ) -> (Arc<Self>, MemtableWriter) {
        let bytes_max = bytes_max.max(room);
        let learns = prefixes.is_empty();
        let (list, inserter) =
            SkipList::new(bytes_max * ARENA_SLACK, bytes_max / CHUNKS_USUAL, prefixes);
        let table = Arc::new(Self { list, filter: MemtableFilter::new(bytes_max) });
        let writer = MemtableWriter {
            table: table.clone(),
            inserter,
            bytes_max,
            learns,
            bytes: 0,
            entries: 0,
        };
        (table, writer)
    }

    /// The shared prefixes of its keys: a good guess at those of keys to come.
    pub(crate) fn prefixes(&self) -> SharedPrefixes {
        SharedPrefixes::learn(self.list.sample())
    }

    /// The newest version of `key` that is not newer than `seqno`, of its value at least the first `bytes_max` bytes. `hash` is the key's.
    pub(crate) fn get(&self, key: &[u8], hash: u64, seqno: u64, bytes_max: usize) -> LookupOutcome {
        let Some(entry) = self.filter.find(hash) else { return LookupOutcome::Nothing };
        let newest = self.list.record(entry);
        let record = match newest.seqno() <= seqno && newest.is_of(key) {
            true => newest,
            false => match self.list.find(key, seqno) {
                Some(record) => record,
                None => return LookupOutcome::Nothing,
            },
        };
        match record.kind() {
            EntryKind::Delete => LookupOutcome::Deleted,
            EntryKind::Put => {
                let mut value = Vec::new();
                record.copy_start(bytes_max, &mut value);
                LookupOutcome::Value(ValueBytes::owned(value))
            }
        }
    }
}

impl MemtableWriter {
    /// Whether a group that takes `room` bytes (see [`room_for`]) fits.
    pub(crate) fn has_room(&self, room: usize) -> bool {
        let enough = self.learns && self.entries >= LEARNING_ENTRIES;
        let bytes_max = if enough { self.bytes_max.min(LEARNING_BYTES) } else { self.bytes_max };
        self.bytes + room <= bytes_max
    }

    /// Whether nothing was inserted yet.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries == 0
    }

    /// The memory taken by entries, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.inserter.reserved_bytes()
    }

    /// Adds an entry. Its sequence number is above all before it.
    pub(crate) fn insert(&mut self, seqno: u64, operation: BatchOperation<'_>) {
        let hash = key_hash(operation.key);
        let known = self.table.filter.find(hash);
        let entry = self.inserter.insert(&self.table.list, seqno, operation, known);
        let entry = entry.expect("the leader asked for room, and the arena has twice that");
        self.table.filter.insert(hash, entry);
        self.bytes += room_for(operation.key.len() + operation.value.len(), 1);
        self.entries += 1;
    }
}

/// Ordered reading of a memtable.
pub(crate) struct MemtableCursor {
    table: Arc<Memtable>,
    place: Option<ArenaOffset>,
    /// The node that `key` was copied from.
    node: Option<ArenaOffset>,
    key: Vec<u8>,
    /// Copied when it is asked for: most entries of keys that are written often are passed by.
    value: OnceCell<Vec<u8>>,
    /// Room for the next value.
    spare: Cell<Vec<u8>>,
    seqno: u64,
    kind: EntryKind,
}

impl MemtableCursor {
    /// A cursor that stands nowhere yet.
    pub(crate) fn new(table: Arc<Memtable>) -> Self {
        let (value, spare) = (OnceCell::new(), Cell::default());
        let (place, node) = (None, None);
        Self { table, place, node, key: vec![], value, spare, seqno: 0, kind: EntryKind::Delete }
    }

    fn stand_at(&mut self, place: Option<ArenaOffset>) {
        self.place = place;
        if let Some(value) = self.value.take() {
            self.spare.set(value);
        }
        if let Some(address) = place {
            let record = self.table.list.record(address);
            if self.node != Some(record.node()) {
                self.node = Some(record.node());
                record.copy_key(&mut self.key);
            }
            self.seqno = record.seqno();
            self.kind = record.kind();
        }
    }
}

impl fmt::Debug for MemtableCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemtableCursor").field("place", &self.place).finish_non_exhaustive()
    }
}

impl Cursor for MemtableCursor {
    fn seek_first(&mut self) -> Result<()> {
        self.stand_at(self.table.list.first());
        Ok(())
    }

    fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.stand_at(self.table.list.seek(key, u64::MAX));
        Ok(())
    }

    fn next(&mut self) -> Result<()> {
        let place = self.place.and_then(|address| self.table.list.after(address));
        self.stand_at(place);
        Ok(())
    }

    fn valid(&self) -> bool {
        self.place.is_some()
    }

    fn key(&self) -> &[u8] {
        &self.key
    }

    fn value(&self) -> &[u8] {
        self.value.get_or_init(|| {
            let mut value = self.spare.take();
            value.clear();
            if let Some(address) = self.place {
                self.table.list.record(address).copy_value(&mut value);
            }
            value
        })
    }

    fn seqno(&self) -> u64 {
        self.seqno
    }

    fn kind(&self) -> EntryKind {
        self.kind
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]
    use std::cmp::Reverse;
    use std::collections::BTreeMap;
    use std::ops::Bound;

    use super::*;

    /// Entries in the memtable's order.
    type Model = BTreeMap<(Vec<u8>, Reverse<u64>), (EntryKind, Vec<u8>)>;

    fn put<'a>(key: &'a [u8], value: &'a [u8]) -> BatchOperation<'a> {
        BatchOperation { kind: EntryKind::Put, key, value }
    }

    fn entries(table: &Arc<Memtable>) -> Vec<(Vec<u8>, u64, EntryKind, Vec<u8>)> {
        let mut cursor = MemtableCursor::new(table.clone());
        let mut all = Vec::new();
        cursor.seek_first().unwrap();
        while cursor.valid() {
            all.push((
                cursor.key().to_vec(),
                cursor.seqno(),
                cursor.kind(),
                cursor.value().to_vec(),
            ));
            cursor.next().unwrap();
        }
        all
    }

    /// A key of random length from few letters, so that prefixes, zeros and equal words are common.
    fn random_key(dice: &mut fastrand::Rng) -> Vec<u8> {
        let len = if dice.u8(..) < 8 { dice.usize(100..400) } else { dice.usize(..20) };
        (0..len).map(|_| *dice.choice(&[0, 0, 0, 1, 255]).unwrap()).collect()
    }

    #[test]
    fn it_agrees_with_a_btree_map() {
        let mut dice = fastrand::Rng::with_seed(1);
        let (table, mut writer) = Memtable::new(1 << 20, 0, SharedPrefixes::default());
        let mut model = Model::new();
        for seqno in 1..4000 {
            let key = random_key(&mut dice);
            let value = vec![seqno as u8; dice.usize(..40)];
            let kind = if dice.u8(..) < 50 { EntryKind::Delete } else { EntryKind::Put };
            let value = if kind == EntryKind::Put { value } else { vec![] };
            writer.insert(seqno, BatchOperation { kind, key: &key, value: &value });
            model.insert((key, Reverse(seqno)), (kind, value));
        }
        let want: Vec<_> =
            model.iter().map(|((k, s), (kind, v))| (k.clone(), s.0, *kind, v.clone())).collect();
        assert_eq!(entries(&table), want);
        for _ in 0..4000 {
            let key = random_key(&mut dice);
            let seqno = dice.u64(..4000);
            let after = (key.clone(), Reverse(seqno));
            let newest = model.range((Bound::Included(after), Bound::Unbounded)).next();
            let want = newest.filter(|((k, _), _)| *k == key);
            match (table.get(&key, key_hash(&key), seqno, usize::MAX), want) {
                (LookupOutcome::Nothing, None) => {}
                (LookupOutcome::Deleted, Some((_, (EntryKind::Delete, _)))) => {}
                (LookupOutcome::Value(got), Some((_, (EntryKind::Put, value)))) => {
                    assert_eq!(*got, **value);
                    let start = dice.usize(..20);
                    let LookupOutcome::Value(got) = table.get(&key, key_hash(&key), seqno, start)
                    else {
                        panic!("it was there")
                    };
                    assert_eq!(*got, value[..start.min(value.len())]);
                }
                (got, want) => panic!("{got:?} against {want:?}"),
            }
        }
    }

    /// As a server writes them: records of a secret next to each other, some of keys that are there and some not.
    #[test]
    fn versions_of_few_secrets_agree_with_a_btree_map_and_each_level_is_in_order() {
        for seed in 0..8 {
            let mut dice = fastrand::Rng::with_seed(seed);
            // A filter of one word for 64 secrets does not know most entries, one of many words does.
            let bytes_max = if seed % 2 == 0 { 1 } else { 4 << 20 };
            let (table, mut writer) = Memtable::new(bytes_max, 4 << 20, SharedPrefixes::default());
            let mut model = Model::new();
            let mut versions = [0_u8; 64];
            for seqno in 1..6000 {
                let secret = dice.usize(..versions.len());
                let version = &mut versions[secret];
                let (at, kind) = match dice.u8(..4) {
                    0 => (0, EntryKind::Put),
                    1 => (version.saturating_sub(dice.u8(..12)), EntryKind::Delete),
                    _ => {
                        *version = version.wrapping_add(1);
                        (*version, EntryKind::Put)
                    }
                };
                let key = [secret as u8, at];
                let value = if kind == EntryKind::Put { vec![seqno as u8; 9] } else { vec![] };
                writer.insert(seqno, BatchOperation { kind, key: &key, value: &value });
                model.insert((key.to_vec(), Reverse(seqno)), (kind, value));
            }
            table.list.check_levels();
            let want: Vec<_> =
                model.into_iter().map(|((k, s), (kind, v))| (k, s.0, kind, v)).collect();
            assert_eq!(entries(&table), want);
        }
    }

    #[test]
    fn sorted_and_reversed_loads_come_out_sorted() {
        for reversed in [false, true] {
            let (table, mut writer) = Memtable::new(1 << 20, 0, SharedPrefixes::default());
            for n in 0..5000u64 {
                let key = if reversed { 5000 - n } else { n };
                writer.insert(n + 1, put(&key.to_be_bytes(), b"v"));
            }
            let all = entries(&table);
            assert_eq!(all.len(), 5000);
            assert!(all.is_sorted_by(|a, b| a.0 < b.0));
        }
    }

    #[test]
    fn memory_is_bounded_and_the_largest_value_has_room() {
        let (table, mut writer) = Memtable::new(64 << 10, 0, SharedPrefixes::default());
        let mut seqno = 0;
        while writer.has_room(room_for(1100, 1)) {
            seqno += 1;
            writer.insert(seqno, put(&seqno.to_be_bytes(), &[1; 1024]));
        }
        assert!(writer.bytes() < 128 << 10, "{} bytes", writer.bytes());
        assert!(writer.bytes() as u64 >= seqno * 1024, "{} bytes", writer.bytes());
        assert_eq!(entries(&table).len() as u64, seqno);
        let value = vec![9; crate::limits::VALUE_BYTES_MAX];
        assert!(!writer.has_room(room_for(value.len() + 20, 1)));
        let (table, mut writer) =
            Memtable::new(0, room_for(value.len() + 20, 1), SharedPrefixes::default());
        writer.insert(1, put(b"k", &value));
        match table.get(b"k", key_hash(b"k"), 1, usize::MAX) {
            LookupOutcome::Value(got) => assert!(*got == *value),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn it_has_room_to_the_last_byte() {
        assert_eq!(room_for(100, 3), 100 + 3 * NODE_OVERHEAD_BYTES);
        let (_, mut writer) = Memtable::new(10_000, 0, SharedPrefixes::default());
        assert!(writer.has_room(10_000) && !writer.has_room(10_001) && writer.is_empty());
        writer.insert(1, put(b"k", b"value 890"));
        let left = 10_000 - room_for(10, 1);
        assert!(writer.has_room(left) && !writer.has_room(left + 1) && !writer.is_empty());
        let (_, writer) = Memtable::new(10_000, 20_000, SharedPrefixes::default());
        assert!(writer.has_room(20_000) && !writer.has_room(20_001), "room for the group");
    }

    #[test]
    fn one_that_knows_no_prefixes_freezes_early_once_it_can_tell_them() {
        let learned = SharedPrefixes::learn(vec![b"k1".to_vec(), b"k2".to_vec()]);
        assert!(!learned.is_empty());
        for (prefixes, is_early) in [(SharedPrefixes::default(), true), (learned, false)] {
            let (_, mut writer) = Memtable::new(4 << 20, 0, prefixes);
            for seqno in 1..=LEARNING_ENTRIES {
                assert!(writer.has_room(2 << 20), "too few to learn from");
                writer.insert(seqno, put(&seqno.to_be_bytes(), b""));
            }
            let left = LEARNING_BYTES - writer.bytes;
            assert!(writer.has_room(left));
            assert_eq!(writer.has_room(left + 1), !is_early);
        }
    }

    #[test]
    fn prefixes_are_learned_from_keys_all_over_the_list() {
        let key = |n: u64| {
            [&b"prefix/"[..], &n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()].concat()
        };
        for (count, at_least) in [(10, 10), (256, 256), (5000, 256)] {
            let (table, mut writer) = Memtable::new(1 << 20, 0, SharedPrefixes::default());
            (0..count).for_each(|n| writer.insert(n + 1, put(&key(n), b"")));
            let sample = table.list.sample();
            assert!(sample.is_sorted() && sample.len() >= at_least, "{} of {count}", sample.len());
            assert!(sample.len() <= 1000 || count < 1000, "{} of {count}", sample.len());
            let mut all: Vec<_> = (0..count).map(key).collect();
            all.sort();
            assert!(sample.iter().all(|key| all.binary_search(key).is_ok()));
            assert_eq!(table.prefixes(), SharedPrefixes::learn(vec![key(0), key(1)]));
        }
    }

    #[test]
    fn versions_between_two_that_are_there_find_the_older_one() {
        let (table, mut writer) = Memtable::new(1 << 20, 0, SharedPrefixes::default());
        (1..=5).for_each(|n| writer.insert(10 * n, put(b"key", &[n as u8])));
        let get = |seqno| match table.get(b"key", key_hash(b"key"), seqno, usize::MAX) {
            LookupOutcome::Value(value) => Some(value[0]),
            _ => None,
        };
        assert_eq!(
            [9, 10, 19, 20, 49, 50, 51].map(get),
            [9, 10, 19, 20, 49, 50, 51]
                .map(|seqno| { (1..=5u8).rev().find(|n| 10 * u64::from(*n) <= seqno) })
        );
    }

    #[test]
    fn readers_see_a_sorted_whole_list_while_the_writer_inserts() {
        let (table, mut writer) = Memtable::new(4 << 20, 0, SharedPrefixes::default());
        std::thread::scope(|scope| {
            for _ in 0..2 {
                let table = table.clone();
                scope.spawn(move || {
                    let mut seen = 0;
                    while seen < 20_000 {
                        let all = entries(&table);
                        assert!(all.is_sorted_by(|a, b| a.0 < b.0));
                        assert!(all.iter().all(|(key, _, _, value)| *key == *value));
                        assert!(all.len() >= seen);
                        seen = all.len();
                    }
                });
            }
            let mut dice = fastrand::Rng::with_seed(2);
            let mut keys: Vec<u64> = (0..20_000).collect();
            dice.shuffle(&mut keys);
            for (n, key) in keys.into_iter().enumerate() {
                writer.insert(n as u64 + 1, put(&key.to_be_bytes(), &key.to_be_bytes()));
            }
        });
    }
}

/// Run by `cargo x loom`.
#[cfg(all(test, loom))]
mod loom_tests {
    use loom::sync::Mutex;

    use super::*;

    fn put<'a>(key: &'a [u8], value: &'a [u8]) -> BatchOperation<'a> {
        BatchOperation { kind: EntryKind::Put, key, value }
    }

    /// What a reader reaches is whole and in order, and what was there before it began is found.
    fn read(table: &Arc<Memtable>) {
        let mut cursor = MemtableCursor::new(table.clone());
        cursor.seek_first().expect("memory does not fail");
        let mut seen = Vec::new();
        while cursor.valid() {
            let whole = [cursor.key(), cursor.seqno().to_string().as_bytes()].concat();
            assert_eq!(cursor.value(), whole);
            seen.push((cursor.key().to_vec(), u64::MAX - cursor.seqno()));
            cursor.next().expect("memory does not fail");
        }
        assert!(seen.is_sorted() && seen.iter().any(|(key, _)| key == b"b"));
        assert!(matches!(table.get(b"b", key_hash(b"b"), 1, usize::MAX), LookupOutcome::Value(_)));
    }

    /// One reader beside the leader, whose part two threads take in turn, as writers do. Every interleaving that can
    /// differ, without a bound: 4,962 of them.
    #[test]
    fn loom_a_reader_reaches_only_whole_entries_in_order() {
        loom::model(|| {
            let (table, mut writer) = Memtable::new(128, 0, SharedPrefixes::default());
            writer.insert(1, put(b"b", b"b1"));
            let leader = Arc::new(Mutex::new((writer, 1)));
            let lead = |leader: Arc<Mutex<(MemtableWriter, u64)>>, key: &'static [u8]| {
                let mut leader = leader.lock().expect("no panic");
                leader.1 += 1;
                let seqno = leader.1;
                let value = [key, seqno.to_string().as_bytes()].concat();
                leader.0.insert(seqno, put(key, &value));
            };
            let second = {
                let leader = leader.clone();
                loom::thread::spawn(move || lead(leader, b"a"))
            };
            let reader = {
                let table = table.clone();
                loom::thread::spawn(move || read(&table))
            };
            lead(leader, b"b");
            second.join().expect("no panic");
            reader.join().expect("the reader's assertions hold");
        });
    }
}
