//! What an engine is for, and how often it may be mounted.

/// What an engine is for, which decides where it is mounted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// It keeps or makes secrets; mounted at its own path.
    Secret,
    /// It lets clients log in; mounted below `auth/`.
    Auth,
}

/// How often an engine may be mounted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Multiplicity {
    /// Once, by the server itself.
    Builtin,
    /// As often as operators like.
    Any,
}

/// Where every namespace has an engine from the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BuiltinMount {
    /// The number of its mount, the same in every namespace; below those that operators' mounts get.
    pub number: u32,
    /// Its path, with an ending slash.
    pub path: &'static str,
    /// For people.
    pub description: &'static str,
}

impl Class {
    /// What stands before the path of a mount of this class.
    pub const fn prefix(self) -> &'static str {
        match self {
            Self::Secret => "",
            Self::Auth => "auth/",
        }
    }
}
