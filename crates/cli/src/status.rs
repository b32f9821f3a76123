//! `status`: sealed or not, and who leads; needs no token.
//!
//! The exit code is the answer: 0 unsealed, 2 sealed, 1 when it could not be found out.

use clap::Args;

use kallisto_command::client::{Client, ClientRequest};
use kallisto_command::config::Config;
use kallisto_command::error::{EXIT_USAGE, Error};
use kallisto_command::flags::{CommonFlags, FieldFlag};
use kallisto_command::json::{Json, Map};
use kallisto_command::outcome::Outcome;
use kallisto_command::output::{Document, OutputFormat, field, table};
use kallisto_command::secret::{Secret, as_u64};

/// Exit code of a sealed server.
const EXIT_SEALED: u8 = 2;

/// Storages of which one server of several leads.
const REPLICATED: [&str; 2] = ["raft", "postgresql"];

/// Members of the document, in the order in which they are shown.
const MEMBERS: [&str; 26] = [
    "type",
    "initialized",
    "sealed",
    "t",
    "n",
    "progress",
    "nonce",
    "version",
    "commit_date",
    "build_date",
    "migration",
    "cluster_name",
    "cluster_id",
    "recovery_seal",
    "recovery_seal_type",
    "storage_type",
    "removed_from_cluster",
    "ha_enabled",
    "is_self",
    "active_time",
    "leader_address",
    "leader_cluster_address",
    "performance_standby",
    "performance_standby_last_remote_wal",
    "raft_committed_index",
    "raft_applied_index",
];

/// Prints whether the server is sealed.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  kallisto status\n  kallisto status -format=json\n  kallisto status || echo sealed or away\n\nExit codes: 0 unsealed, 2 sealed, 1 error"
)]
pub(crate) struct Status {
    #[command(flatten)]
    common: CommonFlags,
    #[command(flatten)]
    field: FieldFlag,
}

impl Status {
    /// Asks and prints.
    pub(crate) fn run(self) -> Result<Outcome, Error> {
        match self.ask() {
            // Sealed is exit code 2 here, so no failure may be.
            Err(error) => {
                let code = error.exit_code().min(EXIT_USAGE);
                Ok(Outcome::from(error).with_code(code))
            }
            done => done,
        }
    }

    fn ask(self) -> Result<Outcome, Error> {
        let config = Config::load(&self.common)?;
        let client = Client::new(&config)?;
        let doing = "Error checking seal status";
        let state = bare(client.send(&ClientRequest::get("sys/seal-status").unwrapped()), doing)?;
        Secret::flag_of(&state, "sealed", doing)?;
        of_seal(state, &client, &config, self.field.field.as_deref())
    }
}

/// Prints the state of a seal, which the caller knows, and who leads, which is asked here.
pub(crate) fn of_seal(
    mut state: Map,
    client: &Client<'_>,
    config: &Config,
    field: Option<&str>,
) -> Result<Outcome, Error> {
    let sealed = is(&state, "sealed");
    let leader = client.send(&ClientRequest::get("sys/leader").unwrapped());
    match leader {
        Ok(Some(Secret { data: Some(leader), .. })) => state.extend(leader),
        // A sealed server need not say who leads, and whether there is a cluster to lead is known by its storage.
        _ if sealed => {
            let storage = state.get("storage_type").and_then(Json::as_str).unwrap_or_default();
            let has_leader = REPLICATED.contains(&storage);
            state.insert("ha_enabled".to_owned(), has_leader.into());
        }
        other => {
            bare(other, "Error checking leader status")?;
        }
    }
    let code = if sealed { EXIT_SEALED } else { 0 };
    print(&state, config, field).map(|outcome| outcome.with_code(code))
}

fn bare(
    result: Result<Option<Secret>, kallisto_command::client::error::ClientError>,
    doing: &str,
) -> Result<Map, Error> {
    Secret::data_of(result.map_err(Error::doing(doing))?, doing)
}

fn print(state: &Map, config: &Config, wanted: Option<&str>) -> Result<Outcome, Error> {
    if let Some(name) = wanted {
        return field::of_map(state, name, config).map_err(|error| match error {
            Error::Usage(_) => field::absent(name, "seal status"),
            other => other,
        });
    }
    if config.format == OutputFormat::Table {
        return Ok(Outcome::print(table::rows(&rows(state))));
    }
    let shown = |name: &&'static str| shows(state, name);
    let members = MEMBERS.iter().filter(|name| shown(name)).copied();
    let members = members.map(|name| (name, Document::Value(&state[name]))).collect();
    Ok(Outcome::print(Document::Record(members).to_text(config.format)?))
}

/// Members about a leader that has nothing to say are left out.
fn shows(state: &Map, name: &str) -> bool {
    let leader_only =
        MEMBERS.iter().skip_while(|member| **member != "is_self").any(|member| *member == name);
    match state.get(name) {
        None => false,
        Some(Json::Bool(false)) => !leader_only,
        Some(Json::String(text)) => !leader_only || !text.is_empty(),
        Some(Json::Number(number)) => !leader_only || &**number != "0",
        Some(_) => true,
    }
}

/// The rows of the table.
fn rows(state: &Map) -> Vec<(String, String)> {
    let text = |name: &str| state.get(name).map(table::show).unwrap_or_default();
    let mut rows: Vec<(String, String)> = Vec::new();
    let mut row = |title: &str, value: String| rows.push((title.to_owned(), value));
    let recovery = is(state, "recovery_seal");
    match text("recovery_seal_type").as_str() {
        // Vault's servers name one type, that of the recovery key where there is one.
        "" => row(if recovery { "Recovery Seal Type" } else { "Seal Type" }, text("type")),
        of_recovery => {
            row("Seal Type", text("type"));
            row("Recovery Seal Type", of_recovery.to_owned());
        }
    }
    row("Initialized", text("initialized"));
    row("Sealed", text("sealed"));
    row(if recovery { "Total Recovery Shares" } else { "Total Shares" }, text("n"));
    row("Threshold", text("t"));
    if is(state, "sealed") {
        row("Unseal Progress", format!("{}/{}", text("progress"), text("t")));
        row("Unseal Nonce", text("nonce"));
    }
    if is(state, "migration") {
        row("Seal Migration in Progress", "true".to_owned());
    }
    row("Version", text("version"));
    // Servers name one date or the other; one that names both means the same by them.
    let date = if text("build_date").is_empty() {
        ("commit_date", "Commit Date")
    } else {
        ("build_date", "Build Date")
    };
    for (name, title) in [
        date,
        ("storage_type", "Storage Type"),
        ("cluster_name", "Cluster Name"),
        ("cluster_id", "Cluster ID"),
    ] {
        if !text(name).is_empty() {
            row(title, text(name));
        }
    }
    if is(state, "removed_from_cluster") {
        row("Removed From Cluster", "true".to_owned());
    }
    row("HA Enabled", state.get("ha_enabled").map_or_else(|| "false".to_owned(), table::show));
    if is(state, "ha_enabled") && !is(state, "sealed") {
        leader_rows(state, &mut rows);
    }
    rows
}

fn leader_rows(state: &Map, rows: &mut Vec<(String, String)>) {
    let text = |name: &str| state.get(name).map(table::show).unwrap_or_default();
    let mut row = |title: &str, value: String| rows.push((title.to_owned(), value));
    row("HA Cluster", text("leader_cluster_address"));
    if is(state, "is_self") {
        row("HA Mode", "active".to_owned());
        row("Active Since", text("active_time"));
    } else {
        row("HA Mode", "standby".to_owned());
        let leader = Some(text("leader_address")).filter(|address| !address.is_empty());
        row("Active Node Address", leader.unwrap_or_else(|| "<none>".to_owned()));
    }
    for (name, title) in [
        ("raft_committed_index", "Raft Committed Index"),
        ("raft_applied_index", "Raft Applied Index"),
    ] {
        if state.get(name).and_then(as_u64).is_some_and(|index| index > 0) {
            row(title, text(name));
        }
    }
}

fn is(state: &Map, name: &str) -> bool {
    matches!(state.get(name), Some(Json::Bool(true)))
}
