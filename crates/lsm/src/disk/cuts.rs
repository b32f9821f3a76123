//! Power cuts after every disk operation of a recorded run: what the crash tests of all stores above a disk share.
//!
//! A test runs its workload once on a [`super::FaultyDisk`], which records every operation, and notes in [`Promises`] what
//! it handed in and what the store promised to keep. [`every_cut`] then walks the record and makes, for each point and
//! each [`UnsyncedTail`], the disk that a cut leaves there; the test opens its store on it and judges what it holds.
//! [`crash_everywhere`] does that for many seeds on several threads.

use std::ops::{Range, RangeInclusive};
use std::sync::atomic::{AtomicUsize, Ordering};

use super::{CrashReplay, DiskEvent, MemDisk, UnsyncedTail};

/// Threads that judge: each takes every so-many-th point of each run.
const THREADS: usize = 2;

/// What a run handed in and what it may count on, by the number of disk operations that were recorded by then.
#[derive(Clone, Debug, Default)]
pub struct Promises {
    /// After so many operations the step of this number was handed in.
    begun: Vec<usize>,
    /// After so many operations, so many steps must be there.
    kept: Vec<(usize, usize)>,
}

impl Promises {
    /// The next step is handed in now, after so many operations.
    pub fn begin(&mut self, operations: usize) {
        self.begun.push(operations);
    }

    /// From here on, after so many operations, the first `steps` steps must be there whatever happens.
    pub fn keep(&mut self, operations: usize, steps: usize) {
        if self.kept.last().is_none_or(|(_, before)| steps > *before) {
            self.kept.push((operations, steps));
        }
    }

    /// How many steps were promised last.
    #[must_use]
    pub fn kept(&self) -> usize {
        self.kept.last().map_or(0, |(_, steps)| *steps)
    }

    /// How many steps a store may hold after a cut behind so many operations: those that were promised, and any number of
    /// those that were handed in.
    #[must_use]
    pub fn at(&self, operations: usize) -> RangeInclusive<usize> {
        let reached = self.kept.partition_point(|(at, _)| *at <= operations);
        let least = reached.checked_sub(1).map_or(0, |last| self.kept[last].1);
        least..=self.begun.partition_point(|at| *at <= operations)
    }
}

/// One power cut.
#[derive(Debug)]
pub struct PowerCut {
    /// The operations before it.
    pub at: usize,
    /// What became of what was not synced.
    pub tail: UnsyncedTail,
    /// How many cuts were judged before.
    pub nth: usize,
    /// What is left.
    pub disk: MemDisk,
}

/// What a cut at the end of a record leaves.
#[must_use]
pub fn left_at_the_end(events: &[DiskEvent], tail: UnsyncedTail, seed: u64) -> MemDisk {
    let mut replay = CrashReplay::new(events);
    while replay.advance() {}
    replay.image(tail, seed)
}

/// Calls `judge` with every cut that may happen along `events`, in each of `tails`; says how many there were.
pub fn every_cut(
    events: &[DiskEvent],
    tails: &[UnsyncedTail],
    seed: u64,
    judge: impl FnMut(PowerCut),
) -> usize {
    every_nth_cut(events, tails, seed, (0, 1), judge)
}

/// The same for the points whose number leaves the first of `share` when it is divided by the second.
fn every_nth_cut(
    events: &[DiskEvent],
    tails: &[UnsyncedTail],
    seed: u64,
    share: (usize, usize),
    mut judge: impl FnMut(PowerCut),
) -> usize {
    let mut replay = CrashReplay::new(events);
    let (mut cuts, mut at) = (0, 0);
    loop {
        if at % share.1 == share.0 {
            for &tail in tails {
                judge(PowerCut { at, tail, nth: cuts, disk: replay.image(tail, seed ^ at as u64) });
                cuts += 1;
            }
        }
        if !replay.advance() {
            return cuts;
        }
        at += 1;
    }
}

/// A workload that was run once, and what has to hold after a cut.
pub trait RecordedRun {
    /// What the disk did.
    fn events(&self) -> &[DiskEvent];

    /// Opens what is left and panics if it is not what may be left.
    fn judge(&self, cut: PowerCut);

    /// So many cuts were judged: a last look at all of them.
    fn judged(&self, cuts: usize) {
        let _ = cuts;
    }
}

/// Judges every cut of a run a seed, in every tail; says how many cuts there were. `record` is called once a thread and
/// seed, and has to do the same each time.
pub fn crash_everywhere<R: RecordedRun>(
    seeds: Range<u64>,
    record: impl Fn(u64) -> R + Sync,
) -> usize {
    let cuts = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (cuts, record, seeds) = (&cuts, &record, seeds.clone());
            scope.spawn(move || {
                for seed in seeds {
                    let run = record(seed);
                    let share = (thread, THREADS);
                    let judge = |cut| run.judge(cut);
                    let judged =
                        every_nth_cut(run.events(), &UnsyncedTail::ALL, seed, share, judge);
                    run.judged(judged);
                    cuts.fetch_add(judged, Ordering::Relaxed);
                }
            });
        }
    });
    cuts.into_inner()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_may_hold_what_was_promised_up_to_what_was_handed_in() {
        let mut promises = Promises::default();
        assert_eq!(promises.at(9), 0..=0);
        promises.begin(2);
        promises.begin(5);
        promises.keep(7, 2);
        promises.keep(8, 1);
        assert_eq!(promises.kept(), 2);
        let ranges: Vec<_> = (0..9).map(|at| promises.at(at)).collect();
        let wanted = [0..=0, 0..=0, 0..=1, 0..=1, 0..=1, 0..=2, 0..=2, 2..=2, 2..=2];
        assert_eq!(ranges, wanted);
    }

    #[test]
    fn shares_of_the_cuts_are_all_of_them() {
        let events: Vec<DiskEvent> =
            (0..7).map(|n| DiskEvent::SyncDir { dir: format!("{n}").into() }).collect();
        let all = every_cut(&events, &UnsyncedTail::ALL, 0, |_| {});
        assert_eq!(all, (events.len() + 1) * UnsyncedTail::ALL.len());
        let shared = (0..3).map(|n| every_nth_cut(&events, &UnsyncedTail::ALL, 0, (n, 3), |_| {}));
        assert_eq!(shared.sum::<usize>(), all);
    }
}
