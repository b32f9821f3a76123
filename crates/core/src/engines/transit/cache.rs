//! Decoded keys, so that an encryption reads no store.
//!
//! A key gets here when a request decodes it, and leaves when the fold sees its record change. What
//! is offered counts only if no key changed since before the store was read: then it cannot be older
//! than what the fold has seen. Reads take no lock. Keys that left are wiped once no request holds
//! them and the table has let go of them, at the latest when the server seals.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use kallisto_cuckoo::Table;
use kallisto_transit::Key;

use crate::storage::keys::MountId;
use crate::view::hot_key;

/// Most keys kept decoded; past it all are let go, and those in use come back.
const KEYS_MAX: usize = 1 << 16;
/// Keys there is room for at first; it grows.
const KEYS_AT_START: usize = 16;

/// The decoded keys of every mount.
pub(crate) struct KeyCache {
    table: Table<Arc<Key>>,
    changes: AtomicU64,
    /// The turn of who writes to the table.
    turn: Mutex<()>,
}

/// How many changes had been seen when a read began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Changes(u64);

impl KeyCache {
    /// An empty cache.
    ///
    /// # Errors
    /// When the operating system gives no randomness for the table's hash key.
    pub(crate) fn new() -> Result<Self, kallisto_cuckoo::Error> {
        let table = Table::with_capacity(KEYS_AT_START)?;
        Ok(Self { table, changes: AtomicU64::new(0), turn: Mutex::default() })
    }

    /// The key under a name of a mount's engine storage, if it is here.
    pub(super) fn get(&self, id: MountId, name: &str) -> Option<Arc<Key>> {
        let guard = self.table.pin();
        self.table.get(&hot_key(id, name), &guard).map(|entry| Arc::clone(entry.header()))
    }

    /// To be asked before the store is read for what will be offered.
    pub(super) fn changes(&self) -> Changes {
        Changes(self.changes.load(Ordering::Acquire))
    }

    /// Keeps a key that was read after `changes` were counted.
    pub(super) fn offer(&self, changes: Changes, id: MountId, name: &str, key: &Arc<Key>) {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        if self.changes() != changes {
            return;
        }
        if self.table.len() >= KEYS_MAX {
            self.table.clear();
        }
        // A table that refuses only stays without: the next request reads the store again.
        let _ = self.table.upsert(&hot_key(id, name), Arc::clone(key), &[]);
    }

    /// The record changed, or may have.
    pub(crate) fn forget(&self, id: MountId, name: &str) {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        // Release: whoever reads the store after seeing this count finds the change there already.
        self.changes.fetch_add(1, Ordering::Release);
        self.table.remove(&hot_key(id, name));
    }

    /// Any record may have changed.
    pub(crate) fn forget_all(&self) {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        self.changes.fetch_add(1, Ordering::Release);
        self.table.clear();
    }
}

#[cfg(test)]
mod tests {
    use kallisto_transit::{KeyKind, Spec};

    use super::*;

    #[test]
    fn a_key_is_kept_until_it_changes_and_not_if_it_changed_meanwhile() {
        let cache = KeyCache::new().unwrap();
        let key = Arc::new(Key::make(KeyKind::Hmac, &Spec::default(), 0).unwrap());
        let (id, other) = (MountId(1), MountId(2));
        let before = cache.changes();
        cache.offer(before, id, "key/a", &key);
        assert!(cache.get(id, "key/a").is_some());
        assert!(cache.get(other, "key/a").is_none());
        cache.forget(other, "key/a");
        assert!(cache.get(id, "key/a").is_some());
        cache.forget(id, "key/a");
        assert!(cache.get(id, "key/a").is_none());
        cache.offer(before, id, "key/a", &key);
        assert!(cache.get(id, "key/a").is_none(), "what was read before the change is not kept");
        cache.offer(cache.changes(), id, "key/a", &key);
        cache.forget_all();
        assert!(cache.get(id, "key/a").is_none());
    }
}
