//! Pages of equal blocks, cut from regions of huge pages.
//!
//! ```text
//!   region, 2 MiB, aligned to its size: | page 0 | page 1 | .. | page 31 |
//!   page, 64 KiB:                       | block | block | .. | rest |
//! ```
//!
//! Sizes are rounded up to a class, and all blocks of a page are of one class. So a freed block
//! serves the next entry of its class, and a page whose blocks are all free serves any class
//! again. Regions whose pages are all free go back to the system, but for one kept as a spare.
//!
//! All bookkeeping is outside the blocks, in plain vectors: a block is a number in its page, and
//! nothing is ever written into freed memory. So this file has no `unsafe` but the step from a
//! region's start to a block.

#![expect(unsafe_code, reason = "a block is an offset into a region")]

use std::alloc::Layout;
use std::collections::BTreeMap;
use std::ptr::NonNull;

use crate::Error;
use crate::region::{Backing, HUGE_PAGE_BYTES, ZeroedMemory};

const REGION_BYTES: usize = HUGE_PAGE_BYTES;
const PAGE_BYTES: usize = 64 << 10;
const PAGES_PER_REGION: usize = REGION_BYTES / PAGE_BYTES;
/// Blocks begin at multiples of this.
const BLOCK_ALIGN: usize = 8;
/// Up to here classes are `FINE_STEP` bytes apart, then `COARSE_STEP` up to `BLOCK_BYTES_MAX`.
const FINE_BYTES_MAX: usize = 512;
const FINE_STEP: usize = 8;
const COARSE_STEP: usize = 64;
/// Largest block; a page holds eight of them.
const BLOCK_BYTES_MAX: usize = 8 << 10;
const FINE_CLASSES: usize = FINE_BYTES_MAX / FINE_STEP;
const CLASSES: usize = 1 + FINE_CLASSES + (BLOCK_BYTES_MAX - FINE_BYTES_MAX) / COARSE_STEP;

const _: () = assert!(FINE_STEP.is_multiple_of(BLOCK_ALIGN));
const _: () = assert!(COARSE_STEP.is_multiple_of(BLOCK_ALIGN));
const _: () = assert!(PAGE_BYTES / FINE_STEP <= u16::MAX as usize);

/// A page: its region's place in `ArenaPages::regions` and its number there.
#[derive(Clone, Copy, PartialEq, Eq)]
struct PageId {
    region: usize,
    page: usize,
}

#[derive(Default)]
struct AddressPage {
    /// Bytes of a block; zero while the page serves no class.
    block_bytes: usize,
    /// Blocks handed out and not given back.
    used: u16,
    /// Blocks from this one on were never handed out.
    fresh: u16,
    /// Blocks given back.
    freed: Vec<u16>,
    /// Place among its class's pages with room, if it has room.
    listed_at: Option<usize>,
}

impl AddressPage {
    fn has_room(&self) -> bool {
        !self.freed.is_empty() || usize::from(self.fresh) < PAGE_BYTES / self.block_bytes
    }

    /// A free block's number. The page has room.
    fn take(&mut self) -> u16 {
        self.used += 1;
        self.freed.pop().unwrap_or_else(|| {
            self.fresh += 1;
            self.fresh - 1
        })
    }
}

struct PageCut {
    memory: ZeroedMemory,
    pages: [AddressPage; PAGES_PER_REGION],
    /// Pages that serve no class.
    idle: Vec<usize>,
}

/// All pages of one arena.
pub(crate) struct ArenaPages {
    regions: Vec<Option<PageCut>>,
    /// The place in `regions` of the region at an address.
    by_address: BTreeMap<usize, usize>,
    /// Places in `regions` with idle pages.
    with_idle: Vec<usize>,
    /// Pages with room, by class.
    with_room: Vec<Vec<PageId>>,
}

impl Default for ArenaPages {
    fn default() -> Self {
        Self {
            regions: Vec::new(),
            by_address: BTreeMap::new(),
            with_idle: Vec::new(),
            with_room: (0..CLASSES).map(|_| Vec::new()).collect(),
        }
    }
}

impl ArenaPages {
    /// Whether blocks of this layout come from pages.
    pub(crate) fn takes(layout: Layout) -> bool {
        // A model makes a table per interleaving; a region for each would be most of its time.
        !cfg!(loom) && layout.size() <= BLOCK_BYTES_MAX && layout.align() <= BLOCK_ALIGN
    }

    pub(crate) fn reserved_bytes(&self) -> usize {
        self.by_address.len() * REGION_BYTES
    }

    /// A block of at least `bytes` bytes, aligned to eight.
    pub(crate) fn alloc(&mut self, bytes: usize) -> Result<NonNull<u8>, Error> {
        let class = class_of(bytes);
        let id = match self.with_room[class].last() {
            Some(id) => *id,
            None => self.open_page(class)?,
        };
        let cut = self.regions[id.region].as_mut().expect("a listed page is in a region");
        let page = &mut cut.pages[id.page];
        let block = usize::from(page.take());
        let offset = id.page * PAGE_BYTES + block * page.block_bytes;
        assert!(offset + page.block_bytes <= REGION_BYTES, "a block lies inside its region");
        // SAFETY: inside the region, asserted just now.
        let start = unsafe { cut.memory.start().add(offset) };
        if !page.has_room() {
            self.unlist(id, class);
        }
        Ok(start)
    }

    /// Takes back the block at an address that `alloc` gave.
    pub(crate) fn free(&mut self, address: usize) {
        let base = address - address % REGION_BYTES;
        let region = *self.by_address.get(&base).expect("the block came from this arena");
        let id = PageId { region, page: address % REGION_BYTES / PAGE_BYTES };
        let page = self.page(id);
        let block = address % PAGE_BYTES / page.block_bytes;
        assert!(block < usize::from(page.fresh), "the block was handed out");
        page.freed.push(block as u16);
        page.used -= 1;
        let (class, used, listed) = (class_of(page.block_bytes), page.used, page.listed_at);
        if listed.is_none() {
            self.list(id, class);
        }
        if used == 0 {
            self.close_page(id, class);
        }
    }

    fn page(&mut self, id: PageId) -> &mut AddressPage {
        let cut = self.regions[id.region].as_mut().expect("the page is in a region");
        &mut cut.pages[id.page]
    }

    /// An idle page, now of this class.
    fn open_page(&mut self, class: usize) -> Result<PageId, Error> {
        if self.with_idle.is_empty() {
            self.open_region()?;
        }
        let region = *self.with_idle.last().expect("a region was opened");
        let cut = self.regions[region].as_mut().expect("an open region");
        let page = cut.idle.pop().expect("a region with idle pages");
        if cut.idle.is_empty() {
            self.with_idle.pop();
        }
        let id = PageId { region, page };
        *self.page(id) = AddressPage { block_bytes: class_bytes(class), ..AddressPage::default() };
        self.list(id, class);
        Ok(id)
    }

    /// Makes a page whose blocks are all free idle.
    fn close_page(&mut self, id: PageId, class: usize) {
        self.unlist(id, class);
        *self.page(id) = AddressPage::default();
        let cut = self.regions[id.region].as_mut().expect("the page is in a region");
        cut.idle.push(id.page);
        let (idle, start) = (cut.idle.len(), cut.memory.start().addr().get());
        if idle == 1 {
            self.with_idle.push(id.region);
        }
        // One region with idle pages stays, so that a table around the edge does not take and
        // give back memory with every write.
        if idle == PAGES_PER_REGION && self.with_idle.len() > 1 {
            self.with_idle.retain(|region| *region != id.region);
            self.by_address.remove(&start);
            self.regions[id.region] = None;
        }
    }

    fn open_region(&mut self) -> Result<(), Error> {
        // A table of a few entries, of which there may be a thousand, takes what they need and not 2 MiB.
        let backing = if self.by_address.is_empty() { Backing::Base } else { Backing::Huge };
        let cut = PageCut {
            memory: ZeroedMemory::new(REGION_BYTES, backing)?,
            pages: std::array::from_fn(|_| AddressPage::default()),
            idle: (0..PAGES_PER_REGION).rev().collect(),
        };
        let start = cut.memory.start().addr().get();
        assert!(start.is_multiple_of(REGION_BYTES), "a block's address tells its region");
        let place = self.regions.iter().position(Option::is_none).unwrap_or(self.regions.len());
        if place == self.regions.len() {
            self.regions.push(None);
        }
        self.regions[place] = Some(cut);
        self.by_address.insert(start, place);
        self.with_idle.push(place);
        Ok(())
    }

    fn list(&mut self, id: PageId, class: usize) {
        let place = self.with_room[class].len();
        self.with_room[class].push(id);
        self.page(id).listed_at = Some(place);
    }

    fn unlist(&mut self, id: PageId, class: usize) {
        let place = self.page(id).listed_at.take().expect("the page has room");
        self.with_room[class].swap_remove(place);
        if let Some(moved) = self.with_room[class].get(place).copied() {
            self.page(moved).listed_at = Some(place);
        }
    }
}

fn class_of(bytes: usize) -> usize {
    if bytes <= FINE_BYTES_MAX {
        bytes.div_ceil(FINE_STEP)
    } else {
        FINE_CLASSES + (bytes - FINE_BYTES_MAX).div_ceil(COARSE_STEP)
    }
}

fn class_bytes(class: usize) -> usize {
    if class <= FINE_CLASSES {
        class * FINE_STEP
    } else {
        FINE_BYTES_MAX + (class - FINE_CLASSES) * COARSE_STEP
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::collections::BTreeMap;

    use super::{ArenaPages, BLOCK_BYTES_MAX, PAGE_BYTES, REGION_BYTES, class_bytes, class_of};

    #[test]
    fn a_class_holds_its_sizes_and_no_smaller_one_does() {
        for bytes in (1..=BLOCK_BYTES_MAX).step_by(if cfg!(miri) { 37 } else { 1 }) {
            let class = class_of(bytes);
            assert!(class_bytes(class) >= bytes);
            assert!(class_bytes(class - 1) < bytes);
            assert_eq!(class_of(class_bytes(class)), class);
        }
    }

    /// Against a map of what is handed out: blocks never overlap.
    #[test]
    fn blocks_never_overlap() {
        let mut random = fastrand::Rng::with_seed(64);
        let mut pages = ArenaPages::default();
        let mut live: BTreeMap<usize, usize> = BTreeMap::new();
        let steps = if cfg!(miri) { 200 } else { 50_000 };
        for _ in 0..steps {
            if random.u8(..) < 140 {
                let bytes = 1 + random.usize(..600) * random.usize(1..14) % BLOCK_BYTES_MAX;
                let start = pages.alloc(bytes).unwrap().addr().get();
                assert_eq!(start % 8, 0);
                if let Some((before, len)) = live.range(..=start).next_back() {
                    assert!(before + len <= start);
                }
                if let Some((after, _)) = live.range(start..).next() {
                    assert!(start + bytes <= *after);
                }
                live.insert(start, bytes);
            } else if let Some(start) = live.keys().nth(random.usize(..16)).copied() {
                live.remove(&start);
                pages.free(start);
            }
        }
        for start in live.into_keys() {
            pages.free(start);
        }
        assert_eq!(pages.reserved_bytes(), REGION_BYTES, "one spare region stays");
    }

    #[test]
    fn an_emptied_page_serves_another_class() {
        let mut pages = ArenaPages::default();
        let (sizes, rounds) = if cfg!(miri) {
            (&[2048, 4096, BLOCK_BYTES_MAX][..], 2)
        } else {
            (&[16, 24, 184, 4096, BLOCK_BYTES_MAX][..], 50)
        };
        for bytes in sizes.repeat(rounds) {
            let count = 3 * PAGE_BYTES / bytes;
            let blocks: Vec<_> = (0..count).map(|_| pages.alloc(bytes).unwrap()).collect();
            for block in blocks {
                pages.free(block.addr().get());
            }
        }
        assert_eq!(pages.reserved_bytes(), REGION_BYTES);
    }
}
