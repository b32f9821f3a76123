//! Readers against a writer: what stays is never missed, what is gone is never found.

use std::ops::Bound;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread;

use crate::PathIndex;
use crate::model::SplitMix;

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
                let mut dice = SplitMix::new(seed);
                while !done.load(SeqCst) {
                    let number = dice.below(lasting_count);
                    let path = lasting(number);
                    assert!(index.contains(&path), "{path} was missed");
                    assert!(index.may_contain(&path), "{path} was missed by its fingerprint");
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
                let mut dice = SplitMix::new(seed);
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

/// Waves of paths into one folder: each fills tails a path at a time until leaves are
/// written anew and cut, the ebb empties them until leaves are joined. The flow goes up, down and
/// to and fro, so that a tail's order is sometimes that of arrival, sometimes its reverse.
#[test]
fn tails_fill_fold_and_empty_under_readers() {
    let index = PathIndex::new();
    // Those that stay lie two tails apart; the ones between them come and go.
    let (span, waves) = (scaled(3000), 12);
    let name = |number: u64| format!("folder/secret-{number:06}");
    let stays = |number: u64| number % 31 == 1;
    let staying: Vec<String> = (0..span).filter(|&n| stays(n)).map(name).collect();
    for path in &staying {
        assert_eq!(index.insert(path), Ok(true));
    }
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for seed in 20..22 {
            let (index, done, staying) = (&index, &done, &staying);
            scope.spawn(move || {
                let mut dice = SplitMix::new(seed);
                while !done.load(SeqCst) {
                    let from = dice.below(span);
                    read_around(index, &name(from), &name(from + 200), staying);
                }
            });
        }
        let mut dice = SplitMix::new(23);
        for wave in 0..waves {
            let mut passing: Vec<u64> = (0..span).filter(|&n| !stays(n)).collect();
            match wave % 3 {
                0 => {}
                1 => passing.reverse(),
                _ => shuffle(&mut passing, &mut dice),
            }
            passing.iter().for_each(|&n| assert_eq!(index.insert(&name(n)), Ok(true)));
            shuffle(&mut passing, &mut dice);
            passing.iter().for_each(|&n| assert!(index.remove(&name(n))));
        }
        done.store(true, SeqCst);
    });
    assert_eq!(index.range(Bound::Unbounded, Bound::Unbounded, usize::MAX), staying);
    assert_eq!(index.check(), Ok(()));
}

/// Between `from` and `to`: ascending, all that stays there once, nothing that never was.
fn read_around(index: &PathIndex, from: &str, to: &str, staying: &[String]) {
    let paths = index.range(Bound::Included(from), Bound::Excluded(to), usize::MAX);
    assert!(paths.is_sorted_by(|left, right| left < right), "a range repeats or goes back");
    assert!(paths.iter().all(|path| (from..to).contains(&path.as_str())), "a range overshoots");
    let is_name = |path: &String| path.len() == from.len() && path.starts_with("folder/secret-");
    assert!(paths.iter().all(is_name), "a range made a path up");
    for path in staying.iter().filter(|path| (from..to).contains(&path.as_str())) {
        assert!(paths.binary_search(path).is_ok(), "{path} was missed by a range");
        assert!(index.contains(path), "{path} was missed");
        assert!(!index.contains(&format!("{path}x")), "{path}x never was");
    }
}

fn shuffle(numbers: &mut [u64], dice: &mut SplitMix) {
    for at in (1..numbers.len()).rev() {
        numbers.swap(at, dice.below(at as u64 + 1) as usize);
    }
}

#[test]
fn an_index_may_be_shared() {
    const fn shareable<T: Send + Sync>() {}
    const { shareable::<PathIndex>() };
    assert!(PathIndex::new().memory_bytes() < 1024, "an empty index is small");
}
