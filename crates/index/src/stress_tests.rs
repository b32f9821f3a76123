//! Readers against a writer: what stays is never missed, what is gone is never found.

use std::ops::Bound;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread;

use crate::PathIndex;
use crate::model::Dice;

/// Paths that stay for the whole run, spread over the paths that come and go.
fn lasting(number: u64) -> String {
    format!("team-{:02}/service-{}/lasting-{number:05}", number % 7, number % 3)
}

fn passing(number: u64) -> String {
    format!("team-{:02}/service-{}/passing-{number:05}", number % 7, number % 3)
}

fn scaled(count: u64) -> u64 {
    if cfg!(miri) { count / 100 } else { count }
}

#[test]
fn a_lasting_path_is_never_missed() {
    let index = PathIndex::new();
    let (lasting_count, rounds) = (scaled(2000), 6);
    for number in 0..lasting_count {
        assert_eq!(index.insert(&lasting(number)), Ok(true));
    }
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for seed in 0..2 {
            let (index, done) = (&index, &done);
            scope.spawn(move || {
                let mut dice = Dice::new(seed);
                while !done.load(SeqCst) {
                    let number = dice.below(lasting_count);
                    let path = lasting(number);
                    assert!(index.contains(&path), "{path} was missed");
                    assert!(index.may_contain(&path), "{path} was missed by its print");
                    if dice.below(200) == 0 {
                        assert_lists_all_lasting(index, number % 7, lasting_count);
                    }
                }
            });
        }
        for _ in 0..rounds {
            (0..scaled(6000)).for_each(|n| assert_eq!(index.insert(&passing(n)), Ok(true)));
            (0..scaled(6000)).for_each(|n| assert!(index.remove(&passing(n))));
        }
        done.store(true, SeqCst);
    });
    assert_eq!((index.len(), index.check()), (lasting_count, Ok(())));
}

fn assert_lists_all_lasting(index: &PathIndex, team: u64, lasting_count: u64) {
    let (from, to) = (format!("team-{team:02}/"), format!("team-{team:02}0"));
    let paths = index.range(Bound::Included(&from), Bound::Excluded(&to), usize::MAX);
    assert!(paths.is_sorted_by(|left, right| left < right), "a range repeats or goes back");
    let found = paths.iter().filter(|path| path.contains("lasting")).count() as u64;
    assert_eq!(found, (lasting_count + 6 - team) / 7, "team {team}");
}

/// The writer takes paths in and out in turn and says how far it is; a reader that starts after
/// an operation is over must see its outcome.
#[test]
fn a_reader_sees_what_was_finished_before_it_began() {
    let index = PathIndex::new();
    let (window, total) = (400, scaled(40_000));
    let (inserted, removed, done) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        for seed in 10..12 {
            let (index, inserted, removed, done) = (&index, &inserted, &removed, &done);
            scope.spawn(move || {
                let mut dice = Dice::new(seed);
                while !done.load(SeqCst) {
                    let gone = removed.load(SeqCst);
                    if gone > 0 {
                        let number = gone - 1 - dice.below(gone.min(50));
                        assert!(!index.contains(&passing(number)), "{number} is back");
                    }
                    let here = inserted.load(SeqCst);
                    let number = here.saturating_sub(1 + dice.below(100));
                    let found = index.contains(&passing(number));
                    // Removal may have overtaken the question, but then it has at least begun.
                    let overtaken = removed.load(SeqCst) + 1 > number;
                    assert!(found || overtaken || here == 0, "{number} was missed");
                }
            });
        }
        for number in 0..total {
            assert_eq!(index.insert(&passing(number)), Ok(true));
            inserted.store(number + 1, SeqCst);
            if number >= window {
                assert!(index.remove(&passing(number - window)));
                removed.store(number - window + 1, SeqCst);
            }
        }
        done.store(true, SeqCst);
    });
    assert_eq!(index.check(), Ok(()));
}

#[test]
fn an_index_may_be_shared() {
    const fn shareable<T: Send + Sync>() {}
    const { shareable::<PathIndex>() };
    assert!(PathIndex::new().memory_bytes() < 1024, "an empty index is small");
}
