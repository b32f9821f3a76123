//! The index of paths: every path of a mount, in order, in a B-tree of its own make.
//!
//! It is the gate before a read (an unknown path is refused before any keyed hash, decryption or
//! disk) and the ordered view behind LIST, SCAN, prefix count and range. The core owns one index
//! per mount and is its only caller.
//!
//! Readers take no lock, write nothing and wait for nobody; writers take turns. From the outside
//! in: `folder` says what a listing is, `cursor` walks in order, `tree` finds and changes, `leaf`
//! and `inner` are the two pages, `pages` publishes and recycles them, `membership_filter` refuses most
//! unknown paths before the tree is asked.
//!
//! What a reader sees of writers at work:
//! - `contains`, `insert` and `remove` are linearizable: a path is there exactly from one moment
//!   within the `insert` that returned `true` to one within the `remove` that did;
//! - `list`, `scan` and `range` see each leaf page as of one moment, later pages as of later
//!   moments: a path that stays is given once, one that was gone before is never given;
//! - `len` and `count` are exact when no writer is at work, else off by what is in flight;
//! - `clear` is many removals, not one.
#![forbid(unsafe_code)]

mod bulk;
mod check;
mod cursor;
mod error;
mod fingerprint;
mod folder;
mod header;
mod inner;
mod leaf;
mod limits;
mod membership_filter;
#[cfg(any(test, feature = "fuzz"))]
mod model;
#[cfg(test)]
mod model_tests;
#[cfg(any(test, feature = "fuzz"))]
mod ops;
mod packed;
mod pages;
mod paths;
mod segments;
#[cfg(test)]
mod stress_tests;
mod tree;

use std::fmt;
use std::ops::Bound;
use std::sync::OnceLock;

use cursor::IndexCursor;
use fingerprint::HashedPath;
use tree::IndexTree;

pub use error::Error;
pub use limits::{PATH_BYTES_MAX, SEGMENTS_MAX};
#[cfg(any(test, feature = "fuzz"))]
pub use ops::index_ops;

/// The ordered set of a mount's paths. Shared by reference; every method takes `&self`.
#[derive(Default)]
pub struct PathIndex {
    /// Made by the first insert, so that a mount without paths costs next to nothing.
    tree: OnceLock<Box<IndexTree>>,
}

/// Whether a path can be held.
///
/// # Errors
/// Why not.
pub fn check_path(path: &str) -> Result<(), Error> {
    error::validate(path)
}

impl PathIndex {
    /// An empty index.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Builds an index from strictly ascending paths, several times faster than inserting them.
    ///
    /// # Errors
    /// [`Error::NotAscending`] for paths out of order, else what [`insert`](Self::insert) refuses.
    pub fn from_sorted<I>(paths: I) -> Result<Self, Error>
    where
        I: IntoIterator,
        I::Item: AsRef<str>,
    {
        let tree = bulk::build(paths)?;
        Ok(Self { tree: OnceLock::from(Box::new(tree)) })
    }

    /// Takes in `path`. `true`: it was not there before.
    ///
    /// # Errors
    /// A path that is empty, past a limit, or not made of non-empty segments; [`Error::Full`].
    pub fn insert(&self, path: &str) -> Result<bool, Error> {
        error::validate(path)?;
        let tree = self.tree.get_or_init(|| Box::new(IndexTree::new()));
        tree.insert(HashedPath::new(path.as_bytes()))
    }

    /// Takes in strictly ascending paths: into an index that never held any as
    /// [`from_sorted`](Self::from_sorted) does, into any other one by one.
    ///
    /// # Errors
    /// What [`from_sorted`](Self::from_sorted) and [`insert`](Self::insert) refuse; some paths may be in
    /// already.
    pub fn fill<'p>(&self, mut paths: impl Iterator<Item = &'p str> + Clone) -> Result<(), Error> {
        if self.tree.get().is_none() {
            let tree = bulk::build(paths.clone())?;
            if self.tree.set(Box::new(tree)).is_ok() {
                return Ok(());
            }
        }
        paths.try_for_each(|path| self.insert(path).map(|_| ()))
    }

    /// Takes out `path`. `true`: it was there.
    pub fn remove(&self, path: &str) -> bool {
        match (self.tree.get(), may_be_held(path)) {
            (Some(tree), true) => tree.remove(HashedPath::new(path.as_bytes())),
            _ => false,
        }
    }

    /// Whether `path` is there. Exact.
    #[must_use]
    pub fn contains(&self, path: &str) -> bool {
        match (self.tree.get(), may_be_held(path)) {
            (Some(tree), true) => tree.contains(HashedPath::new(path.as_bytes())),
            _ => false,
        }
    }

    /// Whether `path` may be there: never `false` for a path that is. `true` for about one absent
    /// path in 200 when the membership filter is at its fullest, one in thousands when it is half as full;
    /// lines that overflowed stay so until the membership filter grows. Reads one cache line, where
    /// [`contains`](Self::contains) walks the tree; for a caller who compares the path later on.
    #[must_use]
    pub fn may_contain(&self, path: &str) -> bool {
        match (self.tree.get(), may_be_held(path)) {
            (Some(tree), true) => tree.filter.may_contain(&HashedPath::new(path.as_bytes())),
            _ => false,
        }
    }

    /// How many paths there are.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.tree.get().map_or(0, |tree| tree.count())
    }

    /// Whether there is no path.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes out every path. What was allocated is kept for the next ones.
    pub fn clear(&self) {
        if let Some(tree) = self.tree.get() {
            tree.clear();
        }
    }

    /// Children of `folder` (empty for the root; with or without trailing slash): leaf names and
    /// sub-folder names with a trailing slash, in bytewise order of the printed name, those
    /// strictly greater than `after`, at most `limit`.
    #[must_use]
    pub fn list(&self, folder: &str, after: Option<&str>, limit: usize) -> Vec<String> {
        folder::list(&mut self.cursor(), folder, after, limit)
    }

    /// Shows the names that [`list`](Self::list) gives to `each` instead, in their order; how many they were.
    pub fn list_each(
        &self,
        folder: &str,
        after: Option<&str>,
        limit: usize,
        each: impl FnMut(&str),
    ) -> usize {
        folder::list_each(&mut self.cursor(), folder, after, limit, each)
    }

    /// All leaves below `folder`, relative to it: a folder's leaves before its sub-folders, both
    /// in the order of [`list`](Self::list); those after `after` in that order, at most `limit`.
    #[must_use]
    pub fn scan(&self, folder: &str, after: Option<&str>, limit: usize) -> Vec<String> {
        folder::scan(&mut self.cursor(), folder, after, limit)
    }

    /// Full paths within the bounds in bytewise order, at most `limit`.
    #[must_use]
    pub fn range(&self, from: Bound<&str>, to: Bound<&str>, limit: usize) -> Vec<String> {
        let mut cursor = self.cursor();
        let mut paths = Vec::new();
        cursor.seek(from);
        while paths.len() < limit {
            let Some(path) = cursor.peek().filter(|path| is_before_end(path, to)) else { break };
            paths.push(path.to_owned());
            cursor.advance();
        }
        paths
    }

    /// How many leaves lie below `folder`. Takes two descents that add up page counts on the way,
    /// however many leaves there are.
    #[must_use]
    pub fn count(&self, folder: &str) -> u64 {
        let Some(tree) = self.tree.get() else { return 0 };
        let prefix = folder::prefix_of(folder);
        let Some(end) = folder::end_of(&prefix) else { return tree.count() };
        tree.settle(|| {
            Some(tree.rank(end.as_bytes())?.saturating_sub(tree.rank(prefix.as_bytes())?))
        })
    }

    /// Whether any path lies below `folder`.
    #[must_use]
    pub fn has_folder(&self, folder: &str) -> bool {
        folder::has_folder(&mut self.cursor(), folder)
    }

    /// Checks every invariant of the structure. Writers wait meanwhile, readers do not.
    ///
    /// # Errors
    /// The first invariant found broken, in words.
    pub fn check(&self) -> Result<(), String> {
        self.tree.get().map_or(Ok(()), |tree| check::check(tree))
    }

    /// Bytes the index has allocated, itself included.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        let tree = self.tree.get().map_or(0, |tree| tree.memory_bytes());
        (size_of::<Self>() + tree) as u64
    }

    /// See `Space::limit_to`.
    #[cfg(test)]
    fn limit_to(&self, lines: usize) {
        self.tree.get().expect("a path was taken in").lock().space.limit_to(lines);
    }

    fn cursor(&self) -> IndexCursor<'_> {
        IndexCursor::new(self.tree.get().map(|tree| &**tree))
    }
}

impl fmt::Debug for PathIndex {
    /// The number of paths, not their names.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PathIndex").field("len", &self.len()).finish_non_exhaustive()
    }
}

/// Whether a path of this length and ending could have been taken in. A NUL at the end would
/// vanish in the padding of a packed path.
#[inline]
fn may_be_held(path: &str) -> bool {
    path.len() <= PATH_BYTES_MAX && path.as_bytes().last().is_some_and(|&byte| byte != 0)
}

fn is_before_end(path: &str, to: Bound<&str>) -> bool {
    match to {
        Bound::Unbounded => true,
        Bound::Included(end) => path <= end,
        Bound::Excluded(end) => path < end,
    }
}
