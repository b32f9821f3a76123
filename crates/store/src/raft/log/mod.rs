//! The Raft log on the disk.
//!
//! It is kept in the engine's kind of segments ([`kallisto_lsm::segment_log`]): one frame for all that one round of the driver
//! has to write, one write, and one sync when the mode asks for it. `record.rs` says what a frame holds, `index.rs` is
//! the log in memory.
//!
//! Invariants:
//! - each segment starts with a state (one that is gone on in after a start has its own already), so the log can be read from any segment on;
//! - a changed term or vote is synced whatever the mode: no server votes twice in a term;
//! - segments are given back only below what the engine has in files, and once a later one is durable; and the engine has
//!   nothing in files that the log has not synced ([`LogSync`]);
//! - `synced` never runs ahead of the disk.

pub(crate) mod index;
pub(crate) mod mark;
pub(crate) mod record;

use std::collections::VecDeque;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use kallisto_lsm::disk::Disk;
use kallisto_lsm::segment_log::{Keeper, Log, PayloadReader, SegmentOffset};
use raft::eraftpb::{ConfState, Entry, HardState};

use self::index::{ColdEntries, LogIndex};
use self::mark::{LogReach, Loss, Mark};
use self::record::{LogIdentity, LogRecord, PayloadRecords, SegmentState};
use super::limits::RESERVE_PART;
use super::lock;
use crate::{Durability, Error, Need};

/// A segment of which no more than this part is written is left as it is when a store closes: reading it costs less than
/// beginning another.
const LEFT_PART: u64 = 64;

/// The writing end of the log.
#[derive(Debug)]
pub(crate) struct RaftLog {
    log: Log,
    /// Bytes of a segment.
    segment_bytes: u64,
    /// The segment being written.
    segment: u64,
    /// Whether its first frame is.
    start_durable: bool,
    /// Segments in use with the highest index that was ever in them, oldest first.
    segments: VecDeque<(u64, u64)>,
    identity: LogIdentity,
    /// The engine that goes with the log.
    engine: u64,
    membership: ConfState,
    hard_state: HardState,
    /// The last entry, by index and term.
    last: (u64, u64),
    /// Commits written and not synced, and when the oldest of them was written.
    unsynced: u64,
    unsynced_since: Duration,
    synced: Arc<AtomicU64>,
    /// Up to where it is synced, for the mark.
    reach: LogReach,
    counters: RaftLogCounters,
}

/// Counters for people.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RaftLogCounters {
    pub(crate) syncs: u64,
    pub(crate) entries: u64,
}

/// What is done with a log that lost what was synced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Losses {
    /// It is not opened.
    #[default]
    Refused,
    /// What is missing is given up: an operator decided so.
    Accepted,
}

/// What [`RaftLog::open`] found.
pub(crate) struct OpenedLog {
    pub(crate) log: RaftLog,
    pub(crate) index: LogIndex,
    pub(crate) keeper: Keeper,
    pub(crate) identity: LogIdentity,
    pub(crate) engine: u64,
    /// What the mark says to be missing.
    pub(crate) loss: Option<Loss>,
}

impl RaftLog {
    /// Opens the log in `dir`, or makes one that starts with `first`, which may refuse. One that is shorter than `mark` says
    /// is opened only where `losses` are accepted.
    pub(crate) fn open(
        disk: Arc<dyn Disk>,
        dir: &Path,
        segment_bytes: u64,
        (mark, losses): (&Mark, Losses),
        first: impl FnOnce() -> Result<SegmentState, Error>,
    ) -> Result<OpenedLog, Error> {
        let mut recovery = Recovery::default();
        let mut log = Log::open(disk, dir, segment_bytes, &mut recovery)?;
        recovery.check_end()?;
        let fresh = recovery.state.is_none();
        let state = match recovery.state.take() {
            Some(state) => state,
            None => first()?,
        };
        let (index, term) = recovery.index.as_ref().map(LogIndex::last).unwrap_or_default();
        let loss = mark.loss(LogReach { end: log.end(), index, term });
        if let (Some(loss), Losses::Refused) = (loss, losses) {
            return Err(Error::Lost(loss.to_string()));
        }
        let mut index = match recovery.index.take() {
            Some(index) => index,
            None => LogIndex::new(
                (state.last_index, state.last_term),
                state.hard_state.clone(),
                state.membership.clone(),
            ),
        };
        if fresh {
            log.make_room(record::state_bytes(&state.membership))?;
            log.append(|out| record::put_state(out, &state))?;
            log.sync()?;
        }
        let keeper = log.keeper();
        index.set_cold(Box::new(Cold(keeper.clone())));
        let mut this = Self {
            log,
            segment_bytes,
            segment: 0,
            start_durable: true,
            segments: recovery.segments,
            identity: state.identity,
            engine: state.engine,
            membership: state.membership,
            hard_state: index.hard_state().clone(),
            last: index.last(),
            unsynced: 0,
            unsynced_since: Duration::ZERO,
            synced: Arc::new(AtomicU64::new(index.last().0)),
            reach: LogReach::default(),
            counters: RaftLogCounters::default(),
        };
        this.reach = this.written();
        let (identity, engine) = this.belongs_to();
        Ok(OpenedLog { log: this, index, keeper, identity, engine, loss })
    }

    /// Makes sure that a group of `bytes` bytes has room, and that what is usual leaves the reserve.
    ///
    /// # Errors
    /// [`Error::Full`] leaves everything as it was.
    pub(crate) fn make_room(&mut self, bytes: usize, need: Need) -> Result<(), Error> {
        let reserve = match need {
            Need::Usual => usize::try_from(self.segment_bytes / RESERVE_PART).unwrap_or_default(),
            Need::Essential => 0,
        };
        // A vote that comes instead has room as well.
        self.log.make_room(bytes + reserve + 2 * record::state_bytes(&self.membership))?;
        Ok(())
    }

    /// Writes entries and a hard state; room was made. Returns where each entry's data is.
    pub(crate) fn append(
        &mut self,
        entries: &[Entry],
        hard_state: &HardState,
        now: Duration,
    ) -> Result<Vec<SegmentOffset>, Error> {
        let bytes: usize =
            entries.iter().map(|entry| entry.data.len() + record::ENTRY_HEADER_BYTES).sum();
        let segment = self.log.make_room(bytes + record::state_bytes(&self.membership))?;
        self.resume(segment);
        let starts_segment = segment != self.segment;
        if starts_segment {
            // A segment is synced before the next one is written, so what came before is durable.
            self.note_synced();
        }
        let mut offsets = Vec::with_capacity(entries.len());
        let mut base = 0;
        let (last_index, last_term) = self.last;
        let place = self.log.append(|out| {
            base = out.len();
            if starts_segment {
                let state = SegmentState {
                    identity: self.identity,
                    engine: self.engine,
                    last_index,
                    last_term,
                    hard_state: hard_state.clone(),
                    membership: self.membership.clone(),
                };
                record::put_state(out, &state);
            } else if *hard_state != self.hard_state {
                record::put_hard_state(out, hard_state);
            }
            offsets.extend(entries.iter().map(|entry| record::put_entry(out, entry) - base));
        })?;
        if starts_segment {
            self.segments.push_back((segment, 0));
            self.segment = segment;
            self.start_durable = false;
        }
        self.hard_state = hard_state.clone();
        self.note_written(entries, now);
        let at = |offset: usize| SegmentOffset { offset: place.offset + offset as u64, ..place };
        Ok(offsets.into_iter().map(at).collect())
    }

    /// Takes note that the log goes on in the last segment that was read: it has its state, which is durable.
    fn resume(&mut self, segment: u64) {
        if self.segment == 0 && self.segments.back().is_some_and(|(last, _)| *last == segment) {
            self.segment = segment;
        }
    }

    /// Begins anew behind `state`'s entry, durably: nothing that was written before counts any more.
    pub(crate) fn restart(&mut self, state: &SegmentState) -> Result<(), Error> {
        let segment = self.log.make_room(record::state_bytes(&state.membership))?;
        self.resume(segment);
        self.log.append(|out| record::put_restart(out, state))?;
        for (_, highest) in &mut self.segments {
            *highest = 0;
        }
        if segment != self.segment {
            self.segments.push_back((segment, 0));
            self.segment = segment;
            self.start_durable = false;
        }
        self.identity = state.identity;
        self.engine = state.engine;
        self.membership = state.membership.clone();
        self.hard_state = state.hard_state.clone();
        self.last = (state.last_index, state.last_term);
        self.sync()
    }

    /// Begins anew behind an entry that the engine has and this log lost, of which nothing is known but that it is of no
    /// later term than the last that is known here. Returns the index that goes with it.
    pub(crate) fn restart_behind(
        &mut self,
        applied: u64,
        lost: &LogIndex,
    ) -> Result<LogIndex, Error> {
        let hard_state = HardState { commit: applied, ..lost.hard_state().clone() };
        self.restart(&SegmentState {
            identity: self.identity,
            engine: self.engine,
            last_index: applied,
            last_term: hard_state.term,
            hard_state: hard_state.clone(),
            membership: lost.membership().clone(),
        })?;
        Ok(self.fresh_index(hard_state, lost.fault()))
    }

    /// Begins another segment if the one being written holds much and nothing above `index`, so that it may be given back.
    /// The new one is durable when this returns.
    pub(crate) fn leave_behind(&mut self, index: u64) -> Result<(), Error> {
        if self.log.written_bytes() <= self.segment_bytes / LEFT_PART || self.last.0 > index {
            return Ok(());
        }
        self.log.end_segment()?;
        let hard_state = self.hard_state.clone();
        // No entries, so nothing that waits for a sync, and no time that it waits since.
        self.append(&[], &hard_state, Duration::ZERO)?;
        self.sync()
    }

    /// An index of a log that begins behind `floor`, with this log's entries to come.
    pub(crate) fn fresh_index(&self, hard_state: HardState, fault: index::ReadFault) -> LogIndex {
        let mut index = LogIndex::new(self.last, hard_state, self.membership.clone());
        index.set_cold(Box::new(Cold(self.log.keeper())));
        index.set_fault(fault);
        index
    }

    /// Remembers who the members are from now on.
    pub(crate) fn set_membership(&mut self, membership: ConfState) {
        self.membership = membership;
    }

    /// Which store's log it is, and which engine goes with it.
    pub(crate) fn belongs_to(&self) -> (LogIdentity, u64) {
        (self.identity, self.engine)
    }

    /// Makes everything written durable.
    pub(crate) fn sync(&mut self) -> Result<(), Error> {
        self.log.sync()?;
        self.start_durable = true;
        self.counters.syncs += 1;
        self.note_synced();
        Ok(())
    }

    /// When the mode wants the next sync, if something waits for one.
    pub(crate) fn sync_due(&self, mode: Durability) -> Option<Duration> {
        match mode {
            _ if self.unsynced == 0 => None,
            Durability::Strict => Some(Duration::ZERO),
            Durability::Batch { ops, .. } if self.unsynced >= ops => Some(Duration::ZERO),
            Durability::Batch { interval, .. } => Some(self.unsynced_since + interval),
        }
    }

    /// The hard state that was written last.
    pub(crate) const fn hard_state(&self) -> &HardState {
        &self.hard_state
    }

    /// The segment being written.
    pub(crate) fn segment(&self) -> u64 {
        self.segment
    }

    /// Whose log it is.
    pub(crate) fn node_id(&self) -> u64 {
        self.identity.node_id
    }

    /// Commits written and not synced.
    pub(crate) fn unsynced(&self) -> u64 {
        self.unsynced
    }

    /// The segment below which all hold only entries up to `index`; forgets those. Nothing is given up before the
    /// segment that takes its place as the log's start is durable: its state is all that will say where the log starts.
    pub(crate) fn purge(&mut self, index: u64) -> Result<u64, Error> {
        while let Some(&(segment, last)) = self.segments.front() {
            let current = self.segment == 0 || segment == self.segment;
            if current || last > index {
                return Ok(segment);
            }
            if !self.start_durable {
                self.sync()?;
            }
            self.segments.pop_front();
        }
        Ok(self.segment)
    }

    /// Up to where it is synced.
    pub(crate) fn reach(&self) -> LogReach {
        self.reach
    }

    /// Up to where it is written.
    fn written(&self) -> LogReach {
        let (index, term) = self.last;
        LogReach { end: self.log.end(), index, term }
    }

    /// Counters for people.
    pub(crate) fn counters(&self) -> RaftLogCounters {
        self.counters
    }

    /// What makes this log durable for the engine above whose files it must stay ahead of.
    pub(crate) fn synced(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.synced)
    }

    fn note_written(&mut self, entries: &[Entry], now: Duration) {
        let Some(last) = entries.last() else { return };
        self.last = (last.index, last.term);
        if let Some((_, highest)) = self.segments.back_mut() {
            *highest = (*highest).max(last.index);
        }
        if self.unsynced == 0 {
            self.unsynced_since = now;
        }
        // What was replaced is synced no more.
        self.synced.fetch_min(entries[0].index - 1, Ordering::AcqRel);
        self.unsynced += entries.len() as u64;
        self.counters.entries += entries.len() as u64;
    }

    fn note_synced(&mut self) {
        self.unsynced = 0;
        self.reach = self.written();
        // Release: who reads it may write files that need the log up to here.
        self.synced.store(self.last.0, Ordering::Release);
    }
}

/// The log's promise to the engine: whatever goes into files is durable in the log before.
#[derive(Debug, Default)]
pub(crate) struct LogSync {
    log: OnceLock<(Arc<Mutex<RaftLog>>, Arc<AtomicU64>)>,
}

impl LogSync {
    /// Says which log it is.
    pub(crate) fn set(&self, log: Arc<Mutex<RaftLog>>) {
        let synced = lock(&log).synced();
        let first = self.log.set((log, synced)).is_ok();
        assert!(first, "an engine has one log");
    }
}

impl kallisto_lsm::OuterLog for LogSync {
    fn sync_to(&self, position: u64) -> kallisto_lsm::Result<()> {
        let Some((log, synced)) = self.log.get() else { return Ok(()) };
        // Acquire: pairs with the release behind a sync.
        if synced.load(Ordering::Acquire) >= position {
            return Ok(());
        }
        let result = lock(log).sync();
        result.map_err(|error| kallisto_lsm::Error::Poisoned(error.to_string()))
    }
}

struct Cold(Keeper);

impl ColdEntries for Cold {
    fn read(&self, place: SegmentOffset, buf: &mut [u8]) -> Result<(), Error> {
        Ok(self.0.read(place, buf)?)
    }
}

/// Reads the log back.
#[derive(Default)]
struct Recovery {
    state: Option<SegmentState>,
    index: Option<LogIndex>,
    segments: VecDeque<(u64, u64)>,
    /// The last entry, while that is one below the log's start: entries were replaced whose first ones lay in segments that
    /// were given back. All of them are in the engine's files, so they are counted here and not kept.
    below: Option<u64>,
}

impl Recovery {
    /// An entry at or below the log's start, which replaces it and everything behind it.
    fn replaces_below(&mut self, entry: &Entry) -> Result<(), &'static str> {
        let Some(index) = &mut self.index else {
            return Err("a segment does not start with a state");
        };
        if self.below.is_some_and(|below| entry.index > below + 1) {
            return Err("entries are missing");
        }
        index.rewind(entry);
        self.below = (entry.index < index.floor().0).then_some(entry.index);
        Ok(())
    }

    /// What is wrong with a log that ends here.
    fn check_end(&self) -> Result<(), Error> {
        match self.below {
            None => Ok(()),
            Some(below) => {
                let what = format!("raft log: it ends at {below}, before where it starts");
                Err(Error::Damaged(what))
            }
        }
    }

    fn begin(&mut self, state: SegmentState) -> Result<(), &'static str> {
        let floor = (state.last_index, state.last_term);
        let (hard_state, membership) = (state.hard_state.clone(), state.membership.clone());
        self.index = Some(LogIndex::new(floor, hard_state, membership));
        self.below = None;
        self.state = Some(state);
        Ok(())
    }

    fn record(&mut self, record: LogRecord, place: SegmentOffset) -> Result<(), &'static str> {
        match (record, &mut self.index) {
            (LogRecord::State(state) | LogRecord::Restart(state), None) => self.begin(state),
            (LogRecord::Restart(state), Some(_)) => {
                for (_, highest) in &mut self.segments {
                    *highest = 0;
                }
                self.begin(state)
            }
            (LogRecord::State(state), Some(index)) => {
                let known = self.state.as_ref().map(|known| known.identity);
                let last = self.below.unwrap_or(index.last().0);
                if known != Some(state.identity) || last != state.last_index {
                    return Err("a segment of another log");
                }
                index.set_hard_state(state.hard_state);
                Ok(())
            }
            (LogRecord::HardState(hard_state), Some(index)) => {
                index.set_hard_state(hard_state);
                Ok(())
            }
            (LogRecord::Entry(entry, offset), Some(index)) => {
                if let Some((_, highest)) = self.segments.back_mut() {
                    *highest = (*highest).max(entry.index);
                }
                if entry.index <= index.floor().0 {
                    return self.replaces_below(&entry);
                }
                if self.below.is_some() {
                    return Err("entries are missing");
                }
                let place = SegmentOffset { offset: place.offset + offset as u64, ..place };
                index.append(entry, Some(place))
            }
            (LogRecord::HardState(_) | LogRecord::Entry(..), None) => {
                Err("a segment does not start with a state")
            }
        }
    }
}

impl PayloadReader for Recovery {
    fn payload(&mut self, place: SegmentOffset, payload: &[u8]) -> kallisto_lsm::Result<()> {
        if self.segments.back().is_none_or(|(segment, _)| *segment != place.segment) {
            self.segments.push_back((place.segment, 0));
        }
        let payload = Bytes::copy_from_slice(payload);
        let records = PayloadRecords::new(&payload)
            .try_for_each(|record| self.record(record.ok_or("a record cannot be read")?, place));
        records.map_err(|what| kallisto_lsm::Error::Corrupt {
            file: format!("{:016x}.wal", place.segment).into(),
            offset: place.offset,
            what,
        })
    }

    fn restart(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A log whose first segment that is left starts behind entry 5 of term 2.
    fn after_five() -> Recovery {
        let mut recovery = Recovery::default();
        let state = SegmentState {
            identity: LogIdentity { store_id: [7; 16], node_id: 1 },
            engine: 0,
            last_index: 5,
            last_term: 2,
            hard_state: HardState::default(),
            membership: ConfState { voters: vec![1, 2, 3], ..ConfState::default() },
        };
        recovery.record(LogRecord::State(state), SegmentOffset { segment: 7, offset: 40 }).unwrap();
        recovery
    }

    fn read(recovery: &mut Recovery, index: u64, term: u64) -> Result<(), &'static str> {
        let entry = Entry { index, term, ..Entry::default() };
        recovery.record(LogRecord::Entry(entry, 0), SegmentOffset { segment: 7, offset: 80 })
    }

    /// Found by the simulator (seed 1): a server whose unconfirmed entries were replaced did not start again once the segment
    /// they began in was given back.
    #[test]
    fn entries_that_replace_what_was_given_back_are_counted_and_not_kept() {
        let mut recovery = after_five();
        (3..=6).for_each(|index| read(&mut recovery, index, 3).unwrap());
        let index = recovery.index.as_ref().unwrap();
        assert_eq!((index.floor(), index.last()), ((5, 3), (6, 3)));
        assert_eq!(recovery.check_end(), Ok(()));
        read(&mut recovery, 4, 4).unwrap();
        assert!(recovery.check_end().is_err(), "it ends before where it starts");
        assert_eq!(read(&mut recovery, 6, 4), Err("entries are missing"));
        (5..=6).for_each(|index| read(&mut recovery, index, 4).unwrap());
        assert_eq!(recovery.index.as_ref().unwrap().last(), (6, 4));
    }
}
