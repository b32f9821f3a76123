//! Rate limits: how many requests an address may make.
//!
//! A rule holds for everything, for a namespace, for a mount, for a path, which may end in `*`, or for
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

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use kallisto_auth::fold_case;

use crate::api::error::{Error, OverQuota};
use crate::api::json::{self, Json, Map};
use crate::api::request::Request;
pub(crate) use allowance::Counting;
use allowance::{Allowances, Taken};

/// Most rules: a request looks through those for paths with `*`.
pub(crate) const RULES_MAX: usize = 256;
/// Where rules are kept in the engine storage of `sys/`.
pub(crate) const RULES: &str = "quota/rate-limit/";
/// Where the settings are.
pub(crate) const SETTINGS: &str = "quota/config";
/// Paths that no rule counts unless somebody says otherwise: an operator must not lock themself out.
const EXEMPT: [&str; 5] = [
    "sys/generate-root/attempt",
    "sys/generate-root/update",
    "sys/health",
    "sys/seal-status",
    "sys/unseal",
];

/// What a rule says.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Spec {
    pub(crate) name: String,
    /// Where it holds, from the root namespace on: empty for everything; a mount's or a namespace's
    /// path ends in a slash.
    pub(crate) path: String,
    /// The namespace that its path is in, or that it is: how its path begins.
    pub(crate) namespace: String,
    /// The role whose logins at the mount it holds for; empty for all of the path.
    pub(crate) role: String,
    /// Whether a rule for a whole namespace holds in those below it too.
    pub(crate) is_inheritable: bool,
    /// Requests in each interval.
    pub(crate) rate: f64,
    pub(crate) interval_secs: u64,
    /// For how long an address is refused that went over; 0 for the rest of the interval.
    pub(crate) block_secs: u64,
}

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

/// The settings of all rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    /// Whether answers carry the headers that tell what is left, and when to come back.
    pub(crate) sends_headers: bool,
    /// Whether what a rule refuses is written down by the audit devices.
    pub(crate) audits_refusals: bool,
    pub(crate) exempt: Vec<String>,
}

/// A rule at work.
struct Rule {
    spec: Spec,
    /// Its path without case.
    caseless: String,
    allowances: Allowances,
}

#[derive(Default)]
struct Rules {
    by_name: BTreeMap<String, Arc<Rule>>,
    /// The same in the order in which they are tried.
    by_rank: Vec<Arc<Rule>>,
    settings: Settings,
}

/// The rules of a server.
#[derive(Default)]
pub(crate) struct Quotas {
    rules: ArcSwap<Rules>,
    count: AtomicUsize,
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

impl Rules {
    /// The one rule that counts a request.
    fn find(
        &self,
        place: RequestScope<'_>,
        role_at: impl FnOnce(&str) -> Option<String>,
    ) -> Option<&Arc<Rule>> {
        let mut fitting = self.by_rank.iter().filter(|rule| rule.holds_at(place)).peekable();
        // Those of roles come first; who asks is looked up only where one could matter.
        let first = fitting.peek()?;
        let role = if first.spec.role.is_empty() { None } else { role_at(&first.spec.path) };
        // Names of roles have no case.
        let is_of = |role: &String, rule: &Rule| rule.spec.role.eq_ignore_ascii_case(role);
        fitting.find(|rule| {
            rule.spec.role.is_empty() || role.as_ref().is_some_and(|role| is_of(role, rule))
        })
    }
}

impl Rule {
    /// One that is for a name in another case is for this one, where names have none.
    fn holds_at(&self, place: RequestScope<'_>) -> bool {
        self.spec.holds_in(place.namespace)
            && (fits(&self.spec.path, place.absolute)
                || place.caseless.is_some_and(|path| fits(&self.caseless, path)))
    }
}

impl Quotas {
    /// Takes one from the allowance of the address that asks for `path`, which is a request's own or one of those it is
    /// for, and tells what is left where the settings want that. `caseless_at` gives the path if it names something in any case
    /// ([`crate::pipeline::spelling::caseless`]); `role_at` finds the role by which a request logs in at a mount.
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
        let is_exempt = |exempt: &String| fits(exempt, place.path) || fits(exempt, place.absolute);
        if rules.settings.exempt.iter().any(is_exempt) {
            return Ok(None);
        }
        let Some(rule) = rules.find(place, role_at) else { return Ok(None) };
        let limit = rule.spec.limit();
        let is_told = rules.settings.sends_headers;
        match rule.allowances.ask(&rule.spec, remote, now_ns, counting) {
            Taken::One { left, reset_secs } => {
                Ok(is_told.then_some(Allowance { limit, left, reset_secs }))
            }
            Taken::None { retry_after_secs } => Err(Error::OverQuota(Box::new(OverQuota {
                path: place.path.to_owned(),
                retry_after_secs,
                limit,
                is_told,
            }))),
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
            let Some(settings) = Settings::decode(value) else { return false };
            self.change(|rules| rules.settings = settings);
        } else if let Some(name) = name.strip_prefix(RULES) {
            let Some(spec) = Spec::decode(name, value) else { return false };
            let caseless = fold_case(&spec.path).into_owned();
            let rule = Arc::new(Rule { spec, caseless, allowances: Allowances::default() });
            self.change(|rules| {
                rules.by_name.insert(name.to_owned(), rule);
            });
        }
        true
    }

    /// Forgets a record of the engine storage.
    pub(crate) fn remove(&self, name: &str) {
        if name == SETTINGS {
            self.change(|rules| rules.settings = Settings::default());
        } else if let Some(name) = name.strip_prefix(RULES) {
            self.change(|rules| {
                rules.by_name.remove(name);
            });
        }
    }

    /// Called by the fold alone, so changes do not race. Rules that stay keep their allowances.
    fn change(&self, change: impl FnOnce(&mut Rules)) {
        let before = self.rules.load();
        let mut rules = Rules {
            by_name: before.by_name.clone(),
            by_rank: Vec::new(),
            settings: before.settings.clone(),
        };
        change(&mut rules);
        rules.by_rank = rules.by_name.values().cloned().collect();
        rules.by_rank.sort_by_key(|rule| std::cmp::Reverse(rule.spec.rank()));
        self.count.store(rules.by_rank.len(), Ordering::Relaxed);
        self.rules.store(Arc::new(rules));
    }

    pub(crate) fn settings(&self) -> Settings {
        self.rules.load().settings.clone()
    }

    pub(crate) fn names(&self) -> Vec<String> {
        self.rules.load().by_name.keys().cloned().collect()
    }

    pub(crate) fn spec(&self, name: &str) -> Option<Spec> {
        self.rules.load().by_name.get(name).map(|rule| rule.spec.clone())
    }

    /// The other rule for the same path, if there is one.
    pub(crate) fn twin(&self, spec: &Spec) -> Option<String> {
        let rules = self.rules.load();
        let mut others = rules.by_name.values().filter(|rule| rule.spec.name != spec.name);
        let is_twin =
            |rule: &&Arc<Rule>| (&rule.spec.path, &rule.spec.role) == (&spec.path, &spec.role);
        others.find(is_twin).map(|rule| rule.spec.name.clone())
    }
}

/// Whether a rule's path is for `path`: the same, or all that begins with it. The path of a list ends in a slash, which
/// a rule for it may leave out.
fn fits(rule: &str, path: &str) -> bool {
    match rule.strip_suffix('*') {
        Some(prefix) => path.starts_with(prefix),
        None if rule.is_empty() || rule.ends_with('/') => path.starts_with(rule),
        None => path.strip_suffix('/').unwrap_or(path) == rule,
    }
}

impl Spec {
    /// Whether it is for all of its namespace.
    fn is_for_namespace(&self) -> bool {
        self.path == self.namespace
    }

    /// Whether it is for what is in this namespace, path aside.
    fn holds_in(&self, namespace: &str) -> bool {
        match self.is_inheritable && self.is_for_namespace() {
            true => namespace.starts_with(&self.namespace),
            false => namespace == self.namespace,
        }
    }

    /// Requests an address may make in one interval.
    fn limit(&self) -> u64 {
        self.rate.ceil() as u64
    }

    fn interval(&self) -> Duration {
        Duration::from_secs(self.interval_secs)
    }

    fn block(&self) -> Duration {
        Duration::from_secs(self.block_secs)
    }

    /// Higher is tried first: roles, then paths, then mounts, then namespaces, the root one last.
    fn rank(&self) -> (u8, usize) {
        let kind = match self.path.as_str() {
            _ if !self.role.is_empty() => 4,
            _ if self.is_for_namespace() => 0,
            mount if mount.ends_with('/') => 1,
            prefix if prefix.ends_with('*') => 2,
            _ => 3,
        };
        (kind, self.path.len())
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        Json::object([
            ("path", self.path.as_str().into()),
            ("namespace", self.namespace.as_str().into()),
            ("role", self.role.as_str().into()),
            ("inheritable", self.is_inheritable.into()),
            ("rate", Json::Number(self.rate.to_string().into())),
            ("interval", self.interval_secs.into()),
            ("block_interval", self.block_secs.into()),
        ])
        .to_text()
    }

    fn decode(name: &str, value: &[u8]) -> Option<Self> {
        let map = json::parse_object(value).ok()?;
        let number = |name: &str| match map.get(name)? {
            Json::Number(text) => Some(text.clone()),
            _ => None,
        };
        let path = map.get("path")?.as_str()?.to_owned();
        // Records of earlier releases lack some of these; without `inheritable` what was for
        // everything held everywhere.
        let text = |name: &str| map.get(name).and_then(Json::as_str).unwrap_or_default().to_owned();
        Some(Self {
            name: name.to_owned(),
            namespace: text("namespace"),
            role: text("role"),
            is_inheritable: match map.get("inheritable") {
                Some(inheritable) => *inheritable == Json::Bool(true),
                None => path.is_empty(),
            },
            path,
            rate: number("rate")?.parse().ok()?,
            interval_secs: number("interval")?.parse().ok()?,
            block_secs: number("block_interval")?.parse().ok()?,
        })
    }
}

impl Default for Settings {
    fn default() -> Self {
        let exempt = EXEMPT.map(str::to_owned).to_vec();
        Self { sends_headers: false, audits_refusals: false, exempt }
    }
}

impl Settings {
    pub(crate) fn to_json(&self) -> Map {
        Map::from([
            ("enable_rate_limit_audit_logging".to_owned(), self.audits_refusals.into()),
            ("enable_rate_limit_response_headers".to_owned(), self.sends_headers.into()),
            ("rate_limit_exempt_paths".to_owned(), Json::strings(self.exempt.clone())),
        ])
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        Json::Object(self.to_json()).to_text()
    }

    fn decode(value: &[u8]) -> Option<Self> {
        let map = json::parse_object(value).ok()?;
        let Json::Array(exempt) = map.get("rate_limit_exempt_paths")? else { return None };
        let exempt = exempt.iter().map(|path| path.as_str().map(str::to_owned));
        let is_set = |name: &str| Some(*map.get(name)? == Json::Bool(true));
        Some(Self {
            sends_headers: is_set("enable_rate_limit_response_headers")?,
            audits_refusals: is_set("enable_rate_limit_audit_logging")?,
            exempt: exempt.collect::<Option<_>>()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000_000;

    fn put(quotas: &Quotas, name: &str, path: &str, rate: f64) {
        put_for_role(quotas, name, path, "", rate);
    }

    fn put_for_role(quotas: &Quotas, name: &str, path: &str, role: &str, rate: f64) {
        let spec = Spec {
            name: name.to_owned(),
            path: path.to_owned(),
            namespace: String::new(),
            role: role.to_owned(),
            is_inheritable: path.is_empty(),
            rate,
            interval_secs: 1,
            block_secs: 0,
        };
        assert!(quotas.put(&format!("{RULES}{name}"), &spec.encode()));
        assert_eq!(quotas.spec(name), Some(spec));
    }

    /// A place in the root namespace.
    fn at(path: &str) -> RequestScope<'_> {
        RequestScope { namespace: "", path, absolute: path, caseless: None }
    }

    /// A place in the namespace of so many first bytes.
    fn inside(absolute: &str, bytes: usize) -> RequestScope<'_> {
        let (namespace, path) = absolute.split_at(bytes);
        RequestScope { namespace, path, absolute, caseless: None }
    }

    fn allowed(quotas: &Quotas, path: &str) -> usize {
        allowed_at(quotas, at(path))
    }

    fn allowed_at(quotas: &Quotas, place: RequestScope<'_>) -> usize {
        let here = "10.0.0.1".parse().unwrap();
        (0..100)
            .take_while(|_| {
                quotas.ask_of(place, here, 5 * SECOND, Counting::Take, |_| None).is_ok()
            })
            .count()
    }

    #[test]
    fn a_namespace_is_counted_with_those_below_where_the_rule_says_so() {
        let rule = |path: &str, is_inheritable: bool, rate: f64| {
            let quotas = Quotas::default();
            let spec = Spec {
                name: "n".to_owned(),
                path: path.to_owned(),
                namespace: path.to_owned(),
                is_inheritable,
                rate,
                interval_secs: 1,
                ..Spec::default()
            };
            assert!(quotas.put(&format!("{RULES}n"), &spec.encode()));
            assert_eq!(quotas.spec("n"), Some(spec));
            quotas
        };
        let places = [at("x"), inside("a/x", 2), inside("a/b/x", 4), inside("ab/x", 3)];
        for (path, is_inheritable, held) in [
            ("", false, [3, 100, 100, 100]),
            ("a/", false, [100, 3, 100, 100]),
            ("a/b/", true, [100, 100, 3, 100]),
            // Those that a rule reaches share its allowance: the first takes all of it.
            ("", true, [3, 0, 0, 0]),
            ("a/", true, [100, 3, 0, 100]),
        ] {
            let quotas = rule(path, is_inheritable, 3.0);
            assert_eq!(
                places.map(|place| allowed_at(&quotas, place)),
                held,
                "{path} {is_inheritable}"
            );
        }
        // A mount of a name that a namespace elsewhere has is none of its business.
        let quotas = Quotas::default();
        put(&quotas, "mount", "a/", 2.0);
        assert_eq!((allowed_at(&quotas, inside("a/x", 2)), allowed(&quotas, "a/x")), (100, 2));
    }

    #[test]
    fn an_exemption_holds_in_every_namespace_or_in_the_one_it_names() {
        let quotas = Quotas::default();
        put(&quotas, "all", "", 1.0);
        let exempt = vec!["sys/health".to_owned(), "a/kv/*".to_owned()];
        let settings = Settings { exempt, ..Settings::default() };
        assert!(quotas.put(SETTINGS, &settings.encode()));
        assert_eq!(allowed_at(&quotas, inside("a/sys/health", 2)), 100);
        assert_eq!(allowed_at(&quotas, inside("a/kv/x", 2)), 100);
        assert_eq!(allowed_at(&quotas, inside("b/kv/x", 2)), 1);
    }

    #[test]
    fn a_role_has_an_allowance_of_its_own() {
        let quotas = Quotas::default();
        let here = "10.0.0.1".parse().unwrap();
        put(&quotas, "logins", "auth/approle/", 3.0);
        put_for_role(&quotas, "web", "auth/approle/", "web", 2.0);
        put_for_role(&quotas, "db", "auth/approle/", "DB", 1.0);
        let allowed = |role: &str| {
            let take = |_: &i32| {
                let role_at = |mount: &str| (mount == "auth/approle/").then(|| role.to_owned());
                quotas
                    .ask_of(at("auth/approle/login"), here, 5 * SECOND, Counting::Take, role_at)
                    .is_ok()
            };
            (0..100).take_while(take).count()
        };
        assert_eq!((allowed("web"), allowed("db"), allowed("other")), (2, 1, 3));
        let web = quotas.spec("web").unwrap();
        assert_eq!(quotas.twin(&web), None);
        let again = Spec { name: "again".to_owned(), ..web };
        assert_eq!(quotas.twin(&again).as_deref(), Some("web"));
    }

    #[test]
    fn records_of_before_there_were_roles_are_read() {
        let quotas = Quotas::default();
        let old = br#"{"path":"","rate":2,"interval":1,"block_interval":0}"#;
        assert!(quotas.put("quota/rate-limit/old", old));
        let spec = quotas.spec("old").unwrap();
        assert_eq!((spec.role.as_str(), spec.is_inheritable, spec.rate), ("", true, 2.0));
    }

    #[test]
    fn the_nearest_rule_counts() {
        let quotas = Quotas::default();
        put(&quotas, "all", "", 7.0);
        put(&quotas, "mount", "secret/", 5.0);
        put(&quotas, "prefix", "secret/data/*", 3.0);
        put(&quotas, "longer", "secret/data/a/*", 2.0);
        put(&quotas, "exact", "secret/data/a/b", 1.0);
        for (path, count) in [
            ("secret/data/a/b", 1),
            ("secret/data/a/c", 2),
            ("secret/data/d", 3),
            ("secret/metadata/d", 5),
            ("sys/mounts", 7),
            ("sys/health", 100),
        ] {
            assert_eq!(allowed(&quotas, path), count, "{path}");
        }
        quotas.remove("quota/rate-limit/all");
        assert_eq!(allowed(&quotas, "sys/mounts"), 100);
        assert_eq!(quotas.names(), ["exact", "longer", "mount", "prefix"]);
    }

    #[test]
    fn exemptions_and_headers_are_settings() {
        let quotas = Quotas::default();
        put(&quotas, "all", "", 0.5);
        let settings = Settings {
            sends_headers: true,
            audits_refusals: true,
            exempt: vec!["sys/mounts".to_owned()],
        };
        assert!(quotas.put(SETTINGS, &settings.encode()));
        assert_eq!(quotas.settings(), settings);
        assert_eq!(allowed(&quotas, "sys/mounts"), 100);
        let here = "10.0.0.1".parse().unwrap();
        let left = Allowance { limit: 1, left: 0, reset_secs: 1 };
        assert_eq!(
            quotas.ask_of(at("sys/health"), here, 0, Counting::Take, |_| None),
            Ok(Some(left))
        );
        let refused = quotas.ask_of(at("sys/health"), here, 1, Counting::Take, |_| None);
        let Err(Error::OverQuota(over)) = refused else { panic!("{refused:?}") };
        assert_eq!((over.limit, over.retry_after_secs, over.is_told), (1, 1, true));
        assert!(!quotas.put(SETTINGS, b"{}") && !quotas.put("quota/rate-limit/x", b"[]"));
    }
}
