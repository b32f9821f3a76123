//! Raft's messages as bytes between peers, in a layout of ours.
//!
//! ```text
//! message := format u8 (1) | type u8 | flags u8 | to u64 | from u64 | term u64 | log term u64 | index u64 | commit u64
//!            | commit term u64 | reject hint u64 | request snapshot u64 | priority u64
//!            | snapshot index u64 | snapshot term u64 | context length u8 | context | entries u32 | entry*
//! entry   := type u8 | index u64 | term u64 | length u32 | data
//! ```
//!
//! Flag 1 is `reject`. A read's question and its answer carry the read's number as their context. A snapshot message carries where the sender's state is and nothing of it: who is so far behind
//! comes and fetches it. Only what one server may say to another is encoded at all: a message of another type is neither
//! sent nor believed. The decoder is total and allocates nothing for a count that the bytes cannot hold.
#![warn(clippy::indexing_slicing, clippy::cast_possible_truncation)]

use bytes::Bytes;
use raft::eraftpb::{Entry, EntryType, Message, MessageType, Snapshot};

use super::limits::ENTRY_BYTES_MAX;
use super::log::record::{entry_type, type_code};
use super::node::READ_NUMBER_BYTES;
use crate::codec::SharedReader;

/// The number of this layout.
const WIRE_FORMAT: u8 = 1;
const REJECT: u8 = 1;
/// The longest context, in bytes: a read's number, or the library's mark of a transfer.
const CONTEXT_BYTES_MAX: usize = 64;
/// Fewest bytes of an entry.
const ENTRY_BYTES_MIN: usize = 21;

/// The types that peers send, by their number on the wire.
const TYPES: [MessageType; 12] = [
    MessageType::MsgAppend,
    MessageType::MsgAppendResponse,
    MessageType::MsgRequestVote,
    MessageType::MsgRequestVoteResponse,
    MessageType::MsgRequestPreVote,
    MessageType::MsgRequestPreVoteResponse,
    MessageType::MsgHeartbeat,
    MessageType::MsgHeartbeatResponse,
    MessageType::MsgSnapshot,
    MessageType::MsgTimeoutNow,
    MessageType::MsgReadIndex,
    MessageType::MsgReadIndexResp,
];

/// Whether a message asks for a read or answers one: the library keeps its number as an entry, which it is not.
fn is_read(msg_type: MessageType) -> bool {
    matches!(msg_type, MessageType::MsgReadIndex | MessageType::MsgReadIndexResp)
}

/// The bytes of a message; `None` if peers do not say such things.
pub(crate) fn encode(message: &Message) -> Option<Vec<u8>> {
    let code = TYPES.iter().position(|known| *known == message.msg_type)?;
    let (context, entries) = match (is_read(message.msg_type), &*message.entries) {
        (true, [number]) => (&number.data, &[][..]),
        (true, _) => return None,
        (false, entries) => (&message.context, entries),
    };
    if context.len() > CONTEXT_BYTES_MAX {
        return None;
    }
    let bytes: usize = entries.iter().map(|e| ENTRY_BYTES_MIN + e.data.len()).sum();
    let mut out = Vec::with_capacity(128 + context.len() + bytes);
    out.push(WIRE_FORMAT);
    out.push(code.to_le_bytes()[0]);
    out.push(if message.reject { REJECT } else { 0 });
    let metadata = message.get_snapshot().get_metadata();
    let numbers = [
        message.to,
        message.from,
        message.term,
        message.log_term,
        message.index,
        message.commit,
        message.commit_term,
        message.reject_hint,
        message.request_snapshot,
        message.priority.cast_unsigned(),
        metadata.index,
        metadata.term,
    ];
    numbers.iter().for_each(|number| out.extend_from_slice(&number.to_le_bytes()));
    out.push(context.len().to_le_bytes()[0]);
    out.extend_from_slice(context);
    let count = u32::try_from(entries.len()).ok()?;
    out.extend_from_slice(&count.to_le_bytes());
    for entry in entries {
        out.push(type_code(entry.entry_type));
        out.extend_from_slice(&entry.index.to_le_bytes());
        out.extend_from_slice(&entry.term.to_le_bytes());
        out.extend_from_slice(&u32::try_from(entry.data.len()).ok()?.to_le_bytes());
        out.extend_from_slice(&entry.data);
    }
    Some(out)
}

/// The message in `bytes`; `None` if they are none.
pub(crate) fn decode(bytes: &Bytes) -> Option<Message> {
    let mut reader = SharedReader::new(bytes);
    if reader.u8()? != WIRE_FORMAT {
        return None;
    }
    let msg_type = *TYPES.get(usize::from(reader.u8()?))?;
    let reject = match reader.u8()? {
        0 => false,
        REJECT => true,
        _ => return None,
    };
    let mut message = Message { msg_type, reject, ..Message::default() };
    message.to = reader.u64()?;
    message.from = reader.u64().filter(|&from| from != 0)?;
    message.term = reader.u64()?;
    message.log_term = reader.u64()?;
    message.index = reader.u64()?;
    message.commit = reader.u64()?;
    message.commit_term = reader.u64()?;
    message.reject_hint = reader.u64()?;
    message.request_snapshot = reader.u64()?;
    message.priority = reader.u64()?.cast_signed();
    let (index, term) = (reader.u64()?, reader.u64()?);
    if msg_type == MessageType::MsgSnapshot {
        let mut snapshot = Snapshot::default();
        snapshot.mut_metadata().index = index;
        snapshot.mut_metadata().term = term;
        message.set_snapshot(snapshot);
    } else if (index, term) != (0, 0) {
        return None;
    }
    let context = usize::from(reader.u8()?);
    if context > CONTEXT_BYTES_MAX {
        return None;
    }
    message.context = reader.take_shared(context)?;
    let count = usize::try_from(reader.u32()?).ok()?;
    if count > (bytes.len() - reader.at()) / ENTRY_BYTES_MIN {
        return None;
    }
    let mut entries = Vec::with_capacity(count);
    for _ in 0..count {
        entries.push(read_entry(&mut reader)?);
    }
    // Entries follow each other: the log checks it as well, and refuses by ending the store.
    let after = |at: u64| message.index.checked_add(at);
    let contiguous = entries.iter().zip(1..).all(|(entry, at)| after(at) == Some(entry.index));
    let sorted = entries.is_sorted_by_key(|entry| entry.term);
    let belongs = entries.is_empty() || msg_type == MessageType::MsgAppend;
    if is_read(msg_type) {
        // The library takes for granted that it is there.
        let number = std::mem::take(&mut message.context);
        if number.len() != READ_NUMBER_BYTES {
            return None;
        }
        entries.push(Entry { data: number, ..Entry::default() });
    }
    message.set_entries(entries.into());
    (contiguous && sorted && belongs && reader.is_empty()).then_some(message)
}

fn read_entry(reader: &mut SharedReader<'_>) -> Option<Entry> {
    let entry_type = entry_type(reader.u8()?)?;
    let (index, term) = (reader.u64()?, reader.u64()?);
    let len = usize::try_from(reader.u32()?).ok().filter(|&len| len <= ENTRY_BYTES_MAX)?;
    let data = reader.take_shared(len)?;
    let known = match entry_type {
        EntryType::EntryNormal => true,
        EntryType::EntryConfChange => false,
        EntryType::EntryConfChangeV2 => super::members::read_change(&data).is_some(),
    };
    let sound = known && index != 0 && term != 0;
    sound.then(|| Entry { entry_type, index, term, data, ..Entry::default() })
}

/// Decodes whatever it is given: a target of the fuzzers. What is understood is encoded to the same bytes again.
#[cfg(any(test, feature = "fuzz"))]
pub(crate) fn decode_hostile(bytes: &[u8]) -> usize {
    let bytes = Bytes::copy_from_slice(bytes);
    let Some(message) = decode(&bytes) else { return 0 };
    assert_eq!(encode(&message).as_deref(), Some(&bytes[..]), "one encoding of a message");
    message.entries.len()
}

#[cfg(test)]
mod tests {
    #![expect(clippy::indexing_slicing, reason = "tests index what they built")]
    use super::*;

    fn sample() -> Message {
        let entry = |index, data: &'static [u8]| Entry {
            index,
            term: 4,
            data: Bytes::from_static(data),
            ..Entry::default()
        };
        let mut message = Message {
            msg_type: MessageType::MsgAppend,
            to: 2,
            from: 1,
            term: 4,
            log_term: 3,
            index: 9,
            commit: 8,
            priority: -1,
            ..Message::default()
        };
        message.set_entries(vec![entry(10, b"one"), entry(11, b"")].into());
        message
    }

    #[test]
    fn a_message_is_these_bytes() {
        let bytes = encode(&sample()).unwrap();
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let wanted = concat!(
            "010000020000000000000001000000000000000400000000000000030000000000000009000000000000000800000000",
            "000000000000000000000000000000000000000000000000000000ffffffffffffffff00000000000000000000000000",
            "0000000002000000000a000000000000000400000000000000030000006f6e65000b0000000000000004000000000000",
            "0000000000",
        );
        assert_eq!(hex, wanted);
    }

    #[test]
    fn messages_come_back() {
        let mut snapshot = Message { msg_type: MessageType::MsgSnapshot, from: 1, ..sample() };
        snapshot.set_entries(Vec::new().into());
        snapshot.mut_snapshot().mut_metadata().index = 77;
        snapshot.mut_snapshot().mut_metadata().term = 3;
        let vote = Message {
            msg_type: MessageType::MsgRequestPreVote,
            from: 3,
            reject: true,
            context: Bytes::from_static(b"CampaignTransfer"),
            ..Message::default()
        };
        let mut read =
            Message { msg_type: MessageType::MsgReadIndex, from: 3, ..Message::default() };
        let number = Bytes::from_static(&[7; READ_NUMBER_BYTES]);
        read.set_entries(vec![Entry { data: number, ..Entry::default() }].into());
        let answer = Message { msg_type: MessageType::MsgReadIndexResp, index: 9, ..read.clone() };
        for message in [sample(), snapshot, vote, read, answer] {
            let bytes = Bytes::from(encode(&message).unwrap());
            assert_eq!(decode(&bytes), Some(message));
        }
    }

    #[test]
    fn what_no_peer_says_is_not_encoded() {
        // The last for want of a number.
        for msg_type in [MessageType::MsgHup, MessageType::MsgPropose, MessageType::MsgReadIndex] {
            assert_eq!(encode(&Message { msg_type, from: 1, ..Message::default() }), None);
        }
    }

    #[test]
    fn cut_bytes_gaps_and_terms_that_go_back_are_refused() {
        let bytes = Bytes::from(encode(&sample()).unwrap());
        for len in 0..bytes.len() {
            assert_eq!(decode(&bytes.slice(..len)), None);
        }
        let mut gap = sample();
        gap.index = 8;
        let mut back = sample();
        back.entries[1].term = 3;
        for bad in [gap, back] {
            assert_eq!(decode(&Bytes::from(encode(&bad).unwrap())), None);
        }
    }

    /// The bytes of a message, one of them another.
    fn with_byte(message: &Message, at: usize, byte: u8) -> Bytes {
        let mut bytes = encode(message).unwrap();
        bytes[at] = byte;
        bytes.into()
    }

    /// Where the fields are that are changed below.
    const FLAGS: usize = 2;
    const FROM: usize = 11;
    const SNAPSHOT_INDEX: usize = 83;
    const SNAPSHOT_TERM: usize = 91;

    fn without_entries(msg_type: MessageType) -> Message {
        Message { msg_type, from: 1, to: 2, term: 4, ..Message::default() }
    }

    #[test]
    fn what_is_no_message_of_a_peer_is_refused() {
        let vote = without_entries(MessageType::MsgRequestVote);
        assert!(decode(&with_byte(&vote, FLAGS, REJECT)).unwrap().reject);
        let types = u8::try_from(TYPES.len()).unwrap();
        let wrong =
            [(0, 2), (1, types), (FLAGS, 2), (FROM, 0), (SNAPSHOT_INDEX, 1), (SNAPSHOT_TERM, 1)];
        for (at, byte) in wrong {
            assert_eq!(decode(&with_byte(&vote, at, byte)), None, "byte {at}");
        }
        let longer = [&encode(&vote).unwrap()[..], &[0]].concat();
        assert_eq!(decode(&longer.into()), None);
        let place = without_entries(MessageType::MsgSnapshot);
        let place = decode(&with_byte(&place, SNAPSHOT_TERM, 7)).unwrap();
        assert_eq!(place.get_snapshot().get_metadata().term, 7);
    }

    #[test]
    fn a_context_is_as_long_as_its_limit_lets_it() {
        let of = |bytes: usize| Message {
            context: vec![1; bytes].into(),
            ..without_entries(MessageType::MsgHeartbeat)
        };
        let longest = Bytes::from(encode(&of(CONTEXT_BYTES_MAX)).unwrap());
        assert_eq!(decode(&longest), Some(of(CONTEXT_BYTES_MAX)));
        assert_eq!(encode(&of(CONTEXT_BYTES_MAX + 1)), None);
        let at = longest.len() - CONTEXT_BYTES_MAX - 5;
        let mut longer = longest.to_vec();
        longer[at] += 1;
        longer.insert(at + 1, 1);
        assert_eq!(decode(&longer.into()), None);
    }

    #[test]
    fn a_read_has_one_number_and_all_of_it() {
        let of = |lengths: &[usize]| {
            let mut read = without_entries(MessageType::MsgReadIndexResp);
            let numbers = lengths.iter();
            let number = |&bytes: &usize| Entry { data: vec![1; bytes].into(), ..Entry::default() };
            read.set_entries(numbers.map(number).collect::<Vec<_>>().into());
            encode(&read).map(|bytes| decode(&bytes.into()).is_some())
        };
        assert_eq!(of(&[READ_NUMBER_BYTES]), Some(true));
        assert_eq!(of(&[READ_NUMBER_BYTES - 1]), Some(false));
        assert_eq!(of(&[READ_NUMBER_BYTES + 1]), Some(false));
        assert_eq!(of(&[READ_NUMBER_BYTES; 2]), None);
    }

    /// Whether a message that brings this entry behind `index` is believed.
    fn is_believed(index: u64, entry: Entry) -> bool {
        let mut message = without_entries(MessageType::MsgAppend);
        message.index = index;
        message.set_entries(vec![entry].into());
        decode(&encode(&message).unwrap().into()).is_some()
    }

    #[test]
    fn an_entry_has_an_index_a_term_and_a_type_that_the_log_knows() {
        let entry = Entry { index: 1, term: 1, ..Entry::default() };
        assert!(is_believed(0, entry.clone()));
        assert!(!is_believed(0, Entry { term: 0, ..entry.clone() }));
        assert!(!is_believed(u64::MAX, Entry { index: 0, ..entry.clone() }));
        let of_type = |entry_type, data: &'static [u8]| Entry {
            entry_type,
            data: Bytes::from_static(data),
            ..entry.clone()
        };
        assert!(!is_believed(0, of_type(EntryType::EntryConfChange, b"")));
        assert!(is_believed(0, of_type(EntryType::EntryConfChangeV2, b"")));
        assert!(!is_believed(0, of_type(EntryType::EntryConfChangeV2, b"nonsense")));
        let long = |bytes: usize| Entry { data: vec![0; bytes].into(), ..entry.clone() };
        assert!(is_believed(0, long(ENTRY_BYTES_MAX)));
        assert!(!is_believed(0, long(ENTRY_BYTES_MAX + 1)));
    }

    #[test]
    fn only_who_appends_brings_entries() {
        let mut message = sample();
        message.entries.iter_mut().for_each(|entry| entry.data = Bytes::new());
        let bytes = Bytes::from(encode(&message).unwrap());
        assert_eq!(decode(&bytes).unwrap().entries.len(), 2, "as many as the bytes hold");
        for msg_type in TYPES.into_iter().filter(|&known| !is_read(known)) {
            let other = Message { msg_type, ..message.clone() };
            let is_append = msg_type == MessageType::MsgAppend;
            let read = decode(&encode(&other).unwrap().into());
            assert_eq!(read.is_some(), is_append, "{msg_type:?}");
        }
    }

    #[test]
    fn whatever_the_fuzzers_bring_is_read_or_not() {
        let bytes = encode(&sample()).unwrap();
        assert_eq!(super::super::read_hostile_message(&bytes), 2);
        assert_eq!(super::super::read_hostile_message(&bytes[1..]), 0);
    }
}
