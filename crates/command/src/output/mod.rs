//! Answers into text: tables for people, JSON and YAML for programs, single fields for scripts.
//!
//! Layout follows Vault's command line byte for byte, because scripts cut it apart. JSON and YAML
//! show the envelope in a fixed order; values keep the text the server sent.

pub mod field;
pub mod json;
pub mod table;
pub mod yaml;

use super::client::error::ClientError;
use super::config::{Audience, Config};
use super::error::Error;
use super::json::{Json, Map};
use super::outcome::Outcome;
use super::secret::Secret;

/// Widest line of a warning, without its indentation.
const WARNING_WIDTH: usize = 75;

/// How to print.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputFormat {
    /// Columns, for people.
    Table,
    /// Indented JSON.
    Json,
    /// YAML.
    Yaml,
    /// The bytes of the answer; `read` only.
    Raw,
}

impl OutputFormat {
    /// Reads a name of a format.
    pub fn parse(name: &str) -> Result<Self, Error> {
        match name.to_ascii_lowercase().as_str() {
            "table" => Ok(Self::Table),
            "json" => Ok(Self::Json),
            "yaml" | "yml" => Ok(Self::Yaml),
            "raw" => Ok(Self::Raw),
            _ => Err(Error::usage(format!(
                "Invalid output format: {name} (table, json, yaml; raw with read)"
            ))),
        }
    }
}

/// A document to print: objects of ours in the order we give, values of the server as they are.
pub enum Document<'a> {
    /// Members in this order.
    Record(Vec<(&'static str, Self)>),
    /// A value of the server.
    Value(&'a Json),
    /// An object of the server.
    Object(&'a Map),
    /// A value of ours.
    Own(Json),
}

impl Document<'_> {
    /// The document as text, with a line break at its end.
    pub fn to_text(&self, format: OutputFormat) -> Result<String, Error> {
        match format {
            OutputFormat::Json => Ok(json::pretty(self) + "\n"),
            OutputFormat::Yaml => Ok(yaml::block(self)),
            OutputFormat::Table | OutputFormat::Raw => {
                Err(Error::usage("this command cannot print in the raw format"))
            }
        }
    }
}

/// Prints an answer whole, or one field of it.
pub fn secret(secret: &Secret, config: &Config, field: Option<&str>) -> Result<Outcome, Error> {
    match (field, config.format) {
        (Some(name), _) => field::of_secret(secret, name, config),
        (None, OutputFormat::Table) => {
            Ok(Outcome::print(table::secret(secret)).with_notice(&warnings(secret)))
        }
        (None, format) => Ok(Outcome::print(envelope(secret).to_text(format)?)),
    }
}

/// The envelope in the order in which it is shown.
pub fn envelope(secret: &Secret) -> Document<'_> {
    let text = |text: &str| Document::Own(Json::from(text));
    let mut members = vec![
        ("request_id", text(&secret.request_id)),
        ("lease_id", text(&secret.lease_id)),
        ("lease_duration", Document::Own(Json::from(secret.lease_duration_secs))),
        ("renewable", Document::Own(Json::from(secret.renewable))),
        ("data", secret.data.as_ref().map_or(Document::Own(Json::Null), Document::Object)),
        ("warnings", Document::Own(warnings_value(secret))),
    ];
    if let Some(auth) = &secret.auth {
        members.push(("auth", record(auth, &AUTH)));
    }
    if let Some(wrap_info) = &secret.wrap_info {
        members.push(("wrap_info", record(wrap_info, &WRAP_INFO)));
    }
    if let Some(mount_type) = &secret.mount_type {
        members.push(("mount_type", text(mount_type)));
    }
    Document::Record(members)
}

/// What stands in for a member that the server left out.
#[derive(Clone, Copy)]
enum MissingValue {
    Null,
    Text,
    No,
}

const AUTH: [(&str, MissingValue); 11] = [
    ("client_token", MissingValue::Text),
    ("accessor", MissingValue::Text),
    ("policies", MissingValue::Null),
    ("token_policies", MissingValue::Null),
    ("identity_policies", MissingValue::Null),
    ("metadata", MissingValue::Null),
    ("orphan", MissingValue::No),
    ("entity_id", MissingValue::Text),
    ("lease_duration", MissingValue::Null),
    ("renewable", MissingValue::No),
    ("mfa_requirement", MissingValue::Null),
];

const WRAP_INFO: [(&str, MissingValue); 6] = [
    ("token", MissingValue::Text),
    ("accessor", MissingValue::Text),
    ("ttl", MissingValue::Null),
    ("creation_time", MissingValue::Text),
    ("creation_path", MissingValue::Text),
    ("wrapped_accessor", MissingValue::Text),
];

fn record<'a>(map: &'a Map, members: &[(&'static str, MissingValue)]) -> Document<'a> {
    let member = |&(name, missing): &(&'static str, MissingValue)| {
        let value = map.get(name).map(Document::Value).unwrap_or(Document::Own(match missing {
            MissingValue::Null => Json::Null,
            MissingValue::Text => Json::from(""),
            MissingValue::No => Json::from(false),
        }));
        (name, value)
    };
    Document::Record(members.iter().map(member).collect())
}

fn warnings_value(secret: &Secret) -> Json {
    match secret.warnings.as_slice() {
        [] => Json::Null,
        texts => Json::strings(texts.iter().map(String::as_str)),
    }
}

/// The server's warnings, for stderr; empty if there are none.
pub fn warnings(secret: &Secret) -> String {
    if secret.warnings.is_empty() {
        return String::new();
    }
    let lines: Vec<String> =
        secret.warnings.iter().map(|text| wrapped(&format!("* {text}"))).collect();
    let heading = "WARNING! The following warnings were returned from Kallisto:";
    format!("{heading}\n\n{}\n", lines.join("\n"))
}

/// Text at most [`WARNING_WIDTH`] wide, each line indented by two; line breaks in it are kept.
fn wrapped(text: &str) -> String {
    let mut out = String::new();
    for paragraph in text.split('\n') {
        let mut line = String::new();
        for word in paragraph.split(' ') {
            let fits = line.chars().count() + 1 + word.chars().count() <= WARNING_WIDTH;
            if !line.is_empty() && !fits {
                out.push_str(&format!("  {line}\n"));
                line.clear();
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
        out.push_str(&format!("  {line}\n"));
    }
    out
}

/// The keys of a list that was asked for. Every 404 is an empty list, as for Vault's command line; why is said beside it.
pub fn listed(
    answer: Result<Option<Secret>, ClientError>,
    doing: &str,
    config: &Config,
    path: &str,
) -> Result<Outcome, Error> {
    match answer.map_err(Error::reading(doing, path)) {
        Ok(Some(secret)) => list(&secret, config, path),
        Ok(None) => no_list(config, path),
        Err(Error::AbsentBecause(_, why)) if config.format != OutputFormat::Table => {
            Ok(no_list(config, path)?.with_notice(&format!("{why}\n")))
        }
        Err(error) => Err(error),
    }
}

/// The keys of a list.
pub fn list(secret: &Secret, config: &Config, path: &str) -> Result<Outcome, Error> {
    if secret.wrap_info.is_some() {
        return self::secret(secret, config, None);
    }
    let Some(keys @ Json::Array(items)) = secret.datum("keys") else {
        return match config.format {
            OutputFormat::Table => Err(Error::Absent(format!("No entries found at {path}"))),
            _ => no_list(config, path),
        };
    };
    match config.format {
        OutputFormat::Table => {
            Ok(Outcome::print(table::list(items)).with_notice(&warnings(secret)))
        }
        format => Ok(Outcome::print(Document::Value(keys).to_text(format)?)),
    }
}

/// What a list command says when nothing is there: programs still get a document.
pub fn no_list(config: &Config, path: &str) -> Result<Outcome, Error> {
    match config.format {
        OutputFormat::Table => Err(Error::no_value(path)),
        format => {
            let nothing = Json::Object(Map::new());
            let text = Document::Own(nothing).to_text(format)?;
            Ok(Outcome::print(text).with_code(super::error::EXIT_SERVER))
        }
    }
}

/// A sentence for people; programs asked for a format and get nothing.
pub fn done(config: &Config, sentence: &str) -> Outcome {
    match config.format {
        OutputFormat::Table => Outcome::line(sentence),
        OutputFormat::Json | OutputFormat::Yaml | OutputFormat::Raw => Outcome::default(),
    }
}

/// A bare value: people get a line break after it, pipes do not.
pub fn bare(config: &Config, text: String) -> Outcome {
    match config.audience {
        Audience::Person => Outcome::line(text),
        Audience::Program => Outcome::print(text),
    }
}
