//! A change of identity records, made whole or not at all.
//!
//! A [`IdentityDraft`] reads records, remembers what it read, and collects what is to be written;
//! [`change`] commits it on the condition that nothing it read has changed, and decides again when
//! something has. What a draft decides by is in what it reads, so two racing changes never both win:
//! that a name or an alias belongs to one entity rests on its *claim*, a record of its own.
//!
//! Groups are another matter: that no group is inside itself, and whose a name is, depend on all of
//! them. So writes of groups are counted in one record which every one of them reads and raises;
//! and a draft that finds the directory behind that count decides again later.

use std::collections::BTreeMap;

use kallisto_store::{Batch, Seqno};

use crate::api::error::Error;
use crate::engines::identity::site::directory_of;
use crate::identity::directory::{ENTITIES, GROUP_WRITES, GROUPS, IdentityDirectory};
use crate::identity::names::{Folded, alias_claim, entity_claim};
use crate::identity::record::{Alias, Entity, Group, IdentityId};
use crate::storage::engine_storage::{EngineStorage, IDENTITY_MOUNT};
use crate::storage::keys;
use crate::storage::transact::transact;
use crate::view::Mount;
use crate::view::NamespaceContext;

/// Most records that one change may touch.
const RECORDS_MAX: usize = 16 << 10;
const _: () = assert!(RECORDS_MAX < kallisto_store::BATCH_OPS_MAX);

/// A change in the making.
pub(super) struct IdentityDraft<'u> {
    storage: &'u EngineStorage<'u>,
    pub(super) directory: &'u IdentityDirectory,
    /// What stands in each record that was looked at or written, by its name.
    records: BTreeMap<String, DraftSlot>,
    counts_groups: bool,
}

struct DraftSlot {
    read_at: Seqno,
    value: Option<Vec<u8>>,
    is_written: bool,
}

/// Decides and commits until nothing that was decided by has changed meanwhile. `latch` keeps
/// changes of the same thing from racing over and over; `decide` may run more than once.
///
/// # Errors
/// What `decide` says, the store's refusal, or [`Error::Conflict`] when others kept changing it.
pub(super) async fn change<T>(
    context: &NamespaceContext,
    mount: &Mount,
    latch: &str,
    mut decide: impl FnMut(&mut IdentityDraft<'_>) -> Result<T, Error>,
) -> Result<T, Error> {
    let storage = EngineStorage::of(context, mount);
    let _latch = context.latches.hold(&keys::storage(mount.entry.id, latch)).await;
    transact(&context.store, |batch| {
        let directory = directory_of(mount)?;
        let records = BTreeMap::new();
        let mut draft =
            IdentityDraft { storage: &storage, directory, records, counts_groups: false };
        let told = decide(&mut draft)?;
        draft.write_into(batch)?;
        Ok(told)
    })
    .await
}

fn damaged(name: &str) -> Error {
    Error::internal(&format_args!("the record {name:?} of {IDENTITY_MOUNT} is damaged"))
}

impl IdentityDraft<'_> {
    /// The record as this draft has it.
    fn get(&mut self, name: &str) -> Result<Option<&[u8]>, Error> {
        if !self.records.contains_key(name) {
            let record = self.storage.get(name)?;
            let read_at = record.as_ref().map_or(Seqno::ABSENT, |record| record.seqno);
            let value = record.map(|record| record.value.to_vec());
            self.records.insert(name.to_owned(), DraftSlot { read_at, value, is_written: false });
        }
        Ok(self.records.get(name).and_then(|slot| slot.value.as_deref()))
    }

    fn set(&mut self, name: &str, value: Option<Vec<u8>>) -> Result<(), Error> {
        self.get(name)?;
        if let Some(slot) = self.records.get_mut(name) {
            slot.is_written = true;
            slot.value = value;
        }
        if self.records.len() > RECORDS_MAX {
            return Err(Error::invalid(format!("a change of more than {RECORDS_MAX} records")));
        }
        Ok(())
    }

    /// The entity with exactly this id.
    pub(super) fn entity(&mut self, id: IdentityId) -> Result<Option<Entity>, Error> {
        let name = format!("{ENTITIES}{id}");
        let Some(bytes) = self.get(&name)? else { return Ok(None) };
        Entity::decode(bytes).map(Some).ok_or_else(|| damaged(&name))
    }

    pub(super) fn put_entity(&mut self, entity: &Entity) -> Result<(), Error> {
        self.set(&format!("{ENTITIES}{}", entity.id), Some(entity.encode()))
    }

    /// Takes an entity out, with its claims.
    pub(super) fn delete_entity(&mut self, entity: &Entity) -> Result<(), Error> {
        self.release_name(&entity.name)?;
        for alias in &entity.aliases {
            self.release_alias(alias)?;
        }
        self.set(&format!("{ENTITIES}{}", entity.id), None)
    }

    fn claimed(&mut self, claim: &str) -> Result<Option<IdentityId>, Error> {
        let Some(bytes) = self.get(claim)? else { return Ok(None) };
        let id = std::str::from_utf8(bytes).ok().and_then(IdentityId::parse);
        id.map(Some).ok_or_else(|| damaged(claim))
    }

    /// The entity that has a name.
    pub(super) fn owner_of_name(&mut self, name: &str) -> Result<Option<IdentityId>, Error> {
        self.claimed(&entity_claim(&Folded::new(name)))
    }

    /// The entity that has an alias.
    pub(super) fn owner_of_alias(
        &mut self,
        accessor: &str,
        name: &str,
    ) -> Result<Option<IdentityId>, Error> {
        self.claimed(&alias_claim(accessor, &Folded::new(name)))
    }

    /// Gives a name to an entity.
    pub(super) fn claim_name(&mut self, name: &str, id: IdentityId) -> Result<(), Error> {
        self.set(&entity_claim(&Folded::new(name)), Some(id.to_string().into_bytes()))
    }

    pub(super) fn release_name(&mut self, name: &str) -> Result<(), Error> {
        self.set(&entity_claim(&Folded::new(name)), None)
    }

    /// Gives an alias to an entity.
    pub(super) fn claim_alias(&mut self, alias: &Alias, id: IdentityId) -> Result<(), Error> {
        let claim = alias_claim(&alias.accessor, &Folded::new(&alias.name));
        self.set(&claim, Some(id.to_string().into_bytes()))
    }

    pub(super) fn release_alias(&mut self, alias: &Alias) -> Result<(), Error> {
        self.set(&alias_claim(&alias.accessor, &Folded::new(&alias.name)), None)
    }

    /// Makes this a change of groups: what the directory says of them holds until it is committed.
    pub(super) fn lock_groups(&mut self) -> Result<(), Error> {
        let directory = self.directory;
        let stored = match self.get(GROUP_WRITES)? {
            Some(count) => std::str::from_utf8(count).ok().and_then(|count| count.parse().ok()),
            None => Some(0),
        };
        let stored: u64 = stored.ok_or_else(|| damaged(GROUP_WRITES))?;
        if stored != directory.group_writes() {
            return Err(Error::Conflict);
        }
        self.set(GROUP_WRITES, Some((stored + 1).to_string().into_bytes()))?;
        self.counts_groups = true;
        Ok(())
    }

    /// Writes a group; [`IdentityDraft::lock_groups`] comes first.
    pub(super) fn put_group(&mut self, group: &Group) -> Result<(), Error> {
        assert!(self.counts_groups, "writes of groups are counted");
        self.set(&format!("{GROUPS}{}", group.id), Some(group.encode()))
    }

    /// Takes a group out; [`IdentityDraft::lock_groups`] comes first.
    pub(super) fn delete_group(&mut self, id: IdentityId) -> Result<(), Error> {
        assert!(self.counts_groups, "writes of groups are counted");
        self.set(&format!("{GROUPS}{id}"), None)
    }

    /// Adds what is to be committed, if anything is.
    fn write_into(mut self, batch: &mut Batch) -> Result<(), Error> {
        if !self.records.values().any(|slot| slot.is_written) {
            return Ok(());
        }
        // The count of group writes goes last: who reads it in the directory sees all it counts.
        let count = self.records.remove_entry(GROUP_WRITES);
        if self.records.values().any(|slot| slot.is_written && slot.value.is_none()) {
            // Somebody loses what an entity, an alias or a group gave.
            batch.set_essential();
        }
        for (name, slot) in self.records.into_iter().chain(count) {
            self.storage.expect_in(batch, &name, slot.read_at);
            match slot.value {
                _ if !slot.is_written => {}
                Some(value) => self.storage.put_in(batch, &name, value)?,
                None => self.storage.delete_in(batch, &name),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use kallisto_auth::Operation::Update;

    use super::*;
    use crate::api::json::Json;
    use crate::identity::record::IdentityMetadata;
    use crate::platform::server_info::RouteAccess;
    use crate::routes::tests::{ROOT, ask, open_core};
    use crate::storage::keys::MountId;

    const ENTITIES_MADE: usize = 300;
    const ALIASES: usize = 64;

    fn alias(entity: usize, at: usize) -> Alias {
        Alias {
            id: IdentityId::make().unwrap(),
            accessor: format!("auth_userpass_{at}"),
            name: format!("user{entity}"),
            metadata: IdentityMetadata::new(),
            custom_metadata: IdentityMetadata::new(),
            merged_from: Vec::new(),
            created_at: Timestamp::UNIX_EPOCH,
            updated_at: Timestamp::UNIX_EPOCH,
        }
    }

    fn entity(at: usize) -> Entity {
        Entity {
            id: IdentityId::make().unwrap(),
            name: format!("entity{at}"),
            policies: Vec::new(),
            metadata: IdentityMetadata::new(),
            disabled: false,
            aliases: (0..ALIASES).map(|of| alias(at, of)).collect(),
            groups: Vec::new(),
            merged: Vec::new(),
            created_at: Timestamp::UNIX_EPOCH,
            updated_at: Timestamp::UNIX_EPOCH,
        }
    }

    /// Their records are more than one change may touch.
    #[test]
    fn entities_with_many_aliases_are_deleted_together() {
        let core = open_core(RouteAccess::Token);
        let context = core.context.load_full().unwrap();
        let mount = context.view.mounts.with_id(MountId::IDENTITY).unwrap();
        let made: Vec<Entity> = (0..ENTITIES_MADE).map(entity).collect();
        for some in made.chunks(100) {
            let put = change(&context, &mount, "entities", |draft| {
                for entity in some {
                    draft.claim_name(&entity.name, entity.id)?;
                    for alias in &entity.aliases {
                        draft.claim_alias(alias, entity.id)?;
                    }
                    draft.put_entity(entity)?;
                }
                Ok(())
            });
            pollster::block_on(put).unwrap();
        }
        let directory = directory_of(&mount).unwrap();
        assert_eq!(directory.entities().len(), ENTITIES_MADE);
        let ids = Json::strings(made.iter().map(|entity| entity.id.to_string()));
        let body = Json::object([("entity_ids", ids)]).to_text();
        let body = std::str::from_utf8(&body).unwrap();
        ask(&core, Some(ROOT), Update, "identity/entity/batch-delete", body).unwrap();
        assert_eq!(directory.entities().len(), 0);
    }
}
