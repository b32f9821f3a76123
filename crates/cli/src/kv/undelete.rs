//! `kv undelete`: bring back given versions of a secret, or the latest version of every secret in a folder.
//!
//! Folders are Kallisto's alone. What is deleted in one is looked up first, and then each secret is brought back by a request of its own, as
//! policies allow it: what was done before a failure stays done, and asking again does the rest.

use clap::Args;

use super::counted;
use super::place::{KvPath, MountFlag};
use super::versions::{send_versions, version_list};
use kallisto_command::client::{Client, ClientRequest};
use kallisto_command::config::Config;
use kallisto_command::error::Error;
use kallisto_command::flags::CommonFlags;
use kallisto_command::json::{Json, Map};
use kallisto_command::outcome::Outcome;
use kallisto_command::output::{Document, OutputFormat};

/// Names asked for at once.
const PAGE_NAMES: u64 = 1000;

/// Brings deleted versions back.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  kallisto kv undelete -mount=secret -versions=3 app/db\n  kallisto kv undelete -recursive -dry-run secret/app\n  kallisto kv undelete -recursive secret/app\n\n\
    Exit codes: 0 done, 1 a mistake in the call, 2 the server refused; of a folder, what came before is done"
)]
pub(crate) struct Undelete {
    /// Where it is
    path: String,
    /// The versions, e.g. 1,2
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',')]
    versions: Vec<String>,
    /// Bring back the latest version of every secret below the path, where that is deleted
    #[arg(long)]
    recursive: bool,
    /// Print what would come back, and change nothing (with -recursive)
    #[arg(long, requires = "recursive")]
    dry_run: bool,
    #[command(flatten)]
    mount: MountFlag,
    #[command(flatten)]
    common: CommonFlags,
}

/// What a folder holds that can come back.
#[derive(Default)]
struct Deleted {
    /// The path inside the folder, and the version.
    secrets: Vec<(String, u64)>,
    /// How many have metadata that may not be read.
    unseen: usize,
}

impl Undelete {
    /// Brings them back.
    pub(crate) fn run(self) -> Result<Outcome, Error> {
        if !self.recursive {
            let place = (self.path.as_str(), &self.mount);
            return send_versions(&self.common, place, &self.versions, ("undelete", "Undelete"));
        }
        if !self.versions.is_empty() {
            return Err(Error::usage("-versions goes without -recursive"));
        }
        let config = Config::load(&self.common)?;
        let client = Client::new(&config)?;
        let place = KvPath::find(&client, &self.mount, &self.path)?;
        place.require_v2(|| Error::usage("Undelete not supported on KV Version 1"))?;
        let folder = place.folder();
        let found = deleted(&client, &folder)?;
        let below = place.path("undelete");
        if !self.dry_run {
            for (name, version) in &found.secrets {
                let path = format!("{below}/{name}");
                let body = version_list(&[version.to_string()]);
                let doing = Error::doing(format!("Error writing data to {path}"));
                client.send(&ClientRequest::put(&path, body)).map_err(doing)?;
            }
        }
        self.told(&config, &folder, &found)
    }

    fn told(&self, config: &Config, folder: &str, found: &Deleted) -> Result<Outcome, Error> {
        let count = found.secrets.len();
        if config.format != OutputFormat::Table {
            let paths = found.secrets.iter().map(|(name, _)| format!("{folder}{name}"));
            let document = Json::object([
                ("count", (count as u64).into()),
                ("dry_run", self.dry_run.into()),
                ("paths", Json::strings(paths)),
                ("unseen", (found.unseen as u64).into()),
            ]);
            return Ok(Outcome::print(Document::Value(&document).to_text(config.format)?));
        }
        let told = counted(count as u64);
        let how = "the latest version of each";
        let mut text = match self.dry_run {
            true => format!("Nothing was done. Would bring back {told}, {how}:\n"),
            false => format!("Success! Brought back {told}, {how}:\n"),
        };
        for (name, version) in &found.secrets {
            text.push_str(&format!("  {folder}{name} (version {version})\n"));
        }
        if found.unseen > 0 {
            let unseen = counted(found.unseen as u64);
            text.push_str(&format!("left alone: {unseen} whose metadata may not be read\n"));
        }
        Ok(Outcome::print(text))
    }
}

/// The secrets below a folder whose latest version is deleted and not destroyed.
fn deleted(client: &Client<'_>, folder: &str) -> Result<Deleted, Error> {
    let mut found = Deleted::default();
    let mut body = Map::from([
        ("path".to_owned(), Json::from(folder)),
        ("recursive".to_owned(), true.into()),
        ("detail".to_owned(), true.into()),
        ("limit".to_owned(), PAGE_NAMES.into()),
    ]);
    loop {
        let doing = Error::doing_at(format!("Error listing {folder}"), folder);
        let request = ClientRequest::put("sys/kallisto/kv/list", body.clone());
        let answer = client.send(&request).map_err(doing)?.unwrap_or_default();
        let Some(Json::Array(entries)) = answer.datum("entries") else {
            return Err(Error::no_value(folder));
        };
        for entry in entries.iter().filter_map(Json::as_object) {
            let text = |name: &str| entry.get(name).and_then(Json::as_str);
            match (text("name"), text("state"), entry.get("version")) {
                (Some(name), Some("deleted"), Some(Json::Number(version))) => {
                    let version = version.parse().unwrap_or_default();
                    found.secrets.push((name.to_owned(), version));
                }
                (Some(name), None, _) if !name.ends_with('/') => found.unseen += 1,
                _ => {}
            }
        }
        match answer.datum("next").and_then(Json::as_str) {
            Some(next) => drop(body.insert("next".into(), next.into())),
            None => return Ok(found),
        }
    }
}
