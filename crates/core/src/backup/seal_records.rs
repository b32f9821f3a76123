//! The records of the seal in a backup that is restored.
//!
//! A rekey replaces the shares and leaves the root key as it is. So a backup of this root key may hold a seal whose shares were
//! replaced since, because they leaked or were lost. [`super::restore`] therefore leaves the seal of this cluster as it is: the
//! shares (with a seal that opens by itself: its wrapping and the recovery shares) that count now go on counting, and the
//! encrypted shares that a rekey kept go with them. They are staged with the rest, so one entry of the log brings all of it.
//!
//! Invariants:
//! - The records of the seal are staged last, by whoever has the turn of the seal: no rekey comes between.
//! - What is kept lies above the barrier. It is encrypted under the keyring of the file, which is the one that counts then.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use kallisto_barrier::{Keyring, RootKey};
use kallisto_store::{Batch, Store, StoreOp};

use crate::api::error::Error;
use crate::state::seal::progress::ShareTarget;
use crate::storage::barrier_store::{BarrierStore, KeysInUse, seal_batch};
use crate::storage::keys::{self, MountId, StorageKeys};
use crate::view::NamespaceContext;

/// A key and a value below the barrier.
pub(super) type StoredPair = (Bytes, Bytes);

/// The seal's records of a file, which wait for its end.
pub(super) struct SealRecords {
    keys: KeysInUse,
    /// The storage keys of what waits.
    waiting_for: Vec<Vec<u8>>,
    /// What the file holds there.
    held: BTreeMap<Bytes, Bytes>,
    /// How many records of the file wait.
    count: u64,
    /// The sealed keyring of the file.
    keyring: Option<Bytes>,
}

impl SealRecords {
    /// Those of a file that is restored over this state.
    pub(super) fn new(context: &NamespaceContext) -> Self {
        let keys = Arc::clone(context.store.keys());
        let keyring = keys.load();
        // Names are hidden under a key that no rotation replaces.
        let names = StorageKeys::new(&keyring);
        let kept =
            ShareTarget::KEPT_RECORDS.map(|name| names.of(&keys::storage(MountId::SYSTEM, name)));
        let waiting_for = kept.into_iter().chain([keys::seal_config()]).collect();
        drop(keyring);
        Self { keys, waiting_for, held: BTreeMap::new(), count: 0, keyring: None }
    }

    /// How many records of the file wait.
    pub(super) const fn count(&self) -> u64 {
        self.count
    }

    /// Takes those of the seal out of records of the file.
    pub(super) fn hold(&mut self, records: &mut Vec<StoredPair>) {
        records.retain(|(key, value)| {
            if *key == keys::keyring() {
                self.keyring = Some(value.clone());
            }
            let waits = self.waiting_for.iter().any(|name| key == name);
            if waits {
                self.held.insert(key.clone(), value.clone());
                self.count += 1;
            }
            !waits
        });
    }

    /// What the file says of the seal.
    pub(super) fn of_file(&self) -> Vec<StoredPair> {
        self.held.iter().map(|(key, value)| (key.clone(), value.clone())).collect()
    }

    /// What counts in this cluster, for a file of the same root key. The caller has the turn of the seal.
    ///
    /// # Errors
    /// When it cannot be read, or the file has no keyring that opens.
    pub(super) fn of_cluster(
        &self,
        store: &Arc<dyn Store>,
        root: &RootKey,
    ) -> Result<Vec<StoredPair>, Error> {
        let config = store.get(&keys::seal_config())?;
        let config = config.ok_or_else(|| Error::internal(&"the seal's record is gone"))?;
        let mut records = vec![(keys::seal_config().into(), config.value)];
        let clear =
            BarrierStore::new(Arc::clone(store), Arc::clone(&self.keys), store.generation());
        let mut kept = Batch::new();
        for name in ShareTarget::KEPT_RECORDS {
            let key = keys::storage(MountId::SYSTEM, name);
            if let Some(record) = clear.get(&key)? {
                kept.put(key, record.value);
            }
        }
        if kept.ops().is_empty() {
            return Ok(records);
        }
        let keyring =
            self.keyring.as_ref().ok_or_else(|| Error::invalid("the snapshot has no keyring"))?;
        let keyring = Keyring::open(keyring, root).map_err(|error| Error::internal(&error))?;
        for op in seal_batch(&kept, &keyring)?.ops() {
            if let StoreOp::Put { key, value } = op {
                records.push((key.clone().into(), value.clone()));
            }
        }
        Ok(records)
    }

    /// Whether the file's shares are other ones than those that count now.
    ///
    /// # Errors
    /// When these cannot be read.
    pub(super) fn are_others(&self, store: &dyn Store) -> Result<bool, Error> {
        let name = keys::seal_config();
        let now = store.get(&name)?;
        Ok(now.is_some_and(|now| self.held.get(&name[..]) != Some(&now.value)))
    }
}
