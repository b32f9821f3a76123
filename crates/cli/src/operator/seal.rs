//! `operator seal`: the server forgets its keys and everything it holds in memory.

use clap::Args;

use kallisto_command::client::{Client, ClientRequest, Method};
use kallisto_command::config::Config;
use kallisto_command::error::Error;
use kallisto_command::flags::CommonFlags;
use kallisto_command::outcome::Outcome;

/// Makes the server forget its keys: it serves nothing until it is unsealed.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  kallisto operator seal")]
pub(crate) struct Seal {
    #[command(flatten)]
    common: CommonFlags,
}

impl Seal {
    /// Seals it.
    pub(crate) fn run(self) -> Result<Outcome, Error> {
        let config = Config::load(&self.common)?;
        let client = Client::new(&config)?;
        let request = ClientRequest::new(Method::Put, "sys/seal");
        client.send(&request).map_err(Error::doing("Error sealing"))?;
        Ok(Outcome::line("Success! Kallisto is sealed."))
    }
}
