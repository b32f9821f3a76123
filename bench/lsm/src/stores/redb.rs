//! redb: one table of byte slices. Its unsynced commits keep pages that only a synced one frees, so every so many batches
//! one is synced; otherwise the file would grow without bound.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use redb::{Database, Durability, ReadableDatabase, ReadableTable, TableDefinition};

use super::{CACHE_BYTES, Key, Store, Syncing, touch};

const TABLE: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("bench");
/// Batches from one synced commit to the next.
const SYNC_EVERY: u64 = 64;

struct Redb {
    database: Database,
    batches: AtomicU64,
}

pub(super) fn open(dir: &Path, _syncing: Syncing) -> Box<dyn Store> {
    let mut builder = Database::builder();
    let database =
        builder.set_cache_size(CACHE_BYTES).create(dir.join("bench.redb")).expect("a store");
    let store = Redb { database, batches: AtomicU64::new(0) };
    store.commit(Durability::Immediate, &[]);
    Box::new(store)
}

impl Redb {
    fn commit(&self, durability: Durability, pairs: &[(Key, &[u8])]) {
        let mut write = self.database.begin_write().expect("a transaction");
        write.set_durability(durability).expect("a fresh transaction");
        {
            let mut table = write.open_table(TABLE).expect("a table");
            for (key, value) in pairs {
                table.insert(&key[..], *value).expect("a write");
            }
        }
        write.commit().expect("a commit");
    }
}

impl Store for Redb {
    fn put_batch(&self, pairs: &[(Key, &[u8])]) {
        let batches = self.batches.fetch_add(1, Ordering::Relaxed);
        let durability = match (batches + 1).is_multiple_of(SYNC_EVERY) {
            true => Durability::Immediate,
            false => Durability::None,
        };
        self.commit(durability, pairs);
    }

    fn put(&self, key: &Key, value: &[u8]) {
        self.commit(Durability::Immediate, &[(*key, value)]);
    }

    fn get(&self, key: &Key) -> Option<usize> {
        let read = self.database.begin_read().expect("a transaction");
        let table = read.open_table(TABLE).expect("a table");
        table.get(&key[..]).expect("a read").map(|value| touch(value.value()))
    }

    fn scan(&self) -> u64 {
        let read = self.database.begin_read().expect("a transaction");
        let table = read.open_table(TABLE).expect("a table");
        let mut entries = 0;
        for entry in table.iter().expect("a read") {
            touch(entry.expect("a read").1.value());
            entries += 1;
        }
        entries
    }

    fn flush(&self) {
        self.commit(Durability::Immediate, &[]);
    }
}
