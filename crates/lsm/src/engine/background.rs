//! Background work: flushes, compactions, ready WAL segments, removal of dead files, timed syncs.
//!
//! Each kind of work is a function that does one piece and says whether there was one. Threads call them in a loop; with
//! [`Background::Inline`] the writer that caused the work does.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;

use super::{BackgroundWork, Engine, EngineShared, Frozen};
use crate::compaction::{CompactionOutput, CompactionPlan, VersionFilter, merge, pick, pick_any};
use crate::error::{Error, Result};
use crate::levels::{FileDesc, SstFile};
use crate::manifest::{Edit, Manifest};
use crate::memtable::MemtableCursor;
use crate::names;
use crate::options::{Background, LogKeeping, SyncMode};
use crate::sync::{lock, try_lock, wait, wait_for};

/// Whether there was something to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Did {
    Work,
    Nothing,
}

/// Starts the flush thread and `compactors` compaction threads.
pub(super) fn start(inner: &Arc<EngineShared>, compactors: usize) -> Result<Vec<JoinHandle<()>>> {
    let mut threads = Vec::new();
    for n in 0..=compactors {
        let inner = inner.clone();
        let (name, body): (String, fn(&EngineShared)) = match n {
            0 => ("lsm-flush".to_owned(), EngineShared::flush_loop),
            _ => (format!("lsm-compact-{n}"), EngineShared::compact_loop),
        };
        let thread = std::thread::Builder::new().name(name).spawn(move || {
            let guard = WakeOnPanic(&inner);
            body(&inner);
            std::mem::forget(guard);
        });
        threads.push(thread.map_err(|error| Error::Io(format!("start a thread: {error}")))?);
    }
    Ok(threads)
}

/// Tells everyone who waits when a background thread panics.
struct WakeOnPanic<'a>(&'a EngineShared);

impl Drop for WakeOnPanic<'_> {
    fn drop(&mut self) {
        self.0.fail(&Error::Poisoned("a background thread panicked".to_owned()));
    }
}

impl Engine {
    /// Merges everything down to one level, and drops the versions and deletes that no reader needs on the way. What lies
    /// in that level already and is not met by anything from above stays as it is.
    ///
    /// # Errors
    /// What a flush or a merge said.
    pub fn compact(&self) -> Result<()> {
        self.flush()?;
        loop {
            self.inner.wait_until(|work| work.compacting == 0)?;
            let plan = {
                let mut work = lock(&self.inner.work);
                if work.compacting > 0 {
                    continue;
                }
                let Some(plan) = pick_any(&work.levels, self.inner.options.level_base_bytes) else {
                    return Ok(());
                };
                work.claim(&plan);
                plan
            };
            self.inner.finish_compaction(&plan, self.inner.rewrite(&plan))?;
        }
    }
}

impl BackgroundWork {
    fn claim(&mut self, plan: &CompactionPlan) {
        self.busy.extend(plan.inputs().map(|file| file.desc().number));
        self.compacting += 1;
    }

    fn unclaim(&mut self, plan: &CompactionPlan) {
        for file in plan.inputs() {
            self.busy.remove(&file.desc().number);
        }
        self.compacting -= 1;
    }
}

impl EngineShared {
    /// Does all that is to do, if that is the writers' business.
    pub(super) fn work_inline(&self) -> Result<()> {
        if self.options.background != Background::Inline {
            return Ok(());
        }
        let _one_at_a_time = lock(&self.inline);
        while self.step()? == Did::Work {}
        Ok(())
    }

    fn step(&self) -> Result<Did> {
        if self.flush_one()? == Did::Work || self.compact_one()? == Did::Work {
            return Ok(Did::Work);
        }
        self.bury()?;
        Ok(Did::Nothing)
    }

    fn flush_loop(&self) {
        while !lock(&self.work).stop && self.failure.get().is_none() {
            match self.flush_step() {
                Ok(Did::Work) => {}
                Ok(Did::Nothing) => self.rest(),
                Err(error) => self.note(error),
            }
        }
    }

    fn flush_step(&self) -> Result<Did> {
        // First: what follows can take long or find no room, and a commit that was acknowledged waits for its sync no longer for that.
        self.sync_if_due()?;
        if self.flush_one()? == Did::Work {
            return Ok(Did::Work);
        }
        let has_log = matches!(self.options.durability, LogKeeping::Wal(_));
        // On a full disk whoever writes next asks for room; nobody fills it again and again meanwhile.
        if has_log && self.pool.wants_prepare() && lock(&self.work).full.is_none() {
            self.pool.prepare()?;
            return Ok(Did::Work);
        }
        self.bury()?;
        Ok(Did::Nothing)
    }

    fn compact_loop(&self) {
        while !lock(&self.work).stop && self.failure.get().is_none() {
            match self.compact_one() {
                Ok(Did::Work) => {}
                Ok(Did::Nothing) => {
                    let work = lock(&self.work);
                    let due = pick(&work.levels, &work.busy, self.options.level_base_bytes);
                    if !work.stop && (due.is_none() || work.full.is_some()) {
                        drop(wait(&self.work_came, work));
                    }
                }
                Err(error) => self.note(error),
            }
        }
    }

    /// The flush thread waits for work or for the next timed sync.
    fn rest(&self) {
        let work = lock(&self.work);
        if work.stop || (!work.frozen.is_empty() && work.full.is_none()) {
            return;
        }
        match self.options.durability {
            LogKeeping::Wal(SyncMode::Every { interval, .. }) => {
                drop(wait_for(&self.work_came, work, interval));
            }
            _ => drop(wait(&self.work_came, work)),
        }
    }

    /// Remembers an error of background work: a full disk until there is room, anything else for ever.
    pub(super) fn note(&self, error: Error) {
        if let Error::Full(_) = &error {
            lock(&self.work).full = Some(error);
        } else {
            self.fail(&error);
        }
        self.work_done.notify_all();
    }

    /// Syncs the WAL if the mode's interval has passed. Never waits for a writer, which may be waiting for this
    /// thread to flush: one that commits now syncs as its mode says, and the next round looks again.
    fn sync_if_due(&self) -> Result<()> {
        let LogKeeping::Wal(SyncMode::Every { interval, .. }) = self.options.durability else {
            return Ok(());
        };
        let Some(mut writer) = try_lock(&self.writer) else { return Ok(()) };
        let elapsed = self.options.clock.now().saturating_sub(writer.synced_at);
        if writer.ops_unsynced > 0 && elapsed >= interval {
            self.sync_wal(&mut writer)?;
        }
        Ok(())
    }

    /// Removes files that nobody holds any more.
    pub(super) fn bury(&self) -> Result<()> {
        for number in self.obsolete_files.take() {
            let path = names::sst(&self.dir, number);
            self.disk.remove(&path).map_err(|e| Error::io("remove", &path, &e))?;
        }
        Ok(())
    }

    fn output(&self) -> CompactionOutput<'_> {
        CompactionOutput {
            disk: &*self.disk,
            dir: &self.dir,
            numbers: &self.numbers,
            block_bytes: self.options.block_bytes,
            sst_bytes: self.options.sst_bytes,
            bits_per_key: 0,
        }
    }

    /// Flushes the oldest frozen memtable.
    fn flush_one(&self) -> Result<Did> {
        let frozen = {
            let mut work = lock(&self.work);
            if work.flushing || work.full.is_some() {
                return Ok(Did::Nothing);
            }
            let Some(frozen) = work.frozen.front().cloned() else { return Ok(Did::Nothing) };
            work.flushing = true;
            frozen
        };
        let flushed = self.flush(&frozen);
        lock(&self.work).flushing = false;
        self.work_came.notify_all();
        self.work_done.notify_all();
        flushed.map(|()| Did::Work)
    }

    fn flush(&self, frozen: &Frozen) -> Result<()> {
        let filter = VersionFilter::new(self.points.list());
        let mut cursor = MemtableCursor::new(frozen.table.clone());
        let descs = self.output().for_flush().write(&mut cursor, filter, |_| false)?;
        let bytes: u64 = descs.iter().map(|desc| desc.bytes).sum();
        if let Some(log) = &self.options.outer_log {
            log.sync_to(frozen.position)?;
        }
        let edit = Edit {
            wal_floor: Some(frozen.floor_after),
            seqno_flushed: Some(frozen.seqno_last),
            position: Some(frozen.position),
            ..Edit::default()
        };
        self.install(edit, 0, descs, &[], |work| {
            let first = work.frozen.pop_front();
            assert!(
                first.is_some_and(|first| Arc::ptr_eq(&first.table, &frozen.table)),
                "memtables are flushed in order"
            );
        })?;
        // Relaxed: counters for people.
        self.counters.flushes.fetch_add(1, Ordering::Relaxed);
        self.counters.flush_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.pool.release_below(frozen.floor_after)
    }

    /// Records that everything up to `position` of the outer log is in files, unless something was written since the flush.
    pub(super) fn reach(&self, position: u64) -> Result<()> {
        if let Some(log) = &self.options.outer_log {
            log.sync_to(position)?;
        }
        let writer = lock(&self.writer);
        let mut manifested = lock(&self.manifest);
        let flushed = writer.memtable.is_empty() && lock(&self.work).frozen.is_empty();
        if !flushed || position <= manifested.position {
            return Ok(());
        }
        self.record(&mut manifested, Edit { position: Some(position), ..Edit::default() })
    }

    /// Runs the most urgent compaction.
    fn compact_one(&self) -> Result<Did> {
        let plan = {
            let mut work = lock(&self.work);
            if work.full.is_some() {
                return Ok(Did::Nothing);
            }
            let base_bytes = self.options.level_base_bytes;
            let Some(plan) = pick(&work.levels, &work.busy, base_bytes) else {
                return Ok(Did::Nothing);
            };
            work.claim(&plan);
            plan
        };
        let moved_or_merged =
            if plan.is_move() { self.move_down(&plan) } else { self.rewrite(&plan) };
        self.finish_compaction(&plan, moved_or_merged)?;
        Ok(Did::Work)
    }

    fn finish_compaction(&self, plan: &CompactionPlan, result: Result<()>) -> Result<()> {
        lock(&self.work).unclaim(plan);
        self.work_came.notify_all();
        self.work_done.notify_all();
        result.inspect_err(|error| self.fail(error))
    }

    /// Changes the level of files without touching them.
    fn move_down(&self, plan: &CompactionPlan) -> Result<()> {
        let removed: Vec<u64> = plan.upper.iter().map(|file| file.desc().number).collect();
        let added = plan.upper.iter().map(|file| (plan.to, file.desc().clone())).collect();
        let edit = Edit { added, removed: removed.clone(), ..Edit::default() };
        let mut manifested = lock(&self.manifest);
        self.record(&mut manifested, edit)?;
        let mut work = lock(&self.work);
        let moved: Vec<_> = plan.upper.iter().map(|file| (plan.to, file.clone())).collect();
        work.levels = Arc::new(work.levels.edited(&removed, &moved));
        self.publish(&work);
        self.counters.moves.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Merges the files of a plan into new ones.
    fn rewrite(&self, plan: &CompactionPlan) -> Result<()> {
        let levels = lock(&self.work).levels.clone();
        let filter = VersionFilter::new(self.points.list());
        let output = self.output().for_level(&levels, plan.to);
        let descs = merge(plan, &levels, &output, filter)?;
        let read: u64 = plan.inputs().map(|file| file.desc().bytes).sum();
        let written: u64 = descs.iter().map(|desc| desc.bytes).sum();
        let removed: Vec<u64> = plan.inputs().map(|file| file.desc().number).collect();
        let edit = Edit { removed: removed.clone(), ..Edit::default() };
        self.install(edit, plan.to, descs, &removed, |_| {})?;
        plan.inputs().for_each(|file| file.mark_obsolete());
        // Relaxed: counters for people.
        self.counters.compactions.fetch_add(1, Ordering::Relaxed);
        self.counters.compaction_read_bytes.fetch_add(read, Ordering::Relaxed);
        self.counters.compaction_write_bytes.fetch_add(written, Ordering::Relaxed);
        Ok(())
    }

    /// Makes new files live at `level` and `removed` ones dead, on the disk and then in memory.
    fn install(
        &self,
        mut edit: Edit,
        level: usize,
        descs: Vec<FileDesc>,
        removed: &[u64],
        change: impl FnOnce(&mut BackgroundWork),
    ) -> Result<()> {
        self.disk.sync_dir(&self.dir).map_err(|e| Error::poison("sync", &self.dir, &e))?;
        edit.added.extend(descs.iter().map(|desc| (level, desc.clone())));
        let numbers: Vec<u64> = descs.iter().map(|desc| desc.number).collect();
        let added: Vec<_> = descs
            .into_iter()
            .map(|desc| SstFile::new(desc, self.shared.clone(), self.obsolete_files.clone()))
            .map(|file| (level, Arc::new(file)))
            .collect();
        let mut manifested = lock(&self.manifest);
        let recorded = self.record(&mut manifested, edit);
        if let Err(Error::Full(_)) = &recorded {
            // The manifest is as it was, so nobody names these.
            for number in numbers {
                let _ = self.disk.remove(&names::sst(&self.dir, number));
            }
        }
        recorded?;
        let mut work = lock(&self.work);
        change(&mut work);
        work.levels = Arc::new(work.levels.edited(removed, &added));
        self.publish(&work);
        Ok(())
    }

    /// Appends an edit to the manifest, or starts a new manifest with it.
    fn record(&self, manifested: &mut super::Manifested, mut edit: Edit) -> Result<()> {
        edit.number_next = Some(self.numbers.peek());
        let merged = |kept: u64, new: Option<u64>| kept.max(new.unwrap_or(0));
        let wal_floor = merged(manifested.wal_floor, edit.wal_floor);
        let seqno_flushed = merged(manifested.seqno_flushed, edit.seqno_flushed);
        let position = merged(manifested.position, edit.position);
        // A flush of what was written without a place says none, and would take back what an earlier one said.
        edit.position = edit.position.map(|_| position);
        if manifested.manifest.wants_rotation() {
            let old = names::manifest(&self.dir, manifested.manifest.number());
            let number = self.numbers.next();
            let mut snapshot = self.snapshot(manifested);
            snapshot.absorb(edit);
            snapshot.wal_floor = Some(wal_floor);
            snapshot.number_next = Some(self.numbers.peek());
            manifested.manifest =
                Manifest::create(self.disk.clone(), &self.dir, number, &snapshot)?;
            self.disk.remove(&old).map_err(|e| Error::io("remove", &old, &e))?;
        } else {
            manifested.manifest.append(&edit)?;
        }
        manifested.wal_floor = wal_floor;
        manifested.seqno_flushed = seqno_flushed;
        manifested.position = position;
        Ok(())
    }

    /// The whole live state as one edit. The caller holds the manifest, so the files cannot change.
    pub(super) fn snapshot(&self, manifested: &super::Manifested) -> Edit {
        let levels = lock(&self.work).levels.clone();
        Edit {
            added: levels.all().map(|(level, file)| (level, file.desc().clone())).collect(),
            removed: Vec::new(),
            wal_floor: Some(manifested.wal_floor),
            seqno_flushed: Some(manifested.seqno_flushed),
            number_next: Some(self.numbers.peek()),
            position: Some(manifested.position),
        }
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::Options;
    use crate::clock::Clock;
    use crate::disk::{DiskFault, FaultKind, FaultyDisk};

    /// Stands still unless it is moved.
    #[derive(Debug, Default)]
    struct StillClock(crate::sync::AtomicU64);

    impl Clock for StillClock {
        fn now(&self) -> Duration {
            Duration::from_secs(self.0.load(Ordering::Relaxed))
        }

        fn sleep(&self, _: Duration) {}
    }

    #[test]
    fn a_full_disk_puts_off_no_timed_sync_and_is_not_filled_again_and_again() {
        let disk = FaultyDisk::shared();
        let interval = Duration::from_secs(1);
        let durability = LogKeeping::Wal(SyncMode::Every { ops: u64::MAX, interval });
        let clock = Arc::<StillClock>::default();
        let options = Options { durability, clock: clock.clone(), ..Options::default() };
        let options = Options { background: Background::Inline, ..options };
        let engine = Engine::open(disk.clone(), "d", options).unwrap();
        engine.put(b"key", b"value").unwrap();
        assert_eq!(engine.stats().syncs, 0);
        assert!(engine.inner.pool.wants_prepare(), "a segment is in use, and none is ready");

        disk.plan(Some(DiskFault { kind: FaultKind::NoSpace, from: 0, until: u64::MAX }));
        // What the thread does that flushes.
        let turn = || match engine.inner.flush_step() {
            Ok(did) => Some(did),
            Err(error) => {
                engine.inner.note(error);
                None
            }
        };
        assert_eq!(turn(), None, "there is no room for another segment");
        let operations = disk.operations();
        assert_eq!((turn(), disk.operations()), (Some(Did::Nothing), operations));
        clock.0.fetch_add(1, Ordering::Relaxed);
        assert_eq!(turn(), Some(Did::Nothing));
        assert_eq!(engine.stats().syncs, 1, "what was acknowledged is durable in time");

        disk.plan(None);
        engine.put(b"another", b"value").unwrap();
        assert_eq!(turn(), Some(Did::Work), "who writes has room looked for again");
    }
}
