//! A reader's place in the ordered paths.
//!
//! It holds a private copy of one leaf, taken whole, and the separator behind it. Moving within
//! the copy touches nothing shared; past its end it takes the leaf at the separator. So what a
//! listing sees of concurrent writes: each leaf as it was at one moment, later leaves at later
//! moments. A path present throughout is seen once, one absent throughout never.

use std::ops::Bound;
use std::str;

use crate::header::Header;
use crate::leaf::{Leaf, Room};
use crate::tree::{Page, Tree, open};

/// Stands on a path, or past the last one.
pub(crate) struct Cursor<'a> {
    /// `None` for an index that never held a path.
    tree: Option<&'a Tree>,
    copy: Copy,
    at: usize,
    path: Vec<u8>,
}

/// A leaf's words, and the separator to its right (`None` for the last leaf).
#[derive(Default)]
struct Copy {
    words: Vec<u64>,
    end: Option<Vec<u8>>,
}

/// The words of a leaf with all its paths as entries.
fn in_order(words: Vec<u64>) -> Vec<u64> {
    let leaf = Leaf::new(Header::unpack(words[1]), &words);
    let mut ordered = Vec::with_capacity(words.len());
    if leaf.is_in_order() {
        return words;
    }
    leaf.write(leaf.places().all(), Room::None, &mut ordered);
    ordered
}

impl Copy {
    fn leaf(&self) -> Leaf<'_, u64> {
        let header = self.words.get(1).copied().unwrap_or(0);
        Leaf::new(Header::unpack(header), &self.words)
    }
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(tree: Option<&'a Tree>) -> Self {
        Self { tree, copy: Copy::default(), at: 0, path: Vec::new() }
    }

    /// Moves to the first path within `from` and after.
    pub(crate) fn seek(&mut self, from: Bound<&str>) {
        let (target, past_equal) = match from {
            Bound::Unbounded => ("", false),
            // No path has a NUL: after "x\0" comes what comes after "x" (and see `packed`).
            Bound::Included(target) | Bound::Excluded(target) if target.ends_with('\0') => {
                (target.trim_end_matches('\0'), true)
            }
            Bound::Included(target) => (target, false),
            Bound::Excluded(target) => (target, true),
        };
        let target = target.as_bytes();
        if !self.copy_spans(target) {
            self.take_leaf_for(target);
        }
        self.at = match self.copy.leaf().rank(target) {
            Ok(at) => at + usize::from(past_equal),
            Err(at) => at,
        };
        self.settle_on_path();
    }

    /// Whether `target` is between where the cursor stands and the end of its copy.
    fn copy_spans(&self, target: &[u8]) -> bool {
        !self.path.is_empty()
            && self.path.as_slice() <= target
            && self.copy.end.as_deref().is_none_or(|end| target < end)
    }

    /// Moves to the next path.
    pub(crate) fn advance(&mut self) {
        self.at += 1;
        self.settle_on_path();
    }

    /// The path it stands on.
    pub(crate) fn peek(&self) -> Option<&str> {
        if self.path.is_empty() {
            return None;
        }
        Some(str::from_utf8(&self.path).expect("every path came in as a string"))
    }

    /// Reads the path at `at`, in the next leaves if this one ends before it.
    fn settle_on_path(&mut self) {
        while self.at >= self.copy.leaf().count() {
            let Some(end) = self.copy.end.take() else {
                self.path.clear();
                return;
            };
            self.take_leaf_for(&end);
            let (Ok(at) | Err(at)) = self.copy.leaf().rank(&end);
            self.at = at;
        }
        let mut path = std::mem::take(&mut self.path);
        self.copy.leaf().path_into(self.at, &mut path);
        self.path = path;
    }

    fn take_leaf_for(&mut self, target: &[u8]) {
        self.copy = self.tree.map_or_else(Copy::default, |tree| {
            tree.settle(|| {
                let mut end = None;
                let snapshot = tree.descend(target, |inner, child| {
                    if child + 1 < inner.count() {
                        end = Some(inner.separator(child));
                    }
                })?;
                let Page::Leaf(leaf) = open(&snapshot) else { return None };
                let words = leaf.copy(snapshot.words);
                snapshot.is_intact().then(|| Copy { words: in_order(words), end })
            })
        });
    }
}
