//! The write path: what a commit leader does with a group.

use std::sync::atomic::Ordering;

use super::{BackgroundWork, Engine, EngineShared, EngineWriter, Frozen, ReadView};
use crate::batch::{EntryBatch, Operations};
use crate::commit::{CommitGroup, Sync};
use crate::error::{Error, Result};
use crate::limits::SEQNO_MAX;
use crate::memtable::{Memtable, room_for};
use crate::options::{Background, LogKeeping, SyncMode};
use crate::sync::{lock, wait};
use crate::wal::frame;

/// L0 files from which writers are held back.
const L0_SLOW: usize = 8;
/// What a writer of one MiB waits at that point, in nanoseconds. About a tenth of what an unhurried writer needs.
const SLOW_NANOS: f64 = 1e6;
/// By how much the wait grows with each further file.
const SLOW_GROWTH: f64 = 1.5;
/// What each frozen memtable beyond the first adds, in nanoseconds per MiB.
const FROZEN_NANOS: u64 = 2_000_000;
/// Waits shorter than this are gathered, in nanoseconds: a sleep cannot be shorter.
const DEBT_MIN_NANOS: u64 = 1_000_000;

impl Engine {
    /// Sets a key to a value; durable as the engine's mode says.
    ///
    /// # Errors
    /// [`Error::Invalid`] for what is too long; [`Error::Full`] and [`Error::Poisoned`] as they say.
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        let mut batch = EntryBatch::new();
        batch.put(key, value)?;
        self.write(&batch, Sync::Mode)
    }

    /// Removes a key; durable as the engine's mode says.
    ///
    /// # Errors
    /// As [`Engine::put`].
    pub fn delete(&self, key: &[u8]) -> Result<()> {
        let mut batch = EntryBatch::new();
        batch.delete(key)?;
        self.write(&batch, Sync::Mode)
    }

    /// Applies a batch as one: visible and durable together.
    ///
    /// # Errors
    /// As [`Engine::put`]. After an error other than `Invalid`, `Full` or `Closed` the batch may be found applied when the
    /// store is opened again.
    pub fn write(&self, batch: &EntryBatch, sync: Sync) -> Result<()> {
        self.inner.admit_write()?;
        if batch.is_empty() {
            return if sync == Sync::Now { self.sync() } else { Ok(()) };
        }
        self.inner.queue.submit(batch, sync, |group| self.inner.commit(group))?;
        // The commit stands; what its background work says concerns the next one.
        if let Err(error) = self.inner.work_inline() {
            self.inner.note(error);
        }
        Ok(())
    }

    /// Whether the disk had room for what was last to be written to files. If it had none, that is tried again for whoever
    /// asks next.
    ///
    /// # Errors
    /// [`Error::Full`].
    pub fn check_room(&self) -> Result<()> {
        self.inner.refuse_if_full()
    }

    /// Makes every commit so far durable.
    ///
    /// # Errors
    /// [`Error::Poisoned`] if the disk refuses.
    pub fn sync(&self) -> Result<()> {
        self.inner.admit_write()?;
        self.inner.sync_wal(&mut lock(&self.inner.writer))
    }

    /// Writes everything that is in memory to SSTs.
    ///
    /// # Errors
    /// What the flush said.
    pub fn flush(&self) -> Result<()> {
        self.inner.admit_write()?;
        // A disk that was full may have room again; if not, the work says so anew.
        lock(&self.inner.work).full = None;
        self.inner.work_came.notify_all();
        {
            let mut writer = lock(&self.inner.writer);
            if !writer.memtable.is_empty() {
                writer.wal.end_segment().inspect_err(|error| self.inner.fail(error))?;
                self.inner.freeze(&mut writer, 0)?;
            }
        }
        self.inner.work_inline()?;
        self.inner.wait_until(|work| work.frozen.is_empty())
    }

    /// The same, and says that nothing of the outer log up to `position` is missing then: what it holds behind the last
    /// write to this engine wrote nothing here. Otherwise it would be kept for what it does not have, and read at each open.
    ///
    /// # Errors
    /// What the flush, the sync of the outer log or the manifest said.
    pub fn flush_to(&self, position: u64) -> Result<()> {
        self.flush()?;
        self.inner.reach(position).inspect_err(|error| self.inner.fail(error))
    }
}

impl EngineShared {
    /// Refuses writes of a closed or failed engine, and of a full one unless the disk may have room again.
    pub(super) fn admit_write(&self) -> Result<()> {
        if self.closed.load(Ordering::Acquire) {
            return Err(Error::Closed);
        }
        match self.failure.get() {
            Some(error) => Err(error.clone()),
            None => Ok(()),
        }
    }

    /// Remembers an error that ends writing.
    pub(super) fn fail(&self, error: &Error) {
        if !matches!(error, Error::Full(_) | Error::Invalid(_) | Error::Closed) {
            // The first failure is the one to report.
            let _ = self.failure.set(error.clone());
            self.work_came.notify_all();
            self.work_done.notify_all();
        }
    }

    fn commit(&self, group: &mut CommitGroup) -> Result<()> {
        let mut writer = lock(&self.writer);
        self.admit_write()?;
        // What an outer log holds is taken while memory has room for it: who writes the log asks for room beforehand.
        if !matches!(self.options.durability, LogKeeping::External) {
            self.refuse_if_full()?;
        }
        let result = self.commit_to(&mut writer, group);
        if let Err(error) = &result {
            self.fail(error);
        }
        result
    }

    fn commit_to(&self, writer: &mut EngineWriter, group: &mut CommitGroup) -> Result<()> {
        let payload_bytes = group.payload().len();
        self.hold_back(writer, payload_bytes as u64);
        let room = room_for(payload_bytes, group.ops);
        if !writer.memtable.has_room(room) {
            self.freeze(writer, room)?;
        }
        let seqno_first = writer.seqno_last + 1;
        assert!(
            seqno_first + (group.ops as u64) < SEQNO_MAX,
            "sequence numbers last for centuries"
        );
        if let LogKeeping::Wal(mode) = self.options.durability {
            self.log(writer, group, seqno_first, mode)?;
        }
        let mut seqno = seqno_first;
        for operation in Operations::new(group.payload()) {
            writer.memtable.insert(seqno, operation.expect("a batch encodes what it was given"));
            seqno += 1;
        }
        writer.seqno_last = seqno - 1;
        writer.position = writer.position.max(group.position);
        // Release: whoever sees this number sees the entries up to it.
        self.points.visible.store(writer.seqno_last, Ordering::Release);
        // Relaxed: counters for people.
        self.counters.groups.fetch_add(1, Ordering::Relaxed);
        self.counters.operations.fetch_add(group.ops as u64, Ordering::Relaxed);
        self.counters.user_bytes.fetch_add(payload_bytes as u64, Ordering::Relaxed);
        Ok(())
    }

    /// Appends the group's frame and syncs as the mode asks.
    fn log(
        &self,
        writer: &mut EngineWriter,
        group: &mut CommitGroup,
        seqno: u64,
        mode: SyncMode,
    ) -> Result<()> {
        let ops = u32::try_from(group.ops).expect("a group has a bounded number of operations");
        let payload_end = group.buffer.len();
        let before = writer.wal.segment_number();
        let segment = writer.wal.make_room(frame::padded(group.buffer.len()))?;
        if before != Some(segment) {
            self.work_came.notify_all();
        }
        writer.wal.append(&mut group.buffer, seqno, ops)?;
        self.counters.wal_bytes.fetch_add(group.buffer.len() as u64, Ordering::Relaxed);
        // The padding of the frame is no operation.
        group.buffer.truncate(payload_end);
        writer.ops_unsynced += u64::from(ops);
        let due = match mode {
            SyncMode::EveryCommit => true,
            SyncMode::OnDemand => false,
            SyncMode::Every { ops, interval } => {
                writer.ops_unsynced >= ops
                    || self.options.clock.now().saturating_sub(writer.synced_at) >= interval
            }
        };
        if due || group.sync == Sync::Now { self.sync_wal(writer) } else { Ok(()) }
    }

    /// Makes everything in the WAL durable.
    pub(super) fn sync_wal(&self, writer: &mut EngineWriter) -> Result<()> {
        writer.wal.sync().inspect_err(|error| self.fail(error))?;
        writer.ops_unsynced = 0;
        if matches!(self.options.durability, LogKeeping::Wal(SyncMode::Every { .. })) {
            writer.synced_at = self.options.clock.now();
        }
        self.counters.syncs.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Freezes the memtable and starts one that has room for `room` bytes.
    pub(super) fn freeze(&self, writer: &mut EngineWriter, room: usize) -> Result<()> {
        let full = lock(&self.work).active.clone();
        let (active, memtable) = Memtable::new(self.options.memtable_bytes, room, full.prefixes());
        drop(full);
        if writer.memtable.is_empty() {
            writer.memtable = memtable;
            let mut work = lock(&self.work);
            work.active = active;
            self.publish(&work);
            return Ok(());
        }
        self.wait_for_frozen_room()?;
        let mut work = lock(&self.work);
        let floor_after = writer.wal.segment_number().unwrap_or_else(|| self.pool.next_floor());
        let table = std::mem::replace(&mut work.active, active);
        work.frozen.push_back(Frozen {
            table,
            floor_after,
            seqno_last: writer.seqno_last,
            position: writer.position,
        });
        self.publish(&work);
        drop(work);
        writer.memtable = memtable;
        self.work_came.notify_all();
        Ok(())
    }

    /// Memory is bounded: with too many frozen memtables the writer waits for a flush.
    fn wait_for_frozen_room(&self) -> Result<()> {
        let frozen_max = self.options.frozen_max;
        if lock(&self.work).frozen.len() < frozen_max {
            return Ok(());
        }
        self.refuse_if_full()?;
        if self.options.background == Background::Inline {
            while lock(&self.work).frozen.len() >= frozen_max {
                self.work_inline()?;
            }
            return Ok(());
        }
        self.wait_until(|work| work.frozen.len() < frozen_max)
    }

    /// Waits until background work has brought about `condition`.
    pub(super) fn wait_until(&self, condition: impl Fn(&BackgroundWork) -> bool) -> Result<()> {
        let mut work = lock(&self.work);
        while !condition(&work) {
            if let Some(error) = self.failure.get() {
                return Err(error.clone());
            }
            if let Some(full) = &work.full {
                return Err(full.clone());
            }
            if work.stop {
                return Err(Error::Closed);
            }
            work = wait(&self.work_done, work);
        }
        Ok(())
    }

    /// A full disk refuses this write, and lets the background try again for the next one.
    fn refuse_if_full(&self) -> Result<()> {
        let Some(full) = lock(&self.work).full.take() else { return Ok(()) };
        if self.options.background == Background::Inline {
            return self.work_inline().inspect_err(|error| self.note(error.clone()));
        }
        self.work_came.notify_all();
        Err(full)
    }

    /// Makes a changed state the one that readers see, and sets the pressure on writers by it.
    pub(super) fn publish(&self, work: &BackgroundWork) {
        self.view.store(std::sync::Arc::new(ReadView::of(work)));
        let excess = work.levels.l0().len().saturating_sub(L0_SLOW - 1);
        let by_files = if excess == 0 { 0.0 } else { SLOW_NANOS * SLOW_GROWTH.powi(excess as i32) };
        let by_frozen = work.frozen.len().saturating_sub(1) as u64 * FROZEN_NANOS;
        // Relaxed: a hint.
        self.pressure.store(by_files as u64 + by_frozen, Ordering::Relaxed);
    }

    /// Holds the writer back a little for every byte while compaction is behind, so that it never has to stop.
    fn hold_back(&self, writer: &mut EngineWriter, bytes: u64) {
        let pressure = self.pressure.load(Ordering::Relaxed);
        if pressure == 0 || self.options.background == Background::Inline {
            writer.debt = 0;
            return;
        }
        writer.debt += (bytes * (pressure >> 10)) >> 10;
        if writer.debt >= DEBT_MIN_NANOS {
            self.options.clock.sleep(std::time::Duration::from_nanos(writer.debt));
            writer.debt = 0;
        }
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    use super::*;
    use crate::Options;
    use crate::clock::Clock;
    use crate::disk::MemDisk;
    use crate::levels::{Levels, SstFile};

    /// Stands still, and remembers for how long it was slept.
    #[derive(Debug, Default)]
    struct Sleeps(Mutex<Vec<Duration>>);

    impl Clock for Sleeps {
        fn now(&self) -> Duration {
            Duration::ZERO
        }

        fn sleep(&self, duration: Duration) {
            lock(&self.0).push(duration);
        }
    }

    fn open(background: Background) -> (Engine, Arc<Sleeps>) {
        let clock = Arc::<Sleeps>::default();
        let options = Options { background, clock: clock.clone(), ..Options::default() };
        let options = Options { memtable_bytes: 1 << 20, wal_segment_bytes: 1 << 20, ..options };
        (Engine::open(MemDisk::shared(), "d", options).unwrap(), clock)
    }

    /// An operation that takes so many bytes.
    fn put(engine: &Engine, bytes: usize) {
        let mut batch = EntryBatch::new();
        let value = vec![0; bytes - if bytes < 128 { 4 } else { 5 }];
        batch.put(b"k", &value).unwrap();
        assert_eq!(batch.encoded_bytes(), bytes);
        engine.write(&batch, Sync::Mode).unwrap();
    }

    #[test]
    fn a_writer_is_held_back_for_every_byte_once_it_is_worth_a_sleep() {
        let (engine, clock) = open(Background::Threads(1));
        let slept = || std::mem::take(&mut *lock(&clock.0));
        put(&engine, 1000);
        assert_eq!(slept(), [], "there is no pressure");
        // A second for each MiB: 102,400 ns for a hundred bytes.
        engine.inner.pressure.store(1 << 30, Ordering::Relaxed);
        (0..9).for_each(|_| put(&engine, 100));
        assert_eq!(slept(), []);
        put(&engine, 100);
        assert_eq!(slept(), [Duration::from_nanos(1_024_000)]);
        // What is owed while there is none any more is forgotten.
        (0..9).for_each(|_| put(&engine, 100));
        engine.inner.pressure.store(0, Ordering::Relaxed);
        put(&engine, 100);
        engine.inner.pressure.store(1 << 30, Ordering::Relaxed);
        (0..9).for_each(|_| put(&engine, 100));
        assert_eq!(slept(), []);
        engine.inner.pressure.store(1_024_000 << 10, Ordering::Relaxed);
        lock(&engine.inner.writer).debt = 0;
        put(&engine, 1000);
        assert_eq!(slept(), [Duration::from_nanos(DEBT_MIN_NANOS)], "exactly the least");
    }

    #[test]
    fn nobody_is_held_back_for_work_that_writers_do() {
        let (engine, clock) = open(Background::Inline);
        engine.inner.pressure.store(1 << 40, Ordering::Relaxed);
        put(&engine, 1000);
        assert!(lock(&clock.0).is_empty());
    }

    #[test]
    fn pressure_grows_with_files_of_level_0_and_with_frozen_memtables() {
        let (engine, _) = open(Background::Inline);
        let pressure = |files: u64, frozen: usize| {
            let files = (1..=files).map(|n| (0, SstFile::unread(n, 1, "a", "b")));
            let mut work = lock(&engine.inner.work);
            work.levels = Arc::new(Levels::new(files));
            let table = work.active.clone();
            let one = Frozen { table, floor_after: 0, seqno_last: 0, position: 0 };
            work.frozen = vec![one; frozen].into();
            engine.inner.publish(&work);
            engine.inner.pressure.load(Ordering::Relaxed)
        };
        assert_eq!((pressure(0, 0), pressure(7, 1)), (0, 0));
        assert_eq!((pressure(8, 0), pressure(10, 1)), (1_500_000, 3_375_000));
        assert_eq!((pressure(0, 2), pressure(7, 4)), (2_000_000, 6_000_000));
        assert_eq!(pressure(9, 3), 2_250_000 + 4_000_000);
        assert_eq!(pressure(0, 0), 0);
    }
}
