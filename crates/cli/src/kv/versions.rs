//! `kv undelete` and `kv destroy`: the two verbs that only make sense for given versions.

use clap::Args;

use super::place::{KvPath, MountFlag};
use kallisto_command::client::{Client, ClientRequest};
use kallisto_command::config::Config;
use kallisto_command::error::Error;
use kallisto_command::flags::CommonFlags;
use kallisto_command::json::{Json, Map};
use kallisto_command::outcome::Outcome;
use kallisto_command::output;

/// Which versions of which secret.
#[derive(Args, Debug)]
pub(crate) struct Versions {
    /// Where it is
    path: String,
    /// The versions, e.g. 1,2
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',')]
    versions: Vec<String>,
    #[command(flatten)]
    mount: MountFlag,
    #[command(flatten)]
    common: CommonFlags,
}

/// Brings deleted versions back.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  kallisto kv undelete -mount=secret -versions=3 app/db")]
pub(crate) struct Undelete {
    #[command(flatten)]
    versions: Versions,
}

/// Removes versions for good.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  kallisto kv destroy -mount=secret -versions=1,2 app/db")]
pub(crate) struct Destroy {
    #[command(flatten)]
    versions: Versions,
}

impl Undelete {
    /// Brings them back.
    pub(crate) fn run(self) -> Result<Outcome, Error> {
        self.versions.send("undelete", "Undelete")
    }
}

impl Destroy {
    /// Removes them.
    pub(crate) fn run(self) -> Result<Outcome, Error> {
        self.versions.send("destroy", "Destroy")
    }
}

impl Versions {
    /// Sends the versions to the part of the engine that does `verb`.
    fn send(self, verb: &str, title: &str) -> Result<Outcome, Error> {
        let config = Config::load(&self.common)?;
        if self.versions.is_empty() {
            return Err(Error::usage(format!(
                "No versions provided, use the \"-versions\" flag to specify the version to {verb}."
            )));
        }
        let client = Client::new(&config)?;
        let place = KvPath::find(&client, &self.mount, &self.path)?;
        place.require_v2(|| Error::usage(format!("{title} not supported on KV Version 1")))?;
        let path = place.path(verb);
        let result = client.send(&ClientRequest::put(&path, version_list(&self.versions)));
        match result.map_err(Error::doing(format!("Error writing data to {path}")))? {
            Some(secret) => output::secret(&secret, &config, None),
            None => Ok(output::done(&config, &format!("Success! Data written to: {path}"))),
        }
    }
}

/// `{"versions": ["1", "2"]}`
pub(crate) fn version_list(versions: &[String]) -> Map {
    let versions =
        versions.iter().map(|version| version.trim()).filter(|version| !version.is_empty());
    Map::from([("versions".to_owned(), Json::strings(versions))])
}
