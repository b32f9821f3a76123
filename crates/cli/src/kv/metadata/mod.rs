//! `kv metadata`: what is known about a secret besides its data (v2 only).

mod delete;
mod get;
mod set;

use clap::Subcommand;

use super::place::{KvPath, MountFlag};
use kallisto_command::client::Client;
use kallisto_command::error::Error;
use kallisto_command::outcome::Outcome;

/// The verbs of `kv metadata`.
#[derive(Subcommand, Debug)]
pub(crate) enum Metadata {
    /// Print the metadata and the versions of a secret
    Get(get::Get),
    /// Set the metadata of a secret
    Put(set::Put),
    /// Change some of the metadata of a secret
    Patch(set::Patch),
    /// Delete a secret with all its versions, for good
    Delete(delete::Delete),
}

impl Metadata {
    /// Does it.
    pub(crate) fn run(self) -> Result<Outcome, Error> {
        match self {
            Self::Get(get) => get.run(),
            Self::Put(put) => put.run(),
            Self::Patch(patch) => patch.run(),
            Self::Delete(delete) => delete.run(),
        }
    }
}

/// The real path of a secret's metadata.
fn metadata_path(client: &Client<'_>, mount: &MountFlag, path: &str) -> Result<String, Error> {
    let place = KvPath::find(client, mount, path)?;
    place.require_v2(|| Error::usage("Metadata not supported on KV Version 1"))?;
    Ok(place.path("metadata"))
}
