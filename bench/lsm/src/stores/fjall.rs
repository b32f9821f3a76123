//! fjall: one keyspace.

use std::path::Path;

use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};

use super::{CACHE_BYTES, Key, Store, Syncing, touch};

struct Fjall {
    database: Database,
    keyspace: Keyspace,
    syncing: Syncing,
}

pub(super) fn open(dir: &Path, syncing: Syncing) -> Box<dyn Store> {
    let database = Database::builder(dir).cache_size(CACHE_BYTES as u64).open().expect("a store");
    let keyspace = database.keyspace("bench", KeyspaceCreateOptions::default).expect("a keyspace");
    Box::new(Fjall { database, keyspace, syncing })
}

impl Store for Fjall {
    fn put_batch(&self, pairs: &[(Key, &[u8])]) {
        let mut batch = self.database.batch();
        for (key, value) in pairs {
            batch.insert(&self.keyspace, &key[..], *value);
        }
        batch.commit().expect("a write");
    }

    fn put(&self, key: &Key, value: &[u8]) {
        self.keyspace.insert(&key[..], value).expect("a write");
        if self.syncing == Syncing::EveryPut {
            self.database.persist(PersistMode::SyncData).expect("a sync");
        }
    }

    fn get(&self, key: &Key) -> Option<usize> {
        self.keyspace.get(key).expect("a read").map(|value| touch(&value))
    }

    fn scan(&self) -> u64 {
        let entries = self.keyspace.iter();
        let pairs = entries.map(|entry| entry.into_inner().expect("a read"));
        pairs.map(|(_, value)| touch(&value)).fold(0, |entries, _| entries + 1)
    }

    fn flush(&self) {
        self.keyspace.rotate_memtable_and_wait().expect("a flush");
        self.database.persist(PersistMode::SyncAll).expect("a sync");
    }
}
