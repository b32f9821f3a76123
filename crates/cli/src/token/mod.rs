//! `token`: making tokens, asking about them, and ending them.

mod capabilities;
mod create;
mod lookup;
mod renew;
mod revoke;

use clap::Subcommand;

use kallisto_command::error::Error;
use kallisto_command::outcome::Outcome;

/// What can be done with tokens.
#[derive(Subcommand, Debug)]
pub(crate) enum Token {
    /// Print what a token may do at a path
    Capabilities(capabilities::Capabilities),
    /// Make a token
    Create(Box<create::Create>),
    /// Print what the server knows about a token
    Lookup(lookup::Lookup),
    /// Give a token more time
    Renew(renew::Renew),
    /// End a token and those below it
    Revoke(revoke::Revoke),
}

impl Token {
    /// Does it.
    pub(crate) fn run(self) -> Result<Outcome, Error> {
        match self {
            Self::Capabilities(capabilities) => capabilities.run(),
            Self::Create(create) => create.run(),
            Self::Lookup(lookup) => lookup.run(),
            Self::Renew(renew) => renew.run(),
            Self::Revoke(revoke) => revoke.run(),
        }
    }
}
