//! Pages: immutable runs of words in recycled slots, and the ids that name them.
//!
//! A page is written into a slot nobody can reach, published by one store to its id's cell, and
//! never changed. Replacing it publishes another slot and retires the old one, which is used
//! again at once. A reader takes no lock and leaves no trace: it reads the words where they are,
//! then asks whether the slot still is of the generation the cell named
//! ([`PageSnapshot::is_intact`]). If not, what it read is thrown away and it starts over; that
//! happens only when a writer has finished something meanwhile, so no reader waits for a
//! writer that stands still.
//!
//! ```text
//! cell of an id:   generation:32 | line:32 , paths below:64        zero: the id names nothing
//! slot:            generation | words of the page ...              in lines of eight words
//! ```
//!
//! Invariants:
//! - a slot keeps its class for ever, so its first word is a generation for ever;
//! - the new generation is stored before any word of the new page (release fence), and a
//!   reader looks at it after its last word (acquire fence): whoever saw a word of the new page
//!   also sees the new generation;
//! - a slot is referred to by one id, or is in the free list of its class, never both.

use std::collections::HashSet;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU64, fence};

use crate::header::PageHeader;
use crate::limits::{HEIGHT_MAX, PAGE_WORDS_MAX};
use crate::segments::Segments;

/// Names a page for as long as it lives, whatever slot it is in.
pub(crate) type LivePageId = u32;

/// Words in a line, the unit slots are made of: a cache line.
const LINE_WORDS: usize = 8;

/// Words of a cell.
const CELL_WORDS: usize = 2;

/// Slot sizes in lines: exact up to eight, then four to a doubling.
const CLASSES: [usize; 36] = {
    let mut sizes = [0; 36];
    let mut class = 0;
    while class < sizes.len() {
        sizes[class] = if class < 8 { class + 1 } else { (4 + (class & 3) + 1) << (class / 4 - 1) };
        class += 1;
    }
    sizes
};
const _: () = assert!(CLASSES[35] * LINE_WORDS >= PAGE_WORDS_MAX);

fn class_of(words: usize) -> usize {
    let lines = words.div_ceil(LINE_WORDS);
    CLASSES.partition_point(|&size| size < lines)
}

/// Words of the slot that a page of `words` words is put in.
pub(crate) fn slot_words(words: usize) -> usize {
    CLASSES[class_of(words)] * LINE_WORDS
}

/// All pages and cells. What readers share.
pub(crate) struct IndexPages {
    slots: Slots,
    cells: Cells,
}

/// 64 GiB of pages.
type Slots = Segments<96, 128>;

/// Cells for 32 million pages.
type Cells = Segments<80, 16>;

/// Lines there are.
const LINES_MAX: usize = Slots::WORDS / LINE_WORDS;

/// Ids there are.
const IDS_MAX: usize = Cells::WORDS / CELL_WORDS;
const _: () = assert!(LINES_MAX <= 1 << u32::BITS && IDS_MAX <= 1 << LivePageId::BITS);

/// Pages one operation of the writer may make: on each level both halves of one, and its parent.
const PAGES_PER_WRITE: usize = 3 * HEIGHT_MAX;

/// Lines kept back from inserts, so that one that has begun can end, and paths can be removed.
const LINES_KEPT: usize = PAGES_PER_WRITE * (PAGE_WORDS_MAX / LINE_WORDS);

/// What the writer knows of slots and ids besides. Kept under the tree's mutex.
pub(crate) struct PageSpace {
    next_line: usize,
    next_id: LivePageId,
    /// By class, as far as there are any.
    free_slots: Vec<Vec<u32>>,
    free_ids: Vec<LivePageId>,
    lines_max: usize,
}

/// A page as a reader found it. What it shows counts only if it [`is_intact`](Self::is_intact)
/// afterwards; until then it may be any words at all.
#[derive(Clone, Copy)]
pub(crate) struct PageSnapshot<'a> {
    pub(crate) words: &'a [AtomicU64],
    generation: u32,
}

impl PageSnapshot<'_> {
    /// Whether everything read from the page so far was of the page its id named.
    #[inline(always)]
    pub(crate) fn is_intact(&self) -> bool {
        fence(Acquire);
        // Relaxed: the fence before orders it after the page's words.
        self.words.first().is_some_and(|word| word.load(Relaxed) as u32 == self.generation)
    }
}

impl IndexPages {
    pub(crate) fn new() -> Self {
        Self { slots: Segments::new(), cells: Segments::new() }
    }

    /// The page `id` names now, if it names one.
    #[inline(always)]
    pub(crate) fn snapshot(&self, id: LivePageId) -> Option<PageSnapshot<'_>> {
        // Acquire pairs with the release in `publish`: the page's words are there.
        let place = self.cells.from(id as usize * CELL_WORDS).first()?.load(Acquire);
        if place == 0 {
            return None;
        }
        let words = self.slots.from(place as u32 as usize * LINE_WORDS);
        Some(PageSnapshot { words, generation: (place >> 32) as u32 })
    }

    /// Paths below `id`. Exact when no writer is at work.
    #[inline(always)]
    pub(crate) fn paths_below(&self, id: LivePageId) -> u64 {
        self.cells.from(id as usize * CELL_WORDS).get(1).map_or(0, |cell| cell.load(Relaxed))
    }

    pub(crate) fn set_paths_below(&self, id: LivePageId, paths: u64) {
        // Relaxed: the figure stands alone.
        self.cells.from(id as usize * CELL_WORDS)[1].store(paths, Relaxed);
    }

    /// Makes `words` (the first one spare) the page of `id`, and retires the one it had. The
    /// header's words may be more: those behind the given ones hold anything.
    pub(crate) fn publish(&self, space: &mut PageSpace, id: LivePageId, words: &[u64]) {
        let place = self.write(space, words);
        self.swap(space, id, place);
    }

    /// Makes the page of `from` the page of `to` as well. [`forget`](Self::forget) is to follow.
    pub(crate) fn share(&self, space: &mut PageSpace, from: LivePageId, to: LivePageId) {
        let place = self.cell(from).load(Relaxed);
        self.swap(space, to, place);
    }

    /// Retires the id but not its page, which has another id by now.
    pub(crate) fn forget(&self, space: &mut PageSpace, id: LivePageId) {
        self.cell(id).store(0, Release);
        space.free_ids.push(id);
    }

    /// Retires the page of `id` and the id with it.
    pub(crate) fn retire(&self, space: &mut PageSpace, id: LivePageId) {
        self.swap(space, id, 0);
        space.free_ids.push(id);
    }

    /// An id nothing refers to yet.
    pub(crate) fn new_id(&self, space: &mut PageSpace) -> LivePageId {
        space.free_ids.pop().unwrap_or_else(|| {
            let id = space.next_id;
            assert!((id as usize) < IDS_MAX, "an insert began without room");
            self.cells.reserve(id as usize * CELL_WORDS);
            space.next_id += 1;
            id
        })
    }

    fn cell(&self, id: LivePageId) -> &AtomicU64 {
        &self.cells.from(id as usize * CELL_WORDS)[0]
    }

    fn swap(&self, space: &mut PageSpace, id: LivePageId, place: u64) {
        let old = self.cell(id).load(Relaxed);
        // Release: whoever finds the page here finds its words, and all published before it.
        self.cell(id).store(place, Release);
        if old != 0 {
            let line = old as u32;
            let class = self.class_at(line);
            space.free(class, line);
        }
    }

    /// A slot's class, kept in the upper half of its first word.
    fn class_at(&self, line: u32) -> usize {
        (self.slots.from(line as usize * LINE_WORDS)[0].load(Relaxed) >> 32) as usize
    }

    /// Writes a page into a free slot and returns what its cell is to say.
    fn write(&self, space: &mut PageSpace, words: &[u64]) -> u64 {
        let page_words = PageHeader::unpack(words[1]).words;
        assert!(words.len() <= page_words, "a page is larger than its header says");
        assert!(page_words <= PAGE_WORDS_MAX, "a page is past its bound");
        let class = class_of(page_words);
        let free = space.free_slots.get_mut(class).and_then(Vec::pop);
        let line = free.unwrap_or_else(|| self.new_slot(space, class));
        // A slot that is larger than asked for keeps its class.
        let class = self.class_at(line).max(class);
        let slot = self.slots.from(line as usize * LINE_WORDS);
        // Zero is skipped so that a cell in use is never zero.
        let generation = (slot[0].load(Relaxed) as u32).wrapping_add(1).max(1);
        slot[0].store((class as u64) << 32 | u64::from(generation), Relaxed);
        fence(Release);
        for (cell, &word) in slot[1..].iter().zip(&words[1..]) {
            // Relaxed: the fence before and the release in `swap` order them.
            cell.store(word, Relaxed);
        }
        u64::from(generation) << 32 | u64::from(line)
    }

    /// A slot never used before. It lies within one segment. Once the lines run out, a free slot
    /// of a larger class.
    fn new_slot(&self, space: &mut PageSpace, class: usize) -> u32 {
        let lines = CLASSES[class];
        loop {
            let line = space.next_line;
            let left = Slots::left_from(line * LINE_WORDS) / LINE_WORDS;
            if line + left.min(lines) > space.lines_max {
                let larger = space.free_slots.iter_mut().skip(class).find_map(Vec::pop);
                return larger.expect("the lines kept back outlast the removals");
            }
            if left >= lines {
                self.slots.reserve(line * LINE_WORDS);
                space.next_line += lines;
                return u32::try_from(line).expect("the segments end before 2^32 lines");
            }
            self.free_lines(space, line, left);
            space.next_line += left;
        }
    }

    /// Makes free slots of what a segment has left. Of one not begun nothing was allocated, and
    /// nothing is.
    fn free_lines(&self, space: &mut PageSpace, mut line: usize, mut left: usize) {
        if self.slots.from(line * LINE_WORDS).is_empty() {
            return;
        }
        while left > 0 {
            let class = CLASSES.partition_point(|&size| size <= left) - 1;
            // Relaxed: nobody but the writer reads a slot that was never named.
            self.slots.from(line * LINE_WORDS)[0].store((class as u64) << 32, Relaxed);
            space.free(class, line as u32);
            line += CLASSES[class];
            left -= CLASSES[class];
        }
    }

    /// Checks that every slot is named by one id or lies in the free list of its class.
    pub(crate) fn check_slots(&self, space: &PageSpace) -> Result<(), String> {
        let mut lines = HashSet::new();
        let free = space
            .free_slots
            .iter()
            .enumerate()
            .flat_map(|(class, slots)| slots.iter().map(move |&line| (line, class)));
        let named = (0..space.next_id).filter_map(|id| match self.cell(id).load(Relaxed) {
            0 => None,
            place => Some((place as u32, self.class_at(place as u32))),
        });
        for (line, class) in free.chain(named) {
            if self.class_at(line) != class {
                return Err("a slot changed its class".to_owned());
            }
            let slot = line as usize..line as usize + CLASSES[class];
            if slot.end > space.next_line || !slot.into_iter().all(|line| lines.insert(line)) {
                return Err("two pages share a line".to_owned());
            }
        }
        Ok(())
    }

    /// Bytes allocated for pages and cells.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.slots.memory_bytes() + self.cells.memory_bytes()
    }
}

impl Default for PageSpace {
    fn default() -> Self {
        let (free_slots, free_ids) = (Vec::new(), Vec::new());
        Self { next_line: 0, next_id: 0, free_slots, free_ids, lines_max: LINES_MAX }
    }
}

impl PageSpace {
    /// Bytes allocated for the free lists.
    pub(crate) fn memory_bytes(&self) -> usize {
        let slots: usize = self.free_slots.iter().map(Vec::capacity).sum();
        (slots + self.free_ids.capacity()) * size_of::<u32>()
            + self.free_slots.capacity() * size_of::<Vec<u32>>()
    }

    fn free(&mut self, class: usize, line: u32) {
        if self.free_slots.len() <= class {
            self.free_slots.resize_with(class + 1, Vec::new);
        }
        self.free_slots[class].push(line);
    }

    /// Whether an insert may begin: there are pages for whatever it comes to.
    pub(crate) fn has_room(&self) -> bool {
        self.next_line + LINES_KEPT <= self.lines_max
            && self.ids_live() + PAGES_PER_WRITE <= IDS_MAX
    }

    /// Leaves inserts as few lines as `lines`, to try out what happens at the end of them.
    #[cfg(test)]
    pub(crate) fn limit_to(&mut self, lines: usize) {
        self.lines_max = lines + LINES_KEPT;
    }

    /// Ids in use.
    pub(crate) fn ids_live(&self) -> usize {
        self.next_id as usize - self.free_ids.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_waste_at_most_a_quarter() {
        for words in 1..=PAGE_WORDS_MAX {
            let words_of_slot = CLASSES[class_of(words)] * LINE_WORDS;
            assert!(words_of_slot >= words);
            assert!(words_of_slot <= words.next_multiple_of(LINE_WORDS) * 5 / 4, "{words}");
        }
    }

    #[test]
    fn a_reader_of_a_recycled_slot_is_told() {
        let (pages, mut space) = (IndexPages::new(), PageSpace::default());
        let id = pages.new_id(&mut space);
        assert!(pages.snapshot(id).is_none());
        let header = PageHeader { is_leaf: true, entries: 0, room: 0, prefix_bytes: 0, words: 3 };
        let page = |word| [0, header.pack(), word];
        pages.publish(&mut space, id, &page(2));
        let old = pages.snapshot(id).expect("just published");
        assert!(old.is_intact());
        pages.publish(&mut space, id, &page(4));
        assert!(old.is_intact(), "retired, but not used again yet");
        pages.publish(&mut space, id, &page(6));
        assert!(!old.is_intact(), "its slot holds another page");
        pages.retire(&mut space, id);
        assert!(pages.snapshot(id).is_none());
        assert_eq!((space.ids_live(), pages.new_id(&mut space)), (0, id));
    }
}
