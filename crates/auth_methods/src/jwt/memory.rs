//! What a mount keeps in memory: what was fetched of its provider, and which logins are on their way.
//!
//! What was fetched is a copy that each server makes for itself. The logins on their way are counted as their records are committed, so that
//! there is a bound to them which costs no look into the storage, and so that what has ended is found without one.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use kallisto_engine::Memory;

use super::oidc::record;
use super::provider::{DiscoveredProvider, ProviderCache};
use super::token::JwtKey;

/// Most logins by device or direct callback that are on their way at once, and most that a form was posted for.
const ON_THEIR_WAY_MAX: usize = 10_000;
/// Most states that are remembered as used. Each is of a login that a provider vouched for.
const USED_MAX: usize = 200_000;

/// The memory of a mount.
#[derive(Default)]
pub(super) struct JwtMemory {
    pub(super) key_sets: ProviderCache<Vec<JwtKey>>,
    pub(super) providers: ProviderCache<DiscoveredProvider>,
    /// Records of logins, by when they end, in seconds since 1970.
    ends: Mutex<Ends>,
    /// When devices were last asked for.
    polls: Mutex<HashMap<String, Timestamp>>,
}

#[derive(Default)]
struct Ends {
    by_name: HashMap<String, i64>,
    by_end: BTreeSet<(i64, String)>,
    used: usize,
}

impl Ends {
    fn take(&mut self, name: &str) {
        if let Some(end) = self.by_name.remove(name) {
            self.by_end.remove(&(end, name.to_owned()));
            self.used -= usize::from(name.starts_with(record::USED));
        }
    }
}

impl JwtMemory {
    fn ends(&self) -> MutexGuard<'_, Ends> {
        self.ends.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether one more login may be on its way.
    pub(super) fn has_place(&self) -> bool {
        let ends = self.ends();
        ends.by_name.len() - ends.used < ON_THEIR_WAY_MAX
    }

    /// Whether one more state may be used.
    pub(super) fn has_place_for_used(&self) -> bool {
        self.ends().used < USED_MAX
    }

    /// The names of at most `limit` records that ended before `now`.
    pub(super) fn ended(&self, now: Timestamp, limit: usize) -> Vec<String> {
        let ends = self.ends();
        let ended = ends.by_end.iter().take_while(|(end, _)| *end <= now.as_second());
        ended.take(limit).map(|(_, name)| name.clone()).collect()
    }

    /// Whether a provider may be asked again about a device, whose last time was `secs` ago at the least; if so, this is the last time.
    pub(super) fn may_poll(&self, name: &str, now: Timestamp, secs: i64) -> bool {
        let mut polls = self.polls.lock().unwrap_or_else(PoisonError::into_inner);
        if polls.get(name).is_some_and(|last| now.as_second() - last.as_second() < secs) {
            return false;
        }
        if polls.len() >= ON_THEIR_WAY_MAX {
            polls.clear();
        }
        polls.insert(name.to_owned(), now);
        true
    }
}

impl Memory for JwtMemory {
    fn put(&self, name: &str, value: &[u8]) -> bool {
        if !record::is_login(name) {
            return true;
        }
        let Some(end) = record::end_of(value) else { return false };
        let mut ends = self.ends();
        ends.take(name);
        ends.used += usize::from(name.starts_with(record::USED));
        ends.by_name.insert(name.to_owned(), end);
        ends.by_end.insert((end, name.to_owned()));
        true
    }

    fn remove(&self, name: &str) {
        self.ends().take(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ends_first_is_found_first_and_places_come_back() {
        let memory = JwtMemory::default();
        for at in 0..ON_THEIR_WAY_MAX {
            assert!(memory.has_place());
            assert!(memory.put(&format!("request/{at}"), format!(r#"{{"ends":{at}}}"#).as_bytes()));
        }
        assert!(!memory.has_place() && memory.has_place_for_used());
        assert!(memory.put("used/a", br#"{"ends":1}"#));
        let now = Timestamp::from_second(2).unwrap();
        assert_eq!(memory.ended(now, 10), ["request/0", "request/1", "used/a", "request/2"]);
        assert_eq!(memory.ended(now, 2).len(), 2);
        memory.put("request/0", br#"{"ends":9}"#);
        memory.remove("used/a");
        memory.remove("request/1");
        assert_eq!(memory.ended(now, 10), ["request/2"]);
        assert!(memory.has_place());
        assert!(memory.put("config", b"{}") && !memory.put("request/x", b"{}"));
    }

    #[test]
    fn a_device_is_asked_for_no_more_often_than_its_provider_said() {
        let memory = JwtMemory::default();
        let at = |second| Timestamp::from_second(second).unwrap();
        assert!(memory.may_poll("a", at(100), 5));
        assert!(!memory.may_poll("a", at(104), 5));
        assert!(memory.may_poll("b", at(104), 5));
        assert!(memory.may_poll("a", at(105), 5));
    }
}
