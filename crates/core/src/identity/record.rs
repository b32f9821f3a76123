//! What is stored of entities and groups, and what their ids are.
//!
//! Records are JSON, as those of mounts and tokens. An entity's record holds its aliases and the ids
//! of the groups it is a direct member of; a group's holds the groups inside it and, if it is
//! external, its alias. So a login that changes somebody's groups writes one record however large
//! the groups are. An id of a group that is no more may stay in an entity: ids are never given
//! twice, and it counts for nothing.

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;

use crate::api::error::Error;
use crate::api::json::{self, Json, Map};
use crate::random;

/// The id of an entity, a group or an alias: a UUID, drawn once and never given again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct IdentityId(u128);

/// Names and values that operators or login methods attach.
pub(crate) type IdentityMetadata = BTreeMap<String, String>;

/// Somebody, or something, that logs in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entity {
    pub(crate) id: IdentityId,
    pub(crate) name: String,
    pub(crate) policies: Vec<String>,
    pub(crate) metadata: IdentityMetadata,
    /// Its tokens do nothing while this stands.
    pub(crate) disabled: bool,
    /// At most one per login method.
    pub(crate) aliases: Vec<Alias>,
    /// The groups it is a direct member of, sorted.
    pub(crate) groups: Vec<IdentityId>,
    /// The entities that became part of this one; their tokens are its tokens.
    pub(crate) merged: Vec<IdentityId>,
    pub(crate) created_at: Timestamp,
    pub(crate) updated_at: Timestamp,
}

/// What a login method calls an entity, or a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Alias {
    pub(crate) id: IdentityId,
    /// The accessor of the login method's mount.
    pub(crate) accessor: String,
    pub(crate) name: String,
    /// What the login method says; replaced at each login.
    pub(crate) metadata: IdentityMetadata,
    /// What operators say.
    pub(crate) custom_metadata: IdentityMetadata,
    /// The entities it belonged to before they were merged.
    pub(crate) merged_from: Vec<IdentityId>,
    pub(crate) created_at: Timestamp,
    pub(crate) updated_at: Timestamp,
}

/// Who decides who is in a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GroupKind {
    /// Operators.
    Internal,
    /// A login method, at each login.
    External,
}

/// Entities, and groups, that share policies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Group {
    pub(crate) id: IdentityId,
    pub(crate) name: String,
    pub(crate) kind: GroupKind,
    pub(crate) policies: Vec<String>,
    pub(crate) metadata: IdentityMetadata,
    /// The groups inside it, sorted.
    pub(crate) groups: Vec<IdentityId>,
    /// Of an external group.
    pub(crate) alias: Option<Alias>,
    pub(crate) modify_index: u64,
    pub(crate) created_at: Timestamp,
    pub(crate) updated_at: Timestamp,
}

impl IdentityId {
    /// A fresh id.
    pub(crate) fn make() -> Result<Self, Error> {
        let text = random::make_uuid()?;
        Ok(Self(u128::from_be_bytes(random::uuid_bytes(&text))))
    }

    /// Its bits, for records that keep it short.
    pub(crate) const fn bits(self) -> u128 {
        self.0
    }

    /// The id of these bits.
    pub(crate) const fn of_bits(bits: u128) -> Self {
        Self(bits)
    }

    /// Reads an id as it is shown; anything else is the id of nobody.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let id = Self(u128::from_be_bytes(random::uuid_bytes(text)));
        (id.to_string() == text).then_some(id)
    }
}

impl fmt::Display for IdentityId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hex = format!("{:032x}", self.0);
        write!(f, "{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
    }
}

impl GroupKind {
    /// On the wire and in records.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Internal => "internal",
            Self::External => "external",
        }
    }

    /// The kind of this name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        [Self::Internal, Self::External].into_iter().find(|kind| kind.name() == name)
    }
}

impl Entity {
    /// The record's bytes.
    pub(crate) fn encode(&self) -> Vec<u8> {
        Json::object([
            ("id", self.id.to_string().into()),
            ("name", self.name.as_str().into()),
            ("policies", Json::strings(self.policies.iter().cloned())),
            ("metadata", metadata_json(&self.metadata)),
            ("disabled", self.disabled.into()),
            ("aliases", Json::Array(self.aliases.iter().map(Alias::to_json).collect())),
            ("groups", ids_json(&self.groups)),
            ("merged", ids_json(&self.merged)),
            ("created_at", self.created_at.to_string().into()),
            ("updated_at", self.updated_at.to_string().into()),
        ])
        .to_text()
    }

    /// Reads a record back; `None` when the bytes are no entity.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let map = json::parse_object(bytes).ok()?;
        let Some(Json::Array(aliases)) = map.get("aliases") else { return None };
        Some(Self {
            id: id_of(&map, "id")?,
            name: text_of(&map, "name")?,
            policies: texts_of(&map, "policies")?,
            metadata: metadata_of(&map, "metadata")?,
            disabled: matches!(map.get("disabled")?, Json::Bool(true)),
            aliases: aliases.iter().map(Alias::from_json).collect::<Option<_>>()?,
            groups: ids_of(&map, "groups")?,
            merged: ids_of(&map, "merged")?,
            created_at: time_of(&map, "created_at")?,
            updated_at: time_of(&map, "updated_at")?,
        })
    }

    /// Its alias with a login method.
    pub(crate) fn alias_at(&self, accessor: &str) -> Option<&Alias> {
        self.aliases.iter().find(|alias| alias.accessor == accessor)
    }
}

impl Alias {
    fn to_json(&self) -> Json {
        Json::object([
            ("id", self.id.to_string().into()),
            ("accessor", self.accessor.as_str().into()),
            ("name", self.name.as_str().into()),
            ("metadata", metadata_json(&self.metadata)),
            ("custom_metadata", metadata_json(&self.custom_metadata)),
            ("merged_from", ids_json(&self.merged_from)),
            ("created_at", self.created_at.to_string().into()),
            ("updated_at", self.updated_at.to_string().into()),
        ])
    }

    fn from_json(json: &Json) -> Option<Self> {
        let map = json.as_object()?;
        Some(Self {
            id: id_of(map, "id")?,
            accessor: text_of(map, "accessor")?,
            name: text_of(map, "name")?,
            metadata: metadata_of(map, "metadata")?,
            custom_metadata: metadata_of(map, "custom_metadata")?,
            merged_from: ids_of(map, "merged_from")?,
            created_at: time_of(map, "created_at")?,
            updated_at: time_of(map, "updated_at")?,
        })
    }
}

impl Group {
    /// Whether a login by this method decides who is in it. One whose alias was deleted is left by whoever logs in.
    pub(crate) fn is_filled_by(&self, accessor: &str) -> bool {
        self.kind == GroupKind::External
            && self.alias.as_ref().is_none_or(|alias| alias.accessor == accessor)
    }

    /// The record's bytes.
    pub(crate) fn encode(&self) -> Vec<u8> {
        Json::object([
            ("id", self.id.to_string().into()),
            ("name", self.name.as_str().into()),
            ("type", self.kind.name().into()),
            ("policies", Json::strings(self.policies.iter().cloned())),
            ("metadata", metadata_json(&self.metadata)),
            ("groups", ids_json(&self.groups)),
            ("alias", self.alias.as_ref().map_or(Json::Null, Alias::to_json)),
            ("modify_index", self.modify_index.into()),
            ("created_at", self.created_at.to_string().into()),
            ("updated_at", self.updated_at.to_string().into()),
        ])
        .to_text()
    }

    /// Reads a record back; `None` when the bytes are no group.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let map = json::parse_object(bytes).ok()?;
        let Json::Number(modify_index) = map.get("modify_index")? else { return None };
        Some(Self {
            id: id_of(&map, "id")?,
            name: text_of(&map, "name")?,
            kind: GroupKind::named(map.get("type")?.as_str()?)?,
            policies: texts_of(&map, "policies")?,
            metadata: metadata_of(&map, "metadata")?,
            groups: ids_of(&map, "groups")?,
            alias: match map.get("alias")? {
                Json::Null => None,
                alias => Some(Alias::from_json(alias)?),
            },
            modify_index: modify_index.parse().ok()?,
            created_at: time_of(&map, "created_at")?,
            updated_at: time_of(&map, "updated_at")?,
        })
    }
}

/// The JSON of metadata.
pub(crate) fn metadata_json(metadata: &IdentityMetadata) -> Json {
    let pairs = metadata.iter().map(|(name, value)| (name.clone(), value.as_str().into()));
    Json::Object(pairs.collect())
}

/// The JSON of a list of ids.
pub(crate) fn ids_json<'a>(ids: impl IntoIterator<Item = &'a IdentityId>) -> Json {
    Json::strings(ids.into_iter().map(IdentityId::to_string))
}

fn text_of(map: &Map, name: &str) -> Option<String> {
    Some(map.get(name)?.as_str()?.to_owned())
}

fn id_of(map: &Map, name: &str) -> Option<IdentityId> {
    IdentityId::parse(map.get(name)?.as_str()?)
}

fn time_of(map: &Map, name: &str) -> Option<Timestamp> {
    map.get(name)?.as_str()?.parse().ok()
}

fn texts_of(map: &Map, name: &str) -> Option<Vec<String>> {
    let Json::Array(items) = map.get(name)? else { return None };
    items.iter().map(|item| item.as_str().map(str::to_owned)).collect()
}

fn ids_of(map: &Map, name: &str) -> Option<Vec<IdentityId>> {
    let Json::Array(items) = map.get(name)? else { return None };
    items.iter().map(|item| IdentityId::parse(item.as_str()?)).collect()
}

fn metadata_of(map: &Map, name: &str) -> Option<IdentityMetadata> {
    let pairs = map.get(name)?.as_object()?.iter();
    pairs.map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn alias(id: u128) -> Alias {
        Alias {
            id: IdentityId(id),
            accessor: "auth_userpass_1".into(),
            name: "Bob".into(),
            metadata: IdentityMetadata::from([("k".into(), "v\"".into())]),
            custom_metadata: IdentityMetadata::new(),
            merged_from: vec![IdentityId(9)],
            created_at: Timestamp::from_nanosecond(1).unwrap(),
            updated_at: Timestamp::from_nanosecond(2).unwrap(),
        }
    }

    #[test]
    fn entities_and_groups_read_back() {
        let entity = Entity {
            id: IdentityId(u128::MAX),
            name: "bob".into(),
            policies: vec!["a".into()],
            metadata: IdentityMetadata::from([("team".into(), "x".into())]),
            disabled: true,
            aliases: vec![alias(4)],
            groups: vec![IdentityId(5), IdentityId(6)],
            merged: vec![IdentityId(7)],
            created_at: Timestamp::from_nanosecond(3).unwrap(),
            updated_at: Timestamp::from_nanosecond(4).unwrap(),
        };
        assert_eq!(Entity::decode(&entity.encode()), Some(entity));
        let group = Group {
            id: IdentityId(1),
            name: "g".into(),
            kind: GroupKind::External,
            policies: Vec::new(),
            metadata: IdentityMetadata::new(),
            groups: Vec::new(),
            alias: Some(alias(2)),
            modify_index: 3,
            created_at: Timestamp::UNIX_EPOCH,
            updated_at: Timestamp::UNIX_EPOCH,
        };
        assert_eq!(Group::decode(&group.encode()), Some(group));
        assert_eq!(Entity::decode(b"{}"), None);
        assert_eq!(Group::decode(b"[]"), None);
    }

    #[test]
    fn an_id_has_one_spelling() {
        let id = IdentityId::make().unwrap();
        assert_eq!(IdentityId::parse(&id.to_string()), Some(id));
        let upper = id.to_string().to_uppercase();
        let bare = id.to_string().replace('-', "");
        for other in ["", "none", "x00000000-0000-0000-0000-000000000000", &bare] {
            assert_eq!(IdentityId::parse(other), None, "{other}");
        }
        assert!(IdentityId::parse(&upper).is_none() || upper == id.to_string());
    }
}
