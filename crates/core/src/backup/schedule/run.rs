//! One snapshot: written, read back, and only then counted; older ones go after that.

use std::collections::BTreeMap;
use std::io::Read;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};

use arc_swap::ArcSwapOption;
use jiff::Timestamp;
use kallisto_backup::{Examiner, FileWriter, KeyGiven, TAG};
use kallisto_barrier::RootKey;
use kallisto_store::{Batch, Seqno, Store};

use super::config::EXTENSION;
use super::status::FILES_MAX;
use super::{BackupSchedule, Namesake, ScheduleStatus, at_same_place, config, next, status};
use crate::api::json::Json;
use crate::backup::save;
use crate::platform::snapshot_storage::{SchedulePauses, SnapshotStorage, SnapshotTarget};
use crate::platform::threads::{Threads, give_way, outcome_of};
use crate::state::Stopwatch;
use crate::storage::engine_storage::EngineStorage;
use crate::storage::keys::MountId;
use crate::view::NamespaceContext;

/// Bytes that are read back at once.
const READ_BYTES: usize = 1 << 20;
/// Bytes of a file of unknown origin that are looked at together.
const PIECE_BYTES: usize = 512;
/// Longest error that is kept, in bytes.
const ERROR_BYTES_MAX: usize = 500;

/// That a snapshot is under way, until it is dropped.
pub(super) struct RunningGuard(pub(super) Arc<AtomicBool>);

impl Drop for RunningGuard {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

/// A snapshot to make.
pub(super) struct SnapshotRun {
    pub(super) name: String,
    pub(super) schedule: BackupSchedule,
    /// Since when the schedule is as it is.
    pub(super) seqno: Seqno,
    pub(super) status: ScheduleStatus,
    /// Other schedules that give their files the same names. Those at the same place are of a time in which that was possible, or were not
    /// known for it when they were written: a link came later, say.
    pub(super) namesakes: Vec<Namesake>,
    pub(super) stored: Arc<dyn SnapshotStorage>,
    pub(super) now: Timestamp,
    pub(super) store: Arc<dyn Store>,
    /// Its store, as files name it.
    pub(super) store_name: String,
    pub(super) slot: Arc<ArcSwapOption<NamespaceContext>>,
    pub(super) root: Arc<RootKey>,
    pub(super) stopwatch: Stopwatch,
    pub(super) threads: Arc<dyn Threads>,
    /// Where it is noted that the status could not be kept.
    pub(super) pauses: Arc<SchedulePauses>,
}

/// What was made.
struct VerifiedFile {
    file: String,
    bytes: u64,
    records: u64,
    index: u64,
    kept: u64,
    /// The names of those that are there and were verified.
    files: Vec<String>,
    /// The names of those that turned out to be of other clusters.
    others: Vec<String>,
}

impl SnapshotRun {
    /// Makes it, and writes down how that went.
    pub(super) fn run(mut self) {
        give_way();
        let others = std::mem::take(&mut self.namesakes);
        self.namesakes = at_same_place(&*self.stored, &self.schedule.target, others);
        self.status.forget_others(&self.store_name);
        let start = (self.stopwatch)();
        let outcome = self.make();
        let took = (self.stopwatch)().saturating_sub(start).as_secs();
        let started = self.now.as_second();
        let mut status = self.status.clone();
        status.tried = started;
        match outcome {
            Ok(made) => {
                tracing::info!(
                    schedule = self.name,
                    file = made.file,
                    bytes = made.bytes,
                    records = made.records,
                    "a scheduled snapshot was written and verified"
                );
                status.error = String::new();
                status.failed_in_a_row = 0;
                status.started = started;
                status.ended = started.saturating_add_unsigned(took);
                status.url = self.schedule.url(&made.file);
                (status.bytes, status.records) = (made.bytes, made.records);
                (status.index, status.kept) = (made.index, made.kept);
                status.files = made.files;
                status.others.extend(made.others);
                let forgotten = status.others.len().saturating_sub(FILES_MAX);
                status.others.drain(..forgotten);
                status.store.clone_from(&self.store_name);
            }
            Err(error) => {
                tracing::error!(schedule = self.name, error, "a scheduled snapshot failed");
                status.error = error.chars().take(ERROR_BYTES_MAX).collect();
                status.failed_in_a_row += 1;
                status.failures += 1;
            }
        }
        let put = self.put(&status);
        let mut pauses = self.pauses.lock().unwrap_or_else(PoisonError::into_inner);
        match put {
            Ok(()) => {
                pauses.remove(&self.name);
            }
            // No record tells of this try, as on a full disk. The next one waits as it would otherwise.
            Err(error) => {
                pauses.insert(self.name.clone(), (self.seqno, next(&self.schedule, &status)));
                tracing::warn!(schedule = self.name, error, "how a snapshot went is not kept");
            }
        }
    }

    /// Keeps the status, unless the schedule was changed or deleted meanwhile.
    fn put(&self, status: &ScheduleStatus) -> Result<(), String> {
        let Some(context) = self.slot.load_full() else { return Err("sealed".into()) };
        let storage = EngineStorage::builtin(&context, MountId::SYSTEM).map_err(text)?;
        let mut batch = Batch::new();
        storage.expect_in(&mut batch, &config::record(&self.name), self.seqno);
        let name = status::record(&self.name);
        storage.put_in(&mut batch, &name, status.to_record()).map_err(text)?;
        let commit = context.store.commit(batch);
        let outcome = outcome_of(&*self.threads, commit);
        outcome.ok_or("no outcome")?.map(|_| ()).map_err(text)
    }

    /// Fails once this server is not one to make snapshots.
    fn check(&self) -> Result<(), String> {
        if self.slot.load().is_none() {
            return Err("the server was sealed meanwhile".into());
        }
        if !self.store.leads() {
            return Err("another server leads meanwhile".into());
        }
        Ok(())
    }

    fn make(&self) -> Result<VerifiedFile, String> {
        let (target, stored) = (&self.schedule.target, &*self.stored);
        let prefix = self.schedule.prefix();
        let taken = stored.list(target, &prefix)?;
        let taken: u64 =
            taken.iter().filter(|file| self.is_own(&file.name)).map(|file| file.bytes).sum();
        let cluster = self.store.replicated().ok_or("the storage is not replicated")?;
        let ready = outcome_of(&*self.threads, cluster.read_index());
        ready.ok_or("no outcome")?.map_err(text)?;
        let (position, mut chunks) = cluster.backup().map_err(text)?;
        let meta = save::meta(&cluster.store_id(), cluster.leadership().term, position);
        let time = self.now.strftime("%Y%m%dT%H%M%SZ");
        let file = format!("{prefix}{time}-{}{EXTENSION}", position.0);

        let mut sink = stored.create(target, &file)?;
        let mut out = Vec::new();
        let mut bytes = 0_u64;
        let mut writer = FileWriter::begin(&meta, &mut out);
        loop {
            let chunk = chunks.next_chunk().map_err(text)?;
            if let Some(chunk) = &chunk {
                writer.put_chunk(chunk, &mut out);
            } else {
                let key = self.root.tag_key(TAG).map_err(text)?;
                writer.end(|sums| key.sign(sums), &mut out);
                bytes += out.len() as u64;
                self.check_space(taken + bytes)?;
                sink.write(&out)?;
                break;
            }
            bytes += out.len() as u64;
            self.check_space(taken + bytes)?;
            self.check()?;
            sink.write(&out)?;
            out.clear();
        }
        self.check()?;
        if let Err(why) = sink.finish() {
            // It may be there all the same, when only the answer was lost; if it cannot be removed, the next one knows it for unverified.
            let _ = stored.delete(target, &file);
            return Err(why);
        }
        let records = match self.verify(&file, bytes) {
            Ok(records) => records,
            Err(why) => {
                // What cannot be restored must not look like a backup.
                let removed = stored.delete(target, &file);
                let left = removed.err().map(|why| format!("; it stays: {why}"));
                let left = left.unwrap_or_default();
                return Err(format!("{file} was written and is not as it was: {why}{left}"));
            }
        };
        let KeptFiles { there, verified, others } = self.retain(&prefix, &file)?;
        let kept = there.len() as u64;
        let mut files: Vec<String> =
            there.into_iter().filter(|name| verified.contains(name)).collect();
        files.drain(..files.len().saturating_sub(FILES_MAX));
        Ok(VerifiedFile { file, bytes, records, index: position.0, kept, files, others })
    }

    /// Whether a file is one of this schedule's, as far as names tell.
    fn is_own(&self, file: &str) -> bool {
        let is_known = |other: &Namesake| other.files.iter().any(|known| known == file);
        let is_others = self.status.others.iter().any(|known| known == file);
        !is_others && self.schedule.writes(file) && !self.namesakes.iter().any(is_known)
    }

    fn check_space(&self, bytes: u64) -> Result<(), String> {
        let max = self.schedule.space_max;
        if matches!(self.schedule.target, SnapshotTarget::Local { .. }) && bytes > max {
            return Err(format!("the files would take more than local_max_space, {max} bytes"));
        }
        Ok(())
    }

    /// Reads a file back and opens every record of it; how many there are.
    fn verify(&self, file: &str, bytes: u64) -> Result<u64, String> {
        let mut from = self.stored.open(&self.schedule.target, file, bytes)?;
        let mut examiner = Examiner::new(KeyGiven::Root(Arc::clone(&self.root)));
        let mut buffer = vec![0; READ_BYTES];
        loop {
            self.check()?;
            let read = from.read(&mut buffer).map_err(text)?;
            if read == 0 {
                break;
            }
            examiner.take(buffer.get(..read).unwrap_or_default()).map_err(text)?;
        }
        Ok(examiner.finish().map_err(text)?.records)
    }

    /// What a file is of which this cluster does not remember that it verified it. One that cannot be read now is left alone.
    fn judge(&self, file: &str, bytes: u64) -> Result<FileOrigin, String> {
        let Ok(mut from) = self.stored.open(&self.schedule.target, file, bytes) else {
            return Ok(FileOrigin::Unread);
        };
        let mut examiner = Examiner::new(KeyGiven::Root(Arc::clone(&self.root)));
        let mut buffer = vec![0; READ_BYTES];
        loop {
            self.check()?;
            let Ok(read) = from.read(&mut buffer) else { return Ok(FileOrigin::Unread) };
            if read == 0 {
                break;
            }
            // Piece by piece: what cannot be read must not hide the beginning, which says whose it is.
            for piece in buffer.get(..read).unwrap_or_default().chunks(PIECE_BYTES) {
                let taken = examiner.take(piece);
                // Before the keys: those of another cluster are others.
                let store = examiner.meta().get("Store").and_then(Json::as_str);
                if store.is_some_and(|store| store != self.store_name) {
                    return Ok(FileOrigin::Other);
                }
                if taken.is_err() {
                    return Ok(FileOrigin::Unsound);
                }
            }
        }
        Ok(if examiner.finish().is_ok() { FileOrigin::Own } else { FileOrigin::Unsound })
    }

    /// Deletes the files of this schedule beyond those that are kept.
    fn retain(&self, prefix: &str, newest: &str) -> Result<KeptFiles, String> {
        let (target, stored) = (&self.schedule.target, &*self.stored);
        let sizes: BTreeMap<String, u64> = stored
            .list(target, prefix)?
            .into_iter()
            .filter(|file| self.is_own(&file.name))
            .map(|file| (file.name, file.bytes))
            .collect();
        let mut verified = self.status.files.clone();
        verified.push(newest.to_owned());
        let mut kept =
            KeptFiles { there: sizes.keys().cloned().collect(), verified, others: Vec::new() };
        let keep = usize::try_from(self.schedule.retain).unwrap_or(usize::MAX);
        while kept.there.len() > keep {
            let Some(name) = kept.next_to_go(newest) else { break };
            let is_known = kept.verified.contains(&name);
            let origin = match is_known {
                true => FileOrigin::Own,
                false => self.judge(&name, sizes.get(&name).copied().unwrap_or_default())?,
            };
            match origin {
                // It is as good as any, and its time comes.
                FileOrigin::Own if !is_known && kept.there.first() != Some(&name) => {
                    kept.verified.push(name);
                    continue;
                }
                FileOrigin::Own | FileOrigin::Unsound => stored.delete(target, &name)?,
                FileOrigin::Other => kept.others.push(name.clone()),
                FileOrigin::Unread => {}
            }
            kept.there.retain(|there| *there != name);
        }
        Ok(kept)
    }
}

/// Where a file comes from that has a name of this schedule.
enum FileOrigin {
    /// From this cluster, and it is whole.
    Own,
    /// From another cluster, such as the one whose snapshot was restored here.
    Other,
    /// It is none that could be restored.
    Unsound,
    /// That is not known now.
    Unread,
}

/// The files of a schedule.
struct KeptFiles {
    /// Those that are there, by name and so by age.
    there: Vec<String>,
    /// Those that are known to be whole.
    verified: Vec<String>,
    /// Those of other clusters that were found, which are not among the former.
    others: Vec<String>,
}

impl KeptFiles {
    /// Which of them goes next: one that nobody verified (a leader that was lost has left it), then the oldest, never the newest.
    fn next_to_go(&self, newest: &str) -> Option<String> {
        let mut rest = self.there.iter().filter(|name| *name != newest);
        let unknown = rest.clone().find(|name| !self.verified.contains(name));
        unknown.or_else(|| rest.next()).cloned()
    }
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_verified_goes_before_what_somebody_did() {
        let names = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let over = |verified: Vec<String>, newest: &str, keep: usize| {
            let mut kept = KeptFiles { there: names("a b c d e"), verified, others: Vec::new() };
            let mut gone = Vec::new();
            while kept.there.len() > keep {
                gone.extend(kept.next_to_go(newest));
                kept.there.retain(|name| !gone.contains(name));
            }
            gone
        };
        assert_eq!(over(names("a b d"), "e", 3), ["c", "a"]);
        assert_eq!(over(names("a b d"), "e", 1), ["c", "a", "b", "d"]);
        assert_eq!(over(names("a b d"), "e", 5), [""; 0]);
        // Of a schedule from before names were kept, the oldest go.
        assert_eq!(over(Vec::new(), "e", 2), ["a", "b", "c"]);
        // A clock that was set back: the newest is not the last by name.
        assert_eq!(over(names("b c d e"), "a", 2), ["b", "c", "d"]);
    }
}
