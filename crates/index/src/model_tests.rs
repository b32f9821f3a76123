//! The index against the obvious structure, over alphabets chosen to hurt.

use std::collections::BTreeSet;
use std::ops::Bound;

use crate::PathIndex;
use crate::model::{self, SplitMix};

/// Operations per run: few under Miri, which is some thousand times slower.
fn scaled(count: u64) -> u64 {
    if cfg!(miri) { count / 100 + 8 } else { count }
}

/// Makes one path of a shape.
type PathShape = fn(&mut SplitMix) -> String;

fn around_the_slash(dice: &mut SplitMix) -> String {
    const BYTES: [char; 9] = ['!', '-', '.', '/', '0', 'a', '\u{1}', '~', '\u{e9}'];
    (0..=dice.below(7)).map(|_| BYTES[dice.below(9) as usize]).collect()
}

fn shared_prefixes(dice: &mut SplitMix) -> String {
    let stem = "p".repeat(dice.below(40) as usize);
    format!("{stem}{}/{stem}{}", dice.below(3), dice.below(4))
}

fn one_folder(dice: &mut SplitMix) -> String {
    format!("only/secret-{:05}", dice.below(20_000))
}

fn lonely_leaves(dice: &mut SplitMix) -> String {
    format!("folder-{:05}/leaf", dice.below(20_000))
}

fn teams(dice: &mut SplitMix) -> String {
    let (team, service, secret) = (dice.below(9), dice.below(12), dice.below(40));
    format!("team-{team:04}/service-{service}/db-password-{secret}")
}

fn long_segments(dice: &mut SplitMix) -> String {
    let fill = "s".repeat(dice.below(2000) as usize);
    format!("{fill}{}/{fill}{}", dice.below(5), dice.below(5))
}

fn deep(dice: &mut SplitMix) -> String {
    let depth = 1 + dice.below(30) as usize;
    let segments: Vec<String> = (0..depth).map(|_| format!("d{}", dice.below(2))).collect();
    segments.join("/")
}

const SHAPES: [(&str, PathShape); 7] = [
    ("around the slash", around_the_slash),
    ("shared prefixes", shared_prefixes),
    ("one folder", one_folder),
    ("lonely leaves", lonely_leaves),
    ("teams", teams),
    ("long segments", long_segments),
    ("deep", deep),
];

fn compare_reads(index: &PathIndex, set: &BTreeSet<String>, shape: PathShape, dice: &mut SplitMix) {
    let (path, other) = (shape(dice), shape(dice));
    assert_eq!(index.contains(&path), set.contains(&path), "{path}");
    assert!(index.may_contain(&path) || !set.contains(&path), "{path}");
    let folder = &path[..path.find('/').map_or(0, |slash| slash + dice.below(2) as usize)];
    let relative = path[folder.len()..].trim_start_matches('/');
    for after in [None, Some(relative), Some(other.as_str())] {
        let limit = 1 + dice.below(30) as usize;
        let (ours, theirs) =
            (index.list(folder, after, limit), model::list(set, folder, after, limit));
        assert_eq!(ours, theirs, "list {folder:?} after {after:?}");
        let (ours, theirs) =
            (index.scan(folder, after, limit), model::scan(set, folder, after, limit));
        assert_eq!(ours, theirs, "scan {folder:?} after {after:?}");
    }
    let bounds = (Bound::Included(path.as_str()), Bound::Excluded(other.as_str()));
    assert_eq!(index.range(bounds.0, bounds.1, 50), model::range(set, bounds.0, bounds.1, 50));
    assert_eq!(index.count(folder), model::count(set, folder), "count {folder:?}");
    assert_eq!(index.has_folder(folder), model::has_folder(set, folder), "{folder:?}");
}

/// Grows and shrinks in waves, so that pages split and merge on every path.
fn run_shape(name: &str, shape: PathShape, seed: u64, ops: u64, checks: u64) {
    let (index, mut set, mut dice) = (PathIndex::new(), BTreeSet::new(), SplitMix::new(seed));
    for op in 0..ops {
        let path = shape(&mut dice);
        let growing = (op * 4 / ops).is_multiple_of(2);
        if dice.below(10) < if growing { 8 } else { 1 } {
            if let Ok(new) = index.insert(&path) {
                assert_eq!(new, set.insert(path.clone()), "{name}: insert {path}");
            }
        } else {
            let victim = set.range(path..).next().cloned().or_else(|| set.first().cloned());
            if let Some(victim) = victim {
                assert!(index.remove(&victim), "{name}: remove {victim}");
                assert!(!index.remove(&victim), "{name}: removed {victim} twice");
                set.remove(&victim);
            }
        }
        assert_eq!(index.len(), set.len() as u64, "{name}");
        if op % (ops / checks).max(1) == 0 {
            assert_eq!(index.check(), Ok(()), "{name} seed {seed} op {op}");
            compare_reads(&index, &set, shape, &mut dice);
        }
    }
    for path in &set {
        assert!(index.contains(path), "{name}: {path}");
    }
    let all = index.range(Bound::Unbounded, Bound::Unbounded, usize::MAX);
    assert!(all.iter().eq(set.iter()), "{name}: range differs");
    for path in &set {
        assert!(index.remove(path), "{name}: {path}");
    }
    assert!(index.is_empty());
    assert_eq!(index.check(), Ok(()), "{name}: emptied");
}

#[test]
fn small_runs_checked_after_every_operation() {
    for (name, shape) in SHAPES {
        for seed in 0..3 {
            let ops = scaled(300);
            run_shape(name, shape, seed, ops, ops);
        }
    }
}

#[test]
fn long_runs_split_and_merge() {
    for (name, shape) in SHAPES {
        run_shape(name, shape, 99, scaled(16_000), 16);
    }
}

#[test]
fn bulk_building_equals_inserting() {
    for (name, shape) in SHAPES {
        let mut dice = SplitMix::new(7);
        let paths: BTreeSet<String> = (0..scaled(6000))
            .map(|_| shape(&mut dice))
            .filter(|path| crate::error::validate(path).is_ok())
            .collect();
        let index = PathIndex::from_sorted(&paths).expect("sorted, valid paths");
        assert_eq!(index.check(), Ok(()), "{name}");
        assert_eq!(index.len(), paths.len() as u64, "{name}");
        assert!(paths.iter().all(|path| index.contains(path)), "{name}");
        let all = index.range(Bound::Unbounded, Bound::Unbounded, usize::MAX);
        assert!(all.iter().eq(paths.iter()), "{name}");
        for path in paths.iter().step_by(3) {
            assert!(index.remove(path), "{name}: {path}");
        }
        assert_eq!(index.check(), Ok(()), "{name}");
    }
}

#[test]
fn filling_is_building_first_and_inserting_later() {
    for (name, shape) in SHAPES {
        let mut dice = SplitMix::new(8);
        let (mut all, index) = (BTreeSet::new(), PathIndex::new());
        for _ in 0..3 {
            let paths: BTreeSet<String> = (0..scaled(2000))
                .map(|_| shape(&mut dice))
                .filter(|path| crate::error::validate(path).is_ok())
                .collect();
            index.fill(paths.iter().map(String::as_str)).expect("sorted, valid paths");
            all.extend(paths);
            assert_eq!(index.check(), Ok(()), "{name}");
            let held = index.range(Bound::Unbounded, Bound::Unbounded, usize::MAX);
            assert!(held.iter().eq(all.iter()), "{name}");
        }
    }
}

#[test]
fn bulk_building_refuses_disorder() {
    use crate::Error;
    assert_eq!(PathIndex::from_sorted(["b", "a"]).err(), Some(Error::NotAscending));
    assert_eq!(PathIndex::from_sorted(["a", "a"]).err(), Some(Error::NotAscending));
    assert_eq!(PathIndex::from_sorted(["a", "b/"]).err(), Some(Error::TrailingSlash));
}

#[test]
fn a_full_index_refuses_reads_on_and_empties() {
    let index = PathIndex::new();
    assert_eq!(index.insert("first"), Ok(true));
    index.limit_to(1000);
    let mut set = BTreeSet::from(["first".to_owned()]);
    let refused =
        (0..1_000_000).map(|number| format!("folder-{}/{number}", number % 37)).find(|path| {
            match index.insert(path) {
                Ok(new) => !set.insert(path.clone()) || !new,
                Err(reason) => reason == crate::Error::Full,
            }
        });
    let refused = refused.expect("the pages end before the paths");
    assert!(set.len() > 500 && !set.contains(&refused), "{} paths", set.len());
    assert_eq!(index.check(), Ok(()));
    assert_eq!(index.insert("first"), Ok(false), "what is there needs no room");
    let all = index.range(Bound::Unbounded, Bound::Unbounded, usize::MAX);
    assert!(all.iter().eq(set.iter()));
    assert!(set.iter().all(|path| index.remove(path)));
    assert_eq!((index.len(), index.check()), (0, Ok(())));
}

#[test]
fn listing_prints_names_the_vault_way() {
    let index = PathIndex::new();
    for path in ["b", "b-x", "b/c", "b/d/e", "a", "c/x"] {
        assert_eq!(index.insert(path), Ok(true));
    }
    assert_eq!(index.list("", None, usize::MAX), ["a", "b", "b-x", "b/", "c/"]);
    assert_eq!(index.list("/", Some("b"), 2), ["b-x", "b/"]);
    assert_eq!(index.list("", Some("b/"), 9), ["c/"]);
    assert_eq!(index.list("b", None, 9), ["c", "d/"]);
    assert_eq!(index.list("b/", None, 0), [""; 0]);
    assert_eq!(index.scan("", None, 9), ["a", "b", "b-x", "b/c", "b/d/e", "c/x"]);
    assert_eq!(index.scan("", Some("b/c"), 1), ["b/d/e"]);
    assert_eq!(index.scan("b", Some("c"), 9), ["d/e"]);
    assert_eq!((index.count(""), index.count("b"), index.count("z")), (6, 2, 0));
    assert!(index.has_folder("b/d") && !index.has_folder("b/d/e"));
    assert!(index.remove("b/d/e") && !index.has_folder("b/d"));
}

#[test]
fn a_scan_gives_leaves_before_folders() {
    let index = PathIndex::new();
    for path in ["z", "f/y", "f/a/x", "f/c"] {
        assert_eq!(index.insert(path), Ok(true));
    }
    assert_eq!(index.scan("", None, 9), ["z", "f/c", "f/y", "f/a/x"]);
    assert_eq!(index.scan("", Some("f/c"), 9), ["f/y", "f/a/x"]);
}

#[test]
fn few_unknown_paths_get_past_the_sieve() {
    let index = PathIndex::new();
    let known = scaled(30_000);
    for number in 0..known {
        assert_eq!(index.insert(&format!("folder-{}/name-{number}", number % 99)), Ok(true));
    }
    let asked = 4 * known;
    let passed = (0..asked)
        .filter(|number| index.may_contain(&format!("folder-{}/other-{number}", number % 99)));
    let passed = passed.count() as u64;
    assert!(passed <= asked / 200 + 1, "{passed} of {asked} unknown paths got past");
}
