//! Where scans stand: `SCAN` hands out numbers, and lists go on after names.

use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, PoisonError};

use zeroize::Zeroize;

/// Most scans remembered; the oldest is forgotten, which its client is told when it goes on.
const CURSORS_MAX: usize = 4096;
/// What of a number is used: some clients keep cursors as doubles, which hold no more.
const NUMBER_MASK: u64 = (1 << 53) - 1;

/// The scans under way, over all connections: clients with a pool go on elsewhere.
#[derive(Default)]
pub(super) struct Cursors {
    kept: Mutex<KeptCursor>,
    /// Makes numbers that others do not guess.
    hasher: RandomState,
}

#[derive(Default)]
struct KeptCursor {
    count: u64,
    names: VecDeque<(u64, String)>,
}

impl Cursors {
    /// Remembers a name, and returns the number that stands for it.
    pub(super) fn keep(&self, after: String) -> u64 {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.count += 1;
        // Never 0, which starts and ends a scan.
        let number = (self.hasher.hash_one(kept.count) & NUMBER_MASK).max(1);
        if kept.names.len() == CURSORS_MAX {
            kept.names.pop_front();
        }
        kept.names.push_back((number, after));
        number
    }

    /// Forgets all of them, which their clients are told.
    pub(super) fn forget(&self) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.names.drain(..).for_each(|(_, mut name)| name.zeroize());
    }

    /// The name behind a number, which stays good: a client may ask twice.
    pub(super) fn find(&self, number: u64) -> Option<String> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let found = kept.names.iter().rev().find(|(known, _)| *known == number);
        found.map(|(_, after)| after.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_scan_is_forgotten_first() {
        let cursors = Cursors::default();
        let first = cursors.keep("a".into());
        for _ in 1..CURSORS_MAX {
            let number = cursors.keep("b".into());
            assert_eq!(number as f64 as u64, number, "it survives being kept as a double");
        }
        assert_eq!(cursors.find(first).as_deref(), Some("a"));
        cursors.keep("c".into());
        assert_eq!(cursors.find(first), None);
        let last = cursors.keep("d".into());
        cursors.forget();
        assert_eq!(cursors.find(last), None);
    }
}
