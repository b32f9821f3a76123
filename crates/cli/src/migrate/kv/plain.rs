//! A secret without versions: its fields.

use super::KvMount;
use crate::migrate::endpoint::ItemFailure;
use crate::migrate::pass::{Migration, MigrationPass};
use crate::migrate::report::Settled;

/// Makes the secret at the target the one of the source.
pub(super) fn settle(
    migration: &Migration<'_>,
    mount: KvMount<'_>,
    path: &str,
) -> Result<Settled, ItemFailure> {
    let path = mount.api_path(path);
    let there = migration.source.read(mount.namespace, &path)?;
    let Some(there) = there else {
        return Ok(Settled::not_moved("it is gone at the source"));
    };
    let here = migration.target_or_nothing(mount.namespace, &path)?;
    match (here, migration.pass) {
        (Some(here), _) if here == there => Ok(Settled::Same),
        (None, MigrationPass::Compare) => Ok(Settled::differs("it is not at the target")),
        (Some(_), MigrationPass::Compare) => Ok(Settled::differs("its fields")),
        (_, MigrationPass::DryRun) => Ok(Settled::Moved),
        (_, MigrationPass::Move) => {
            migration.target.write(mount.namespace, &path, there)?;
            Ok(Settled::Moved)
        }
    }
}
