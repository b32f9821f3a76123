//! `-field`: one value and nothing else, so that `$(kallisto kv get -field=password ...)` is it.

use super::table::{self, show};
use super::{Document, OutputFormat, bare};
use crate::config::Config;
use crate::error::Error;
use crate::json::{Json, Map};
use crate::outcome::Outcome;
use crate::secret::Secret;

/// The field of an answer: a name from the table of its wrapping, its token or its data.
pub fn of_secret(secret: &Secret, name: &str, config: &Config) -> Result<Outcome, Error> {
    let value = of_wrapping(secret, name)
        .or_else(|| of_auth(secret, name))
        .or_else(|| match name {
            "refresh_interval" | "lease_duration" => Some(Json::from(secret.lease_duration_secs)),
            _ => secret.datum(name).cloned(),
        })
        .filter(|value| *value != Json::Null);
    value.map_or_else(|| Err(absent(name, "secret")), |value| print(&value, config))
}

/// The field of an object.
pub fn of_map(map: &Map, name: &str, config: &Config) -> Result<Outcome, Error> {
    match map.get(name) {
        None | Some(Json::Null) => Err(absent(name, "map")),
        Some(value) => print(value, config),
    }
}

/// A field that is not there.
pub fn absent(name: &str, place: &str) -> Error {
    Error::usage(format!("Field {name:?} not present in {place}"))
}

fn print(value: &Json, config: &Config) -> Result<Outcome, Error> {
    match config.format {
        OutputFormat::Table | OutputFormat::Raw => Ok(bare(config, show(value))),
        OutputFormat::Json => Ok(bare(config, super::json::pretty(&Document::Value(value)))),
        OutputFormat::Yaml => Ok(bare(config, super::yaml::block(&Document::Value(value)))),
    }
}

fn of_wrapping(secret: &Secret, name: &str) -> Option<Json> {
    let info = secret.wrap_info.as_ref()?;
    let member = match name {
        "wrapping_token" => "token",
        "wrapping_accessor" => "accessor",
        "wrapping_token_ttl" => "ttl",
        "wrapping_token_creation_time" => "creation_time",
        "wrapping_token_creation_path" => "creation_path",
        "wrapped_accessor" => "wrapped_accessor",
        _ => return None,
    };
    info.get(member).cloned()
}

fn of_auth(secret: &Secret, name: &str) -> Option<Json> {
    let auth = secret.auth.as_ref()?;
    let member = match name {
        "token" => "client_token",
        "token_accessor" => "accessor",
        "token_duration" => "lease_duration",
        "token_renewable" => "renewable",
        "token_policies" | "identity_policies" | "policies" => name,
        _ => {
            let key = name.strip_prefix(table::TOKEN_META)?;
            return auth.get("metadata")?.as_object()?.get(key).cloned();
        }
    };
    auth.get(member).cloned()
}
