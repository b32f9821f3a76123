//! What an engine keeps decoded in memory, by mount.
//!
//! Most engines read their engine storage when they are asked. One that is asked for the same records by
//! every request keeps them decoded: the fold hands it each record of its mount here, so that the
//! decoded state is what was committed, on every node.

use super::fold::Damaged;
use crate::engines::identity::{Directory, Effect};
use crate::engines::mount::EngineKind;

/// The decoded state of a mount.
pub(crate) enum Memory {
    /// The engine keeps none.
    None,
    /// Entities and groups.
    Identity(Box<Directory>),
}

impl Memory {
    /// The empty state of an engine.
    pub(super) fn of(kind: EngineKind) -> Self {
        match kind {
            EngineKind::Identity => Self::Identity(Box::default()),
            _ => Self::None,
        }
    }

    /// Takes a record of the mount's engine storage in.
    pub(super) fn put(&self, name: &str, value: &[u8]) -> Result<Effect, Damaged> {
        match self {
            Self::None => Ok(Effect::Told),
            Self::Identity(directory) => directory.put(name, value).ok_or(Damaged("identity")),
        }
    }

    /// Takes a record of the mount's engine storage out.
    pub(super) fn remove(&self, name: &str) -> Effect {
        match self {
            Self::None => Effect::Told,
            Self::Identity(directory) => directory.remove(name),
        }
    }

    /// The entities and groups, of the mount that has them.
    pub(crate) fn directory(&self) -> Option<&Directory> {
        match self {
            Self::Identity(directory) => Some(directory),
            Self::None => None,
        }
    }
}
