//! The secrets of a mount, found folder by folder, a level at a time.
//!
//! Where paths are named the walk begins there, so a token needs no right above them.

use std::sync::{Mutex, MutexGuard, PoisonError};

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
    migration.progress.begin(&format!("folders of {}{}", mount.namespace, mount.path), 0);
    let mut level = Vec::new();
    let mut doubtful = Vec::new();
    for start in migration.scope.starts(&mount.in_all("")) {
        if start.is_empty() {
            level.push(start);
            continue;
        }
        level.push(format!("{start}/"));
        match endpoint.read(mount.namespace, &mount.api_path(&start)) {
            Ok(Some(_)) => found.secrets.push(start),
            Ok(None) => {}
            Err(ItemFailure::Item(_) | ItemFailure::Denied(_)) => doubtful.push(start),
            Err(ItemFailure::Fatal(error)) => return Err(error),
        }
    }
    for _ in 0..DEPTH_MAX {
        if level.is_empty() {
            break;
        }
        level = list_level(migration, endpoint, mount, &level, &mut found)?;
    }
    if let Some(folder) = level.first() {
        let why = format!("more than {DEPTH_MAX} folders deep");
        report(migration, mount, folder, why);
        found.is_whole = false;
    }
    // A path that nobody may read and that is no folder may be a secret: whoever moves it says why it cannot.
    let is_folder = |path: &String| {
        let folder = format!("{path}/");
        found.secrets.iter().any(|secret| secret.starts_with(&folder))
    };
    let secrets: Vec<String> = doubtful.into_iter().filter(|path| !is_folder(path)).collect();
    found.secrets.extend(secrets);
    found.secrets.sort_unstable();
    found.secrets.dedup();
    Ok(found)
}

/// Lists these folders; returns those in them.
fn list_level(
    migration: &Migration<'_>,
    endpoint: &Endpoint<'_>,
    mount: KvMount<'_>,
    folders: &[String],
    found: &mut Found,
) -> Result<Vec<String>, Error> {
    let listed: Mutex<Vec<(String, Vec<String>)>> = Mutex::default();
    pool::for_each(folders, migration.workers, |folder| {
        match endpoint.list(mount.namespace, &mount.api_path(folder)) {
            Ok(names) => lock(&listed).push((folder.clone(), names)),
            Err(ItemFailure::Item(_)) if migration.would_make(endpoint) => {
                lock(&listed).push((folder.clone(), Vec::new()));
            }
            Err(ItemFailure::Item(why) | ItemFailure::Denied(why)) => {
                report(migration, mount, folder, why)
            }
            Err(ItemFailure::Fatal(error)) => return Err(error),
        }
        migration.progress.add(1);
        Ok(())
    })?;
    let listed = listed.into_inner().unwrap_or_else(PoisonError::into_inner);
    found.is_whole &= listed.len() == folders.len();
    let mut below = Vec::new();
    for (folder, names) in listed {
        for name in names {
            let path = format!("{folder}{name}");
            if path.ends_with('/') { below.push(path) } else { found.secrets.push(path) }
        }
    }
    if found.secrets.len() > SECRETS_MAX {
        return Err(Error::usage(format!(
            "{}: more than {SECRETS_MAX} secrets; -path moves a part of them",
            mount.path
        )));
    }
    Ok(below)
}

fn report(migration: &Migration<'_>, mount: KvMount<'_>, folder: &str, why: String) {
    let full = mount.full(folder);
    let item = Item { kind: "folders", namespace: mount.namespace, path: &full };
    migration.report.count(item, Settled::NotMoved(why));
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}
