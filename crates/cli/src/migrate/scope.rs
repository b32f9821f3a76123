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
    /// Certificate authorities, out of a snapshot
    Pki,
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
            | ContentKind::TransitKeys
            | ContentKind::Pki => true,
        }
    }

    /// Whether some of a mount's secrets are looked at.
    pub(super) fn reaches(&self, mount: &str) -> bool {
        self.paths.is_empty()
            || self.paths.iter().any(|path| is_below(path, mount) || is_below(mount, path))
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
