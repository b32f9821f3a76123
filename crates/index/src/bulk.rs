//! Building a whole tree from paths in order, leaf after leaf and then level after level.
//!
//! Each path is copied twice and no page is written twice. Pages are left a little room, so that
//! the first inserts do not split all of them.

use crate::error::{Error, validate};
use crate::fingerprint::HashedPath;
use crate::inner::Kids;
use crate::limits::{INNER_KIDS_MAX, INNER_WORDS_MAX, LEAF_PATHS_MAX, LEAF_WORDS_MAX};
use crate::paths::OrderedPaths;
use crate::tree::{IndexTree, ROOT, TreeWriter};

/// Paths gathered before a leaf is cut off: the cut looks for a folder's end in this window.
const GATHERED: usize = LEAF_PATHS_MAX;
const LEAF_FILL_LOWEST: usize = LEAF_PATHS_MAX * 5 / 8;
const LEAF_FILL: usize = LEAF_PATHS_MAX * 15 / 16;

/// Children an inner page is given.
const INNER_FILL: usize = INNER_KIDS_MAX * 3 / 4;

/// A tree of `paths`, which ascend strictly.
pub(crate) fn build<I>(paths: I) -> Result<IndexTree, Error>
where
    I: IntoIterator,
    I::Item: AsRef<str>,
{
    let tree = IndexTree::new();
    {
        let writer = &mut *tree.lock();
        let mut hashes = Vec::new();
        let mut level = build_leaves(&tree, writer, &mut hashes, paths)?;
        tree.filter.prepare_for(hashes.len() as u64);
        hashes.into_iter().for_each(|hash| tree.filter.add(&HashedPath::of_hash(hash)));
        while level.count() > 1 {
            level = build_inners(&tree, writer, level);
        }
        if let Some(&top) = level.ids.first() {
            tree.take_root(writer, top);
        }
    }
    Ok(tree)
}

fn build_leaves<I>(
    tree: &IndexTree,
    writer: &mut TreeWriter,
    hashes: &mut Vec<u64>,
    paths: I,
) -> Result<Kids, Error>
where
    I: IntoIterator,
    I::Item: AsRef<str>,
{
    let (mut level, mut gathered, mut last) =
        (Kids::default(), OrderedPaths::default(), Vec::new());
    let mut words_left = LEAF_WORDS_MAX;
    for path in paths {
        let path = path.as_ref();
        validate(path)?;
        if last.as_slice() >= path.as_bytes() {
            return Err(Error::NotAscending);
        }
        let words = path.len().div_ceil(8) + 1;
        while gathered.count() == GATHERED || (gathered.count() > 1 && words > words_left) {
            if !writer.space.has_room() {
                return Err(Error::Full);
            }
            cut_leaf(tree, writer, &mut gathered, &mut level);
            words_left = LEAF_WORDS_MAX.saturating_sub(gathered.words_at_most());
        }
        words_left = words_left.saturating_sub(words);
        let key = HashedPath::new(path.as_bytes());
        hashes.push(key.hash);
        gathered.push(key);
        last.clear();
        last.extend_from_slice(path.as_bytes());
    }
    if gathered.count() > 0 {
        level.ids.push(tree.write_leaf(writer, &gathered, 0, gathered.count()));
    }
    Ok(level)
}

/// Turns the front of what is gathered into a leaf. At least one path stays.
fn cut_leaf(
    tree: &IndexTree,
    writer: &mut TreeWriter,
    gathered: &mut OrderedPaths,
    level: &mut Kids,
) {
    let count = gathered.count();
    let cut = if count == GATHERED {
        gathered.cut(LEAF_FILL_LOWEST, LEAF_FILL, count - 1)
    } else {
        gathered.cut((count / 2).max(1), count - 1, count - 1)
    };
    level.ids.push(tree.write_leaf(writer, gathered, 0, cut));
    level.separators.push(gathered.separator(cut).into());
    gathered.drop_first(cut);
}

/// Puts a level's pages under inner pages of two children or more each.
fn build_inners(tree: &IndexTree, writer: &mut TreeWriter, mut rest: Kids) -> Kids {
    let mut level = Kids::default();
    // From the back, so that taking children off does not move those that stay.
    let mut reversed: Vec<(Box<[u8]>, Kids)> = Vec::new();
    while rest.count() > INNER_KIDS_MAX || rest.words_at_most() > INNER_WORDS_MAX {
        let mut take = INNER_FILL.min(rest.count() / 2).max(2);
        while take > 2 && rest.words_of_last(take) > INNER_WORDS_MAX {
            take /= 2;
        }
        reversed.push(rest.split_off(rest.count() - take));
    }
    level.ids.push(tree.write_inner(writer, &rest));
    for (separator, kids) in reversed.into_iter().rev() {
        level.separators.push(separator);
        level.ids.push(tree.write_inner(writer, &kids));
    }
    level
}

impl IndexTree {
    /// Makes the page `top`, which nobody reads yet, the root's.
    fn take_root(&self, writer: &mut TreeWriter, top: u32) {
        let paths = self.pages.paths_below(top);
        self.pages.share(&mut writer.space, top, ROOT);
        self.pages.set_paths_below(ROOT, paths);
        self.pages.forget(&mut writer.space, top);
        writer.leaves -= 1;
    }
}
