//! LMDB through heed: the unnamed database. It has no cache of its own: it maps the file, and the kernel's page cache
//! holds all of it here.

use std::path::Path;

use heed::types::Bytes;
use heed::{Database, Env, EnvFlags, EnvOpenOptions};

use super::{Key, Store, Syncing, touch};

/// The largest file, in bytes; only address space.
const MAP_BYTES: usize = 64 << 30;
/// Threads that read at a time.
const READERS_MAX: u32 = 128;

struct Lmdb {
    env: Env,
    database: Database<Bytes, Bytes>,
}

pub(super) fn open(dir: &Path, syncing: Syncing) -> Box<dyn Store> {
    let mut options = EnvOpenOptions::new();
    options.map_size(MAP_BYTES).max_readers(READERS_MAX);
    if syncing == Syncing::Later {
        // SAFETY: without syncs a power cut may take the file; it is thrown away after the run.
        unsafe { options.flags(EnvFlags::NO_SYNC) };
    }
    // SAFETY: nobody else touches the file while it is mapped, and it is opened once.
    let env = unsafe { options.open(dir) }.expect("a store");
    let mut write = env.write_txn().expect("a transaction");
    let database = env.create_database(&mut write, None).expect("a database");
    write.commit().expect("a commit");
    Box::new(Lmdb { env, database })
}

impl Store for Lmdb {
    fn put_batch(&self, pairs: &[(Key, &[u8])]) {
        let mut write = self.env.write_txn().expect("a transaction");
        for (key, value) in pairs {
            self.database.put(&mut write, key, value).expect("a write");
        }
        write.commit().expect("a commit");
    }

    fn put(&self, key: &Key, value: &[u8]) {
        self.put_batch(&[(*key, value)]);
    }

    fn get(&self, key: &Key) -> Option<usize> {
        let read = self.env.read_txn().expect("a transaction");
        self.database.get(&read, key).expect("a read").map(touch)
    }

    fn scan(&self) -> u64 {
        let read = self.env.read_txn().expect("a transaction");
        let entries = self.database.iter(&read).expect("a read");
        entries.map(|entry| touch(entry.expect("a read").1)).fold(0, |entries, _| entries + 1)
    }

    fn flush(&self) {
        self.env.force_sync().expect("a sync");
    }
}
