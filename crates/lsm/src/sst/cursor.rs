//! Ordered reading of an SST.

use std::sync::Arc;

use super::block::BlockCursor;
use super::reader::{Sst, Stretch};
use crate::batch::EntryKind;
use crate::cursor::Cursor;
use crate::error::Result;

/// How blocks are fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadMode {
    /// One by one through the block cache: scans.
    Cached,
    /// In large reads past the cache: compaction and checks, which read everything once.
    Streaming,
}

/// A place in an SST.
#[derive(Debug)]
pub(crate) struct SstCursor {
    sst: Arc<Sst>,
    mode: ReadMode,
    stretch: Option<Stretch>,
    n: usize,
    block: Option<BlockCursor>,
    key_buffer: Vec<u8>,
}

impl SstCursor {
    /// A cursor that stands nowhere yet.
    pub(crate) fn new(sst: Arc<Sst>, mode: ReadMode) -> Self {
        Self { sst, mode, stretch: None, n: 0, block: None, key_buffer: Vec::new() }
    }

    fn here(&self) -> &BlockCursor {
        self.block.as_ref().expect("the cursor stands on an entry")
    }

    fn take_key_buffer(&mut self) -> Vec<u8> {
        match self.block.take() {
            Some(block) => block.into_key_buffer(),
            None => std::mem::take(&mut self.key_buffer),
        }
    }

    /// Goes to the first entry of block `n`, or past the end.
    fn enter(&mut self, n: usize) -> Result<()> {
        let buffer = self.take_key_buffer();
        if n >= self.sst.index().len() {
            self.key_buffer = buffer;
            return Ok(());
        }
        let block = self.sst.block_for(n, self.mode, &mut self.stretch)?;
        let cursor = BlockCursor::first(block, buffer).map_err(|_| self.sst.damaged_block(n))?;
        self.n = n;
        self.block = Some(cursor);
        Ok(())
    }
}

impl Cursor for SstCursor {
    fn seek_first(&mut self) -> Result<()> {
        self.enter(0)
    }

    fn seek(&mut self, key: &[u8]) -> Result<()> {
        let buffer = self.take_key_buffer();
        let Some(n) = self.sst.index().find(key) else {
            self.key_buffer = buffer;
            return Ok(());
        };
        let block = self.sst.block_for(n, self.mode, &mut self.stretch)?;
        let damaged = |_| self.sst.damaged_block(n);
        let cursor = BlockCursor::seek(block, key, buffer).map_err(damaged)?;
        self.n = n;
        if cursor.valid() {
            self.block = Some(cursor);
            return Ok(());
        }
        // The separator may lie above the block's last key.
        self.key_buffer = cursor.into_key_buffer();
        self.enter(n + 1)
    }

    fn next(&mut self) -> Result<()> {
        let n = self.n;
        let block = self.block.as_mut().expect("the cursor stands on an entry");
        block.advance().map_err(|_| self.sst.damaged_block(n))?;
        if block.valid() { Ok(()) } else { self.enter(n + 1) }
    }

    fn valid(&self) -> bool {
        self.block.as_ref().is_some_and(BlockCursor::valid)
    }

    fn key(&self) -> &[u8] {
        self.here().key()
    }

    fn value(&self) -> &[u8] {
        self.here().value()
    }

    fn seqno(&self) -> u64 {
        self.here().seqno()
    }

    fn kind(&self) -> EntryKind {
        self.here().kind()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::{SstBuilder, SstShared};
    use super::*;
    use crate::cache::{BlockCache, FileCache};
    use crate::disk::{Disk, MemDisk};
    use crate::error::Error;
    use crate::hash::key_hash;
    use crate::value::LookupOutcome;

    type Entry = (Vec<u8>, u64, EntryKind, Vec<u8>);

    fn entries(count: u64, dice: &mut fastrand::Rng) -> Vec<Entry> {
        let mut all = Vec::new();
        for n in 0..count {
            for version in 0..dice.u64(1..5) {
                let put = dice.u8(..) > 30;
                let value = if put { vec![n as u8; dice.usize(..60)] } else { vec![] };
                let kind = if put { EntryKind::Put } else { EntryKind::Delete };
                all.push((n.wrapping_mul(7).to_be_bytes().to_vec(), 100 - version, kind, value));
            }
        }
        all
    }

    fn write(disk: &dyn Disk, all: &[Entry]) -> u64 {
        let mut builder = SstBuilder::create(disk, Path::new("d"), 5, 200, 10).unwrap();
        for (key, seqno, kind, value) in all {
            builder.add(key, *seqno, *kind, value).unwrap();
        }
        builder.finish().unwrap().bytes
    }

    fn open(disk: Arc<dyn Disk>, bytes: u64) -> Result<Arc<Sst>> {
        let files = FileCache::new(disk, "d".into(), 4);
        let shared = SstShared { blocks: BlockCache::new(4096), files };
        Sst::open(Arc::new(shared), 5, bytes).map(Arc::new)
    }

    fn read_all(sst: &Arc<Sst>, mode: ReadMode) -> Result<Vec<Entry>> {
        let mut cursor = SstCursor::new(sst.clone(), mode);
        let mut all = Vec::new();
        cursor.seek_first()?;
        while cursor.valid() {
            let value = cursor.value().to_vec();
            all.push((cursor.key().to_vec(), cursor.seqno(), cursor.kind(), value));
            cursor.next()?;
        }
        Ok(all)
    }

    #[test]
    fn what_was_written_is_read() {
        let mut dice = fastrand::Rng::with_seed(8);
        let all = entries(500, &mut dice);
        let disk = MemDisk::shared();
        let bytes = write(&*disk, &all);
        let sst = open(disk, bytes).unwrap();
        assert_eq!(sst.properties().entries, all.len() as u64);
        assert_eq!(read_all(&sst, ReadMode::Cached).unwrap(), all);
        assert_eq!(read_all(&sst, ReadMode::Streaming).unwrap(), all);
        for _ in 0..3000 {
            let key = dice.u64(..3600).to_be_bytes();
            let seqno = dice.u64(94..102);
            let want = all.iter().find(|entry| entry.0 == key && entry.1 <= seqno);
            match (sst.get(&key, seqno).unwrap(), want) {
                (LookupOutcome::Nothing, None) => {}
                (LookupOutcome::Deleted, Some((_, _, EntryKind::Delete, _))) => {}
                (LookupOutcome::Value(got), Some((_, _, EntryKind::Put, value))) => {
                    assert_eq!(*got, **value)
                }
                (got, want) => panic!("{got:?} against {want:?}"),
            }
            assert!(want.is_none() || sst.may_contain(key_hash(&key)));
            let mut cursor = SstCursor::new(sst.clone(), ReadMode::Cached);
            cursor.seek(&key).unwrap();
            let want = all.iter().find(|entry| entry.0[..] >= key[..]);
            assert_eq!(cursor.valid().then(|| cursor.key().to_vec()), want.map(|e| e.0.clone()));
        }
    }

    #[test]
    fn every_flipped_byte_of_an_sst_is_refused() {
        let mut dice = fastrand::Rng::with_seed(9);
        let all = entries(60, &mut dice);
        let disk = MemDisk::shared();
        let bytes = write(&*disk, &all);
        let path = disk.files().into_keys().next().unwrap();
        for at in 0..bytes {
            let bad = disk.fork();
            let file = bad.open(&path, crate::disk::OpenFor::ReadWrite).unwrap();
            let mut byte = [0];
            file.read_at(&mut byte, at).unwrap();
            file.write_at(&[byte[0] ^ 1 << dice.u8(..8)], at).unwrap();
            let read = open(Arc::new(bad), bytes).and_then(|sst| read_all(&sst, ReadMode::Cached));
            match read {
                Err(Error::Corrupt { .. }) => {}
                other => panic!("byte {at} gave {:?}", other.map(|all| all.len())),
            }
        }
    }
}
