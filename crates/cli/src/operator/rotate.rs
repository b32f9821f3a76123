//! `operator rotate`: a new data key; what the old ones encrypted stays readable.

use clap::Args;

use super::key_status;
use kallisto_command::client::{Client, ClientRequest, Method};
use kallisto_command::config::Config;
use kallisto_command::error::Error;
use kallisto_command::flags::CommonFlags;
use kallisto_command::outcome::Outcome;
use kallisto_command::output::OutputFormat;

/// Encrypts from now on with a new key; old records are re-encrypted in the background.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  kallisto operator rotate\n  kallisto operator rotate -format=json"
)]
pub(crate) struct Rotate {
    #[command(flatten)]
    common: CommonFlags,
}

impl Rotate {
    /// Rotates it and prints the new key's status.
    pub(crate) fn run(self) -> Result<Outcome, Error> {
        let config = Config::load(&self.common)?;
        let client = Client::new(&config)?;
        let request = ClientRequest::new(Method::Put, "sys/rotate");
        client.send(&request).map_err(Error::doing("Error rotating key"))?;
        let mut outcome = key_status::show(&key_status::read(&client)?, &config)?;
        if config.format == OutputFormat::Table {
            outcome.stdout.splice(0..0, *b"Success! Rotated key\n\n");
        }
        Ok(outcome)
    }
}
