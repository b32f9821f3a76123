//! New versions of secrets, as the fold of the server that writes them is told of them.
//!
//! A batch that is folded is opened, record by record, and its metadata is decoded. The server that made it has just encoded and sealed the same; so it
//! says with the batch what its view has to show ([`kallisto_store::Batch::set_companion`]): for each secret the hot entry, sealed for this view already. No plaintext waits
//! for the commit in this way. Other servers fold the batch as it is, and so does this one when the view is another by then.

use std::sync::{Arc, Weak};

use kallisto_store::{Batch, Commit, Position, Seqno};

use super::{HotHeader, HotSlot, RecentSecret, View, hot_key};
use crate::records::kv::SecretMetadata;
use crate::storage::barrier_store::BarrierStore;
use crate::storage::keys::MountId;
use crate::view::damaged::DamagedRecord;
use crate::view::fold::secret_header;

/// A secret that gets a new version, as the view shows it from then on.
pub(crate) struct WrittenSecret {
    pub(super) mount: MountId,
    pub(super) path: Box<str>,
    pub(super) header: HotHeader,
    /// Its hot entry: the key, and the value sealed for it.
    key: Vec<u8>,
    sealed: Vec<u8>,
    /// Whether it had no record before, as the batch expects.
    is_new: bool,
}

/// All that a batch does: secrets of the root namespace that get new versions.
pub(crate) struct WrittenSecrets {
    view: Weak<View>,
    pub(super) secrets: Vec<WrittenSecret>,
}

impl WrittenSecrets {
    /// None, for a view.
    pub(crate) fn new(view: &Arc<View>) -> Self {
        Self { view: Arc::downgrade(view), secrets: Vec::new() }
    }

    /// Adds a secret whose current version has `data`.
    ///
    /// # Errors
    /// [`DamagedRecord`] for what the hot table cannot show.
    pub(crate) fn add(
        &mut self,
        view: &View,
        (mount, path): (MountId, &str),
        (metadata, expected): (&SecretMetadata, Seqno),
        data: &[u8],
    ) -> Result<(), DamagedRecord> {
        let header = secret_header(metadata)?;
        let custom = metadata.custom.as_deref().unwrap_or_default();
        let key = hot_key(mount, path);
        let sealed = view.sealed_hot(&key, &[data, custom.as_bytes()]);
        let (path, is_new) = (path.into(), expected == Seqno::ABSENT);
        self.secrets.push(WrittenSecret { mount, path, header, key, sealed, is_new });
        Ok(())
    }

    /// Whether they were sealed for this view.
    pub(super) fn are_of(&self, view: &Arc<View>) -> bool {
        self.view.as_ptr() == Arc::as_ptr(view)
    }
}

/// What writes that are committed together change: new versions of secrets.
pub(crate) struct RunChanges {
    sealed: Batch,
    written: WrittenSecrets,
    /// By the logical keys of their metadata; their new place is known once they are committed.
    left: Vec<(Vec<u8>, RecentSecret)>,
}

impl RunChanges {
    /// Nothing yet, for a view.
    pub(crate) fn new(view: &Arc<View>) -> Self {
        Self { sealed: Batch::new(), written: WrittenSecrets::new(view), left: Vec::new() }
    }

    /// Adds a secret that gets a version with `data`: what that changes, sealed, and what is left of it under the logical key of its metadata, still with
    /// the place of the record that is expected.
    ///
    /// # Errors
    /// [`DamagedRecord`] for what the hot table cannot show; nothing was added then.
    pub(crate) fn add(
        &mut self,
        view: &View,
        (mount, path): (MountId, &str),
        (sealed, data): (Batch, &[u8]),
        (key, left): (Vec<u8>, RecentSecret),
    ) -> Result<(), DamagedRecord> {
        self.written.add(view, (mount, path), (&left.metadata, left.seqno), data)?;
        self.sealed.append(sealed);
        self.left.push((key, left));
        Ok(())
    }

    /// Commits them.
    pub(crate) fn commit(self, store: &BarrierStore) -> (Commit, LeftSecrets) {
        let Self { mut sealed, written, left } = self;
        sealed.set_companion(Arc::new(written));
        (store.commit_sealed(sealed), LeftSecrets(left))
    }
}

/// What a run leaves of its secrets when it is committed.
pub(crate) struct LeftSecrets(Vec<(Vec<u8>, RecentSecret)>);

impl LeftSecrets {
    /// Keeps it for the next writes, for which the latches are held still.
    pub(crate) fn keep(self, view: &View, committed: Position) {
        for (key, secret) in self.0 {
            view.recent.put(&key, RecentSecret { seqno: Seqno(committed.0), ..secret });
        }
    }
}

impl View {
    /// Has the view show a secret that was written.
    pub(super) fn put_written(&self, secret: &WrittenSecret) -> Result<(), DamagedRecord> {
        let WrittenSecret { mount, path, header, key, sealed, is_new } = secret;
        if self.mounts.with_id(*mount).is_none() {
            return Ok(());
        }
        let stored = self.hot.upsert(key, HotSlot::new(*header), sealed);
        stored.map_err(|_| DamagedRecord("secret over the table's limits"))?;
        // A path is there as long as its record.
        if *is_new { self.put_path(*mount, path) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use kallisto_auth::Operation::Read;

    use super::*;
    use crate::api::response::Response;
    use crate::platform::server_info::RouteAccess;
    use crate::records::kv::{VersionInfo, encode_version};
    use crate::routes::tests::{ROOT, ask, open_core};
    use crate::state::Core;
    use crate::storage::keys;

    fn read(core: &Core, path: &str) -> String {
        match ask(core, Some(ROOT), Read, &format!("secret/data/{path}"), "") {
            Ok(Response::Logical(found)) => String::from_utf8(found.data).unwrap(),
            other => format!("{other:?}"),
        }
    }

    /// Commits a secret's first version, with a word for the fold of `view` that says something else.
    fn commit(core: &Core, view: &Arc<View>, path: &str) -> LeftSecrets {
        let context = core.context.load_full().unwrap();
        let mount = context.view.mounts.at("secret/").unwrap().entry.id;
        let info = VersionInfo {
            version: 1,
            created_ns: 1,
            deletion_ns: None,
            deleted: false,
            destroyed: false,
            has_no_data: false,
        };
        let metadata =
            SecretMetadata { current_version: 1, versions: vec![info], ..Default::default() };
        let key = keys::kv_meta(mount, path);
        let mut batch = Batch::new();
        batch.expect(key.clone(), Seqno::ABSENT);
        batch.put(keys::kv_version(mount, path, 1), encode_version(br#"{"v":"of the batch"}"#));
        batch.put(key.clone(), metadata.encode());
        let keyring = context.store.keys().load();
        let sealed = context.store.records(&keyring).seal(&batch).unwrap();
        let storage = *sealed.expectations()[0].key.first_chunk().unwrap();
        let mut changes = RunChanges::new(view);
        let data = br#"{"v":"of the word"}"#;
        let left = (key, RecentSecret { metadata, seqno: Seqno::ABSENT, storage });
        assert!(changes.add(view, (mount, path), (sealed, data), left).is_ok());
        let (commit, left) = changes.commit(&context.store);
        commit.wait().unwrap();
        left
    }

    #[test]
    fn a_view_believes_what_was_made_for_it_and_opens_every_other_batch() {
        let core = open_core(RouteAccess::Token);
        let view = Arc::clone(&core.context.load_full().unwrap().view);
        commit(&core, &view, "own");
        assert!(read(&core, "own").contains("of the word"));
        // One that was there before the server was sealed, or before a snapshot of the leader came.
        let keys = core.context.load_full().unwrap().store.keys().clone();
        let before = Arc::new(View::new(1 << 20, keys, Vec::new()).unwrap());
        commit(&core, &before, "other");
        assert!(read(&core, "other").contains("of the batch"));
        let gone = Arc::downgrade(&before);
        drop(before);
        assert!(gone.upgrade().is_none(), "what was committed keeps no view");
    }

    #[test]
    fn what_was_written_is_in_the_index_and_the_feed_and_takes_place_of_what_was_there() {
        let core = open_core(RouteAccess::Token);
        let view = Arc::clone(&core.context.load_full().unwrap().view);
        let seen = view.feed.latest();
        commit(&core, &view, "f/a");
        let heard = view.feed.take(seen, 9, |_| true).unwrap();
        let heard: Vec<_> = heard.changes.into_iter().map(|(_, change)| change).collect();
        let [change] = &heard[..] else { panic!("{heard:?}") };
        assert_eq!(&*change.path, "f/a");
        assert!(matches!(
            change.what,
            super::super::PathEvent::Written { version: 1, deletion_ns: None, gone: false }
        ));
        let (mount, _) = view.mounts.route("secret/").unwrap();
        assert!(mount.index.contains("f/a"));
    }
}
