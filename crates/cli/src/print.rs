//! `print token`: the token that commands would send, for `$(kallisto print token)`.

use clap::{Args, Subcommand};

use kallisto_command::config::Config;
use kallisto_command::error::Error;
use kallisto_command::flags::CommonFlags;
use kallisto_command::outcome::Outcome;

/// What can be printed.
#[derive(Subcommand, Debug)]
pub(crate) enum Print {
    /// Print the token that commands will use
    Token(PrintToken),
}

/// Prints the token from the environment, or the one that login stored.
#[derive(Args, Debug)]
#[command(
    after_help = "Example:\n  curl -H \"X-Vault-Token: $(kallisto print token)\" $VAULT_ADDR/v1/secret/data/app"
)]
pub(crate) struct PrintToken {}

impl Print {
    /// Prints it.
    pub(crate) fn run(self) -> Result<Outcome, Error> {
        let Self::Token(PrintToken {}) = self;
        let config = Config::load(&CommonFlags::default())?;
        Ok(config.expose_token().map_or_else(Outcome::default, Outcome::line))
    }
}
