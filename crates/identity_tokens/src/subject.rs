//! Whom a token is about: an entity, as templates name it.

use std::collections::BTreeMap;

/// Names and texts.
pub type SubjectMetadata = BTreeMap<String, String>;

/// An entity with its groups and aliases.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TokenSubject {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// What operators say of it.
    pub metadata: SubjectMetadata,
    /// The groups that it is in, directly or through others.
    pub groups: Vec<SubjectGroup>,
    /// What login methods call it.
    pub aliases: Vec<SubjectAlias>,
}

/// A group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SubjectGroup {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// What operators say of it.
    pub metadata: SubjectMetadata,
}

/// What a login method calls an entity.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SubjectAlias {
    /// The accessor of the login method's mount.
    pub accessor: String,
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// What the login method says.
    pub metadata: SubjectMetadata,
    /// What operators say.
    pub custom_metadata: SubjectMetadata,
}
