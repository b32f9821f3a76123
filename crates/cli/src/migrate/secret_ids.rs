//! Secret ids of AppRole, out of a snapshot: given to the target by the HMACs that their server keeps.
//!
//! A secret id that is at the target stays as it is, with the uses it has left there. One that was used up there is gone, and would come again with
//! the uses that the snapshot says: so it is remembered in the state file, and without one the passes are to end before clients log in.

use super::endpoint::ItemFailure;
use super::pass::{Item, Migration, MigrationPass};
use super::report::Settled;
use super::snapshot::SecretIdImport;
use super::state::hash;
use kallisto_command::error::Error;
use kallisto_command::json::{Json, Map};

/// Moves the secret ids of a role, if the source is a snapshot.
pub(super) fn move_all(migration: &Migration<'_>, role: Item<'_>) -> Result<(), Error> {
    let Some(snapshot) = migration.source.snapshot() else { return Ok(()) };
    let item = Item { kind: "secret ids", ..role };
    let found = migration.or_none(item, snapshot.secret_ids(role.namespace, role.path))?;
    for (hmac, why) in found.unread {
        let path = format!("{}/secret-id/{hmac}", role.path);
        migration.report.count(Item { path: &path, ..item }, Settled::NotMoved(why));
    }
    let secret_ids = found.read;
    let expired = secret_ids.iter().filter(|secret_id| secret_id.has_expired).count();
    if expired > 0 {
        migration.report.note(item, format!("{expired} of them have expired"));
    }
    for secret_id in secret_ids.iter().filter(|secret_id| !secret_id.has_expired) {
        let path = format!("{}/secret-id-accessor/{}", role.path, secret_id.accessor);
        let item = Item { path: &path, ..item };
        migration.settle(item, || move_one(migration, role, &path, secret_id))?;
    }
    Ok(())
}

fn move_one(
    migration: &Migration<'_>,
    role: Item<'_>,
    path: &str,
    secret_id: &SecretIdImport,
) -> Result<Settled, ItemFailure> {
    let known = format!("{}{path}", role.namespace);
    let arrival = hash(secret_id.accessor.as_bytes());
    let has_arrived =
        migration.state.as_ref().and_then(|state| state.arrival(&known)).as_ref() == Some(&arrival);
    if has_arrived && migration.pass != MigrationPass::Compare {
        return Ok(Settled::Same);
    }
    if is_there(migration, role, secret_id)? {
        return Ok(Settled::Same);
    }
    match migration.pass {
        MigrationPass::DryRun => return Ok(Settled::Moved),
        MigrationPass::Compare => return Ok(Settled::differs("it is not at the target")),
        MigrationPass::Move => {}
    }
    let route = format!("{}/secret-id/import", role.path);
    let answer = migration.target.write(role.namespace, &route, secret_id.body.clone())?;
    if let Some(state) = &migration.state {
        state.arrived(&known, arrival)?;
    }
    // It may be there all the same, where the lookup was denied.
    let was_there = answer.is_some_and(|answer| answer.get("changed") == Some(&false.into()));
    Ok(if was_there { Settled::Same } else { Settled::Moved })
}

/// Whether the target has it. A lookup is a write, which a role that is not there refuses.
fn is_there(
    migration: &Migration<'_>,
    role: Item<'_>,
    secret_id: &SecretIdImport,
) -> Result<bool, ItemFailure> {
    let route = format!("{}/secret-id-accessor/lookup", role.path);
    let body =
        Map::from([("secret_id_accessor".to_owned(), Json::from(secret_id.accessor.as_str()))]);
    match migration.target.write(role.namespace, &route, body) {
        Ok(found) => Ok(found.is_some_and(|found| found.contains_key("secret_id_accessor"))),
        // Who may import need not be allowed to look.
        Err(ItemFailure::Denied(_)) if migration.pass == MigrationPass::Move => Ok(false),
        Err(ItemFailure::Item(_)) => Ok(false),
        failed => failed.map(|_| false),
    }
}
