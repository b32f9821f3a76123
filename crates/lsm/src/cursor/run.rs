//! A sorted run read as one: its files, one after the other, opened when they are reached.

use std::sync::Arc;

use super::Cursor;
use crate::batch::EntryKind;
use crate::error::Result;
use crate::levels::SstFile;
use crate::sst::{ReadMode, SstCursor};

/// A place in files with disjoint, rising keys.
pub(crate) struct RunCursor {
    files: Vec<Arc<SstFile>>,
    mode: ReadMode,
    at: usize,
    here: Option<SstCursor>,
}

impl RunCursor {
    /// A cursor that stands nowhere yet.
    pub(crate) fn new(files: Vec<Arc<SstFile>>, mode: ReadMode) -> Self {
        Self { files, mode, at: 0, here: None }
    }

    /// Goes to the first entry of file `at`, or to one of the next if it has none.
    fn enter(&mut self, at: usize) -> Result<()> {
        self.at = at;
        self.here = None;
        let Some(file) = self.files.get(at) else { return Ok(()) };
        let mut cursor = SstCursor::new(file.sst()?.clone(), self.mode);
        cursor.seek_first()?;
        self.here = Some(cursor);
        Ok(())
    }

    fn cursor(&self) -> &SstCursor {
        self.here.as_ref().expect("the cursor stands on an entry")
    }
}

impl Cursor for RunCursor {
    fn seek_first(&mut self) -> Result<()> {
        self.enter(0)
    }

    fn seek(&mut self, key: &[u8]) -> Result<()> {
        let at = self.files.partition_point(|file| file.desc().largest.as_slice() < key);
        self.at = at;
        self.here = None;
        let Some(file) = self.files.get(at) else { return Ok(()) };
        let mut cursor = SstCursor::new(file.sst()?.clone(), self.mode);
        cursor.seek(key)?;
        self.here = Some(cursor);
        Ok(())
    }

    fn next(&mut self) -> Result<()> {
        let here = self.here.as_mut().expect("the cursor stands on an entry");
        here.next()?;
        if here.valid() { Ok(()) } else { self.enter(self.at + 1) }
    }

    fn valid(&self) -> bool {
        self.here.as_ref().is_some_and(Cursor::valid)
    }

    fn key(&self) -> &[u8] {
        self.cursor().key()
    }

    fn value(&self) -> &[u8] {
        self.cursor().value()
    }

    fn seqno(&self) -> u64 {
        self.cursor().seqno()
    }

    fn kind(&self) -> EntryKind {
        self.cursor().kind()
    }
}
