//! The keys of a mount: found, made, changed and deleted.
//!
//! A change reads the record, decides, and replaces it on the condition that it is what was read;
//! when it is not, it decides again. Making an RSA key takes up to seconds of work, so that happens
//! on threads that do nothing else ([`crate::pipeline::compute`]).

use super::refusal;
use std::sync::Arc;

use kallisto_store::{Batch, Seqno};
use kallisto_transit::{Key, KeyKind};

use super::Transit;
use crate::admission::Flow;
use crate::api::error::Error;
use crate::limits::CONFLICT_RETRIES_MAX;
use crate::platform::pool::Pool;
use crate::storage::keys;
use crate::storage::transact::transact;

/// The folder of keys on a mount's engine storage.
pub(super) const KEY_FOLDER: &str = "key/";

/// A key as it was read, and when it was written.
struct Found {
    key: Arc<Key>,
    seqno: Seqno,
}

/// Whether a key is the one that was asked for or one that was there already.
pub(super) enum Created {
    New(Arc<Key>),
    Existing(Arc<Key>),
}

/// What becomes of a key that was looked at.
pub(super) enum Becomes {
    /// What it is.
    Same,
    /// Another.
    Other(Key),
}

pub(super) fn shelf_name(name: &str) -> String {
    format!("{KEY_FOLDER}{name}")
}

impl Transit<'_> {
    /// The key of this name, decoded at most once.
    pub(super) fn find(&self, name: &str) -> Result<Option<Arc<Key>>, Error> {
        let (id, name) = (self.mount.entry.id, shelf_name(name));
        let cache = &self.unsealed.view.transit;
        if let Some(key) = cache.get(id, &name) {
            return Ok(Some(key));
        }
        let changes = cache.changes();
        let Some(found) = self.read(&name)? else { return Ok(None) };
        cache.offer(changes, id, &name, &found.key);
        Ok(Some(found.key))
    }

    fn read(&self, shelf_name: &str) -> Result<Option<Found>, Error> {
        let Some(record) = self.storage.get(shelf_name)? else { return Ok(None) };
        let key = Arc::new(Key::decode(&record.value).map_err(refusal)?);
        Ok(Some(Found { key, seqno: record.seqno }))
    }

    /// Makes a key unless there is one of this name.
    pub(super) async fn create(
        &self,
        name: &str,
        kind: KeyKind,
        make: impl FnOnce() -> Result<Key, kallisto_transit::Error> + Send + 'static,
    ) -> Result<Created, Error> {
        if let Some(key) = self.find(name)? {
            return Ok(Created::Existing(key));
        }
        let key = Arc::new(self.make(kind, make).await?);
        match self.replace(&shelf_name(name), Seqno::ABSENT, &key).await {
            Ok(()) => Ok(Created::New(key)),
            Err(Error::Conflict) => match self.find(name)? {
                Some(key) => Ok(Created::Existing(key)),
                None => Err(Error::Conflict),
            },
            Err(error) => Err(error),
        }
    }

    /// Changes a key by what it is; `missing` is said when there is none. `decide` may run again.
    pub(super) async fn change(
        &self,
        name: &str,
        missing: Error,
        mut decide: impl FnMut(&Key) -> Result<Becomes, Error>,
    ) -> Result<Arc<Key>, Error> {
        let shelf_name = shelf_name(name);
        let _latch = self.latch(&shelf_name).await;
        let changed = transact(&self.unsealed.store, |batch| {
            let Some(found) = self.read(&shelf_name)? else { return Ok(None) };
            let Becomes::Other(key) = decide(&found.key)? else { return Ok(Some(found.key)) };
            self.replace_in(batch, &shelf_name, found.seqno, &key)?;
            Ok(Some(Arc::new(key)))
        });
        changed.await?.ok_or(missing)
    }

    /// Adds a version to a key.
    pub(super) async fn rotate(&self, name: &str, now_ns: i64) -> Result<Arc<Key>, Error> {
        let shelf_name = shelf_name(name);
        let _latch = self.latch(&shelf_name).await;
        // A loop of its own: it waits while the key is made.
        for _ in 0..CONFLICT_RETRIES_MAX {
            let Some(found) = self.read(&shelf_name)? else {
                return Err(Error::invalid("key not found"));
            };
            let old = Arc::clone(&found.key);
            let key = self.make(old.kind(), move || old.rotated(now_ns)).await?;
            let key = Arc::new(key);
            match self.replace(&shelf_name, found.seqno, &key).await {
                Err(Error::Conflict) => {}
                replaced => return replaced.map(|()| key),
            }
        }
        Err(Error::Conflict)
    }

    /// Puts a key in place, whatever was there.
    pub(super) async fn overwrite(&self, name: &str, key: &Key) -> Result<(), Error> {
        let mut batch = Batch::new();
        self.storage.put_in(
            &mut batch,
            &shelf_name(name),
            key.encode().map_err(refusal)?.to_vec(),
        )?;
        self.unsealed.store.commit(batch).await?;
        Ok(())
    }

    /// Puts a key in place of what was read.
    pub(super) async fn replace(
        &self,
        shelf_name: &str,
        seqno: Seqno,
        key: &Key,
    ) -> Result<(), Error> {
        let mut batch = Batch::new();
        self.replace_in(&mut batch, shelf_name, seqno, key)?;
        self.unsealed.store.commit(batch).await?;
        Ok(())
    }

    fn replace_in(
        &self,
        batch: &mut Batch,
        shelf_name: &str,
        seqno: Seqno,
        key: &Key,
    ) -> Result<(), Error> {
        self.storage.expect_in(batch, shelf_name, seqno);
        self.storage.put_in(batch, shelf_name, key.encode().map_err(refusal)?.to_vec())
    }

    /// Deletes a key that may be deleted.
    pub(super) async fn delete(&self, name: &str) -> Result<(), Error> {
        let refuse =
            |why: &str| Err(Error::invalid(format!("error deleting policy {name}: {why}")));
        let shelf_name = shelf_name(name);
        let _latch = self.latch(&shelf_name).await;
        transact(&self.unsealed.store, |batch| {
            let Some(found) = self.read(&shelf_name)? else {
                return refuse("could not delete key; not found");
            };
            if !found.key.settings().deletion_allowed {
                return refuse("deletion is not allowed for this key");
            }
            self.storage.expect_in(batch, &shelf_name, found.seqno);
            self.storage.delete_in(batch, &shelf_name);
            batch.set_essential();
            Ok(())
        })
        .await
    }

    async fn make(
        &self,
        kind: KeyKind,
        make: impl FnOnce() -> Result<Key, kallisto_transit::Error> + Send + 'static,
    ) -> Result<Key, Error> {
        make_key(&self.core.services.makers, self.call.client(), kind, make).await
    }

    /// Runs long work where keys are made.
    pub(super) async fn make_elsewhere<T: Send + 'static>(
        &self,
        make: impl FnOnce() -> Result<T, kallisto_transit::Error> + Send + 'static,
    ) -> Result<T, Error> {
        self.core.services.makers.run(self.call.client(), make).await?.map_err(refusal)
    }

    async fn latch(&self, shelf_name: &str) -> tokio::sync::MutexGuard<'_, ()> {
        self.unsealed.latches.hold(&keys::storage(self.mount.entry.id, shelf_name)).await
    }
}

/// Makes a key for a client: at once, or by the makers of keys if it takes long.
pub(super) async fn make_key(
    makers: &Pool,
    flow: Flow,
    kind: KeyKind,
    make: impl FnOnce() -> Result<Key, kallisto_transit::Error> + Send + 'static,
) -> Result<Key, Error> {
    if kind.is_rsa() {
        Ok(makers.run(flow, make).await?.map_err(refusal)?)
    } else {
        Ok(make().map_err(refusal)?)
    }
}
