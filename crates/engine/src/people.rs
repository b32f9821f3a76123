//! Who entities are, for engines that tell others.
//!
//! An engine that makes tokens about entities asks [`People`] by an entity's id, at the request of that entity or of somebody to whom it
//! agreed to be named. What an engine is told is what operators and login methods wrote: no policies, and nothing secret.

use std::collections::BTreeMap;

/// Names and texts that operators or login methods attach.
pub type Metadata = BTreeMap<String, String>;

/// Entities.
pub trait People: Sync {
    /// Who an id stands for: the entity, or the one it became part of. `None` when there is none in the namespace of the mount, nor in
    /// those above it.
    fn person(&self, entity_id: &str) -> Option<Person>;
}

/// No entities.
#[derive(Clone, Copy, Debug)]
pub struct Nobody;

impl People for Nobody {
    fn person(&self, _: &str) -> Option<Person> {
        None
    }
}

/// An entity.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Person {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// What operators say of it.
    pub metadata: Metadata,
    /// Whether it may do nothing.
    pub is_disabled: bool,
    /// The groups that it is in, directly or through others, by id.
    pub groups: Vec<PersonGroup>,
    /// What login methods call it.
    pub aliases: Vec<PersonAlias>,
}

/// A group that an entity is in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PersonGroup {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// What operators say of it.
    pub metadata: Metadata,
}

/// What a login method calls an entity.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PersonAlias {
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
