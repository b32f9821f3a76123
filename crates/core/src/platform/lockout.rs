//! User lockout: after so many wrong passwords in a row a name is refused for a while.
//!
//! Counted in the memory of this server, per mount and name in its one spelling, so that no variant
//! of a name has attempts of its own; a restart forgets. Names of users and names that no user has are counted apart, each up to
//! a bound: a flood of invented names can push out invented names only, and to the outside both behave alike.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use kallisto_engine::time::after;

use crate::records::lockout_rules::LockoutRules;
use crate::storage::keys::MountId;

/// Most users whose failures are kept in mind.
const USERS_MAX: usize = 1 << 16;
/// Most names of nobody whose failures are kept in mind.
const NOBODIES_MAX: usize = 1 << 14;

/// Whether a name belongs to a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NameOwner {
    /// It does.
    User,
    /// It does not.
    Nobody,
}

/// The name of a user at a mount.
type MountUser = (MountId, String);

struct Failures {
    count: u32,
    /// When the last was.
    at: Timestamp,
    /// Locked until then.
    until: Option<Timestamp>,
    /// When they are forgotten.
    ends: Timestamp,
}

/// The failures of every name.
#[derive(Default)]
pub(crate) struct Lockouts {
    names: Mutex<LockedNames>,
}

#[derive(Default)]
struct LockedNames {
    users: HashMap<MountUser, Failures>,
    nobodies: HashMap<MountUser, Failures>,
}

impl Lockouts {
    fn names(&self) -> MutexGuard<'_, LockedNames> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a name is locked at `now`.
    pub(crate) fn is_locked(
        &self,
        mount: MountId,
        name: &str,
        rules: LockoutRules,
        now: Timestamp,
    ) -> bool {
        if rules.disabled {
            return false;
        }
        let key = (mount, name.to_owned());
        let names = self.names();
        let mut found = [&names.users, &names.nobodies].into_iter().filter_map(|of| of.get(&key));
        found.any(|failures| failures.until.is_some_and(|until| now < until))
    }

    /// Counts a failure.
    pub(crate) fn failed(
        &self,
        mount: MountId,
        name: &str,
        known: NameOwner,
        rules: LockoutRules,
        now: Timestamp,
    ) {
        if rules.disabled {
            return;
        }
        let mut names = self.names();
        let (counted, max) = match known {
            NameOwner::User => (&mut names.users, USERS_MAX),
            NameOwner::Nobody => (&mut names.nobodies, NOBODIES_MAX),
        };
        let key = (mount, name.to_owned());
        if !counted.contains_key(&key) && counted.len() >= max {
            make_room(counted, now);
        }
        let new = Failures { count: 0, at: now, until: None, ends: now };
        let failures = counted.entry(key).or_insert(new);
        let expired = failures.until.is_some_and(|until| until <= now);
        if expired || after(failures.at, rules.reset_secs) < now {
            failures.count = 0;
            failures.until = None;
        }
        failures.count = failures.count.saturating_add(1);
        failures.at = now;
        failures.ends = after(now, rules.reset_secs);
        if failures.count >= rules.threshold {
            let until = after(now, rules.duration_secs);
            failures.until = Some(until);
            failures.ends = until;
        }
    }

    /// Forgets a name's failures: after a good login, or by an operator's hand.
    pub(crate) fn forget(&self, mount: MountId, name: &str) {
        let key = (mount, name.to_owned());
        let mut names = self.names();
        names.users.remove(&key);
        names.nobodies.remove(&key);
    }

    /// The names locked at `now`, sorted.
    pub(crate) fn locked(&self, now: Timestamp) -> Vec<MountUser> {
        let names = self.names();
        let all = names.users.iter().chain(&names.nobodies);
        let locked = all.filter(|(_, failures)| failures.until.is_some_and(|until| now < until));
        let mut found: Vec<MountUser> = locked.map(|(name, _)| name.clone()).collect();
        found.sort();
        found
    }
}

/// Drops what is over; when nothing is, the one that is over first.
fn make_room(counted: &mut HashMap<MountUser, Failures>, now: Timestamp) {
    let before = counted.len();
    counted.retain(|_, failures| failures.ends > now);
    if counted.len() < before {
        return;
    }
    let first = counted.iter().min_by_key(|(_, failures)| failures.ends);
    if let Some(name) = first.map(|(name, _)| name.clone()) {
        counted.remove(&name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::json::Map;

    const MOUNT: MountId = MountId(20);

    fn at(secs: i64) -> Timestamp {
        Timestamp::from_second(secs).unwrap()
    }

    fn rules() -> LockoutRules {
        LockoutRules { threshold: 3, duration_secs: 60, reset_secs: 30, disabled: false }
    }

    #[test]
    fn a_name_is_locked_after_so_many_failures_and_free_after_a_while() {
        for known in [NameOwner::User, NameOwner::Nobody] {
            let lockouts = Lockouts::default();
            let fail = |secs| lockouts.failed(MOUNT, "bob", known, rules(), at(secs));
            let locked = |secs| lockouts.is_locked(MOUNT, "bob", rules(), at(secs));
            (0..2).for_each(fail);
            assert!(!locked(2));
            fail(2);
            assert!(locked(2) && locked(61) && !locked(62));
            assert!(!lockouts.is_locked(MountId(21), "bob", rules(), at(2)));
            assert_eq!(lockouts.locked(at(2)), [(MOUNT, "bob".to_owned())]);
            // After a lock the count begins anew.
            fail(62);
            fail(63);
            assert!(!locked(63));
            lockouts.forget(MOUNT, "bob");
            fail(64);
            assert!(!locked(64));
        }
    }

    #[test]
    fn failures_far_apart_do_not_add_up() {
        let lockouts = Lockouts::default();
        for secs in [0, 31, 62, 93, 124] {
            lockouts.failed(MOUNT, "bob", NameOwner::User, rules(), at(secs));
            assert!(!lockouts.is_locked(MOUNT, "bob", rules(), at(secs)));
        }
        let never = LockoutRules { disabled: true, ..rules() };
        (0..9).for_each(|_| lockouts.failed(MOUNT, "eve", NameOwner::User, never, at(0)));
        assert!(!lockouts.is_locked(MOUNT, "eve", rules(), at(0)));
    }

    #[test]
    fn invented_names_push_out_invented_names_only() {
        let lockouts = Lockouts::default();
        for _ in 0..3 {
            lockouts.failed(MOUNT, "bob", NameOwner::User, rules(), at(0));
        }
        for at_name in 0..NOBODIES_MAX + 10 {
            lockouts.failed(MOUNT, &format!("n{at_name}"), NameOwner::Nobody, rules(), at(1));
        }
        assert!(lockouts.is_locked(MOUNT, "bob", rules(), at(2)));
        assert_eq!(lockouts.names().nobodies.len(), NOBODIES_MAX);
    }

    #[test]
    fn rules_read_back() {
        let rules = LockoutRules { disabled: true, ..rules() };
        assert_eq!(LockoutRules::decode(&rules.to_map()), Some(rules));
        assert_eq!(LockoutRules::decode(&Map::new()), None);
    }
}
