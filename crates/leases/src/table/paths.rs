//! The paths of leases, each kept once: a number for every namespace, path and mount that has a lease.
//!
//! The mount is part of it because a path may pass to another mount while leases of the first are left. Those of
//! one path are a list, sorted by mount, nearly always of one.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use super::slab::{NUMBER_MAX, Slab};

/// The number of a path.
pub(super) type PathNumber = u32;

/// The number of no path, which the slab never gives.
const NONE: PathNumber = NUMBER_MAX + 1;

/// A path that has leases.
#[derive(Debug)]
pub(super) struct KnownPath {
    pub(super) namespace: u32,
    pub(super) mount: u32,
    pub(super) path: Arc<str>,
    /// How many leases are at it.
    leases: u32,
    /// The same path under the next mount, or [`NONE`].
    next: PathNumber,
}

/// All paths.
#[derive(Debug, Default)]
pub(super) struct LeasePaths {
    known: Slab<KnownPath>,
    /// The first of each path, by namespace.
    firsts: BTreeMap<u32, BTreeMap<Arc<str>, PathNumber>>,
}

impl LeasePaths {
    /// The path of a number.
    pub(super) fn get(&self, number: PathNumber) -> Option<&KnownPath> {
        self.known.get(number)
    }

    /// The number of a path that gets one more lease; `None` when every number is taken.
    pub(super) fn enter(&mut self, namespace: u32, path: &str, mount: u32) -> Option<PathNumber> {
        let before = self.at(namespace, path).take_while(|known| known.1.mount <= mount).last();
        let before = before.map(|(number, known)| (number, known.mount, Arc::clone(&known.path)));
        let (path, next) = match &before {
            Some((number, found, _)) if *found == mount => {
                self.known.get_mut(*number)?.leases += 1;
                return Some(*number);
            }
            Some((number, _, path)) => (Arc::clone(path), self.known.get(*number)?.next),
            None => {
                let first = self.firsts.get(&namespace).and_then(|paths| paths.get(path));
                (path.into(), first.copied().unwrap_or(NONE))
            }
        };
        let new = KnownPath { namespace, mount, path: Arc::clone(&path), leases: 1, next };
        let number = self.known.insert(new)?;
        match before {
            Some((before, ..)) => self.known.get_mut(before)?.next = number,
            None => {
                self.firsts.entry(namespace).or_default().insert(path, number);
            }
        }
        Some(number)
    }

    /// Takes one lease off a path, and forgets it with the last one.
    pub(super) fn leave(&mut self, number: PathNumber) {
        let Some(known) = self.known.get_mut(number) else { return };
        known.leases -= 1;
        if known.leases > 0 {
            return;
        }
        let Some(gone) = self.known.remove(number) else { return };
        let Some(paths) = self.firsts.get_mut(&gone.namespace) else { return };
        let first = paths.get(&gone.path).copied();
        match (first == Some(number), gone.next) {
            (true, next) if next != NONE => {
                paths.insert(gone.path, next);
            }
            (true, _) => {
                paths.remove(&gone.path);
                if paths.is_empty() {
                    self.firsts.remove(&gone.namespace);
                }
            }
            (false, next) => {
                let mut at = first;
                while let Some(known) = at.and_then(|at| self.known.get_mut(at)) {
                    if known.next == number {
                        known.next = next;
                        return;
                    }
                    at = Some(known.next);
                }
            }
        }
    }

    /// A path under each of its mounts.
    pub(super) fn at(
        &self,
        namespace: u32,
        path: &str,
    ) -> impl Iterator<Item = (PathNumber, &KnownPath)> {
        let first = self.firsts.get(&namespace).and_then(|paths| paths.get(path));
        self.chain(first.copied())
    }

    fn chain(&self, first: Option<PathNumber>) -> impl Iterator<Item = (PathNumber, &KnownPath)> {
        let numbered = |number: PathNumber| Some((number, self.known.get(number)?));
        std::iter::successors(first.and_then(numbered), move |(_, known)| numbered(known.next))
    }

    /// `prefix` itself, then what is below it in order; every path of the namespace for an empty one. Those before
    /// `from`, a path and a mount, are left out.
    pub(super) fn below<'a>(
        &'a self,
        namespace: u32,
        prefix: &'a str,
        from: Option<(&'a str, u32)>,
    ) -> impl Iterator<Item = (PathNumber, &'a KnownPath)> {
        let folder = if prefix.is_empty() { String::new() } else { format!("{prefix}/") };
        // What sorts between the two begins with the prefix and is not below it, such as `a-b` for `a`.
        let itself = from.is_none_or(|(path, _)| path == prefix);
        let itself = self.at(namespace, prefix).filter(move |_| itself && !prefix.is_empty());
        let start = from.map_or(folder.as_str(), |(path, _)| path).max(&folder).to_owned();
        let paths = self.firsts.get(&namespace).into_iter();
        let range = paths.flat_map(move |paths| {
            paths.range::<str, _>((Bound::Included(start.as_str()), Bound::Unbounded))
        });
        let inside = range.take_while(move |(path, _)| path.starts_with(&folder));
        let inside = inside.flat_map(|(_, &first)| self.chain(Some(first)));
        itself.chain(inside).filter(move |(_, known)| {
            from.is_none_or(|(path, mount)| *known.path != *path || known.mount >= mount)
        })
    }

    /// How many leases have paths that begin with `prefix` and fit, up to `limit` or the path that reaches it.
    pub(super) fn count_at(
        &self,
        namespace: u32,
        prefix: &str,
        limit: usize,
        fits: impl Fn(&str) -> bool,
    ) -> usize {
        let mut count = 0;
        let Some(paths) = self.firsts.get(&namespace) else { return count };
        let start = (Bound::Included(prefix), Bound::Unbounded);
        for (path, &first) in paths.range::<str, _>(start) {
            if count >= limit || !path.starts_with(prefix) {
                break;
            }
            if fits(path) {
                let of_path = self.chain(Some(first)).map(|(_, known)| known.leases as usize);
                count += of_path.sum::<usize>();
            }
        }
        count
    }

    /// The next segments, with their slash, of the paths below `folder`, which is empty for the top; at most `limit`.
    pub(super) fn folders(&self, namespace: u32, folder: &str, limit: usize) -> Vec<String> {
        let folder = if folder.is_empty() { String::new() } else { format!("{folder}/") };
        let mut folders: Vec<String> = Vec::new();
        let Some(paths) = self.firsts.get(&namespace) else { return folders };
        let mut from = Bound::Included(folder.clone());
        while folders.len() < limit {
            let start = (from.as_ref().map(String::as_str), Bound::Unbounded);
            let Some((path, _)) = paths.range::<str, _>(start).next() else { break };
            let Some(rest) = path.strip_prefix(folder.as_str()) else { break };
            let segment = rest.split('/').next().unwrap_or_default();
            // Behind all that starts with this segment and a slash, and behind the segment alone: a name that sorts
            // between the two, such as `creds-old`, is met on the way.
            let is_alone = rest.len() == segment.len();
            from = match is_alone {
                true => Bound::Excluded(path.to_string()),
                false => Bound::Included(format!("{folder}{segment}0")),
            };
            folders.push(format!("{segment}/"));
        }
        folders.sort_unstable();
        folders.dedup();
        folders
    }
}
