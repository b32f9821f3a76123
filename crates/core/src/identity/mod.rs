//! Entities, aliases and groups as memory has them: their records, and the directory that resolves an entity with its groups.
//!
//! The view fills the [`IdentityDirectory`](directory::IdentityDirectory) from records and asks it for the policies of a token's entity. What changes entities and groups is the
//! engine at `identity/` ([`crate::engines::identity`]).

pub(crate) mod directory;
pub(crate) mod names;
pub(crate) mod record;
