//! Files and directories that more people may read or write than should: told at the start and by `operator diagnose`.
//!
//! Who may write to the data directory, or rename it in the directory above, can put another log in its place; who may read
//! the key of a certificate or of a seal has it. The server starts all the same: a mode may be what a platform gives to
//! volumes, and a server that does not come back after a restart is worse.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::settings::ServerSettings;

/// Write for the group, write for others.
const WRITE: u32 = 0o022;
/// Read for others. Reading by a group is how keys are shared on purpose.
const READ: u32 = 0o004;
/// Only an entry's owner may rename it, as in `/tmp`.
const STICKY: u32 = 0o1000;

/// A file with a secret in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PrivateFile {
    /// What it holds.
    pub(super) what: &'static str,
    pub(super) path: PathBuf,
}

/// What others may do with a file or directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Exposed {
    /// What it is.
    pub(super) what: String,
    pub(super) path: PathBuf,
    /// Its mode.
    pub(super) mode: u32,
    /// What others may do.
    pub(super) why: &'static str,
}

/// How a path is used, and so what others may not do with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PathUse {
    /// A file that has to stay unread.
    Secret,
    /// The directory of the records.
    Records,
    /// A directory above either.
    Above,
}

/// Whatever is exposed of what `settings` names. What cannot be looked at is left to whoever opens it.
pub(super) fn of(settings: &ServerSettings) -> Vec<Exposed> {
    let mut found = Vec::new();
    let mut above = BTreeSet::new();
    let mut look = |path: &Path, what: &str, used: PathUse| {
        let Some(nearest) = nearest(path) else { return };
        let is_there = path.exists();
        if is_there {
            found.extend(look_at(&nearest, what, used));
        }
        above.extend(nearest.ancestors().skip(usize::from(is_there)).map(Path::to_path_buf));
    };
    if let Some(directory) = settings.storage.directory() {
        look(directory, "the data directory", PathUse::Records);
    }
    for PrivateFile { what, path } in &settings.private_files {
        look(path, what, PathUse::Secret);
    }
    let what = "a directory above the server's files";
    found.extend(above.iter().filter_map(|path| look_at(path, what, PathUse::Above)));
    found
}

/// The path, or what is there of it, without links.
fn nearest(path: &Path) -> Option<PathBuf> {
    path.ancestors().find_map(|path| {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        std::fs::canonicalize(path).ok()
    })
}

fn look_at(path: &Path, what: &str, used: PathUse) -> Option<Exposed> {
    let mode = rustix::fs::stat(path).ok()?.st_mode & 0o7777;
    let why = judge(mode, used)?;
    Some(Exposed { what: what.to_owned(), path: path.to_owned(), mode, why })
}

/// What others may do that they should not.
fn judge(mode: u32, used: PathUse) -> Option<&'static str> {
    let may = |bits: u32| mode & bits != 0;
    match used {
        PathUse::Secret if may(READ) => Some("others may read it"),
        PathUse::Secret | PathUse::Records if may(WRITE) => Some("others may write to it"),
        PathUse::Above if may(WRITE) && !may(STICKY) => Some("others may replace what is in it"),
        PathUse::Secret | PathUse::Records | PathUse::Above => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mode_is_judged_by_what_the_path_is_for() {
        let read = Some("others may read it");
        let write = Some("others may write to it");
        let replace = Some("others may replace what is in it");
        for (mode, secret, records, above) in [
            (0o700, None, None, None),
            (0o600, None, None, None),
            (0o640, None, None, None),
            (0o750, None, None, None),
            (0o755, read, None, None),
            (0o644, read, None, None),
            (0o660, write, write, replace),
            (0o722, write, write, replace),
            (0o1777, read, write, None),
            (0o777, read, write, replace),
        ] {
            let judged =
                [PathUse::Secret, PathUse::Records, PathUse::Above].map(|used| judge(mode, used));
            assert_eq!(judged, [secret, records, above], "{mode:o}");
        }
    }

    #[test]
    fn what_is_not_there_yet_is_known_by_what_is_above_it() {
        let nearest = nearest(Path::new("/no-such-directory-of-anybody/data"));
        assert_eq!(nearest.as_deref(), Some(Path::new("/")));
    }
}
