//! Changing keys: a new data key, records under it, a new key for the whole.
//!
//! The order is what matters. Rotation stores the keyring with the new key before any record is under it, and swaps it in while no
//! write is under way; so every record that is written later is under the new key, and a pass that starts then finds all
//! that are not. Only when the pass is on the disk are the old keys dropped.

use std::sync::Arc;

use kallisto_barrier::{Keyring, RootKey, UnsealKey, envelope_key_version};
use kallisto_lsm::EntryBatch;
use kallisto_lsm::Sync;

use super::{SecureDb, lock};
use crate::error::{Error, Result};
use crate::record::{KIND, StorageKey};

/// Records that are re-encrypted between two looks at the progress.
const CHUNK: usize = 256;

/// How far re-encryption is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reencrypted {
    /// Records that were looked at.
    pub seen: u64,
    /// Records that were under an old key and are under the new one now.
    pub rewritten: u64,
}

impl SecureDb {
    /// Adds a data key, under which records are sealed from now on; its version. Old records stay readable.
    ///
    /// # Errors
    /// [`Error::Store`] if the disk refuses, [`Error::Machine`] if there is no randomness; the old key stays in use.
    pub fn rotate(&self) -> Result<u32> {
        let root_key = lock(&self.keys);
        let next = self.keyring.load().rotated((self.now_unix)())?;
        self.store_keyring(&root_key, &next)?;
        let version = next.active_version();
        let _alone = self.alone();
        self.keyring.store(Arc::new(next));
        Ok(version)
    }

    /// Seals every record that is under an old key anew, then drops the old keys. Reads and writes go on meanwhile;
    /// `progress` is called now and then. A crash leaves a store that is whole; call it again.
    ///
    /// # Errors
    /// [`Error::Damaged`] if a record does not open; [`Error::Store`] if the disk refuses. The old keys stay.
    pub fn reencrypt(&self, mut progress: impl FnMut(Reencrypted)) -> Result<Reencrypted> {
        let root_key = lock(&self.keys);
        let active = self.keyring.load().active_version();
        let mut done = Reencrypted::default();
        let mut scan = self.engine.prefix(&[KIND])?;
        while let Some((key, envelope)) = scan.next_entry()? {
            done.seen += 1;
            if envelope_key_version(envelope) != Some(active) {
                let key =
                    *key.as_array().ok_or(Error::Damaged("a record's key has another length"))?;
                done.rewritten += u64::from(self.seal_anew(&key, active)?);
            }
            if done.seen % CHUNK as u64 == 0 {
                progress(done);
            }
        }
        self.engine.sync()?;
        let kept = self.keyring.load().without_versions_below(active)?;
        self.store_keyring(&root_key, &kept)?;
        let _alone = self.alone();
        self.keyring.store(Arc::new(kept));
        progress(done);
        Ok(done)
    }

    /// Changes the key with which the store is opened. No record is written.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a key that is empty, short or blank; [`Error::Store`] if the disk refuses.
    pub fn change_key(&self, key: &[u8]) -> Result<()> {
        let key = UnsealKey::from_bytes(key)?;
        let root_key = lock(&self.keys);
        let sealed = self.keyring.load().seal(&root_key)?;
        self.keys_file.write(&root_key.wrap(&key)?, &sealed)
    }

    /// Seals the record at `key` under the active key; whether it was under another one still.
    fn seal_anew(&self, key: &StorageKey, active: u32) -> Result<bool> {
        let _shared = self.shared();
        let _turn = lock(self.stripe(key));
        let Some(envelope) = self.engine.get(key)? else { return Ok(false) };
        if envelope_key_version(&envelope) == Some(active) {
            return Ok(false);
        }
        let Some(plain) = self.open_at(key)? else { return Ok(false) };
        let mut sealed = Vec::new();
        self.keyring.load().seal_record(key, &plain, &mut sealed)?;
        let mut batch = EntryBatch::new();
        batch.put(key, &sealed)?;
        self.engine.write(&batch, Sync::Mode)?;
        Ok(true)
    }

    fn store_keyring(&self, root_key: &RootKey, keyring: &Keyring) -> Result<()> {
        let wrapped = self.keys_file.wrapped_root_key()?;
        self.keys_file.write(&wrapped, &keyring.seal(root_key)?)
    }
}
