//! Filling an empty view: one streaming scan over everything committed.
//!
//! Kinds come in the order of their numbers, so mounts are there before their secrets, and a
//! secret's metadata is followed by its versions (see `keys`). What the scan holds at a time is one
//! secret, and the paths that wait for their index.

use kallisto_barrier::Keyring;
use kallisto_cuckoo::Hand;
use kallisto_store::{Error as StoreError, Position, Record, Records, Visit};

use super::View;
use super::fold::{Damaged, Folding};
use crate::clear::ClearRecords;
use crate::keys::{self, MountId, Parsed};
use crate::kv::record::Metadata;

/// Records between two looks at the memory budget.
const BUDGET_RECORDS: u64 = 1024;
/// Paths sorted at a time; bounds the memory of the load.
const PATHS_MAX: usize = 1 << 20;
/// Records between two progress lines in the log.
const PROGRESS_RECORDS: u64 = 250_000;

/// A secret whose metadata was met and whose current version comes next.
struct Pending {
    mount: MountId,
    path: String,
    metadata: Metadata,
}

/// A scan under way.
struct Load<'v> {
    view: &'v View,
    pending: Option<Pending>,
    records: u64,
    hand: Hand,
    /// Paths that are in the table and not in their index yet.
    paths: Vec<(MountId, String)>,
}

impl View {
    /// Fills this empty view with everything in `records`.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] when a record cannot be read, [`StoreError::Damaged`] when one does
    /// not open or says nothing sound.
    pub(super) fn load(
        &self,
        position: Position,
        records: &dyn Records,
        keyring: &Keyring,
    ) -> Result<(), StoreError> {
        let clear = ClearRecords::new(records, keyring);
        let mut load = Load {
            view: self,
            pending: None,
            records: 0,
            hand: Hand::default(),
            paths: Vec::new(),
        };
        let mut failed = None;
        clear.scan(&[], &mut |key, record| match load.take(key, record, &clear) {
            Ok(()) => Visit::Continue,
            Err(Damaged(what)) => {
                failed = Some(what);
                Visit::Stop
            }
        })?;
        if failed.is_none() {
            let ended = load.settle().and_then(|()| load.index_paths());
            failed = ended.err().map(|Damaged(what)| what);
        }
        if let Some(what) = failed {
            return Err(StoreError::Damaged(format!("a record says nothing sound: {what}")));
        }
        self.feed.start(position);
        tracing::info!(records = load.records, position = position.0, "view loaded");
        Ok(())
    }
}

impl Load<'_> {
    fn take(
        &mut self,
        key: &[u8],
        record: &Record,
        records: &ClearRecords<'_>,
    ) -> Result<(), Damaged> {
        let value = &*record.value;
        self.records += 1;
        if self.records.is_multiple_of(BUDGET_RECORDS) {
            self.view.keep_to_budget(&mut self.hand);
        }
        if self.records.is_multiple_of(PROGRESS_RECORDS) {
            tracing::info!(records = self.records, "loading");
        }
        match keys::parse(key) {
            Parsed::KvVersion(mount, path, version) => {
                self.take_version(mount, path, version, value)
            }
            Parsed::KvMeta(mount, path) => {
                self.settle()?;
                let metadata = Metadata::decode(value).map_err(|_| Damaged("kv metadata"))?;
                self.pending = Some(Pending { mount, path: path.to_owned(), metadata });
                Ok(())
            }
            Parsed::KvOne(mount, path) => {
                self.settle()?;
                self.view.put_one(mount, path, record.seqno, value)?;
                self.take_path(mount, path)
            }
            Parsed::Shelf(mount, name) => {
                self.settle()?;
                self.view.put_shelf(mount, name, value)?;
                self.take_path(mount, name)
            }
            _ => {
                self.settle()?;
                let batch = kallisto_store::Batch::new();
                let mut at =
                    Folding { seqno: record.seqno, batch: &batch, records, changes: Vec::new() };
                self.view.fold_put(key, value, &mut at)
            }
        }
    }

    /// Completes the pending secret if this is its current version; others stay in the store.
    fn take_version(
        &mut self,
        mount: MountId,
        path: &str,
        version: u64,
        value: &[u8],
    ) -> Result<(), Damaged> {
        let current = self.pending.take_if(|pending| {
            pending.mount == mount
                && pending.path == path
                && pending.metadata.current_version == version
        });
        match current {
            Some(Pending { metadata, .. }) => {
                let live = metadata.version(version).is_some_and(|info| !info.destroyed);
                self.view.put_secret(mount, path, &metadata, live.then_some(value))?;
                self.take_path(mount, path)
            }
            None => Ok(()),
        }
    }

    /// Ends a secret whose current version has no record: destroyed, or metadata alone.
    fn settle(&mut self) -> Result<(), Damaged> {
        let Some(Pending { mount, path, metadata }) = self.pending.take() else { return Ok(()) };
        let current = metadata.version(metadata.current_version);
        if current.is_some_and(|info| !info.destroyed) {
            return Err(Damaged("kv version missing"));
        }
        self.view.put_secret(mount, &path, &metadata, None)?;
        self.take_path(mount, &path)
    }

    /// Keeps a path for its index. Records come in the order of hidden names, which is none; sorted
    /// paths go into an index several times faster.
    fn take_path(&mut self, mount: MountId, path: &str) -> Result<(), Damaged> {
        self.paths.push((mount, path.to_owned()));
        if self.paths.len() < PATHS_MAX { Ok(()) } else { self.index_paths() }
    }

    fn index_paths(&mut self) -> Result<(), Damaged> {
        self.paths.sort_unstable();
        for (mount, path) in self.paths.drain(..) {
            self.view.put_path(mount, &path)?;
        }
        Ok(())
    }
}
