//! Decoded keys, so that an encryption reads no store.
//!
//! A key gets here when a request decodes it, and leaves when its record changes. What is offered counts only if no key changed since
//! before the store was read: then it cannot be older than what was committed. Reads take no lock. Keys that left are wiped once no
//! request holds them and the table has let go of them, at the latest when the server seals.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use kallisto_cuckoo::Table;
use kallisto_engine::Memory;
use kallisto_transit::TransitKey;

use super::store::KEY_FOLDER;

/// Most keys of a mount kept decoded; past it all are let go, and those in use come back.
const KEYS_MAX: usize = 1 << 16;
/// Keys there is room for at first; it grows.
const KEYS_AT_START: usize = 16;

/// The decoded keys of a mount.
pub(super) struct KeyCache {
    /// `None` where the operating system gave no randomness for the table's hash key: then nothing is kept.
    table: Option<Table<Arc<TransitKey>>>,
    changes: AtomicU64,
    /// The turn of who writes to the table.
    turn: Mutex<()>,
}

/// How many changes had been seen when a read began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ChangeCount(u64);

impl KeyCache {
    /// An empty cache.
    pub(super) fn new() -> Self {
        let table = Table::with_capacity(KEYS_AT_START).ok();
        Self { table, changes: AtomicU64::new(0), turn: Mutex::default() }
    }

    /// The key in a record, if it is here.
    pub(super) fn get(&self, record: &str) -> Option<Arc<TransitKey>> {
        let table = self.table.as_ref()?;
        let guard = table.pin();
        table.get(record.as_bytes(), &guard).map(|entry| Arc::clone(entry.header()))
    }

    /// To be asked before the store is read for what will be offered.
    pub(super) fn changes(&self) -> ChangeCount {
        ChangeCount(self.changes.load(Ordering::Acquire))
    }

    /// Keeps a key that was read after `changes` were counted.
    pub(super) fn offer(&self, changes: ChangeCount, record: &str, key: &Arc<TransitKey>) {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(table) = self.table.as_ref().filter(|_| self.changes() == changes) else { return };
        if table.len() >= KEYS_MAX {
            table.clear();
        }
        // A table that refuses only stays without: the next request reads the store again.
        let _ = table.upsert(record.as_bytes(), Arc::clone(key), &[]);
    }

    fn change(&self, forget: impl FnOnce(&Table<Arc<TransitKey>>)) {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        // Release: whoever reads the store after seeing this count finds the change there already.
        self.changes.fetch_add(1, Ordering::Release);
        if let Some(table) = &self.table {
            forget(table);
        }
    }
}

impl Memory for KeyCache {
    /// The next request that uses the key decodes it.
    fn put(&self, name: &str, _: &[u8]) -> bool {
        self.remove(name);
        true
    }

    fn remove(&self, name: &str) {
        if name.starts_with(KEY_FOLDER) {
            self.change(|table| {
                table.remove(name.as_bytes());
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use kallisto_transit::{KeyKind, KeySpec};

    use super::*;

    #[test]
    fn a_key_is_kept_until_it_changes_and_not_if_it_changed_meanwhile() {
        let cache = KeyCache::new();
        let key = Arc::new(TransitKey::make(KeyKind::Hmac, &KeySpec::default(), 0).unwrap());
        let before = cache.changes();
        cache.offer(before, "key/a", &key);
        assert!(cache.get("key/a").is_some());
        assert!(cache.get("key/b").is_none());
        cache.remove("key/b");
        assert!(cache.get("key/a").is_some());
        assert!(cache.put("key/a", b"another"));
        assert!(cache.get("key/a").is_none());
        cache.offer(before, "key/a", &key);
        assert!(cache.get("key/a").is_none(), "what was read before the change is not kept");
    }
}
