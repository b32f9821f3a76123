//! The search for an eviction path: which entries to push on so that a bucket gains a free slot.
//!
//! Breadth first from both buckets of a key, so the path is the shortest (at eight slots a bucket
//! rarely more than three moves) and never comes back to a bucket it left: whatever the second
//! visit could reach, the first reached sooner. It reads only words, never entries, since the tag
//! tells an entry's other bucket. Nothing is changed here; `writer` walks the path from its free
//! end, so each entry is copied to its new slot before its old one is overwritten.
//!
//! Breadth-first search for cuckoo paths is from libcuckoo (Li et al., EuroSys 2014).

use crate::array::{Array, HashedKey};
use crate::bucket::SLOTS;
use crate::limits::PATH_BUCKETS_MAX;

/// One slot of a path. Its entry moves to the next step's slot; the last step's slot is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PathStep {
    pub(crate) bucket: usize,
    pub(crate) slot: usize,
}

/// A bucket met by the search: how it was reached.
#[derive(Clone, Copy)]
struct PathNode {
    bucket: usize,
    /// The node and slot whose entry would move here; `None` for the key's own two buckets.
    from: Option<(usize, usize)>,
}

/// The search with its memory, kept from one insert to the next.
#[derive(Default)]
pub(crate) struct PathSearch {
    nodes: Vec<PathNode>,
    steps: Vec<PathStep>,
}

impl PathSearch {
    /// A path from one of the key's buckets to a free slot, if one is within the bound.
    pub(crate) fn run<H>(&mut self, array: &Array<H>, spot: HashedKey) -> Option<&[PathStep]> {
        self.nodes.clear();
        self.nodes.push(PathNode { bucket: spot.first, from: None });
        self.nodes.push(PathNode { bucket: array.other(spot.first, spot.tag), from: None });
        let mut at = 0;
        while at < self.nodes.len() {
            let bucket = self.nodes[at].bucket;
            for (slot, cell) in array.bucket(bucket).cells().iter().enumerate() {
                let word = cell.load();
                if word.is_empty() {
                    return Some(self.path_to(at, slot));
                }
                if self.nodes.len() < PATH_BUCKETS_MAX {
                    let bucket = array.other(bucket, word.tag());
                    self.nodes.push(PathNode { bucket, from: Some((at, slot)) });
                }
            }
            at += 1;
        }
        None
    }

    /// The steps from a bucket of the key to the free slot of node `at`.
    fn path_to(&mut self, mut at: usize, slot: usize) -> &[PathStep] {
        self.steps.clear();
        self.steps.push(PathStep { bucket: self.nodes[at].bucket, slot });
        while let Some((parent, slot)) = self.nodes[at].from {
            self.steps.push(PathStep { bucket: self.nodes[parent].bucket, slot });
            at = parent;
        }
        self.steps.reverse();
        &self.steps
    }
}

// A node's children must fit the bound or the search could not leave the first two buckets.
const _: () = assert!(PATH_BUCKETS_MAX >= 2 + 2 * SLOTS);
