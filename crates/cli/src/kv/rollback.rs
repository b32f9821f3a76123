//! `kv rollback`: store an old version again, as the newest.
//!
//! The write carries the version that was newest when we looked, so that it fails rather than hide
//! what somebody wrote in between.

use clap::Args;

use super::place::{KvPath, MountFlag};
use super::put::{cas_options, versioned};
use kallisto_command::client::{Client, ClientRequest};
use kallisto_command::config::Config;
use kallisto_command::error::Error;
use kallisto_command::flags::CommonFlags;
use kallisto_command::json::Json;
use kallisto_command::outcome::Outcome;
use kallisto_command::output;
use kallisto_command::secret::{Secret, as_u64};

/// Makes an old version the newest.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  kallisto kv rollback -mount=secret -version=2 app/db")]
pub(crate) struct Rollback {
    /// Where it is
    path: String,
    /// The version to bring back
    #[arg(long, value_name = "NUMBER", allow_negative_numbers = true)]
    version: Option<i64>,
    #[command(flatten)]
    mount: MountFlag,
    #[command(flatten)]
    common: CommonFlags,
}

impl Rollback {
    /// Brings it back.
    pub(crate) fn run(self) -> Result<Outcome, Error> {
        let config = Config::load(&self.common)?;
        let version = match self.version {
            None => return Err(Error::usage("Version flag must be specified")),
            Some(version) if version <= 0 => {
                return Err(Error::usage("Version flag must be a number above 0"));
            }
            Some(version) => version,
        };
        let client = Client::new(&config)?;
        let place = KvPath::find(&client, &self.mount, &self.path)?;
        place.require_v2(|| {
            Error::Unusable("K/V engine mount must be version 2 for rollback support".to_owned())
        })?;
        let path = place.path("data");
        let newest = self.newest(&client, &path)?;
        let old = self.data_of(&client, &path, version)?;
        let data = old.datum_map("data").cloned().unwrap_or_default();
        let body = versioned(data, cas_options(Some(newest)));
        let result = client.send(&ClientRequest::put(&path, body).wrappable());
        match result.map_err(Error::doing(format!("Error writing data to {path}")))? {
            Some(secret) => output::secret(&secret, &config, None),
            None => Ok(output::done(&config, &format!("Success! Data written to: {path}"))),
        }
    }

    /// The number of the newest version, deleted or not.
    fn newest(&self, client: &Client<'_>, path: &str) -> Result<i64, Error> {
        let doing = format!("Error doing pre-read at {path}");
        let request = ClientRequest::get(path).unwrapped();
        let secret = client.send_really(&request).map_err(Error::reading(doing, path))?;
        let secret = secret.ok_or_else(|| Error::no_value(path))?;
        let version = secret.datum_map("metadata").and_then(|metadata| metadata.get("version"));
        let version = version.and_then(as_u64).and_then(|version| i64::try_from(version).ok());
        version.ok_or_else(|| Error::no_value(path))
    }

    /// The version to bring back; one that is deleted has nothing to bring.
    fn data_of(&self, client: &Client<'_>, path: &str, version: i64) -> Result<Secret, Error> {
        let request =
            ClientRequest::get(path).with_query("version", version.to_string()).unwrapped();
        let doing = format!("Error doing pre-read at {path}");
        let secret = client.send_really(&request).map_err(Error::reading(doing, path))?;
        let secret = secret.ok_or_else(|| Error::no_value(path))?;
        if secret.datum_map("data").is_some() {
            return Ok(secret);
        }
        let metadata = secret.datum_map("metadata");
        let destroyed = metadata.and_then(|metadata| metadata.get("destroyed"));
        let how = if destroyed == Some(&Json::Bool(true)) { "destroyed" } else { "deleted" };
        Err(Error::Absent(format!("Cannot roll back to a version that has been {how}")))
    }
}
