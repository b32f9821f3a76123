//! `kv destroy`, and what it shares with `kv undelete`: the two verbs that only make sense for given versions.

use clap::Args;

use super::place::{KvPath, MountFlag};
use kallisto_command::client::{Client, ClientRequest};
use kallisto_command::config::Config;
use kallisto_command::error::Error;
use kallisto_command::flags::CommonFlags;
use kallisto_command::json::{Json, Map};
use kallisto_command::outcome::Outcome;
use kallisto_command::output;

/// Removes versions for good.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  kallisto kv destroy -mount=secret -versions=1,2 app/db")]
pub(crate) struct Destroy {
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

impl Destroy {
    /// Removes them.
    pub(crate) fn run(self) -> Result<Outcome, Error> {
        let place = (self.path.as_str(), &self.mount);
        send_versions(&self.common, place, &self.versions, ("destroy", "Destroy"))
    }
}

/// Sends versions of a secret to the part of the engine that does a verb, which has a title too.
pub(super) fn send_versions(
    common: &CommonFlags,
    (path, mount): (&str, &MountFlag),
    versions: &[String],
    (verb, title): (&str, &str),
) -> Result<Outcome, Error> {
    let config = Config::load(common)?;
    if versions.is_empty() {
        return Err(Error::usage(format!(
            "No versions provided, use the \"-versions\" flag to specify the version to {verb}."
        )));
    }
    let client = Client::new(&config)?;
    let place = KvPath::find(&client, mount, path)?;
    place.require_v2(|| Error::usage(format!("{title} not supported on KV Version 1")))?;
    let path = place.path(verb);
    let result = client.send(&ClientRequest::put(&path, version_list(versions)).wrappable());
    match result.map_err(Error::doing(format!("Error writing data to {path}")))? {
        Some(secret) => output::secret(&secret, &config, None),
        None => Ok(output::done(&config, &format!("Success! Data written to: {path}"))),
    }
}

/// `{"versions": ["1", "2"]}`
pub(crate) fn version_list(versions: &[String]) -> Map {
    let versions =
        versions.iter().map(|version| version.trim()).filter(|version| !version.is_empty());
    Map::from([("versions".to_owned(), Json::strings(versions))])
}
