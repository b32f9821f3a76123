//! Entities and groups of a namespace, unpacked once.

use std::collections::BTreeMap;

use kallisto_vault_snapshot::OpenSnapshot;
use kallisto_vault_snapshot::identity::{
    PackedItem, StoredAlias, StoredEntity, StoredGroup, unpack,
};

use super::layout::SourceNamespace;
use super::leftovers::LeftBehind;
use kallisto_command::json::{Json, Map};

/// Where they are packed, below the folder of the mount.
const PACKERS: &str = "packer/";

/// What is known of who logs in.
#[derive(Default)]
pub(super) struct IdentityIndex {
    entities: BTreeMap<String, StoredEntity>,
    groups: BTreeMap<String, StoredGroup>,
    /// Records that were not understood, and why.
    problems: Vec<(String, String)>,
}

impl IdentityIndex {
    pub(super) fn unpacked(opened: &OpenSnapshot, at: &SourceNamespace) -> Result<Self, String> {
        let mut index = Self::default();
        let Some(mount) = at.mounts.get("identity/") else { return Ok(index) };
        let folder = format!("{}{PACKERS}", mount.folder);
        let mut local = Vec::new();
        for path in opened.below(&folder) {
            let unpacked = opened.get(path).and_then(|bytes| bytes.map_or(Ok(Vec::new()), unpack));
            match unpacked {
                Ok(items) => items.into_iter().for_each(|item| match item {
                    PackedItem::Entity(entity) => {
                        index.entities.insert(entity.id.clone(), entity);
                    }
                    PackedItem::Group(group) => {
                        index.groups.insert(group.id.clone(), group);
                    }
                    PackedItem::LocalAliases(entity, aliases) => local.push((entity, aliases)),
                    PackedItem::NotRead(id, error) => {
                        index.problems.push((id, error.to_string()));
                    }
                }),
                Err(error) => {
                    let name = path.strip_prefix(&mount.folder).unwrap_or_default();
                    index.problems.push((name.to_owned(), error.to_string()));
                }
            }
        }
        for (entity, aliases) in local {
            match index.entities.get_mut(&entity) {
                Some(entity) => entity.aliases.extend(aliases),
                None => {
                    index.problems.push((entity, "aliases of an entity that is gone".to_owned()))
                }
            }
        }
        Ok(index)
    }

    /// What does not move.
    pub(super) fn leftovers(&self, namespace: &str) -> Vec<LeftBehind> {
        let leftover = |kind, path: &str, why: String| LeftBehind {
            kind,
            namespace: namespace.to_owned(),
            path: path.to_owned(),
            why,
        };
        let problems = self.problems.iter();
        let problems = problems.map(|(path, why)| leftover("entities", path, why.clone()));
        let with_secrets = self.entities.values().filter(|entity| entity.mfa_secrets > 0);
        let secrets = with_secrets.map(|entity| {
            let why = "its secrets of second factors are not moved: make new ones".to_owned();
            leftover("second factors", &entity.name, why)
        });
        problems.chain(secrets).collect()
    }

    /// What is at a path below `identity/`.
    pub(super) fn read(&self, path: &str) -> Option<Map> {
        if let Some(id) = path.strip_prefix("entity/id/") {
            return self.entities.get(id).map(entity);
        }
        let id = path.strip_prefix("group/id/");
        id.and_then(|id| self.groups.get(id)).map(|group| self.group(group))
    }

    /// The ids at a path below `identity/`.
    pub(super) fn list(&self, path: &str) -> Vec<String> {
        match path {
            "entity/id" => self.entities.keys().cloned().collect(),
            "group/id" => self.groups.keys().cloned().collect(),
            _ => Vec::new(),
        }
    }
    fn group(&self, group: &StoredGroup) -> Map {
        // Groups name those they are in, and the API those that are in them.
        let inner = self.groups.values().filter(|inner| inner.parents.contains(&group.id));
        map([
            ("alias", group.alias.as_ref().map_or(Json::Object(Map::new()), alias_map)),
            ("id", group.id.as_str().into()),
            ("member_entity_ids", Json::strings(&group.members)),
            ("member_group_ids", Json::strings(inner.map(|inner| &inner.id))),
            ("metadata", texts(&group.metadata)),
            ("name", group.name.as_str().into()),
            ("policies", Json::strings(&group.policies)),
            ("type", group.kind.as_str().into()),
        ])
    }
}

fn entity(entity: &StoredEntity) -> Map {
    let aliases = entity.aliases.iter().map(alias_map).collect();
    map([
        ("aliases", Json::Array(aliases)),
        ("disabled", entity.disabled.into()),
        ("id", entity.id.as_str().into()),
        ("metadata", texts(&entity.metadata)),
        ("name", entity.name.as_str().into()),
        ("policies", Json::strings(&entity.policies)),
    ])
}

fn alias_map(alias: &StoredAlias) -> Json {
    Json::Object(map([
        ("custom_metadata", texts(&alias.custom_metadata)),
        ("mount_accessor", alias.mount_accessor.as_str().into()),
        ("name", alias.name.as_str().into()),
    ]))
}

fn texts(pairs: &BTreeMap<String, String>) -> Json {
    let pairs = pairs.iter().map(|(name, value)| (name.clone(), value.as_str().into()));
    Json::Object(pairs.collect())
}

fn map<const N: usize>(pairs: [(&str, Json); N]) -> Map {
    pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}
