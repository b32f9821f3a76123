//! What of the source is looked at.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use clap::ValueEnum;

use kallisto_command::client::url;
use kallisto_command::error::Error;

/// Kinds of things that move, in the order in which they do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum ContentKind {
    /// Namespaces themselves; what is in them is of its own kind
    Namespaces,
    /// Mounts of engines with their tuning
    Mounts,
    /// Login methods with their settings, roles and users
    LoginMethods,
    /// Entities, groups and their aliases
    Identity,
    /// Policies, those of passwords too
    Policies,
    /// Secrets of key-value mounts with every version
    Secrets,
    /// Keys of transit mounts
    TransitKeys,
    /// Certificate authorities, out of a snapshot
    Pki,
}

/// The kinds and paths that are looked at.
pub(super) struct MigrationScope {
    kinds: Vec<ContentKind>,
    /// Clean paths from the source's namespace on; none for everything.
    paths: Vec<String>,
    /// Those of them at which something was found.
    met: Mutex<BTreeSet<String>>,
}

impl MigrationScope {
    /// Everything, or what is named.
    pub(super) fn new(kinds: &[ContentKind], paths: &[String]) -> Result<Self, Error> {
        let paths = paths.iter().map(|path| url::clean(path)).collect::<Result<_, _>>()?;
        Ok(Self { kinds: kinds.to_vec(), paths, met: Mutex::default() })
    }

    /// Whether things of this kind move. Where paths are named and no kinds, what has no path does not.
    pub(super) fn has(&self, kind: ContentKind) -> bool {
        match kind {
            _ if !self.kinds.is_empty() => self.kinds.contains(&kind),
            ContentKind::LoginMethods | ContentKind::Identity | ContentKind::Policies => {
                self.paths.is_empty()
            }
            ContentKind::Namespaces
            | ContentKind::Mounts
            | ContentKind::Secrets
            | ContentKind::TransitKeys
            | ContentKind::Pki => true,
        }
    }

    /// Whether some of a mount's secrets are looked at.
    pub(super) fn reaches(&self, mount: &str) -> bool {
        self.paths.is_empty()
            || self.paths.iter().any(|path| is_below(path, mount) || is_below(mount, path))
    }

    /// Notes that something is at this path: at or below the named paths that lead to it.
    pub(super) fn meet(&self, found: &str) {
        self.meet_where(|path| is_below(found, path));
    }

    /// Notes that whatever is inside a mount was found as far as it can be.
    pub(super) fn meet_inside(&self, mount: &str) {
        self.meet_where(|path| is_below(path, mount));
    }

    fn meet_where(&self, is_met: impl Fn(&str) -> bool) {
        let mut met = self.met.lock().unwrap_or_else(PoisonError::into_inner);
        met.extend(self.paths.iter().filter(|path| is_met(path)).cloned());
    }

    /// The named paths at which nothing was found.
    pub(super) fn unmet(&self) -> Vec<String> {
        let met = self.met.lock().unwrap_or_else(PoisonError::into_inner);
        self.paths.iter().filter(|path| !met.contains(*path)).cloned().collect()
    }

    /// Where to begin in a mount that is reached: the named paths inside it, which may be secrets or folders, or the empty path for all of it.
    pub(super) fn starts(&self, mount: &str) -> Vec<String> {
        if self.paths.is_empty() || self.paths.iter().any(|path| is_below(mount, path)) {
            return vec![String::new()];
        }
        let inside = |path: &String| Some(path.strip_prefix(mount)?.to_owned());
        self.paths.iter().filter_map(inside).collect()
    }
}

/// Whether a path is another one, or below it.
fn is_below(path: &str, of: &str) -> bool {
    let (path, of) = (path.trim_end_matches('/'), of.trim_end_matches('/'));
    path.strip_prefix(of)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/') || of.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_met_by_whole_segments() {
        let scope =
            MigrationScope::new(&[ContentKind::Secrets], &["secret/team/".into(), "one".into()])
                .unwrap();
        for (mount, is_met) in
            [("secret/", true), ("one/", true), ("onerous/", false), ("sec/", false)]
        {
            assert_eq!(scope.reaches(mount), is_met, "{mount}");
        }
        assert_eq!(scope.starts("secret/"), ["team"]);
        assert_eq!(scope.starts("one/"), [""]);
        assert!(scope.has(ContentKind::Secrets) && !scope.has(ContentKind::Mounts));
        let all = MigrationScope::new(&[], &[]).unwrap();
        assert!(all.reaches("x/") && all.starts("x/") == [""] && all.has(ContentKind::Policies));
        let part = MigrationScope::new(&[], &["secret".into()]).unwrap();
        assert!(part.has(ContentKind::Secrets) && !part.has(ContentKind::Policies));
    }
}
