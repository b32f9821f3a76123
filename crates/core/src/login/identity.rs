//! Who logs in: the one place where a login meets the identity engine.

use crate::error::Error;
use crate::json::Map;
use crate::state::Unsealed;
use crate::view::Mount;

/// Somebody as a login method knows them.
pub(crate) struct Alias<'l> {
    /// The login method.
    pub(crate) mount: &'l Mount,
    /// What the method calls them: a user name, a role id, a subject. Never empty.
    pub(crate) name: &'l str,
    /// What the method knows of them.
    pub(crate) metadata: &'l Map,
    /// The groups the method has them in.
    pub(crate) groups: &'l [String],
}

/// The id of the entity behind an alias, made at its first login; empty for none.
///
/// # Errors
/// What refuses the login, such as an entity that is disabled.
#[expect(clippy::unused_async, reason = "the identity engine will look and write here")]
pub(super) async fn identify(_unsealed: &Unsealed, alias: &Alias<'_>) -> Result<String, Error> {
    tracing::trace!(
        mount = alias.mount.entry.path,
        fields = alias.metadata.len(),
        groups = alias.groups.len(),
        named = !alias.name.is_empty(),
        "a login without an entity"
    );
    Ok(String::new())
}
