//! `operator key-status`: which data key encrypts new records.

use clap::Args;

use super::print::{self, MissingMember, ShownMembers, row, text};
use kallisto_command::client::{Client, ClientRequest};
use kallisto_command::config::Config;
use kallisto_command::error::Error;
use kallisto_command::flags::CommonFlags;
use kallisto_command::json::Map;
use kallisto_command::outcome::Outcome;
use kallisto_command::output::{OutputFormat, table};

const MEMBERS: &ShownMembers = &[
    ("term", MissingMember::Zero),
    ("install_time", MissingMember::Text),
    ("encryptions", MissingMember::Zero),
];

/// Prints the number of the key that encrypts, when it was made, and how often it encrypted.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  kallisto operator key-status\n  kallisto operator key-status -format=json"
)]
pub(crate) struct KeyStatus {
    #[command(flatten)]
    common: CommonFlags,
}

impl KeyStatus {
    /// Prints it.
    pub(crate) fn run(self) -> Result<Outcome, Error> {
        let config = Config::load(&self.common)?;
        let status = read(&Client::new(&config)?)?;
        show(&status, &config)
    }
}

/// What the server says of its key.
pub(super) fn read(client: &Client<'_>) -> Result<Map, Error> {
    let doing = "Error reading key status";
    let answer = client.send(&ClientRequest::get("sys/key-status")).map_err(Error::doing(doing))?;
    print::object(answer, doing)
}

/// Prints it.
pub(super) fn show(status: &Map, config: &Config) -> Result<Outcome, Error> {
    if config.format != OutputFormat::Table {
        return print::document(status, MEMBERS, config);
    }
    Ok(Outcome::print(table::plain(&[
        row("Key Term", text(status, "term")),
        row("Install Time", spoken_time(&text(status, "install_time"))),
        row("Encryption Count", text(status, "encryptions")),
    ])))
}

/// `2026-11-22T01:58:07Z` as `22 Nov 26 01:58 UTC`.
fn spoken_time(text: &str) -> String {
    match text.parse::<jiff::Timestamp>() {
        Ok(time) => time.strftime("%d %b %y %H:%M UTC").to_string(),
        Err(_) => text.to_owned(),
    }
}
