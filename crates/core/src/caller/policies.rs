//! Who a caller is, and what their policies come to ([`compile`](crate::view::compile)).

use std::sync::Arc;

use jiff::Timestamp;
use kallisto_auth::{AclSet, Capability, TokenKind};

use crate::api::error::{Denial, Error};
use crate::api::request::TokenText;
use crate::caller::call::AuthorizedCall;
use crate::caller::find;
use crate::caller::spelling;
use crate::identity::record::IdentityId;
use crate::namespaces::TokenHome;
use crate::records::token::TokenEntry;
use crate::records::token::TokenHash;
use crate::view::NamespaceContext;
use crate::view::policies::Compiled;
use crate::view::{CachedToken, View};

/// Who made a request, for handlers that decide by it.
pub(crate) struct CallerPolicies {
    pub(crate) hash: TokenHash,
    entry: TokenEntry,
    compiled: Arc<Compiled>,
    /// The namespace of its token, when that is one above the request's.
    above: Option<Arc<NamespaceContext>>,
}

impl CallerPolicies {
    /// The caller of an authorised request.
    ///
    /// # Errors
    /// [`Denial::BadToken`] when its token ended meanwhile.
    pub(crate) fn of(
        context: &NamespaceContext,
        call: &AuthorizedCall<'_, '_>,
    ) -> Result<Self, Error> {
        Self::with_token(context, call.token, call.now)
    }

    /// The caller with a token, expired or not.
    fn with_token(
        context: &NamespaceContext,
        text: Option<TokenText<'_>>,
        now: Timestamp,
    ) -> Result<Self, Error> {
        let (context, below) = match context.home_of(text)? {
            TokenHome::Here => {
                let guard = context.view.tokens.pin();
                let (hash, live) = find::find(&context.view, text, now, &guard)?;
                return Self::bearing(context, hash, live, now);
            }
            TokenHome::Above { context, below } => (context, below),
        };
        let guard = context.view.tokens.pin();
        let (hash, live) = find::find(&context.view, text, now, &guard)?;
        Self::from_above(&context, &below, hash, live, now)
    }

    /// The bearer of a live token of a namespace above, asking in the one that is `below` it. What the
    /// token grants here is compiled for each request: it is what administrators of trees do.
    ///
    /// # Errors
    /// [`Denial::BadToken`] when it is an entity that is disabled or gone.
    pub(crate) fn from_above(
        context: &Arc<NamespaceContext>,
        below: &str,
        hash: TokenHash,
        live: &CachedToken,
        now: Timestamp,
    ) -> Result<Self, Error> {
        let entry = live.entry();
        let compiled = Arc::new(context.view.compile_below(&entry, below, now));
        let caller = Self::admitted(hash, entry, compiled)?;
        Ok(Self { above: Some(Arc::clone(context)), ..caller })
    }

    /// The bearer of a live token.
    ///
    /// # Errors
    /// [`Denial::BadToken`] when it is an entity that is disabled or gone.
    pub(crate) fn bearing(
        context: &NamespaceContext,
        hash: TokenHash,
        live: &CachedToken,
        now: Timestamp,
    ) -> Result<Self, Error> {
        Self::admitted(hash, live.entry(), live.compiled(&context.view, now))
    }

    fn admitted(
        hash: TokenHash,
        entry: TokenEntry,
        compiled: Arc<Compiled>,
    ) -> Result<Self, Error> {
        match compiled.acl() {
            Some(_) => Ok(Self { hash, entry, compiled, above: None }),
            None => Err(Error::Denied(Denial::BadToken)),
        }
    }

    /// The caller that a token's text names, for questions about another token.
    ///
    /// # Errors
    /// [`Denial::BadToken`] when there is none.
    pub(crate) fn with_text(
        context: &NamespaceContext,
        text: TokenText<'_>,
        now: Timestamp,
    ) -> Result<Self, Error> {
        let caller = Self::with_token(context, Some(text), now)?;
        if caller.entry.auth.is_expired(now) {
            return Err(Error::Denied(Denial::BadToken));
        }
        Ok(caller)
    }

    /// The caller that a hash names, for questions about another token.
    ///
    /// # Errors
    /// [`Denial::BadToken`] when there is none.
    pub(crate) fn with_hash(
        context: &NamespaceContext,
        hash: TokenHash,
        now: Timestamp,
    ) -> Result<Self, Error> {
        let entry = context.view.tokens.entry(&hash).filter(|entry| !entry.auth.is_expired(now));
        let entry = entry.ok_or(Error::Denied(Denial::BadToken))?;
        let compiled = Arc::new(context.view.compile(&entry, now));
        Self::admitted(hash, entry, compiled)
    }

    /// What the decision needs of its token.
    pub(crate) const fn token(&self) -> &kallisto_auth::Token {
        &self.entry.auth
    }

    /// All of its token.
    pub(crate) const fn entry(&self) -> &TokenEntry {
        &self.entry
    }

    /// The namespace of its token, when that is one above the request's.
    pub(crate) const fn above(&self) -> Option<&Arc<NamespaceContext>> {
        self.above.as_ref()
    }

    /// What its token is kept in; `here` is what the request runs with.
    pub(crate) fn home<'u>(&'u self, here: &'u NamespaceContext) -> &'u NamespaceContext {
        self.above.as_deref().unwrap_or(here)
    }

    /// The entity that bears it.
    pub(crate) const fn entity_id(&self) -> Option<IdentityId> {
        self.entry.entity_id
    }

    pub(crate) fn is_root(&self) -> bool {
        self.entry.auth.kind == TokenKind::Root
    }

    /// Whether its token has only so many uses.
    pub(crate) const fn is_limited(&self) -> bool {
        self.entry.uses_left != 0
    }

    pub(crate) fn policies(&self) -> &[String] {
        &self.entry.auth.policies
    }

    pub(crate) fn acl(&self) -> &AclSet {
        &self.compiled.acl
    }

    /// Whether it may do anything at all below a mount's path.
    pub(crate) fn reaches(&self, mount: &str) -> bool {
        self.is_root() || self.acl().reaches(mount)
    }

    pub(crate) fn has_sudo(&self, path: &str) -> bool {
        self.acl().capabilities(path).has(Capability::Sudo)
    }

    /// The names of what it may do at `path` from the namespace of `here`, sorted. The path may lead into one below, where its
    /// policies count as they do for a request there.
    pub(crate) fn capabilities(
        &self,
        here: &NamespaceContext,
        path: &str,
        now: Timestamp,
    ) -> Vec<&'static str> {
        if self.is_root() {
            return vec!["root"];
        }
        let absolute = format!("{}{path}", here.view.namespace_path());
        let around = here.ask_namespaces(|namespaces| namespaces.around(&absolute));
        let own = here.view.namespace_path().len();
        let Some(space) = around.filter(|space| space.namespace.path.len() > own) else {
            return names(self.acl(), &here.view, path);
        };
        let home = &self.home(here).view;
        let inside = here.context_with(space.namespace.number);
        let below = space.namespace.path.strip_prefix(home.namespace_path());
        let (Some(inside), Some(below)) = (inside, below) else { return vec!["deny"] };
        let compiled = home.compile_below(&self.entry, below, now);
        let path = &absolute[space.namespace.path.len()..];
        compiled.acl().map_or_else(|| vec!["deny"], |acl| names(acl, &inside.view, path))
    }
}

/// The names of what rules grant at a path.
fn names(acl: &AclSet, view: &View, path: &str) -> Vec<&'static str> {
    let held = match spelling::caseless(path, view) {
        Some(caseless) => acl.capabilities_caseless(path, &caseless),
        None => acl.capabilities(path),
    };
    held.names()
}

#[cfg(test)]
mod tests {
    use kallisto_store::{Batch, MemoryStore};
    use secrecy::ExposeSecret;

    use super::*;
    use crate::platform::server_info::ServerInfo;
    use crate::state::Core;
    use crate::storage::keys;
    use crate::tokens;
    use crate::tokens::spec::Times;
    use crate::tokens::spec::TokenSpec;

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    fn put(core: &Core, name: &str, text: &str) {
        let context = core.context.load_full().unwrap();
        let mut batch = Batch::new();
        batch.put(keys::policy(name), text.as_bytes().to_vec());
        pollster::block_on(context.store.commit(batch)).unwrap();
    }

    /// Whether a token with these policies may do anything.
    fn stands(core: &Core, policies: &[&str]) -> bool {
        let context = core.context.load_full().unwrap();
        let spec = TokenSpec {
            kind: TokenKind::Service,
            policies: policies.iter().map(|&name| name.to_owned()).collect(),
            display_name: "token".to_owned(),
            path: "auth/token/create".to_owned(),
            parent: None,
            parent_above: None,
            meta: None,
            uses: 0,
            times: Times { ttl_secs: 60, period_secs: 0, explicit_max_secs: 0 },
            max_secs: 0,
            renewable: false,
            role: None,
            entity_id: None,
            bound_cidrs: Vec::new(),
            login: None,
            kept: crate::api::json::Map::new(),
            text: None,
        };
        let (_, text) = pollster::block_on(tokens::issue(&context, spec, NOW)).unwrap();
        CallerPolicies::with_text(&context, TokenText::new(text.expose_secret()), NOW).is_ok()
    }

    #[test]
    fn a_policy_that_cannot_be_read_bars_its_bearers_and_nobody_else() {
        let core = Core::new(Arc::new(MemoryStore::new()), ServerInfo::default());
        let made = pollster::block_on(core.initialize_dev(None, NOW)).unwrap();
        put(&core, "old", "path \"a\" { capabilities = [\"conquer\"] }");
        assert!(!stands(&core, &["default", "old"]) && stands(&core, &["default"]));
        // The server seals and unseals with it.
        pollster::block_on(core.seal()).unwrap();
        pollster::block_on(core.give_share(made.keys[0].clone())).unwrap();
        assert!(!stands(&core, &["old"]) && stands(&core, &["default"]));
        let context = core.context.load_full().unwrap();
        assert!(context.view.policies.get("old").unwrap().text.contains("conquer"));
        put(&core, "old", "path \"a\" { capabilities = [\"read\"] }");
        assert!(stands(&core, &["default", "old"]));
    }
}
