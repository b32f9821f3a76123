//! Reading: the gate, the record, and names in order.

use std::collections::VecDeque;
use std::ops::Bound;

use kallisto_barrier::Error as BarrierError;
use zeroize::Zeroizing;

use super::SecureDb;
use crate::error::{Error, Result};
use crate::record::{StorageKey, storage_key, take_apart};

/// Names that a scan takes from the index at a time.
const SCAN_NAMES: usize = 256;
/// How often a read begins again because the keys changed while it read: each time needs a whole pass of re-encryption.
const TRIES_MAX: usize = 8;

impl SecureDb {
    /// The value of a name; wiped when dropped. A name that is not there costs no decryption and, nearly always, no hash.
    ///
    /// # Errors
    /// [`Error::Damaged`] if the record is not what was written there; [`Error::Store`] if the disk refuses.
    pub fn get(&self, name: &str) -> Result<Option<Zeroizing<Vec<u8>>>> {
        if !self.index.may_contain(name) {
            return Ok(None);
        }
        let key = storage_key(&self.keyring.load(), name);
        let Some(mut plain) = self.open_at(&key)? else { return Ok(None) };
        match take_apart(&plain) {
            Some((length, found)) if found == name => {
                plain.truncate(length);
                Ok(Some(plain))
            }
            _ => Err(Error::Damaged("a record says another name than the one it lies under")),
        }
    }

    /// Whether a name is there.
    #[must_use]
    pub fn contains(&self, name: &str) -> bool {
        self.index.contains(name)
    }

    /// Whether any name lies below `folder`.
    #[must_use]
    pub fn has_folder(&self, folder: &str) -> bool {
        self.index.has_folder(folder)
    }

    /// How many names there are.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.index.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The children of `folder` (empty for the root): names, and folders with a slash behind them, in bytewise order; those
    /// after `after`, at most `limit`.
    #[must_use]
    pub fn list(&self, folder: &str, after: Option<&str>, limit: usize) -> Vec<String> {
        self.index.list(folder, after, limit)
    }

    /// Names that start with `prefix`, and their values, in bytewise order of the names.
    ///
    /// A name that is there all the while is given once, with the value it has when its turn comes; one that is inserted or
    /// removed meanwhile may be given or not.
    #[must_use]
    pub fn scan<'a>(&'a self, prefix: &'a str) -> DbScan<'a> {
        DbScan { db: self, prefix, names: VecDeque::new(), after: None, done: false }
    }

    /// The plaintext of the record at `key`.
    pub(super) fn open_at(&self, key: &StorageKey) -> Result<Option<Zeroizing<Vec<u8>>>> {
        for _ in 0..TRIES_MAX {
            let Some(envelope) = self.engine.get(key)? else { return Ok(None) };
            // After the record was read: a record under a new key is written after the keyring that has it is in place. But
            // its key may have been dropped meanwhile; then the record was written anew.
            let keyring = self.keyring.load();
            let mut plain = Zeroizing::new(Vec::with_capacity(envelope.len()));
            match keyring.open_record(key, &envelope, &mut plain) {
                Ok(()) => return Ok(Some(plain)),
                Err(BarrierError::UnknownKeyVersion(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(Error::Damaged("a record is under a key that is not there"))
    }
}

/// Names and values in order; see [`SecureDb::scan`].
pub struct DbScan<'a> {
    db: &'a SecureDb,
    prefix: &'a str,
    names: VecDeque<String>,
    after: Option<String>,
    done: bool,
}

impl std::fmt::Debug for DbScan<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DbScan").finish_non_exhaustive()
    }
}

impl DbScan<'_> {
    fn refill(&mut self) {
        let from = self.after.as_deref().map_or(Bound::Included(self.prefix), Bound::Excluded);
        let names = self.db.index.range(from, Bound::Unbounded, SCAN_NAMES);
        self.done = names.len() < SCAN_NAMES;
        self.after = names.last().cloned();
        self.names.extend(names);
    }
}

impl Iterator for DbScan<'_> {
    type Item = Result<(String, Zeroizing<Vec<u8>>)>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let Some(name) = self.names.pop_front() else {
                if self.done {
                    return None;
                }
                self.refill();
                continue;
            };
            if !name.starts_with(self.prefix) {
                self.names.clear();
                self.done = true;
                return None;
            }
            match self.db.get(&name) {
                // It was removed since the names were read.
                Ok(None) => {}
                Ok(Some(value)) => return Some(Ok((name, value))),
                Err(error) => {
                    self.names.clear();
                    self.done = true;
                    return Some(Err(error));
                }
            }
        }
    }
}
