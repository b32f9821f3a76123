//! `monitor`: the log of a server, line by line as it is written.
//!
//! Unlike other commands it writes while it runs. It ends when the server ends the stream or when
//! nobody reads any more.

use std::io::Write;

use clap::Args;

use kallisto_command::client::{Client, ClientRequest};
use kallisto_command::config::Config;
use kallisto_command::error::Error;
use kallisto_command::flags::CommonFlags;
use kallisto_command::outcome::Outcome;

/// The levels that a server knows, the loudest first.
const LEVELS: [&str; 5] = ["trace", "debug", "info", "warn", "error"];

/// Follows the log of a server.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  kallisto monitor\n  kallisto monitor -log-level=debug\n  kallisto monitor -log-format=json | jq .\n\n\
    Exit codes: 0 nobody read any more, 1 a mistake in the call, 2 the server ended the stream"
)]
pub(crate) struct Monitor {
    /// How urgent a line must be: trace, debug, info, warn or error
    #[arg(long, value_name = "LEVEL", default_value = "info")]
    log_level: String,
    /// What a line looks like: standard or json
    #[arg(long, value_name = "FORMAT", default_value = "standard")]
    log_format: String,
    #[command(flatten)]
    common: CommonFlags,
}

impl Monitor {
    /// Follows it.
    pub(crate) fn run(self) -> Result<Outcome, Error> {
        let config = Config::load(&self.common)?;
        let level = self.log_level.to_ascii_lowercase();
        if !LEVELS.contains(&level.as_str()) {
            let known = LEVELS.join(" ");
            return Err(Error::usage(format!(
                "{level} is an unknown log level. Valid log levels are: [{known}]"
            )));
        }
        let request = ClientRequest::get("sys/monitor")
            .with_query("log_format", &*self.log_format)
            .with_query("log_level", level);
        let client = Client::new(&config)?;
        let mut is_read = true;
        client
            .stream(&request, |line| {
                is_read = print(line).is_ok();
                is_read
            })
            .map_err(Error::doing("Error starting monitor"))?;
        if is_read {
            return Err(Error::Absent("The server ended the stream".to_owned()));
        }
        Ok(Outcome::default())
    }
}

fn print(line: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}
