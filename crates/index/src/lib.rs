//! The index of paths: every path of a mount, in order.
//!
//! It is the gate before a read (an unknown path is refused before any hashing, decryption or
//! disk) and the ordered view behind LIST, SCAN, prefix count and range. The core owns one index
//! per mount and is its only caller.
//!
//! Invariants:
//! - a path is in the index exactly from the `insert` that returned `true` to the `remove` that
//!   returned `true`;
//! - folders exist only through the leaves below them.
#![forbid(unsafe_code)]

mod cursor;
mod error;
mod folder;
mod limits;
#[cfg(any(test, feature = "fuzz"))]
mod model;
#[cfg(test)]
mod model_tests;
#[cfg(any(test, feature = "fuzz"))]
mod ops;

use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use cursor::Cursor;
pub use error::Error;
pub use limits::{PATH_BYTES_MAX, SEGMENTS_MAX};
#[cfg(any(test, feature = "fuzz"))]
pub use ops::index_ops;

/// The ordered set of a mount's paths. Shared by reference; every method takes `&self`.
#[derive(Debug, Default)]
pub struct PathIndex {
    paths: RwLock<BTreeSet<Box<str>>>,
}

impl PathIndex {
    /// An empty index.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Builds an index from strictly ascending paths.
    ///
    /// # Errors
    /// [`Error::NotAscending`] for paths out of order, else what [`insert`](Self::insert) refuses.
    pub fn from_sorted<I>(paths: I) -> Result<Self, Error>
    where
        I: IntoIterator,
        I::Item: AsRef<str>,
    {
        let mut set = BTreeSet::new();
        for path in paths {
            let path = path.as_ref();
            error::validate(path)?;
            if set.last().is_some_and(|last: &Box<str>| &**last >= path) {
                return Err(Error::NotAscending);
            }
            set.insert(path.into());
        }
        Ok(Self { paths: RwLock::new(set) })
    }

    /// Takes in `path`. `true`: it was not there before.
    ///
    /// # Errors
    /// A path that is empty, past a limit, or not made of non-empty segments.
    pub fn insert(&self, path: &str) -> Result<bool, Error> {
        error::validate(path)?;
        Ok(self.write().insert(path.into()))
    }

    /// Takes out `path`. `true`: it was there.
    pub fn remove(&self, path: &str) -> bool {
        self.write().remove(path)
    }

    /// Whether `path` is there.
    #[must_use]
    pub fn contains(&self, path: &str) -> bool {
        self.read().contains(path)
    }

    /// Whether `path` may be there: never `false` for a path that is.
    #[must_use]
    pub fn may_contain(&self, path: &str) -> bool {
        self.contains(path)
    }

    /// How many paths there are.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.read().len() as u64
    }

    /// Whether there is no path.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes out every path.
    pub fn clear(&self) {
        self.write().clear();
    }

    /// Children of `folder` (empty for the root; with or without trailing slash): leaf names and
    /// sub-folder names with a trailing slash, in bytewise order of the printed name, those
    /// strictly greater than `after`, at most `limit`.
    #[must_use]
    pub fn list(&self, folder: &str, after: Option<&str>, limit: usize) -> Vec<String> {
        folder::list(&mut Cursor::new(self), folder, after, limit)
    }

    /// All leaves below `folder`, relative to it: a folder's leaves before its sub-folders, both
    /// in the order of [`list`](Self::list); those after `after` in that order, at most `limit`.
    #[must_use]
    pub fn scan(&self, folder: &str, after: Option<&str>, limit: usize) -> Vec<String> {
        folder::scan(&mut Cursor::new(self), folder, after, limit)
    }

    /// Full paths within the bounds in bytewise order, at most `limit`.
    #[must_use]
    pub fn range(&self, from: Bound<&str>, to: Bound<&str>, limit: usize) -> Vec<String> {
        let mut cursor = Cursor::new(self);
        let mut paths = Vec::new();
        cursor.seek(from);
        while paths.len() < limit {
            let Some(path) = cursor.peek().filter(|path| is_before_end(path, to)) else { break };
            paths.push(path.to_owned());
            cursor.advance();
        }
        paths
    }

    /// How many leaves lie below `folder`.
    #[must_use]
    pub fn count(&self, folder: &str) -> u64 {
        let prefix = folder::prefix_of(folder);
        self.read()
            .range::<str, _>((Bound::Included(prefix.as_str()), Bound::Unbounded))
            .take_while(|path| path.starts_with(&prefix))
            .count() as u64
    }

    /// Whether any path lies below `folder`.
    #[must_use]
    pub fn has_folder(&self, folder: &str) -> bool {
        folder::has_folder(&mut Cursor::new(self), folder)
    }

    /// Checks every invariant of the structure.
    ///
    /// # Errors
    /// The first invariant found broken, in words.
    pub fn check(&self) -> Result<(), String> {
        match self.read().iter().find(|path| error::validate(path).is_err()) {
            Some(_) => Err("an invalid path is held".to_owned()),
            None => Ok(()),
        }
    }

    /// Bytes the index has allocated.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        self.read().iter().map(|path| path.len() as u64 + 16).sum()
    }

    fn first_from(&self, from: Bound<&str>) -> Option<String> {
        let paths = self.read();
        paths.range::<str, _>((from, Bound::Unbounded)).next().map(|path| path.to_string())
    }

    fn read(&self) -> RwLockReadGuard<'_, BTreeSet<Box<str>>> {
        self.paths.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, BTreeSet<Box<str>>> {
        self.paths.write().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_before_end(path: &str, to: Bound<&str>) -> bool {
    match to {
        Bound::Unbounded => true,
        Bound::Included(end) => path <= end,
        Bound::Excluded(end) => path < end,
    }
}
