//! Entities, groups and aliases as clients see them.

use std::collections::HashMap;

use crate::api::json::{Json, Map};
use crate::identity::directory::IdentityDirectory;
use crate::identity::record::{
    Alias, Entity, Group, IdentityId, IdentityMetadata, ids_json, metadata_json,
};
use crate::view::View;

/// Where login methods are mounted and what they are, by accessor; and the namespace that they, and all that is shown, are of.
pub(super) struct Methods {
    by_accessor: HashMap<String, (String, &'static str)>,
    namespace_id: String,
}

impl Methods {
    pub(super) fn of(view: &View) -> Self {
        let all = view.mounts.all();
        let named = all.iter().map(|mount| {
            let entry = &mount.entry;
            (entry.accessor.clone(), (entry.path.clone(), entry.kind.name()))
        });
        Self { by_accessor: named.collect(), namespace_id: view.namespace_id().to_owned() }
    }

    /// Whether something is mounted under this accessor.
    pub(super) fn know(&self, accessor: &str) -> bool {
        self.by_accessor.contains_key(accessor)
    }

    /// The type of what is mounted under this accessor.
    pub(super) fn type_of(&self, accessor: &str) -> &'static str {
        self.by_accessor.get(accessor).map_or("", |(_, kind)| kind)
    }

    /// The path of what is mounted under this accessor.
    pub(super) fn path_of(&self, accessor: &str) -> &str {
        self.by_accessor.get(accessor).map_or("", |(path, _)| path)
    }

    /// Says where an alias comes from, if its mount is still there.
    fn place(&self, map: &mut Map, accessor: &str) {
        map.insert("mount_accessor".into(), accessor.into());
        if let Some((path, kind)) = self.by_accessor.get(accessor) {
            map.insert("mount_path".into(), path.as_str().into());
            map.insert("mount_type".into(), (*kind).into());
        }
    }
}

/// `null` for nothing, as the wire has it.
fn metadata_or_null(metadata: &IdentityMetadata) -> Json {
    if metadata.is_empty() { Json::Null } else { metadata_json(metadata) }
}

fn ids_or_null(ids: &[IdentityId]) -> Json {
    if ids.is_empty() { Json::Null } else { ids_json(ids) }
}

fn alias_map(alias: &Alias, canonical: IdentityId, methods: &Methods) -> Map {
    let mut map = Map::new();
    let mut put = |name: &str, value: Json| map.insert(name.to_owned(), value);
    put("canonical_id", canonical.to_string().into());
    put("creation_time", alias.created_at.to_string().into());
    put("custom_metadata", metadata_or_null(&alias.custom_metadata));
    put("id", alias.id.to_string().into());
    put("last_update_time", alias.updated_at.to_string().into());
    put("local", false.into());
    put("merged_from_canonical_ids", ids_or_null(&alias.merged_from));
    put("metadata", metadata_or_null(&alias.metadata));
    put("name", alias.name.as_str().into());
    methods.place(&mut map, &alias.accessor);
    map
}

/// An alias that is asked for by itself.
pub(super) fn alias(alias: &Alias, canonical: IdentityId, methods: &Methods) -> Json {
    let mut map = alias_map(alias, canonical, methods);
    map.insert("namespace_id".into(), methods.namespace_id.as_str().into());
    Json::Object(map)
}

/// An alias in the `key_info` of a list of aliases.
pub(super) fn alias_info(alias: &Alias, canonical: IdentityId, methods: &Methods) -> Json {
    let mut map = alias_map(alias, canonical, methods);
    for name in ["id", "creation_time", "last_update_time", "merged_from_canonical_ids"] {
        map.remove(name);
    }
    Json::Object(map)
}

/// An entity that is asked for by itself.
pub(super) fn entity(entity: &Entity, directory: &IdentityDirectory, methods: &Methods) -> Json {
    let person = directory.person(entity.id);
    let groups = person.map(|person| person.groups).unwrap_or_default();
    let is_direct = |id: &IdentityId| entity.groups.binary_search(id).is_ok();
    let ids: Vec<IdentityId> = groups.iter().map(|group| group.id).collect();
    let (direct, inherited): (Vec<IdentityId>, Vec<IdentityId>) =
        ids.iter().partition(|id| is_direct(id));
    let aliases = entity.aliases.iter().map(|alias| alias_map(alias, entity.id, methods).into());
    Json::object([
        ("aliases", Json::Array(aliases.collect())),
        ("creation_time", entity.created_at.to_string().into()),
        ("direct_group_ids", ids_json(&direct)),
        ("disabled", entity.disabled.into()),
        ("group_ids", ids_json(&ids)),
        ("id", entity.id.to_string().into()),
        ("inherited_group_ids", ids_json(&inherited)),
        ("last_update_time", entity.updated_at.to_string().into()),
        ("merged_entity_ids", ids_or_null(&entity.merged)),
        ("metadata", metadata_or_null(&entity.metadata)),
        ("name", entity.name.as_str().into()),
        ("namespace_id", methods.namespace_id.as_str().into()),
        ("policies", Json::strings(entity.policies.iter().cloned())),
    ])
}

/// An entity in the `key_info` of a list of entities.
pub(super) fn entity_info(entity: &Entity, methods: &Methods) -> Json {
    let mut map = Map::from([("name".to_owned(), entity.name.as_str().into())]);
    let aliases = entity.aliases.iter().map(|alias| {
        let mut map = Map::new();
        map.insert("id".into(), alias.id.to_string().into());
        map.insert("name".into(), alias.name.as_str().into());
        methods.place(&mut map, &alias.accessor);
        Json::Object(map)
    });
    if !entity.aliases.is_empty() {
        map.insert("aliases".into(), Json::Array(aliases.collect()));
    }
    Json::Object(map)
}

/// A group that is asked for by itself.
pub(super) fn group(group: &Group, directory: &IdentityDirectory, methods: &Methods) -> Json {
    let inside: Vec<IdentityId> =
        group.groups.iter().copied().filter(|id| directory.group(*id).is_some()).collect();
    let policies = match group.policies.as_slice() {
        [] => Json::Null,
        names => Json::strings(names.iter().cloned()),
    };
    let alias = group.alias.as_ref().map_or_else(Map::new, |alias| {
        let mut map = alias_map(alias, group.id, methods);
        map.remove("custom_metadata");
        map.remove("local");
        map
    });
    Json::object([
        ("alias", alias.into()),
        ("creation_time", group.created_at.to_string().into()),
        ("id", group.id.to_string().into()),
        ("last_update_time", group.updated_at.to_string().into()),
        ("member_entity_ids", ids_or_null(&directory.members_of(group.id))),
        ("member_group_ids", ids_or_null(&inside)),
        ("metadata", metadata_or_null(&group.metadata)),
        ("modify_index", group.modify_index.into()),
        ("name", group.name.as_str().into()),
        ("namespace_id", methods.namespace_id.as_str().into()),
        ("parent_group_ids", ids_or_null(&directory.parents_of(group.id))),
        ("policies", policies),
        ("type", group.kind.name().into()),
    ])
}

/// A group in the `key_info` of a list of groups.
pub(super) fn group_info(group: &Group, directory: &IdentityDirectory) -> Json {
    Json::object([
        ("name", group.name.as_str().into()),
        ("num_member_entities", (directory.member_count(group.id) as u64).into()),
        ("num_parent_groups", (directory.parents_of(group.id).len() as u64).into()),
    ])
}
