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
//! A snapshot is of one applied index, and holds what the engine holds: envelopes under storage keys. Nothing in it is
//! believed before all of it came: [`Incoming`] fills an engine beside the one in use, and only the end, with its count
//! and the chain of checksums, makes it one that can take the other's place. Dropped before, it leaves files that are
//! removed at once, or at the next start.
#![warn(clippy::indexing_slicing, clippy::cast_possible_truncation)]

use std::sync::{Arc, Weak};

use bytes::Bytes;
use kallisto_lsm::{Engine, Sync};

use super::limits::{SNAPSHOT_CHUNK_BYTES, SNAPSHOT_RECORDS_MAX};
use super::log::record::{put_membership, read_membership};
use super::machine::{ENGINE_KEY_OVERHEAD, Moment, Replacement, active_key, put_meta, travels};
use super::members::{put_directory, read_directory};
use super::requests::Request;
use super::shared::Shared;
use crate::batch::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use crate::cluster::{ChunkSink, Chunks};
use crate::codec::Reader;
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

/// The state of a moment, chunk by chunk.
pub(crate) struct Outgoing {
    moment: Moment,
    reader: ReadBy,
    scan: Option<kallisto_lsm::Scan>,
    checksum: u32,
    records: u64,
    part: Part,
}

/// Who reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReadBy {
    /// A member that is behind: keys are the engine's, and what is staged comes too.
    Member,
    /// Whoever restores a backup, perhaps elsewhere: keys are the records' own.
    Backup,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Head,
    Records,
    Over,
}

impl Outgoing {
    /// The chunks of a moment, for a member.
    pub(crate) fn to_member(moment: Moment) -> Result<Self, Error> {
        Self::new(moment, ReadBy::Member)
    }

    /// The chunks of a moment, for a backup.
    pub(crate) fn to_backup(moment: Moment) -> Result<Self, Error> {
        Self::new(moment, ReadBy::Backup)
    }

    fn new(moment: Moment, reader: ReadBy) -> Result<Self, Error> {
        let scan = moment.records.raw_scan(&moment.point)?;
        Ok(Self { moment, reader, scan: Some(scan), checksum: 0, records: 0, part: Part::Head })
    }

    fn head(&self) -> Vec<u8> {
        let moment = &self.moment;
        let mut out = vec![HEAD];
        out.extend_from_slice(&SNAPSHOT_FORMAT.to_le_bytes());
        out.extend_from_slice(&moment.store_id);
        out.extend_from_slice(&moment.index.to_le_bytes());
        out.extend_from_slice(&moment.term.to_le_bytes());
        put_membership(&mut out, &moment.membership);
        put_directory(&mut out, &moment.directory);
        out
    }

    /// The next chunk of records; the end if there are none.
    fn records(&mut self) -> Result<Vec<u8>, Error> {
        let mut out = vec![RECORDS, 0, 0, 0, 0];
        let empty = out.len();
        while let Some(scan) = &mut self.scan {
            let Some((key, value)) = scan.next_entry()? else {
                self.scan = None;
                break;
            };
            let generations = &self.moment.generations;
            let key = match self.reader {
                ReadBy::Member => travels(key, generations).then_some(key),
                ReadBy::Backup => active_key(key, generations),
            };
            let Some(key) = key else { continue };
            for part in [key, value] {
                let len = u32::try_from(part.len()).unwrap_or(u32::MAX);
                out.extend_from_slice(&len.to_le_bytes());
                out.extend_from_slice(part);
            }
            self.records += 1;
            if out.len() >= SNAPSHOT_CHUNK_BYTES {
                break;
            }
        }
        if out.len() == empty {
            self.part = Part::Over;
            out.clear();
            out.push(END);
            out.extend_from_slice(&self.checksum.to_le_bytes());
            out.extend_from_slice(&self.records.to_le_bytes());
            return Ok(out);
        }
        if let Some((head, records)) = out.split_first_chunk_mut::<5>() {
            self.checksum = crc32c::crc32c_append(self.checksum, records);
            let [_, checksum @ ..] = head;
            *checksum = self.checksum.to_le_bytes();
        }
        Ok(out)
    }
}

impl Chunks for Outgoing {
    fn next_chunk(&mut self) -> Result<Option<Vec<u8>>, Error> {
        match self.part {
            Part::Head => {
                self.part = Part::Records;
                Ok(Some(self.head()))
            }
            Part::Records => self.records().map(Some),
            Part::Over => Ok(None),
        }
    }
}

/// What the head of a snapshot says.
#[derive(Clone, Debug)]
pub(crate) struct Head {
    pub(crate) store_id: [u8; 16],
    pub(crate) index: u64,
    pub(crate) term: u64,
    pub(crate) membership: raft::eraftpb::ConfState,
    pub(crate) directory: Vec<crate::Peer>,
}

/// A chunk that was read.
#[derive(Debug)]
pub(crate) enum Chunk {
    Head(Head),
    /// Keys and values, and the checksum with which the next chunk's begins.
    Records(Vec<(Bytes, Bytes)>, u32),
    End {
        checksum: u32,
        records: u64,
    },
}

/// Reads a chunk behind one with `checksum`; `None` if it is none.
pub(crate) fn read_chunk(bytes: &Bytes, checksum: u32) -> Option<Chunk> {
    let mut reader = Reader::new(bytes);
    let chunk = match reader.u8()? {
        HEAD => {
            if reader.u32()? != SNAPSHOT_FORMAT {
                return None;
            }
            Chunk::Head(Head {
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
            Chunk::Records(records, found)
        }
        END => Chunk::End { checksum: reader.u32()?, records: reader.u64()? },
        _ => return None,
    };
    reader.is_empty().then_some(chunk)
}

fn read_part(reader: &mut Reader<'_>, bytes_max: usize) -> Option<Bytes> {
    let len = usize::try_from(reader.u32()?).ok().filter(|&len| len <= bytes_max)?;
    reader.take(len)
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
            (Chunk::Head(_), ReaderPart::Head) => {
                self.part = ReaderPart::Records;
                Ok(Vec::new())
            }
            (Chunk::Records(records, checksum), ReaderPart::Records) => {
                (self.checksum, self.records) = (checksum, self.records + records.len() as u64);
                let bare = |(key, value): (Bytes, Bytes)| {
                    (key.len() <= KEY_BYTES_MAX && value.len() >= SEQNO_BYTES)
                        .then(|| (key, value.slice(SEQNO_BYTES..)))
                };
                let bare: Option<Vec<_>> = records.into_iter().map(bare).collect();
                bare.ok_or_else(|| damaged("a record is none"))
            }
            (Chunk::End { checksum, records }, ReaderPart::Records)
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

/// Reads whatever it is given as a chunk: a target of the fuzzers.
pub(crate) fn read_hostile(bytes: &[u8]) -> usize {
    let Some((seed, rest)) = bytes.split_first_chunk::<4>() else { return 0 };
    match read_chunk(&Bytes::copy_from_slice(rest), u32::from_le_bytes(*seed)) {
        Some(Chunk::Records(records, _)) => records.len(),
        Some(Chunk::Head(_) | Chunk::End { .. }) => 1,
        None => 0,
    }
}

/// A snapshot on its way in.
pub(crate) struct Incoming {
    shared: Weak<Shared>,
    number: u64,
    /// The engine that is filled; gone once the snapshot is handed over.
    engine: Option<Engine>,
    store_id: [u8; 16],
    head: Option<Head>,
    checksum: u32,
    records: u64,
    ended: bool,
}

impl Incoming {
    /// Makes an engine to be filled for the store `store_id`.
    pub(crate) fn new(shared: &Arc<Shared>, store_id: [u8; 16]) -> Result<Self, Error> {
        let number = shared.machine.next_engine();
        // What a failed try before left.
        shared.machine.home().remove(number);
        let engine = shared.machine.home().open_apart(number)?;
        Ok(Self {
            shared: Arc::downgrade(shared),
            number,
            engine: Some(engine),
            store_id,
            head: None,
            checksum: 0,
            records: 0,
            ended: false,
        })
    }

    /// Makes an engine without records.
    pub(crate) fn fill_empty(shared: &Shared, with: &Replacement) -> Result<(), Error> {
        let home = shared.machine.home();
        home.remove(with.engine);
        let engine = home.open_apart(with.engine)?;
        let mut batch = kallisto_lsm::Batch::new();
        put_meta(&mut batch, &with.store_id, &with.membership, &with.directory)?;
        engine.write(&batch, Sync::Mode)?;
        Ok(engine.close()?)
    }

    fn put(&mut self, records: &[(Bytes, Bytes)]) -> Result<(), Error> {
        let Some(engine) = &self.engine else { return Err(damaged("it is over")) };
        let mut batch = kallisto_lsm::Batch::new();
        for (key, value) in records {
            batch.put(key, value)?;
        }
        engine.write(&batch, Sync::Mode)?;
        self.records += records.len() as u64;
        Ok(())
    }

    fn replacement(&self, head: Head) -> Replacement {
        Replacement {
            engine: self.number,
            store_id: head.store_id,
            index: head.index,
            term: head.term,
            membership: head.membership,
            directory: head.directory,
        }
    }
}

fn damaged(why: &str) -> Error {
    Error::Damaged(format!("a snapshot from a peer: {why}"))
}

impl ChunkSink for Incoming {
    fn take(&mut self, chunk: Bytes) -> Result<(), Error> {
        if chunk.len() > CHUNK_BYTES_MAX || self.ended {
            return Err(damaged("a chunk too many, or too large"));
        }
        let read = read_chunk(&chunk, self.checksum);
        match (read.ok_or_else(|| damaged("a chunk cannot be read"))?, &self.head) {
            (Chunk::Head(head), None) if head.store_id == self.store_id => self.head = Some(head),
            (Chunk::Head(_), None) => return Err(damaged("it is of another store")),
            (Chunk::Records(records, checksum), Some(_)) => {
                self.put(&records)?;
                self.checksum = checksum;
            }
            (Chunk::End { checksum, records }, Some(_))
                if (checksum, records) == (self.checksum, self.records) =>
            {
                self.ended = true;
            }
            _ => return Err(damaged("chunks are missing or out of order")),
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<(), Error> {
        let head = self.head.take().filter(|_| self.ended);
        let head = head.ok_or_else(|| damaged("it has no end"))?;
        if let Some(engine) = &self.engine {
            let mut batch = kallisto_lsm::Batch::new();
            put_meta(&mut batch, &head.store_id, &head.membership, &head.directory)?;
            batch.set_position(head.index);
            engine.write(&batch, Sync::Mode)?;
            engine.close()?;
        }
        let replacement = self.replacement(head);
        // The files stay now; whoever is given the replacement removes them if it comes too late.
        self.engine = None;
        if let Some(shared) = self.shared.upgrade() {
            shared.requests.push(Request::Fetched(Ok(replacement)));
        }
        Ok(())
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        let Some(engine) = self.engine.take() else { return };
        drop(engine);
        if let Some(shared) = self.shared.upgrade() {
            shared.machine.home().remove(self.number);
            let why = Error::Unavailable("a snapshot was not fetched to its end".into());
            shared.requests.push(Request::Fetched(Err(why)));
        }
    }
}
