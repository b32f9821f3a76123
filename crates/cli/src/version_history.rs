//! `version-history`: the versions that served a storage, and since when.

use clap::Args;

use kallisto_command::client::{Client, ClientRequest};
use kallisto_command::config::Config;
use kallisto_command::error::Error;
use kallisto_command::flags::CommonFlags;
use kallisto_command::json::Json;
use kallisto_command::outcome::Outcome;
use kallisto_command::output::{self, OutputFormat, table};

/// Prints the versions that served the server's storage.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  kallisto version-history\n  kallisto version-history -format=json"
)]
pub(crate) struct VersionHistory {
    #[command(flatten)]
    common: CommonFlags,
}

impl VersionHistory {
    /// Prints them.
    pub(crate) fn run(self) -> Result<Outcome, Error> {
        let config = Config::load(&self.common)?;
        let client = Client::new(&config)?;
        let doing = Error::doing("Error reading version history");
        let answer = client.send(&ClientRequest::list("sys/version-history")).map_err(doing)?;
        let answer = answer.ok_or_else(|| Error::Absent("No version history".to_owned()))?;
        if config.format != OutputFormat::Table {
            return output::secret(&answer, &config, None);
        }
        let data = answer.data.unwrap_or_default();
        let Some(Json::Array(versions)) = data.get("keys") else {
            return Err(Error::Absent("No version history".to_owned()));
        };
        let info = data.get("key_info").and_then(Json::as_object);
        let cell = |version: &str, name: &str| {
            let described = info.and_then(|info| info.get(version)?.as_object()?.get(name));
            described.map(table::show).unwrap_or_default()
        };
        let rows = versions.iter().filter_map(Json::as_str).map(|version| {
            // Vault says when it was built, OpenBao when it was committed.
            let dated = ["commit_date", "build_date"].map(|name| cell(version, name));
            let dated = dated.into_iter().find(|date| !date.is_empty()).unwrap_or_default();
            vec![version.to_owned(), cell(version, "timestamp_installed"), dated]
        });
        let heads = ["Version", "Installation Time", "Commit Date"];
        Ok(Outcome::print(table::under(&heads, rows)))
    }
}
