//! Quotas: rate limits, which say how many requests an address may make, and lease counts ([`lease_count`]).
//!
//! A rate limit's rule holds for everything, for a namespace, for a mount, for a path, which may end in `*`, or for
//! the logins by a role of a login method. Of those that match a request one counts: the role's before
//! the path's before the mount's before the namespace's before the one for everything, the longer path
//! first. Each address has its own allowance with each rule, on each server.
//!
//! A rule for a namespace holds below it only where it says so (`inheritable`); the namespaces it reaches
//! share its allowances. All other rules are for their own namespace alone.
//!
//! The rules are records in the engine storage of `sys/`, brought here by the fold; requests read them
//! without a lock, and a server without rules reads one number.

mod allowance;
pub(crate) mod lease_count;
mod rule;
pub(crate) mod scope;
mod settings;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arc_swap::ArcSwap;
use kallisto_auth::fold_case;

use crate::api::error::{Error, OverQuota};
use crate::api::request::Request;
pub(crate) use allowance::Counting;
use allowance::{AllowanceTaken, Allowances};
use lease_count::{LEASE_RULES, LeaseQuotas};
pub(crate) use rule::RuleSpec;
use scope::{exempts, fits};
pub(crate) use settings::QuotaSettings;

/// Most rules: a request looks through those for paths with `*`.
pub(crate) const RULES_MAX: usize = 256;
/// Where rules are kept in the engine storage of `sys/`.
pub(crate) const RULES: &str = "quota/rate-limit/";
/// Where the settings are.
pub(crate) const SETTINGS: &str = "quota/config";

/// What a rule leaves to an address, for the headers that tell of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowance {
    /// Requests that pass in an interval.
    pub limit: u64,
    /// How many of them are left.
    pub left: u64,
    /// When all are there again, in seconds.
    pub reset_secs: u64,
}

/// A rule at work.
struct ActiveRule {
    spec: RuleSpec,
    /// Its path without case.
    caseless: String,
    allowances: Allowances,
}

struct ActiveRules {
    by_name: BTreeMap<String, Arc<ActiveRule>>,
    /// The same in the order in which they are tried.
    by_rank: Vec<Arc<ActiveRule>>,
    settings: QuotaSettings,
}

/// The rules of a server.
pub(crate) struct Quotas {
    rules: ArcSwap<ActiveRules>,
    /// How many leases there may be.
    pub(crate) leases: LeaseQuotas,
    count: AtomicUsize,
    /// Paths that no rule counts while nobody has said otherwise.
    exempt: Arc<[String]>,
}

/// Where a request is for.
#[derive(Clone, Copy)]
struct RequestScope<'a> {
    namespace: &'a str,
    /// The path inside the namespace.
    path: &'a str,
    /// Both, one after the other.
    absolute: &'a str,
    /// The same without case, where what it names has none.
    caseless: Option<&'a str>,
}

impl ActiveRules {
    /// The one rule that counts a request.
    fn find(
        &self,
        place: RequestScope<'_>,
        role_at: impl FnOnce(&str) -> Option<String>,
    ) -> Option<&Arc<ActiveRule>> {
        let mut fitting = self.by_rank.iter().filter(|rule| rule.holds_at(place)).peekable();
        // Those of roles come first; who asks is looked up only where one could matter.
        let first = fitting.peek()?;
        let role =
            if first.spec.scope.role.is_empty() { None } else { role_at(&first.spec.scope.path) };
        // Names of roles have no case.
        let is_of =
            |role: &String, rule: &ActiveRule| rule.spec.scope.role.eq_ignore_ascii_case(role);
        fitting.find(|rule| {
            rule.spec.scope.role.is_empty() || role.as_ref().is_some_and(|role| is_of(role, rule))
        })
    }
}

impl ActiveRule {
    /// One that is for a name in another case is for this one, where names have none.
    fn holds_at(&self, place: RequestScope<'_>) -> bool {
        self.spec.scope.holds_in(place.namespace)
            && (fits(&self.spec.scope.path, place.absolute)
                || place.caseless.is_some_and(|path| fits(&self.caseless, path)))
    }
}

impl Quotas {
    /// No rules. `exempt` are the paths of routes that say that none holds for them.
    pub(crate) fn new(exempt: Arc<[String]>) -> Self {
        let settings = QuotaSettings::usual(&exempt);
        let rules = ActiveRules { by_name: BTreeMap::new(), by_rank: Vec::new(), settings };
        let rules = ArcSwap::from_pointee(rules);
        Self { rules, leases: LeaseQuotas::default(), count: AtomicUsize::new(0), exempt }
    }

    /// Paths that no rule counts while nobody has said otherwise.
    pub(crate) const fn exempt(&self) -> &Arc<[String]> {
        &self.exempt
    }

    /// Takes one from the allowance of the address that asks for `path`, which is a request's own or one of those it is
    /// for, and tells what is left where the settings want that. `caseless_at` gives the path if it names something in any case
    /// ([`crate::caller::spelling::caseless`]); `role_at` finds the role by which a request logs in at a mount.
    ///
    /// # Errors
    /// [`Error::OverQuota`] when nothing is left of it.
    pub(crate) fn ask(
        &self,
        request: &Request<'_>,
        path: &str,
        counting: Counting,
        caseless_at: impl FnOnce() -> Option<Box<str>>,
        role_at: impl FnOnce(&str) -> Option<String>,
    ) -> Result<Option<Allowance>, Error> {
        // Relaxed: a rule may count from the next request on.
        if self.count.load(Ordering::Relaxed) == 0 {
            return Ok(None);
        }
        let Some(remote) = request.remote else { return Ok(None) };
        let namespace = request.namespace;
        let absolute = format!("{namespace}{path}");
        let caseless =
            caseless_at().map(|path| fold_case(&format!("{namespace}{path}")).into_owned());
        let place =
            RequestScope { namespace, path, absolute: &absolute, caseless: caseless.as_deref() };
        self.ask_of(place, remote.ip(), request.now_ns(), counting, role_at)
    }

    fn ask_of(
        &self,
        place: RequestScope<'_>,
        remote: IpAddr,
        now_ns: i64,
        counting: Counting,
        role_at: impl FnOnce(&str) -> Option<String>,
    ) -> Result<Option<Allowance>, Error> {
        let rules = self.rules.load();
        // What is exempt is so in every namespace, unless it names one.
        let is_exempt =
            |exempt: &String| exempts(exempt, place.path) || exempts(exempt, place.absolute);
        if rules.settings.exempt.iter().any(is_exempt) {
            return Ok(None);
        }
        let Some(rule) = rules.find(place, role_at) else { return Ok(None) };
        let limit = rule.spec.limit();
        let is_told = rules.settings.sends_headers;
        match rule.allowances.ask(&rule.spec, remote, now_ns, counting) {
            AllowanceTaken::One { left, reset_secs } => {
                Ok(is_told.then_some(Allowance { limit, left, reset_secs }))
            }
            AllowanceTaken::None { retry_after_secs } => {
                Err(Error::OverQuota(Box::new(OverQuota {
                    counts_leases: false,
                    path: place.path.to_owned(),
                    retry_after_secs,
                    limit,
                    is_told,
                })))
            }
        }
    }

    /// Whether there is any rule.
    pub(crate) fn has_rules(&self) -> bool {
        // Relaxed: as in `take`.
        self.count.load(Ordering::Relaxed) > 0
    }

    /// Whether what a rule refuses is audited.
    pub(crate) fn audits_refusals(&self) -> bool {
        self.rules.load().settings.audits_refusals
    }

    /// Takes a record of the engine storage in; false when it is damaged. Records of others are passed over.
    pub(crate) fn put(&self, name: &str, value: &[u8]) -> bool {
        if name == SETTINGS {
            let Some(settings) = QuotaSettings::decode(value) else { return false };
            self.change(|rules| rules.settings = settings);
        } else if let Some(name) = name.strip_prefix(RULES) {
            let Some(spec) = RuleSpec::decode(name, value) else { return false };
            let caseless = fold_case(&spec.scope.path).into_owned();
            let rule = Arc::new(ActiveRule { spec, caseless, allowances: Allowances::default() });
            self.change(|rules| {
                rules.by_name.insert(name.to_owned(), rule);
            });
        } else if let Some(name) = name.strip_prefix(LEASE_RULES) {
            return self.leases.put(name, value);
        }
        true
    }

    /// Forgets a record of the engine storage.
    pub(crate) fn remove(&self, name: &str) {
        if name == SETTINGS {
            self.change(|rules| rules.settings = QuotaSettings::usual(&self.exempt));
        } else if let Some(name) = name.strip_prefix(RULES) {
            self.change(|rules| {
                rules.by_name.remove(name);
            });
        } else if let Some(name) = name.strip_prefix(LEASE_RULES) {
            self.leases.remove(name);
        }
    }

    /// Called by the fold alone, so changes do not race. Rules that stay keep their allowances.
    fn change(&self, change: impl FnOnce(&mut ActiveRules)) {
        let before = self.rules.load();
        let mut rules = ActiveRules {
            by_name: before.by_name.clone(),
            by_rank: Vec::new(),
            settings: before.settings.clone(),
        };
        change(&mut rules);
        rules.by_rank = rules.by_name.values().cloned().collect();
        rules.by_rank.sort_by_key(|rule| std::cmp::Reverse(rule.spec.scope.rank()));
        self.count.store(rules.by_rank.len(), Ordering::Relaxed);
        self.rules.store(Arc::new(rules));
    }

    pub(crate) fn settings(&self) -> QuotaSettings {
        self.rules.load().settings.clone()
    }

    pub(crate) fn names(&self) -> Vec<String> {
        self.rules.load().by_name.keys().cloned().collect()
    }

    pub(crate) fn spec(&self, name: &str) -> Option<RuleSpec> {
        self.rules.load().by_name.get(name).map(|rule| rule.spec.clone())
    }

    /// The other rule for the same path, if there is one.
    pub(crate) fn twin(&self, spec: &RuleSpec) -> Option<String> {
        let rules = self.rules.load();
        let mut others = rules.by_name.values().filter(|rule| rule.spec.name != spec.name);
        let is_twin = |rule: &&Arc<ActiveRule>| rule.spec.scope.is_twin(&spec.scope);
        others.find(is_twin).map(|rule| rule.spec.name.clone())
    }
}

#[cfg(test)]
mod tests;
