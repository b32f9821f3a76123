//! Snapshots: a store's state as chunks, and chunks becoming an engine.
//!
//! ```text
//! snapshot := head | records* | end
//! head     := 1 u8 | format u32 (1) | store id 16 bytes | index u64 | term u64 | membership | directory
//! records  := 2 u8 | crc32c u32 | record*            the checksum is of the chunk's records, seeded with the chunk before
//! record   := key length u32 | key | value length u32 | value        a value is the engine's: seqno u64 | bytes
//! end      := 3 u8 | crc32c u32 | records u64        the checksum of the last chunk, and how many records there were
//! ```
//!
//! A snapshot is of one applied index, and holds what the engine holds: envelopes under storage keys. [`Outgoing`] says it
//! chunk by chunk; nothing in it is believed before all of it came: [`Incoming`] fills an engine beside the one in use, and
//! only the end, with its count and the chain of checksums, makes it one that can take the other's place.
//!
//! A fetch that breaks off goes on where it was: what came is kept ([`PartialSnapshot`]), and the sender still holds that moment
//! ([`HeldMoments`]) and says what lies behind a [`ResumePoint`] in it. Both for [`SNAPSHOT_HELD`](super::limits::SNAPSHOT_HELD); then,
//! and after a crash of either, it begins anew. Files of what is given up are removed at once, or at the next start.
#![warn(clippy::indexing_slicing, clippy::cast_possible_truncation)]

mod backup_writer;
mod held_moments;
mod incoming;
mod outgoing;
mod resume_point;

use bytes::Bytes;

pub use self::backup_writer::{BackupHead, BackupWriter};
pub(crate) use self::held_moments::HeldMoments;
pub(crate) use self::incoming::{Fetched, Incoming, PartialSnapshot};
pub(crate) use self::outgoing::Outgoing;
pub(crate) use self::resume_point::ResumePoint;
use super::limits::SNAPSHOT_RECORDS_MAX;
use super::log::record::read_membership;
use super::machine::ENGINE_KEY_OVERHEAD;
use super::members::read_directory;
use crate::batch::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use crate::codec::SharedReader;
use crate::{CHUNK_BYTES_MAX, Error};

/// The number of this layout.
const SNAPSHOT_FORMAT: u32 = 1;
const HEAD: u8 = 1;
const RECORDS: u8 = 2;
const END: u8 = 3;
/// Bytes of a value's seqno.
const SEQNO_BYTES: usize = 8;
/// A value with its seqno, in bytes.
const STORED_BYTES_MAX: usize = VALUE_BYTES_MAX + SEQNO_BYTES;

/// What the head of a snapshot says.
#[derive(Clone, Debug)]
pub(crate) struct SnapshotHead {
    pub(crate) store_id: [u8; 16],
    pub(crate) index: u64,
    pub(crate) term: u64,
    pub(crate) membership: raft::eraftpb::ConfState,
    pub(crate) directory: Vec<crate::Peer>,
}

/// A chunk that was read.
#[derive(Debug)]
pub(crate) enum SnapshotChunk {
    Head(SnapshotHead),
    /// Keys and values, and the checksum with which the next chunk's begins.
    Records(Vec<(Bytes, Bytes)>, u32),
    End {
        checksum: u32,
        records: u64,
    },
}

/// Reads a chunk behind one with `checksum`; `None` if it is none.
pub(crate) fn read_chunk(bytes: &Bytes, checksum: u32) -> Option<SnapshotChunk> {
    let mut reader = SharedReader::new(bytes);
    let chunk = match reader.u8()? {
        HEAD => {
            if reader.u32()? != SNAPSHOT_FORMAT {
                return None;
            }
            SnapshotChunk::Head(SnapshotHead {
                store_id: reader.array()?,
                index: reader.u64().filter(|&index| index != 0)?,
                term: reader.u64().filter(|&term| term != 0)?,
                membership: read_membership(&mut reader)?,
                directory: read_directory(&mut reader)?,
            })
        }
        RECORDS => {
            let expected = reader.u32()?;
            let found = crc32c::crc32c_append(checksum, bytes.get(reader.at()..)?);
            if found != expected {
                return None;
            }
            let mut records = Vec::new();
            while !reader.is_empty() {
                if records.len() == SNAPSHOT_RECORDS_MAX {
                    return None;
                }
                let key = read_part(&mut reader, KEY_BYTES_MAX + ENGINE_KEY_OVERHEAD)?;
                records.push((key, read_part(&mut reader, STORED_BYTES_MAX)?));
            }
            SnapshotChunk::Records(records, found)
        }
        END => SnapshotChunk::End { checksum: reader.u32()?, records: reader.u64()? },
        _ => return None,
    };
    reader.is_empty().then_some(chunk)
}

fn read_part(reader: &mut SharedReader<'_>, bytes_max: usize) -> Option<Bytes> {
    let len = usize::try_from(reader.u32()?).ok().filter(|&len| len <= bytes_max)?;
    reader.take_shared(len)
}

/// Reads a backup's chunks, in order, and finds out whether they are all there. Nothing is believed of one that does not
/// end well.
#[derive(Debug, Default)]
pub struct BackupReader {
    checksum: u32,
    records: u64,
    part: ReaderPart,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ReaderPart {
    #[default]
    Head,
    Records,
    Over,
}

impl BackupReader {
    /// The records of the next chunk: keys and values, without the seqnos they had.
    ///
    /// # Errors
    /// [`Error::Damaged`] if it is not the next chunk of a backup.
    pub fn take(&mut self, chunk: &Bytes) -> Result<Vec<(Bytes, Bytes)>, Error> {
        let damaged = |why: &str| Error::Damaged(format!("a backup: {why}"));
        if chunk.len() > CHUNK_BYTES_MAX {
            return Err(damaged("a chunk is too large"));
        }
        let read =
            read_chunk(chunk, self.checksum).ok_or_else(|| damaged("a chunk cannot be read"))?;
        match (read, self.part) {
            (SnapshotChunk::Head(_), ReaderPart::Head) => {
                self.part = ReaderPart::Records;
                Ok(Vec::new())
            }
            (SnapshotChunk::Records(records, checksum), ReaderPart::Records) => {
                (self.checksum, self.records) = (checksum, self.records + records.len() as u64);
                let bare = |(key, value): (Bytes, Bytes)| {
                    (key.len() <= KEY_BYTES_MAX && value.len() >= SEQNO_BYTES)
                        .then(|| (key, value.slice(SEQNO_BYTES..)))
                };
                let bare: Option<Vec<_>> = records.into_iter().map(bare).collect();
                bare.ok_or_else(|| damaged("a record is none"))
            }
            (SnapshotChunk::End { checksum, records }, ReaderPart::Records)
                if (checksum, records) == (self.checksum, self.records) =>
            {
                self.part = ReaderPart::Over;
                Ok(Vec::new())
            }
            _ => Err(damaged("chunks are missing or out of order")),
        }
    }

    /// How many records there were; `None` before the end was read.
    pub fn records(&self) -> Option<u64> {
        (self.part == ReaderPart::Over).then_some(self.records)
    }
}

/// Reads whatever it is given as a chunk, and as a place in a snapshot: a target of the fuzzers.
#[cfg(any(test, feature = "fuzz"))]
pub(crate) fn read_hostile(bytes: &[u8]) -> usize {
    let Some((seed, rest)) = bytes.split_first_chunk::<4>() else { return 0 };
    if let Some(place) = ResumePoint::decode(rest) {
        assert_eq!(place.encode(), rest, "one encoding of a place");
    }
    match read_chunk(&Bytes::copy_from_slice(rest), u32::from_le_bytes(*seed)) {
        Some(SnapshotChunk::Records(records, _)) => records.len(),
        Some(SnapshotChunk::Head(_) | SnapshotChunk::End { .. }) => 1,
        None => 0,
    }
}

#[cfg(test)]
mod tests;
