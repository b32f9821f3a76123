//! What several verbs print: objects with their members in Vault's order, and counts of shares.

use kallisto_command::config::Config;
use kallisto_command::error::Error;
use kallisto_command::json::{Json, Map};
use kallisto_command::outcome::Outcome;
use kallisto_command::output::{Document, table};
use kallisto_command::secret::Secret;

/// What a member is when the server left it out.
#[derive(Clone, Copy)]
pub(super) enum MissingMember {
    /// Not shown.
    Absent,
    /// `null`
    Null,
    /// `""`
    Text,
    /// `false`
    No,
    /// `0`
    Zero,
}

/// Members of an answer, in the order in which they are shown.
pub(super) type ShownMembers = [(&'static str, MissingMember)];

/// The object of an answer that must have one.
pub(super) fn object(answer: Option<Secret>, doing: &str) -> Result<Map, Error> {
    Secret::data_of(answer, doing)
}

/// An object for programs; `config` asks for JSON or YAML.
pub(super) fn document(
    object: &Map,
    members: &ShownMembers,
    config: &Config,
) -> Result<Outcome, Error> {
    let shown = members.iter().filter_map(|(name, missing)| {
        let value = match (object.get(*name), missing) {
            (Some(value), _) => Document::Value(value),
            (None, MissingMember::Absent) => return None,
            (None, MissingMember::Null) => Document::Own(Json::Null),
            (None, MissingMember::Text) => Document::Own(Json::from("")),
            (None, MissingMember::No) => Document::Own(Json::from(false)),
            (None, MissingMember::Zero) => Document::Own(Json::from(0_u64)),
        };
        Some((*name, value))
    });
    Ok(Outcome::print(Document::Record(shown.collect()).to_text(config.format)?))
}

/// A member as people see it; empty when it is not there.
pub(super) fn text(object: &Map, name: &str) -> String {
    object.get(name).map(table::show).unwrap_or_default()
}

/// Whether a member is true.
pub(super) fn is(object: &Map, name: &str) -> bool {
    object.get(name) == Some(&Json::Bool(true))
}

/// The texts of a list.
pub(super) fn list<'a>(object: &'a Map, name: &str) -> Vec<&'a str> {
    match object.get(name) {
        Some(Json::Array(items)) => items.iter().filter_map(Json::as_str).collect(),
        _ => Vec::new(),
    }
}

/// `2/3`
pub(super) fn progress(object: &Map, required: &str) -> String {
    format!("{}/{}", text(object, "progress"), text(object, required))
}

/// A row of a table.
pub(super) fn row(title: &str, value: impl Into<String>) -> (String, String) {
    (title.to_owned(), value.into())
}
