//! `kv metadata get`: settings and versions of a secret.

use clap::Args;

use super::super::place::MountFlag;
use super::metadata_path;
use kallisto_command::client::{Client, ClientRequest};
use kallisto_command::config::Config;
use kallisto_command::error::Error;
use kallisto_command::flags::CommonFlags;
use kallisto_command::json::{Json, Map};
use kallisto_command::outcome::Outcome;
use kallisto_command::output::{self, OutputFormat, table};
use kallisto_command::secret::Secret;

/// Prints the metadata and the versions of a secret.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  kallisto kv metadata get -mount=secret app/db\n  kallisto kv metadata get -mount=secret -format=json app/db"
)]
pub(crate) struct Get {
    /// Where it is
    path: String,
    #[command(flatten)]
    mount: MountFlag,
    #[command(flatten)]
    common: CommonFlags,
}

impl Get {
    /// Prints them.
    pub(crate) fn run(self) -> Result<Outcome, Error> {
        let config = Config::load(&self.common)?;
        let client = Client::new(&config)?;
        let path = metadata_path(&client, &self.mount, &self.path)?;
        let doing = format!("Error reading {path}");
        let secret = client.send(&ClientRequest::get(&path).wrappable());
        let secret = secret.map_err(Error::reading(doing, &path))?;
        let secret = secret.ok_or_else(|| Error::no_value(&path))?;
        match (&secret.data, config.format) {
            (Some(data), OutputFormat::Table) if secret.wrap_info.is_none() => {
                Ok(tables(data, &path, &secret))
            }
            _ => output::secret(&secret, &config, None),
        }
    }
}

/// One table of settings, then one for each version, oldest first.
fn tables(data: &Map, path: &str, secret: &Secret) -> Outcome {
    let mut settings = data.clone();
    let versions = settings.remove("versions");
    let mut text = format!("{}{path}\n\n", table::heading("Metadata Path", path.len()));
    text.push_str(&table::heading_of("Metadata", &settings));
    text.push_str(&table::object(&settings));
    let Some(Json::Object(versions)) = versions else {
        return Outcome::print(text).with_notice(&output::warnings(secret));
    };
    let mut numbered: Vec<(u64, &Map)> = versions
        .iter()
        .filter_map(|(number, version)| Some((number.parse().ok()?, version.as_object()?)))
        .collect();
    numbered.sort_by_key(|(number, _)| *number);
    for (number, version) in numbered {
        text.push('\n');
        text.push_str(&table::heading_of(&format!("Version {number}"), version));
        text.push_str(&table::object(version));
    }
    Outcome::print(text).with_notice(&output::warnings(secret))
}
