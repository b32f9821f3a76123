//! What a request asks to do, in the words of the wire contract.
//!
//! The listener derives an [`Operation`] from the method, the `list`/`scan` query parameters, and whether a loaded
//! snapshot is named to recover from; internal operations do not exist in this type, so the wire cannot name one.

use crate::Capability;

/// What a client asks to be done at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Read the entry (`GET`).
    Read,
    /// Create or replace the entry (`POST`, `PUT`).
    Update,
    /// Merge into the entry (`PATCH`).
    Patch,
    /// Delete the entry (`DELETE`).
    Delete,
    /// Names of the direct children (`LIST`, `GET ?list=true`).
    List,
    /// Names of all entries below (`SCAN`, `GET ?scan=true`).
    Scan,
    /// Bring the entry back from a loaded snapshot (`RECOVER`, and `POST` or `PUT` that names one).
    Recover,
}

impl Operation {
    /// True for the operations that may change stored state.
    pub const fn writes(self) -> bool {
        matches!(self, Self::Update | Self::Patch | Self::Delete | Self::Recover)
    }

    /// The capability that the operation needs. A write of an entry that does not exist yet needs
    /// [`Capability::Create`] instead, where an endpoint can tell.
    pub const fn capability(self) -> Capability {
        match self {
            Self::Read => Capability::Read,
            Self::Update => Capability::Update,
            Self::Patch => Capability::Patch,
            Self::Delete => Capability::Delete,
            Self::List => Capability::List,
            Self::Scan => Capability::Scan,
            Self::Recover => Capability::Recover,
        }
    }
}
