//! The engine storage of a mount: what an engine keeps, by name.
//!
//! Every engine but KV keeps its records here: roles, users, keys, what a token puts into its
//! cubbyhole. A name is a path inside the mount, such as `role/web`; below the barrier it is hidden
//! as secrets' paths are. Which names there are is in the mount's index, written by the fold, so
//! listing asks no disk. The mounts of the server itself have engine storages too ([`NamespaceContext`](crate::view::NamespaceContext) makes them).

use std::sync::Arc;

use kallisto_engine::storage::{Latch, check_entry_size};
use kallisto_engine::{Backend, Stored, Version, WriteOutcome, Writes};
use kallisto_index::PathIndex;
use kallisto_store::{Batch, Record, Seqno};

use crate::api::BoxFuture;
use crate::api::error::{Denial, Error};
use crate::limits::LIST_ENTRIES_MAX;
use crate::storage::barrier_store::BarrierStore;
use crate::storage::keys::{self, MountId};
use crate::storage::latches::Latches;

/// What errors call the mount of [`MountId::IDENTITY`].
pub(crate) const IDENTITY_MOUNT: &str = "identity/";

/// The records of one mount.
pub(crate) struct EngineStorage<'u> {
    store: &'u BarrierStore,
    latches: &'u Latches,
    id: MountId,
    index: Arc<PathIndex>,
    /// The token of who asks, of this namespace or one above; `None` where nobody does.
    caller: Option<[u8; 32]>,
}

impl<'u> EngineStorage<'u> {
    /// The records of the mount `id`, whose names `index` has.
    pub(crate) const fn new(
        store: &'u BarrierStore,
        latches: &'u Latches,
        id: MountId,
        index: Arc<PathIndex>,
    ) -> Self {
        Self { store, latches, id, index, caller: None }
    }

    /// The same, for a request that bears the token of this hash.
    pub(crate) fn asked_by(self, caller: [u8; 32]) -> Self {
        Self { caller: Some(caller), ..self }
    }

    /// Makes a batch depend on the token of who asks. It may be renewed or used meanwhile, or go.
    ///
    /// # Errors
    /// [`Denial::BadToken`] when it is not there, or not of this namespace.
    fn expect_caller_in(&self, batch: &mut Batch) -> Result<(), Error> {
        let bad = || Error::Denied(Denial::BadToken);
        let key = keys::token(&self.caller.ok_or_else(bad)?);
        let record = self.store.get(&key)?.ok_or_else(bad)?;
        batch.expect(key, record.seqno);
        Ok(())
    }

    /// The record under a name.
    ///
    /// # Errors
    /// When it cannot be read.
    pub(crate) fn get(&self, name: &str) -> Result<Option<Record>, Error> {
        if !self.index.may_contain(name) {
            return Ok(None);
        }
        Ok(self.store.get(&keys::storage(self.id, name))?)
    }

    /// Adds a put to a batch.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a name that is none, [`Error::TooLarge`] for a record over its limit.
    pub(crate) fn put_in(
        &self,
        batch: &mut Batch,
        name: &str,
        value: Vec<u8>,
    ) -> Result<(), Error> {
        kallisto_index::check_path(name).map_err(|error| Error::invalid(error.to_string()))?;
        check_entry_size(format_args!("the entry {name:?}"), &value)?;
        batch.put(keys::storage(self.id, name), value);
        Ok(())
    }

    /// Adds a delete to a batch.
    pub(crate) fn delete_in(&self, batch: &mut Batch, name: &str) {
        batch.delete(keys::storage(self.id, name));
    }

    /// Makes a batch depend on a record being what it was.
    pub(crate) fn expect_in(&self, batch: &mut Batch, name: &str, seqno: Seqno) {
        batch.expect(keys::storage(self.id, name), seqno);
    }

    /// Puts one record, whatever was there.
    ///
    /// # Errors
    /// What [`EngineStorage::put_in`] says, or the store's refusal.
    pub(crate) async fn put(&self, name: &str, value: Vec<u8>) -> Result<(), Error> {
        let mut batch = Batch::new();
        self.put_in(&mut batch, name, value)?;
        self.store.commit(batch).await?;
        Ok(())
    }

    /// Deletes one record, if it is there.
    ///
    /// # Errors
    /// The store's refusal.
    pub(crate) async fn delete(&self, name: &str) -> Result<(), Error> {
        if !self.index.may_contain(name) {
            return Ok(());
        }
        let mut batch = Batch::new();
        batch.set_essential();
        self.delete_in(&mut batch, name);
        self.store.commit(batch).await?;
        Ok(())
    }

    /// The names directly in `folder` (which ends in a slash, or is empty), sorted, folders with a
    /// slash; at most `limit`.
    ///
    /// # Errors
    /// [`Error::Invalid`] when there are more than a list may return.
    pub(crate) fn list(&self, folder: &str) -> Result<Vec<String>, Error> {
        bounded(self.index.list(folder, None, LIST_ENTRIES_MAX + 1))
    }

    /// The first names directly in `folder`, as [`EngineStorage::list`] has them.
    pub(crate) fn list_some(&self, folder: &str, limit: usize) -> Vec<String> {
        self.index.list(folder, None, limit)
    }

    /// At most `limit` of the names directly in `folder` that come after `after`.
    pub(crate) fn list_page(&self, folder: &str, after: Option<&str>, limit: usize) -> Vec<String> {
        self.index.list(folder, after, limit)
    }

    /// Every name below `folder`.
    ///
    /// # Errors
    /// [`Error::Invalid`] when there are more than a list may return.
    pub(crate) fn scan(&self, folder: &str) -> Result<Vec<String>, Error> {
        bounded(self.index.scan(folder, None, LIST_ENTRIES_MAX + 1))
    }
}

impl Backend for EngineStorage<'_> {
    fn get(&self, name: &str) -> Result<Option<Stored>, Error> {
        let record = EngineStorage::get(self, name)?;
        Ok(record.map(|record| Stored::new(record.value, Version(record.seqno.0))))
    }

    fn list(&self, folder: &str, after: Option<&str>, limit: usize) -> Vec<String> {
        self.list_page(folder, after, limit)
    }

    fn scan(&self, folder: &str, limit: usize) -> Vec<String> {
        self.index.scan(folder, None, limit)
    }

    fn commit(&self, writes: Writes) -> BoxFuture<'_, Result<WriteOutcome, Error>> {
        Box::pin(async move {
            let mut batch = Batch::new();
            if writes.puts.is_empty() {
                batch.set_essential();
            }
            for (name, version) in &writes.reads {
                self.expect_in(&mut batch, name, Seqno(version.0));
            }
            if writes.needs_caller {
                self.expect_caller_in(&mut batch)?;
            }
            for (name, value) in writes.puts {
                self.put_in(&mut batch, &name, value)?;
            }
            for name in &writes.deletes {
                self.delete_in(&mut batch, name);
            }
            match self.store.commit(batch).await {
                Ok(_) => Ok(WriteOutcome::Committed),
                Err(kallisto_store::Error::Conflict) => Ok(WriteOutcome::Conflict),
                Err(error) => Err(error.into()),
            }
        })
    }

    fn latch<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Latch<'a>> {
        Box::pin(async move {
            let latch = self.latches.hold(&keys::storage(self.id, name)).await;
            Box::new(latch) as Latch<'a>
        })
    }
}

fn bounded(names: Vec<String>) -> Result<Vec<String>, Error> {
    if names.len() > LIST_ENTRIES_MAX {
        return Err(Error::invalid(format!("more than {LIST_ENTRIES_MAX} entries")));
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::ENTRY_BYTES_MAX;
    use crate::platform::server_info::RouteAccess;
    use crate::routes::tests::{ROOT, open_core};
    use crate::view::NamespaceContext;

    fn storage(context: &NamespaceContext) -> EngineStorage<'_> {
        let (mount, _) = context.view.mounts.route("cubbyhole/").unwrap();
        let index = Arc::clone(&mount.index);
        EngineStorage::new(&context.store, &context.latches, mount.entry.id, index)
    }

    fn commit(storage: &EngineStorage<'_>, writes: Writes) -> Result<WriteOutcome, Error> {
        pollster::block_on(Backend::commit(storage, writes))
    }

    #[test]
    fn names_are_listed_by_folder_and_all_that_is_below_scanned() {
        let core = open_core(RouteAccess::Token);
        let context = core.context.load_full().unwrap();
        let storage = storage(&context);
        for name in ["f/a", "f/d/b", "f/d/c", "g"] {
            pollster::block_on(storage.put(name, vec![1])).unwrap();
        }
        assert_eq!(storage.list("f/").unwrap(), ["a", "d/"]);
        assert_eq!(storage.list("").unwrap(), ["f/", "g"]);
        assert_eq!(storage.scan("f/").unwrap(), ["a", "d/b", "d/c"]);
        assert_eq!(storage.list_some("f/", 1), ["a"]);
        assert_eq!(storage.list_page("f/", Some("a"), 9), ["d/"]);
        pollster::block_on(storage.delete("f/a")).unwrap();
        assert_eq!(storage.list("f/").unwrap(), ["d/"]);
        assert!(storage.get("f/a").unwrap().is_none());
    }

    #[test]
    fn a_record_and_a_list_are_as_long_as_their_limits_let_them() {
        let core = open_core(RouteAccess::Token);
        let context = core.context.load_full().unwrap();
        let storage = storage(&context);
        let put = |bytes| storage.put_in(&mut Batch::new(), "a", vec![0; bytes]);
        assert_eq!(put(ENTRY_BYTES_MAX), Ok(()));
        assert!(matches!(put(ENTRY_BYTES_MAX + 1), Err(Error::TooLarge(_))));
        assert!(bounded(vec![String::new(); LIST_ENTRIES_MAX]).is_ok());
        assert!(bounded(vec![String::new(); LIST_ENTRIES_MAX + 1]).is_err());
    }

    #[test]
    fn what_was_read_and_changed_since_leads_to_a_conflict() {
        let core = open_core(RouteAccess::Token);
        let context = core.context.load_full().unwrap();
        let storage = storage(&context);
        let write = |version| {
            let reads = vec![("a".to_owned(), version)];
            commit(
                &storage,
                Writes { reads, puts: vec![("b".to_owned(), vec![1])], ..Writes::default() },
            )
        };
        let absent = Version(Seqno::ABSENT.0);
        assert_eq!(write(absent), Ok(WriteOutcome::Committed));
        pollster::block_on(storage.put("a", vec![1])).unwrap();
        assert_eq!(write(absent), Ok(WriteOutcome::Conflict));
        let version = Backend::get(&storage, "a").unwrap().unwrap().version;
        assert_eq!(write(version), Ok(WriteOutcome::Committed));
    }

    #[test]
    fn what_hangs_on_the_token_of_who_asks_takes_one_that_is_there() {
        let core = open_core(RouteAccess::Token);
        let context = core.context.load_full().unwrap();
        let write = |storage: &EngineStorage<'_>| {
            let puts = vec![("a".to_owned(), vec![1])];
            commit(storage, Writes { puts, needs_caller: true, ..Writes::default() })
        };
        let bad = Err(Error::Denied(Denial::BadToken));
        assert_eq!(write(&storage(&context)), bad);
        assert_eq!(write(&storage(&context).asked_by([7; 32])), bad);
        let text = crate::api::request::TokenText::new(ROOT);
        let now = jiff::Timestamp::UNIX_EPOCH;
        let caller =
            crate::caller::policies::CallerPolicies::with_text(&context, text, now).unwrap();
        assert_eq!(write(&storage(&context).asked_by(caller.hash)), Ok(WriteOutcome::Committed));
    }
}
