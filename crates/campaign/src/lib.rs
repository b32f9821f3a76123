//! One part of a campaign: a search through seeds that starts where the part before it stopped.
//!
//! `cargo x campaign` starts a program (a test, the fuzzer, the simulator) again and again. [`CampaignPart`] is what it asks for, in the
//! environment variable [`VARIABLE`]: the first seed, and for how long. The program tries seed after seed, and at the end of the part
//! [`CampaignReach`] says on standard output how far it got. `xtask` reads that line and writes the ledger.
//!
//! Invariant: a seed that was begun is finished, so a part has tried every seed from its first to [`CampaignReach::next`].
#![forbid(unsafe_code)]

use std::fmt;
use std::num::NonZeroUsize;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// The environment variable that holds a part.
pub const VARIABLE: &str = "KALLISTO_CAMPAIGN";
/// What the line begins with that says how far a part got.
const SAID: &str = "campaign: next ";

/// What to try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CampaignPart {
    /// The first seed.
    pub first: u64,
    /// No seed is begun after this time.
    pub lasts: Duration,
}

/// How far a part got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CampaignReach {
    /// The first seed that was not tried.
    pub next: u64,
    /// What was counted, in the campaign's own unit.
    pub count: u64,
}

impl CampaignPart {
    /// The part that [`VARIABLE`] holds. `None` if the variable is not set.
    ///
    /// # Errors
    /// The variable holds something else.
    pub fn of_environment() -> Result<Option<Self>, String> {
        std::env::var(VARIABLE).ok().map(|text| text.parse()).transpose()
    }

    /// Tries seeds with as many threads as there are processors. `judge` says what it counted, and panics if something does not hold.
    /// At least one seed is tried.
    pub fn run(self, judge: impl Fn(u64) -> u64 + Sync) -> CampaignReach {
        self.run_on(thread::available_parallelism().map_or(1, NonZeroUsize::get), judge)
    }

    /// The same with this many threads.
    pub fn run_on(self, threads: usize, judge: impl Fn(u64) -> u64 + Sync) -> CampaignReach {
        let end = now() + self.lasts;
        let (next, count) = (AtomicU64::new(self.first), AtomicU64::new(0));
        let work = || {
            loop {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                let told = ToldIfItPanics(seed);
                count.fetch_add(judge(seed), Ordering::Relaxed);
                drop(told);
                if now() >= end {
                    return;
                }
            }
        };
        thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(work);
            }
        });
        CampaignReach { next: next.into_inner(), count: count.into_inner() }
    }
}

impl fmt::Display for CampaignPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.first, self.lasts.as_secs())
    }
}

impl FromStr for CampaignPart {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let read = || {
            let (first, secs) = text.split_once(' ')?;
            Some(Self {
                first: first.parse().ok()?,
                lasts: Duration::from_secs(secs.parse().ok()?),
            })
        };
        read().ok_or_else(|| format!("{VARIABLE} wants a seed and seconds, not {text:?}"))
    }
}

impl CampaignReach {
    /// Reads the line that `Display` writes. `None` for any other line.
    pub fn read(line: &str) -> Option<Self> {
        let (next, count) = line.trim().strip_prefix(SAID)?.split_once(", count ")?;
        Some(Self { next: next.parse().ok()?, count: count.parse().ok()? })
    }
}

impl fmt::Display for CampaignReach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SAID}{}, count {}", self.next, self.count)
    }
}

/// Names the seed at which a thread panics.
struct ToldIfItPanics(u64);

impl Drop for ToldIfItPanics {
    #[expect(clippy::print_stderr, reason = "the seed is what a person needs to repeat a failure")]
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("campaign: seed {} failed", self.0);
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "a part lasts as long as a person asks for")]
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::collections::BTreeSet;
    use std::sync::Mutex;

    #[test]
    fn every_seed_from_the_first_to_the_next_is_tried_once() {
        let part = CampaignPart { first: 7, lasts: Duration::from_millis(20) };
        let tried = Mutex::new(Vec::new());
        let reach = part.run_on(3, |seed| {
            tried.lock().unwrap().push(seed);
            2
        });
        let tried = tried.into_inner().unwrap();
        let different: BTreeSet<u64> = tried.iter().copied().collect();
        assert_eq!(different, (7..reach.next).collect());
        assert_eq!(tried.len(), different.len());
        assert_eq!(reach.count, 2 * tried.len() as u64);
    }

    #[test]
    fn a_part_without_time_tries_a_seed_all_the_same() {
        let part = CampaignPart { first: 1, lasts: Duration::ZERO };
        assert_eq!(part.run_on(1, |_| 5), CampaignReach { next: 2, count: 5 });
    }

    #[test]
    fn what_is_written_is_read_and_nothing_else_is() {
        let part = CampaignPart { first: u64::MAX, lasts: Duration::from_secs(9) };
        assert_eq!(part.to_string().parse(), Ok(part));
        let reach = CampaignReach { next: 12, count: 34 };
        assert_eq!(CampaignReach::read(&format!("{reach}\n")), Some(reach));
        for wrong in ["", "1", "1 x", "x 1", "-1 1", "1 2 3"] {
            assert!(wrong.parse::<CampaignPart>().is_err(), "{wrong}");
        }
        for wrong in ["", "campaign: next 1", "campaign: next 1, count x", "next 1, count 2"] {
            assert_eq!(CampaignReach::read(wrong), None, "{wrong}");
        }
    }

    #[test]
    #[should_panic(expected = "scoped thread panicked")]
    fn a_failure_ends_the_part() {
        let part = CampaignPart { first: 1, lasts: Duration::ZERO };
        part.run_on(2, |seed| panic!("seed {seed} does not hold"));
    }
}
