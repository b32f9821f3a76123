//! The obvious structure: a `BTreeSet` of whole paths and answers by looking at all of them.
//!
//! Slow on purpose and written without a thought shared with the index, so that agreeing with it
//! means something.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::ops::Bound;

fn below<'a>(set: &'a BTreeSet<String>, folder: &str) -> Vec<&'a str> {
    let trimmed = folder.strip_suffix('/').unwrap_or(folder);
    set.iter()
        .filter_map(|path| {
            if trimmed.is_empty() {
                return Some(path.as_str());
            }
            path.strip_prefix(trimmed)?.strip_prefix('/')
        })
        .collect()
}

pub(crate) fn list(
    set: &BTreeSet<String>,
    folder: &str,
    after: Option<&str>,
    limit: usize,
) -> Vec<String> {
    let names: BTreeSet<String> = below(set, folder)
        .into_iter()
        .map(|rest| match rest.split_once('/') {
            Some((name, _)) => format!("{name}/"),
            None => rest.to_owned(),
        })
        .collect();
    names
        .into_iter()
        .filter(|name| after.is_none_or(|after| name.as_str() > after))
        .take(limit)
        .collect()
}

/// Leaves of a folder before its sub-folders, sub-folders by their name with the slash.
fn scan_order(left: &str, right: &str) -> Ordering {
    match (left.split_once('/'), right.split_once('/')) {
        (None, None) => left.cmp(right),
        (None, Some(_)) => Ordering::Less,
        (Some(_), None) => Ordering::Greater,
        (Some((left_name, left_rest)), Some((right_name, right_rest))) => {
            let (left_name, right_name) = (format!("{left_name}/"), format!("{right_name}/"));
            left_name.cmp(&right_name).then_with(|| scan_order(left_rest, right_rest))
        }
    }
}

pub(crate) fn scan(
    set: &BTreeSet<String>,
    folder: &str,
    after: Option<&str>,
    limit: usize,
) -> Vec<String> {
    let mut paths = below(set, folder);
    paths.sort_by(|left, right| scan_order(left, right));
    paths.retain(|path| after.is_none_or(|after| scan_order(path, after) == Ordering::Greater));
    paths.into_iter().take(limit).map(str::to_owned).collect()
}

pub(crate) fn range(
    set: &BTreeSet<String>,
    from: Bound<&str>,
    to: Bound<&str>,
    limit: usize,
) -> Vec<String> {
    let within = |path: &&String| {
        let path = path.as_str();
        let starts = match from {
            Bound::Unbounded => true,
            Bound::Included(from) => path >= from,
            Bound::Excluded(from) => path > from,
        };
        let ends = match to {
            Bound::Unbounded => true,
            Bound::Included(to) => path <= to,
            Bound::Excluded(to) => path < to,
        };
        starts && ends
    };
    set.iter().filter(within).take(limit).cloned().collect()
}

pub(crate) fn count(set: &BTreeSet<String>, folder: &str) -> u64 {
    below(set, folder).len() as u64
}

pub(crate) fn has_folder(set: &BTreeSet<String>, folder: &str) -> bool {
    !below(set, folder).is_empty()
}

/// A seeded generator (SplitMix64), so that a failure is a seed.
#[cfg(test)]
pub(crate) struct SplitMix(u64);

#[cfg(test)]
impl SplitMix {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        word ^ (word >> 31)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    pub(crate) fn byte_below(&mut self, bound: u64) -> u8 {
        (self.below(bound) & 0xFF) as u8
    }
}
