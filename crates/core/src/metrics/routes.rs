//! How long requests to each mount take, where the configuration asks for it.
//!
//! Off it costs a request one look at a flag; on, two looks at a clock and a lock that many may hold.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{PoisonError, RwLock};
use std::time::Duration;

use kallisto_auth::Operation;

use crate::counts::{Durations, HistogramSnapshot};

/// What Vault calls what a request does to a mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RouteVerb {
    Read,
    Create,
    Delete,
    List,
}

impl RouteVerb {
    /// In their order.
    pub(crate) const NAMES: [&'static str; 4] = ["read", "create", "delete", "list"];

    const fn of(operation: Operation) -> Self {
        match operation {
            Operation::Read => Self::Read,
            Operation::Update | Operation::Patch | Operation::Recover => Self::Create,
            Operation::Delete => Self::Delete,
            Operation::List | Operation::Scan => Self::List,
        }
    }
}

type VerbTimes = Box<[Durations; RouteVerb::NAMES.len()]>;

/// The mounts that were asked, by what metrics call them: those that have one name there are counted together.
#[derive(Default)]
pub(crate) struct RouteTimes {
    is_on: AtomicBool,
    mounts: RwLock<BTreeMap<Box<str>, VerbTimes>>,
}

impl RouteTimes {
    /// Begins to measure, at most so many mounts.
    pub(crate) fn turn_on(&self) {
        self.is_on.store(true, Ordering::Relaxed);
    }

    /// Whether anything is measured.
    pub(crate) fn is_on(&self) -> bool {
        // Relaxed: it is set at the start.
        self.is_on.load(Ordering::Relaxed)
    }

    /// Counts a request to a mount; one of more than `max` mounts is passed over.
    pub(crate) fn record(&self, mount: &str, operation: Operation, took: Duration, max: usize) {
        let (name, at) = (part_of_name(mount), RouteVerb::of(operation) as usize);
        if let Some(found) = self.mounts.read().unwrap_or_else(PoisonError::into_inner).get(&*name)
        {
            found[at].record(took);
            return;
        }
        let mut mounts = self.mounts.write().unwrap_or_else(PoisonError::into_inner);
        if mounts.len() < max || mounts.contains_key(&*name) {
            mounts.entry(name.into()).or_default()[at].record(took);
        }
    }

    /// All of them, by operation in the order of [`RouteVerb::NAMES`].
    pub(crate) fn all(&self) -> Vec<(String, [HistogramSnapshot; RouteVerb::NAMES.len()])> {
        let mounts = self.mounts.read().unwrap_or_else(PoisonError::into_inner);
        let of = |durations: &VerbTimes| std::array::from_fn(|at| durations[at].snapshot());
        mounts.iter().map(|(mount, durations)| (mount.to_string(), of(durations))).collect()
    }
}

/// A mount's path as a part of a metric's name: Prometheus refuses a whole text for one name with another character.
fn part_of_name(mount: &str) -> String {
    mount.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '_' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_are_measured_apart_and_so_many_only() {
        let routes = RouteTimes::default();
        assert!(!routes.is_on());
        for mount in ["secret/", "kv/", "third/"] {
            routes.record(mount, Operation::Patch, Duration::from_millis(2), 2);
        }
        routes.record("kv/", Operation::Scan, Duration::from_millis(2), 2);
        let all = routes.all();
        let counts = |at: usize| all[at].1.each_ref().map(HistogramSnapshot::count);
        assert_eq!((all[0].0.as_str(), counts(0)), ("kv_", [0, 1, 0, 1]));
        assert_eq!((all[1].0.as_str(), counts(1)), ("secret_", [0, 1, 0, 0]));
        assert_eq!(all.len(), 2);
    }

    #[test]
    fn a_mount_has_a_name_that_metrics_may_have_and_shares_it_with_those_alike() {
        let routes = RouteTimes::default();
        for mount in ["team/my-kv/", "team/my_kv/", "team-my.kv/", "kv x@1+\u{e9}/"] {
            routes.record(mount, Operation::Read, Duration::from_millis(2), 9);
        }
        let all = routes.all();
        let told: Vec<_> =
            all.iter().map(|(name, verbs)| (name.as_str(), verbs[0].count())).collect();
        assert_eq!(told, [("kv_x_1___", 1), ("team_my_kv_", 3)]);
    }
}
