//! `kv metadata put` and `kv metadata patch`: settings of a secret.
//!
//! The two differ in what happens to custom metadata: `put` replaces all of it, `patch` changes
//! the members it names. Settings without a flag are kept by both.

use clap::Args;

use super::super::place::MountFlag;
use super::metadata_path;
use crate::pairs;
use kallisto_command::client::{Client, ClientRequest, Method};
use kallisto_command::config::Config;
use kallisto_command::duration;
use kallisto_command::error::Error;
use kallisto_command::flags::CommonFlags;
use kallisto_command::json::{Json, Map};
use kallisto_command::outcome::Outcome;
use kallisto_command::output;

/// What both take.
#[derive(Args, Debug)]
pub(crate) struct MetadataSettings {
    /// Where it is
    path: String,
    /// Versions to keep; 0 for the mount's own number
    #[arg(long, value_name = "NUMBER", allow_negative_numbers = true)]
    max_versions: Option<i64>,
    /// Whether every write must carry -cas
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL")]
    cas_required: Option<bool>,
    /// Delete each version this long after it was written, e.g. 3h25m19s
    #[arg(long, value_name = "DURATION")]
    delete_version_after: Option<String>,
    /// A note on the secret, as KEY=VALUE; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    custom_metadata: Vec<String>,
    #[command(flatten)]
    mount: MountFlag,
    #[command(flatten)]
    common: CommonFlags,
}

/// Sets the metadata of a secret.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  kallisto kv metadata put -mount=secret -max-versions=5 app/db\n  kallisto kv metadata put -mount=secret -cas-required -custom-metadata=owner=ada app/db"
)]
pub(crate) struct Put {
    #[command(flatten)]
    settings: MetadataSettings,
}

/// Changes some of the metadata of a secret.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  kallisto kv metadata patch -mount=secret -max-versions=5 app/db\n  kallisto kv metadata patch -mount=secret -remove-custom-metadata=owner app/db"
)]
pub(crate) struct Patch {
    #[command(flatten)]
    settings: MetadataSettings,
    /// Remove this note; may be repeated
    #[arg(long, value_name = "KEY")]
    remove_custom_metadata: Vec<String>,
}

impl Put {
    /// Sets it.
    pub(crate) fn run(self) -> Result<Outcome, Error> {
        let mut body = self.settings.members()?;
        let notes = self.settings.notes()?;
        if !notes.is_empty() {
            body.insert("custom_metadata".to_owned(), Json::Object(notes));
        }
        self.settings.send(Method::Put, body)
    }
}

impl Patch {
    /// Changes it.
    pub(crate) fn run(self) -> Result<Outcome, Error> {
        let mut body = self.settings.members()?;
        let mut notes = self.settings.notes()?;
        // In a merge patch, null removes a member.
        notes.extend(self.remove_custom_metadata.iter().map(|key| (key.clone(), Json::Null)));
        body.insert("custom_metadata".to_owned(), Json::Object(notes));
        self.settings.send(Method::Patch, body)
    }
}

impl MetadataSettings {
    /// The members of the body that flags name.
    fn members(&self) -> Result<Map, Error> {
        let mut body = Map::new();
        let mut add = |name: &str, value: Json| body.insert(name.to_owned(), value);
        if let Some(number @ 0..) = self.max_versions {
            add("max_versions", Json::from(number));
        }
        if let Some(required) = self.cas_required {
            add("cas_required", Json::from(required));
        }
        if let Some(text) = &self.delete_version_after {
            let after = duration::parse(text)
                .map_err(|why| Error::usage(format!("flag -delete-version-after: {why}")))?;
            add("delete_version_after", Json::from(duration::wire(after)));
        }
        Ok(body)
    }

    fn notes(&self) -> Result<Map, Error> {
        pairs::texts("-custom-metadata", &self.custom_metadata)
    }

    fn send(self, method: Method, body: Map) -> Result<Outcome, Error> {
        let config = Config::load(&self.common)?;
        let client = Client::new(&config)?;
        let path = metadata_path(&client, &self.mount, &self.path)?;
        let request = ClientRequest::new(method, &path).with_body(&Json::Object(body));
        match client
            .send(&request.wrappable())
            .map_err(Error::doing(format!("Error writing data to {path}")))?
        {
            Some(secret) => output::secret(&secret, &config, None),
            None => Ok(output::done(&config, &format!("Success! Data written to: {path}"))),
        }
    }
}
