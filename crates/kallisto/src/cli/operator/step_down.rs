//! `operator step-down`: the leader hands its place to another server.

use clap::Args;

use crate::cli::client::{Client, Method, Request};
use crate::cli::config::Config;
use crate::cli::error::Error;
use crate::cli::flags::CommonFlags;
use crate::cli::outcome::Outcome;

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
        let request = Request::new(Method::Put, "sys/step-down");
        client.send(&request).map_err(Error::doing("Error stepping down"))?;
        let address = config.address.to_string();
        Ok(Outcome::line(format!("Success! Stepped down: {}", address.trim_end_matches('/'))))
    }
}
