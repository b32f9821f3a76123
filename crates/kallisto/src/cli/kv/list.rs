//! `kv list`: the names below a path.

use clap::Args;

use super::place::{MountFlag, Place};
use crate::cli::client::{Client, Request};
use crate::cli::config::Config;
use crate::cli::error::Error;
use crate::cli::flags::CommonFlags;
use crate::cli::outcome::Outcome;
use crate::cli::output;

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

impl List {
    /// Lists them.
    pub(crate) fn run(self) -> Result<Outcome, Error> {
        let config = Config::load(&self.common)?;
        let client = Client::new(&config)?;
        let place = Place::find(&client, &self.mount, self.path.as_deref().unwrap_or_default())?;
        let path = place.path("metadata");
        let doing = format!("Error listing {path}");
        match client.send(&Request::list(&path)).map_err(Error::doing(doing))? {
            Some(secret) => output::list(&secret, &config, &path),
            None => output::no_list(&config, &path),
        }
    }
}
