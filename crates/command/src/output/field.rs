//! `-field`: one value and nothing else, so that `$(kallisto kv get -field=password ...)` is it.

use super::table::{self, show};
use super::{Document, OutputFormat, bare};
use crate::config::Config;
use crate::error::Error;
use crate::json::{Json, Map};
use crate::outcome::Outcome;
use crate::secret::Secret;

/// The field of an answer: a name from the table of its wrapping, its token, its data or its lease. `data` is all of the data
/// where none of it has that name.
pub fn of_secret(secret: &Secret, name: &str, config: &Config) -> Result<Outcome, Error> {
    let value = of_wrapping(secret, name)
        .or_else(|| of_auth(secret, name))
        .or_else(|| match name {
            "refresh_interval" | "lease_duration" => Some(Json::from(secret.lease_duration_secs)),
            _ => secret.datum(name).cloned().or_else(|| of_envelope(secret, name)),
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

/// What is said about the data. An answer that has a token or a wrapping in its place says it of these.
fn of_envelope(secret: &Secret, name: &str) -> Option<Json> {
    if secret.auth.is_some() || secret.wrap_info.is_some() {
        return None;
    }
    match name {
        "data" => secret.data.clone().map(Json::Object),
        "lease_id" => Some(Json::from(secret.lease_id.as_str())),
        "renewable" => Some(Json::from(secret.renewable)),
        "request_id" => Some(Json::from(secret.request_id.as_str())),
        _ => None,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Audience, Environment};
    use crate::flags::CommonFlags;

    fn field(body: &str, name: &str, format: &str) -> Result<String, String> {
        let secret = Secret::parse(body.as_bytes()).unwrap().unwrap();
        let mut flags = CommonFlags::default();
        flags.format.format = Some(format.to_owned());
        let environment = Environment::of(|_| None);
        let config = Config::resolve(&flags, &environment, Audience::Program).unwrap();
        of_secret(&secret, name, &config)
            .map(|outcome| String::from_utf8(outcome.stdout.clone()).unwrap())
            .map_err(|error| error.to_string())
    }

    #[test]
    fn what_is_said_about_the_data_is_a_field() {
        let leased = r#"{"request_id":"r","lease_id":"l/1","lease_duration":60,"renewable":true,"data":{"user":"u"}}"#;
        for (name, wanted) in [
            ("lease_id", "l/1"),
            ("request_id", "r"),
            ("renewable", "true"),
            ("lease_duration", "60"),
            ("data", "map[user:u]"),
        ] {
            assert_eq!(field(leased, name, "table").as_deref(), Ok(wanted), "{name}");
        }
        assert_eq!(field(leased, "data", "json").as_deref(), Ok("{\n  \"user\": \"u\"\n}"));
    }

    #[test]
    fn a_member_of_the_data_comes_first() {
        let body =
            r#"{"request_id":"r","renewable":false,"data":{"data":{"a":1},"renewable":true}}"#;
        assert_eq!(field(body, "data", "table").as_deref(), Ok("map[a:1]"));
        assert_eq!(field(body, "renewable", "table").as_deref(), Ok("true"));
        assert!(field(r#"{"request_id":"r","data":{"data":null}}"#, "data", "table").is_err());
    }

    #[test]
    fn an_answer_with_a_token_says_nothing_about_data() {
        let body = r#"{"request_id":"r","auth":{"client_token":"t"}}"#;
        assert_eq!(field(body, "token", "table").as_deref(), Ok("t"));
        assert!(field(body, "lease_id", "table").is_err());
    }
}
