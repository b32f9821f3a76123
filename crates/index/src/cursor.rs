//! A reader's place in the ordered paths.
//!
//! It holds a private copy of one leaf, taken whole, and the separator behind it. Moving within
//! the copy touches nothing shared; past its end it takes the leaf at the separator. So what a
//! listing sees of concurrent writes: each leaf as it was at one moment, later leaves at later
//! moments. A path present throughout is seen once, one absent throughout never.
//!
//! The copy lies as the leaf did, with paths behind its entries that are in no order; a walk
//! merges the two as it goes ([`Leaf::next`]), so that a jump into a leaf sorts nothing.
//!
//! Invariants:
//! - `path` starts with the prefix of the leaf in the copy while the cursor stands on a path;
//! - nothing the cursor has seen lies between the copy's `start` and its first path.

use std::ops::Bound;
use std::str;

use crate::header::PageHeader;
use crate::leaf::{Leaf, Passed};
use crate::tree::{IndexTree, TreePage, open};

/// Stands on a path, or past the last one.
pub(crate) struct IndexCursor<'a> {
    /// `None` for an index that never held a path.
    tree: Option<&'a IndexTree>,
    copy: LeafCopy,
    /// The paths of the copy up to the one it stands on, that one included.
    passed: Passed,
    path: Vec<u8>,
}

/// A leaf's words and the bounds it answers for.
#[derive(Default)]
struct LeafCopy {
    words: Vec<u64>,
    start: Vec<u8>,
    /// The separator to the leaf's right, `None` for the last leaf.
    end: Option<Vec<u8>>,
}

impl LeafCopy {
    fn leaf(&self) -> Leaf<'_, u64> {
        let header = self.words.get(1).copied().unwrap_or(0);
        Leaf::new(PageHeader::unpack(header), &self.words)
    }

    fn spans(&self, target: &[u8]) -> bool {
        self.start.as_slice() <= target && self.end.as_deref().is_none_or(|end| target < end)
    }
}

impl<'a> IndexCursor<'a> {
    pub(crate) fn new(tree: Option<&'a IndexTree>) -> Self {
        Self { tree, copy: LeafCopy::default(), passed: Passed::default(), path: Vec::new() }
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
        if self.path.is_empty() || !self.copy.spans(target) {
            self.copy.start.clear();
            self.copy.start.extend_from_slice(target);
            self.take_leaf_for(target);
        }
        let leaf = self.copy.leaf();
        self.passed = match leaf.passed_at(target) {
            Ok(passed) if past_equal => leaf.next(passed).map_or(passed, |(_, passed)| passed),
            Ok(passed) | Err(passed) => passed,
        };
        self.advance();
    }

    /// Moves to the next path, in the next leaves if this one has no more.
    pub(crate) fn advance(&mut self) {
        loop {
            let leaf = self.copy.leaf();
            if let Some((place, passed)) = leaf.next(self.passed) {
                self.passed = passed;
                self.path.truncate(leaf.prefix_bytes());
                leaf.suffix_onto(place, &mut self.path);
                return;
            }
            let Some(end) = self.copy.end.take() else {
                self.path.clear();
                return;
            };
            self.move_start_past_copy();
            self.take_leaf_for(&end);
            let (Ok(passed) | Err(passed)) = self.copy.leaf().passed_at(&end);
            self.passed = passed;
        }
    }

    /// The path it stands on.
    pub(crate) fn peek(&self) -> Option<&str> {
        if self.path.is_empty() {
            return None;
        }
        Some(text(&self.path))
    }

    /// What the path it stands on has behind `prefix`, if it begins with that.
    pub(crate) fn peek_behind(&self, prefix: &str) -> Option<&str> {
        let rest = self.path.strip_prefix(prefix.as_bytes())?;
        (!self.path.is_empty()).then(|| text(rest))
    }

    /// The next copy answers for what lies behind this one's last path: a listing that looks
    /// for the end of a folder which ends with its leaf need not come back here.
    fn move_start_past_copy(&mut self) {
        let mut start = std::mem::take(&mut self.copy.start);
        let leaf = self.copy.leaf();
        if let Some(last) = leaf.last() {
            leaf.path_into(last, &mut start);
            start.push(0);
        }
        self.copy.start = start;
    }

    fn take_leaf_for(&mut self, target: &[u8]) {
        let Some(tree) = self.tree else { return };
        let copy = &mut self.copy;
        tree.settle(|| {
            copy.end = None;
            let snapshot = tree.descend(target, |inner, child| {
                if child + 1 < inner.count() {
                    copy.end = Some(inner.separator(child));
                }
            })?;
            let TreePage::Leaf(leaf) = open(&snapshot) else { return None };
            leaf.copy_to(snapshot.words, &mut copy.words);
            snapshot.is_intact().then_some(())
        });
        self.copy.leaf().prefix_into(&mut self.path);
    }
}

/// A path, or what it has behind a string that it begins with.
fn text(bytes: &[u8]) -> &str {
    str::from_utf8(bytes).expect("every path came in as a string")
}
