//! What each address has left of a rule: a count in a window of time.
//!
//! The first request opens a window of the rule's interval; in it as many pass as the rule says. An
//! IPv6 network of 64 bits counts as one address, since one client has as many as it likes.
//! Addresses are forgotten when their window is over; past [`ADDRESSES_MAX`] at once, all others
//! share one count.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::RuleSpec;
use crate::admission::network;

/// Parts of the table, so that workers seldom wait for each other.
const PARTS: usize = 16;
/// Most addresses a rule counts apart.
const ADDRESSES_MAX: usize = 1 << 16;
const ADDRESSES_PER_PART_MAX: usize = ADDRESSES_MAX / PARTS;

/// Whether there was something left.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum AllowanceTaken {
    /// And what is left of the window.
    One { left: u64, reset_secs: u64 },
    /// Come back in so many seconds.
    None { retry_after_secs: u64 },
}

/// Whether a request is counted, or only asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counting {
    /// It is.
    Take,
    /// Only whether it would pass.
    Look,
}

/// The counts of one rule.
#[derive(Default)]
pub(super) struct Allowances {
    parts: [Mutex<HashMap<Option<IpAddr>, Window>>; PARTS],
    hasher: RandomState,
}

/// The count of one address. Times are in nanoseconds since 1970.
#[derive(Clone, Copy)]
struct Window {
    end_ns: i64,
    taken: u64,
    blocked_to_ns: i64,
}

impl Window {
    const fn is_over(&self, now_ns: i64) -> bool {
        now_ns >= self.end_ns && now_ns >= self.blocked_to_ns
    }
}

impl Allowances {
    /// Takes one for `remote`, or says whether there is one.
    pub(super) fn ask(
        &self,
        spec: &RuleSpec,
        remote: IpAddr,
        now_ns: i64,
        counting: Counting,
    ) -> AllowanceTaken {
        let address = network(remote);
        let part = self.hasher.hash_one(address) as usize % PARTS;
        let mut windows = self.parts[part].lock().unwrap_or_else(PoisonError::into_inner);
        let mut key = Some(address);
        if !windows.contains_key(&key) && windows.len() >= ADDRESSES_PER_PART_MAX {
            windows.retain(|_, window| !window.is_over(now_ns));
            if windows.len() >= ADDRESSES_PER_PART_MAX {
                key = None;
            }
        }
        let fresh = Window { end_ns: i64::MIN, taken: 0, blocked_to_ns: i64::MIN };
        match counting {
            Counting::Take => windows.entry(key).or_insert(fresh).take(spec, now_ns),
            Counting::Look => {
                let mut window = windows.get(&key).copied().unwrap_or(fresh);
                window.take(spec, now_ns)
            }
        }
    }
}

impl Window {
    fn take(&mut self, spec: &RuleSpec, now_ns: i64) -> AllowanceTaken {
        let later = |span: Duration| now_ns.saturating_add(nanos(span));
        // The same for a block: one that lasts longer than it could from now on was set by another clock.
        if now_ns < self.blocked_to_ns && self.blocked_to_ns <= later(spec.block()) {
            return AllowanceTaken::None {
                retry_after_secs: secs_between(now_ns, self.blocked_to_ns),
            };
        }
        // A window that ends later than one opened now could was opened by a clock set back since.
        if now_ns >= self.end_ns || self.end_ns > later(spec.interval()) {
            (self.end_ns, self.taken) = (later(spec.interval()), 0);
        }
        if self.taken < spec.limit() {
            self.taken += 1;
            let left = spec.limit() - self.taken;
            return AllowanceTaken::One { left, reset_secs: secs_between(now_ns, self.end_ns) };
        }
        if spec.block_secs > 0 {
            self.blocked_to_ns = later(spec.block());
        }
        let end_ns = self.end_ns.max(self.blocked_to_ns);
        AllowanceTaken::None { retry_after_secs: secs_between(now_ns, end_ns) }
    }
}

fn nanos(span: Duration) -> i64 {
    i64::try_from(span.as_nanos()).unwrap_or(i64::MAX)
}

/// Whole seconds, at least one: sooner is in vain.
fn secs_between(now_ns: i64, end_ns: i64) -> u64 {
    let nanos = end_ns.saturating_sub(now_ns).max(1).unsigned_abs();
    nanos.div_ceil(1_000_000_000)
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const SECOND: i64 = 1_000_000_000;

    fn spec(rate: f64, interval_secs: u64, block_secs: u64) -> RuleSpec {
        RuleSpec { rate, interval_secs, block_secs, ..RuleSpec::default() }
    }

    fn passes(taken: &AllowanceTaken) -> bool {
        matches!(taken, AllowanceTaken::One { .. })
    }

    #[test]
    fn a_window_lets_so_many_pass_and_then_the_next_opens() {
        let (allowances, spec) = (Allowances::default(), spec(2.0, 5, 0));
        let take =
            |from: &str, at| allowances.ask(&spec, from.parse().unwrap(), at, Counting::Take);
        assert_eq!(take("10.0.0.1", 0), AllowanceTaken::One { left: 1, reset_secs: 5 });
        assert_eq!(take("10.0.0.1", SECOND), AllowanceTaken::One { left: 0, reset_secs: 4 });
        assert_eq!(take("10.0.0.1", 2 * SECOND), AllowanceTaken::None { retry_after_secs: 3 });
        assert_eq!(
            take("::ffff:10.0.0.1", 2 * SECOND),
            AllowanceTaken::None { retry_after_secs: 3 }
        );
        assert!(passes(&take("10.0.0.2", 2 * SECOND)));
        assert!(passes(&take("10.0.0.1", 5 * SECOND)));
    }

    #[test]
    fn going_over_can_cost_more_than_the_window() {
        let (allowances, spec) = (Allowances::default(), spec(1.0, 1, 10));
        let take = |at| allowances.ask(&spec, "fd00::1".parse().unwrap(), at, Counting::Take);
        assert!(passes(&take(0)));
        assert_eq!(take(SECOND / 2), AllowanceTaken::None { retry_after_secs: 10 });
        assert_eq!(take(5 * SECOND), AllowanceTaken::None { retry_after_secs: 6 });
        assert!(passes(&take(11 * SECOND)));
    }

    #[test]
    fn one_network_is_one_client() {
        let (allowances, spec) = (Allowances::default(), spec(1.0, 1, 0));
        let take = |from: &str| allowances.ask(&spec, from.parse().unwrap(), 0, Counting::Take);
        assert!(passes(&take("2001:db8::1")));
        assert!(!passes(&take("2001:db8::ffff:2")));
        assert!(passes(&take("2001:db8:0:1::1")));
    }

    #[test]
    fn a_clock_set_back_locks_nobody_out() {
        let (allowances, spec) = (Allowances::default(), spec(1.0, 5, 0));
        let take = |at| allowances.ask(&spec, "10.0.0.1".parse().unwrap(), at, Counting::Take);
        assert!(passes(&take(1_000_000 * SECOND)));
        assert!(passes(&take(0)));
        assert!(!passes(&take(1)));
        // Nor does a block that was set by it.
        let (allowances, spec) = (Allowances::default(), self::spec(1.0, 5, 60));
        let take = |at| allowances.ask(&spec, "10.0.0.1".parse().unwrap(), at, Counting::Take);
        assert!(passes(&take(1_000_000 * SECOND)) && !passes(&take(1_000_000 * SECOND)));
        assert!(passes(&take(0)));
    }

    #[test]
    fn memory_is_bounded_however_many_ask() {
        let (allowances, spec) = (Allowances::default(), spec(1.0, 5, 0));
        let asked = u32::try_from(2 * ADDRESSES_MAX).unwrap();
        for address in 0..asked {
            allowances.ask(&spec, Ipv4Addr::from_bits(address).into(), 0, Counting::Take);
        }
        let held = |allowances: &Allowances| -> usize {
            allowances.parts.iter().map(|part| part.lock().unwrap().len()).sum()
        };
        // Each part has one count for all that found no room.
        assert!(held(&allowances) <= ADDRESSES_MAX + PARTS, "{}", held(&allowances));
        // Once the windows are over there is room again.
        let taken =
            allowances.ask(&spec, Ipv4Addr::from_bits(asked).into(), 9 * SECOND, Counting::Take);
        assert!(passes(&taken));
        assert!(held(&allowances) < ADDRESSES_MAX);
    }

    #[test]
    fn a_block_ends_at_its_time() {
        let (allowances, spec) = (Allowances::default(), spec(1.0, 1, 5));
        let take = |at| allowances.ask(&spec, "10.0.0.1".parse().unwrap(), at, Counting::Take);
        assert!(passes(&take(0)));
        assert_eq!(take(0), AllowanceTaken::None { retry_after_secs: 5 });
        assert_eq!(take(5 * SECOND - 1), AllowanceTaken::None { retry_after_secs: 1 });
        assert!(passes(&take(5 * SECOND)));
    }
}
