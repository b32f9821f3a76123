//! Every invariant of the tree, checked page by page while writers wait.

use std::collections::HashSet;

use crate::error::validate;
use crate::fingerprint::HashedPath;
use crate::limits::{
    HEIGHT_MAX, INNER_KIDS_MAX, LEAF_PATHS_MAX, LEAF_WORDS_MAX, PAGE_WORDS_MAX, PATH_WORDS_MAX,
};
use crate::pages::LivePageId;
use crate::tree::{IndexTree, ROOT, TreePage};

/// A page still to be looked at, and what its place in the tree says of it.
struct DuePage {
    id: LivePageId,
    level: usize,
    /// No path below this.
    from: Vec<u8>,
    /// All paths below this, if anything.
    to: Option<Vec<u8>>,
}

/// What was seen so far.
#[derive(Default)]
struct SeenPages {
    ids: HashSet<LivePageId>,
    leaf_level: Option<usize>,
    leaves: usize,
    last: Vec<u8>,
}

fn ensure(holds: bool, what: &str) -> Result<(), String> {
    if holds { Ok(()) } else { Err(what.to_owned()) }
}

/// The first invariant found broken, in words.
pub(crate) fn check(tree: &IndexTree) -> Result<(), String> {
    let writer = tree.lock();
    let mut seen = SeenPages::default();
    let mut due = vec![DuePage { id: ROOT, level: 0, from: Vec::new(), to: None }];
    while let Some(page) = due.pop() {
        ensure(page.level < HEIGHT_MAX, "the tree is higher than its bound")?;
        ensure(seen.ids.insert(page.id), "a page has two parents")?;
        let snapshot = tree.pages.snapshot(page.id).ok_or("a child's id names nothing")?;
        match crate::tree::open(&snapshot) {
            TreePage::Leaf(_) => check_leaf(tree, &page, &mut seen)?,
            TreePage::Inner(_) => check_inner(tree, &page, &mut due)?,
        }
        ensure(snapshot.is_intact(), "a page changed while writers waited")?;
    }
    ensure(seen.leaves == writer.leaves, "the number of leaves is off")?;
    ensure(seen.ids.len() == writer.space.ids_live(), "an id in use is not in the tree")?;
    let (fingerprints, overflowed) = tree.filter.census();
    ensure(
        fingerprints == tree.count() || overflowed > 0,
        "the filter holds fingerprints of no path",
    )?;
    ensure(
        fingerprints <= tree.count(),
        "the filter holds more fingerprints than there are paths",
    )?;
    tree.pages.check_slots(&writer.space)
}

fn check_leaf(tree: &IndexTree, page: &DuePage, seen: &mut SeenPages) -> Result<(), String> {
    let leaf = tree.leaf(page.id);
    seen.leaves += 1;
    let level = *seen.leaf_level.get_or_insert(page.level);
    ensure(level == page.level, "two leaves are not equally far from the root")?;
    ensure(leaf.count() > 0 || page.id == ROOT, "a leaf is empty")?;
    ensure(leaf.count() <= LEAF_PATHS_MAX, "a leaf has too many paths")?;
    ensure(leaf.words() <= LEAF_WORDS_MAX + 2 * PATH_WORDS_MAX, "a leaf has too many words")?;
    ensure(tree.pages.paths_below(page.id) == leaf.count() as u64, "a leaf's count is off")?;
    let mut path = Vec::new();
    for (at, &place) in leaf.places().all().iter().enumerate() {
        let place = usize::from(place);
        leaf.path_into(place, &mut path);
        ensure(seen.last < path, "paths do not ascend")?;
        ensure(page.from <= path, "a path is below its leaf's separator")?;
        ensure(page.to.as_ref().is_none_or(|to| path < *to), "a path is above its leaf's end")?;
        let text = std::str::from_utf8(&path).map_err(|_| "a path is not text")?;
        ensure(validate(text).is_ok(), "an invalid path is held")?;
        let key = HashedPath::new(&path);
        ensure(leaf.fingerprint(place) == key.fingerprint, "a fingerprint is not its path's")?;
        ensure(leaf.rank(&path) == Ok(at), "a search within the leaf goes astray")?;
        ensure(tree.filter.may_contain(&key), "the filter refuses a path that is held")?;
        ensure(tree.look_up(key), "a path is held but not found")?;
        std::mem::swap(&mut seen.last, &mut path);
    }
    Ok(())
}

fn check_inner(tree: &IndexTree, page: &DuePage, due: &mut Vec<DuePage>) -> Result<(), String> {
    let inner = tree.inner(page.id);
    ensure(inner.count() >= 2, "an inner page has one child")?;
    ensure(inner.count() <= INNER_KIDS_MAX, "an inner page has too many children")?;
    ensure(inner.words_unprefixed() <= PAGE_WORDS_MAX * 2, "an inner page has too many words")?;
    let below: u64 = (0..inner.count()).map(|at| tree.pages.paths_below(inner.id(at))).sum();
    ensure(tree.pages.paths_below(page.id) == below, "an inner page's count is off")?;
    // Pushed from the last to the first, so that leaves come up in order.
    let mut to = page.to.clone();
    for at in (0..inner.count()).rev() {
        let from = if at == 0 { page.from.clone() } else { inner.separator(at - 1) };
        ensure(from >= page.from, "a separator is below its page's")?;
        ensure(to.as_ref().is_none_or(|to| from < *to), "separators do not ascend")?;
        due.push(DuePage { id: inner.id(at), level: page.level + 1, from: from.clone(), to });
        to = Some(from);
    }
    Ok(())
}
