//! `operator raft`: the replicated storage.

use clap::{Args, Subcommand};

use super::autopilot;
use super::print::{self, text};
use kallisto_command::client::{Client, ClientRequest};
use kallisto_command::config::Config;
use kallisto_command::error::Error;
use kallisto_command::files;
use kallisto_command::flags::CommonFlags;
use kallisto_command::json::{Json, Map};
use kallisto_command::outcome::Outcome;
use kallisto_command::output::{self, Document, OutputFormat, table};
use kallisto_command::secret::Secret;

const HEADING: [&str; 4] = ["Node", "Address", "State", "Voter"];
pub(super) const ABSENT: &str = "No raft cluster configuration found";

/// The verbs of `operator raft`.
#[derive(Subcommand, Debug)]
pub(crate) enum Raft {
    /// Make a new server part of a cluster
    Join(Join),
    /// Print the servers that replicate
    ListPeers(ListPeers),
    /// Let a server go for good
    RemovePeer(RemovePeer),
    /// Give a server a vote
    Promote(Promote),
    /// Take a server's vote away
    Demote(Demote),
    /// See how the servers are
    #[command(subcommand, arg_required_else_help = true)]
    Autopilot(Autopilot),
}

/// The verbs of `operator raft autopilot`.
#[derive(Subcommand, Debug)]
pub(crate) enum Autopilot {
    /// Print how the servers are
    State(autopilot::State),
    /// Print when a server counts as healthy, and what is done about dead ones
    GetConfig(autopilot::GetConfig),
    /// Change that; what is not named stays
    SetConfig(autopilot::SetConfig),
}

impl Raft {
    /// Does it.
    pub(crate) fn run(self) -> Result<Outcome, Error> {
        match self {
            Self::Join(join) => join.run(),
            Self::ListPeers(list) => list.run(),
            Self::RemovePeer(remove) => remove.run(),
            Self::Promote(promote) => promote.run(),
            Self::Demote(demote) => demote.run(),
            Self::Autopilot(Autopilot::State(state)) => state.run(),
            Self::Autopilot(Autopilot::GetConfig(get)) => get.run(),
            Self::Autopilot(Autopilot::SetConfig(set)) => set.run(),
        }
    }
}

/// Makes the server that is asked, a new one, join a cluster. Give it that cluster's unseal shares then.
#[derive(Args, Debug)]
#[command(
    after_help = "Example:\n  kallisto operator raft join -address=http://new:8200 http://first:8200"
)]
pub(crate) struct Join {
    #[command(flatten)]
    common: CommonFlags,
    /// PEM file of the authority to trust for the other server, with or without `@`, or the PEM text itself
    #[arg(long, value_name = "FILE")]
    leader_ca_cert: Option<String>,
    /// PEM file of a certificate to show it
    #[arg(long, value_name = "FILE", requires = "leader_client_key")]
    leader_client_cert: Option<String>,
    /// PEM file of that certificate's key
    #[arg(long, value_name = "FILE", requires = "leader_client_cert")]
    leader_client_key: Option<String>,
    /// Token that an operator of the cluster made for this, where it wants one
    #[arg(long, value_name = "TOKEN", env = "KALLISTO_JOIN_TOKEN", hide_env_values = true)]
    join_token: Option<String>,
    /// Join without a vote
    #[arg(long)]
    non_voter: bool,
    /// URL of a member's API
    #[arg(value_name = "URL")]
    leader_api_addr: String,
}

impl Join {
    fn run(self) -> Result<Outcome, Error> {
        let config = Config::load(&self.common)?;
        let mut body = Map::new();
        let mut put = |name: &str, value: Json| body.insert(name.to_owned(), value);
        put("leader_api_addr", self.leader_api_addr.into());
        put("non_voter", self.non_voter.into());
        if let Some(token) = self.join_token {
            put("token", token.into());
        }
        for (name, path) in [
            ("leader_ca_cert", &self.leader_ca_cert),
            ("leader_client_cert", &self.leader_client_cert),
            ("leader_client_key", &self.leader_client_key),
        ] {
            let Some(given) = path else { continue };
            put(name, pem(given)?.into());
        }
        let request = ClientRequest::put("sys/storage/raft/join", body);
        let client = Client::new(&config)?.without_token();
        let answer = client.send(&request).map_err(Error::doing("Error joining the cluster"))?;
        if config.format != OutputFormat::Table {
            let joined = Secret::data_of(answer, "Error joining the cluster")?;
            return Ok(Outcome::print(Document::Object(&joined).to_text(config.format)?));
        }
        Ok(Outcome::line("Success! It joins once it is given the cluster's unseal shares."))
    }
}

/// The PEM text that an argument is, or that is in the file it names.
fn pem(given: &str) -> Result<String, Error> {
    if given.trim_start().starts_with("-----BEGIN ") {
        return Ok(given.to_owned());
    }
    let path = given.strip_prefix('@').unwrap_or(given);
    files::read(std::path::Path::new(path))
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        .map_err(|error| Error::usage(format!("{path}: {error}")))
}

/// Lets a server go for good.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  kallisto operator raft remove-peer node-2")]
pub(crate) struct RemovePeer {
    #[command(flatten)]
    common: CommonFlags,
    /// The server's name, as list-peers prints it
    server_id: String,
}

impl RemovePeer {
    fn run(self) -> Result<Outcome, Error> {
        let config = Config::load(&self.common)?;
        // The route takes any name, as that of Vault does. Who may not ask for the members is told no more.
        let request = ClientRequest::get("sys/storage/raft/configuration");
        if let Ok(Some(answer)) = Client::new(&config)?.send(&request)
            && let Some(names) = member_names(&answer)
            && !names.contains(&self.server_id)
        {
            let names = names.join(", ");
            let text = format!(
                "no server of the cluster is called {:?}: there are {names}",
                self.server_id
            );
            return Err(Error::Absent(text));
        }
        change(&self.common, "remove-peer", self.server_id, "Peer removed successfully!")
    }
}

/// Gives a server a vote.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  kallisto operator raft promote node-2")]
pub(crate) struct Promote {
    #[command(flatten)]
    common: CommonFlags,
    /// The server's name, as list-peers prints it
    server_id: String,
}

impl Promote {
    fn run(self) -> Result<Outcome, Error> {
        change(&self.common, "promote", self.server_id, "Success! The server votes.")
    }
}

/// Takes a server's vote away; it goes on following.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  kallisto operator raft demote node-2")]
pub(crate) struct Demote {
    #[command(flatten)]
    common: CommonFlags,
    /// The server's name, as list-peers prints it
    server_id: String,
}

impl Demote {
    fn run(self) -> Result<Outcome, Error> {
        change(&self.common, "demote", self.server_id, "Success! The server does not vote.")
    }
}

fn change(
    common: &CommonFlags,
    verb: &str,
    server_id: String,
    done: &str,
) -> Result<Outcome, Error> {
    let config = Config::load(common)?;
    let body = [("server_id".to_owned(), Json::from(server_id))].into_iter().collect();
    let request = ClientRequest::put(&format!("sys/storage/raft/{verb}"), body);
    let doing = Error::doing("Error changing the members");
    Client::new(&config)?.send(&request).map_err(doing)?;
    Ok(Outcome::line(done))
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
        let client = Client::new(&config)?;
        let request = ClientRequest::get("sys/storage/raft/configuration");
        let doing = Error::reading_or("Error reading the raft cluster configuration", ABSENT);
        let answer = client.send(&request).map_err(doing)?;
        // Storage that does not replicate has no such path.
        let answer = answer.ok_or_else(|| Error::Absent(ABSENT.to_owned()))?;
        if config.format != OutputFormat::Table {
            return output::secret(&answer, &config, None);
        }
        let servers = answer.datum_map("config").and_then(|config| config.get("servers"));
        let Some(Json::Array(servers)) = servers else {
            return Err(Error::Absent(ABSENT.to_owned()));
        };
        // By name: the server tells them in no order.
        let mut servers: Vec<_> = servers.iter().filter_map(Json::as_object).collect();
        servers.sort_by_key(|server| text(server, "node_id"));
        let rows = servers.into_iter().map(line);
        // While nobody leads it is what one server knows, and says so.
        let printed = Outcome::print(table::under(&HEADING, rows));
        Ok(printed.with_notice(&output::warnings(&answer)))
    }
}

/// What the members are called.
fn member_names(answer: &Secret) -> Option<Vec<String>> {
    let servers = answer.datum_map("config").and_then(|config| config.get("servers"));
    let Some(Json::Array(servers)) = servers else { return None };
    Some(servers.iter().filter_map(Json::as_object).map(|server| text(server, "node_id")).collect())
}

fn line(server: &Map) -> Vec<String> {
    let state = if print::is(server, "leader") { "leader" } else { "follower" };
    let voter = print::is(server, "voter").to_string();
    vec![text(server, "node_id"), text(server, "address"), state.to_owned(), voter]
}
