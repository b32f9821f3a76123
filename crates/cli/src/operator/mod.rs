//! `operator`: what those do who run a server rather than use it.
//!
//! One file per verb, over `sys/`. Layout and exit codes are those of Vault's command line; where
//! its prose is long, ours is shorter. [`ask`] reads shares of keys without showing them, [`mod@print`]
//! is what several verbs print. Shares encrypted to OpenPGP keys are not offered: the server makes
//! none.
//!
//! `raft` and `raft snapshot` are sets of verbs of their own, so that the binary can put those beside them that ask no server.
//! `diagnose` and `validate-config` ask no server: they are those of `kallisto-server`, which reads the configuration.
//!
//! Rekeying and root tokens go by the paths with a token asked for or not as the server has it, so
//! the same verbs work against Vault.

pub(crate) mod ask;
mod autopilot;
mod durability;
mod generate_root;
mod init;
mod key_status;
mod members;
mod pgp;
mod print;
pub(crate) mod raft;
mod rekey;
mod rotate;
mod seal;
pub(crate) mod snapshot;
mod step_down;
mod unseal;

use clap::Subcommand;

use kallisto_command::error::Error;
use kallisto_command::outcome::Outcome;

/// The verbs of `operator`.
#[derive(Subcommand, Debug)]
pub(crate) enum Operator {
    /// Make the keys of a new server, once
    Init(init::Init),
    /// Give a share of the unseal key to a sealed server
    Unseal(unseal::Unseal),
    /// Make a server forget its keys until it is unsealed
    Seal(seal::Seal),
    /// Replace the shares of the unseal or recovery key
    Rekey(rekey::Rekey),
    /// Encrypt from now on with a new key
    Rotate(rotate::Rotate),
    /// Print which key encrypts, since when, and how often it did
    KeyStatus(key_status::KeyStatus),
    /// Make a root token by consent of those who hold shares
    GenerateRoot(generate_root::GenerateRoot),
    /// Make the leader step down
    StepDown(step_down::StepDown),
    /// Print the servers of the cluster
    Members(members::Members),
    /// Print or change when writes are acknowledged
    Durability(durability::Durability),
    /// Return when everything acknowledged is on the disk
    Save(durability::Save),
}

impl Operator {
    /// Does it.
    pub(crate) fn run(self) -> Result<Outcome, Error> {
        match self {
            Self::Init(init) => init.run(),
            Self::Unseal(unseal) => unseal.run(),
            Self::Seal(seal) => seal.run(),
            Self::Rekey(rekey) => rekey.run(),
            Self::Rotate(rotate) => rotate.run(),
            Self::KeyStatus(status) => status.run(),
            Self::GenerateRoot(generate) => generate.run(),
            Self::StepDown(step_down) => step_down.run(),
            Self::Members(members) => members.run(),
            Self::Durability(durability) => durability.run(),
            Self::Save(save) => save.run(),
        }
    }
}
