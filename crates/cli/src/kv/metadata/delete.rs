//! `kv metadata delete`: the secret, all versions and all that is known about it.

use clap::Args;

use super::super::place::MountFlag;
use super::metadata_path;
use kallisto_command::client::{Client, ClientRequest, Method};
use kallisto_command::config::Config;
use kallisto_command::error::Error;
use kallisto_command::flags::CommonFlags;
use kallisto_command::outcome::Outcome;
use kallisto_command::output;

/// Deletes a secret with all its versions.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  kallisto kv metadata delete -mount=secret app/db")]
pub(crate) struct Delete {
    /// Where it is
    path: String,
    #[command(flatten)]
    mount: MountFlag,
    #[command(flatten)]
    common: CommonFlags,
}

impl Delete {
    /// Deletes it.
    pub(crate) fn run(self) -> Result<Outcome, Error> {
        let config = Config::load(&self.common)?;
        let client = Client::new(&config)?;
        let path = metadata_path(&client, &self.mount, &self.path)?;
        let request = ClientRequest::new(Method::Delete, &path).wrappable();
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
