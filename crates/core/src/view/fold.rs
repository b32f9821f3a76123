//! The fold: the one writer of the view.
//!
//! The store hands [`ViewFold`] every committed batch, in order, on every node; it opens the batch
//! with the keys in use and folds it into the view. It decides nothing: what a batch means was
//! settled when it was made. A record that does not decode is damage; the fold reports it and takes
//! the entry out of the view, so that a read goes to the store, meets the damage itself and fails
//! loudly instead of serving something old. Of a batch that does not open nobody knows what it changed:
//! the view is given up, and built again ([`RebuildCause`]). How the view is first filled: `load`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kallisto_audit::Origin;
use kallisto_barrier::{Keyring, MEMORY_OVERHEAD, RootKey};
use kallisto_store::{
    Batch, Error as StoreError, Fold, Position, Records, Replaced, Seqno, StoreOp, Value,
};
use zeroize::Zeroizing;

use super::written::{WrittenSecret, WrittenSecrets};
use super::{FeedChange, HotHeader, HotSlot, PathEvent, View, hot_key};
use crate::audit::{self, Audit, Unusable};
use crate::identity::directory::Effect;
use crate::records::kv::{KvConfig, SecretMetadata, decode_one, decode_version};
use crate::records::mount::MountEntry;
use crate::records::namespace::Namespace;
use crate::records::token::TokenEntry;
use crate::storage::barrier_store::{BarrierRecords, KeysInUse, open_batch};
use crate::storage::cluster_identity::ClusterIdentity;
use crate::storage::keys::{self, MountId, NamespaceNumber, ParsedKey, kind};
use crate::view::damaged::DamagedRecord;

/// Operations of a batch before and behind a secret's metadata that are looked through for its version before the state is asked.
const BATCH_LOOK_MAX: usize = 16;

/// A batch while it is folded.
pub(super) struct Folding<'a, 'r> {
    /// The sequence number of what it writes.
    pub(super) seqno: Seqno,
    pub(super) batch: &'a Batch,
    /// Which of its operations is folded.
    pub(super) place: usize,
    /// The state with the batch applied.
    pub(super) records: &'a BarrierRecords<'r>,
    /// What it changed so far, for the feed.
    pub(super) changes: Vec<FeedChange>,
}

impl Folding<'_, '_> {
    /// Notes what happened to the secret under `key`; other keys are no secrets.
    fn note(&mut self, key: &[u8], what: PathEvent) {
        if let ParsedKey::KvMeta(mount, path) | ParsedKey::KvOne(mount, path) = keys::parse(key) {
            self.changes.push(FeedChange { mount, path: path.into(), what });
        }
    }
}

/// What the feed says of a secret with this metadata.
fn written(metadata: &SecretMetadata) -> PathEvent {
    let current = metadata.version(metadata.current_version);
    PathEvent::Written {
        version: metadata.current_version,
        deletion_ns: current.and_then(|info| info.deletion_ns),
        gone: current.is_some_and(|info| info.destroyed || info.deleted),
    }
}

/// Why a view has to be built again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RebuildCause {
    /// A snapshot or a backup took the place of the state. The view is whole, and of the past.
    Replaced(Replaced),
    /// A batch did not open: nobody knows what the view lacks (a revocation, a policy), so it may not serve any more.
    BatchUnreadable,
}

/// Hears that the view has to be built again. Called under the store's lock, as [`Fold::replaced`] is.
pub(crate) type AskRebuild = Box<dyn Fn(RebuildCause) + Send + Sync>;

/// Follows the committed batches of a store with a view.
pub(crate) struct ViewFold {
    pub(crate) view: Arc<View>,
    pub(crate) keys: KeysInUse,
    pub(crate) root: Arc<RootKey>,
    pub(crate) audit: Arc<Audit>,
    /// Who builds the view again.
    pub(crate) ask_rebuild: AskRebuild,
}

impl ViewFold {
    /// Starts and ends audit devices as their records come and go.
    fn follow_audit(&self, clear: &Batch) {
        for op in clear.ops() {
            let (StoreOp::Put { key, .. } | StoreOp::Delete { key, .. }) = op;
            let ParsedKey::EngineStorage(MountId::SYSTEM, name) = keys::parse(key) else {
                continue;
            };
            match op {
                StoreOp::Put { value, .. } => {
                    if let Err(Unusable(what)) = self.audit.put(name, value, Origin::New) {
                        tracing::error!(what, "auditing cannot follow its records");
                    }
                }
                StoreOp::Delete { .. } => self.audit.remove(name),
            }
        }
    }

    /// Starts the audit devices there are.
    fn load_audit(&self, records: &BarrierRecords<'_>) -> Result<(), StoreError> {
        let Some(system) = self.view.mounts.with_id(MountId::SYSTEM) else { return Ok(()) };
        let mut names = BTreeSet::new();
        for folder in [audit::DEVICE_FOLDER, audit::HEADER_FOLDER] {
            for rest in system.index.scan(folder, None, usize::MAX) {
                let name = format!("{folder}{rest}");
                let Some(record) = records.get(&keys::storage(MountId::SYSTEM, &name))? else {
                    continue;
                };
                self.audit.put(&name, &record.value, Origin::Known).map_err(|Unusable(what)| {
                    StoreError::Damaged(format!("a record cannot be used: {what}"))
                })?;
                names.insert(name);
            }
        }
        self.audit.keep_only(&names);
        Ok(())
    }

    /// Takes the keyring of a rotation into use before anything is sealed under it.
    fn follow_keyring(&self, batch: &Batch) {
        for op in batch.ops() {
            let StoreOp::Put { key, value } = op else { continue };
            if key.first() != Some(&kind::BARRIER) || *key != keys::keyring() {
                continue;
            }
            match Keyring::open(value, &self.root) {
                Ok(keyring) => self.keys.store(Arc::new(keyring)),
                Err(error) => tracing::error!(%error, "a committed keyring does not open"),
            }
        }
    }
}

impl Fold for ViewFold {
    fn load(&self, position: Position, records: &dyn Records) -> Result<(), StoreError> {
        if let Some(record) = records.get(&keys::keyring())? {
            let keyring = Keyring::open(&record.value, &self.root);
            let keyring = keyring.map_err(|error| StoreError::Unavailable(error.to_string()))?;
            self.keys.store(Arc::new(keyring));
        }
        let keyring = self.keys.load();
        self.view.load(position, records, &keyring)?;
        self.load_audit(&BarrierRecords::new(records, &keyring))
    }

    fn replaced(&self, why: Replaced) {
        (self.ask_rebuild)(RebuildCause::Replaced(why));
    }

    fn fold(&self, position: Position, batch: &Batch, records: &dyn Records) {
        if let Some(written) = batch.companion::<WrittenSecrets>()
            && written.are_of(&self.view)
        {
            self.view.fold_written(position, &written.secrets);
            return;
        }
        self.follow_keyring(batch);
        let keyring = self.keys.load();
        match open_batch(batch, &keyring) {
            Ok(clear) => {
                let records = BarrierRecords::new(records, &keyring);
                let rest = self.view.fold_everywhere(position, clear, &records);
                self.follow_audit(&rest);
            }
            Err(error) => {
                tracing::error!(position = position.0, %error, "damaged batch");
                (self.ask_rebuild)(RebuildCause::BatchUnreadable);
            }
        }
    }
}

/// Takes what is inside namespaces out of a batch, by namespace and as they spell it.
fn take_inside(batch: &mut Batch) -> BTreeMap<NamespaceNumber, Batch> {
    let mut inside: BTreeMap<NamespaceNumber, Batch> = BTreeMap::new();
    let is_inside = |op: &StoreOp| {
        let (StoreOp::Put { key, .. } | StoreOp::Delete { key, .. }) = op;
        key.first() == Some(&kind::INSIDE)
    };
    if !batch.ops().iter().any(is_inside) {
        return inside;
    }
    let mut rest = Batch::new();
    for op in batch.ops() {
        let (StoreOp::Put { key, .. } | StoreOp::Delete { key, .. }) = op;
        let (part, key) = match keys::parse(key) {
            ParsedKey::Inside(number, inner) => (inside.entry(number).or_default(), inner),
            _ => (&mut rest, key.as_slice()),
        };
        match op {
            StoreOp::Put { value, .. } => part.put(key.to_vec(), value.clone()),
            StoreOp::Delete { .. } => part.delete(key.to_vec()),
        };
    }
    *batch = rest;
    inside
}

impl View {
    /// Folds a batch in the clear: here first, since a namespace may begin with it, and then what is inside
    /// namespaces into their views. Gives back what is in none.
    fn fold_everywhere(
        &self,
        position: Position,
        mut batch: Batch,
        records: &BarrierRecords<'_>,
    ) -> Batch {
        let inside = take_inside(&mut batch);
        self.fold(position, &batch, records);
        for (number, batch) in inside {
            // What a deleted namespace still loses is nobody's any more.
            if let Some(view) = self.namespaces.view(number) {
                view.fold(position, &batch, &records.inside(number));
            }
        }
        batch
    }

    /// Folds a batch that this server made: new versions of these secrets, and nothing else.
    fn fold_written(&self, position: Position, secrets: &[WrittenSecret]) {
        let mut hand = self.budget.fold();
        let mut changes = Vec::with_capacity(secrets.len());
        for secret in secrets {
            if let Err(DamagedRecord(what)) = self.put_written(secret) {
                tracing::error!(position = position.0, what, "a secret that cannot be shown");
                self.fold_delete(ParsedKey::KvMeta(secret.mount, &secret.path));
                continue;
            }
            changes.push(FeedChange {
                mount: secret.mount,
                path: secret.path.clone(),
                what: PathEvent::Written {
                    version: secret.header.version,
                    deletion_ns: secret.header.deletion(),
                    gone: false,
                },
            });
        }
        self.keep_to_budget(&mut hand);
        self.feed.append(position, changes);
    }

    /// Folds a batch in the clear.
    fn fold(&self, position: Position, batch: &Batch, records: &BarrierRecords<'_>) {
        let mut hand = self.budget.fold();
        // What a batch writes carries the place of the batch.
        let seqno = Seqno(position.0);
        let mut at = Folding { seqno, batch, place: 0, records, changes: Vec::new() };
        for (place, op) in batch.ops().iter().enumerate() {
            at.place = place;
            let (key, outcome) = match op {
                StoreOp::Put { key, value } => (key, self.fold_put(key, value, &mut at)),
                StoreOp::Delete { key, .. } => {
                    self.fold_delete(keys::parse(key));
                    at.note(key, PathEvent::Removed);
                    (key, Ok(()))
                }
            };
            if let Err(DamagedRecord(what)) = outcome {
                tracing::error!(position = position.0, kind = key.first(), what, "damaged record");
                self.fold_delete(keys::parse(key));
            }
        }
        self.keep_to_budget(&mut hand);
        self.feed.append(position, at.changes);
    }

    pub(super) fn fold_put(
        &self,
        key: &[u8],
        value: &[u8],
        at: &mut Folding<'_, '_>,
    ) -> Result<(), DamagedRecord> {
        match keys::parse(key) {
            ParsedKey::Mount(_) => {
                let entry = MountEntry::decode(value).ok_or(DamagedRecord("mount"))?;
                self.mounts.put(entry);
                self.feed.notify_watchers();
            }
            ParsedKey::Token(hash) => {
                let token = TokenEntry::decode(value).ok_or(DamagedRecord("token"))?;
                let stored = self.tokens.put(hash, token);
                stored.map_err(|_| DamagedRecord("token over the table's limits"))?;
            }
            ParsedKey::Policy(name) => {
                let text = std::str::from_utf8(value).map_err(|_| DamagedRecord("policy"))?;
                if !self.policies.put(name, text) {
                    return Err(DamagedRecord("policy"));
                }
                self.feed.notify_watchers();
            }
            ParsedKey::TokenRole(name) => self.token_roles.put(name),
            ParsedKey::Lease(id) => {
                if !self.leases.put(self.namespace_number().0, id, value) {
                    return Err(DamagedRecord("lease"));
                }
            }
            ParsedKey::KvConfig(mount) => {
                let config = KvConfig::decode(value).map_err(|_| DamagedRecord("kv config"))?;
                if let Some(mount) = self.mounts.with_id(mount) {
                    mount.kv_config.store(Arc::new(config));
                }
            }
            ParsedKey::KvMeta(mount, path) => {
                let metadata =
                    SecretMetadata::decode(value).map_err(|_| DamagedRecord("kv metadata"))?;
                self.recent.forget(key);
                self.fold_metadata(mount, path, &metadata, at)?;
                at.note(key, written(&metadata));
            }
            // What an upgrade to version 2 passed by is nobody's.
            ParsedKey::KvOne(mount, _) if self.is_versioned(mount) => {}
            ParsedKey::KvOne(mount, path) => {
                self.put_one(mount, path, at.seqno, value)?;
                self.put_path(mount, path)?;
                at.note(key, PathEvent::Written { version: 0, deletion_ns: None, gone: false });
            }
            ParsedKey::EngineStorage(mount, name) => {
                self.put_shelf(mount, name, value)?;
                self.put_path(mount, name)?;
            }
            ParsedKey::Namespace(_) => {
                let namespace = Namespace::decode(value).ok_or(DamagedRecord("namespace"))?;
                let put = self.namespaces.put(namespace, self);
                put.map_err(|_| DamagedRecord("namespace that finds no room"))?;
                self.feed.notify_watchers();
            }
            ParsedKey::NamespaceLife(number) => self.namespaces.live(number, at.seqno),
            ParsedKey::KvVersion(..) | ParsedKey::Inside(..) => {}
            ParsedKey::Other if key.first() == Some(&kind::CLUSTER) => {
                let cluster = ClusterIdentity::decode(value).ok_or(DamagedRecord("cluster"))?;
                // A cluster's identity never changes, so the first one stays.
                let _ = self.cluster.set(Arc::new(cluster));
            }
            ParsedKey::Other => {}
        }
        Ok(())
    }

    fn fold_delete(&self, key: ParsedKey<'_>) {
        match key {
            ParsedKey::Mount(id) => {
                self.mounts.remove(id);
                self.feed.notify_watchers();
            }
            ParsedKey::Token(hash) => {
                self.tokens.remove(hash);
                self.leases.owner_is_gone(hash);
                self.feed.notify_watchers();
            }
            ParsedKey::Policy(name) => {
                self.policies.remove(name);
                self.feed.notify_watchers();
            }
            ParsedKey::TokenRole(name) => self.token_roles.remove(name),
            ParsedKey::Lease(id) => self.leases.remove(self.namespace_number().0, id),
            ParsedKey::KvConfig(mount) => {
                if let Some(mount) = self.mounts.with_id(mount) {
                    mount.kv_config.store(Arc::default());
                }
            }
            ParsedKey::KvOne(mount, _) if self.is_versioned(mount) => {}
            ParsedKey::KvMeta(mount, path) | ParsedKey::KvOne(mount, path) => {
                self.recent.forget(&keys::kv_meta(mount, path));
                if let Some(mount) = self.mounts.with_id(mount) {
                    mount.index.remove(path);
                }
                self.hot.remove(&hot_key(mount, path));
            }
            ParsedKey::EngineStorage(mount, name) => {
                if let Some(mount) = self.mounts.with_id(mount) {
                    if mount.entry.id == MountId::SYSTEM {
                        self.quotas.remove(name);
                        self.web.remove(name);
                    }
                    mount.index.remove(name);
                    self.follow(mount.memory.remove(name));
                }
            }
            ParsedKey::Namespace(number) => self.namespaces.remove(number),
            // The record that taints the namespace says it too.
            ParsedKey::NamespaceLife(_) => {}
            ParsedKey::KvVersion(..) | ParsedKey::Inside(..) | ParsedKey::Other => {}
        }
    }

    /// Whether a mount's secrets have versions, all of them.
    pub(super) fn is_versioned(&self, mount: MountId) -> bool {
        self.mounts.with_id(mount).is_some_and(|mount| mount.entry.kind.has_versions())
    }

    /// Hands a record to the engine that keeps it decoded.
    pub(super) fn put_shelf(
        &self,
        id: MountId,
        name: &str,
        value: &[u8],
    ) -> Result<(), DamagedRecord> {
        let Some(mount) = self.mounts.with_id(id) else { return Ok(()) };
        if id == MountId::SYSTEM && !self.quotas.put(name, value) {
            return Err(DamagedRecord("quota"));
        }
        if id == MountId::SYSTEM && !self.web.put(name, value) {
            return Err(DamagedRecord("settings of browsers"));
        }
        if id == MountId::SYSTEM && self.inside.is_none() && !self.marks.put(name, value) {
            return Err(DamagedRecord("marks of time"));
        }
        self.follow(mount.memory.put(name, value)?);
        Ok(())
    }

    /// Lets what was made from an engine's decoded state be made anew, where its change asks for it.
    fn follow(&self, effect: Effect) {
        if effect == Effect::Anybody {
            self.policies.changed();
        }
    }

    fn fold_metadata(
        &self,
        id: MountId,
        path: &str,
        metadata: &SecretMetadata,
        at: &Folding<'_, '_>,
    ) -> Result<(), DamagedRecord> {
        let key = keys::kv_version(id, path, metadata.current_version);
        let current = metadata.version(metadata.current_version);
        let record = match current {
            Some(info) if !info.destroyed => Some(current_record(&key, at)?),
            _ => None,
        };
        self.put_secret(id, path, metadata, record.as_deref())?;
        self.put_path(id, path)
    }

    /// Makes a KV v2 secret readable; `record` is its current version's, if that has data.
    pub(super) fn put_secret(
        &self,
        id: MountId,
        path: &str,
        metadata: &SecretMetadata,
        record: Option<&[u8]>,
    ) -> Result<(), DamagedRecord> {
        if self.mounts.with_id(id).is_none() {
            return Ok(());
        }
        let custom = metadata.custom.as_deref().unwrap_or_default();
        let data = record.map_or(Ok(&[][..]), decode_version);
        let data = data.map_err(|_| DamagedRecord("kv version"))?;
        self.put_hot(id, path, secret_header(metadata)?, &[data, custom.as_bytes()])
    }

    pub(super) fn put_one(
        &self,
        id: MountId,
        path: &str,
        seqno: Seqno,
        value: &[u8],
    ) -> Result<(), DamagedRecord> {
        if self.mounts.with_id(id).is_none() {
            return Ok(());
        }
        let (lease, data) = decode_one(value).map_err(|_| DamagedRecord("kv secret"))?;
        self.put_hot(id, path, one_header(seqno, lease), &[data])
    }

    fn put_hot(
        &self,
        id: MountId,
        path: &str,
        header: HotHeader,
        parts: &[&[u8]],
    ) -> Result<(), DamagedRecord> {
        let key = hot_key(id, path);
        let sealed = self.sealed_hot(&key, parts);
        let stored = self.hot.upsert(&key, HotSlot::new(header), &sealed);
        stored.map_err(|_| DamagedRecord("secret over the table's limits"))?;
        Ok(())
    }

    /// The value of a hot entry: the parts, sealed for its key.
    pub(super) fn sealed_hot(&self, key: &[u8], parts: &[&[u8]]) -> Vec<u8> {
        let bytes: usize = parts.iter().map(|part| part.len()).sum();
        let mut sealed = Vec::with_capacity(bytes + MEMORY_OVERHEAD);
        match parts {
            // All but the few secrets with custom metadata: nothing has to be put side by side.
            [data] | [data, []] => self.cipher.seal(key, data, &mut sealed),
            parts => self.cipher.seal(key, &Zeroizing::new(parts.concat()), &mut sealed),
        }
        sealed
    }

    /// Lets a path through the gate; after its entry is in the table, so that who passes finds it.
    pub(super) fn put_path(&self, id: MountId, path: &str) -> Result<(), DamagedRecord> {
        let Some(mount) = self.mounts.with_id(id) else { return Ok(()) };
        let put = mount.index.insert(path);
        put.map(|_| ()).map_err(|_| DamagedRecord("path over the index's limits"))
    }
}

/// The header of a KV v2 secret's hot entry.
pub(super) fn secret_header(metadata: &SecretMetadata) -> Result<HotHeader, DamagedRecord> {
    let current = metadata.version(metadata.current_version);
    let custom = metadata.custom.as_deref().unwrap_or_default();
    Ok(HotHeader {
        version: metadata.current_version,
        created_ns: current.map_or(metadata.created_ns, |info| info.created_ns),
        metadata_version: metadata.metadata_version as u32,
        deletion_ns: current.and_then(|info| info.deletion_ns).unwrap_or(HotHeader::NEVER),
        custom_bytes: u32::try_from(custom.len()).map_err(|_| DamagedRecord("custom metadata"))?,
        lease_secs: HotHeader::NO_LEASE,
        versions: u16::try_from(metadata.versions.len()).unwrap_or(u16::MAX),
        deleted: current.is_some_and(|info| info.deleted),
        destroyed: current.is_some_and(|info| info.destroyed),
    })
}

/// The header of a KV v1 secret's hot entry.
pub(super) fn one_header(seqno: Seqno, lease: Option<u32>) -> HotHeader {
    HotHeader {
        version: seqno.0,
        created_ns: 0,
        metadata_version: 0,
        deletion_ns: HotHeader::NEVER,
        custom_bytes: 0,
        lease_secs: lease.unwrap_or(HotHeader::NO_LEASE),
        versions: 0,
        deleted: false,
        destroyed: false,
    }
}

/// The record of the version that a batch makes current: from the batch, or from the state.
fn current_record(key: &[u8], at: &Folding<'_, '_>) -> Result<Value, DamagedRecord> {
    // A version stands close to its metadata; looking through a batch of many secrets for each of them would be work by its square.
    let ops = at.batch.ops();
    let near = at.place.saturating_sub(BATCH_LOOK_MAX)..ops.len().min(at.place + BATCH_LOOK_MAX);
    let in_batch = ops[near].iter().rev().find_map(|op| match op {
        StoreOp::Put { key: put, value } if put == key => Some(value.clone()),
        _ => None,
    });
    if let Some(value) = in_batch {
        return Ok(value);
    }
    let record = at.records.get(key).map_err(|_| DamagedRecord("kv version unreadable"))?;
    Ok(record.ok_or(DamagedRecord("kv version missing"))?.value)
}

#[cfg(test)]
mod tests;
