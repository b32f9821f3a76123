//! The tables that find the most specific pattern for a path.
//!
//! Rules are numbered by rank, the more specific the higher, so the answer to a path is one number.
//! Patterns without `+` live in one sorted list ([`Sorted`]): a binary search finds the exact
//! pattern, and links from each text to the longest prefix of it find the longest prefix pattern.
//! Patterns with `+` live in a tree of segments ([`SegmentTree`]), whose ends hold such lists again. A
//! lookup visits each node of the tree at most once, whatever the path, and allocates nothing.

use crate::pattern::{ResolvedPattern, Segment};

/// Number of a rule in its set; the more specific rule has the higher one.
pub(super) type Rank = u32;

/// Up to so many children are looked through one by one.
const FEW_CHILDREN: usize = 8;

/// Finds the highest rank among the patterns that match a path.
#[derive(Debug, Default)]
pub(super) struct PatternTable {
    plain: Sorted,
    /// `None` when no pattern has a `+`, as in most sets.
    tree: Option<SegmentTree>,
}

/// Patterns without `+`, by text.
#[derive(Debug, Default)]
struct Sorted(Box<[RankedRule]>);

#[derive(Debug)]
struct RankedRule {
    text: Box<str>,
    exact: Option<Rank>,
    prefix: Option<Rank>,
    /// The entry with the longest text that this one starts with and that is a prefix pattern.
    shorter: Option<u32>,
}

/// Patterns with `+`, as a tree of segments. The first node is the root.
#[derive(Debug)]
struct SegmentTree(Vec<PatternNode>);

#[derive(Debug, Default)]
struct PatternNode {
    /// Sorted by segment.
    children: Vec<(Box<str>, usize)>,
    any: Option<usize>,
    /// The pattern that ends here.
    end: Option<Rank>,
    /// What the last segments of prefix patterns start with.
    starts: Sorted,
}

impl PatternTable {
    /// Builds the table of `patterns`, each with its rank.
    pub(super) fn new(patterns: &[(ResolvedPattern, Rank)]) -> Self {
        let (with_any, plain): (Vec<_>, Vec<_>) =
            patterns.iter().partition(|(pattern, _)| pattern.has_any());
        let plain = plain.into_iter().map(|(pattern, rank)| Text {
            text: pattern.stem(),
            is_prefix: pattern.is_prefix,
            rank: *rank,
        });
        let plain = Sorted::new(plain.collect());
        let tree = if with_any.is_empty() { None } else { Some(SegmentTree::new(&with_any)) };
        Self { plain, tree }
    }

    /// Nodes that a look-up may visit, at the most.
    pub(super) fn nodes(&self) -> usize {
        self.tree.as_ref().map_or(0, |tree| tree.0.len())
    }

    /// The highest rank of a pattern that matches `path`.
    pub(super) fn best(&self, path: &str) -> Option<Rank> {
        let plain = self.plain.best(path);
        match &self.tree {
            None => plain,
            Some(tree) => {
                let mut best = plain;
                tree.walk(0, Some(path), &mut best);
                best
            }
        }
    }
}

/// A pattern without `+`, or the last segment of one with.
struct Text {
    text: String,
    is_prefix: bool,
    rank: Rank,
}

impl Sorted {
    fn new(mut texts: Vec<Text>) -> Self {
        texts.sort_by(|one, other| one.text.cmp(&other.text));
        let mut entries: Vec<RankedRule> = Vec::with_capacity(texts.len());
        // The prefix patterns that the current text starts with, longest last.
        let mut open: Vec<u32> = Vec::new();
        for Text { text, is_prefix, rank } in texts {
            if entries.last().is_none_or(|last| *last.text != *text) {
                while open.last().is_some_and(|&at| !text.starts_with(&*entries[at as usize].text))
                {
                    open.pop();
                }
                let text = text.into_boxed_str();
                entries.push(RankedRule {
                    text,
                    exact: None,
                    prefix: None,
                    shorter: open.last().copied(),
                });
            }
            let at = entries.len() - 1;
            let entry = &mut entries[at];
            // Folding the case may bring several patterns to one text: the highest speaks.
            if is_prefix {
                entry.prefix = entry.prefix.max(Some(rank));
                let at = u32::try_from(at).expect("a set has fewer than 2^32 patterns");
                if open.last() != Some(&at) {
                    open.push(at);
                }
            } else {
                entry.exact = entry.exact.max(Some(rank));
            }
        }
        Self(entries.into())
    }

    /// An exact pattern has a higher rank than any prefix, and a longer prefix than a shorter.
    fn best(&self, path: &str) -> Option<Rank> {
        let after = self.0.partition_point(|entry| *entry.text <= *path);
        // What follows `path` in order does not start it; what starts it is linked from the last
        // text before, because everything in between starts with it too.
        let mut entry = self.0.get(after.checked_sub(1)?)?;
        if entry.exact.is_some() && *entry.text == *path {
            return entry.exact;
        }
        loop {
            if entry.prefix.is_some() && path.starts_with(&*entry.text) {
                return entry.prefix;
            }
            entry = self.0.get(entry.shorter? as usize)?;
        }
    }
}

impl SegmentTree {
    fn new(patterns: &[&(ResolvedPattern, Rank)]) -> Self {
        let mut tree = Self(vec![PatternNode::default()]);
        let mut starts: Vec<Vec<Text>> = vec![Vec::new()];
        for (pattern, rank) in patterns {
            let (whole, start) = match pattern.segments.split_last() {
                Some((Segment::Text(start), before)) if pattern.is_prefix => (before, Some(start)),
                _ => (pattern.segments.as_slice(), None),
            };
            let mut node = 0;
            for segment in whole {
                node = tree.child(node, segment);
            }
            starts.resize_with(tree.0.len(), Vec::new);
            match start {
                Some(start) => {
                    starts[node].push(Text { text: start.clone(), is_prefix: true, rank: *rank });
                }
                None => tree.0[node].end = tree.0[node].end.max(Some(*rank)),
            }
        }
        for (node, starts) in tree.0.iter_mut().zip(starts) {
            node.starts = Sorted::new(starts);
        }
        tree
    }

    /// The node below `node` for `segment`, made if there is none.
    fn child(&mut self, node: usize, segment: &Segment) -> usize {
        let next = self.0.len();
        let child = match segment {
            Segment::Any => *self.0[node].any.get_or_insert(next),
            Segment::Text(text) => {
                let children = &mut self.0[node].children;
                match children.binary_search_by(|(name, _)| (**name).cmp(text)) {
                    Ok(at) => children[at].1,
                    Err(at) => {
                        children.insert(at, (text.as_str().into(), next));
                        next
                    }
                }
            }
        };
        if child == next {
            self.0.push(PatternNode::default());
        }
        child
    }

    /// Raises `best` to the highest rank at or below `node`, from which `rest` of a path is left;
    /// `None` is left behind its last segment. Recursion is as deep as a pattern has segments.
    fn walk(&self, node: usize, rest: Option<&str>, best: &mut Option<Rank>) {
        let node = &self.0[node];
        let Some(rest) = rest else {
            *best = (*best).max(node.end);
            return;
        };
        *best = (*best).max(node.starts.best(rest));
        if node.children.is_empty() && node.any.is_none() {
            return;
        }
        let (segment, after) = match rest.bytes().position(|byte| byte == b'/') {
            Some(slash) => (&rest[..slash], Some(&rest[slash + 1..])),
            None => (rest, None),
        };
        if let Some(child) = node.child(segment) {
            self.walk(child, after, best);
        }
        if let Some(any) = node.any {
            self.walk(any, after, best);
        }
    }
}

impl PatternNode {
    /// The node for a segment. Few children are faster compared for equality one by one.
    fn child(&self, segment: &str) -> Option<usize> {
        if self.children.len() <= FEW_CHILDREN {
            return self
                .children
                .iter()
                .find(|(name, _)| **name == *segment)
                .map(|(_, node)| *node);
        }
        let found = self.children.binary_search_by(|(name, _)| (**name).cmp(segment));
        found.ok().map(|at| self.children[at].1)
    }
}
