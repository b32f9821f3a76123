//! What an engine keeps decoded in memory, by mount.
//!
//! Most engines read their engine storage when they are asked. One that is asked for the same records by
//! every request keeps them decoded: the fold hands it each record of its mount here, so that the
//! decoded state is what was committed, on every node.

use crate::identity::directory::{Effect, IdentityDirectory};
use crate::records::engine_kind::{EngineKind, EngineSource, ServerEngineKind};
use crate::view::damaged::DamagedRecord;

/// The decoded state of a mount.
pub(crate) enum EngineMemory {
    /// The engine keeps none.
    None,
    /// Entities and groups.
    Identity(Box<IdentityDirectory>),
    /// What an engine that is a crate of its own keeps.
    Engine(Box<dyn kallisto_engine::Memory>),
}

impl EngineMemory {
    /// The empty state of what an engine keeps decoded.
    pub(super) fn of(kind: EngineKind) -> Self {
        match kind.source() {
            EngineSource::Contract(spec) => {
                spec.memory.map_or(Self::None, |make| Self::Engine(make()))
            }
            EngineSource::Server(ServerEngineKind::Identity) => Self::Identity(Box::default()),
            EngineSource::Server(
                ServerEngineKind::System | ServerEngineKind::Token | ServerEngineKind::Kv(_),
            ) => Self::None,
        }
    }

    /// Takes a record of the mount's engine storage in.
    pub(super) fn put(&self, name: &str, value: &[u8]) -> Result<Effect, DamagedRecord> {
        match self {
            Self::None => Ok(Effect::Told),
            Self::Identity(directory) => {
                directory.put(name, value).ok_or(DamagedRecord("identity"))
            }
            Self::Engine(memory) if memory.put(name, value) => Ok(Effect::Told),
            Self::Engine(_) => Err(DamagedRecord("record of an engine")),
        }
    }

    /// Takes a record of the mount's engine storage out.
    pub(super) fn remove(&self, name: &str) -> Effect {
        match self {
            Self::None => Effect::Told,
            Self::Identity(directory) => directory.remove(name),
            Self::Engine(memory) => {
                memory.remove(name);
                Effect::Told
            }
        }
    }

    /// The entities and groups, of the mount that has them.
    pub(crate) fn directory(&self) -> Option<&IdentityDirectory> {
        match self {
            Self::Identity(directory) => Some(directory),
            Self::None | Self::Engine(_) => None,
        }
    }

    /// What an engine that is a crate of its own keeps.
    pub(crate) fn of_engine(&self) -> Option<&dyn kallisto_engine::Memory> {
        match self {
            Self::Engine(memory) => Some(&**memory),
            Self::None | Self::Identity(_) => None,
        }
    }
}
