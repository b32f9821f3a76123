//! The directory of a server's storage: made where it is missing, and tried before anything in it is opened, so that one
//! that cannot be used is reported as what it is: with its path, its owner, and who the server is.

use std::io;
use std::path::Path;

use rustix::fs::Access;
use rustix::process::{getegid, geteuid};

use kallisto_command::error::Error;
use kallisto_command::files;

/// Makes a directory and what is missing above it, for its owner alone, and checks that it can be read and written.
pub(super) fn prepare(directory: &Path) -> Result<(), Error> {
    let all = Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK;
    let tried = files::create_private_directories(directory)
        .and_then(|()| rustix::fs::access(directory, all).map_err(io::Error::from));
    tried.map_err(|error| {
        let (shown, whose) = (directory.display(), ownership(directory));
        Error::usage(format!("storage at {shown}: cannot be read and written: {error}{whose}"))
    })
}

/// Whose the nearest thing is that exists, in brackets and with a blank before them.
pub(super) fn ownership(path: &Path) -> String {
    let found = path.ancestors().find_map(|at| rustix::fs::stat(at).ok().map(|stat| (at, stat)));
    let Some((at, stat)) = found else { return String::new() };
    let what = if at.is_dir() { "" } else { ", no directory" };
    format!(
        " ({}: mode {:04o}, user {}, group {}{what}; this server is user {}, group {})",
        at.display(),
        stat.st_mode & 0o7777,
        stat.st_uid,
        stat.st_gid,
        geteuid().as_raw(),
        getegid().as_raw()
    )
}
