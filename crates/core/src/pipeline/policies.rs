//! Policies at work: who a caller is, and what their policies come to.
//!
//! Policies are stored as they were written and parsed by the fold. What a token's policies grant is
//! compiled once per token and change of policies, and kept with the token in the view: a request
//! compares two numbers and decides.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use kallisto_auth::policy::{
    DEFAULT_NAME, DEFAULT_TEXT, RESPONSE_WRAPPING_NAME, RESPONSE_WRAPPING_TEXT,
};
use kallisto_auth::{AclSet, Capability, NoIdentity, Policy, PolicyName, TokenKind};

use crate::api::error::{Denial, Error};
use crate::api::request::TokenText;
use crate::engines::identity::{Id, Person, Watch};
use crate::limits::TOKEN_RULES_MAX;
use crate::namespaces::Home;
use crate::pipeline::spelling;
use crate::pipeline::state::{Call, NamespaceContext};
use crate::tokens::{self, Hash};
use crate::view::{CachedToken, View};

/// A stored policy: its text, and what it says.
#[derive(Clone)]
pub(crate) struct StoredPolicy {
    pub(crate) text: Arc<str>,
    /// `None` for a text that does not parse any more: nobody knows what it forbids.
    policy: Option<Arc<Policy>>,
}

/// The policies of the view.
pub(crate) struct Policies {
    by_name: Mutex<BTreeMap<PolicyName, StoredPolicy>>,
    /// That of wrapping tokens: part of the server, neither stored nor listed.
    wrapping: StoredPolicy,
    /// Counts changes; what was compiled under another count is compiled anew.
    generation: AtomicU64,
}

/// What the policies of one token grant, as of one generation.
pub(crate) struct Compiled {
    generation: u64,
    /// The count of changes of the bearer's entity, as it was.
    watched: Option<(Arc<Watch>, u64)>,
    /// Whether the bearer may do nothing: the entity is disabled or gone, one of the policies cannot be read, or they have too
    /// many rules.
    is_barred: bool,
    acl: AclSet,
}

impl Compiled {
    /// What is granted; `None` when the bearer may do nothing: the entity is disabled or gone, one
    /// of the policies cannot be read, or they have too many rules.
    pub(crate) fn acl(&self) -> Option<&AclSet> {
        (!self.is_barred).then_some(&self.acl)
    }

    /// For a bearer who may do nothing.
    fn barred(generation: u64, watched: Option<(Arc<Watch>, u64)>) -> Self {
        Self { generation, watched, is_barred: true, acl: AclSet::default() }
    }
}

impl Default for Policies {
    fn default() -> Self {
        Self {
            by_name: Mutex::default(),
            wrapping: response_wrapping(),
            generation: AtomicU64::default(),
        }
    }
}

impl Policies {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<PolicyName, StoredPolicy>> {
        self.by_name.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a policy in place. False when its name is none.
    ///
    /// What was written under another release and does not parse any more bars those who have it, and
    /// nobody else: it may have forbidden what their other policies grant. Root can write it anew.
    pub(crate) fn put(&self, name: &str, text: &str) -> bool {
        let Ok(name) = PolicyName::parse(name) else { return false };
        let policy = match Policy::parse(name.clone(), text) {
            Ok(policy) => Some(Arc::new(policy)),
            Err(error) => {
                tracing::warn!(%name, %error, "a policy cannot be read: who has it is refused");
                None
            }
        };
        self.lock().insert(name, StoredPolicy { text: text.into(), policy });
        self.changed();
        true
    }

    pub(crate) fn remove(&self, name: &str) {
        if let Ok(name) = PolicyName::parse(name) {
            self.lock().remove(&name);
            self.changed();
        }
    }

    /// Lets everything that was compiled be compiled anew.
    pub(crate) fn changed(&self) {
        // Release: a reader that sees the count sees the policies it counts.
        self.generation.fetch_add(1, Ordering::Release);
    }

    /// The stored policy called `name`, which is in lower case.
    pub(crate) fn get(&self, name: &str) -> Option<StoredPolicy> {
        if name == RESPONSE_WRAPPING_NAME {
            return Some(self.wrapping.clone());
        }
        let name = PolicyName::parse(name).ok()?;
        self.lock().get(&name).cloned()
    }

    pub(crate) fn exists(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// How many rules the policies of these names have.
    pub(crate) fn rule_count(&self, names: &[String]) -> usize {
        let found = names.iter().filter_map(|name| self.get(name)?.policy);
        found.map(|policy| policy.rule_count()).sum()
    }

    /// All names, sorted.
    pub(crate) fn names(&self) -> Vec<String> {
        self.lock().keys().map(|name| name.to_string()).collect()
    }

    /// Whether something compiled earlier still holds.
    pub(crate) fn holds(&self, compiled: &Compiled, now: Timestamp) -> bool {
        compiled.generation == self.generation.load(Ordering::Acquire)
            && compiled.watched.as_ref().is_none_or(|(watch, count)| watch.count() == *count)
            && compiled.acl.stale_at().is_none_or(|end| end > now)
    }

    /// The policies of these names; names that no policy has stand for nothing. `None` when one of them
    /// cannot be read, or they have more rules than a token may have.
    fn named<'n>(&self, names: impl Iterator<Item = &'n String>) -> Option<Vec<Arc<Policy>>> {
        let found = names.filter_map(|name| self.get(name)).map(|stored| stored.policy);
        let policies: Vec<_> = found.collect::<Option<_>>()?;
        let rules: usize = policies.iter().map(|policy| policy.rule_count()).sum();
        if rules > TOKEN_RULES_MAX {
            tracing::warn!(
                rules,
                most = TOKEN_RULES_MAX,
                "a token has too many rules: it is refused"
            );
            return None;
        }
        Some(policies)
    }
}

impl View {
    /// What a token grants its bearer now: by its own policies, and by those of the entity that bears
    /// it and of the entity's groups.
    pub(crate) fn compile(&self, entry: &tokens::TokenEntry, now: Timestamp) -> Compiled {
        self.compile_below(entry, "", now)
    }

    /// The same for requests in the namespace that is `below` this one.
    fn compile_below(&self, entry: &tokens::TokenEntry, below: &str, now: Timestamp) -> Compiled {
        // The counts before what they count: a change in between makes this stale, not wrong.
        let generation = self.policies.generation.load(Ordering::Acquire);
        let own = entry.auth.policies.iter();
        let Some(id) = entry.entity_id else {
            let Some(policies) = self.policies.named(own) else {
                return Compiled::barred(generation, None);
            };
            let acl = AclSet::compile_below(&policies, &NoIdentity, below, now);
            return Compiled { generation, watched: None, is_barred: false, acl };
        };
        let watch = self.ask_directory(|directory| directory.watch(id));
        let watched = watch.map(|watch| {
            let count = watch.count();
            (watch, count)
        });
        let person = self.person(entry).filter(|person| !person.entity.disabled);
        let Some(person) = person else { return Compiled::barred(generation, watched) };
        let names: BTreeSet<String> = person.policies().into_iter().chain(own.cloned()).collect();
        let Some(policies) = self.policies.named(names.iter()) else {
            return Compiled::barred(generation, watched);
        };
        let acl = AclSet::compile_below(&policies, &person, below, now);
        Compiled { generation, watched, is_barred: false, acl }
    }

    /// Who bears a token; `None` when nobody is known to, or they are gone.
    pub(crate) fn person(&self, entry: &tokens::TokenEntry) -> Option<Person> {
        let id = entry.entity_id?;
        self.ask_directory(|directory| directory.person(id)).flatten()
    }
}

/// The policy of wrapping tokens, which is what it is.
fn response_wrapping() -> StoredPolicy {
    let parsed = PolicyName::parse(RESPONSE_WRAPPING_NAME).ok();
    let policy = parsed.and_then(|name| Policy::parse(name, RESPONSE_WRAPPING_TEXT).ok());
    let policy = policy.unwrap_or_else(|| unreachable!("a policy of our own parses"));
    StoredPolicy { text: RESPONSE_WRAPPING_TEXT.into(), policy: Some(Arc::new(policy)) }
}

/// The policies a server starts with, by name.
pub(crate) fn builtin() -> [(&'static str, &'static str); 1] {
    [(DEFAULT_NAME, DEFAULT_TEXT)]
}

/// Who made a request, for handlers that decide by it.
pub(crate) struct Caller {
    pub(crate) hash: Hash,
    entry: tokens::TokenEntry,
    compiled: Arc<Compiled>,
    /// The namespace of its token, when that is one above the request's.
    above: Option<Arc<NamespaceContext>>,
}

impl Caller {
    /// The caller of an authorised request.
    ///
    /// # Errors
    /// [`Denial::BadToken`] when its token ended meanwhile.
    pub(crate) fn of(unsealed: &NamespaceContext, call: &Call<'_, '_>) -> Result<Self, Error> {
        Self::with_token(unsealed, call.token, call.now)
    }

    /// The caller with a token, expired or not.
    fn with_token(
        unsealed: &NamespaceContext,
        text: Option<TokenText<'_>>,
        now: Timestamp,
    ) -> Result<Self, Error> {
        let (context, below) = match unsealed.home_of(text)? {
            Home::Here => {
                let guard = unsealed.view.tokens.pin();
                let (hash, live) = tokens::find(&unsealed.view, text, &guard)?;
                return Self::bearing(unsealed, hash, live, now);
            }
            Home::Above { context, below } => (context, below),
        };
        let guard = context.view.tokens.pin();
        let (hash, live) = tokens::find(&context.view, text, &guard)?;
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
        hash: Hash,
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
        unsealed: &NamespaceContext,
        hash: Hash,
        live: &CachedToken,
        now: Timestamp,
    ) -> Result<Self, Error> {
        Self::admitted(hash, live.entry(), live.compiled(&unsealed.view, now))
    }

    fn admitted(
        hash: Hash,
        entry: tokens::TokenEntry,
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
        unsealed: &NamespaceContext,
        text: TokenText<'_>,
        now: Timestamp,
    ) -> Result<Self, Error> {
        let caller = Self::with_token(unsealed, Some(text), now)?;
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
        unsealed: &NamespaceContext,
        hash: Hash,
        now: Timestamp,
    ) -> Result<Self, Error> {
        let entry = unsealed.view.tokens.entry(&hash).filter(|entry| !entry.auth.is_expired(now));
        let entry = entry.ok_or(Error::Denied(Denial::BadToken))?;
        let compiled = Arc::new(unsealed.view.compile(&entry, now));
        Self::admitted(hash, entry, compiled)
    }

    /// What the decision needs of its token.
    pub(crate) const fn token(&self) -> &kallisto_auth::Token {
        &self.entry.auth
    }

    /// All of its token.
    pub(crate) const fn entry(&self) -> &tokens::TokenEntry {
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
    pub(crate) const fn entity_id(&self) -> Option<Id> {
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

    /// The names of what it may do at `path`, sorted.
    pub(crate) fn capabilities(&self, view: &View, path: &str) -> Vec<&'static str> {
        if self.is_root() {
            return vec!["root"];
        }
        let held = match spelling::caseless(path, view) {
            Some(caseless) => self.acl().capabilities_caseless(path, &caseless),
            None => self.acl().capabilities(path),
        };
        held.names()
    }
}

#[cfg(test)]
mod tests {
    use kallisto_store::{Batch, MemoryStore};
    use secrecy::ExposeSecret;

    use super::*;
    use crate::pipeline::state::{Core, ServerInfo};
    use crate::storage::keys;
    use crate::tokens::{Times, TokenSpec};

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    fn put(core: &Core, name: &str, text: &str) {
        let unsealed = core.unsealed.load_full().unwrap();
        let mut batch = Batch::new();
        batch.put(keys::policy(name), text.as_bytes().to_vec());
        pollster::block_on(unsealed.store.commit(batch)).unwrap();
    }

    /// Whether a token with these policies may do anything.
    fn stands(core: &Core, policies: &[&str]) -> bool {
        let unsealed = core.unsealed.load_full().unwrap();
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
            kept: crate::api::json::Map::new(),
            text: None,
        };
        let (_, text) = pollster::block_on(tokens::issue(&unsealed, spec, NOW)).unwrap();
        Caller::with_text(&unsealed, TokenText::new(text.expose_secret()), NOW).is_ok()
    }

    #[test]
    fn a_token_has_only_so_many_rules() {
        const RULES: usize = 1 << 14;
        let text: String =
            (0..RULES).map(|at| format!("path \"{at}\" {{ policy = \"read\" }}\n")).collect();
        let policies = Policies::default();
        let names: Vec<String> = (0..=TOKEN_RULES_MAX / RULES).map(|at| format!("p{at}")).collect();
        assert!(names.iter().all(|name| policies.put(name, &text)));
        assert!(policies.named(names[1..].iter()).is_some());
        assert!(policies.named(names.iter()).is_none(), "who has more is barred");
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
        let unsealed = core.unsealed.load_full().unwrap();
        assert!(unsealed.view.policies.get("old").unwrap().text.contains("conquer"));
        put(&core, "old", "path \"a\" { capabilities = [\"read\"] }");
        assert!(stands(&core, &["default", "old"]));
    }
}
