//! Whom a token is about: an entity, as templates name it.

use std::collections::BTreeMap;

/// Names and texts.
pub type Metadata = BTreeMap<String, String>;

/// An entity with its groups and aliases.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subject {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// What operators say of it.
    pub metadata: Metadata,
    /// The groups that it is in, directly or through others.
    pub groups: Vec<Group>,
    /// What login methods call it.
    pub aliases: Vec<Alias>,
}

/// A group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Group {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// What operators say of it.
    pub metadata: Metadata,
}

/// What a login method calls an entity.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Alias {
    /// The accessor of the login method's mount.
    pub accessor: String,
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// What the login method says.
    pub metadata: Metadata,
    /// What operators say.
    pub custom_metadata: Metadata,
}
