//! The keys of a mount: found, made, changed and deleted.
//!
//! A change is a transaction: it reads the record, decides, and replaces it on the condition that it is what was read; when it is not, it
//! decides again. Making an RSA key takes up to seconds, so that happens before, on threads that do nothing else: a decision only adds
//! what was made.

use std::sync::Arc;

use kallisto_api::Error;
use kallisto_engine::{EngineContext, Transaction};
use kallisto_transit::{KeyKind, TransitKey};

use super::cache::KeyCache;
use super::{TransitHandler, decoded, refusal};

/// The folder of keys in a mount's storage.
pub(super) const KEY_FOLDER: &str = "key/";

/// Whether a key is the one that was asked for or one that was there already.
pub(super) enum Created {
    New(Arc<TransitKey>),
    Existing(Arc<TransitKey>),
}

/// What becomes of a key that was looked at.
pub(super) enum Becomes {
    /// What it is.
    Same,
    /// Another.
    Other(TransitKey),
}

/// The name of the record of a key.
pub(super) fn record_name(name: &str) -> String {
    format!("{KEY_FOLDER}{name}")
}

/// The key in a record, read from the store.
pub(super) fn read(
    context: &EngineContext<'_>,
    record: &str,
) -> Result<Option<Arc<TransitKey>>, Error> {
    let Some(stored) = context.storage.get(record)? else { return Ok(None) };
    Ok(Some(Arc::new(decoded(&stored, TransitKey::decode)?)))
}

/// Makes what takes long if it is of RSA: elsewhere, or at once.
async fn make<T: Send + 'static>(
    context: &EngineContext<'_>,
    kind: KeyKind,
    make: impl FnOnce() -> Result<T, kallisto_transit::Error> + Send + 'static,
) -> Result<T, Error> {
    let made = if kind.is_rsa() { context.run_heavy(make).await? } else { make() };
    made.map_err(refusal)
}

/// Adds a version to a key that was read, if it still `wants` one; `None` if it does not. The version is made once, whoever else
/// changes the key meanwhile.
pub(super) async fn add_version(
    context: &EngineContext<'_>,
    record: &str,
    key: &Arc<TransitKey>,
    now_ns: i64,
    wants: impl Fn(&TransitKey) -> bool + Send + Sync,
) -> Result<Option<Arc<TransitKey>>, Error> {
    let from = Arc::clone(key);
    let next = make(context, key.kind(), move || from.next_version(now_ns)).await?;
    let added = context.storage.transact(record, |transaction| {
        let Some(key) = read_in(transaction, record)?.filter(&wants) else { return Ok(None) };
        let key = key.rotated_to(&next).map_err(refusal)?;
        transaction.put(record, encoded(&key)?)?;
        Ok(Some(Arc::new(key)))
    });
    added.await
}

fn read_in(transaction: &mut Transaction<'_>, record: &str) -> Result<Option<TransitKey>, Error> {
    let Some(stored) = transaction.get(record)? else { return Ok(None) };
    decoded(&stored, TransitKey::decode).map(Some)
}

fn encoded(key: &TransitKey) -> Result<Vec<u8>, Error> {
    Ok(key.encode().map_err(refusal)?.to_vec())
}

impl TransitHandler<'_> {
    /// The key of this name, decoded at most once.
    pub(super) fn find(&self, name: &str) -> Result<Option<Arc<TransitKey>>, Error> {
        let record = record_name(name);
        let cache = self.call.memory::<KeyCache>()?;
        if let Some(key) = cache.get(&record) {
            return Ok(Some(key));
        }
        let changes = cache.changes();
        let Some(key) = read(self.call, &record)? else { return Ok(None) };
        cache.offer(changes, &record, &key);
        Ok(Some(key))
    }

    /// Makes a key unless there is one of this name.
    pub(super) async fn create(
        &self,
        name: &str,
        kind: KeyKind,
        making: impl FnOnce() -> Result<TransitKey, kallisto_transit::Error> + Send + 'static,
    ) -> Result<Created, Error> {
        if let Some(key) = self.find(name)? {
            return Ok(Created::Existing(key));
        }
        let key = make(self.call, kind, making).await?;
        self.add(name, key).await
    }

    /// Puts a key where there is none of this name.
    pub(super) async fn add(&self, name: &str, key: TransitKey) -> Result<Created, Error> {
        let (record, key) = (record_name(name), Arc::new(key));
        let added = self.call.storage.transact(&record, |transaction| {
            if let Some(existing) = read_in(transaction, &record)? {
                return Ok(Created::Existing(Arc::new(existing)));
            }
            transaction.put(&record, encoded(&key)?)?;
            Ok(Created::New(Arc::clone(&key)))
        });
        added.await
    }

    /// Changes a key by what it is; `missing` is said when there is none. `decide` may run again.
    pub(super) async fn change(
        &self,
        name: &str,
        missing: Error,
        mut decide: impl FnMut(&TransitKey) -> Result<Becomes, Error> + Send,
    ) -> Result<Arc<TransitKey>, Error> {
        let record = record_name(name);
        let changed = self.call.storage.transact(&record, |transaction| {
            let Some(key) = read_in(transaction, &record)? else { return Ok(None) };
            let Becomes::Other(key) = decide(&key)? else { return Ok(Some(Arc::new(key))) };
            transaction.put(&record, encoded(&key)?)?;
            Ok(Some(Arc::new(key)))
        });
        changed.await?.ok_or(missing)
    }

    /// Adds a version to a key.
    pub(super) async fn rotate(&self, name: &str, now_ns: i64) -> Result<Arc<TransitKey>, Error> {
        let (record, missing) = (record_name(name), || Error::invalid("key not found"));
        let key = read(self.call, &record)?.ok_or_else(missing)?;
        let rotated = add_version(self.call, &record, &key, now_ns, |_| true).await?;
        rotated.ok_or_else(missing)
    }

    /// Puts a key in place, whatever was there.
    pub(super) async fn overwrite(&self, name: &str, key: &TransitKey) -> Result<(), Error> {
        self.call.storage.put(&record_name(name), encoded(key)?).await
    }

    /// Deletes a key that may be deleted.
    pub(super) async fn delete(&self, name: &str) -> Result<(), Error> {
        let refuse =
            |why: &str| Err(Error::invalid(format!("error deleting policy {name}: {why}")));
        let record = record_name(name);
        let deleted = self.call.storage.transact(&record, |transaction| {
            let Some(key) = read_in(transaction, &record)? else {
                return refuse("could not delete key; not found");
            };
            if !key.settings().deletion_allowed {
                return refuse("deletion is not allowed for this key");
            }
            transaction.delete(&record)
        });
        deleted.await
    }
}
