//! A reader's place in the ordered paths.

use std::ops::Bound;

use crate::PathIndex;

/// Stands on a path, or past the last one.
pub(crate) struct Cursor<'a> {
    index: &'a PathIndex,
    path: Option<String>,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(index: &'a PathIndex) -> Self {
        Self { index, path: None }
    }

    /// Moves to the first path within `from` and after.
    pub(crate) fn seek(&mut self, from: Bound<&str>) {
        self.path = self.index.first_from(from);
    }

    /// Moves to the next path.
    pub(crate) fn advance(&mut self) {
        if let Some(path) = self.path.take() {
            self.path = self.index.first_from(Bound::Excluded(&path));
        }
    }

    /// The path it stands on.
    pub(crate) fn peek(&self) -> Option<&str> {
        self.path.as_deref()
    }
}
