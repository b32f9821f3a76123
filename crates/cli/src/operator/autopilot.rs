//! `operator raft autopilot`: how the servers are, and when one counts as healthy.

use clap::Args;

use super::print::{self, text};
use super::raft::ABSENT;
use kallisto_command::client::{Client, ClientRequest};
use kallisto_command::config::Config;
use kallisto_command::error::Error;
use kallisto_command::flags::{CommonFlags, parse_duration};
use kallisto_command::json::{Json, Map};
use kallisto_command::outcome::Outcome;
use kallisto_command::output::{self, Document, OutputFormat, table};
use kallisto_command::secret::Secret;

const STATE: &str = "sys/storage/raft/autopilot/state";
const CONFIGURATION: &str = "sys/storage/raft/autopilot/configuration";
const HEADING: [&str; 6] = ["Node", "Address", "Status", "Healthy", "Last Contact", "Last Index"];

/// Prints how the servers are, as the leader sees them.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  kallisto operator raft autopilot state")]
pub(crate) struct State {
    #[command(flatten)]
    common: CommonFlags,
}

impl State {
    pub(super) fn run(mut self) -> Result<Outcome, Error> {
        // The format for people is called so here by Vault's command line.
        let format = &mut self.common.format.format;
        *format = format.take().filter(|name| !name.eq_ignore_ascii_case("pretty"));
        let config = Config::load(&self.common)?;
        let doing = Error::reading_or("Error reading the state of the servers", ABSENT);
        let answer = Client::new(&config)?.send(&ClientRequest::get(STATE)).map_err(doing)?;
        let answer = answer.ok_or_else(|| Error::Absent(ABSENT.to_owned()))?;
        if config.format != OutputFormat::Table {
            return data(&answer, &config);
        }
        let printed = Outcome::print(state_table(&answer)?);
        Ok(printed.with_notice(&output::warnings(&answer)))
    }
}

/// What programs get: Vault's command line prints the data without what is around it.
fn data(answer: &Secret, config: &Config) -> Result<Outcome, Error> {
    let data = answer.data.as_ref().ok_or_else(|| Error::Absent(ABSENT.to_owned()))?;
    let printed = Outcome::print(Document::Object(data).to_text(config.format)?);
    Ok(printed.with_notice(&output::warnings(answer)))
}

/// What is said of all, and a row for each server.
fn state_table(answer: &Secret) -> Result<String, Error> {
    let Some(servers) = answer.datum_map("servers") else {
        return Err(Error::Absent(ABSENT.to_owned()));
    };
    let of = |name: &str| match answer.datum(name) {
        Some(Json::String(text)) => text.clone(),
        Some(other) => String::from_utf8_lossy(&other.to_text()).into_owned(),
        None => String::new(),
    };
    let all = ["healthy", "failure_tolerance", "leader"];
    let facts = all.iter().map(|name| vec![(*name).to_owned(), of(name)]);
    let rows = servers.values().filter_map(Json::as_object).map(row);
    Ok(format!("{}\n{}", table::under(&["Key", "Value"], facts), table::under(&HEADING, rows)))
}

fn row(server: &Map) -> Vec<String> {
    let index = server.get("last_index").map(Json::to_text).unwrap_or_default();
    vec![
        text(server, "name"),
        text(server, "address"),
        text(server, "status"),
        print::is(server, "healthy").to_string(),
        text(server, "last_contact"),
        String::from_utf8_lossy(&index).into_owned(),
    ]
}

/// Prints when a server counts as healthy, and what is done about dead ones.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  kallisto operator raft autopilot get-config")]
pub(crate) struct GetConfig {
    #[command(flatten)]
    common: CommonFlags,
}

impl GetConfig {
    pub(super) fn run(self) -> Result<Outcome, Error> {
        let config = Config::load(&self.common)?;
        let doing = Error::reading_or("Error reading the autopilot's configuration", ABSENT);
        let answer =
            Client::new(&config)?.send(&ClientRequest::get(CONFIGURATION)).map_err(doing)?;
        let answer = answer.ok_or_else(|| Error::Absent(ABSENT.to_owned()))?;
        match config.format {
            OutputFormat::Table => output::secret(&answer, &config, None),
            _ => data(&answer, &config),
        }
    }
}

/// Changes when a server counts as healthy, and what is done about dead ones; what is not named stays.
#[derive(Args, Debug)]
#[command(
    after_help = "Example:\n  kallisto operator raft autopilot set-config -cleanup-dead-servers=true -min-quorum=3"
)]
pub(crate) struct SetConfig {
    #[command(flatten)]
    common: CommonFlags,
    /// Whether servers that are gone for good are removed; needs -min-quorum
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL")]
    cleanup_dead_servers: Option<bool>,
    /// Silence after which a server is not healthy, e.g. 10s
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    last_contact_threshold: Option<String>,
    /// Silence after which a server is gone for good, e.g. 24h
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    dead_server_last_contact_threshold: Option<String>,
    /// Entries that a healthy server may lack
    #[arg(long, value_name = "NUMBER")]
    max_trailing_logs: Option<u64>,
    /// Voters that have to stay when servers are removed
    #[arg(long, value_name = "NUMBER")]
    min_quorum: Option<u64>,
    /// Time for which a new server has to be healthy; kept, and without effect here
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    server_stabilization_time: Option<String>,
}

impl SetConfig {
    pub(super) fn run(self) -> Result<Outcome, Error> {
        let config = Config::load(&self.common)?;
        let given = [
            ("cleanup_dead_servers", self.cleanup_dead_servers.map(Json::from)),
            ("last_contact_threshold", self.last_contact_threshold.map(Json::from)),
            (
                "dead_server_last_contact_threshold",
                self.dead_server_last_contact_threshold.map(Json::from),
            ),
            ("max_trailing_logs", self.max_trailing_logs.map(Json::from)),
            ("min_quorum", self.min_quorum.map(Json::from)),
            ("server_stabilization_time", self.server_stabilization_time.map(Json::from)),
        ];
        let body: Map =
            given.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect();
        if body.is_empty() {
            return Err(Error::usage("nothing to change: name at least one setting"));
        }
        let doing = Error::doing("Error writing the autopilot's configuration");
        Client::new(&config)?.send(&ClientRequest::put(CONFIGURATION, body)).map_err(doing)?;
        Ok(Outcome::line("Success! Autopilot's configuration is changed."))
    }
}
