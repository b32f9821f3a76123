//! `kv get` of several paths: one request for all of them.
//!
//! Kallisto's alone; `kv get` of one path asks as Vault's command line does.

use super::get::versioned;
use super::place::{KvEngineVersion, KvPath, MountFlag};
use super::written::secret_path;
use kallisto_command::client::{Client, ClientRequest};
use kallisto_command::config::Config;
use kallisto_command::error::{EXIT_SERVER, Error};
use kallisto_command::json::{Json, Map};
use kallisto_command::outcome::Outcome;
use kallisto_command::output::{Document, OutputFormat, table};
use kallisto_command::secret::Secret;

/// Paths of one request, as the server takes them.
const PATHS_MAX: usize = 512;

/// Reads them all and prints them in the order they were given.
pub(super) fn get(
    client: &Client<'_>,
    config: &Config,
    mount: &MountFlag,
    paths: &[String],
) -> Result<Outcome, Error> {
    let places = places(client, mount, paths)?;
    let mut results = Vec::with_capacity(places.len());
    for chunk in places.chunks(PATHS_MAX) {
        let asked = Json::strings(chunk.iter().map(|place| place.path("data")));
        let request =
            ClientRequest::put("sys/kallisto/kv/read", Map::from([("paths".to_owned(), asked)]));
        let answer = client.send(&request).map_err(Error::doing("Error reading"))?;
        match answer.unwrap_or_default().data.and_then(|mut data| data.remove("results")) {
            Some(Json::Array(answers)) => results.extend(answers),
            _ => return Err(Error::Absent("The server answered without results".to_owned())),
        }
    }
    let code = if results.iter().all(is_found) { 0 } else { EXIT_SERVER };
    if config.format != OutputFormat::Table {
        let text = Document::Value(&Json::Array(results)).to_text(config.format)?;
        return Ok(Outcome::print(text).with_code(code));
    }
    let (mut out, mut notices) = (Vec::new(), String::new());
    for (place, result) in places.iter().zip(&results) {
        if is_found(result) {
            if !out.is_empty() {
                out.push(b'\n');
            }
            out.extend_from_slice(&shown(place, result).stdout);
        } else {
            notices.push_str(&format!("{}: {}\n", place.path("data"), why(result)));
        }
    }
    Ok(Outcome::print(out).with_notice(&notices).with_code(code))
}

/// Where each path is; the server is asked about a mount once.
fn places(client: &Client<'_>, mount: &MountFlag, paths: &[String]) -> Result<Vec<KvPath>, Error> {
    let mut found: Vec<KvPath> = Vec::with_capacity(paths.len());
    for path in paths {
        let near = found.iter().find_map(|known| known.sibling(mount, path));
        found.push(match near {
            Some(place) => place,
            None => KvPath::find(client, mount, path)?,
        });
    }
    Ok(found)
}

fn is_found(result: &Json) -> bool {
    let status = result.as_object().and_then(|map| map.get("status"));
    matches!(status, Some(Json::Number(text)) if &**text == "200")
}

fn why(result: &Json) -> String {
    let Some(map) = result.as_object() else { return "no answer".to_owned() };
    match map.get("errors") {
        Some(Json::Array(errors)) if !errors.is_empty() => {
            let texts = errors.iter().filter_map(Json::as_str).map(str::trim);
            texts.collect::<Vec<_>>().join("; ")
        }
        _ => "No value found".to_owned(),
    }
}

fn shown(place: &KvPath, result: &Json) -> Outcome {
    let data = result.as_object().and_then(|map| map.get("data")).and_then(Json::as_object);
    let data = data.cloned().unwrap_or_default();
    let path = place.path("data");
    match place.engine {
        KvEngineVersion::V2 => versioned(&Secret { data: Some(data), ..Secret::default() }, &path),
        KvEngineVersion::V1 => Outcome::print(format!(
            "{}{}{}",
            secret_path(&path),
            table::heading_of("Data", &data),
            table::object(&data)
        )),
    }
}
