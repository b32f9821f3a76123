//! `kv search`: secrets by name and custom metadata, among those the caller may see.
//!
//! Kallisto's alone; a server that has no such route answers 404.

use clap::Args;

use super::place::{KvPath, MountFlag};
use kallisto_command::client::{Client, ClientRequest};
use kallisto_command::config::Config;
use kallisto_command::error::Error;
use kallisto_command::flags::CommonFlags;
use kallisto_command::json::{Json, Map};
use kallisto_command::outcome::Outcome;
use kallisto_command::output::{Document, OutputFormat, table};
use kallisto_command::secret::Secret;

/// Searches for secrets.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  kallisto kv search secret/app db\n  kallisto kv search -mount=secret '' '*/prod/*'\n  kallisto kv search -metadata=owner=ada -metadata=tier=1 secret\n  kallisto kv search '-metadata=due<=2026-12-31' secret\n\n\
    Exit codes: 0 found, 1 a mistake in the call, 2 nothing found, or the server refused"
)]
pub(crate) struct Search {
    /// The folder to search in
    path: String,
    /// A part of the path, or with * all of it; case does not count
    name: Option<String>,
    /// Custom metadata to have, * for anything; may be repeated
    #[arg(long, value_name = "NAME=VALUE")]
    metadata: Vec<String>,
    #[command(flatten)]
    mount: MountFlag,
    #[command(flatten)]
    common: CommonFlags,
}

impl Search {
    /// Searches.
    pub(crate) fn run(self) -> Result<Outcome, Error> {
        let config = Config::load(&self.common)?;
        let wanted = self.wanted()?;
        let client = Client::new(&config)?;
        let place = KvPath::find(&client, &self.mount, &self.path)?;
        let mut body = Map::from([("path".to_owned(), Json::from(place.folder()))]);
        if let Some(name) = &self.name {
            body.insert("name".into(), name.as_str().into());
        }
        if !wanted.is_empty() {
            body.insert("metadata".into(), wanted.into());
        }
        let results = pages(&client, "sys/kallisto/kv/search", body, "results")?;
        if results.is_empty() {
            return Err(Error::Absent(format!("Nothing found in {}", place.folder())));
        }
        if config.format != OutputFormat::Table {
            let all = Json::Array(results);
            return Ok(Outcome::print(Document::Value(&all).to_text(config.format)?));
        }
        Ok(Outcome::print(shown(&results)))
    }

    fn wanted(&self) -> Result<Map, Error> {
        // The sign of a comparison goes along with the value: the server reads it there.
        let pair = |text: &String| match text.find(['=', '<', '>']).map(|at| text.split_at(at)) {
            Some((name, wanted)) if !name.is_empty() => {
                let wanted = wanted.strip_prefix('=').unwrap_or(wanted);
                Ok((name.to_owned(), Json::from(wanted)))
            }
            _ => Err(Error::usage(format!("-metadata takes NAME=VALUE, not {text:?}"))),
        };
        self.metadata.iter().map(pair).collect()
    }
}

/// All that a route answers page by page.
fn pages(client: &Client<'_>, route: &str, mut body: Map, name: &str) -> Result<Vec<Json>, Error> {
    let mut all = Vec::new();
    loop {
        let doing = "Error searching";
        let answer = client.send(&ClientRequest::put(route, body.clone()));
        let data = Secret::data_of(answer.map_err(Error::doing(doing))?, doing)?;
        let Some(Json::Array(items)) = data.get(name) else {
            return Err(Error::empty_answer(doing));
        };
        all.extend(items.iter().cloned());
        match data.get("next").and_then(Json::as_str) {
            Some(next) => drop(body.insert("next".into(), next.into())),
            None => return Ok(all),
        }
    }
}

/// A line for each: where, and the metadata if it was looked at.
fn shown(results: &[Json]) -> String {
    let cells = |result: &Json| {
        let map = result.as_object()?;
        let path = map.get("path")?.as_str()?.to_owned();
        let custom = map.get("custom_metadata").map(table::show);
        Some(std::iter::once(path).chain(custom).collect::<Vec<_>>())
    };
    let rows: Vec<Vec<String>> = results.iter().filter_map(cells).collect();
    let heads = ["Path", "Custom Metadata"];
    let width = rows.first().map_or(1, Vec::len);
    table::under(&heads[..width], rows.into_iter())
}
