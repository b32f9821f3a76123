//! The log in memory: where each entry is, and the recent ones themselves.
//!
//! This is what Raft asks ([`Storage`]). The disk is written elsewhere: an entry comes in when Raft hands it out
//! ([`LogIndex::append`]) and is *placed* once it is in a segment. Invariants, checked here and not left to the library:
//! - entries are contiguous, and so are the terms' order;
//! - an entry without a place is in the cache: the cache gives up only placed ones, oldest first;
//! - an entry read back from the disk has the checksum it was written with. A failure to read is remembered in `fault`,
//!   because the library may answer an error with a panic.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use kallisto_lsm::segment_log::SegmentOffset;
use raft::eraftpb::{ConfState, Entry, HardState, Snapshot};
use raft::{GetEntriesContext, RaftState, Storage, StorageError};

use super::super::limits::CACHE_BYTES_MAX;
use crate::Error;

/// What an entry takes in the cache besides its data, in bytes.
const ENTRY_OVERHEAD_BYTES: usize = 96;
/// Places that a queue keeps for what is to come.
const PLACES_KEPT: usize = 1 << 10;

/// Reads entries that are no longer in memory.
pub(crate) trait ColdEntries: Send {
    /// Fills `buf` from `place`.
    fn read(&self, place: SegmentOffset, buf: &mut [u8]) -> Result<(), Error>;
}

/// The log as Raft sees it.
pub(crate) struct LogIndex {
    hard_state: HardState,
    membership: ConfState,
    /// The entry before the first one, by index and term.
    floor: (u64, u64),
    slots: VecDeque<EntrySlot>,
    /// The last so many entries.
    cache: VecDeque<Entry>,
    cache_bytes: usize,
    cold: Option<Box<dyn ColdEntries>>,
    fault: ReadFault,
}

/// The first failure to read an entry, if there was one.
pub(crate) type ReadFault = Arc<OnceLock<Error>>;

/// What is known of an entry that may not be in memory.
#[derive(Clone, Debug)]
struct EntrySlot {
    term: u64,
    place: Option<SegmentOffset>,
    bytes: u32,
    checksum: u32,
    entry_type: raft::eraftpb::EntryType,
}

impl LogIndex {
    /// An index that starts behind the entry `floor`.
    pub(crate) fn new(floor: (u64, u64), hard_state: HardState, membership: ConfState) -> Self {
        Self {
            hard_state,
            membership,
            floor,
            slots: VecDeque::new(),
            cache: VecDeque::new(),
            cache_bytes: 0,
            cold: None,
            fault: ReadFault::default(),
        }
    }

    /// Says how entries are read that the cache gave up.
    pub(crate) fn set_cold(&mut self, cold: Box<dyn ColdEntries>) {
        self.cold = Some(cold);
    }

    /// Takes an entry, which replaces the one of its index and all behind it; or says why it cannot follow.
    pub(crate) fn append(
        &mut self,
        entry: Entry,
        place: Option<SegmentOffset>,
    ) -> Result<(), &'static str> {
        if entry.index <= self.floor.0 {
            return Err("an entry that was purged comes again");
        }
        if entry.index > self.last().0 + 1 {
            return Err("entries are missing");
        }
        let before = Storage::term(self, entry.index - 1).unwrap_or(u64::MAX);
        if entry.term < before {
            return Err("the term goes back");
        }
        let bytes = u32::try_from(entry.data.len()).map_err(|_| "an entry over its limit")?;
        self.truncate(entry.index);
        self.slots.push_back(EntrySlot {
            term: entry.term,
            place,
            bytes,
            checksum: crc32c::crc32c(&entry.data),
            entry_type: entry.entry_type,
        });
        self.cache_bytes += entry.data.len() + ENTRY_OVERHEAD_BYTES;
        self.cache.push_back(entry);
        self.evict();
        Ok(())
    }

    /// Takes note of an entry at or below the floor, which replaces it and everything behind it. Nothing below the floor
    /// is kept; where it is the floor's own, its term is what counts from now on.
    pub(crate) fn rewind(&mut self, entry: &Entry) {
        self.truncate(entry.index);
        if entry.index == self.floor.0 {
            self.floor.1 = entry.term;
        }
    }

    /// Says where an entry was written.
    pub(crate) fn place(&mut self, index: u64, term: u64, place: SegmentOffset) {
        if let Some(slot) = self.slot_mut(index)
            && slot.term == term
        {
            slot.place = Some(place);
        }
    }

    /// Gives up cached entries over the limit.
    pub(crate) fn evict(&mut self) {
        while self.cache_bytes > CACHE_BYTES_MAX && self.cache.len() > 1 {
            let first = self.cache_first();
            if self.slot(first).is_some_and(|slot| slot.place.is_none()) {
                return;
            }
            self.drop_oldest_cached();
        }
    }

    /// Forgets the entries up to `index`, which are in the state machine for good.
    pub(crate) fn compact(&mut self, index: u64) {
        let index = index.min(self.last().0);
        while self.floor.0 < index {
            if self.cache_first() == self.floor.0 + 1 && !self.cache.is_empty() {
                self.drop_oldest_cached();
            }
            let Some(slot) = self.slots.pop_front() else { break };
            self.floor = (self.floor.0 + 1, slot.term);
        }
        shrink(&mut self.slots);
        shrink(&mut self.cache);
    }

    /// The last entry, by index and term.
    pub(crate) fn last(&self) -> (u64, u64) {
        match self.slots.back() {
            Some(slot) => (self.floor.0 + self.slots.len() as u64, slot.term),
            None => self.floor,
        }
    }

    /// The entry before the first one, by index and term.
    pub(crate) fn floor(&self) -> (u64, u64) {
        self.floor
    }

    /// What Raft must not forget.
    pub(crate) fn hard_state(&self) -> &HardState {
        &self.hard_state
    }

    /// Remembers what Raft must not forget.
    pub(crate) fn set_hard_state(&mut self, hard_state: HardState) {
        self.hard_state = hard_state;
    }

    /// Who the members are.
    pub(crate) fn membership(&self) -> &ConfState {
        &self.membership
    }

    /// Remembers who the members are.
    pub(crate) fn set_membership(&mut self, membership: ConfState) {
        self.membership = membership;
    }

    /// Says where to say why an entry could not be read.
    pub(crate) fn set_fault(&mut self, fault: ReadFault) {
        self.fault = fault;
    }

    /// Begins anew behind the entry `floor`, as a snapshot has it.
    pub(crate) fn restore(&mut self, floor: (u64, u64), membership: ConfState) {
        self.floor = floor;
        self.membership = membership;
        self.slots.clear();
        self.cache.clear();
        self.cache_bytes = 0;
    }

    /// Where it will be said why an entry could not be read, should that happen.
    pub(crate) fn fault(&self) -> ReadFault {
        Arc::clone(&self.fault)
    }

    fn truncate(&mut self, from: u64) {
        while self.last().0 >= from && !self.slots.is_empty() {
            self.slots.pop_back();
            if let Some(entry) = self.cache.pop_back() {
                self.cache_bytes -= entry.data.len() + ENTRY_OVERHEAD_BYTES;
            }
        }
    }

    fn drop_oldest_cached(&mut self) {
        if let Some(entry) = self.cache.pop_front() {
            self.cache_bytes -= entry.data.len() + ENTRY_OVERHEAD_BYTES;
        }
    }

    /// The index of the oldest cached entry, were there one.
    fn cache_first(&self) -> u64 {
        self.last().0 + 1 - self.cache.len() as u64
    }

    fn slot(&self, index: u64) -> Option<&EntrySlot> {
        self.slots.get(self.offset(index)?)
    }

    fn slot_mut(&mut self, index: u64) -> Option<&mut EntrySlot> {
        let offset = self.offset(index)?;
        self.slots.get_mut(offset)
    }

    fn offset(&self, index: u64) -> Option<usize> {
        usize::try_from(index.checked_sub(self.floor.0 + 1)?).ok()
    }

    fn entry(&self, index: u64) -> Result<Entry, Error> {
        let first = self.cache_first();
        let cached = index.checked_sub(first).and_then(|at| usize::try_from(at).ok());
        if let Some(entry) = cached.and_then(|at| self.cache.get(at)) {
            return Ok(entry.clone());
        }
        let missing = || Error::Damaged(format!("raft log: entry {index} is nowhere"));
        let slot = self.slot(index).ok_or_else(missing)?;
        let place = slot.place.ok_or_else(missing)?;
        let mut data = vec![0; slot.bytes as usize];
        self.cold.as_ref().ok_or_else(missing)?.read(place, &mut data)?;
        if crc32c::crc32c(&data) != slot.checksum {
            let segment = place.segment;
            let what = format!("raft log: entry {index} in segment {segment:016x} is damaged");
            return Err(Error::Damaged(what));
        }
        Ok(Entry {
            entry_type: slot.entry_type,
            index,
            term: slot.term,
            data: Bytes::from(data),
            ..Entry::default()
        })
    }
}

impl Storage for LogIndex {
    fn initial_state(&self) -> raft::Result<RaftState> {
        Ok(RaftState::new(self.hard_state.clone(), self.membership.clone()))
    }

    fn entries(
        &self,
        low: u64,
        high: u64,
        max_size: impl Into<Option<u64>>,
        _context: GetEntriesContext,
    ) -> raft::Result<Vec<Entry>> {
        if low <= self.floor.0 {
            return Err(raft::Error::Store(StorageError::Compacted));
        }
        if high > self.last().0 + 1 {
            return Err(raft::Error::Store(StorageError::Unavailable));
        }
        let bytes_max = max_size.into().unwrap_or(u64::MAX);
        let mut bytes = 0;
        let mut entries = Vec::new();
        for index in low..high {
            let entry = self.entry(index).map_err(|error| {
                let told = raft::Error::Store(StorageError::Other(error.to_string().into()));
                // The first fault is the one to report.
                let _ = self.fault.set(error);
                told
            })?;
            bytes += entry.data.len() as u64;
            if bytes > bytes_max && !entries.is_empty() {
                break;
            }
            entries.push(entry);
        }
        Ok(entries)
    }

    fn term(&self, index: u64) -> raft::Result<u64> {
        if index == self.floor.0 {
            return Ok(self.floor.1);
        }
        if index < self.floor.0 {
            return Err(raft::Error::Store(StorageError::Compacted));
        }
        let slot = self.slot(index).ok_or(raft::Error::Store(StorageError::Unavailable))?;
        Ok(slot.term)
    }

    fn first_index(&self) -> raft::Result<u64> {
        Ok(self.floor.0 + 1)
    }

    fn last_index(&self) -> raft::Result<u64> {
        Ok(self.last().0)
    }

    /// Where a snapshot would be at least; the state itself is fetched by who needs it, as of then.
    fn snapshot(&self, request_index: u64, _to: u64) -> raft::Result<Snapshot> {
        let (index, term) = self.floor;
        if index < request_index || index == 0 {
            return Err(raft::Error::Store(StorageError::SnapshotTemporarilyUnavailable));
        }
        let mut snapshot = Snapshot::default();
        let metadata = snapshot.mut_metadata();
        (metadata.index, metadata.term) = (index, term);
        metadata.set_conf_state(self.membership.clone());
        Ok(snapshot)
    }
}

/// Gives back what a queue took when it was longer, once it needs an eighth of it.
fn shrink<T>(queue: &mut VecDeque<T>) {
    if queue.capacity() > 8 * queue.len().max(PLACES_KEPT) {
        queue.shrink_to(2 * queue.len().max(PLACES_KEPT));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(index: u64, term: u64, len: usize) -> Entry {
        let data = vec![index as u8; len].into();
        Entry { index, term, data, ..Entry::default() }
    }

    fn index() -> LogIndex {
        let mut index = LogIndex::new((4, 1), HardState::default(), ConfState::default());
        for n in 5..=9 {
            index.append(entry(n, 2, 10), None).unwrap();
        }
        index
    }

    fn read(index: &LogIndex, low: u64, high: u64) -> raft::Result<Vec<u64>> {
        let context = GetEntriesContext::empty(false);
        Ok(index.entries(low, high, None, context)?.iter().map(|entry| entry.index).collect())
    }

    /// Bytes that depend on the place only.
    struct Disk(u8);

    impl ColdEntries for Disk {
        fn read(&self, place: SegmentOffset, buf: &mut [u8]) -> Result<(), Error> {
            buf.fill(place.offset as u8 + self.0);
            Ok(())
        }
    }

    #[test]
    fn an_entry_replaces_what_was_there_and_behind() {
        let mut index = index();
        index.append(entry(7, 3, 10), None).unwrap();
        assert_eq!((index.last(), read(&index, 5, 8).unwrap()), ((7, 3), vec![5, 6, 7]));
        assert_eq!(index.term(6).unwrap(), 2);
        assert!(index.term(8).is_err());
    }

    #[test]
    fn gaps_purged_entries_and_terms_that_go_back_are_refused() {
        let mut index = index();
        for bad in [entry(11, 2, 1), entry(4, 2, 1), entry(10, 1, 1)] {
            assert!(index.append(bad, None).is_err());
        }
        assert_eq!(index.last(), (9, 2));
    }

    #[test]
    fn compaction_keeps_the_term_of_the_last_purged_entry() {
        let mut index = index();
        index.compact(7);
        assert_eq!((index.floor(), index.term(7).unwrap()), ((7, 2), 2));
        assert!(index.term(6).is_err() && read(&index, 7, 9).is_err());
        assert_eq!(read(&index, 8, 10).unwrap(), [8, 9]);
        index.compact(100);
        assert_eq!((index.floor(), index.last()), ((9, 2), (9, 2)));
    }

    #[test]
    fn what_the_cache_gave_up_is_read_from_its_place_and_checked() {
        for (shift, sound) in [(0, true), (1, false)] {
            let mut index = LogIndex::new((0, 0), HardState::default(), ConfState::default());
            index.set_cold(Box::new(Disk(shift)));
            let large = CACHE_BYTES_MAX / 2;
            for n in 1..=4 {
                index.append(entry(n, 1, large), None).unwrap();
            }
            assert_eq!(index.cache.len(), 4, "an entry without a place stays");
            for n in 1..=4 {
                index.place(n, 1, SegmentOffset { segment: 1, offset: n });
            }
            index.evict();
            assert!(index.cache.len() < 3);
            assert_eq!(read(&index, 1, 5).is_ok(), sound);
            assert_eq!(index.fault().get().is_none(), sound);
        }
    }

    /// What holds of an index after each change.
    fn check(index: &LogIndex) {
        let bytes = index.cache.iter().map(|entry| entry.data.len() + ENTRY_OVERHEAD_BYTES);
        assert_eq!(index.cache_bytes, bytes.sum::<usize>());
        assert!(index.cache_bytes <= CACHE_BYTES_MAX || index.cache.len() == 1);
        let cached: Vec<u64> = index.cache.iter().map(|entry| entry.index).collect();
        let (floor, last) = (index.floor().0, index.last().0);
        assert_eq!(cached, (last + 1 - cached.len() as u64..=last).collect::<Vec<_>>());
        assert_eq!(
            (index.slots.len() as u64, cached.len() as u64 <= last - floor),
            (last - floor, true)
        );
    }

    #[test]
    fn it_agrees_with_a_list_of_entries_whatever_is_replaced_or_given_up() {
        let mut dice = fastrand::Rng::with_seed(1);
        let mut index = LogIndex::new((0, 0), HardState::default(), ConfState::default());
        index.set_cold(Box::new(Disk(0)));
        // By index: the term, and how long it is.
        let mut model: Vec<(u64, usize)> = Vec::new();
        let (mut floor, mut term) = ((0, 0), 1);
        for _ in 0..400 {
            let last = floor.0 + model.len() as u64;
            match dice.u8(..10) {
                0 => {
                    let to = floor.0 + dice.u64(..=model.len() as u64);
                    index.compact(to);
                    for (passed, _) in model.drain(..usize::try_from(to - floor.0).unwrap()) {
                        floor = (floor.0 + 1, passed);
                    }
                }
                1 => {
                    term += 1;
                    let from = dice.u64(floor.0.max(1)..=last.max(1));
                    let entry = Entry { index: from, term, ..Entry::default() };
                    if from <= floor.0 {
                        index.rewind(&entry);
                        model.clear();
                        floor.1 = if from == floor.0 { term } else { floor.1 };
                    } else {
                        let place = SegmentOffset { segment: 1, offset: from };
                        index.append(entry, Some(place)).unwrap();
                        model.truncate(usize::try_from(from - floor.0 - 1).unwrap());
                        model.push((term, 0));
                    }
                }
                _ => {
                    let (next, len) = (last + 1, *dice.choice(&[0, 10, 700_000]).unwrap());
                    index.append(entry(next, term, len), None).unwrap();
                    index.place(next, term, SegmentOffset { segment: 1, offset: next });
                    index.evict();
                    model.push((term, len));
                }
            }
            check(&index);
            let last = floor.0 + model.len() as u64;
            assert_eq!(index.floor(), floor);
            assert_eq!(index.last(), model.last().map_or(floor, |(term, _)| (last, *term)));
            let context = GetEntriesContext::empty(false);
            let low = dice.u64(floor.0 + 1..=last + 1);
            let high = dice.u64(low..=(low + 3).min(last + 1));
            let read = index.entries(low, high, None, context).unwrap();
            let read: Vec<_> = read.iter().map(|e| (e.index, e.term, e.data.len())).collect();
            let skip = usize::try_from(low - floor.0 - 1).unwrap();
            let wanted = (low..high).zip(&model[skip..]).map(|(n, (term, len))| (n, *term, *len));
            assert_eq!(read, wanted.collect::<Vec<_>>());
        }
    }

    #[test]
    fn the_one_entry_over_the_limit_stays() {
        let mut index = index();
        (5..=9).for_each(|n| index.place(n, 2, SegmentOffset { segment: 1, offset: n }));
        index.append(entry(10, 2, CACHE_BYTES_MAX + 1), None).unwrap();
        check(&index);
        assert_eq!(index.cache.len(), 1);
        index.place(10, 3, SegmentOffset { segment: 1, offset: 1 });
        assert!(index.slot(10).unwrap().place.is_none(), "what was written is of another term");
    }

    #[test]
    fn entries_are_read_up_to_so_many_bytes_and_one_at_least() {
        let index = index();
        let count = |max: u64| {
            let context = GetEntriesContext::empty(false);
            index.entries(5, 10, max, context).unwrap().len()
        };
        assert_eq!([0, 1, 10, 19, 20, 29, 50, 51].map(count), [1, 1, 1, 1, 2, 2, 5, 5]);
        let refused = |low, high| match read(&index, low, high) {
            Err(raft::Error::Store(error)) => Some(error),
            _ => None,
        };
        assert_eq!(refused(4, 6), Some(StorageError::Compacted));
        assert_eq!(refused(5, 11), Some(StorageError::Unavailable));
        assert_eq!((refused(5, 10), refused(5, 5)), (None, None));
    }

    #[test]
    fn it_says_where_it_begins_and_ends() {
        let mut index = index();
        assert_eq!((index.first_index().unwrap(), index.last_index().unwrap()), (5, 9));
        let term = |index: &LogIndex, of| match index.term(of) {
            Ok(term) => Ok(term),
            Err(raft::Error::Store(error)) => Err(error),
            Err(other) => panic!("{other}"),
        };
        assert_eq!(term(&index, 3), Err(StorageError::Compacted));
        assert_eq!((term(&index, 4), term(&index, 5), term(&index, 9)), (Ok(1), Ok(2), Ok(2)));
        assert_eq!(term(&index, 10), Err(StorageError::Unavailable));
        let membership = ConfState { voters: vec![1, 2], ..ConfState::default() };
        let hard_state = HardState { term: 7, ..HardState::default() };
        index.set_membership(membership.clone());
        index.set_hard_state(hard_state.clone());
        let state = index.initial_state().unwrap();
        assert_eq!((&state.conf_state, &state.hard_state), (&membership, &hard_state));
        assert_eq!((index.membership(), index.hard_state()), (&membership, &hard_state));
        let snapshot = index.snapshot(4, 0).unwrap();
        let metadata = snapshot.get_metadata();
        assert_eq!((metadata.index, metadata.term), (4, 1));
        assert_eq!(metadata.get_conf_state(), &membership);
        assert!(index.snapshot(5, 0).is_err(), "it is not that far");
        index.restore((20, 6), ConfState::default());
        check(&index);
        assert_eq!((index.floor(), index.last()), ((20, 6), (20, 6)));
        let empty = LogIndex::new((0, 0), HardState::default(), ConfState::default());
        assert!(empty.snapshot(0, 0).is_err(), "there is nothing to begin with");
    }

    #[test]
    fn an_entry_that_is_nowhere_or_damaged_is_named() {
        let mut index = index();
        index.place(5, 2, SegmentOffset { segment: 0xab, offset: 6 });
        index.cache.clear();
        index.cache_bytes = 0;
        let said = |index: &LogIndex, n| index.entry(n).unwrap_err().to_string();
        assert!(said(&index, 5).contains("entry 5 is nowhere"), "nobody reads the disk");
        index.set_cold(Box::new(Disk(0)));
        let what = said(&index, 5);
        assert!(what.contains("entry 5 in segment 00000000000000ab is damaged"), "{what}");
        index.place(5, 2, SegmentOffset { segment: 0xab, offset: 5 });
        assert_eq!(index.entry(5).unwrap(), entry(5, 2, 10));
        assert!(said(&index, 6).contains("entry 6 is nowhere"), "it was not written");
    }

    #[test]
    fn a_queue_that_was_long_gives_back_what_it_took() {
        let capacity = |len: usize, reserved: usize| {
            let mut queue: VecDeque<u64> = (0..len as u64).collect();
            queue.reserve_exact(reserved - len);
            let before = queue.capacity();
            shrink(&mut queue);
            (queue.capacity() < before, queue.capacity())
        };
        assert_eq!(capacity(3, 8 * PLACES_KEPT), (false, 8 * PLACES_KEPT));
        assert_eq!(capacity(3, 8 * PLACES_KEPT + 1), (true, 2 * PLACES_KEPT));
        let many = 2 * PLACES_KEPT;
        assert_eq!(capacity(many, 8 * many), (false, 8 * many));
        assert_eq!(capacity(many, 8 * many + 1), (true, 2 * many));
    }
}
