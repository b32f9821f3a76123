//! `operator members`: the servers of the cluster.

use clap::Args;

use super::print::{self, text};
use kallisto_command::client::{Client, ClientRequest};
use kallisto_command::config::Config;
use kallisto_command::error::Error;
use kallisto_command::flags::CommonFlags;
use kallisto_command::json::{Json, Map};
use kallisto_command::outcome::Outcome;
use kallisto_command::output::{Document, OutputFormat, table};

const HEADING: [&str; 7] = [
    "Host Name",
    "API Address",
    "Cluster Address",
    "Active Node",
    "Version",
    "Upgrade Version",
    "Last Echo",
];
const MEMBERS: [&str; 7] = [
    "hostname",
    "api_address",
    "cluster_address",
    "active_node",
    "version",
    "upgrade_version",
    "last_echo",
];

/// Prints the servers of the cluster and which of them leads.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  kallisto operator members\n  kallisto operator members -format=json"
)]
pub(crate) struct Members {
    #[command(flatten)]
    common: CommonFlags,
}

impl Members {
    /// Prints them.
    pub(crate) fn run(self) -> Result<Outcome, Error> {
        let config = Config::load(&self.common)?;
        let client = Client::new(&config)?;
        let doing = "Error reading the members";
        let answer =
            client.send(&ClientRequest::get("sys/ha-status")).map_err(Error::doing(doing))?;
        let object = print::object(answer, doing)?;
        let nodes = object.get("nodes").ok_or_else(|| Error::empty_answer(doing))?;
        match config.format {
            OutputFormat::Table => Ok(Outcome::print(columns(nodes))),
            format => {
                let members = vec![("Nodes", Document::Value(nodes))];
                Ok(Outcome::print(Document::Record(members).to_text(format)?))
            }
        }
    }
}

fn columns(nodes: &Json) -> String {
    let Json::Array(nodes) = nodes else { return table::under(&HEADING, std::iter::empty()) };
    let row =
        |node: &Map| MEMBERS.iter().map(|name| text(node, name).replace("<nil>", "")).collect();
    table::under(&HEADING, nodes.iter().filter_map(Json::as_object).map(row))
}
