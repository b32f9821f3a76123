//! Snapshots by the clock: `sys/storage/raft/snapshot-auto`.
//!
//! The leader's job looks at each schedule at every pass, and starts a thread for one that is due ([`run`]), one at a time.
//! When it was tried last, and how, is a record: another leader goes on where this one was.
//!
//! Invariants:
//! - A file counts once it was read back, and every record of it was opened; nothing older is deleted before.
//! - A server that was sealed, or that does not lead any more, gives up.
//! - No two schedules write files of the same names to one place, as far as the server can tell that it is one.

mod config;
mod run;
mod status;

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use jiff::Timestamp;
use kallisto_store::{Batch, Error as StoreError, Seqno};
use tokio::sync::oneshot;

use crate::api::error::Error;
use crate::api::json::{Json, Map};
use crate::api::response::Response;
use crate::backup::save;
use crate::limits::CONFLICT_RETRIES_MAX;
use crate::metrics::SnapshotFigures;
use crate::platform::snapshot_storage::{SnapshotStorage, SnapshotTarget};
use crate::state::Core;
use crate::storage::engine_storage::EngineStorage;
use crate::storage::keys::MountId;
use crate::view::NamespaceContext;

use config::BackupSchedule;
use status::ScheduleStatus;

/// Longest that a try which failed is waited for, in seconds.
const RETRY_SECS: i64 = 60;

fn storage(context: &NamespaceContext) -> Result<EngineStorage<'_>, Error> {
    EngineStorage::builtin(context, MountId::SYSTEM)
}

/// When a schedule is due, in seconds since 1970.
fn next(schedule: &BackupSchedule, status: &ScheduleStatus) -> i64 {
    status.tried.saturating_add(pause(schedule, status))
}

/// How long a schedule waits after a try, in seconds.
fn pause(schedule: &BackupSchedule, status: &ScheduleStatus) -> i64 {
    let interval = schedule.interval.secs();
    if status.failed_in_a_row > 0 { interval.min(RETRY_SECS) } else { interval }
}

/// A schedule whose time has come.
struct DueSchedule {
    name: String,
    schedule: BackupSchedule,
    seqno: Seqno,
    status: ScheduleStatus,
    /// Since when it is due.
    since: i64,
}

/// The schedule that has been due for longest. With another order one whose tries take longer than the pause between them would keep the
/// others waiting for ever.
fn first_due(
    core: &Core,
    context: &NamespaceContext,
    names: Vec<String>,
    now: i64,
) -> Result<Option<DueSchedule>, Error> {
    let mut pauses = core.services.snapshot_pauses.lock().unwrap_or_else(PoisonError::into_inner);
    pauses.retain(|name, _| names.contains(name));
    let mut first: Option<DueSchedule> = None;
    for name in names {
        let Some((schedule, seqno)) = BackupSchedule::read(context, &name)? else { continue };
        let status = ScheduleStatus::read(context, &name)?;
        let latest = now.saturating_add(schedule.interval.secs());
        let waits_to = pauses.get(&name).filter(|(of, _)| *of == seqno).map(|(_, to)| *to);
        if waits_to.is_some_and(|to| now < to && to <= latest) {
            continue;
        }
        // A clock that was set back stops no schedule.
        let since = if status.tried > latest { i64::MIN } else { next(&schedule, &status) };
        if since <= now && first.as_ref().is_none_or(|first| since < first.since) {
            first = Some(DueSchedule { name, schedule, seqno, status, since });
        }
    }
    Ok(first)
}

/// Starts a snapshot that is due, if none is under way: the job of the leader.
///
/// # Errors
/// When a record cannot be read.
pub(crate) fn start_due(
    core: &Core,
    context: &Arc<NamespaceContext>,
    now: Timestamp,
) -> Result<(), Error> {
    let Some(stored) = core.services.snapshots().cloned() else { return Ok(()) };
    let names = storage(context)?.list_some(config::CONFIGS, config::SCHEDULES_MAX);
    *core.metrics.snapshots.lock().unwrap_or_else(PoisonError::into_inner) = figures(context);
    let due = first_due(core, context, names, now.as_second())?;
    let Some(DueSchedule { name, schedule, seqno, status, .. }) = due else { return Ok(()) };
    // Nothing may fail between the swap and the guard that takes it back.
    let namesakes = namesakes(context, &name, &schedule)?;
    if core.services.snapshot_running.swap(true, Ordering::AcqRel) {
        return Ok(());
    }
    let work = run::SnapshotRun {
        name,
        namesakes,
        schedule,
        seqno,
        status,
        stored,
        now,
        store: Arc::clone(&core.store),
        store_name: core.store.replicated().map(save::store_name).unwrap_or_default(),
        slot: Arc::clone(&core.context),
        root: Arc::clone(&context.root),
        stopwatch: Arc::clone(&core.stopwatch),
        threads: Arc::clone(&core.threads),
        pauses: Arc::clone(&core.services.snapshot_pauses),
    };
    let running = run::RunningGuard(Arc::clone(&core.services.snapshot_running));
    let task = Box::new(move || {
        work.run();
        drop(running);
    });
    let started = core.threads.start("snapshot", task);
    started.map_err(|error| Error::Unavailable(format!("no thread for a snapshot: {error}")))
}

/// A file of a schedule, and where it is.
pub(crate) struct ScheduledFile {
    pub(crate) target: SnapshotTarget,
    pub(crate) name: String,
}

/// The file of a schedule with this URL, as its status says it; without one the last that was verified.
///
/// # Errors
/// [`Error::NotFound`] without the schedule, [`Error::Invalid`] for what is none of its files.
pub(crate) fn file(
    context: &NamespaceContext,
    schedule_name: &str,
    url: &str,
) -> Result<ScheduledFile, Error> {
    let (schedule, _) = BackupSchedule::read(context, schedule_name)?.ok_or(Error::NotFound)?;
    let status = ScheduleStatus::read(context, schedule_name)?;
    let url = if url.is_empty() { &status.url } else { url };
    if url.is_empty() {
        return Err(Error::invalid(format!(
            "the schedule {schedule_name} has no verified snapshot yet: url names one"
        )));
    }
    let Some(name) = url.strip_prefix(&*schedule.url("")).filter(|name| schedule.writes(name))
    else {
        let begin = schedule.url(&schedule.prefix());
        return Err(Error::invalid(format!(
            "url: no file of the schedule {schedule_name}, whose begin with {begin}"
        )));
    };
    Ok(ScheduledFile { name: name.to_owned(), target: schedule.target })
}

/// Another schedule whose files have the same names, and which of them it verified.
struct Namesake {
    name: String,
    target: SnapshotTarget,
    files: Vec<String>,
}

/// The other schedules that give their files the names that one of this name would.
fn namesakes(
    context: &NamespaceContext,
    name: &str,
    schedule: &BackupSchedule,
) -> Result<Vec<Namesake>, Error> {
    let mut namesakes = Vec::new();
    for other in storage(context)?.list_some(config::CONFIGS, config::SCHEDULES_MAX) {
        if other != name
            && let Some((found, _)) = BackupSchedule::read(context, &other)?
            && found.file_prefix == schedule.file_prefix
        {
            let files = ScheduleStatus::read(context, &other)?.files;
            namesakes.push(Namesake { name: other, target: found.target, files });
        }
    }
    Ok(namesakes)
}

/// Those of them that write to where `target` is. It may wait for a disk, as links of directories are followed.
fn at_same_place(
    stored: &dyn SnapshotStorage,
    target: &SnapshotTarget,
    mut namesakes: Vec<Namesake>,
) -> Vec<Namesake> {
    if !namesakes.is_empty() {
        let place = stored.place(target);
        namesakes.retain(|other| stored.place(&other.target) == place);
    }
    namesakes
}

/// Refuses a schedule where another one writes files of the same names: each would take the other's files for its own, and delete what
/// it did not verify first.
async fn refuse_same_place(
    core: &Core,
    schedule: &BackupSchedule,
    namesakes: Vec<Namesake>,
) -> Result<(), Error> {
    if namesakes.is_empty() {
        return Ok(());
    }
    let stored = core.services.snapshots().cloned().ok_or(Error::UnsupportedPath)?;
    let target = schedule.target.clone();
    let (tell, told) = oneshot::channel();
    let look = move || {
        // Nobody may be left to hear it.
        let _ = tell.send(at_same_place(&*stored, &target, namesakes));
    };
    let started = core.threads.start("snapshot-place", Box::new(look));
    started.map_err(|error| Error::Unavailable(format!("no thread to look on: {error}")))?;
    match told.await.map_err(|_| Error::internal(&"looking ended early"))?.first() {
        None => Ok(()),
        Some(Namesake { name, .. }) => Err(Error::invalid(format!(
            "the schedule {name:?} writes files of the same names there: give this one another file_prefix or path_prefix"
        ))),
    }
}

/// How each schedule fares, for the metrics.
fn figures(context: &NamespaceContext) -> Vec<SnapshotFigures> {
    let Ok(storage) = storage(context) else { return Vec::new() };
    let names = storage.list_some(config::CONFIGS, config::SCHEDULES_MAX);
    let of = |name: String| {
        let (schedule, _) = BackupSchedule::read(context, &name).ok()??;
        let status = ScheduleStatus::read(context, &name).ok()?;
        Some(SnapshotFigures {
            name,
            interval_secs: schedule.interval.secs(),
            verified_at: status.ended,
            bytes: status.bytes,
            failures: status.failures,
            kept: status.kept,
        })
    };
    names.into_iter().filter_map(of).collect()
}

/// A server whose storage replicates nothing has none of these routes.
fn check_replicates(core: &Core) -> Result<(), Error> {
    core.store.replicated().map(|_| ()).ok_or(Error::UnsupportedPath)
}

/// `config`, listed.
pub(crate) fn list(core: &Core, context: &NamespaceContext) -> Result<Response, Error> {
    check_replicates(core)?;
    let names = storage(context)?.list(config::CONFIGS)?;
    if names.is_empty() {
        return Err(Error::NotFound);
    }
    Ok(Response::data(&Json::object([("keys", Json::strings(names))])))
}

/// `config/:name`, read: without its secrets.
pub(crate) fn read(core: &Core, context: &NamespaceContext, name: &str) -> Result<Response, Error> {
    check_replicates(core)?;
    let (schedule, _) = BackupSchedule::read(context, name)?.ok_or(Error::NotFound)?;
    Ok(Response::data(&Json::Object(schedule.to_map())))
}

/// `config/:name`, written: secrets that are left out stay.
pub(crate) async fn write(
    core: &Core,
    context: &NamespaceContext,
    body: &Map,
    name: &str,
) -> Result<Response, Error> {
    check_replicates(core)?;
    if name.contains('/') {
        return Err(Error::invalid("the name of a schedule has no '/'"));
    }
    for _ in 0..CONFLICT_RETRIES_MAX {
        let mut batch = Batch::new();
        let schedule = stage(context, body, name, &mut batch)?;
        refuse_same_place(core, &schedule, namesakes(context, name, &schedule)?).await?;
        match context.store.commit(batch).await {
            Ok(_) => return Ok(Response::Empty),
            Err(StoreError::Conflict) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(Error::Conflict)
}

/// The schedule that a body says, and the batch that writes it unless any schedule was written meanwhile.
fn stage(
    context: &NamespaceContext,
    body: &Map,
    name: &str,
    batch: &mut Batch,
) -> Result<BackupSchedule, Error> {
    let storage = storage(context)?;
    let last = storage.get(config::WRITTEN_LAST)?;
    storage.expect_in(batch, config::WRITTEN_LAST, last.map_or(Seqno::ABSENT, |last| last.seqno));
    let record = config::record(name);
    let before = BackupSchedule::read(context, name)?;
    storage.expect_in(batch, &record, before.as_ref().map_or(Seqno::ABSENT, |(_, seqno)| *seqno));
    if before.is_none() && storage.list(config::CONFIGS)?.len() >= config::SCHEDULES_MAX {
        return Err(Error::invalid(format!(
            "there are {} schedules already",
            config::SCHEDULES_MAX
        )));
    }
    let schedule = BackupSchedule::of(body, before.as_ref().map(|(before, _)| before))?;
    storage.put_in(batch, config::WRITTEN_LAST, name.as_bytes().to_vec())?;
    storage.put_in(batch, &record, schedule.to_record())?;
    Ok(schedule)
}

/// `config/:name`, deleted; the files stay.
pub(crate) async fn delete(
    core: &Core,
    context: &NamespaceContext,
    name: &str,
) -> Result<Response, Error> {
    check_replicates(core)?;
    let storage = storage(context)?;
    let mut batch = Batch::new();
    batch.set_essential();
    storage.delete_in(&mut batch, &config::record(name));
    storage.delete_in(&mut batch, &status::record(name));
    context.store.commit(batch).await?;
    Ok(Response::Empty)
}

/// `status/:name`.
pub(crate) fn status(
    core: &Core,
    context: &NamespaceContext,
    name: &str,
) -> Result<Response, Error> {
    check_replicates(core)?;
    let (schedule, _) = BackupSchedule::read(context, name)?.ok_or(Error::NotFound)?;
    let status = ScheduleStatus::read(context, name)?;
    let running = core.services.snapshot_running.load(Ordering::Acquire);
    let next = next(&schedule, &status);
    Ok(Response::data(&status.to_json(next, running)))
}
