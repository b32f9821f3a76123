//! Lease counts: how many leases there may be of what a rule holds for, credentials' and service tokens' together.
//!
//! A rule has no count of its own. Who is about to make a lease counts what the index holds, and takes a place beside it
//! ([`Reservation`]) until its record is there: so of many that ask at once no more get through than there may be. Leases that are there
//! when a rule is written stay.
//!
//! The rules are records in the engine storage of `sys/`, brought here by the fold. Without rules a lease costs one read of a number.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arc_swap::ArcSwap;

use super::scope::QuotaScope;
use crate::api::error::{Error, OverQuota};
use crate::api::json::{self, Json};
use crate::counts::Counts;

/// Where rules are kept in the engine storage of `sys/`.
pub(crate) const LEASE_RULES: &str = "quota/lease-count/";
/// A rule with as large a part of its leases as this, in percent, is one to warn of.
const NEAR_PERCENT: u64 = 80;

/// What a rule says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LeaseSpec {
    pub(crate) name: String,
    /// Where it holds.
    pub(crate) scope: QuotaScope,
    /// The most leases there may be.
    pub(crate) max_leases: u64,
}

/// The rules of a server.
#[derive(Default)]
pub(crate) struct LeaseQuotas {
    rules: ArcSwap<BTreeMap<String, Arc<LeaseRule>>>,
    count: AtomicUsize,
    /// Leases that were refused.
    pub(crate) refused: Counts<1>,
}

/// A rule at work.
struct LeaseRule {
    spec: LeaseSpec,
    /// Leases that are about to be made.
    making: AtomicUsize,
}

/// A place for one more lease, held until its record is there, or it is not made.
#[derive(Default)]
pub(crate) struct Reservation(Option<Arc<LeaseRule>>);

impl Drop for Reservation {
    fn drop(&mut self) {
        if let Some(rule) = &self.0 {
            rule.making.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

impl LeaseSpec {
    /// Whether it has so many of its leases that somebody should hear of it.
    pub(crate) const fn is_near(&self, count: usize) -> bool {
        (count as u64).saturating_mul(100) >= self.max_leases.saturating_mul(NEAR_PERCENT)
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        Json::object([
            ("path", self.scope.path.as_str().into()),
            ("namespace", self.scope.namespace.as_str().into()),
            ("inheritable", self.scope.is_inheritable.into()),
            ("max_leases", self.max_leases.into()),
        ])
        .to_text()
    }

    fn decode(name: &str, value: &[u8]) -> Option<Self> {
        let map = json::parse_object(value).ok()?;
        let text = |name: &str| Some(map.get(name)?.as_str()?.to_owned());
        let Json::Number(max_leases) = map.get("max_leases")? else { return None };
        Some(Self {
            name: name.to_owned(),
            scope: QuotaScope {
                path: text("path")?,
                namespace: text("namespace")?,
                role: String::new(),
                is_inheritable: *map.get("inheritable")? == Json::Bool(true),
            },
            max_leases: max_leases.parse().ok()?,
        })
    }
}

impl LeaseQuotas {
    /// Takes a place for a lease at `path` in `namespace`. `count` counts the leases of a rule, up to a limit.
    ///
    /// # Errors
    /// [`Error::OverQuota`] when the rule that holds there has as many as there may be.
    pub(crate) fn reserve(
        &self,
        namespace: &str,
        path: &str,
        count: impl FnOnce(&QuotaScope, usize) -> usize,
    ) -> Result<Reservation, Error> {
        // Relaxed: a rule may count from the next lease on.
        if self.count.load(Ordering::Relaxed) == 0 {
            return Ok(Reservation::default());
        }
        let rules = self.rules.load();
        let holds = |rule: &&Arc<LeaseRule>| {
            let scope = &rule.spec.scope;
            scope.holds_in(namespace) && scope.fits_in(namespace, path)
        };
        let Some(rule) = rules.values().filter(holds).max_by_key(|rule| rule.spec.scope.rank())
        else {
            return Ok(Reservation::default());
        };
        let max = usize::try_from(rule.spec.max_leases).unwrap_or(usize::MAX);
        let before = rule.making.fetch_add(1, Ordering::AcqRel);
        let reservation = Reservation(Some(Arc::clone(rule)));
        let there = count(&rule.spec.scope, max);
        if there.saturating_add(before) < max {
            return Ok(reservation);
        }
        self.refused.count();
        Err(Error::OverQuota(Box::new(OverQuota {
            counts_leases: true,
            path: path.to_owned(),
            retry_after_secs: 0,
            limit: rule.spec.max_leases,
            is_told: false,
        })))
    }

    /// Takes the record of a rule in; false when it is damaged.
    pub(super) fn put(&self, name: &str, value: &[u8]) -> bool {
        let Some(spec) = LeaseSpec::decode(name, value) else { return false };
        let mut rules = BTreeMap::clone(&self.rules.load());
        // What is being made keeps its place in the rule that was.
        let rule = LeaseRule { spec, making: AtomicUsize::new(0) };
        rules.insert(name.to_owned(), Arc::new(rule));
        self.store(rules);
        true
    }

    /// Forgets a rule.
    pub(super) fn remove(&self, name: &str) {
        let mut rules = BTreeMap::clone(&self.rules.load());
        rules.remove(name);
        self.store(rules);
    }

    /// Called by the fold alone, so changes do not race.
    fn store(&self, rules: BTreeMap<String, Arc<LeaseRule>>) {
        self.count.store(rules.len(), Ordering::Relaxed);
        self.rules.store(Arc::new(rules));
    }

    /// The rules, by name.
    pub(crate) fn specs(&self) -> Vec<LeaseSpec> {
        self.rules.load().values().map(|rule| rule.spec.clone()).collect()
    }

    /// The rule of a name.
    pub(crate) fn spec(&self, name: &str) -> Option<LeaseSpec> {
        self.rules.load().get(name).map(|rule| rule.spec.clone())
    }

    /// The other rule for the same path, if there is one.
    pub(crate) fn twin(&self, spec: &LeaseSpec) -> Option<String> {
        let others = self.specs().into_iter().filter(|other| other.name != spec.name);
        others.into_iter().find(|other| other.scope.is_twin(&spec.scope)).map(|other| other.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(quotas: &LeaseQuotas, name: &str, path: &str, max_leases: u64) {
        let scope = QuotaScope {
            path: path.to_owned(),
            is_inheritable: path.is_empty(),
            ..QuotaScope::default()
        };
        let spec = LeaseSpec { name: name.to_owned(), scope, max_leases };
        assert!(quotas.put(name, &spec.encode()));
        assert_eq!(quotas.spec(name), Some(spec));
    }

    #[test]
    fn the_rule_that_says_most_of_a_path_counts_and_no_other() {
        let quotas = LeaseQuotas::default();
        assert!(quotas.reserve("", "db/creds/r", |_, _| usize::MAX).is_ok(), "there is no rule");
        put(&quotas, "all", "", 2);
        put(&quotas, "mount", "db/", 5);
        put(&quotas, "prefix", "db/creds/a*", 7);
        put(&quotas, "path", "db/creds/ab", 9);
        for (path, rule) in
            [("ssh/x", 2), ("db/creds/r", 5), ("db/creds/ac", 7), ("db/creds/ab", 9)]
        {
            let mut asked = 0;
            let taken = quotas.reserve("", path, |_, limit| {
                asked = limit;
                limit - 1
            });
            assert!(taken.is_ok() && asked == rule, "{path}");
            let refused = quotas.reserve("", path, |_, limit| limit).err().unwrap();
            let text = format!("request path \"{path}\": lease count quota exceeded");
            assert_eq!(refused.to_string(), text);
        }
        assert!(quotas.reserve("team/", "db/creds/r", |_, limit| limit - 1).is_ok());
        assert!(quotas.reserve("team/", "db/creds/r", |_, limit| limit).is_err(), "it inherits");
        quotas.remove("all");
        assert!(quotas.reserve("team/", "db/creds/r", |_, limit| limit).is_ok());
    }

    #[test]
    fn leases_that_are_being_made_count_until_they_are_there_or_given_up() {
        let quotas = LeaseQuotas::default();
        put(&quotas, "all", "", 3);
        let one = quotas.reserve("", "a", |_, _| 1).unwrap();
        let two = quotas.reserve("", "a", |_, _| 1).unwrap();
        assert!(quotas.reserve("", "a", |_, _| 1).is_err());
        drop(one);
        let three = quotas.reserve("", "a", |_, _| 1).unwrap();
        assert!(quotas.reserve("", "a", |_, _| 1).is_err());
        drop((two, three));
        assert!(quotas.reserve("", "a", |_, _| 2).is_ok());
    }

    #[test]
    fn a_rule_warns_from_four_fifths_on() {
        let spec = LeaseSpec { name: String::new(), scope: QuotaScope::default(), max_leases: 10 };
        assert!(!spec.is_near(7) && spec.is_near(8) && spec.is_near(11));
    }

    #[test]
    fn damaged_rules_are_seen() {
        let quotas = LeaseQuotas::default();
        for damaged in
            ["", "{}", r#"{"path":"","namespace":"","inheritable":true,"max_leases":-1}"#]
        {
            assert!(!quotas.put("a", damaged.as_bytes()));
        }
    }
}
