//! The store: the public door, and what is behind it.
//!
//! `open` makes or recovers it, `write` and `read` are the daily work, `rotate` changes keys. The engine keeps the records,
//! the index the names, the keyring the keys.
//!
//! Locks, in the order in which they may be taken: `keys` (who changes keys), `writers` (shared by every write, alone for whoever
//! swaps the keyring or the durability, so that no write straddles the swap), `stripes` (writes of one name take turns, so
//! that engine and index see them in one order). Reads take none.

mod open;
mod read;
mod rotate;
#[cfg(test)]
mod tests;
mod write;

use std::fmt;
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use arc_swap::ArcSwap;
use kallisto_barrier::{KeyVersion, Keyring, RootKey};
use kallisto_index::PathIndex;
use kallisto_lsm::Engine;
use kallisto_lsm::disk::DiskLock;

pub use self::read::DbScan;
pub use self::rotate::Reencrypted;
use crate::error::Result;
use crate::keys::KeysFile;
use crate::options::WriteDurability;

/// Names whose writes take turns share a stripe: so many that writers seldom meet.
const STRIPES: usize = 256;

/// An open store. Share it by reference or behind an `Arc`; every method takes `&self`, from any thread.
pub struct SecureDb {
    engine: Engine,
    index: PathIndex,
    keyring: ArcSwap<Keyring>,
    /// Who holds it may change the file of keys.
    keys: Mutex<RootKey>,
    keys_file: KeysFile,
    writers: RwLock<()>,
    stripes: Box<[Mutex<()>]>,
    strict: AtomicBool,
    now_unix: fn() -> i64,
    /// Held for as long as the store is open; freed last.
    _lock: Box<dyn DiskLock>,
}

/// Numbers about a store.
#[derive(Clone, Debug)]
pub struct DbStats {
    /// Names in it.
    pub names: u64,
    /// Memory of the index of names, in bytes.
    pub index_bytes: u64,
    /// When writes are on the disk.
    pub durability: WriteDurability,
    /// The data keys, the active one last.
    pub key_versions: Vec<KeyVersion>,
    /// Whether keys are in memory that is never swapped.
    pub keys_locked: bool,
    /// The engine's own.
    pub engine: kallisto_lsm::Stats,
}

impl SecureDb {
    /// Numbers about the store.
    #[must_use]
    pub fn stats(&self) -> DbStats {
        let keyring = self.keyring.load();
        DbStats {
            names: self.index.len(),
            index_bytes: self.index.memory_bytes(),
            durability: self.durability(),
            key_versions: keyring.versions(),
            keys_locked: keyring.is_locked(),
            engine: self.engine.stats(),
        }
    }

    /// Makes everything durable and stops the background work. Calls after it fail.
    ///
    /// # Errors
    /// What the last flush said. The store is closed either way.
    pub fn close(&self) -> Result<()> {
        Ok(self.engine.close()?)
    }

    fn shared(&self) -> RwLockReadGuard<'_, ()> {
        self.writers.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn alone(&self) -> RwLockWriteGuard<'_, ()> {
        self.writers.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The guarded value. Nothing behind these locks can be left half changed, so a holder's panic spoils nothing.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Debug for SecureDb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SecureDb").field("names", &self.index.len()).finish_non_exhaustive()
    }
}
