//! Who logs in: the one place where a login meets the identity engine.

use jiff::Timestamp;

use crate::api::error::Error;
use crate::api::json::Map;
use crate::engines::identity::{self, Id};
use crate::pipeline::state::NamespaceContext;
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

/// The id of the entity behind an alias, made at its first login.
///
/// # Errors
/// What refuses the login, such as an entity that is disabled.
pub(super) async fn identify(
    unsealed: &NamespaceContext,
    alias: &Alias<'_>,
    now: Timestamp,
) -> Result<Option<Id>, Error> {
    identity::log_in(unsealed, alias, now).await.map(Some)
}
