//! The fuzz body: bytes become operations, run against the index and against a `BTreeSet`.
//!
//! libFuzzer, the corpus replay and the seeded smoke below all call [`index_ops`].

use std::collections::BTreeSet;
use std::ops::Bound;

use crate::model;
use crate::{PathIndex, error};

/// Segments the operations build their paths from: neighbours of the slash in byte order, shared
/// prefixes, non-ASCII, and lengths around a word of eight bytes.
const SEGMENTS: [&str; 24] = [
    "a",
    "b",
    "b-",
    "b-x",
    "b.",
    "b0",
    "b/",
    "",
    "B",
    "~",
    "\u{e9}",
    "\u{10ffff}",
    "!",
    "db-password",
    "db-password-1",
    "db-password-10",
    "1234567",
    "12345678",
    "123456789",
    "x\u{7f}",
    "service",
    " ",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab",
];

/// Paths checked in full after every so many operations.
const OPS_PER_CHECK: usize = 64;

struct OpsInput<'a>(&'a [u8]);

impl OpsInput<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (&first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(first)
    }

    /// A path of one to four segments, often one that exists; sometimes one the index refuses.
    fn path(&mut self) -> Option<String> {
        let mut path = String::new();
        for place in 0..=self.byte()? % 4 {
            if place > 0 {
                path.push('/');
            }
            let byte = self.byte()?;
            match SEGMENTS.get(usize::from(byte)) {
                Some(segment) => path.push_str(segment),
                None => path.push_str(&format!("k{byte:03}")),
            }
        }
        if self.0.first() == Some(&0xFF) {
            path = path.repeat(usize::from(self.byte()?) * 2);
        }
        Some(path)
    }
}

/// Runs `bytes` as operations and compares every answer with the obvious structure's.
///
/// # Panics
/// When an answer differs or an invariant is broken.
pub fn index_ops(bytes: &[u8]) {
    let index = PathIndex::new();
    let mut model = BTreeSet::new();
    let mut input = OpsInput(bytes);
    let mut ops = 0;
    while run_one(&mut input, &index, &mut model).is_some() {
        ops += 1;
        if ops % OPS_PER_CHECK == 0 {
            assert_eq!(index.check(), Ok(()));
        }
    }
    assert_eq!(index.check(), Ok(()));
    assert_eq!(index.len(), model.len() as u64);
    let all = index.range(Bound::Unbounded, Bound::Unbounded, usize::MAX);
    assert_eq!(all, model.iter().cloned().collect::<Vec<_>>());
}

fn run_one(
    input: &mut OpsInput<'_>,
    index: &PathIndex,
    model: &mut BTreeSet<String>,
) -> Option<()> {
    let op = input.byte()?;
    let path = input.path()?;
    match op % 16 {
        0..=5 => match error::validate(&path) {
            Ok(()) => assert_eq!(index.insert(&path), Ok(model.insert(path.clone()))),
            Err(reason) => assert_eq!(index.insert(&path), Err(reason)),
        },
        6..=8 => assert_eq!(index.remove(&path), model.remove(&path)),
        9 => assert_eq!(index.contains(&path), model.contains(&path)),
        10 | 11 => {
            let (after, limit) = (input.path(), usize::from(op >> 4));
            let after = after.as_deref();
            let (ours, theirs) =
                (index.list(&path, after, limit), model::list(model, &path, after, limit));
            assert_eq!(ours, theirs, "list {path:?} after {after:?}");
        }
        12 => {
            let (after, limit) = (input.path(), usize::from(op >> 4));
            let after = after.as_deref();
            let (ours, theirs) =
                (index.scan(&path, after, limit), model::scan(model, &path, after, limit));
            assert_eq!(ours, theirs, "scan {path:?} after {after:?}");
        }
        13 => {
            let to = input.path()?;
            let (from, to) = (Bound::Excluded(path.as_str()), Bound::Included(to.as_str()));
            assert_eq!(index.range(from, to, 9), model::range(model, from, to, 9));
        }
        14 => assert_eq!(index.count(&path), model::count(model, &path)),
        _ if op == 0xFF => {
            index.clear();
            model.clear();
        }
        _ => assert_eq!(index.has_folder(&path), model::has_folder(model, &path)),
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::SplitMix;

    #[test]
    fn seeded_smoke() {
        let rounds = if cfg!(miri) { 2 } else { 120 };
        for seed in 0..rounds {
            let mut dice = SplitMix::new(seed);
            let length = if cfg!(miri) { 200 } else { 4000 };
            let bytes: Vec<u8> =
                (0..length).map(|_| dice.byte_below(1 << (3 + seed % 6))).collect();
            index_ops(&bytes);
        }
    }
}
