//! `kv get`: read a secret, the newest version or a given one; or several, as `many` does.

use clap::Args;

use super::many;
use super::place::{KvEngineVersion, KvPath, MountFlag};
use super::written::secret_path;
use kallisto_command::client::{Client, ClientRequest};
use kallisto_command::config::Config;
use kallisto_command::error::Error;
use kallisto_command::flags::{CommonFlags, FieldFlag};
use kallisto_command::outcome::Outcome;
use kallisto_command::output::{self, OutputFormat, field, table};
use kallisto_command::secret::Secret;

/// Reads a secret.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  kallisto kv get -mount=secret app/db\n  kallisto kv get -mount=secret -field=password app/db\n  kallisto kv get -mount=secret -version=3 -format=json app/db\n  kallisto kv get -mount=secret app/db app/web\n\n\
    Exit codes: 0 read, 1 a mistake in the call, 2 nothing there (at one of several), or the server refused"
)]
pub(crate) struct Get {
    /// Where it is; several are read in one request
    #[arg(required = true)]
    paths: Vec<String>,
    /// Read this version (v2); the newest without it
    #[arg(long, value_name = "NUMBER", allow_negative_numbers = true)]
    version: Option<i64>,
    #[command(flatten)]
    mount: MountFlag,
    #[command(flatten)]
    common: CommonFlags,
    #[command(flatten)]
    field: FieldFlag,
}

impl Get {
    /// Reads it.
    pub(crate) fn run(self) -> Result<Outcome, Error> {
        let config = Config::load(&self.common)?;
        let client = Client::new(&config)?;
        let [path] = self.paths.as_slice() else {
            if self.version.is_some() || self.field.field.is_some() {
                return Err(Error::usage("-version and -field go with one path"));
            }
            if config.wrap_ttl.is_some() {
                let why = "what is at several paths cannot be wrapped: name one path, or leave out -wrap-ttl and VAULT_WRAP_TTL";
                return Err(Error::usage(why));
            }
            return many::get(&client, &config, &self.mount, &self.paths);
        };
        let place = KvPath::find(&client, &self.mount, path)?;
        let path = place.path("data");
        let mut request = ClientRequest::get(&path).wrappable();
        if let (KvEngineVersion::V2, Some(version @ 1..)) = (place.engine, self.version) {
            request = request.with_query("version", version.to_string());
        }
        let doing = format!("Error reading {path}");
        let secret = client.send(&request).map_err(Error::reading(doing, &path))?;
        let secret = secret.ok_or_else(|| Error::no_value(&path))?;
        match (self.field.field.as_deref(), place.engine) {
            (None, _) if config.format != OutputFormat::Table || secret.wrap_info.is_some() => {
                output::secret(&secret, &config, None)
            }
            (None, KvEngineVersion::V1) => Ok(plain(&secret)),
            (None, KvEngineVersion::V2) => Ok(versioned(&secret, &path)),
            (Some(name), KvEngineVersion::V1) => field::of_secret(&secret, name, &config),
            (Some(name), KvEngineVersion::V2) => one_field(&secret, name, &path, &config),
        }
    }
}

/// A field of the data of a version; the wrapping has fields too. `data` is all of it, unless a member is called that.
fn one_field(secret: &Secret, name: &str, path: &str, config: &Config) -> Result<Outcome, Error> {
    if secret.wrap_info.is_some() {
        return field::of_secret(secret, name, config);
    }
    match secret.datum_map("data") {
        Some(data) if name == "data" && !data.contains_key(name) => {
            field::of_secret(secret, name, config)
        }
        Some(data) => field::of_map(data, name, config),
        None => Err(Error::Absent(format!("No data found at {path}"))),
    }
}

fn plain(secret: &Secret) -> Outcome {
    let mut text = String::new();
    if let Some(data) = &secret.data {
        text.push_str(&table::heading_of("Data", data));
        text.push_str(&table::object(data));
    }
    Outcome::print(text).with_notice(&output::warnings(secret))
}

/// Path, metadata and data under a heading each. A deleted version has no data.
pub(super) fn versioned(secret: &Secret, path: &str) -> Outcome {
    let mut text = secret_path(path);
    if let Some(metadata) = secret.datum_map("metadata") {
        text.push_str(&table::heading_of("Metadata", metadata));
        text.push_str(&table::object(metadata));
        text.push('\n');
    }
    if let Some(data) = secret.datum_map("data") {
        text.push_str(&table::heading_of("Data", data));
        text.push_str(&table::object(data));
    }
    Outcome::print(text).with_notice(&output::warnings(secret))
}
