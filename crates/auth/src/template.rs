//! Templates in the patterns of policies: `{{identity.entity.id}}` and its kin.
//!
//! A pattern is cut into text and [`Variable`]s once, when its policy is read. When a policy set is
//! compiled for a caller, an [`TemplateSubject`] answers each variable, or does not.

use std::borrow::Cow;

/// What a template names.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Variable {
    /// `identity.entity.id`
    EntityId,
    /// `identity.entity.name`
    EntityName,
    /// `identity.entity.metadata.KEY`
    EntityMetadata(String),
    /// `identity.entity.aliases.ACCESSOR.id`
    AliasId(String),
    /// `identity.entity.aliases.ACCESSOR.name`
    AliasName(String),
    /// `identity.entity.aliases.ACCESSOR.metadata.KEY`
    AliasMetadata {
        /// Of the auth mount.
        accessor: String,
        /// In the metadata.
        key: String,
    },
    /// `identity.entity.aliases.ACCESSOR.custom_metadata.KEY`
    AliasCustomMetadata {
        /// Of the auth mount.
        accessor: String,
        /// In the metadata.
        key: String,
    },
    /// `identity.groups.names.NAME.id`
    GroupId {
        /// Of a group that the entity is in.
        name: String,
    },
    /// `identity.groups.ids.ID.name`
    GroupName {
        /// Of a group that the entity is in.
        id: String,
    },
    /// `identity.groups.ids.ID.metadata.KEY`
    GroupMetadataById {
        /// Of a group that the entity is in.
        id: String,
        /// In the metadata.
        key: String,
    },
    /// `identity.groups.names.NAME.metadata.KEY`
    GroupMetadataByName {
        /// Of a group that the entity is in.
        name: String,
        /// In the metadata.
        key: String,
    },
    /// Anything else: nothing answers it.
    Unknown(String),
}

/// Who a caller is, as templates ask. An alias is found by the accessor of its auth mount, never by
/// its order, which would let the alias of another method answer; a group counts only if the entity is in it.
pub trait TemplateSubject {
    /// The value of `variable`, or `None` when the caller has none.
    fn value(&self, variable: &Variable) -> Option<Cow<'_, str>>;
}

/// A caller without an entity: no template resolves.
#[derive(Clone, Copy, Debug)]
pub struct NoIdentity;

impl TemplateSubject for NoIdentity {
    fn value(&self, _: &Variable) -> Option<Cow<'_, str>> {
        None
    }
}

impl Variable {
    /// What the inside of the braces names.
    pub fn parse(name: &str) -> Self {
        let name = name.trim();
        Self::known(name).unwrap_or_else(|| Self::Unknown(name.to_owned()))
    }

    fn known(name: &str) -> Option<Self> {
        let name = name.strip_prefix("identity.")?;
        if let Some(field) = name.strip_prefix("entity.") {
            return Self::of_entity(field);
        }
        if let Some(rest) = name.strip_prefix("groups.ids.") {
            let (id, field) = rest.split_once('.').filter(|(id, _)| !id.is_empty())?;
            let id = id.to_owned();
            return match field.split_once('.') {
                None if field == "name" => Some(Self::GroupName { id }),
                Some(("metadata", key)) => {
                    Some(Self::GroupMetadataById { id, key: key.to_owned() })
                }
                _ => None,
            };
        }
        // A group's name may hold dots, so its field is looked for from the right.
        let rest = name.strip_prefix("groups.names.")?;
        if let Some(name) = rest.strip_suffix(".id").filter(|name| !name.is_empty()) {
            return Some(Self::GroupId { name: name.to_owned() });
        }
        let (name, key) = rest.rsplit_once(".metadata.").filter(|(name, _)| !name.is_empty())?;
        Some(Self::GroupMetadataByName { name: name.to_owned(), key: key.to_owned() })
    }

    fn of_entity(field: &str) -> Option<Self> {
        match field.split_once('.') {
            None if field == "id" => Some(Self::EntityId),
            None if field == "name" => Some(Self::EntityName),
            Some(("metadata", key)) => Some(Self::EntityMetadata(key.to_owned())),
            Some(("aliases", rest)) => {
                let (accessor, field) = rest.split_once('.')?;
                let accessor = accessor.to_owned();
                match field.split_once('.') {
                    None if field == "id" => Some(Self::AliasId(accessor)),
                    None if field == "name" => Some(Self::AliasName(accessor)),
                    Some(("metadata", key)) => {
                        Some(Self::AliasMetadata { accessor, key: key.to_owned() })
                    }
                    Some(("custom_metadata", key)) => {
                        Some(Self::AliasCustomMetadata { accessor, key: key.to_owned() })
                    }
                    _ => None,
                }
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_of_the_contract_is_known() {
        let own = str::to_owned;
        for (name, variable) in [
            ("identity.entity.id", Variable::EntityId),
            (" identity.entity.name ", Variable::EntityName),
            ("identity.entity.metadata.a.b", Variable::EntityMetadata(own("a.b"))),
            ("identity.entity.aliases.auth_1.id", Variable::AliasId(own("auth_1"))),
            ("identity.entity.aliases.auth_1.name", Variable::AliasName(own("auth_1"))),
            (
                "identity.entity.aliases.x.metadata.k",
                Variable::AliasMetadata { accessor: own("x"), key: own("k") },
            ),
            (
                "identity.entity.aliases.x.custom_metadata.k",
                Variable::AliasCustomMetadata { accessor: own("x"), key: own("k") },
            ),
            ("identity.groups.ids.7.name", Variable::GroupName { id: own("7") }),
            (
                "identity.groups.ids.7.metadata.k",
                Variable::GroupMetadataById { id: own("7"), key: own("k") },
            ),
            ("identity.groups.names.a.b.id", Variable::GroupId { name: own("a.b") }),
            (
                "identity.groups.names.a.b.metadata.k",
                Variable::GroupMetadataByName { name: own("a.b"), key: own("k") },
            ),
        ] {
            assert_eq!(Variable::parse(name), variable, "{name}");
        }
        for name in [
            "",
            "entity.id",
            "identity.entity",
            "identity.entity.Id",
            "identity.entity.email",
            "identity.entity.aliases.x.email",
            "identity.entity.aliases.x",
            "identity.groups.ids.7.id",
            "identity.groups.ids.7",
            "identity.groups.names..id",
        ] {
            assert!(matches!(Variable::parse(name), Variable::Unknown(_)), "{name}");
        }
    }
}
