//! All entries of one moment.

#![expect(unsafe_code, reason = "entries are read through addresses that a guard keeps valid")]

use std::fmt;
use std::marker::PhantomData;
use std::ptr::NonNull;

use crate::entry::{Entry, EntryHead};
use crate::reclaim::Guard;

/// The entries a table held when [`Table::iter`](crate::Table::iter) was called: each of them
/// once, and nothing that came later.
pub struct Iter<'g, H> {
    heads: std::vec::IntoIter<NonNull<EntryHead<H>>>,
    guard: PhantomData<&'g Guard>,
}

impl<'g, H> Iter<'g, H> {
    /// The heads were in slots after `guard` was made.
    pub(crate) fn new(heads: Vec<NonNull<EntryHead<H>>>, _guard: &'g Guard) -> Self {
        Self { heads: heads.into_iter(), guard: PhantomData }
    }
}

impl<'g, H: 'g> Iterator for Iter<'g, H> {
    type Item = Entry<'g, H>;

    fn next(&mut self) -> Option<Entry<'g, H>> {
        let head = self.heads.next()?;
        // SAFETY: the head was in a slot under the guard that 'g borrows (`Iter::new`).
        Some(unsafe { Entry::new(head) })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.heads.size_hint()
    }
}

impl<'g, H: 'g> ExactSizeIterator for Iter<'g, H> {}

impl<H> fmt::Debug for Iter<'_, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Iter").field("left", &self.heads.len()).finish()
    }
}
