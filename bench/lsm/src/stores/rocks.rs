//! RocksDB: block-based tables with a Bloom filter of 10 bits and an LRU cache; two background threads, as ours.

use std::path::Path;

use rocksdb::{
    BlockBasedOptions, Cache, DB, DBCompressionType, IteratorMode, Options, WriteBatch,
    WriteOptions,
};

use super::{CACHE_BYTES, Key, Store, Syncing, touch};

struct Rocks {
    database: DB,
    write: WriteOptions,
}

pub(super) fn open(dir: &Path, syncing: Syncing) -> Box<dyn Store> {
    let mut table = BlockBasedOptions::default();
    table.set_block_cache(&Cache::new_lru_cache(CACHE_BYTES));
    table.set_bloom_filter(10.0, false);
    let mut options = Options::default();
    options.create_if_missing(true);
    options.set_compression_type(DBCompressionType::None);
    options.set_block_based_table_factory(&table);
    options.increase_parallelism(2);
    let database = DB::open(&options, dir).expect("a store");
    let mut write = WriteOptions::default();
    write.set_sync(syncing == Syncing::EveryPut);
    Box::new(Rocks { database, write })
}

impl Store for Rocks {
    fn put_batch(&self, pairs: &[(Key, &[u8])]) {
        let mut batch = WriteBatch::default();
        for (key, value) in pairs {
            batch.put(key, value);
        }
        self.database.write_opt(batch, &self.write).expect("a write");
    }

    fn put(&self, key: &Key, value: &[u8]) {
        self.database.put_opt(key, value, &self.write).expect("a write");
    }

    fn get(&self, key: &Key) -> Option<usize> {
        self.database.get_pinned(key).expect("a read").map(|value| touch(&value))
    }

    fn scan(&self) -> u64 {
        let entries = self.database.iterator(IteratorMode::Start);
        entries.map(|entry| touch(&entry.expect("a read").1)).fold(0, |entries, _| entries + 1)
    }

    fn flush(&self) {
        self.database.flush().expect("a flush");
        self.database.flush_wal(true).expect("a sync");
    }
}
