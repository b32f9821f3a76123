//! `kv delete`: delete a secret, or given versions of one (v2).

use clap::Args;

use super::place::{Engine, MountFlag, Place};
use super::versions::version_list;
use crate::cli::client::{Client, Method, Request};
use crate::cli::config::Config;
use crate::cli::error::Error;
use crate::cli::flags::CommonFlags;
use crate::cli::outcome::Outcome;
use crate::cli::output;

/// Deletes a secret.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  kallisto kv delete -mount=secret app/db\n  kallisto kv delete -mount=secret -versions=1,2 app/db"
)]
pub(crate) struct Delete {
    /// Where it is
    path: String,
    /// Versions to delete (v2), e.g. 1,2; the newest without it
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',')]
    versions: Vec<String>,
    #[command(flatten)]
    mount: MountFlag,
    #[command(flatten)]
    common: CommonFlags,
}

impl Delete {
    /// Deletes it.
    pub(crate) fn run(self) -> Result<Outcome, Error> {
        let config = Config::load(&self.common)?;
        output::refuse_raw(&config)?;
        let client = Client::new(&config)?;
        let place = Place::find(&client, &self.mount, &self.path)?;
        let path = place.path("data");
        let request = match place.engine {
            Engine::V2 if !self.versions.is_empty() => {
                Request::put(&place.path("delete"), version_list(&self.versions))
            }
            Engine::V1 | Engine::V2 => Request::new(Method::Delete, &path),
        };
        match client.send(&request).map_err(Error::doing(format!("Error deleting {path}")))? {
            Some(secret) if secret.says_something() || secret.wrap_info.is_some() => {
                output::secret(&secret, &config, None)
            }
            _ => {
                let sentence = format!("Success! Data deleted (if it existed) at: {path}");
                Ok(output::done(&config, &sentence))
            }
        }
    }
}
