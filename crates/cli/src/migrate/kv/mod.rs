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
    tell_met(migration, mount, &found);
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

/// Notes at which of the named paths there are secrets.
fn tell_met(migration: &Migration<'_>, mount: KvMount<'_>, found: &Found) {
    if !found.is_whole {
        // What was not listed is in the report, and may hold them.
        return migration.scope.meet_inside(&mount.in_all(""));
    }
    for start in migration.scope.starts(&mount.in_all("")) {
        let first = found.secrets.iter().find(|secret| {
            secret.strip_prefix(&start).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        });
        if let Some(secret) = first {
            migration.scope.meet(&mount.in_all(secret));
        }
    }
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
        migration.scope.meet(&mount.in_all(path));
        migration.settle(item, || settle_stray(migration, mount, path))?;
    }
    Ok(())
}

fn settle_stray(
    migration: &Migration<'_>,
    mount: KvMount<'_>,
    path: &str,
) -> Result<Settled, ItemFailure> {
    if migration.pass == MigrationPass::Compare {
        return Ok(Settled::differs("it is at the target only"));
    }
    let known = mount.in_all(path);
    // What did not come from the source is the target's own.
    let Some(state) = &migration.state else { return Ok(Settled::Same) };
    let Some(arrival) = state.arrival(&known) else { return Ok(Settled::Same) };
    let is_as_it_arrived = versioned::is_as_it_arrived(migration, mount, path, &arrival)?;
    if !migration.prunes || !(is_as_it_arrived || migration.overwrites) {
        return Ok(Settled::not_moved(match is_as_it_arrived {
            true => "it was moved, and is deleted at the source by now; -prune deletes it here",
            false => {
                "it was moved and changed here since, and is deleted at the source by now; -prune with -overwrite deletes it here"
            }
        }));
    }
    if migration.pass == MigrationPass::Move {
        migration.target.delete(mount.namespace, &mount.api_path(path))?;
        state.forget(&known);
    }
    Ok(Settled::Moved)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::migrate::testing::{TestPass, TestServer, counts, lines, snapshot};

    /// A secret as Vault shows it, with fewer settings than the target does; with these versions.
    fn metadata(versions: &[&str]) -> String {
        let shown: Vec<String> = versions
            .iter()
            .zip(1..)
            .map(|(time, number)| {
                format!(
                    r#""{number}":{{"created_time":"{time}","deletion_time":"","destroyed":false}}"#
                )
            })
            .collect();
        format!(
            r#"{{"created_time":"c","updated_time":"c","current_version":{},"oldest_version":0,"max_versions":0,
            "cas_required":false,"delete_version_after":"0s","custom_metadata":null,"versions":{{{}}}}}"#,
            versions.len(),
            shown.join(",")
        )
    }

    const SECRETS_ONLY: &[ContentKind] = &[ContentKind::Secrets];

    #[test]
    fn pruning_deletes_what_arrived_and_was_not_changed_since() {
        let (source, target) = (TestServer::with_secrets(), TestServer::with_secrets());
        for name in ["kept", "one", "two"] {
            source.put(&format!("secret/metadata/pr/{name}"), &metadata(&["1"]));
            source.put(&format!("secret/data/pr/{name}?version=1"), r#"{"data":{"a":"b"}}"#);
        }
        let name = format!("kallisto-migrate-prune-{}", std::process::id());
        let state = std::env::temp_dir().join(name);
        let pass = |pass, prunes, overwrites| {
            let state = Some(&*state);
            TestPass { state, prunes, overwrites, ..TestPass::of(pass, SECRETS_ONLY) }
                .run(source.endpoint("source"), &target)
        };
        let (code, report) = pass(MigrationPass::Move, false, false);
        assert_eq!((code, counts(&report, SECRETS)), (0, [3, 0, 0, 0]));
        target.put("secret/metadata/pr/one", &metadata(&["1", "2"]));
        // What is unchanged at the source is not asked for.
        let (code, report) = pass(MigrationPass::Move, false, false);
        assert_eq!((code, counts(&report, SECRETS)), (0, [0, 3, 0, 0]));
        source.remove("secret/metadata/pr/one");
        source.remove("secret/metadata/pr/two");

        let (code, report) = pass(MigrationPass::Move, false, false);
        assert_eq!((code, counts(&report, SECRETS)), (2, [0, 1, 0, 2]));
        let told = lines(&report, "not_moved");
        assert!(told[0].starts_with("secret/pr/one: ") && told[0].contains("changed here"));
        assert!(told[1].starts_with("secret/pr/two: ") && !told[1].contains("changed here"));
        for end in [MigrationPass::DryRun, MigrationPass::Move] {
            let (code, report) = pass(end, true, false);
            assert_eq!((code, counts(&report, SECRETS)), (2, [1, 1, 0, 1]), "{end:?}");
            let told = lines(&report, "not_moved");
            assert!(told[0].starts_with("secret/pr/one: ") && told[0].contains("-overwrite"));
        }
        assert!(target.has("secret/metadata/pr/one") && !target.has("secret/metadata/pr/two"));
        let (code, report) = pass(MigrationPass::Move, true, true);
        assert_eq!((code, counts(&report, SECRETS)), (0, [1, 1, 0, 0]));
        assert!(!target.has("secret/metadata/pr/one") && target.has("secret/metadata/pr/kept"));
        std::fs::remove_file(&state).unwrap();
    }

    #[test]
    fn a_named_path_at_which_nothing_is_does_not_move() {
        let (source, target) = (TestServer::with_secrets(), TestServer::with_secrets());
        source.put("secret/metadata/team/app", &metadata(&["1"]));
        source.put("secret/data/team/app?version=1", r#"{"data":{"a":"b"}}"#);
        for (path, is_there) in [
            ("secret", true),
            ("secret/team", true),
            ("secret/team/app", true),
            ("secret/tea", false),
            ("secret/team/ap", false),
            ("secrets", false),
            ("nope", false),
        ] {
            for pass in [MigrationPass::DryRun, MigrationPass::Move, MigrationPass::Compare] {
                let paths = &[path.to_owned()];
                let run = TestPass { paths, ..TestPass::of(pass, SECRETS_ONLY) };
                let (code, report) = run.run(source.endpoint("source"), &target);
                let told = lines(&report, "not_moved");
                let is_told = told.iter().any(|line| line.starts_with(&format!("{path}: nothing")));
                assert_eq!(is_told, !is_there, "{path} {pass:?}: {told:?}");
                assert_eq!(code, if is_there { 0 } else { 2 }, "{path} {pass:?}: {told:?}");
            }
        }
    }

    #[test]
    fn a_dry_run_names_secrets_whose_paths_the_target_refuses() {
        for pass in [MigrationPass::DryRun, MigrationPass::Move] {
            let target = TestServer::start();
            let (code, report) = TestPass::of(pass, SECRETS_ONLY).run(snapshot(), &target);
            assert_eq!((code, counts(&report, SECRETS)), (2, [2, 0, 0, 4]), "{pass:?}");
            let told = lines(&report, "not_moved").join("\n");
            assert_eq!(told.matches("path has a backslash").count(), 2, "{told}");
            assert_eq!(told.matches("path has more than 32 segments").count(), 2, "{told}");
        }
    }
}
