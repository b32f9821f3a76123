//! What of the source is looked at.

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
}

/// The kinds and paths that are looked at.
pub(super) struct MigrationScope {
    kinds: Vec<ContentKind>,
    /// Clean paths from the source's namespace on; none for everything.
    paths: Vec<String>,
}

impl MigrationScope {
    /// Everything, or what is named.
    pub(super) fn new(kinds: &[ContentKind], paths: &[String]) -> Result<Self, Error> {
        let paths = paths.iter().map(|path| url::clean(path)).collect::<Result<_, _>>()?;
        Ok(Self { kinds: kinds.to_vec(), paths })
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
            | ContentKind::TransitKeys => true,
        }
    }

    /// Whether some of a mount's secrets are looked at.
    pub(super) fn reaches(&self, mount: &str) -> bool {
        self.paths.is_empty()
            || self.paths.iter().any(|path| is_below(path, mount) || is_below(mount, path))
    }

    /// Whether a secret is looked at, or something in a folder, which ends in a slash.
    pub(super) fn reaches_path(&self, path: &str) -> bool {
        let is_folder = path.ends_with('/');
        let is_met = |named: &String| is_below(path, named) || (is_folder && is_below(named, path));
        self.paths.is_empty() || self.paths.iter().any(is_met)
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
        for (path, is_met) in [
            ("secret/", true),
            ("secret/team/", true),
            ("secret/team/a", true),
            ("secret/team", true),
            ("secret/teams/a", false),
            ("secret/other/", false),
            ("one/a", true),
        ] {
            assert_eq!(scope.reaches_path(path), is_met, "{path}");
        }
        assert!(scope.has(ContentKind::Secrets) && !scope.has(ContentKind::Mounts));
        assert!(MigrationScope::new(&[], &[]).unwrap().reaches_path("x"));
    }
}
