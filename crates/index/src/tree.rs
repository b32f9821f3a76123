//! The B-tree: full paths in bytewise order, in leaf pages under inner pages.
//!
//! Readers walk it without a lock; writers take turns. Every change of what the index holds is
//! one store: the tail word of a leaf with one path more, or the cell of a leaf's page with one
//! path less. Everything else a writer does (writing a page anew, cutting one in two, joining
//! two) moves no path in or out, and goes in an order that leaves a reader on either side of
//! each step with the right answer:
//!
//! 1. the new children get pages under ids nobody knows yet;
//! 2. their parent's new page is published: from here on new descents find them;
//! 3. `shape` moves on;
//! 4. the old children's ids are retired, and may name other pages later.
//!
//! Invariants:
//! - the root's id is [`ROOT`]; all leaves are equally far from it; no leaf but the root is empty;
//! - a path found in a page its id named during the call was in the index during the call;
//! - a path not found by a descent was absent during the call if `shape` is what it was before
//!   the first page was read: else an id on the way may have been retired and given away (step
//!   4), and the reader starts over;
//! - the membership filter has the fingerprint of every path held.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU64, fence};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::error::Error;
use crate::fingerprint::HashedPath;
use crate::header::PageHeader;
use crate::inner::{InnerPage, Kids};
use crate::leaf::{Leaf, LeafRoom};
use crate::limits::{
    HEIGHT_MAX, INNER_KIDS_MAX, INNER_KIDS_MIN, INNER_KIDS_SPLIT, INNER_WORDS_MAX, LEAF_PATHS_MAX,
    LEAF_PATHS_MIN, LEAF_WORDS_MAX, PATH_WORDS_MAX,
};
use crate::membership_filter::{Filling, MembershipFilter};
use crate::packed::word_at;
use crate::pages::{IndexPages, LivePageId, PageSnapshot, PageSpace};
use crate::paths::OrderedPaths;

/// The id of the root, whatever page it has.
pub(crate) const ROOT: LivePageId = 0;

/// Paths an insert puts in the membership filter being filled, at most: more than come in meanwhile.
const PATHS_SIEVED: usize = 32;

/// What readers and the writer share.
pub(crate) struct IndexTree {
    pub(crate) pages: IndexPages,
    pub(crate) filter: MembershipFilter,
    /// Counts the times ids were retired.
    shape: AtomicU64,
    writer: Mutex<TreeWriter>,
}

/// What only the writer at work has.
#[derive(Default)]
pub(crate) struct TreeWriter {
    pub(crate) space: PageSpace,
    pub(crate) leaves: usize,
    filling: Option<Filling>,
    /// The page being made.
    pub(crate) words: Vec<u64>,
    /// The parent's page being made beside it.
    parent: Vec<u64>,
}

/// The inner pages from the root down to a leaf, and which child was taken in each.
struct Trace {
    steps: [(LivePageId, usize); HEIGHT_MAX],
    depth: usize,
    leaf: LivePageId,
}

impl Trace {
    fn inners(&self) -> &[(LivePageId, usize)] {
        &self.steps[..self.depth]
    }

    /// The page at `level`, the root's being 0.
    fn id_at(&self, level: usize) -> LivePageId {
        if level == self.depth { self.leaf } else { self.steps[level].0 }
    }
}

/// A page as its kind.
pub(crate) enum TreePage<'a> {
    Leaf(Leaf<'a, AtomicU64>),
    Inner(InnerPage<'a, AtomicU64>),
}

#[inline(always)]
pub(crate) fn open<'a>(snapshot: &PageSnapshot<'a>) -> TreePage<'a> {
    let header = PageHeader::unpack(word_at(snapshot.words, 1));
    if header.is_leaf {
        TreePage::Leaf(Leaf::new(header, snapshot.words))
    } else {
        TreePage::Inner(InnerPage::new(header, snapshot.words))
    }
}

impl IndexTree {
    pub(crate) fn new() -> Self {
        let tree = Self {
            pages: IndexPages::new(),
            filter: MembershipFilter::new(),
            shape: AtomicU64::new(0),
            writer: Mutex::new(TreeWriter::default()),
        };
        {
            let mut writer = tree.lock();
            let root = tree.pages.new_id(&mut writer.space);
            assert_eq!(root, ROOT, "the first id is the root's");
            tree.filter.prepare_for(0);
            tree.publish_empty_root(&mut writer);
        }
        tree
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, TreeWriter> {
        // A panic in a writer is a broken promise between two publications, each of which leaves
        // a whole tree; those who come after may go on.
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn count(&self) -> u64 {
        self.pages.paths_below(ROOT)
    }

    /// Bytes allocated, the tree itself included.
    pub(crate) fn memory_bytes(&self) -> usize {
        let writer = self.lock();
        size_of::<Self>()
            + self.pages.memory_bytes()
            + self.filter.memory_bytes()
            + writer.space.memory_bytes()
            + (writer.words.capacity() + writer.parent.capacity()) * size_of::<u64>()
    }

    // --- reading

    /// Exact. What the membership filter does not refuse is looked up.
    #[inline]
    pub(crate) fn contains(&self, key: HashedPath<'_>) -> bool {
        self.filter.may_contain(&key) && self.look_up(key)
    }

    pub(crate) fn look_up(&self, key: HashedPath<'_>) -> bool {
        self.settle(|| {
            let leaf = self.descend(key.bytes, |_, _| {})?;
            let TreePage::Leaf(page) = open(&leaf) else { return None };
            let found = page.contains(key);
            leaf.is_intact().then_some(found)
        })
    }

    /// Runs `read` until it answers from pages that were all in place when it began.
    pub(crate) fn settle<T>(&self, mut read: impl FnMut() -> Option<T>) -> T {
        loop {
            let shape = self.shape.load(Acquire);
            if let Some(answer) = read() {
                fence(Acquire);
                // Relaxed: the fence orders it after every page that was read.
                if self.shape.load(Relaxed) == shape {
                    return answer;
                }
            }
        }
    }

    /// Walks to the leaf for `path`, showing `visit` each inner page and the child taken. `None`
    /// if a page changed underfoot.
    #[inline(always)]
    pub(crate) fn descend<'a>(
        &'a self,
        path: &[u8],
        mut visit: impl FnMut(&InnerPage<'a, AtomicU64>, usize),
    ) -> Option<PageSnapshot<'a>> {
        let mut id = ROOT;
        for _ in 0..HEIGHT_MAX {
            let snapshot = self.pages.snapshot(id)?;
            match open(&snapshot) {
                TreePage::Leaf(_) => return Some(snapshot),
                TreePage::Inner(inner) => {
                    let child = inner.child_at(path);
                    visit(&inner, child);
                    id = inner.id(child);
                    if !snapshot.is_intact() {
                        return None;
                    }
                }
            }
        }
        None
    }

    /// How many paths sort below `path`, `None` if a page changed underfoot. Exact when no writer
    /// is at work. Adds up at most `INNER_KIDS_MAX` figures per level.
    pub(crate) fn rank(&self, path: &[u8]) -> Option<u64> {
        let mut before = 0;
        let leaf = self.descend(path, |inner, child| {
            before += (0..child).map(|at| self.pages.paths_below(inner.id(at))).sum::<u64>();
        })?;
        let TreePage::Leaf(page) = open(&leaf) else { return None };
        let (Ok(at) | Err(at)) = page.rank(path);
        leaf.is_intact().then_some(before + at as u64)
    }

    // --- writing

    fn page(&self, id: LivePageId) -> TreePage<'_> {
        open(&self.pages.snapshot(id).expect("the writer follows only live ids"))
    }

    pub(crate) fn leaf(&self, id: LivePageId) -> Leaf<'_, AtomicU64> {
        match self.page(id) {
            TreePage::Leaf(leaf) => leaf,
            TreePage::Inner(_) => panic!("an inner page where a leaf should be"),
        }
    }

    pub(crate) fn inner(&self, id: LivePageId) -> InnerPage<'_, AtomicU64> {
        match self.page(id) {
            TreePage::Inner(inner) => inner,
            TreePage::Leaf(_) => panic!("a leaf where an inner page should be"),
        }
    }

    fn trace(&self, path: &[u8]) -> Trace {
        let mut trace = Trace { steps: [(ROOT, 0); HEIGHT_MAX], depth: 0, leaf: ROOT };
        while let TreePage::Inner(inner) = self.page(trace.leaf) {
            let child = inner.child_at(path);
            trace.steps[trace.depth] = (trace.leaf, child);
            trace.depth += 1;
            trace.leaf = inner.id(child);
        }
        trace
    }

    pub(crate) fn insert(&self, key: HashedPath<'_>) -> Result<bool, Error> {
        let writer = &mut *self.lock();
        let mut is_new = false;
        loop {
            let trace = self.trace(key.bytes);
            let page = self.pages.snapshot(trace.leaf).expect("the writer follows only live ids");
            let leaf = self.leaf(trace.leaf);
            if !is_new && self.filter.may_contain(&key) && leaf.contains(key) {
                return Ok(false);
            }
            if !is_new && !writer.space.has_room() {
                return Err(Error::Full);
            }
            is_new = true;
            if leaf.takes_in_place(key.bytes) {
                // The fingerprint comes before the path and goes after it: see `membership_filter`.
                self.filter.add(&key);
                leaf.take_in(key, page.words);
                self.add_along(&trace, 1);
                if let Some(filling) = writer.filling.as_ref().filter(|f| key.bytes < &*f.next) {
                    self.filter.add_to(filling, &key);
                }
                self.grow_sieve(writer);
                if trace.depth == 0 {
                    // Many small indexes are to be small: this would be a quarter of one.
                    writer.words = Vec::new();
                }
                return Ok(true);
            }
            if leaf.has_room_for(key.bytes) {
                leaf.write(leaf.places().all(), LeafRoom::For(key.bytes), &mut writer.words);
                self.pages.publish(&mut writer.space, trace.leaf, &writer.words);
            } else {
                self.split(writer, &trace);
            }
        }
    }

    pub(crate) fn remove(&self, key: HashedPath<'_>) -> bool {
        let writer = &mut *self.lock();
        let trace = self.trace(key.bytes);
        let leaf = self.leaf(trace.leaf);
        let Ok(at) = leaf.rank(key.bytes) else { return false };
        let mut places = leaf.places();
        places.take_out(at);
        leaf.write(places.all(), LeafRoom::Some, &mut writer.words);
        self.pages.publish(&mut writer.space, trace.leaf, &writer.words);
        self.add_along(&trace, -1);
        self.filter.remove(&key);
        if let Some(filling) = writer.filling.as_ref().filter(|f| key.bytes < &*f.next) {
            self.filter.remove_from(filling, &key);
        }
        self.join_thin_pages(writer, &trace);
        true
    }

    /// Begins a larger membership filter if it is time, or puts some more paths in the one begun.
    fn grow_sieve(&self, writer: &mut TreeWriter) {
        let Some(mut filling) =
            writer.filling.take().or_else(|| self.filter.outgrown(self.count()))
        else {
            return;
        };
        let mut end = None;
        let leaf = self.descend(&filling.next, |inner, child| {
            if child + 1 < inner.count() {
                end = Some(inner.separator(child));
            }
        });
        let Some(TreePage::Leaf(leaf)) = leaf.as_ref().map(open) else {
            panic!("a page changed under the writer");
        };
        let (Ok(first) | Err(first)) = leaf.rank(&filling.next);
        let (places, mut path) = (leaf.places(), Vec::new());
        let mut due = places.all()[first..].iter().map(|&place| usize::from(place));
        for place in due.by_ref().take(PATHS_SIEVED) {
            leaf.path_into(place, &mut path);
            self.filter.add_to(&filling, &HashedPath::new(&path));
        }
        if let Some(place) = due.next() {
            leaf.path_into(place, &mut path);
            end = Some(path);
        }
        match end {
            None => self.filter.use_filled(&filling),
            Some(end) => {
                filling.next = end;
                writer.filling = Some(filling);
            }
        }
    }

    /// Takes out everything. Readers meanwhile may see some of it gone before the rest.
    pub(crate) fn clear(&self) {
        let writer = &mut *self.lock();
        let mut ids = Vec::new();
        let mut open_ids = vec![ROOT];
        while let Some(id) = open_ids.pop() {
            if let TreePage::Inner(inner) = self.page(id) {
                open_ids.extend((0..inner.count()).map(|at| inner.id(at)));
            }
            ids.push(id);
        }
        self.publish_empty_root(writer);
        self.move_shape();
        for id in ids.into_iter().filter(|&id| id != ROOT) {
            self.pages.retire(&mut writer.space, id);
        }
        self.filter.clear();
        if let Some(filling) = writer.filling.take() {
            self.filter.give_up(&filling);
        }
    }

    fn publish_empty_root(&self, writer: &mut TreeWriter) {
        OrderedPaths::default().write(0, 0, &mut writer.words);
        self.pages.publish(&mut writer.space, ROOT, &writer.words);
        self.pages.set_paths_below(ROOT, 0);
        writer.leaves = 1;
    }

    fn add_along(&self, trace: &Trace, paths: i64) {
        for level in 0..=trace.depth {
            let id = trace.id_at(level);
            self.pages.set_paths_below(id, self.pages.paths_below(id).wrapping_add_signed(paths));
        }
    }

    fn move_shape(&self) {
        // Release: who sees the new shape sees the parent published before. Those who see an id
        // retired after it (release again, in `IndexPages::swap`) see the new shape.
        self.shape.store(self.shape.load(Relaxed) + 1, Release);
    }

    /// Cuts one page of the trace in two: the leaf, or the highest page that has to make room
    /// for the cut below it. The caller starts over.
    fn split(&self, writer: &mut TreeWriter, trace: &Trace) {
        let full = |&&(id, _): &&(LivePageId, usize)| !has_room_for_kid(&self.inner(id));
        let full_above = trace.inners().iter().rev().take_while(full).count();
        let level = trace.depth - full_above;
        if level > 0 && level == trace.depth && self.split_leaf(writer, trace) {
            return;
        }
        let halves = self.halves(writer, trace.id_at(level), level == trace.depth);
        if level == 0 {
            // No id is retired: who still reads the root's old page reads the same paths.
            writer.leaves -= usize::from(trace.depth == 0);
            halves.write(&mut writer.words);
            self.pages.publish(&mut writer.space, ROOT, &writer.words);
        } else {
            let (parent, at) = trace.steps[level - 1];
            self.replace_kids(writer, parent, at, 1, halves);
        }
    }

    /// Cuts the leaf in two under a parent that has room. All but the two halves is copied as it
    /// lies. `false`, and nothing done: the parent has to be taken apart.
    fn split_leaf(&self, writer: &mut TreeWriter, trace: &Trace) -> bool {
        let (leaf, (parent, at)) = (self.leaf(trace.leaf), trace.steps[trace.depth - 1]);
        let places = leaf.places();
        let places = places.all();
        let cut = leaf.cut(places);
        let separator = leaf.separator(places, cut);
        let halves = [(); 2].map(|()| self.pages.new_id(&mut writer.space));
        if !self.inner(parent).with_cut_kid(at, halves, &separator, &mut writer.parent) {
            halves.into_iter().rev().for_each(|id| self.pages.forget(&mut writer.space, id));
            return false;
        }
        for (id, places) in halves.into_iter().zip([&places[..cut], &places[cut..]]) {
            leaf.write(places, LeafRoom::Some, &mut writer.words);
            self.pages.publish(&mut writer.space, id, &writer.words);
            self.pages.set_paths_below(id, places.len() as u64);
        }
        writer.leaves += 1;
        self.pages.publish(&mut writer.space, parent, &writer.parent);
        self.move_shape();
        self.pages.retire(&mut writer.space, trace.leaf);
        true
    }

    /// Two new pages that hold between them what `id` does.
    fn halves(&self, writer: &mut TreeWriter, id: LivePageId, is_leaf: bool) -> Kids {
        if is_leaf {
            let mut paths = OrderedPaths::default();
            paths.push_all(&self.leaf(id));
            self.write_cut_leaves(writer, &paths)
        } else {
            let kids = Kids::of(&self.inner(id));
            self.write_cut_inners(writer, kids)
        }
    }

    fn write_cut_leaves(&self, writer: &mut TreeWriter, paths: &OrderedPaths) -> Kids {
        let count = paths.count();
        let (lowest, highest) = ((count * 3 / 8).max(1), (count * 5 / 8).max(1));
        let cut = paths.cut(lowest, count / 2, highest);
        let left = self.write_leaf(writer, paths, 0, cut);
        let right = self.write_leaf(writer, paths, cut, count);
        Kids { ids: vec![left, right], separators: vec![paths.separator(cut).into()] }
    }

    fn write_cut_inners(&self, writer: &mut TreeWriter, mut left: Kids) -> Kids {
        let (separator, right) = left.split_off(left.cut());
        let ids = vec![self.write_inner(writer, &left), self.write_inner(writer, &right)];
        Kids { ids, separators: vec![separator] }
    }

    /// Puts the paths `from..to` in a new leaf.
    pub(crate) fn write_leaf(
        &self,
        writer: &mut TreeWriter,
        paths: &OrderedPaths,
        from: usize,
        to: usize,
    ) -> LivePageId {
        let id = self.pages.new_id(&mut writer.space);
        paths.write(from, to, &mut writer.words);
        self.pages.publish(&mut writer.space, id, &writer.words);
        self.pages.set_paths_below(id, (to - from) as u64);
        writer.leaves += 1;
        id
    }

    /// Puts children under a new inner page.
    pub(crate) fn write_inner(&self, writer: &mut TreeWriter, kids: &Kids) -> LivePageId {
        let id = self.pages.new_id(&mut writer.space);
        kids.write(&mut writer.words);
        self.pages.publish(&mut writer.space, id, &writer.words);
        self.pages.set_paths_below(id, self.sum_below(&kids.ids));
        id
    }

    fn sum_below(&self, ids: &[LivePageId]) -> u64 {
        ids.iter().map(|&id| self.pages.paths_below(id)).sum()
    }

    /// Steps 2 to 4 of the order above: `new` in place of `old` children of `parent`.
    fn replace_kids(
        &self,
        writer: &mut TreeWriter,
        parent: LivePageId,
        at: usize,
        old: usize,
        new: Kids,
    ) {
        let mut kids = Kids::of(&self.inner(parent));
        let retired = kids.ids[at..at + old].to_vec();
        kids.replace(at, old, new);
        kids.write(&mut writer.words);
        self.pages.publish(&mut writer.space, parent, &writer.words);
        self.move_shape();
        for id in retired {
            if let TreePage::Leaf(_) = self.page(id) {
                writer.leaves -= 1;
            }
            self.pages.retire(&mut writer.space, id);
        }
    }

    /// From the leaf up: joins each page that has become thin with a neighbour.
    fn join_thin_pages(&self, writer: &mut TreeWriter, trace: &Trace) {
        for level in (1..=trace.depth).rev() {
            let thin = if level == trace.depth {
                is_thin_leaf(&self.leaf(trace.leaf))
            } else {
                is_thin_inner(&self.inner(trace.id_at(level)))
            };
            if !thin {
                return;
            }
            let (parent, at) = trace.steps[level - 1];
            if self.inner(parent).count() > 1 {
                let left = at.saturating_sub(1);
                let joined = self.join(writer, parent, left, level == trace.depth);
                self.replace_kids(writer, parent, left, 2, joined);
            }
        }
        self.lower_root(writer);
    }

    /// What the children `left` and `left + 1` hold, in one new page if it fits, else in two.
    fn join(
        &self,
        writer: &mut TreeWriter,
        parent: LivePageId,
        left: usize,
        are_leaves: bool,
    ) -> Kids {
        let parent = self.inner(parent);
        let (left, right, separator) =
            (parent.id(left), parent.id(left + 1), parent.separator(left));
        if are_leaves {
            let mut paths = OrderedPaths::default();
            paths.push_all(&self.leaf(left));
            paths.push_all(&self.leaf(right));
            let count = paths.count();
            if count <= LEAF_PATHS_MAX && paths.page_words(0, count) <= LEAF_WORDS_MAX {
                let ids = vec![self.write_leaf(writer, &paths, 0, count)];
                return Kids { ids, separators: Vec::new() };
            }
            return self.write_cut_leaves(writer, &paths);
        }
        let mut kids = Kids::of(&self.inner(left));
        kids.append(separator.into(), Kids::of(&self.inner(right)));
        if kids.count() <= INNER_KIDS_MAX && kids.words_at_most() <= INNER_WORDS_MAX {
            let ids = vec![self.write_inner(writer, &kids)];
            return Kids { ids, separators: Vec::new() };
        }
        self.write_cut_inners(writer, kids)
    }

    /// While the root has one child only, that child's page becomes the root's.
    fn lower_root(&self, writer: &mut TreeWriter) {
        while let TreePage::Inner(root) = self.page(ROOT) {
            if root.count() > 1 {
                return;
            }
            let child = root.id(0);
            self.pages.share(&mut writer.space, child, ROOT);
            self.move_shape();
            self.pages.forget(&mut writer.space, child);
        }
    }
}

/// Whether one child more and its separator fit without a split.
fn has_room_for_kid(inner: &InnerPage<'_, AtomicU64>) -> bool {
    inner.count() < INNER_KIDS_MAX
        && (inner.count() < INNER_KIDS_SPLIT
            || inner.words_unprefixed() + PATH_WORDS_MAX <= INNER_WORDS_MAX)
}

fn is_thin_leaf(leaf: &Leaf<'_, AtomicU64>) -> bool {
    leaf.count() == 0 || (leaf.count() < LEAF_PATHS_MIN && leaf.words() < LEAF_WORDS_MAX / 4)
}

fn is_thin_inner(inner: &InnerPage<'_, AtomicU64>) -> bool {
    inner.count() < 2
        || (inner.count() < INNER_KIDS_MIN && inner.words_unprefixed() < INNER_WORDS_MAX / 4)
}
