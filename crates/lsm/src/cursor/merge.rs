//! Merging: many cursors read as one.

use std::cmp::Ordering;

use super::Cursor;
use crate::batch::EntryKind;
use crate::error::Result;

/// Entries of several cursors in one order.
///
/// The cursors that stand on an entry are kept sorted, the first one last. Sources are few (memtables, L0 files, one
/// per level) and often one of them gives many entries in a row, so moving the front cursor back to its place costs one
/// comparison in the usual case.
pub(crate) struct MergeCursor {
    sources: Vec<Box<dyn Cursor>>,
    /// Places in `sources` of the valid ones, by falling entry.
    order: Vec<usize>,
}

impl MergeCursor {
    /// A cursor over `sources` that stands nowhere yet.
    pub(crate) fn new(sources: Vec<Box<dyn Cursor>>) -> Self {
        let order = Vec::with_capacity(sources.len());
        Self { sources, order }
    }

    fn compare(&self, a: usize, b: usize) -> Ordering {
        let (a, b) = (&self.sources[a], &self.sources[b]);
        a.key().cmp(b.key()).then_with(|| b.seqno().cmp(&a.seqno()))
    }

    fn sort(&mut self) {
        let mut order = std::mem::take(&mut self.order);
        order.clear();
        order.extend((0..self.sources.len()).filter(|&n| self.sources[n].valid()));
        order.sort_by(|&a, &b| self.compare(b, a));
        self.order = order;
    }

    fn front(&self) -> &dyn Cursor {
        let front = *self.order.last().expect("the cursor stands on an entry");
        &*self.sources[front]
    }
}

impl Cursor for MergeCursor {
    fn seek_first(&mut self) -> Result<()> {
        self.sources.iter_mut().try_for_each(|source| source.seek_first())?;
        self.sort();
        Ok(())
    }

    fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.sources.iter_mut().try_for_each(|source| source.seek(key))?;
        self.sort();
        Ok(())
    }

    fn next(&mut self) -> Result<()> {
        let last = self.order.len().checked_sub(1).expect("the cursor stands on an entry");
        let front = self.order[last];
        self.sources[front].next()?;
        if !self.sources[front].valid() {
            self.order.pop();
            return Ok(());
        }
        let mut at = last;
        while at > 0 && self.compare(front, self.order[at - 1]) == Ordering::Greater {
            self.order.swap(at, at - 1);
            at -= 1;
        }
        Ok(())
    }

    fn valid(&self) -> bool {
        !self.order.is_empty()
    }

    fn key(&self) -> &[u8] {
        self.front().key()
    }

    fn value(&self) -> &[u8] {
        self.front().value()
    }

    fn seqno(&self) -> u64 {
        self.front().seqno()
    }

    fn kind(&self) -> EntryKind {
        self.front().kind()
    }
}
