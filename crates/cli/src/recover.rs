//! `recover PATH`: a secret or a folder out of a snapshot that was loaded next to what is there.
//!
//! Vault's verb, flags and all. Folders, dry runs and every version of a secret are Kallisto's alone; all of it happens, or nothing.

use clap::Args;

use kallisto_command::client::{Client, ClientRequest};
use kallisto_command::config::Config;
use kallisto_command::error::Error;
use kallisto_command::flags::CommonFlags;
use kallisto_command::json::{Json, Map};
use kallisto_command::outcome::Outcome;
use kallisto_command::output::{self, OutputFormat, table};
use kallisto_command::secret::Secret;

use crate::operator::ask;

const ROUTE: &str = "sys/kallisto/kv/recover";
const HEADING: [&str; 5] =
    ["Path", "Outcome", "Restored versions", "New version", "Current version"];

/// Recovers a secret, or a folder by a final slash, from a loaded snapshot.
///
/// A secret that is gone comes back with all its versions. Of one that is there, versions come back that were deleted or destroyed
/// since; newer ones stay, and what was current becomes a new version on top of them.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  kallisto operator raft snapshot load backup.snap\n  kallisto recover -snapshot-id=2403d301-94f2-46a1-a39d-02be83e2831a -dry-run secret/team/\n  kallisto recover -snapshot-id=2403d301-94f2-46a1-a39d-02be83e2831a secret/team/\n\n\
    Exit codes: 0 done, 1 a mistake in the call, 2 the server refused and nothing was done"
)]
pub(crate) struct Recover {
    /// What to recover: mount and path
    path: String,
    /// The loaded snapshot
    #[arg(long, value_name = "ID")]
    snapshot_id: String,
    /// Where it was in the snapshot, if that is another place
    #[arg(long, value_name = "PATH")]
    from: Option<String>,
    /// Check and print everything, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Put the history of the snapshot in the place of what is there, newer versions and all
    #[arg(long)]
    overwrite: bool,
    #[command(flatten)]
    common: CommonFlags,
}

impl Recover {
    /// Recovers it.
    pub(crate) fn run(self) -> Result<Outcome, Error> {
        let config = Config::load(&self.common)?;
        let client = Client::new(&config)?;
        if self.overwrite && !self.dry_run {
            let question = format!("Replace what is at {} with what it was?", self.path);
            if !ask::confirms(&question, &config)? {
                return Err(Error::usage("nothing was recovered"));
            }
        }
        let request = ClientRequest::put(ROUTE, self.body());
        let doing = Error::doing_at(format!("Error recovering {}", self.path), &self.path);
        let answer = client.send(&request).map_err(doing)?;
        let answer = Secret::with_data(answer, "Error recovering")?;
        if config.format != OutputFormat::Table {
            return output::secret(&answer, &config, None);
        }
        Ok(Outcome::print(self.text(&answer)))
    }

    fn body(&self) -> Map {
        let mut body = Map::from([
            ("path".to_owned(), Json::from(self.path.as_str())),
            ("snapshot_id".to_owned(), Json::from(self.snapshot_id.as_str())),
            ("dry_run".to_owned(), Json::from(self.dry_run)),
            ("overwrite".to_owned(), Json::from(self.overwrite)),
        ]);
        if let Some(from) = &self.from {
            body.insert("from".to_owned(), Json::from(from.as_str()));
        }
        body
    }

    fn text(&self, answer: &Secret) -> String {
        let none = Vec::new();
        let secrets = match answer.datum("secrets") {
            Some(Json::Array(secrets)) => secrets,
            _ => &none,
        };
        let names = ["path", "outcome", "restored_versions", "new_version", "current_version"];
        let row = |secret: &Map| -> Vec<String> {
            names.iter().map(|name| plain(secret.get(*name))).collect()
        };
        let rows = secrets.iter().filter_map(Json::as_object).map(row);
        let count = secrets.len();
        let what = if count == 1 { "secret" } else { "secrets" };
        let mut text = match self.dry_run {
            true => format!("Nothing was done. Would recover {count} {what}:\n"),
            false => format!("Success! Recovered {count} {what}:\n"),
        };
        text.push_str(&table::under(&HEADING, rows));
        text
    }
}

/// A value in a cell.
fn plain(value: Option<&Json>) -> String {
    match value {
        None | Some(Json::Null) => "-".to_owned(),
        Some(Json::String(text)) => text.clone(),
        Some(Json::Array(items)) if items.is_empty() => "-".to_owned(),
        Some(Json::Array(items)) => {
            items.iter().map(|item| plain(Some(item))).collect::<Vec<_>>().join(",")
        }
        Some(Json::Number(text)) => text.to_string(),
        Some(other) => String::from_utf8_lossy(&other.to_text()).into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_short_words() {
        assert_eq!(plain(None), "-");
        assert_eq!(plain(Some(&Json::Null)), "-");
        assert_eq!(plain(Some(&Json::Array(Vec::new()))), "-");
        assert_eq!(plain(Some(&Json::Array(vec![1_u64.into(), 3_u64.into()]))), "1,3");
        assert_eq!(plain(Some(&Json::from("created"))), "created");
    }
}
