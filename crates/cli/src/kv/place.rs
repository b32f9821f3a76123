//! Where a secret is: which mount, which version of the engine, which path in it.
//!
//! `GET sys/internal/ui/mounts/<path>` answers both questions. A server that has no such endpoint
//! (404) predates versions, so the path is taken as it is. With `-mount` the mount is asked about
//! alone and the argument is the rest; without it the two are one path and the answer says where
//! to cut.

use clap::Args;

use kallisto_command::client::{Client, ClientRequest, url};
use kallisto_command::error::Error;
use kallisto_command::secret::Secret;

/// `-mount`, for every command of `kv`.
#[derive(Args, Debug, Default)]
pub(crate) struct MountFlag {
    /// The mount; the path is then the rest, without it
    #[arg(long, value_name = "PATH")]
    pub(crate) mount: Option<String>,
}

/// Which engine answers there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KvEngineVersion {
    /// One value per path.
    V1,
    /// Versions and metadata.
    V2,
}

/// A path, cut where its mount ends.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct KvPath {
    pub(crate) engine: KvEngineVersion,
    mount: String,
    rest: String,
}

impl KvPath {
    /// Asks the server where `path` is.
    pub(crate) fn find(client: &Client<'_>, mount: &MountFlag, path: &str) -> Result<Self, Error> {
        let path = url::clean(path)?;
        let asked = match &mount.mount {
            Some(mount) => url::clean(mount)?,
            None => path.clone(),
        };
        let request = ClientRequest::get(&format!("sys/internal/ui/mounts/{asked}")).unwrapped();
        let answer = match client.send_really(&request) {
            // A server that is too old to have the route has no versions either.
            Err(error) if error.api().is_some_and(|api| api.status == 404) => None,
            answer => answer?,
        };
        let (found, engine) =
            answer.as_ref().map_or((String::new(), KvEngineVersion::V1), mount_of);
        let rest = match &mount.mount {
            Some(_) => path,
            None => below(&path, &found),
        };
        let mount = match (&mount.mount, found.is_empty()) {
            (Some(_), true) => asked,
            _ => found,
        };
        Ok(Self { engine, mount, rest })
    }

    /// The path in the part of a v2 engine called `part` (`data`, `metadata`, `delete`, ...), or
    /// the plain path of a v1 engine.
    pub(crate) fn path(&self, part: &str) -> String {
        let part = if self.engine == KvEngineVersion::V2 { part } else { "" };
        let pieces = [self.mount.as_str(), part, self.rest.as_str()];
        let pieces: Vec<&str> = pieces.into_iter().filter(|piece| !piece.is_empty()).collect();
        pieces.join("/")
    }

    /// Mount and path, without the part that a v2 engine wants between them.
    pub(crate) fn full(&self) -> String {
        [self.mount.as_str(), self.rest.as_str()].join("/").trim_matches('/').to_owned()
    }

    /// The same as a folder.
    pub(crate) fn folder(&self) -> String {
        self.full() + "/"
    }

    /// Whether it is the mount itself.
    pub(crate) fn is_mount(&self) -> bool {
        self.rest.is_empty()
    }

    /// Where `path` is, when that is known because it is in the same mount.
    pub(crate) fn sibling(&self, mount: &MountFlag, path: &str) -> Option<Self> {
        let path = url::clean(path).ok()?;
        let rest = match &mount.mount {
            Some(_) => path,
            None => path.strip_prefix(&self.mount)?.strip_prefix('/')?.to_owned(),
        };
        Some(Self { engine: self.engine, mount: self.mount.clone(), rest })
    }

    /// Refuses a v1 engine.
    pub(crate) fn require_v2(&self, error: impl FnOnce() -> Error) -> Result<(), Error> {
        match self.engine {
            KvEngineVersion::V2 => Ok(()),
            KvEngineVersion::V1 => Err(error()),
        }
    }
}

/// The mount without its last slash, and its engine.
fn mount_of(secret: &Secret) -> (String, KvEngineVersion) {
    let text = |value: Option<&kallisto_command::json::Json>| {
        value.and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
    };
    let mount = text(secret.datum("path")).trim_matches('/').to_owned();
    let version = secret.datum_map("options").and_then(|options| options.get("version"));
    let engine = if text(version) == "2" { KvEngineVersion::V2 } else { KvEngineVersion::V1 };
    (mount, engine)
}

/// `path` without `mount`. The mount may begin with a namespace that the path does not name, so
/// its leading segments are tried away one by one.
fn below(path: &str, mount: &str) -> String {
    let mut tail = mount;
    loop {
        if path == tail {
            return String::new();
        }
        if let Some(rest) = path.strip_prefix(tail).and_then(|rest| rest.strip_prefix('/')) {
            return rest.to_owned();
        }
        match tail.split_once('/') {
            Some((_, shorter)) => tail = shorter,
            None => return path.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(engine: KvEngineVersion, mount: &str, rest: &str) -> KvPath {
        KvPath { engine, mount: mount.to_owned(), rest: rest.to_owned() }
    }

    #[test]
    fn the_mount_is_cut_off() {
        let table = [
            ("secret/a", "secret", "a"),
            ("secret", "secret", ""),
            ("secret/data/a", "secret", "data/a"),
            ("team/kv/a/b", "team/kv", "a/b"),
            ("kv/a", "team/kv", "a"),
            ("secrets/a", "secret", "secrets/a"),
            ("a", "", "a"),
        ];
        for (path, mount, rest) in table {
            assert_eq!(below(path, mount), rest, "{path} in {mount}");
        }
    }

    #[test]
    fn a_sibling_is_in_the_same_mount() {
        let known = place(KvEngineVersion::V2, "team/kv", "a");
        let sibling = |path: &str| known.sibling(&MountFlag::default(), path);
        assert_eq!(sibling("team/kv/b/c"), Some(place(KvEngineVersion::V2, "team/kv", "b/c")));
        for elsewhere in ["team/kv2/b", "team", "kv/b", "team/kv"] {
            assert_eq!(sibling(elsewhere), None, "{elsewhere}");
        }
        assert_eq!((known.full(), known.folder()), ("team/kv/a".into(), "team/kv/a/".into()));
        assert_eq!(place(KvEngineVersion::V1, "kv", "").folder(), "kv/");
    }

    #[test]
    fn only_v2_has_parts() {
        assert_eq!(place(KvEngineVersion::V2, "secret", "a").path("data"), "secret/data/a");
        assert_eq!(place(KvEngineVersion::V2, "secret", "").path("metadata"), "secret/metadata");
        assert_eq!(place(KvEngineVersion::V1, "kv", "a").path("data"), "kv/a");
        assert_eq!(place(KvEngineVersion::V1, "", "kv/a").path("data"), "kv/a");
    }
}
