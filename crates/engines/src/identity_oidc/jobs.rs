//! What the provider does by the clock: rotating keys, and letting go of what has ended.

use kallisto_api::{BoxFuture, Error};
use kallisto_engine::{EngineContext, EngineJob};
use kallisto_identity_tokens::grant::folder_has_ended;
use kallisto_identity_tokens::named_key::NamedKey;

use super::keys;
use super::records::{self, GRANTS, KEYS, OBJECTS_MAX, RecordOrDefault};

/// Grants that are deleted in one run.
const GRANTS_MAX: usize = 16 << 10;
/// Hours of grants that are looked at in one run.
const HOURS_MAX: usize = 64;

pub(super) const JOBS: &[EngineJob] = &[
    EngineJob {
        name: "key_rotation",
        about: "Rotates keys for tokens when their time has come, and drops versions whose tokens have ended.",
        period_secs: 5,
        run: |context| Box::pin(rotate_due(context)) as BoxFuture<'_, Result<(), Error>>,
    },
    EngineJob {
        name: "grant_expiry",
        about: "Deletes codes and access tokens of the provider that have ended.",
        period_secs: 60,
        run: |context| Box::pin(delete_ended(context)) as BoxFuture<'_, Result<(), Error>>,
    },
];

/// One key that fails keeps no other from rotating.
async fn rotate_due(context: EngineContext<'_>) -> Result<(), Error> {
    let mut outcome = Ok(());
    for name in context.storage.list_some(KEYS, OBJECTS_MAX) {
        let done = turn(&context, &name).await;
        outcome = outcome.and(done);
    }
    outcome
}

async fn turn(context: &EngineContext<'_>, name: &str) -> Result<(), Error> {
    let now = records::now(context);
    let Some(key) = NamedKey::find(context, name)? else { return Ok(()) };
    if key.is_due(now) {
        return keys::rotate_if(context, name, None, |key| key.is_due(now)).await.map(drop);
    }
    if !key.has_ended(now) {
        return Ok(());
    }
    let record = format!("{KEYS}{name}");
    let dropped = context.storage.transact(&record, |transaction| {
        let Some(mut key) = NamedKey::find_in(transaction, name, now)? else { return Ok(()) };
        if !key.has_ended(now) {
            return Ok(());
        }
        key.forget_ended(now);
        transaction.put(&record, key.encode())
    });
    dropped.await
}

async fn delete_ended(context: EngineContext<'_>) -> Result<(), Error> {
    let now = records::now(&context);
    let mut left = GRANTS_MAX;
    for folder in context.storage.list_some(GRANTS, HOURS_MAX) {
        if !folder_has_ended(&folder, now) || left == 0 {
            break;
        }
        let folder = format!("{GRANTS}{folder}");
        let names = context.storage.scan_some(&folder, left);
        left -= names.len();
        let names = names.into_iter().map(|name| format!("{folder}{name}"));
        context.storage.delete_all(names.collect()).await?;
    }
    Ok(())
}
