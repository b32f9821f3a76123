//! Who entities are, for engines that tell others.
//!
//! An engine that makes tokens about entities asks [`People`] by an entity's id, at the request of that entity or of somebody to whom it
//! agreed to be named. What an engine is told is what operators and login methods wrote: no policies, and nothing secret.

use std::collections::BTreeMap;

/// Entities.
pub trait People: Sync {
    /// Who an id stands for: the entity, or the one it became part of. `None` when there is none in the namespace of the mount, nor in
    /// those above it.
    fn person(&self, entity_id: &str) -> Option<Profile>;
}

/// No entities.
#[derive(Clone, Copy, Debug)]
pub struct Nobody;

impl People for Nobody {
    fn person(&self, _: &str) -> Option<Profile> {
        None
    }
}

/// An entity.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// What operators say of it.
    pub metadata: BTreeMap<String, String>,
    /// Whether it may do nothing.
    pub is_disabled: bool,
    /// The groups that it is in, directly or through others, by id.
    pub groups: Vec<ProfileGroup>,
    /// What login methods call it.
    pub aliases: Vec<ProfileAlias>,
}

/// A group that an entity is in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProfileGroup {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// What operators say of it.
    pub metadata: BTreeMap<String, String>,
}

/// What a login method calls an entity.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProfileAlias {
    /// The accessor of the login method's mount.
    pub accessor: String,
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// What the login method says.
    pub metadata: BTreeMap<String, String>,
    /// What operators say.
    pub custom_metadata: BTreeMap<String, String>,
}
