//! `kv list` and `kv scan`: the names below a path.

use clap::Args;

use super::place::{KvPath, MountFlag};
use kallisto_command::client::{Client, ClientRequest};
use kallisto_command::config::Config;
use kallisto_command::error::Error;
use kallisto_command::flags::CommonFlags;
use kallisto_command::outcome::Outcome;
use kallisto_command::output;

/// Lists the names below a path.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  kallisto kv list secret/app\n  kallisto kv list -mount=secret\n  kallisto kv list -mount=secret -format=json app"
)]
pub(crate) struct List {
    /// Where to list; with -mount it may be left out
    #[arg(required_unless_present = "mount")]
    path: Option<String>,
    #[command(flatten)]
    mount: MountFlag,
    #[command(flatten)]
    common: CommonFlags,
}

/// Lists every name below a path, also in the folders there.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  kallisto kv scan secret/app\n  kallisto kv scan -mount=secret -format=json"
)]
pub(crate) struct Scan {
    #[command(flatten)]
    list: List,
}

impl List {
    /// Lists them.
    pub(crate) fn run(self) -> Result<Outcome, Error> {
        self.ask("listing", ClientRequest::list)
    }

    fn ask(&self, doing: &str, request: impl Fn(&str) -> ClientRequest) -> Result<Outcome, Error> {
        let config = Config::load(&self.common)?;
        let client = Client::new(&config)?;
        let place = KvPath::find(&client, &self.mount, self.path.as_deref().unwrap_or_default())?;
        let path = place.path("metadata");
        let doing = format!("Error {doing} {path}");
        output::listed(client.send(&request(&path).wrappable()), &doing, &config, &path)
    }
}

impl Scan {
    /// Lists them.
    pub(crate) fn run(self) -> Result<Outcome, Error> {
        self.list.ask("scanning", ClientRequest::scan)
    }
}
