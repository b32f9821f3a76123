//! What a token is asked to be, checked.

use std::sync::Arc;

use kallisto_auth::TokenKind;
use kallisto_engine::address::AddressRange;
use secrecy::SecretString;

use crate::api::json::Map;
use crate::identity::record::IdentityId;
use crate::records::mount::LeaseTimes;
use crate::records::token::TokenHash;
use crate::storage::keys::MountId;
use crate::view::NamespaceContext;

/// What a token is asked to be, checked.
pub(crate) struct TokenSpec {
    pub(crate) kind: TokenKind,
    pub(crate) policies: Vec<String>,
    pub(crate) display_name: String,
    pub(crate) path: String,
    pub(crate) parent: Option<TokenHash>,
    /// What the parent is kept in, when that is a namespace above.
    pub(crate) parent_above: Option<Arc<NamespaceContext>>,
    pub(crate) meta: Option<Map>,
    pub(crate) uses: i64,
    pub(crate) times: Times,
    /// How long it may live with all its renewals, in seconds; 0 for the server's maximum.
    pub(crate) max_secs: u64,
    pub(crate) renewable: bool,
    pub(crate) role: Option<String>,
    /// Who bears it; empty for nobody known.
    pub(crate) entity_id: Option<IdentityId>,
    /// Where it may be used from; empty for anywhere.
    pub(crate) bound_cidrs: Vec<AddressRange>,
    /// The login method that it is for, which has to be there and where it was; `None` for tokens of no login.
    pub(crate) login: Option<MountId>,
    /// What the login method that asks for it wants to find again at a renewal.
    pub(crate) kept: Map,
    /// The text to use; drawn when absent.
    pub(crate) text: Option<SecretString>,
}

/// How long a token lives, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Times {
    /// From when it is made; 0 for no end.
    pub(crate) ttl_secs: u64,
    /// Each renewal gives this much; 0 for a token that is not periodic.
    pub(crate) period_secs: u64,
    /// At the most; 0 for the server's maximum.
    pub(crate) explicit_max_secs: u64,
}

/// How long tokens that are made here live: what `auth/token/` is tuned to, before the server's own.
pub(crate) fn leases(context: &NamespaceContext) -> LeaseTimes {
    let mount = context.view.mounts.with_id(MountId::TOKEN);
    mount.map_or(context.leases, |mount| mount.entry.config.leases(context.leases))
}
