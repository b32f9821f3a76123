//! A snapshot on its way out: the state of a moment, read from the engine as chunks, from the start or from a place in it.

use std::sync::Arc;

use super::{END, HEAD, RECORDS, ResumePoint, SNAPSHOT_FORMAT};
use crate::Error;
use crate::cluster::Chunks;
use crate::raft::limits::SNAPSHOT_CHUNK_BYTES;
use crate::raft::log::record::put_membership;
use crate::raft::machine::{Moment, active_key, travels};
use crate::raft::members::put_directory;

/// The state of a moment, chunk by chunk.
pub(crate) struct Outgoing {
    moment: Arc<Moment>,
    reader: ReadBy,
    scan: Option<kallisto_lsm::Scan>,
    checksum: u32,
    records: u64,
    part: SnapshotPart,
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
enum SnapshotPart {
    Head,
    Records,
    Over,
}

impl Outgoing {
    /// The chunks of a moment, for a member.
    pub(crate) fn to_member(moment: Arc<Moment>) -> Result<Self, Error> {
        Self::new(moment, ReadBy::Member)
    }

    /// The chunks of a moment, for a backup.
    pub(crate) fn to_backup(moment: Moment) -> Result<Self, Error> {
        Self::new(Arc::new(moment), ReadBy::Backup)
    }

    /// The chunks behind a place in a moment, for the member that has those before it.
    pub(crate) fn behind(moment: Arc<Moment>, place: &ResumePoint) -> Result<Self, Error> {
        assert_eq!((moment.index, moment.term), (place.index, place.term), "the place's moment");
        let scan = moment.records.raw_scan_behind(&moment.point, &place.last_key)?;
        let (checksum, records) = (place.checksum, place.records);
        let (reader, part) = (ReadBy::Member, SnapshotPart::Records);
        Ok(Self { moment, reader, scan: Some(scan), checksum, records, part })
    }

    fn new(moment: Arc<Moment>, reader: ReadBy) -> Result<Self, Error> {
        let scan = moment.records.raw_scan(&moment.point)?;
        Ok(Self {
            moment,
            reader,
            scan: Some(scan),
            checksum: 0,
            records: 0,
            part: SnapshotPart::Head,
        })
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
            self.part = SnapshotPart::Over;
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
            SnapshotPart::Head => {
                self.part = SnapshotPart::Records;
                Ok(Some(self.head()))
            }
            SnapshotPart::Records => self.records().map(Some),
            SnapshotPart::Over => Ok(None),
        }
    }
}
