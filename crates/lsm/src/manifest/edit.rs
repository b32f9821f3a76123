//! An edit: one atomic change of the set of live files.
//!
//! ```text
//! edit  := field*
//! field := 1 level number bytes entries deletes seqno_min seqno_max smallest largest   a file is added
//!        | 2 number                                                                     a file is removed
//!        | 3 number            WAL segments below it are not needed
//!        | 4 seqno             the highest sequence number that is in SSTs
//!        | 5 number            no file has this number or a higher one
//!        | 6 position          the outer log's place up to which everything is in SSTs
//! ```
//!
//! Numbers are varints, keys are length-prefixed. A later field replaces an earlier one of its kind.
#![warn(clippy::indexing_slicing, clippy::cast_possible_truncation)]

use kallisto_codec::{ByteReader, put_bytes, put_varint};

use crate::levels::FileDesc;
use crate::limits::{KEY_BYTES_MAX, LEVELS, SEQNO_MAX};

const ADDED: u64 = 1;
const REMOVED: u64 = 2;
const WAL_FLOOR: u64 = 3;
const SEQNO_FLUSHED: u64 = 4;
const NUMBER_NEXT: u64 = 5;
const POSITION: u64 = 6;

/// A change of the set of live files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Edit {
    /// Files that become live, with their levels.
    pub(crate) added: Vec<(usize, FileDesc)>,
    /// Files that stop being live, by number.
    pub(crate) removed: Vec<u64>,
    /// The first WAL segment that is still needed.
    pub(crate) wal_floor: Option<u64>,
    /// The highest sequence number that is in SSTs.
    pub(crate) seqno_flushed: Option<u64>,
    /// A bound for file numbers.
    pub(crate) number_next: Option<u64>,
    /// The flushed position of the outer log.
    pub(crate) position: Option<u64>,
}

impl Edit {
    /// Its bytes in a manifest.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for (level, file) in &self.added {
            put_varint(&mut out, ADDED);
            let numbers = [
                *level as u64,
                file.number,
                file.bytes,
                file.entries,
                file.deletes,
                file.seqno_min,
                file.seqno_max,
            ];
            numbers.into_iter().for_each(|number| put_varint(&mut out, number));
            put_bytes(&mut out, &file.smallest);
            put_bytes(&mut out, &file.largest);
        }
        let single = [
            (WAL_FLOOR, self.wal_floor),
            (SEQNO_FLUSHED, self.seqno_flushed),
            (NUMBER_NEXT, self.number_next),
            (POSITION, self.position),
        ];
        let removed = self.removed.iter().map(|&number| (REMOVED, Some(number)));
        for (field, number) in removed.chain(single) {
            if let Some(number) = number {
                put_varint(&mut out, field);
                put_varint(&mut out, number);
            }
        }
        out
    }

    /// Reads an edit back; `None` is damage.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut reader = ByteReader::new(bytes);
        let mut edit = Self::default();
        while !reader.is_empty() {
            match reader.varint()? {
                ADDED => edit.added.push(read_file(&mut reader)?),
                REMOVED => edit.removed.push(reader.varint()?),
                WAL_FLOOR => edit.wal_floor = Some(reader.varint()?),
                SEQNO_FLUSHED => edit.seqno_flushed = Some(reader.varint()?),
                NUMBER_NEXT => edit.number_next = Some(reader.varint()?),
                POSITION => edit.position = Some(reader.varint()?),
                _ => return None,
            }
        }
        Some(edit)
    }

    /// Makes this edit say what both say, the other one later.
    pub(crate) fn absorb(&mut self, later: Self) {
        self.added.retain(|(_, file)| !later.removed.contains(&file.number));
        self.added.extend(later.added);
        self.wal_floor = later.wal_floor.or(self.wal_floor);
        self.seqno_flushed = later.seqno_flushed.or(self.seqno_flushed);
        self.number_next = later.number_next.or(self.number_next);
        self.position = later.position.or(self.position);
    }
}

fn read_file(reader: &mut ByteReader<'_>) -> Option<(usize, FileDesc)> {
    let level = reader.varint_len().filter(|&level| level < LEVELS)?;
    let file = FileDesc {
        number: reader.varint()?,
        bytes: reader.varint()?,
        entries: reader.varint()?,
        deletes: reader.varint()?,
        seqno_min: reader.varint()?,
        seqno_max: reader.varint().filter(|&seqno| seqno <= SEQNO_MAX)?,
        smallest: reader.bytes(KEY_BYTES_MAX)?.to_vec(),
        largest: reader.bytes(KEY_BYTES_MAX)?.to_vec(),
    };
    (file.smallest <= file.largest).then_some((level, file))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::indexing_slicing, reason = "tests index what they built")]
    use super::*;

    fn file(number: u64) -> FileDesc {
        FileDesc {
            number,
            bytes: 1000,
            entries: 10,
            deletes: 1,
            seqno_min: 4,
            seqno_max: 14,
            smallest: b"a".to_vec(),
            largest: b"z".to_vec(),
        }
    }

    #[test]
    fn an_edit_comes_back() {
        let edit = Edit {
            added: vec![(0, file(1)), (6, file(2))],
            removed: vec![7, 8],
            wal_floor: Some(3),
            seqno_flushed: Some(14),
            number_next: Some(9),
            position: Some(100),
        };
        let bytes = edit.encode();
        assert_eq!(Edit::decode(&bytes), Some(edit));
        for len in 0..bytes.len() {
            let _ = Edit::decode(&bytes[..len]);
        }
        assert_eq!(Edit::decode(&[99]), None);
        assert_eq!(Edit::decode(&[1, 7, 1, 1, 1, 1, 1, 1, 0, 0]), None, "there is no level 7");
    }

    #[test]
    fn a_file_of_one_key_and_of_the_last_number_comes_back() {
        let mut file = file(1);
        file.seqno_max = SEQNO_MAX;
        file.smallest = file.largest.clone();
        let edit = Edit { added: vec![(0, file.clone())], ..Edit::default() };
        assert_eq!(Edit::decode(&edit.encode()), Some(edit));
        file.seqno_max += 1;
        let edit = Edit { added: vec![(0, file)], ..Edit::default() };
        assert_eq!(Edit::decode(&edit.encode()), None);
    }

    #[test]
    fn later_edits_win() {
        let mut edit = Edit { added: vec![(0, file(1)), (0, file(2))], ..Edit::default() };
        edit.absorb(Edit { removed: vec![1], added: vec![(1, file(1))], ..Edit::default() });
        assert_eq!(edit.added, [(0, file(2)), (1, file(1))]);
        assert!(edit.removed.is_empty());
    }
}
