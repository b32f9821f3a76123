//! What the process does for the secrets in it, before it has any.
//!
//! No core dumps, no other process of this user that reads its memory, files for its own user only,
//! no new privileges. Keys live in locked memory besides (`crates/barrier`), and freed memory is
//! wiped by the allocator (`main.rs`). A step that the system refuses is a warning, not an end.

use rustix::fs::Mode;
use rustix::process::{DumpableBehavior, Resource, Rlimit, setrlimit, umask};

/// Files a server makes are for its own user only.
const OWN_FILES: Mode = Mode::RWXG.union(Mode::RWXO);

/// Hardens this process.
pub(super) fn harden() {
    umask(OWN_FILES);
    let none = Rlimit { current: Some(0), maximum: Some(0) };
    let steps = [
        ("core dumps", setrlimit(Resource::Core, none)),
        ("ptrace", rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)),
        ("privileges", rustix::thread::set_no_new_privs(true)),
    ];
    for (what, outcome) in steps {
        if let Err(error) = outcome {
            tracing::warn!(what, %error, "the process could not be hardened");
        }
    }
    raise_open_files();
}

/// Takes as many open files as the system grants: each client is one.
fn raise_open_files() {
    let granted = rustix::process::getrlimit(Resource::Nofile);
    let all = Rlimit { current: granted.maximum, maximum: granted.maximum };
    if let Err(error) = setrlimit(Resource::Nofile, all) {
        tracing::warn!(%error, "the limit of open files stays as it is");
    }
}

/// How many files the process may have open.
pub(super) fn open_files_max() -> usize {
    let limit = rustix::process::getrlimit(Resource::Nofile).current;
    limit.and_then(|files| usize::try_from(files).ok()).unwrap_or(usize::MAX)
}
