//! The secrets of a mount, found folder by folder, a level at a time.

use std::sync::{Mutex, PoisonError};

use super::KvMount;
use crate::migrate::endpoint::{Endpoint, ItemFailure};
use crate::migrate::pass::{Item, Migration};
use crate::migrate::pool;
use crate::migrate::report::Settled;
use kallisto_command::error::Error;

/// Deepest folder that is looked into.
const DEPTH_MAX: usize = 256;
/// Most secrets of one mount, which are held in memory by their names.
const SECRETS_MAX: usize = 20_000_000;

/// What is in a mount.
#[derive(Default)]
pub(super) struct Found {
    /// Paths inside the mount, sorted.
    pub(super) secrets: Vec<String>,
    /// Whether every folder could be listed.
    pub(super) is_whole: bool,
}

/// Finds the secrets in scope.
pub(super) fn walk(
    migration: &Migration<'_>,
    endpoint: &Endpoint<'_>,
    mount: KvMount<'_>,
) -> Result<Found, Error> {
    let mut found = Found { is_whole: true, secrets: Vec::new() };
    let mut level = vec![String::new()];
    migration.progress.begin(&format!("folders of {}{}", mount.namespace, mount.path), 0);
    for _ in 0..DEPTH_MAX {
        if level.is_empty() {
            break;
        }
        let listed: Mutex<Vec<(String, Vec<String>)>> = Mutex::default();
        let failed: Mutex<bool> = Mutex::default();
        pool::for_each(&level, migration.workers, |folder| {
            match endpoint.list(mount.namespace, &mount.api_path(folder)) {
                Ok(names) => lock(&listed).push((folder.clone(), names)),
                Err(ItemFailure::Item(why)) => {
                    let full = mount.full(folder);
                    let item = Item { kind: "folders", namespace: mount.namespace, path: &full };
                    migration.report.count(item, Settled::NotMoved(why));
                    *lock(&failed) = true;
                }
                Err(ItemFailure::Fatal(error)) => return Err(error),
            }
            migration.progress.add(1);
            Ok(())
        })?;
        found.is_whole &= !*lock(&failed);
        level = Vec::new();
        for (folder, names) in listed.into_inner().unwrap_or_else(PoisonError::into_inner) {
            for name in names {
                let path = format!("{folder}{name}");
                if !migration.scope.reaches_path(&mount.full(&path)) {
                    continue;
                }
                if path.ends_with('/') { level.push(path) } else { found.secrets.push(path) }
            }
        }
        if found.secrets.len() > SECRETS_MAX {
            return Err(Error::usage(format!(
                "{}: more than {SECRETS_MAX} secrets; -path moves a part of them",
                mount.path
            )));
        }
    }
    if let Some(folder) = level.first() {
        let full = mount.full(folder);
        let item = Item { kind: "folders", namespace: mount.namespace, path: &full };
        let why = format!("more than {DEPTH_MAX} folders deep");
        migration.report.count(item, Settled::NotMoved(why));
        found.is_whole = false;
    }
    found.secrets.sort_unstable();
    Ok(found)
}

fn lock<T>(of: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}
