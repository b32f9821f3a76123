//! Checkpoint, check and stats.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Engine, EngineShared};
use crate::batch::EntryKind;
use crate::cursor::Cursor;
use crate::disk::{create_dir_durably, directory_of};
use crate::error::{Error, Result};
use crate::hash::key_hash;
use crate::levels::SstFile;
use crate::limits::LEVELS;
use crate::manifest::{Edit, Manifest};
use crate::names;
use crate::sst::{ReadMode, SstCursor};
use crate::sync::lock;

/// The most that a check says about damage.
const DAMAGE_MAX: usize = 1_000;

/// What [`Engine::check`] read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckReport {
    /// SSTs.
    pub files: u64,
    /// Entries in them, old versions and deletes included.
    pub entries: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// One level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LevelStats {
    /// SSTs in it.
    pub files: usize,
    /// Their bytes.
    pub bytes: u64,
    /// Their entries.
    pub entries: u64,
    /// How many of them are deletes.
    pub deletes: u64,
}

/// Numbers about a store and what it did since it was opened. Sizes are in bytes.
#[derive(Clone, Debug, Default)]
pub struct Stats {
    /// The levels, L0 first.
    pub levels: Vec<LevelStats>,
    /// Memory of the memtable that takes writes.
    pub memtable_bytes: usize,
    /// Memtables that wait for their flush.
    pub frozen: usize,
    /// WAL segments that are needed.
    pub wal_bytes_in_use: u64,
    /// Memory of filters and block indexes of the SSTs that were read.
    pub index_bytes: usize,
    /// Memory of cached blocks.
    pub cache_bytes: u64,
    /// Blocks found in the cache.
    pub cache_hits: u64,
    /// Blocks not found there and read.
    pub cache_misses: u64,
    /// SSTs that a filter ruled out.
    pub filter_ruled_out: u64,
    /// SSTs that a filter let through and that had nothing.
    pub filter_in_vain: u64,
    /// Operations committed.
    pub operations: u64,
    /// Bytes of operations committed.
    pub user_bytes: u64,
    /// Commit groups.
    pub groups: u64,
    /// WAL syncs.
    pub syncs: u64,
    /// Bytes appended to the WAL.
    pub wal_bytes: u64,
    /// Memtables flushed.
    pub flushes: u64,
    /// Bytes of SSTs written by flushes.
    pub flush_bytes: u64,
    /// Merges.
    pub compactions: u64,
    /// Moves of files without a merge.
    pub moves: u64,
    /// Bytes read by merges.
    pub compaction_read_bytes: u64,
    /// Bytes written by merges.
    pub compaction_write_bytes: u64,
    /// The sequence number of the last commit.
    pub seqno: u64,
}

impl Engine {
    /// The place of the outer log up to which everything is in SSTs (see [`crate::EntryBatch::set_position`]).
    #[must_use]
    pub fn flushed_position(&self) -> u64 {
        lock(&self.inner.manifest).position
    }

    /// Makes a copy of the store as it is now in `dir`, which must hold no store. SSTs are shared by hard links, so it
    /// takes little time and space; `dir` must be on the same file system. A crash leaves a directory that
    /// [`Engine::open`] refuses.
    ///
    /// # Errors
    /// [`Error::Invalid`] if `dir` holds a store; what a flush or a write said.
    pub fn checkpoint(&self, dir: &Path) -> Result<()> {
        self.flush()?;
        let inner = &*self.inner;
        create_dir_durably(&*inner.disk, dir).map_err(|e| Error::io("create", dir, &e))?;
        let names = inner.disk.list(dir).map_err(|e| Error::io("list", dir, &e))?;
        if !names.is_empty() {
            return Err(Error::Invalid("the directory for a checkpoint is not empty"));
        }
        let (snapshot, levels) = {
            let manifested = lock(&inner.manifest);
            let snapshot = inner.snapshot(&manifested);
            let levels = lock(&inner.work).levels.clone();
            (snapshot, levels)
        };
        for (_, file) in levels.all() {
            let number = file.desc().number;
            let from = names::sst(&inner.dir, number);
            let linked = inner.disk.link(&from, &names::sst(dir, number));
            linked.map_err(|e| Error::io("link", &from, &e))?;
        }
        let number = snapshot.number_next.unwrap_or(1);
        let snapshot = Edit { number_next: Some(number + 1), wal_floor: Some(0), ..snapshot };
        Manifest::create(inner.disk.clone(), dir, number, &snapshot)?;
        let above = directory_of(dir);
        inner.disk.sync_dir(above).map_err(|e| Error::poison("sync", above, &e))
    }

    /// Reads every SST from end to end and checks everything it says: checksums, order, counts, bounds, filters.
    ///
    /// # Errors
    /// The first thing that is wrong; [`Engine::check_all`] says everything.
    pub fn check(&self) -> Result<CheckReport> {
        let mut damage = None;
        let report = self.check_all(|error| {
            damage.get_or_insert(error);
        });
        damage.map_or(Ok(report), Err)
    }

    /// As [`Engine::check`], and goes on after damage: with the next block of a file as far as its block index can be
    /// read, else with the next file. `found` hears of everything that is wrong, [`Error::Corrupt`] or [`Error::Io`], at
    /// most 1,000 times. Only sound files are in the report.
    pub fn check_all(&self, mut found: impl FnMut(Error)) -> CheckReport {
        let levels = self.inner.view.load_full().levels.clone();
        let mut left = DAMAGE_MAX;
        let mut found = |error| {
            if left > 0 {
                left -= 1;
                found(error);
            }
        };
        if let Some((number, what)) = levels.check() {
            found(Error::corrupt(&names::sst(&self.inner.dir, number), 0, what));
        }
        let mut report = CheckReport::default();
        for (_, file) in levels.all() {
            match self.inner.check_file(file) {
                Ok(entries) => {
                    report.entries += entries;
                    report.files += 1;
                    report.bytes += file.desc().bytes;
                }
                Err(error) => self.inner.check_blocks(file, error, &mut found),
            }
        }
        report
    }

    /// Numbers about the store.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let inner = &*self.inner;
        let memtable_bytes = lock(&inner.writer).memtable.bytes();
        let view = inner.view.load_full();
        let levels = (0..LEVELS).map(|level| level_stats(view.levels.files(level))).collect();
        let (cache_hits, cache_misses) = inner.shared.blocks.counts();
        let counters = &inner.counters;
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Stats {
            levels,
            memtable_bytes,
            frozen: view.frozen.len(),
            wal_bytes_in_use: inner.pool.in_use_bytes(),
            index_bytes: view.levels.all().map(|(_, file)| file.memory_bytes()).sum(),
            cache_bytes: inner.shared.blocks.bytes(),
            cache_hits,
            cache_misses,
            filter_ruled_out: count(&inner.probes.ruled_out),
            filter_in_vain: count(&inner.probes.in_vain),
            operations: count(&counters.operations),
            user_bytes: count(&counters.user_bytes),
            groups: count(&counters.groups),
            syncs: count(&counters.syncs),
            wal_bytes: count(&counters.wal_bytes),
            flushes: count(&counters.flushes),
            flush_bytes: count(&counters.flush_bytes),
            compactions: count(&counters.compactions),
            moves: count(&counters.moves),
            compaction_read_bytes: count(&counters.compaction_read_bytes),
            compaction_write_bytes: count(&counters.compaction_write_bytes),
            seqno: inner.points.visible.load(Ordering::Acquire),
        }
    }
}

fn level_stats(files: &[Arc<SstFile>]) -> LevelStats {
    files.iter().map(|file| file.desc()).fold(LevelStats::default(), |sum, desc| LevelStats {
        files: sum.files + 1,
        bytes: sum.bytes + desc.bytes,
        entries: sum.entries + desc.entries,
        deletes: sum.deletes + desc.deletes,
    })
}

impl EngineShared {
    /// Names every block of a damaged file that cannot be read; what was found first, if it is none of these.
    fn check_blocks(&self, file: &SstFile, first: Error, found: &mut impl FnMut(Error)) {
        let Ok(sst) = file.sst() else { return found(first) };
        let mut stretch = None;
        let mut read = |n| sst.block_for(n, ReadMode::Streaming, &mut stretch);
        let mut bad = (0..sst.index().len()).filter_map(|n| read(n).err());
        found(bad.next().unwrap_or(first));
        bad.for_each(found);
    }

    fn check_file(&self, file: &SstFile) -> Result<u64> {
        let desc = file.desc();
        let sst = file.sst()?;
        let wrong = |what| Error::corrupt(&sst.path(), 0, what);
        let properties = sst.properties();
        let said =
            (properties.entries, properties.deletes, &properties.smallest, &properties.largest);
        if said != (desc.entries, desc.deletes, &desc.smallest, &desc.largest) {
            return Err(wrong("properties differ from the manifest"));
        }
        let mut cursor = SstCursor::new(sst.clone(), ReadMode::Streaming);
        let mut last: Option<(Vec<u8>, u64)> = None;
        let (mut entries, mut deletes) = (0, 0);
        cursor.seek_first()?;
        while cursor.valid() {
            let (key, seqno) = (cursor.key(), cursor.seqno());
            let rises = match &last {
                None => key == desc.smallest,
                Some((before, newer)) => {
                    before.as_slice() < key || (before.as_slice() == key && *newer > seqno)
                }
            };
            if !rises {
                return Err(wrong("entries are out of order"));
            }
            if !(desc.seqno_min..=desc.seqno_max).contains(&seqno) {
                return Err(wrong("a sequence number is out of bounds"));
            }
            if !sst.may_contain(key_hash(key)) {
                return Err(wrong("the filter denies a key"));
            }
            entries += 1;
            deletes += u64::from(cursor.kind() == EntryKind::Delete);
            last = Some((key.to_vec(), seqno));
            cursor.next()?;
        }
        if last.map(|(key, _)| key).as_ref() != Some(&desc.largest) {
            return Err(wrong("the last key is missing"));
        }
        if (entries, deletes) != (desc.entries, desc.deletes) {
            return Err(wrong("entries are missing"));
        }
        Ok(entries)
    }
}
