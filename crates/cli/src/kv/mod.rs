//! `kv`: secrets with and without versions, by the names people use.
//!
//! The paths of KV v2 hold a word that people leave out (`secret/data/app`). Every command first
//! asks the server which mount a path is in and which version it has ([`place`]), then builds the
//! real path. One file per verb; [`written`] is what putting and patching print.

mod delete;
mod enable_versioning;
mod get;
mod list;
mod many;
mod metadata;
mod patch;
mod place;
mod put;
mod relocate;
mod rollback;
mod search;
mod undelete;
mod versions;
mod watch;
mod written;

use clap::Subcommand;

use kallisto_command::error::Error;
use kallisto_command::outcome::Outcome;

/// So many secrets, in words.
fn counted(secrets: u64) -> String {
    match secrets {
        1 => "1 secret".to_owned(),
        count => format!("{count} secrets"),
    }
}

/// The verbs of `kv`.
#[derive(Subcommand, Debug)]
pub(crate) enum Kv {
    /// Store a secret, as a new version where there are versions
    Put(put::Put),
    /// Read a secret, or several
    Get(get::Get),
    /// Change some members of a secret (v2)
    Patch(patch::Patch),
    /// Delete a secret, versions of one, or a folder; v2 can undelete
    Delete(delete::Delete),
    /// Bring deleted versions back, or those of a folder (v2)
    Undelete(undelete::Undelete),
    /// Remove versions for good (v2)
    Destroy(versions::Destroy),
    /// Make an old version the newest (v2)
    Rollback(rollback::Rollback),
    /// Copy a secret or a folder with all versions
    Copy(relocate::Copy),
    /// Move a secret or a folder with all versions
    Move(relocate::Move),
    /// Find secrets by name and custom metadata
    Search(search::Search),
    /// Follow changes as they happen
    Watch(watch::Watch),
    /// List the names below a path
    List(list::List),
    /// List every name below a path
    Scan(list::Scan),
    /// Work with what is known about a secret besides its data (v2)
    #[command(subcommand, arg_required_else_help = true)]
    Metadata(metadata::Metadata),
    /// Turn a v1 mount into a v2 mount
    EnableVersioning(enable_versioning::EnableVersioning),
}

impl Kv {
    /// Does it.
    pub(crate) fn run(self) -> Result<Outcome, Error> {
        match self {
            Self::Put(put) => put.run(),
            Self::Get(get) => get.run(),
            Self::Patch(patch) => patch.run(),
            Self::Delete(delete) => delete.run(),
            Self::Undelete(undelete) => undelete.run(),
            Self::Destroy(destroy) => destroy.run(),
            Self::Rollback(rollback) => rollback.run(),
            Self::Copy(copy) => copy.run(),
            Self::Move(movement) => movement.run(),
            Self::Search(search) => search.run(),
            Self::Watch(watch) => watch.run(),
            Self::List(list) => list.run(),
            Self::Scan(scan) => scan.run(),
            Self::Metadata(metadata) => metadata.run(),
            Self::EnableVersioning(enable) => enable.run(),
        }
    }
}
