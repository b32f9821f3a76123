//! Merges the files of a plan into new ones.

use std::path::Path;
use std::sync::Arc;

use super::{CompactionPlan, VersionFilter};
use crate::cursor::{Cursor, MergeCursor, RunCursor};
use crate::disk::Disk;
use crate::error::Result;
use crate::levels::{FileDesc, Levels, SstFile};
use crate::limits::LEVELS;
use crate::names;
use crate::numbers::FileNumbers;
use crate::sst::{ReadMode, SstBuilder};

/// Filter bits for each key, by how deep the file lies: a missing key asks every level, so the small ones above, which
/// are cheap to make precise, get more.
const BITS_TOP: usize = 20;
const BITS_MIDDLE: usize = 16;
const BITS_BOTTOM: usize = 11;

/// Where and how new files are written.
#[derive(Debug)]
pub(crate) struct CompactionOutput<'a> {
    /// The disk.
    pub(crate) disk: &'a dyn Disk,
    /// The store's directory.
    pub(crate) dir: &'a Path,
    /// Numbers for them.
    pub(crate) numbers: &'a FileNumbers,
    /// Size of their blocks, in bytes.
    pub(crate) block_bytes: usize,
    /// Size at which the next one starts, in bytes.
    pub(crate) sst_bytes: u64,
    /// Filter bits for each key.
    pub(crate) bits_per_key: usize,
}

impl<'a> CompactionOutput<'a> {
    /// Files for L0.
    pub(crate) fn for_flush(mut self) -> Self {
        self.bits_per_key = BITS_TOP;
        self.sst_bytes = u64::MAX;
        self
    }

    /// Files for level `to`.
    pub(crate) fn for_level(mut self, levels: &Levels, to: usize) -> Self {
        let bottom = (to + 1..LEVELS).all(|level| levels.files(level).is_empty());
        self.bits_per_key = if bottom { BITS_BOTTOM } else { BITS_MIDDLE };
        self
    }

    /// Writes what `cursor` gives and `filter` keeps. On an error nothing of it stays.
    pub(crate) fn write(
        &self,
        cursor: &mut dyn Cursor,
        filter: VersionFilter,
        bottom: impl FnMut(&[u8]) -> bool,
    ) -> Result<Vec<FileDesc>> {
        let mut made = Vec::new();
        let written = self.write_files(cursor, filter, bottom, &mut made);
        if written.is_err() {
            for number in made {
                // What cannot be removed now is removed by the next open.
                let _ = self.disk.remove(&names::sst(self.dir, number));
            }
        }
        written
    }

    fn write_files(
        &self,
        cursor: &mut dyn Cursor,
        mut filter: VersionFilter,
        mut bottom: impl FnMut(&[u8]) -> bool,
        made: &mut Vec<u64>,
    ) -> Result<Vec<FileDesc>> {
        let mut done = Vec::new();
        let mut open: Option<SstBuilder> = None;
        cursor.seek_first()?;
        while cursor.valid() {
            let (key, seqno, kind) = (cursor.key(), cursor.seqno(), cursor.kind());
            if filter.keeps(key, seqno, kind, || bottom(key)) {
                // Versions of one key stay in one file, or files of a level would overlap.
                let full = |builder: &mut SstBuilder| {
                    builder.bytes_estimate() >= self.sst_bytes && builder.last_key() != key
                };
                if let Some(builder) = open.take_if(full) {
                    done.push(finish(builder)?);
                }
                let builder = match &mut open {
                    Some(builder) => builder,
                    None => open.insert(self.create(made)?),
                };
                builder.add(key, seqno, kind, cursor.value())?;
            }
            cursor.next()?;
        }
        if let Some(builder) = open {
            done.push(finish(builder)?);
        }
        Ok(done)
    }

    fn create(&self, made: &mut Vec<u64>) -> Result<SstBuilder> {
        let number = self.numbers.next();
        made.push(number);
        SstBuilder::create(self.disk, self.dir, number, self.block_bytes, self.bits_per_key)
    }
}

fn finish(builder: SstBuilder) -> Result<FileDesc> {
    let summary = builder.finish()?;
    let properties = summary.properties;
    Ok(FileDesc {
        number: summary.number,
        bytes: summary.bytes,
        entries: properties.entries,
        deletes: properties.deletes,
        seqno_min: properties.seqno_min,
        seqno_max: properties.seqno_max,
        smallest: properties.smallest,
        largest: properties.largest,
    })
}

/// Merges the inputs of `plan` into new files for its target level.
pub(crate) fn merge(
    plan: &CompactionPlan,
    levels: &Levels,
    output: &CompactionOutput<'_>,
    filter: VersionFilter,
) -> Result<Vec<FileDesc>> {
    let mut sources: Vec<Box<dyn Cursor>> = Vec::new();
    if plan.from == 0 {
        for file in &plan.upper {
            sources.push(file.cursor(ReadMode::Streaming)?);
        }
    } else {
        sources.push(Box::new(RunCursor::new(plan.upper.clone(), ReadMode::Streaming)));
    }
    if !plan.lower.is_empty() {
        sources.push(Box::new(RunCursor::new(plan.lower.clone(), ReadMode::Streaming)));
    }
    let mut below = Below::new(levels, plan.to);
    output.write(&mut MergeCursor::new(sources), filter, |key| !below.may_hold(key))
}

/// The files deeper than a level, asked by rising key.
struct Below<'a> {
    levels: Vec<std::slice::Iter<'a, Arc<SstFile>>>,
}

impl<'a> Below<'a> {
    fn new(levels: &'a Levels, level: usize) -> Self {
        let deeper = level + 1..LEVELS;
        Self { levels: deeper.map(|level| levels.files(level).iter()).collect() }
    }

    /// Whether `key` lies between the first and the last key of a deeper file.
    fn may_hold(&mut self, key: &[u8]) -> bool {
        self.levels.iter_mut().any(|files| {
            while files.as_slice().first().is_some_and(|file| file.desc().largest.as_slice() < key)
            {
                files.next();
            }
            files.as_slice().first().is_some_and(|file| file.desc().smallest.as_slice() <= key)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::MemDisk;

    fn levels(files: &[(usize, u64, &str, &str)]) -> Levels {
        Levels::new(files.iter().map(|&(level, number, smallest, largest)| {
            (level, SstFile::unread(number, 1, smallest, largest))
        }))
    }

    /// A delete that is dropped while a deeper file holds its key would bring the value back.
    #[test]
    fn a_deeper_file_may_hold_the_keys_between_its_ends() {
        let levels =
            levels(&[(2, 1, "a", "z"), (3, 2, "c", "e"), (3, 3, "g", "g"), (5, 4, "k", "m")]);
        let mut below = Below::new(&levels, 2);
        for (key, may) in [
            ("a", false),
            ("bz", false),
            ("c", true),
            ("d", true),
            ("e", true),
            ("e0", false),
            ("f", false),
            ("g", true),
            ("g0", false),
            ("k", true),
            ("m", true),
            ("m0", false),
        ] {
            assert_eq!(below.may_hold(key.as_bytes()), may, "{key}");
        }
        assert!(!Below::new(&levels, 3).may_hold(b"d"), "that level is the job's own");
        assert!(Below::new(&levels, 3).may_hold(b"l"));
        assert!(!Below::new(&levels, 5).may_hold(b"l"));
    }

    #[test]
    fn filters_are_most_precise_on_top_and_least_at_the_bottom() {
        let disk = MemDisk::shared();
        let numbers = FileNumbers::new(1);
        let output = || CompactionOutput {
            disk: &*disk,
            dir: Path::new("d"),
            numbers: &numbers,
            block_bytes: 100,
            sst_bytes: 1000,
            bits_per_key: 0,
        };
        let flush = output().for_flush();
        assert_eq!((flush.bits_per_key, flush.sst_bytes), (BITS_TOP, u64::MAX));
        let levels = levels(&[(2, 1, "a", "z"), (4, 2, "c", "e")]);
        let bits = |to| output().for_level(&levels, to).bits_per_key;
        assert_eq!([1, 2, 3].map(bits), [BITS_MIDDLE; 3]);
        assert_eq!([4, 5, 6].map(bits), [BITS_BOTTOM; 3]);
    }
}
