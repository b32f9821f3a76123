//! What the Raft log's frames hold.
//!
//! ```text
//! payload    := record*                 the first record of a segment is a state
//! record     := state | hard state | entry | restart
//! state      := 1 u8 | format u32 | store id 16 bytes | node id u64 | engine u64 | last index u64 | last term u64
//!               | term u64 | vote u64 | commit u64 | membership
//! restart    := 4 u8 | the rest of a state
//! membership := voters | learners | outgoing voters | next learners | auto leave u8
//!               each list: count u8 | node id u64 *
//! hard state := 2 u8 | term u64 | vote u64 | commit u64
//! entry      := 3 u8 | type u8 | index u64 | term u64 | length u32 | data
//! ```
//!
//! `last index` and `last term` name the entry before the segment, so that a log whose older segments were purged knows
//! where it starts. `engine` says which of the store's engine directories goes with the log (format 1 has no such number:
//! it is 0). A restart says that nothing before it counts: a snapshot took the place of everything. An entry with an index that was there before takes the place of that one and all behind it.
//! [`PayloadRecords`] reads a payload back and trusts nothing; the frame's checksum is the log's business.
#![warn(clippy::indexing_slicing, clippy::cast_possible_truncation)]

use bytes::Bytes;
use kallisto_codec::ByteReader;
use raft::eraftpb::{ConfState, Entry, EntryType, HardState};

use super::super::limits::{ENTRY_BYTES_MAX, MEMBERS_MAX};
use crate::codec::SharedReader;

/// The number of this layout.
const LOG_FORMAT: u32 = 2;
/// The layout without the number of the engine.
const LOG_FORMAT_ONE: u32 = 1;
const STATE: u8 = 1;
const HARD_STATE: u8 = 2;
const ENTRY: u8 = 3;
const RESTART: u8 = 4;
/// Bytes of a state without members.
const STATE_BYTES_MIN: usize = 1 + 4 + 16 + 7 * 8 + 4 + 1;
/// Bytes of an entry before its data.
pub(crate) const ENTRY_HEADER_BYTES: usize = 22;

/// Which store a log belongs to, and whose log it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LogIdentity {
    /// Drawn when the store was made; the same on every node.
    pub(crate) store_id: [u8; 16],
    /// This server among its peers.
    pub(crate) node_id: u64,
}

/// What a log knows at the start of a segment.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct SegmentState {
    pub(crate) identity: LogIdentity,
    /// The engine that goes with the log.
    pub(crate) engine: u64,
    /// The entry before the segment.
    pub(crate) last_index: u64,
    /// Its term.
    pub(crate) last_term: u64,
    pub(crate) hard_state: HardState,
    pub(crate) membership: ConfState,
}

/// A record that was read.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum LogRecord {
    State(SegmentState),
    /// A state behind which everything begins anew.
    Restart(SegmentState),
    HardState(HardState),
    /// With the offset of its data in the payload.
    Entry(Entry, usize),
}

/// Appends a state.
pub(crate) fn put_state(out: &mut Vec<u8>, state: &SegmentState) {
    out.push(STATE);
    put_state_fields(out, state);
}

/// Appends a restart.
pub(crate) fn put_restart(out: &mut Vec<u8>, state: &SegmentState) {
    out.push(RESTART);
    put_state_fields(out, state);
}

fn put_state_fields(out: &mut Vec<u8>, state: &SegmentState) {
    out.extend_from_slice(&LOG_FORMAT.to_le_bytes());
    out.extend_from_slice(&state.identity.store_id);
    let SegmentState { identity, engine, last_index, last_term, .. } = state;
    for number in [identity.node_id, *engine, *last_index, *last_term] {
        out.extend_from_slice(&number.to_le_bytes());
    }
    put_hard(out, &state.hard_state);
    put_membership(out, &state.membership);
}

/// The most bytes that a state or a hard state takes.
pub(crate) fn state_bytes(membership: &ConfState) -> usize {
    let members = membership.voters.len()
        + membership.learners.len()
        + membership.voters_outgoing.len()
        + membership.learners_next.len();
    STATE_BYTES_MIN + 8 * members
}

/// Appends a hard state.
pub(crate) fn put_hard_state(out: &mut Vec<u8>, hard_state: &HardState) {
    out.push(HARD_STATE);
    put_hard(out, hard_state);
}

/// Appends an entry; returns where its data starts in `out`.
pub(crate) fn put_entry(out: &mut Vec<u8>, entry: &Entry) -> usize {
    let len = u32::try_from(entry.data.len()).expect("ENTRY_BYTES_MAX is below 4 GiB");
    out.push(ENTRY);
    out.push(type_code(entry.entry_type));
    out.extend_from_slice(&entry.index.to_le_bytes());
    out.extend_from_slice(&entry.term.to_le_bytes());
    out.extend_from_slice(&len.to_le_bytes());
    let at = out.len();
    out.extend_from_slice(&entry.data);
    at
}

/// Appends a membership.
pub(crate) fn put_membership(out: &mut Vec<u8>, membership: &ConfState) {
    let lists = [
        &membership.voters,
        &membership.learners,
        &membership.voters_outgoing,
        &membership.learners_next,
    ];
    for list in lists {
        assert!(list.len() <= MEMBERS_MAX, "membership changes respect the limit");
        out.push(list.len().to_le_bytes()[0]);
        list.iter().for_each(|id| out.extend_from_slice(&id.to_le_bytes()));
    }
    out.push(u8::from(membership.auto_leave));
}

fn put_hard(out: &mut Vec<u8>, hard_state: &HardState) {
    for number in [hard_state.term, hard_state.vote, hard_state.commit] {
        out.extend_from_slice(&number.to_le_bytes());
    }
}

/// The number of an entry's type.
pub(crate) fn type_code(entry_type: EntryType) -> u8 {
    match entry_type {
        EntryType::EntryNormal => 0,
        EntryType::EntryConfChange => 1,
        EntryType::EntryConfChangeV2 => 2,
    }
}

/// The type of an entry by its number.
pub(crate) fn entry_type(code: u8) -> Option<EntryType> {
    match code {
        0 => Some(EntryType::EntryNormal),
        1 => Some(EntryType::EntryConfChange),
        2 => Some(EntryType::EntryConfChangeV2),
        _ => None,
    }
}

/// The records of a payload; `None` is damage, and the end.
pub(crate) struct PayloadRecords<'a> {
    reader: SharedReader<'a>,
    damaged: bool,
}

impl<'a> PayloadRecords<'a> {
    /// The records in `payload`.
    pub(crate) fn new(payload: &'a Bytes) -> Self {
        Self { reader: SharedReader::new(payload), damaged: false }
    }

    fn read(&mut self) -> Option<LogRecord> {
        match self.reader.u8()? {
            STATE => Some(LogRecord::State(self.state()?)),
            RESTART => Some(LogRecord::Restart(self.state()?)),
            HARD_STATE => Some(LogRecord::HardState(self.hard()?)),
            ENTRY => self.entry(),
            _ => None,
        }
    }

    fn state(&mut self) -> Option<SegmentState> {
        let format = self.reader.u32()?;
        if !matches!(format, LOG_FORMAT | LOG_FORMAT_ONE) {
            return None;
        }
        let store_id = self.reader.array()?;
        let node_id = self.reader.u64()?;
        let engine = if format == LOG_FORMAT { self.reader.u64()? } else { 0 };
        let (last_index, last_term) = (self.reader.u64()?, self.reader.u64()?);
        let hard_state = self.hard()?;
        let membership = read_membership(&mut self.reader)?;
        let identity = LogIdentity { store_id, node_id };
        Some(SegmentState { identity, engine, last_index, last_term, hard_state, membership })
    }

    fn hard(&mut self) -> Option<HardState> {
        Some(HardState {
            term: self.reader.u64()?,
            vote: self.reader.u64()?,
            commit: self.reader.u64()?,
            ..HardState::default()
        })
    }

    fn entry(&mut self) -> Option<LogRecord> {
        let entry_type = entry_type(self.reader.u8()?)?;
        let (index, term) = (self.reader.u64()?, self.reader.u64()?);
        let len = self.reader.u32()? as usize;
        if len > ENTRY_BYTES_MAX || index == 0 || term == 0 {
            return None;
        }
        let at = self.reader.at();
        let data = self.reader.take_shared(len)?;
        Some(LogRecord::Entry(Entry { entry_type, index, term, data, ..Entry::default() }, at))
    }
}

impl Iterator for PayloadRecords<'_> {
    type Item = Option<LogRecord>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.damaged || self.reader.is_empty() {
            return None;
        }
        let record = self.read();
        self.damaged = record.is_none();
        Some(record)
    }
}

/// Reads a payload, whatever it is: a target of the fuzzers. Returns how many records it found.
#[cfg(any(test, feature = "fuzz"))]
pub(crate) fn read_hostile(bytes: &[u8]) -> usize {
    let bytes = Bytes::copy_from_slice(bytes);
    PayloadRecords::new(&bytes).map_while(|record| record).count()
}

/// The membership at the reader; `None` if there is none.
pub(crate) fn read_membership(reader: &mut ByteReader<'_>) -> Option<ConfState> {
    Some(ConfState {
        voters: read_members(reader)?,
        learners: read_members(reader)?,
        voters_outgoing: read_members(reader)?,
        learners_next: read_members(reader)?,
        auto_leave: match reader.u8()? {
            0 => false,
            1 => true,
            _ => return None,
        },
        ..ConfState::default()
    })
}

fn read_members(reader: &mut ByteReader<'_>) -> Option<Vec<u64>> {
    let count = usize::from(reader.u8()?);
    if count > MEMBERS_MAX {
        return None;
    }
    (0..count).map(|_| reader.u64().filter(|&id| id != 0)).collect()
}

#[cfg(test)]
mod tests {
    #![expect(clippy::indexing_slicing, reason = "tests index what they built")]
    use super::*;

    fn sample() -> (Vec<u8>, Vec<LogRecord>) {
        let hard_state = HardState { term: 3, vote: 1, commit: 9, ..HardState::default() };
        let (voters, learners) = (vec![1, 2, 3], vec![7]);
        let membership = ConfState { voters, learners, ..ConfState::default() };
        let identity = LogIdentity { store_id: [5; 16], node_id: 2 };
        let state = SegmentState {
            identity,
            engine: 6,
            last_index: 9,
            last_term: 2,
            hard_state: hard_state.clone(),
            membership,
        };
        let data = Bytes::from_static(b"batch");
        let entry = Entry { index: 10, term: 3, data, ..Entry::default() };
        let mut bytes = Vec::new();
        put_state(&mut bytes, &state);
        put_hard_state(&mut bytes, &hard_state);
        let at = put_entry(&mut bytes, &entry);
        let records = vec![
            LogRecord::State(state),
            LogRecord::HardState(hard_state),
            LogRecord::Entry(entry, at),
        ];
        (bytes, records)
    }

    #[test]
    fn records_come_back() {
        let (bytes, records) = sample();
        let LogRecord::State(state) = &records[0] else { panic!("the first is a state") };
        let mut alone = Vec::new();
        put_state(&mut alone, state);
        assert_eq!(alone.len(), state_bytes(&state.membership));
        let bytes = Bytes::from(bytes);
        let read: Vec<_> = PayloadRecords::new(&bytes).collect::<Option<_>>().unwrap();
        assert_eq!(read, records);
    }

    #[test]
    fn format_2_is_these_bytes_and_format_1_is_read() {
        let (bytes, _) = sample();
        let number = |n: u8| [n, 0, 0, 0, 0, 0, 0, 0];
        let hard = [number(3), number(1), number(9)].concat();
        let members =
            [&[3][..], &number(1), &number(2), &number(3), &[1], &number(7), &[0, 0, 0]].concat();
        let head = [number(2), number(6), number(9), number(2)].concat();
        let state = [&[1, 2, 0, 0, 0][..], &[5; 16], &head, &hard, &members].concat();
        let entry = [&[3, 0][..], &number(10), &number(3), &[5, 0, 0, 0], b"batch"].concat();
        assert_eq!(bytes, [state, [&[2][..], &hard].concat(), entry].concat());
        let head = [number(2), number(9), number(2)].concat();
        let older = Bytes::from([&[1, 1, 0, 0, 0][..], &[5; 16], &head, &hard, &members].concat());
        let read = PayloadRecords::new(&older).next().unwrap();
        assert!(matches!(read, Some(LogRecord::State(state)) if state.engine == 0));
    }

    #[test]
    fn cut_bytes_are_damage_or_fewer_records() {
        let (bytes, records) = sample();
        for len in 0..bytes.len() {
            let cut = Bytes::copy_from_slice(&bytes[..len]);
            match PayloadRecords::new(&cut).collect::<Option<Vec<_>>>() {
                Some(read) => assert!(read.len() < records.len() && records.starts_with(&read)),
                None => assert!(len > 0),
            }
        }
    }

    fn read(bytes: Vec<u8>) -> Option<Vec<LogRecord>> {
        PayloadRecords::new(&Bytes::from(bytes)).collect()
    }

    #[test]
    fn every_kind_of_record_and_member_comes_back() {
        let most: Vec<u64> = (1..=MEMBERS_MAX as u64).collect();
        let membership = ConfState {
            voters: most,
            learners: vec![u64::MAX],
            voters_outgoing: vec![2, 3],
            learners_next: vec![4],
            auto_leave: true,
            ..ConfState::default()
        };
        let state = SegmentState { engine: 1, membership, ..SegmentState::default() };
        let mut bytes = Vec::new();
        put_restart(&mut bytes, &state);
        assert_eq!(bytes.len(), state_bytes(&state.membership));
        let mut wanted = vec![LogRecord::Restart(state)];
        for (n, entry_type) in (1..).zip([
            EntryType::EntryNormal,
            EntryType::EntryConfChange,
            EntryType::EntryConfChangeV2,
        ]) {
            let entry = Entry { entry_type, index: n, term: n, ..Entry::default() };
            let at = put_entry(&mut bytes, &entry);
            wanted.push(LogRecord::Entry(entry, at));
        }
        assert_eq!(read(bytes), Some(wanted));
    }

    #[test]
    fn what_no_log_says_is_damage() {
        let entry = |index, term| {
            let mut bytes = Vec::new();
            put_entry(&mut bytes, &Entry { index, term, ..Entry::default() });
            bytes
        };
        assert!(read(entry(1, 1)).is_some());
        assert_eq!((read(entry(0, 1)), read(entry(1, 0))), (None, None));
        let mut unknown = entry(1, 1);
        unknown[1] = 3;
        assert_eq!((read(unknown), read(vec![5])), (None, None), "types that nobody knows");
        let mut state = Vec::new();
        put_state(&mut state, &SegmentState::default());
        assert!(read(state.clone()).is_some());
        let mut newer = state.clone();
        newer[1] = 3;
        assert_eq!(read(newer), None, "another format");
        *state.last_mut().unwrap() = 2;
        assert_eq!(read(state), None, "neither true nor false");
    }

    #[test]
    fn members_are_bounded_and_have_numbers() {
        let members = |count: u8, id: u64| {
            let ids = id.to_le_bytes().repeat(usize::from(count));
            read_members(&mut ByteReader::new(&[&[count][..], &ids].concat()))
        };
        let most = u8::try_from(MEMBERS_MAX).unwrap();
        assert_eq!(members(most, 7), Some(vec![7; MEMBERS_MAX]));
        assert_eq!((members(most + 1, 7), members(1, 0)), (None, None));
    }

    #[test]
    fn an_entry_is_as_long_as_its_limit_and_no_longer() {
        for (over, is_read) in [(0, true), (1, false)] {
            let data = Bytes::from(vec![0; ENTRY_BYTES_MAX + over]);
            let mut bytes = Vec::with_capacity(ENTRY_HEADER_BYTES + data.len());
            put_entry(&mut bytes, &Entry { index: 1, term: 1, data, ..Entry::default() });
            assert_eq!(read(bytes).is_some(), is_read);
        }
    }
}
