//! Keys that rotate by themselves: what time brings to transit.
//!
//! A job on the server that leads: once in a while every key of every mount is looked at, and those whose period is over get a
//! version. A key that cannot be rotated is reported and does not keep the others waiting; the next look tries it again.

use kallisto_api::Error;
use kallisto_engine::EngineContext;
use kallisto_engine::storage::Page;
use kallisto_transit::TransitKey;

use super::cache::KeyCache;
use super::store::{KEY_FOLDER, add_version, read, record_name};

/// Seconds between two looks. Periods are an hour at least.
pub(super) const LOOK_SECS: u64 = 60;
/// Names taken at a time.
const NAMES_MAX: usize = 1 << 10;

/// Rotates the keys of a mount whose time has come; fails with what the first key failed of, after all were looked at.
pub(super) async fn rotate_due(context: EngineContext<'_>) -> Result<(), Error> {
    let mut after: Option<String> = None;
    let mut outcome = Ok(());
    loop {
        let page = Page { after: after.take(), limit: Some(NAMES_MAX) };
        let names = context.storage.list_page(KEY_FOLDER, &page)?;
        let Some(last) = names.last() else { return outcome };
        for name in &names {
            match rotate_if_due(&context, name).await {
                // Somebody changed it meanwhile: the next look sees to it.
                Ok(()) | Err(Error::Conflict) => {}
                Err(error) => outcome = outcome.and(Err(error)),
            }
        }
        after = Some(last.clone());
    }
}

async fn rotate_if_due(context: &EngineContext<'_>, name: &str) -> Result<(), Error> {
    let now_ns = i64::try_from(context.now.as_nanosecond()).unwrap_or(i64::MAX);
    let record = record_name(name);
    let is_due = |key: &TransitKey| key.rotation_due_ns().is_some_and(|due_ns| due_ns <= now_ns);
    let known = context.memory::<KeyCache>()?.get(&record);
    if known.is_some_and(|key| !is_due(&key)) {
        return Ok(());
    }
    let Some(key) = read(context, &record)?.filter(|key| is_due(key)) else { return Ok(()) };
    // Somebody may rotate it while the version is made.
    let rotated = add_version(context, &record, &key, now_ns, is_due).await?;
    if let Some(rotated) = rotated {
        let (mount, version) = (context.mount.accessor, rotated.latest_version());
        tracing::info!(mount, version, "key rotated");
    }
    Ok(())
}
