//! The secrets of key-value mounts.
//!
//! A mount is listed first, folder by folder, and then its secrets move, several at a time. [`versioned`] knows secrets with versions, [`plain`]
//! those without, [`walk`] finds them.

mod plain;
mod versioned;
mod walk;

use std::collections::HashSet;

use self::walk::Found;
use super::endpoint::ItemFailure;
use super::mounts::{MountedEngine, SourceMount};
use super::pass::{Item, Migration, MigrationPass};
use super::pool;
use super::report::Settled;
use super::scope::ContentKind;
use kallisto_command::error::Error;
use kallisto_command::json::Map;

/// What the report calls secrets.
const SECRETS: &str = "secrets";

/// A mount whose secrets move.
#[derive(Clone, Copy)]
pub(super) struct KvMount<'m> {
    namespace: &'m str,
    /// Its path, ending in a slash.
    path: &'m str,
    engine: MountedEngine,
}

impl KvMount<'_> {
    /// Where the API has a secret of this mount, or a folder: what is listed, deleted and, without versions, read there.
    fn api_path(&self, path: &str) -> String {
        match self.engine {
            MountedEngine::KvV2 => format!("{}metadata/{path}", self.path),
            MountedEngine::KvV1 | MountedEngine::Transit | MountedEngine::Pki => {
                format!("{}{path}", self.path)
            }
        }
    }

    /// The secret by its path from the source's namespace on.
    fn in_all(&self, path: &str) -> String {
        format!("{}{}{path}", self.namespace, self.path)
    }

    /// The secret as people name it.
    fn full(&self, path: &str) -> String {
        format!("{}{path}", self.path)
    }
}

/// Moves the secrets of a mount.
pub(super) fn move_all(
    migration: &Migration<'_>,
    namespace: &str,
    mount: &SourceMount,
) -> Result<(), Error> {
    move_mount(migration, KvMount { namespace, path: &mount.path, engine: mount.engine })
}

fn move_mount(migration: &Migration<'_>, mount: KvMount<'_>) -> Result<(), Error> {
    if mount.engine == MountedEngine::KvV2 && migration.scope.has(ContentKind::Mounts) {
        move_settings(migration, mount)?;
    }
    let mut found = walk::walk(migration, &migration.source, mount)?;
    // A secret whose record was not read is there all the same: nothing at the target is a stray then.
    found.is_whole &= !tell_unread(migration, mount);
    let what = format!("secrets of {}{}", mount.namespace, mount.path);
    migration.progress.begin(&what, found.secrets.len());
    pool::for_each(&found.secrets, migration.workers, |path| {
        let full = mount.full(path);
        let item = Item { kind: SECRETS, namespace: mount.namespace, path: &full };
        let settled = migration.settle(item, || match mount.engine {
            MountedEngine::KvV2 => versioned::settle(migration, mount, path),
            MountedEngine::KvV1 | MountedEngine::Transit | MountedEngine::Pki => {
                plain::settle(migration, mount, path)
            }
        });
        migration.progress.add(1);
        settled.map(drop)
    })?;
    settle_strays(migration, mount, &found)
}

/// Names the records of secrets that a snapshot has and that are not understood; whether there are any.
fn tell_unread(migration: &Migration<'_>, mount: KvMount<'_>) -> bool {
    let Some(snapshot) = migration.source.snapshot() else { return false };
    let unread = snapshot.unread(mount.namespace, mount.path);
    for (record, why) in &unread {
        let full = mount.full(record);
        let item = Item { kind: SECRETS, namespace: mount.namespace, path: &full };
        migration.report.count(item, Settled::NotMoved(why.clone()));
    }
    !unread.is_empty()
}

/// The defaults of a mount with versions.
fn move_settings(migration: &Migration<'_>, mount: KvMount<'_>) -> Result<(), Error> {
    let path = format!("{}config", mount.path);
    let item = Item { kind: "mount settings", namespace: mount.namespace, path: &path };
    migration.settle(item, || {
        let mut wanted: Map = migration.source.read(mount.namespace, &path)?.unwrap_or_default();
        // Ours, and about what is written from now on.
        wanted.remove("attribution");
        migration.settle_object(mount.namespace, &path, wanted)
    })?;
    Ok(())
}

/// Looks at what is at the target alone: all of it when comparing, and else what came from the source and is gone there by now.
fn settle_strays(
    migration: &Migration<'_>,
    mount: KvMount<'_>,
    found: &Found,
) -> Result<(), Error> {
    let is_asked = match migration.pass {
        MigrationPass::Compare => true,
        MigrationPass::Move | MigrationPass::DryRun => migration.state.is_some(),
    };
    // What could not be listed may be there.
    if !is_asked || !found.is_whole {
        return Ok(());
    }
    let here = walk::walk(migration, &migration.target, mount)?;
    let there: HashSet<&str> = found.secrets.iter().map(String::as_str).collect();
    for path in here.secrets.iter().filter(|path| !there.contains(path.as_str())) {
        let full = mount.full(path);
        let item = Item { kind: SECRETS, namespace: mount.namespace, path: &full };
        migration.settle(item, || settle_stray(migration, mount, path))?;
    }
    Ok(())
}

fn settle_stray(
    migration: &Migration<'_>,
    mount: KvMount<'_>,
    path: &str,
) -> Result<Settled, ItemFailure> {
    let known = mount.in_all(path);
    let came_from_there =
        migration.state.as_ref().is_some_and(|state| state.arrival(&known).is_some());
    match (migration.pass, came_from_there) {
        (MigrationPass::Compare, _) => Ok(Settled::differs("it is at the target only")),
        (_, false) => Ok(Settled::Same),
        (_, true) if !migration.prunes => Ok(Settled::not_moved(
            "it was moved, and is deleted at the source by now; -prune deletes it here",
        )),
        (MigrationPass::DryRun, true) => Ok(Settled::Moved),
        (MigrationPass::Move, true) => {
            migration.target.delete(mount.namespace, &mount.api_path(path))?;
            if let Some(state) = &migration.state {
                state.forget(&known);
            }
            Ok(Settled::Moved)
        }
    }
}
