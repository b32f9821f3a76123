//! Namespaces, from the source's own down.

use super::endpoint::ItemFailure;
use super::pass::{Item, Migration};
use super::report::Settled;
use super::scope::ContentKind;
use kallisto_command::error::Error;
use kallisto_command::json::Map;

/// Most namespaces that one pass goes through.
const NAMESPACES_MAX: usize = 10_000;

/// Makes the namespaces below, and returns all that are to be gone through: the empty text for the source's own, others ending in a slash.
pub(super) fn move_all(migration: &Migration<'_>) -> Result<Vec<String>, Error> {
    let mut found = vec![String::new()];
    let mut at = 0;
    while let Some(parent) = found.get(at).cloned() {
        at += 1;
        for name in children(migration, &parent)? {
            let name = name.trim_end_matches('/');
            if found.len() > NAMESPACES_MAX {
                return Err(Error::usage(format!("more than {NAMESPACES_MAX} namespaces")));
            }
            if migration.scope.has(ContentKind::Namespaces) {
                make(migration, &parent, name)?;
            }
            let path = format!("{parent}{name}/");
            migration.scope.meet(&path);
            found.push(path);
        }
    }
    Ok(found)
}

/// The names below a namespace. A server without namespaces, or a token that may not list them, has none to show.
fn children(migration: &Migration<'_>, parent: &str) -> Result<Vec<String>, Error> {
    match migration.source.list(parent, "sys/namespaces") {
        Ok(names) => Ok(names),
        Err(ItemFailure::Item(why) | ItemFailure::Denied(why)) => {
            let item = Item { kind: "namespaces", namespace: parent, path: "" };
            migration.report.note(item, format!("namespaces below were not listed: {why}"));
            Ok(Vec::new())
        }
        Err(ItemFailure::Fatal(error)) => Err(error),
    }
}

fn make(migration: &Migration<'_>, parent: &str, name: &str) -> Result<(), Error> {
    let item = Item { kind: "namespaces", namespace: parent, path: name };
    migration.settle(item, || {
        let path = format!("sys/namespaces/{name}");
        let there = migration.source.read(parent, &path)?;
        let Some(there) = there else { return Ok(Settled::not_moved("it is gone at the source")) };
        let wanted: Map = there.into_iter().filter(|(name, _)| name == "custom_metadata").collect();
        migration.settle_object(parent, &path, wanted)
    })?;
    Ok(())
}
