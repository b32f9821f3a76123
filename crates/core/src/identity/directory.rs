//! The directory: every entity and group, decoded, in memory.
//!
//! The fold alone writes here ([`IdentityDirectory::put`], [`IdentityDirectory::remove`]); requests look up and
//! never ask the store. An entity with all its groups is a [`Person`].
//!
//! A token whose bearer is an entity holds that entity's [`ChangeCounter`]: a count of its changes, which a
//! request compares with the count its compiled policies were made under. So a change of one entity
//! makes no other's policies be compiled anew. A change of a group does, as that of a policy does:
//! operators make those, logins make the others.
//!
//! Invariants:
//! - Every map here follows from the records; each put undoes what the record's last state put.
//! - A watch is counted up after the state it watches was changed, so that what was compiled under
//!   the new count was compiled from the new state.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock, RwLockReadGuard};

use kallisto_auth::{TemplateSubject, Variable};

use super::names::Folded;
use super::record::{Alias, Entity, Group, IdentityId};

/// The engine storage's folder of entities.
pub(crate) const ENTITIES: &str = "entity/";
/// The engine storage's folder of groups.
pub(crate) const GROUPS: &str = "group/";
/// The engine storage's record that counts writes of groups.
pub(crate) const GROUP_WRITES: &str = "groups";
/// Watches looked through for those that no token holds any more, at first.
const WATCHES_AT_START: usize = 1 << 10;

/// Every entity and group of an identity mount.
pub(crate) struct IdentityDirectory(RwLock<DirectoryState>);

/// A count of one entity's changes, shared by its tokens.
#[derive(Default)]
pub(crate) struct ChangeCounter(AtomicU64);

/// An entity with every group it is in, directly or through others.
pub(crate) struct Person {
    pub(crate) entity: Arc<Entity>,
    /// By id.
    pub(crate) groups: Vec<Arc<Group>>,
    /// Where in them a name is, once a template asked for one: there may be as many templates as groups.
    by_name: OnceLock<HashMap<String, usize>>,
}

/// What a change of a record asks of those who hold what was made from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Watches were counted up where needed.
    Told,
    /// Anybody's policies may have changed.
    Anybody,
}

#[derive(Default)]
struct DirectoryState {
    entities: BTreeMap<IdentityId, Arc<Entity>>,
    /// Entities by name, aliases of entities by login method and name.
    by_name: HashMap<Folded, IdentityId>,
    by_alias: HashMap<(Box<str>, Folded), IdentityId>,
    by_alias_id: HashMap<IdentityId, IdentityId>,
    /// Entities that became part of others.
    by_merged: HashMap<IdentityId, IdentityId>,
    groups: BTreeMap<IdentityId, Arc<Group>>,
    group_by_name: HashMap<Folded, IdentityId>,
    group_by_alias: HashMap<(Box<str>, Folded), IdentityId>,
    group_by_alias_id: HashMap<IdentityId, IdentityId>,
    /// The groups that a group is directly inside of.
    parents: HashMap<IdentityId, BTreeSet<IdentityId>>,
    /// The entities directly in a group.
    members: HashMap<IdentityId, BTreeSet<IdentityId>>,
    group_writes: u64,
    watches: HashMap<IdentityId, Arc<ChangeCounter>>,
    watches_max: usize,
}

impl Default for IdentityDirectory {
    fn default() -> Self {
        let state = DirectoryState { watches_max: WATCHES_AT_START, ..DirectoryState::default() };
        Self(RwLock::new(state))
    }
}

impl ChangeCounter {
    /// The count now.
    pub(crate) fn count(&self) -> u64 {
        // Acquire: who sees the count sees the state it counts.
        self.0.load(Ordering::Acquire)
    }

    fn tell(&self) {
        // Release: see `count`.
        self.0.fetch_add(1, Ordering::Release);
    }
}

impl IdentityDirectory {
    fn read(&self) -> RwLockReadGuard<'_, DirectoryState> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a record of the engine storage in; `None` when it is damaged.
    pub(crate) fn put(&self, name: &str, value: &[u8]) -> Option<Effect> {
        let mut state = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if name.starts_with(ENTITIES) {
            state.put_entity(Entity::decode(value)?);
            return Some(Effect::Told);
        }
        if name.starts_with(GROUPS) {
            state.put_group(Group::decode(value)?);
            return Some(Effect::Anybody);
        }
        if name == GROUP_WRITES {
            state.group_writes = std::str::from_utf8(value).ok()?.parse().ok()?;
        }
        Some(Effect::Told)
    }

    /// Takes a record of the engine storage out.
    pub(crate) fn remove(&self, name: &str) -> Effect {
        let mut state = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(id) = name.strip_prefix(ENTITIES).and_then(IdentityId::parse) {
            state.remove_entity(id);
        } else if let Some(id) = name.strip_prefix(GROUPS).and_then(IdentityId::parse) {
            state.remove_group(id);
            return Effect::Anybody;
        }
        Effect::Told
    }

    /// The watch of an entity, for a token of its.
    pub(crate) fn watch(&self, id: IdentityId) -> Arc<ChangeCounter> {
        let mut state = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if state.watches.len() >= state.watches_max {
            state.watches.retain(|_, watch| Arc::strong_count(watch) > 1);
            state.watches_max = WATCHES_AT_START.max(2 * state.watches.len());
        }
        Arc::clone(state.watches.entry(id).or_default())
    }

    /// Who an id stands for: the entity, or the one it became part of.
    pub(crate) fn person(&self, id: IdentityId) -> Option<Person> {
        let state = self.read();
        let entity = state.entity(id)?;
        let groups = state.groups_of(&entity.groups);
        Some(Person { groups, entity, by_name: OnceLock::new() })
    }

    /// The entity with this id, or the one it became part of.
    pub(crate) fn entity(&self, id: IdentityId) -> Option<Arc<Entity>> {
        self.read().entity(id)
    }

    pub(crate) fn entity_named(&self, name: &Folded) -> Option<Arc<Entity>> {
        let state = self.read();
        state.entity(*state.by_name.get(name)?)
    }

    pub(crate) fn entity_with_alias(&self, accessor: &str, name: &Folded) -> Option<Arc<Entity>> {
        let state = self.read();
        state.entity(*state.by_alias.get(&(accessor.into(), name.clone()))?)
    }

    pub(crate) fn entity_with_alias_id(&self, id: IdentityId) -> Option<Arc<Entity>> {
        let state = self.read();
        state.entity(*state.by_alias_id.get(&id)?)
    }

    /// How many entities there are.
    pub(crate) fn entity_count(&self) -> usize {
        self.read().entities.len()
    }

    /// The first `limit` entities by id after one.
    pub(crate) fn entities_after(
        &self,
        after: Option<IdentityId>,
        limit: usize,
    ) -> Vec<Arc<Entity>> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let state = self.read();
        let entities = state.entities.range((from, Bound::Unbounded));
        entities.take(limit).map(|(_, entity)| Arc::clone(entity)).collect()
    }

    /// The first `limit` groups by id after one, each with the policies that being in it gives: its own, and those of the groups
    /// that it is inside of.
    pub(crate) fn groups_after(
        &self,
        after: Option<IdentityId>,
        limit: usize,
    ) -> Vec<(Arc<Group>, BTreeSet<String>)> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let state = self.read();
        let groups = state.groups.range((from, Bound::Unbounded)).take(limit);
        let policies = |id: IdentityId| {
            let around = state.groups_of(&[id]);
            around.iter().flat_map(|group| group.policies.iter().cloned()).collect()
        };
        groups.map(|(id, group)| (Arc::clone(group), policies(*id))).collect()
    }

    pub(crate) fn entities(&self) -> Vec<Arc<Entity>> {
        self.read().entities.values().cloned().collect()
    }

    pub(crate) fn group(&self, id: IdentityId) -> Option<Arc<Group>> {
        self.read().groups.get(&id).cloned()
    }

    pub(crate) fn group_named(&self, name: &Folded) -> Option<Arc<Group>> {
        let state = self.read();
        state.groups.get(state.group_by_name.get(name)?).cloned()
    }

    pub(crate) fn group_with_alias(&self, accessor: &str, name: &Folded) -> Option<Arc<Group>> {
        let state = self.read();
        let id = state.group_by_alias.get(&(accessor.into(), name.clone()))?;
        state.groups.get(id).cloned()
    }

    pub(crate) fn group_with_alias_id(&self, id: IdentityId) -> Option<Arc<Group>> {
        let state = self.read();
        state.groups.get(state.group_by_alias_id.get(&id)?).cloned()
    }

    pub(crate) fn groups(&self) -> Vec<Arc<Group>> {
        self.read().groups.values().cloned().collect()
    }

    /// The entities directly in a group.
    pub(crate) fn members_of(&self, id: IdentityId) -> Vec<IdentityId> {
        self.read().members.get(&id).map_or_else(Vec::new, |all| all.iter().copied().collect())
    }

    pub(crate) fn member_count(&self, id: IdentityId) -> usize {
        self.read().members.get(&id).map_or(0, BTreeSet::len)
    }

    /// The groups that a group is directly inside of.
    pub(crate) fn parents_of(&self, id: IdentityId) -> Vec<IdentityId> {
        self.read().parents.get(&id).map_or_else(Vec::new, |all| all.iter().copied().collect())
    }

    /// How often groups were written, as far as this directory has come.
    pub(crate) fn group_writes(&self) -> u64 {
        self.read().group_writes
    }
}

impl DirectoryState {
    fn entity(&self, id: IdentityId) -> Option<Arc<Entity>> {
        let id = self.by_merged.get(&id).unwrap_or(&id);
        self.entities.get(id).cloned()
    }

    /// The groups of these ids that exist, and all that they are inside of.
    fn groups_of(&self, direct: &[IdentityId]) -> Vec<Arc<Group>> {
        let mut found = BTreeMap::new();
        let mut next = direct.to_vec();
        while let Some(id) = next.pop() {
            let Some(group) = self.groups.get(&id) else { continue };
            if found.insert(id, Arc::clone(group)).is_none() {
                next.extend(self.parents.get(&id).into_iter().flatten());
            }
        }
        found.into_values().collect()
    }

    fn put_entity(&mut self, entity: Entity) {
        self.forget_entity(entity.id);
        let id = entity.id;
        self.by_name.insert(Folded::new(&entity.name), id);
        for alias in &entity.aliases {
            self.by_alias.insert(factors(alias), id);
            self.by_alias_id.insert(alias.id, id);
        }
        for merged in &entity.merged {
            self.by_merged.insert(*merged, id);
        }
        for group in &entity.groups {
            self.members.entry(*group).or_default().insert(id);
        }
        let entity = Arc::new(entity);
        self.entities.insert(id, Arc::clone(&entity));
        self.tell(&entity);
    }

    fn remove_entity(&mut self, id: IdentityId) {
        if let Some(gone) = self.forget_entity(id) {
            self.tell(&gone);
        }
    }

    fn tell(&self, entity: &Entity) {
        for id in entity.merged.iter().chain([&entity.id]) {
            if let Some(watch) = self.watches.get(id) {
                watch.tell();
            }
        }
    }

    /// Undoes what an entity's record put here. What meanwhile belongs to another stays.
    fn forget_entity(&mut self, id: IdentityId) -> Option<Arc<Entity>> {
        let old = self.entities.remove(&id)?;
        remove_own(&mut self.by_name, &Folded::new(&old.name), id);
        for alias in &old.aliases {
            remove_own(&mut self.by_alias, &factors(alias), id);
            remove_own(&mut self.by_alias_id, &alias.id, id);
        }
        for merged in &old.merged {
            remove_own(&mut self.by_merged, merged, id);
        }
        for group in &old.groups {
            remove_from(&mut self.members, *group, id);
        }
        Some(old)
    }

    fn put_group(&mut self, group: Group) {
        self.forget_group(group.id);
        let id = group.id;
        self.group_by_name.insert(Folded::new(&group.name), id);
        if let Some(alias) = &group.alias {
            self.group_by_alias.insert(factors(alias), id);
            self.group_by_alias_id.insert(alias.id, id);
        }
        for inside in &group.groups {
            self.parents.entry(*inside).or_default().insert(id);
        }
        self.groups.insert(id, Arc::new(group));
    }

    fn remove_group(&mut self, id: IdentityId) {
        self.forget_group(id);
        self.members.remove(&id);
    }

    fn forget_group(&mut self, id: IdentityId) {
        let Some(old) = self.groups.remove(&id) else { return };
        remove_own(&mut self.group_by_name, &Folded::new(&old.name), id);
        if let Some(alias) = &old.alias {
            remove_own(&mut self.group_by_alias, &factors(alias), id);
            remove_own(&mut self.group_by_alias_id, &alias.id, id);
        }
        for inside in &old.groups {
            remove_from(&mut self.parents, *inside, id);
        }
    }
}

fn factors(alias: &Alias) -> (Box<str>, Folded) {
    (alias.accessor.as_str().into(), Folded::new(&alias.name))
}

fn remove_own<K: std::hash::Hash + Eq>(map: &mut HashMap<K, IdentityId>, key: &K, id: IdentityId) {
    if map.get(key) == Some(&id) {
        map.remove(key);
    }
}

fn remove_from(
    sets: &mut HashMap<IdentityId, BTreeSet<IdentityId>>,
    of: IdentityId,
    id: IdentityId,
) {
    if let Some(set) = sets.get_mut(&of) {
        set.remove(&id);
        if set.is_empty() {
            sets.remove(&of);
        }
    }
}

impl Person {
    /// The names of the policies of the entity and of all its groups: sorted, each once.
    pub(crate) fn policies(&self) -> Vec<String> {
        let groups = self.groups.iter().flat_map(|group| &group.policies);
        let all: BTreeSet<&String> = self.entity.policies.iter().chain(groups).collect();
        all.into_iter().cloned().collect()
    }

    /// The external groups that it is in and that a login by a method decides about.
    pub(crate) fn groups_by(&self, accessor: &str) -> Vec<IdentityId> {
        let by = |group: &&Arc<Group>| {
            group.is_filled_by(accessor) && self.entity.groups.binary_search(&group.id).is_ok()
        };
        self.groups.iter().filter(by).map(|group| group.id).collect()
    }

    fn group(&self, id: &str) -> Option<&Group> {
        let id = IdentityId::parse(id)?;
        let at = self.groups.binary_search_by_key(&id, |group| group.id).ok()?;
        Some(&self.groups[at])
    }

    fn group_named(&self, name: &str) -> Option<&Group> {
        let places = self.by_name.get_or_init(|| {
            let named = |(at, group): (usize, &Arc<Group>)| (group.name.clone(), at);
            self.groups.iter().enumerate().map(named).collect()
        });
        Some(&self.groups[*places.get(name)?])
    }
}

impl TemplateSubject for Person {
    fn value(&self, variable: &Variable) -> Option<Cow<'_, str>> {
        let entity = &*self.entity;
        let text = |text: &str| Some(Cow::Owned(text.to_owned()));
        let alias = |accessor: &str| entity.alias_at(accessor);
        match variable {
            Variable::EntityId => text(&entity.id.to_string()),
            Variable::EntityName => text(&entity.name),
            Variable::EntityMetadata(key) => text(entity.metadata.get(key)?),
            Variable::AliasId(accessor) => text(&alias(accessor)?.id.to_string()),
            Variable::AliasName(accessor) => text(&alias(accessor)?.name),
            Variable::AliasMetadata { accessor, key } => text(alias(accessor)?.metadata.get(key)?),
            Variable::AliasCustomMetadata { accessor, key } => {
                text(alias(accessor)?.custom_metadata.get(key)?)
            }
            Variable::GroupId { name } => text(&self.group_named(name)?.id.to_string()),
            Variable::GroupName { id } => text(&self.group(id)?.name),
            Variable::GroupMetadataById { id, key } => text(self.group(id)?.metadata.get(key)?),
            Variable::GroupMetadataByName { name, key } => {
                text(self.group_named(name)?.metadata.get(key)?)
            }
            Variable::Unknown(_) => None,
        }
    }
}
