//! Counters that threads add to without meeting each other.
//!
//! A counter is spread over shards, each on cache lines of its own. A thread is given a number when
//! it first counts and adds to the shard of that number; two threads share one only when there are
//! more threads than shards. Reading adds the shards up: it may miss what is being added meanwhile,
//! and never sees a count go back.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// Shards of a counter: more than the threads that serve requests on most machines.
const SHARDS: usize = 16;

/// Upper ends of the buckets of [`Durations`], in microseconds; the last bucket has none.
pub(crate) const BUCKET_ENDS_US: [u64; 19] = [
    10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000,
    500_000, 1_000_000, 2_500_000, 5_000_000, 10_000_000,
];
const BUCKETS: usize = BUCKET_ENDS_US.len() + 1;

/// One thread's part of a counter, on cache lines of its own: processors fetch lines in pairs.
#[repr(align(128))]
struct Shard<const N: usize>([AtomicU64; N]);

/// `N` counters that are added to together.
pub struct Counts<const N: usize>(Box<[Shard<N>; SHARDS]>);

impl<const N: usize> Default for Counts<N> {
    fn default() -> Self {
        let shard = |_| Shard(std::array::from_fn(|_| AtomicU64::new(0)));
        Self(Box::new(std::array::from_fn(shard)))
    }
}

impl<const N: usize> Counts<N> {
    /// Adds to the counter at `at`, which is below `N`.
    pub fn add(&self, at: usize, more: u64) {
        // Relaxed: a count says nothing about other memory.
        self.0[shard()].0[at].fetch_add(more, Ordering::Relaxed);
    }

    /// The sums of all counters.
    pub fn sums(&self) -> [u64; N] {
        let sum = |at: usize| self.0.iter().map(|shard| shard.0[at].load(Ordering::Relaxed)).sum();
        std::array::from_fn(sum)
    }
}

impl Counts<1> {
    /// Adds one to the only counter.
    pub fn count(&self) {
        self.add(0, 1);
    }

    /// The only counter.
    pub fn total(&self) -> u64 {
        self.sums()[0]
    }
}

/// The shard of this thread.
fn shard() -> usize {
    static THREADS: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static SHARD: Cell<usize> = const { Cell::new(usize::MAX) };
    }
    SHARD.with(|own| {
        if own.get() == usize::MAX {
            own.set(THREADS.fetch_add(1, Ordering::Relaxed) % SHARDS);
        }
        own.get()
    })
}

/// How long things took: a histogram of fixed buckets, and the sum of nanoseconds behind them.
#[derive(Default)]
pub struct Durations(Counts<{ BUCKETS + 1 }>);

/// A histogram at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HistogramSnapshot {
    /// How many fell into each bucket.
    pub(crate) buckets: [u64; BUCKETS],
    /// What they add up to.
    pub(crate) sum: Duration,
}

impl Durations {
    /// Counts one.
    pub fn record(&self, took: Duration) {
        self.record_alike(1, took);
    }

    /// Counts so many that took as long.
    pub fn record_alike(&self, count: u64, took: Duration) {
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let bucket = BUCKET_ENDS_US.partition_point(|end| end * 1_000 < nanos);
        self.0.add(bucket, count);
        self.0.add(BUCKETS, nanos.saturating_mul(count));
    }

    pub(crate) fn snapshot(&self) -> HistogramSnapshot {
        let sums = self.0.sums();
        let (buckets, _) = sums.split_first_chunk().expect("the sum stands behind the buckets");
        HistogramSnapshot { buckets: *buckets, sum: Duration::from_nanos(sums[BUCKETS]) }
    }
}

impl HistogramSnapshot {
    /// How many there were.
    pub(crate) fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_lose_no_count() {
        let counts = Counts::<3>::default();
        std::thread::scope(|scope| {
            for _ in 0..2 * SHARDS {
                scope.spawn(|| (0..1_000).for_each(|turn| counts.add(turn % 3, 1)));
            }
        });
        let turns = 2 * SHARDS as u64;
        assert_eq!(counts.sums(), [334 * turns, 333 * turns, 333 * turns]);
    }

    #[test]
    fn durations_fall_into_their_buckets() {
        let durations = Durations::default();
        for micros in [0, 10, 11, 10_000_000, 10_000_001] {
            durations.record(Duration::from_micros(micros));
        }
        let snapshot = durations.snapshot();
        assert_eq!(snapshot.buckets[..3], [2, 1, 0]);
        assert_eq!(snapshot.buckets[BUCKETS - 2..], [1, 1]);
        assert_eq!(snapshot.count(), 5);
        assert_eq!(snapshot.sum, Duration::from_micros(20_000_022));
        durations.record_alike(3, Duration::from_micros(11));
        durations.record_alike(0, Duration::from_micros(11));
        let snapshot = durations.snapshot();
        assert_eq!((snapshot.buckets[1], snapshot.count()), (4, 8));
        assert_eq!(snapshot.sum, Duration::from_micros(20_000_055));
    }
}
