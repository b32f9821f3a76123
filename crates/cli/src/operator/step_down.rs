//! `operator step-down`: the leader hands its place to another server.

use clap::Args;

use kallisto_command::client::{Client, ClientRequest, Method};
use kallisto_command::config::Config;
use kallisto_command::error::Error;
use kallisto_command::flags::CommonFlags;
use kallisto_command::outcome::Outcome;

/// Makes the leader step down; without another server it leads again at once.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  kallisto operator step-down")]
pub(crate) struct StepDown {
    #[command(flatten)]
    common: CommonFlags,
}

impl StepDown {
    /// Asks it to.
    pub(crate) fn run(self) -> Result<Outcome, Error> {
        let config = Config::load(&self.common)?;
        let client = Client::new(&config)?;
        let request = ClientRequest::new(Method::Put, "sys/step-down");
        client.send(&request).map_err(Error::doing("Error stepping down"))?;
        let address = config.address.to_string();
        Ok(Outcome::line(format!("Success! Stepped down: {}", address.trim_end_matches('/'))))
    }
}
