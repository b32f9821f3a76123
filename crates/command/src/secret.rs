//! An answer of the server: Vault's envelope, or a bare object taken for its data.
//!
//! Most endpoints answer `{"request_id": ..., "data": ..., "auth": ...}`; a few old ones
//! (`sys/seal-status`, `sys/health`) answer a bare object. Both become a [`Secret`].

use std::fmt;

use super::error::Error;
use super::json::{Json, Map, parse_object};

/// The members of the envelope; an object with none of them set is bare.
const ENVELOPE: [&str; 9] = [
    "request_id",
    "lease_id",
    "lease_duration",
    "renewable",
    "data",
    "warnings",
    "auth",
    "wrap_info",
    "mount_type",
];

/// One answer. `Debug` shows none of it.
#[derive(Default)]
pub struct Secret {
    /// The server's number of the request.
    pub request_id: String,
    /// The lease that came with it; empty for none.
    pub lease_id: String,
    /// How long the lease lasts, in seconds.
    pub lease_duration_secs: u64,
    /// Whether the lease can be renewed.
    pub renewable: bool,
    /// What was asked for.
    pub data: Option<Map>,
    /// What the server warns of.
    pub warnings: Vec<String>,
    /// A token, with what is known of it.
    pub auth: Option<Map>,
    /// A wrapping token in place of the answer.
    pub wrap_info: Option<Map>,
    /// The type of the engine that answered.
    pub mount_type: Option<String>,
}

impl Secret {
    /// Reads the body of an answer; an empty body, or one with only errors, is `None`.
    ///
    /// # Errors
    /// What is wrong with the body, without showing any of it.
    pub fn parse(body: &[u8]) -> Result<Option<Self>, String> {
        if body.iter().all(u8::is_ascii_whitespace) {
            return Ok(None);
        }
        let mut object =
            parse_object(body).map_err(|error| format!("not a JSON object: {error}"))?;
        if ENVELOPE.iter().any(|name| object.get(*name).is_some_and(is_set)) {
            return Ok(Some(Self::from_envelope(&mut object)));
        }
        let only_errors = object.contains_key("errors") && object.len() == 1;
        let empty = object.is_empty() || only_errors;
        Ok((!empty).then(|| Self { data: Some(object), ..Self::default() }))
    }

    fn from_envelope(object: &mut Map) -> Self {
        let mut text = |name: &str| match object.remove(name) {
            Some(Json::String(text)) => text,
            _ => String::new(),
        };
        let (request_id, lease_id, mount_type) =
            (text("request_id"), text("lease_id"), text("mount_type"));
        let mut map = |name: &str| match object.remove(name) {
            Some(Json::Object(map)) => Some(map),
            _ => None,
        };
        let (data, auth, wrap_info) = (map("data"), map("auth"), map("wrap_info"));
        let warnings = match object.get("warnings") {
            Some(Json::Array(items)) => {
                items.iter().filter_map(Json::as_str).map(str::to_owned).collect()
            }
            _ => Vec::new(),
        };
        Self {
            request_id,
            lease_id,
            lease_duration_secs: object.get("lease_duration").and_then(as_u64).unwrap_or(0),
            renewable: matches!(object.get("renewable"), Some(Json::Bool(true))),
            data,
            warnings,
            auth,
            wrap_info,
            mount_type: Some(mount_type).filter(|text| !text.is_empty()),
        }
    }

    /// Whether there is more in it than the fact that there is nothing.
    pub fn says_something(&self) -> bool {
        !self.warnings.is_empty() || self.data.as_ref().is_some_and(|data| !data.is_empty())
    }

    /// The data of an answer that must have some.
    ///
    /// # Errors
    /// It has none, so nothing can be said of what was asked.
    pub fn data_of(answer: Option<Self>, doing: &str) -> Result<Map, Error> {
        answer.and_then(|answer| answer.data).ok_or_else(|| Error::empty_answer(doing))
    }

    /// An answer that must have data.
    ///
    /// # Errors
    /// It has none.
    pub fn with_data(answer: Option<Self>, doing: &str) -> Result<Self, Error> {
        answer.filter(|answer| answer.data.is_some()).ok_or_else(|| Error::empty_answer(doing))
    }

    /// A member of an answer's data that must be true or false: what is missing is not `false`.
    ///
    /// # Errors
    /// It is neither.
    pub fn flag_of(data: &Map, name: &str, doing: &str) -> Result<bool, Error> {
        match data.get(name) {
            Some(Json::Bool(is)) => Ok(*is),
            _ => Err(Error::Absent(format!("{doing}: the answer has no {name:?}"))),
        }
    }

    /// A member of the data.
    pub fn datum(&self, name: &str) -> Option<&Json> {
        self.data.as_ref()?.get(name)
    }

    /// An object among the data: the `data` or `metadata` of KV v2.
    pub fn datum_map(&self, name: &str) -> Option<&Map> {
        self.datum(name).and_then(Json::as_object)
    }

    /// The token that a login or a token creation made.
    pub fn client_token(&self) -> Option<&str> {
        self.auth.as_ref()?.get("client_token")?.as_str()
    }

    /// The single-use token that the answer was wrapped in.
    pub fn wrapping_token(&self) -> Option<&str> {
        self.wrap_info.as_ref()?.get("token")?.as_str()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// A whole number that is not negative.
pub fn as_u64(value: &Json) -> Option<u64> {
    match value {
        Json::Number(text) => text.parse().ok(),
        _ => None,
    }
}

fn is_set(value: &Json) -> bool {
    match value {
        Json::Null | Json::Bool(false) => false,
        Json::Bool(true) => true,
        Json::Number(text) => &**text != "0",
        Json::String(text) => !text.is_empty(),
        Json::Array(items) => !items.is_empty(),
        Json::Object(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn envelopes_and_bare_objects() {
        let wrapped = Secret::parse(br#"{"request_id":"r","lease_duration":7,"data":{"a":1.50}}"#);
        let wrapped = wrapped.unwrap().unwrap();
        assert_eq!((wrapped.request_id.as_str(), wrapped.lease_duration_secs), ("r", 7));
        assert!(wrapped.datum("a") == Some(&Json::Number("1.50".into())));
        let bare = Secret::parse(br#"{"sealed":true}"#).unwrap().unwrap();
        assert!(bare.datum("sealed") == Some(&Json::Bool(true)));
    }

    #[test]
    fn nothing_is_nothing() {
        for body in ["", " ", "{}", r#"{"errors":[]}"#, r#"{"errors":["x"]}"#] {
            assert!(Secret::parse(body.as_bytes()).unwrap().is_none(), "{body}");
        }
    }

    #[test]
    fn errors_show_no_content() {
        let error = Secret::parse(br#"{"data": hunter2"#).unwrap_err();
        assert!(!error.contains("hunter2"), "{error}");
    }
}
