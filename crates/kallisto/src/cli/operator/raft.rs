//! `operator raft`: the replicated storage.

use clap::{Args, Subcommand};

use super::print::{self, text};
use crate::cli::client::{Client, Request};
use crate::cli::config::Config;
use crate::cli::error::Error;
use crate::cli::flags::CommonFlags;
use crate::cli::json::{Json, Map};
use crate::cli::outcome::Outcome;
use crate::cli::output::{self, Format, table};

const HEADING: [&str; 4] = ["Node", "Address", "State", "Voter"];
const ABSENT: &str = "No raft cluster configuration found";

/// The verbs of `operator raft`.
#[derive(Subcommand, Debug)]
pub(crate) enum Raft {
    /// Print the servers that replicate
    ListPeers(ListPeers),
}

impl Raft {
    /// Does it.
    pub(crate) fn run(self) -> Result<Outcome, Error> {
        match self {
            Self::ListPeers(list) => list.run(),
        }
    }
}

/// Prints the servers that replicate, which of them leads and which have a vote.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  kallisto operator raft list-peers\n  kallisto operator raft list-peers -format=json"
)]
pub(crate) struct ListPeers {
    #[command(flatten)]
    common: CommonFlags,
}

impl ListPeers {
    fn run(self) -> Result<Outcome, Error> {
        let config = Config::load(&self.common)?;
        output::refuse_raw(&config)?;
        let client = Client::new(&config)?;
        let request = Request::get("sys/storage/raft/configuration");
        let doing = Error::doing("Error reading the raft cluster configuration");
        let answer = client.send(&request).map_err(doing)?;
        // Storage that does not replicate has no such path.
        let answer = answer.ok_or_else(|| Error::Absent(ABSENT.to_owned()))?;
        if config.format != Format::Table {
            return output::secret(&answer, &config, None);
        }
        let servers = answer.datum_map("config").and_then(|config| config.get("servers"));
        let Some(Json::Array(servers)) = servers else {
            return Err(Error::Absent(ABSENT.to_owned()));
        };
        let mut lines = vec![HEADING.map(str::to_owned).to_vec()];
        lines.push(HEADING.map(|title| "-".repeat(title.len())).to_vec());
        lines.extend(servers.iter().filter_map(Json::as_object).map(line));
        Ok(Outcome::print(table::columns(&lines)))
    }
}

fn line(server: &Map) -> Vec<String> {
    let state = if print::is(server, "leader") { "leader" } else { "follower" };
    let voter = print::is(server, "voter").to_string();
    vec![text(server, "node_id"), text(server, "address"), state.to_owned(), voter]
}
