//! Ours, with its defaults but for the cache.

use std::path::Path;

use kallisto_lsm::disk::RealDisk;
use kallisto_lsm::{Engine, EntryBatch, LogKeeping, Options, Sync, SyncMode};

use super::{CACHE_BYTES, Key, Store, Syncing, touch};

pub(super) fn open(dir: &Path, syncing: Syncing) -> Box<dyn Store> {
    let mode = match syncing {
        Syncing::Later => SyncMode::OnDemand,
        Syncing::EveryPut => SyncMode::EveryCommit,
    };
    let options = Options {
        durability: LogKeeping::Wal(mode),
        cache_bytes: CACHE_BYTES as u64,
        ..Options::default()
    };
    Box::new(Engine::open(RealDisk::shared(), dir, options).expect("a store"))
}

impl Store for Engine {
    fn put_batch(&self, pairs: &[(Key, &[u8])]) {
        let mut batch = EntryBatch::new();
        for (key, value) in pairs {
            batch.put(key, value).expect("a sound pair");
        }
        self.write(&batch, Sync::Mode).expect("a write");
    }

    fn put(&self, key: &Key, value: &[u8]) {
        Self::put(self, key, value).expect("a write");
    }

    fn get(&self, key: &Key) -> Option<usize> {
        Self::get(self, key).expect("a read").map(|value| touch(&value))
    }

    fn scan(&self) -> u64 {
        let mut scan = Self::scan(self, ..).expect("a scan");
        let mut entries = 0;
        while let Some((_, value)) = scan.next_entry().expect("a read") {
            touch(value);
            entries += 1;
        }
        entries
    }

    fn flush(&self) {
        Self::flush(self).expect("a flush");
        self.sync().expect("a sync");
    }
}
