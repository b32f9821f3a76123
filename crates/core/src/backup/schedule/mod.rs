//! Snapshots by the clock: `sys/storage/raft/snapshot-auto`.
//!
//! The leader's job looks at each schedule at every pass, and starts a thread for one that is due ([`run`]), one at a time.
//! When it was tried last, and how, is a record: another leader goes on where this one was.
//!
//! Invariants:
//! - A file counts once it was read back, and every record of it was opened; nothing older is deleted before.
//! - A server that was sealed, or that does not lead any more, gives up.

mod config;
mod run;
mod status;

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use jiff::Timestamp;
use kallisto_store::Batch;

use crate::api::error::Error;
use crate::api::json::{Json, Map};
use crate::api::response::Response;
use crate::metrics::SnapshotFigures;
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
    let interval = schedule.interval.secs();
    let wait = if status.failed_in_a_row > 0 { interval.min(RETRY_SECS) } else { interval };
    status.tried.saturating_add(wait)
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
    for name in names {
        let Some((schedule, seqno)) = BackupSchedule::read(context, &name)? else { continue };
        let status = ScheduleStatus::read(context, &name)?;
        // A clock that was set back stops no schedule.
        let is_ahead = status.tried > now.as_second().saturating_add(schedule.interval.secs());
        if next(&schedule, &status) > now.as_second() && !is_ahead {
            continue;
        }
        if core.services.snapshot_running.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        let work = run::SnapshotRun {
            name,
            schedule,
            seqno,
            status,
            stored,
            now,
            store: Arc::clone(&core.store),
            slot: Arc::clone(&core.context),
            root: Arc::clone(&context.root),
            stopwatch: Arc::clone(&core.stopwatch),
            threads: Arc::clone(&core.threads),
        };
        let running = run::RunningGuard(Arc::clone(&core.services.snapshot_running));
        let task = Box::new(move || {
            work.run();
            drop(running);
        });
        return core
            .threads
            .start("snapshot", task)
            .map_err(|error| Error::Unavailable(format!("no thread for a snapshot: {error}")));
    }
    Ok(())
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
    let before = BackupSchedule::read(context, name)?.map(|(schedule, _)| schedule);
    let storage = storage(context)?;
    if before.is_none() && storage.list(config::CONFIGS)?.len() >= config::SCHEDULES_MAX {
        return Err(Error::invalid(format!(
            "there are {} schedules already",
            config::SCHEDULES_MAX
        )));
    }
    let schedule = BackupSchedule::of(body, before.as_ref())?;
    storage.put(&config::record(name), schedule.to_record()).await?;
    Ok(Response::Empty)
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
