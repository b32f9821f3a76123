//! Rate limits: how many requests an address may make (API.md A21).
//!
//! A rule holds for everything, for a mount, or for a path, which may end in `*`. Of those that match
//! a request one counts: the path's before the mount's before the one for everything, the longer
//! path first. Each address has its own allowance with each rule, on each server.
//!
//! The rules are records on the shelf of `sys/`, brought here by the fold; requests read them
//! without a lock, and a server without rules reads one number.

mod allowance;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;

use crate::error::{Error, OverQuota};
use crate::json::{self, Json, Map};
use crate::request::Request;
use allowance::{Allowances, Taken};

/// Most rules: a request looks through those for paths with `*`.
pub(crate) const RULES_MAX: usize = 256;
/// Where rules are kept on the shelf of `sys/`.
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
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Spec {
    pub(crate) name: String,
    /// Empty for everything; a mount's path ends in a slash.
    pub(crate) path: String,
    /// Requests in each interval.
    pub(crate) rate: f64,
    pub(crate) interval_secs: u64,
    /// For how long an address is refused that went over; 0 for the rest of the interval.
    pub(crate) block_secs: u64,
}

/// Whether refusals carry the headers that tell when to come back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    Nothing,
    Headers,
}

/// The settings of all rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) told: Told,
    pub(crate) exempt: Vec<String>,
}

/// A rule at work.
struct Rule {
    spec: Spec,
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

impl Quotas {
    /// Takes one from the allowance of the address that asks.
    ///
    /// # Errors
    /// [`Error::OverQuota`] when nothing is left of it.
    pub(crate) fn take(&self, request: &Request<'_>) -> Result<(), Error> {
        // Relaxed: a rule may count from the next request on.
        if self.count.load(Ordering::Relaxed) == 0 {
            return Ok(());
        }
        let Some(remote) = request.remote else { return Ok(()) };
        self.take_of(request.path.as_str(), remote.ip(), request.now_ns())
    }

    fn take_of(&self, path: &str, remote: IpAddr, now_ns: i64) -> Result<(), Error> {
        let rules = self.rules.load();
        let is_exempt = |exempt: &String| fits(exempt, path);
        let Some(rule) = rules.by_rank.iter().find(|rule| fits(&rule.spec.path, path)) else {
            return Ok(());
        };
        if rules.settings.exempt.iter().any(is_exempt) {
            return Ok(());
        }
        match rule.allowances.take(&rule.spec, remote, now_ns) {
            Taken::One => Ok(()),
            Taken::None { retry_after_secs } => Err(Error::OverQuota(Box::new(OverQuota {
                path: path.to_owned(),
                retry_after_secs,
                limit: rule.spec.limit(),
                is_told: rules.settings.told == Told::Headers,
            }))),
        }
    }

    /// Takes a record of the shelf in; false when it is damaged. Records of others are passed over.
    pub(crate) fn put(&self, name: &str, value: &[u8]) -> bool {
        if name == SETTINGS {
            let Some(settings) = Settings::decode(value) else { return false };
            self.change(|rules| rules.settings = settings);
        } else if let Some(name) = name.strip_prefix(RULES) {
            let Some(spec) = Spec::decode(name, value) else { return false };
            let rule = Arc::new(Rule { spec, allowances: Allowances::default() });
            self.change(|rules| {
                rules.by_name.insert(name.to_owned(), rule);
            });
        }
        true
    }

    /// Forgets a record of the shelf.
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
        others.find(|rule| rule.spec.path == spec.path).map(|rule| rule.spec.name.clone())
    }
}

/// Whether a rule's path is for `path`: the same, or all that begins with it.
fn fits(rule: &str, path: &str) -> bool {
    match rule.strip_suffix('*') {
        Some(prefix) => path.starts_with(prefix),
        None if rule.is_empty() || rule.ends_with('/') => path.starts_with(rule),
        None => path == rule,
    }
}

impl Spec {
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

    /// Higher is tried first: paths, then mounts, then the rule for everything.
    fn rank(&self) -> (u8, usize) {
        let kind = match self.path.as_str() {
            "" => 0,
            mount if mount.ends_with('/') => 1,
            prefix if prefix.ends_with('*') => 2,
            _ => 3,
        };
        (kind, self.path.len())
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        Json::object([
            ("path", self.path.as_str().into()),
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
        Some(Self {
            name: name.to_owned(),
            path: map.get("path")?.as_str()?.to_owned(),
            rate: number("rate")?.parse().ok()?,
            interval_secs: number("interval")?.parse().ok()?,
            block_secs: number("block_interval")?.parse().ok()?,
        })
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self { told: Told::Nothing, exempt: EXEMPT.map(str::to_owned).to_vec() }
    }
}

impl Settings {
    pub(crate) fn to_json(&self) -> Map {
        Map::from([
            ("enable_rate_limit_audit_logging".to_owned(), false.into()),
            ("enable_rate_limit_response_headers".to_owned(), (self.told == Told::Headers).into()),
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
        let told = match map.get("enable_rate_limit_response_headers")? {
            Json::Bool(true) => Told::Headers,
            _ => Told::Nothing,
        };
        Some(Self { told, exempt: exempt.collect::<Option<_>>()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000_000;

    fn put(quotas: &Quotas, name: &str, path: &str, rate: f64) {
        let spec = Spec {
            name: name.to_owned(),
            path: path.to_owned(),
            rate,
            interval_secs: 1,
            block_secs: 0,
        };
        assert!(quotas.put(&format!("{RULES}{name}"), &spec.encode()));
        assert_eq!(quotas.spec(name), Some(spec));
    }

    fn allowed(quotas: &Quotas, path: &str) -> usize {
        let here = "10.0.0.1".parse().unwrap();
        (0..100).take_while(|_| quotas.take_of(path, here, 5 * SECOND).is_ok()).count()
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
        let settings = Settings { told: Told::Headers, exempt: vec!["sys/mounts".to_owned()] };
        assert!(quotas.put(SETTINGS, &settings.encode()));
        assert_eq!(quotas.settings(), settings);
        assert_eq!(allowed(&quotas, "sys/mounts"), 100);
        let here = "10.0.0.1".parse().unwrap();
        assert_eq!(quotas.take_of("sys/health", here, 0), Ok(()));
        let refused = quotas.take_of("sys/health", here, 1);
        let Err(Error::OverQuota(over)) = refused else { panic!("{refused:?}") };
        assert_eq!((over.limit, over.retry_after_secs, over.is_told), (1, 1, true));
        assert!(!quotas.put(SETTINGS, b"{}") && !quotas.put("quota/rate-limit/x", b"[]"));
    }
}
