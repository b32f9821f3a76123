//! Writing: seal, commit, keep the index in step, and make durable as asked.

use std::collections::HashMap;
use std::sync::MutexGuard;
use std::sync::atomic::Ordering;

use kallisto_barrier::{ENVELOPE_OVERHEAD, Keyring};
use kallisto_lsm::{EntryBatch, Sync};

use super::{SecureDb, lock};
use crate::batch::{DbOp, WriteBatch};
use crate::error::Result;
use crate::options::WriteDurability;
use crate::record::{self, StorageKey, storage_key};

impl SecureDb {
    /// Sets a name to a value. Acknowledged as the durability says.
    ///
    /// # Errors
    /// [`crate::Error::Name`] and [`crate::Error::Invalid`] for what cannot be stored, with nothing changed;
    /// [`crate::Error::Store`] if the disk refuses.
    pub fn insert(&self, name: &str, value: &[u8]) -> Result<()> {
        let plain = record::assemble(name, value)?;
        let _shared = self.shared();
        let keyring = self.keyring.load();
        let key = storage_key(&keyring, name);
        let mut envelope = Vec::with_capacity(ENVELOPE_OVERHEAD + plain.len());
        keyring.seal_record(&key, &plain, &mut envelope)?;
        let mut batch = EntryBatch::new();
        batch.put(&key, &envelope)?;

        let _turn = lock(self.stripe(&key));
        // First, because it knows which names there can be. Until the record is there, a reader who comes by finds nothing.
        let is_new = self.index.insert(name)?;
        self.commit(&batch).inspect_err(|_| {
            if is_new {
                self.index.remove(name);
            }
        })
    }

    /// Removes a name; whether it was there. Acknowledged as the durability says.
    ///
    /// # Errors
    /// [`crate::Error::Store`] if the disk refuses.
    pub fn remove(&self, name: &str) -> Result<bool> {
        let _shared = self.shared();
        let key = storage_key(&self.keyring.load(), name);
        let _turn = lock(self.stripe(&key));
        if !self.index.contains(name) {
            return Ok(false);
        }
        let mut batch = EntryBatch::new();
        batch.delete(&key)?;
        self.commit(&batch)?;
        self.index.remove(name);
        Ok(true)
    }

    /// Applies a batch as one: visible and durable together.
    ///
    /// # Errors
    /// As [`SecureDb::insert`]; nothing of the batch is applied.
    pub fn write(&self, batch: &WriteBatch) -> Result<()> {
        let _shared = self.shared();
        let keyring = self.keyring.load();
        let keys: Vec<StorageKey> =
            batch.ops.iter().map(|op| storage_key(&keyring, &op.name)).collect();
        let sealed = seal(&keyring, &batch.ops, &keys)?;
        let _turns = self.turns(&keys);
        // What a name comes to is said by the last operation on it.
        let last: HashMap<&str, bool> =
            batch.ops.iter().map(|op| (&*op.name, op.plain.is_some())).collect();
        let named =
            |stays| last.iter().filter(move |(_, last)| **last == stays).map(|(name, _)| *name);
        let added = self.add_names(named(true))?;
        self.commit(&sealed).inspect_err(|_| self.take_out(added))?;
        self.take_out(named(false));
        Ok(())
    }

    /// Makes everything that was acknowledged durable.
    ///
    /// # Errors
    /// [`crate::Error::Store`] if the disk refuses.
    pub fn flush(&self) -> Result<()> {
        // Alone: a write that is about to be acknowledged is acknowledged first.
        drop(self.alone());
        Ok(self.engine.sync()?)
    }

    /// When acknowledged writes are on the disk.
    #[must_use]
    pub fn durability(&self) -> WriteDurability {
        // Acquire: pairs with the release of `set_durability`.
        if self.strict.load(Ordering::Acquire) {
            WriteDurability::Strict
        } else {
            WriteDurability::Batch
        }
    }

    /// Changes when acknowledged writes are on the disk. A change to strict drains first: when it returns, everything
    /// that was ever acknowledged is on the disk.
    ///
    /// # Errors
    /// [`crate::Error::Store`] if the disk refuses.
    pub fn set_durability(&self, durability: WriteDurability) -> Result<()> {
        {
            let _alone = self.alone();
            self.strict.store(durability == WriteDurability::Strict, Ordering::Release);
        }
        match durability {
            WriteDurability::Strict => self.flush(),
            WriteDurability::Batch => Ok(()),
        }
    }

    /// Commits a batch of sealed records.
    fn commit(&self, batch: &EntryBatch) -> Result<()> {
        let sync = match self.durability() {
            WriteDurability::Strict => Sync::Now,
            WriteDurability::Batch => Sync::Mode,
        };
        Ok(self.engine.write(batch, sync)?)
    }

    pub(super) fn stripe(&self, key: &StorageKey) -> &std::sync::Mutex<()> {
        // The key is a hash: any byte of it is as good as another.
        &self.stripes[usize::from(key[1])]
    }

    /// The turns of all these names, in the order of the stripes, so that two batches never wait for each other.
    fn turns(&self, keys: &[StorageKey]) -> Vec<MutexGuard<'_, ()>> {
        let mut stripes: Vec<u8> = keys.iter().map(|key| key[1]).collect();
        stripes.sort_unstable();
        stripes.dedup();
        stripes.into_iter().map(|stripe| lock(&self.stripes[usize::from(stripe)])).collect()
    }

    /// Takes in names; gives back those that are new. If one cannot be a name, none is taken in.
    fn add_names<'n>(&self, names: impl Iterator<Item = &'n str>) -> Result<Vec<&'n str>> {
        let mut added = Vec::new();
        for name in names {
            match self.index.insert(name) {
                Ok(true) => added.push(name),
                Ok(false) => {}
                Err(error) => {
                    self.take_out(added);
                    return Err(error.into());
                }
            }
        }
        Ok(added)
    }

    fn take_out<'n>(&self, names: impl IntoIterator<Item = &'n str>) {
        for name in names {
            self.index.remove(name);
        }
    }
}

/// The operations, sealed.
fn seal(keyring: &Keyring, ops: &[DbOp], keys: &[StorageKey]) -> Result<EntryBatch> {
    let mut sealed = EntryBatch::new();
    let mut envelope = Vec::new();
    for (op, key) in ops.iter().zip(keys) {
        match &op.plain {
            Some(plain) => {
                envelope.clear();
                keyring.seal_record(key, plain, &mut envelope)?;
                sealed.put(key, &envelope)?;
            }
            None => sealed.delete(key)?,
        }
    }
    Ok(sealed)
}
