//! Keys that rotate by themselves: what time brings to transit.
//!
//! A job on the server that leads ([`KEY_ROTATION`]): once in a while every key of every mount is looked at, and those whose period is
//! over get a version. A key that cannot be rotated is reported and does not keep the others waiting; the next look tries it
//! again.

use super::refusal;
use std::sync::Arc;

use jiff::Timestamp;
use kallisto_store::Batch;
use kallisto_transit::Key;

use super::store::{KEY_FOLDER, make_key, shelf_name};
use crate::admission::Flow;
use crate::api::error::Error;
use crate::engines::jobs::{MountJob, MountJobCall, MountWork};
use crate::pipeline::state::NamespaceContext;
use crate::platform::pool::Pool;
use crate::storage::engine_storage::EngineStorage;
use crate::storage::keys;
use crate::view::Mount;

/// Seconds between two looks. Periods are an hour at least.
const LOOK_SECS: u64 = 60;
/// Names taken from a mount's index at a time.
const NAMES_MAX: usize = 1 << 10;

/// Rotates keys by the clock.
pub(super) const KEY_ROTATION: MountJob = MountJob {
    name: "key_rotation",
    about: "Rotates the keys whose period is over.",
    period_secs: LOOK_SECS,
    work: MountWork::Server(|call| Box::pin(rotate_due(call))),
};

/// Rotates the keys of a mount whose time has come; fails with what the first key failed of, after all were looked at.
async fn rotate_due(call: MountJobCall<'_>) -> Result<(), Error> {
    let MountJobCall { core, unsealed, mount, now } = call;
    let makers = &core.services.makers;
    let at = At { makers, unsealed, mount, storage: EngineStorage::of(unsealed, mount) };
    let mut after: Option<String> = None;
    let mut outcome = Ok(());
    loop {
        let names = at.storage.list_page(KEY_FOLDER, after.as_deref(), NAMES_MAX);
        let Some(last) = names.last() else { return outcome };
        for name in &names {
            match rotate_if_due(&at, name, now).await {
                // Somebody changed it meanwhile: the next look sees to it.
                Ok(()) | Err(Error::Conflict) => {}
                Err(error) => outcome = outcome.and(Err(error)),
            }
        }
        after = Some(last.clone());
    }
}

/// A mount that is looked at, and who makes its keys.
struct At<'a> {
    makers: &'a Pool,
    unsealed: &'a NamespaceContext,
    mount: &'a Mount,
    storage: EngineStorage<'a>,
}

async fn rotate_if_due(at: &At<'_>, name: &str, now: Timestamp) -> Result<(), Error> {
    let At { makers, unsealed, mount, storage } = at;
    let now_ns = i64::try_from(now.as_nanosecond()).unwrap_or(i64::MAX);
    let name = shelf_name(name);
    let is_due = |key: &Key| key.rotation_due_ns().is_some_and(|due_ns| due_ns <= now_ns);
    let known = unsealed.view.transit.get(mount.entry.id, &name);
    if known.is_some_and(|key| !is_due(&key)) {
        return Ok(());
    }
    let _latch = unsealed.latches.hold(&keys::storage(mount.entry.id, &name)).await;
    let Some(record) = storage.get(&name)? else { return Ok(()) };
    let key = Arc::new(Key::decode(&record.value).map_err(refusal)?);
    if !is_due(&key) {
        return Ok(());
    }
    let rotated = make_key(makers, Flow::OWN, key.kind(), move || key.rotated(now_ns)).await?;
    let mut batch = Batch::new();
    storage.expect_in(&mut batch, &name, record.seqno);
    storage.put_in(&mut batch, &name, rotated.encode().map_err(refusal)?.to_vec())?;
    unsealed.store.commit(batch).await?;
    tracing::info!(mount = mount.entry.id.0, version = rotated.latest_version(), "key rotated");
    Ok(())
}
