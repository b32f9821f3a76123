//! A backup of a store that is no Raft store, in the same chunks, so that either restores what the other saved.

use super::{END, HEAD, RECORDS, SEQNO_BYTES, SNAPSHOT_FORMAT};
use crate::raft::limits::SNAPSHOT_CHUNK_BYTES;
use crate::raft::log::record::put_membership;
use crate::raft::members::put_directory;
use crate::{Chunks, Error, Record};

/// What a backup says of where it is from.
#[derive(Clone, Copy, Debug)]
pub struct BackupHead {
    /// Which store it is.
    pub store_id: [u8; 16],
    /// Where in the order of all batches it is; not 0.
    pub index: u64,
    /// Who led when it was made; not 0.
    pub term: u64,
}

/// Makes a backup's chunks of records, which come in the order of their keys.
#[derive(Debug)]
pub struct BackupWriter<I> {
    head: Option<BackupHead>,
    rest: Option<I>,
    checksum: u32,
    records: u64,
}

impl<I: Iterator<Item = (Box<[u8]>, Record)> + Send> BackupWriter<I> {
    /// A backup of these records.
    pub const fn new(head: BackupHead, records: I) -> Self {
        Self { head: Some(head), rest: Some(records), checksum: 0, records: 0 }
    }
}

fn head_bytes(head: &BackupHead) -> Vec<u8> {
    let mut out = vec![HEAD];
    out.extend_from_slice(&SNAPSHOT_FORMAT.to_le_bytes());
    out.extend_from_slice(&head.store_id);
    out.extend_from_slice(&head.index.max(1).to_le_bytes());
    out.extend_from_slice(&head.term.max(1).to_le_bytes());
    put_membership(&mut out, &raft::eraftpb::ConfState::default());
    put_directory(&mut out, &[]);
    out
}

impl<I: Iterator<Item = (Box<[u8]>, Record)> + Send> Chunks for BackupWriter<I> {
    fn next_chunk(&mut self) -> Result<Option<Vec<u8>>, Error> {
        if let Some(head) = self.head.take() {
            return Ok(Some(head_bytes(&head)));
        }
        let Some(rest) = &mut self.rest else { return Ok(None) };
        let mut body = Vec::new();
        while body.len() < SNAPSHOT_CHUNK_BYTES {
            let Some((key, record)) = rest.next() else { break };
            put_len(&mut body, key.len())?;
            body.extend_from_slice(&key);
            put_len(&mut body, SEQNO_BYTES + record.value.len())?;
            body.extend_from_slice(&record.seqno.0.to_le_bytes());
            body.extend_from_slice(&record.value);
            self.records += 1;
        }
        if body.is_empty() {
            self.rest = None;
            let mut out = vec![END];
            out.extend_from_slice(&self.checksum.to_le_bytes());
            out.extend_from_slice(&self.records.to_le_bytes());
            return Ok(Some(out));
        }
        self.checksum = crc32c::crc32c_append(self.checksum, &body);
        let mut out = vec![RECORDS];
        out.extend_from_slice(&self.checksum.to_le_bytes());
        out.extend_from_slice(&body);
        Ok(Some(out))
    }
}

fn put_len(out: &mut Vec<u8>, len: usize) -> Result<(), Error> {
    let len = u32::try_from(len).map_err(|_| Error::TooLarge("bytes of a record"))?;
    out.extend_from_slice(&len.to_le_bytes());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BackupReader, Seqno};
    use bytes::Bytes;

    #[test]
    fn what_is_written_is_read_and_a_lost_chunk_is_noticed() {
        let record = |n: u64| {
            let value = Bytes::from(vec![7; 100_000]);
            (n.to_be_bytes().into(), Record { value, seqno: Seqno(n) })
        };
        let head = BackupHead { store_id: [1; 16], index: 9, term: 2 };
        let chunks = || {
            let mut writer = BackupWriter::new(head, (1..=10).map(record));
            let mut all = Vec::new();
            while let Some(chunk) = writer.next_chunk().unwrap() {
                all.push(Bytes::from(chunk));
            }
            all
        };
        let mut reader = BackupReader::default();
        let mut found = Vec::new();
        for chunk in chunks() {
            found.extend(reader.take(&chunk).unwrap());
        }
        assert_eq!(reader.records(), Some(10));
        assert_eq!(found.len(), 10);
        assert!(found.iter().all(|(_, value)| value.len() == 100_000));
        let mut reader = BackupReader::default();
        let mut without = chunks();
        without.remove(2);
        assert!(without.iter().any(|chunk| reader.take(chunk).is_err()));
    }
}
