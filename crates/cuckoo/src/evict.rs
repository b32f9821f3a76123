//! Making room: a hand that goes round the buckets and takes out what its caller lets go.
//!
//! The table keeps no order of use, since keeping one would make every read a write. Its caller
//! notes use in the headers, as it likes, and says of each entry that the hand meets whether it
//! stays: with one bit that readers set and the hand clears that is CLOCK (Corbato, 1968).

#![expect(
    unsafe_code,
    reason = "headers are read under the writer's lock, before they are retired"
)]

use std::sync::Arc;

use crate::bucket::Word;
use crate::entry::EntryHead;
use crate::limits::EVICT_BUCKETS_MAX;
use crate::primitive::Ordering;
use crate::table::Table;

/// Where the next eviction begins.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hand(usize);

impl<H: Send + Sync + 'static> Table<H> {
    /// Takes entries out until they free `bytes`, looking at a bounded number of buckets from `hand`
    /// on; `stays` decides. Returns the bytes freed, which is less when too much had to stay.
    ///
    /// Entries still to be moved by a growth are not looked at.
    pub fn evict(&self, hand: &mut Hand, bytes: usize, mut stays: impl FnMut(&H) -> bool) -> usize {
        let (shared, mut writer) = self.write();
        let array = Arc::clone(&writer.current);
        let buckets = array.buckets();
        let mut freed = 0;
        for _ in 0..EVICT_BUCKETS_MAX {
            if freed >= bytes {
                break;
            }
            let at = hand.0 % buckets.len();
            hand.0 = at + 1;
            for cell in buckets[at].cells() {
                let word = cell.load();
                let Some(entry) = word.entry() else { continue };
                // SAFETY: an entry in a slot lives until this writer, whose lock is held, frees it.
                let header = unsafe { &entry.as_ref().header };
                if stays(header) {
                    continue;
                }
                // SAFETY: live, as above.
                freed += unsafe { EntryHead::layout_of(entry) }.size();
                cell.store(Word::EMPTY);
                // Relaxed: a count, written under the lock and read as a hint.
                shared.len.store(shared.len.load(Ordering::Relaxed) - 1, Ordering::Relaxed);
                writer.stats.removed += 1;
                writer.retire(word);
            }
        }
        writer.free_retired();
        freed
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn what_was_used_stays_and_the_rest_goes() {
        let table: Table<AtomicBool> = Table::with_capacity(10_000).unwrap();
        let key = |n: u32| n.to_be_bytes();
        for n in 0..10_000 {
            table.insert(&key(n), AtomicBool::new(false), &[0; 100]).unwrap();
        }
        let guard = table.pin();
        for n in (0..10_000).step_by(10) {
            let entry = table.get(&key(n), &guard).unwrap();
            entry.header().store(true, Ordering::Relaxed);
        }
        let mut hand = Hand::default();
        let before = table.memory();
        let mut freed = 0;
        while table.len() > 5000 {
            freed += table.evict(&mut hand, 10_000, |used| used.swap(false, Ordering::Relaxed));
        }
        let after = table.memory();
        let live = |memory: crate::TableMemory| memory.entry_bytes - memory.retired_bytes;
        assert_eq!(live(before) - live(after), freed);
        for n in (0..10_000).step_by(10) {
            assert!(table.get(&key(n), &guard).is_some(), "{n} was used");
        }
        table.check().unwrap();
    }

    #[test]
    fn a_table_that_keeps_everything_ends_the_search() {
        let table: Table<()> = Table::with_capacity(100).unwrap();
        for n in 0..100_u32 {
            table.insert(&n.to_be_bytes(), (), &[]).unwrap();
        }
        assert_eq!(table.evict(&mut Hand::default(), 1, |()| true), 0);
        assert_eq!(table.len(), 100);
    }
}
