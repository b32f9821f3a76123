//! Reading records back: what a record of ours holds, or that it is damaged.

use kallisto_api::json::{self, Json, Map};

/// The object that a record's bytes are.
pub(crate) fn object(bytes: &[u8]) -> Option<Map> {
    json::parse_object(bytes).ok()
}

pub(crate) fn text(map: &Map, name: &str) -> Option<String> {
    map.get(name)?.as_str().map(str::to_owned)
}

pub(crate) fn number<T: std::str::FromStr>(map: &Map, name: &str) -> Option<T> {
    match map.get(name)? {
        Json::Number(text) => text.parse().ok(),
        _ => None,
    }
}

/// A number that may be `null`.
pub(crate) fn number_or_null<T: std::str::FromStr>(map: &Map, name: &str) -> Option<Option<T>> {
    match map.get(name)? {
        Json::Null => Some(None),
        _ => number(map, name).map(Some),
    }
}

pub(crate) fn flag(map: &Map, name: &str) -> Option<bool> {
    match map.get(name)? {
        Json::Bool(flag) => Some(*flag),
        _ => None,
    }
}

pub(crate) fn texts(map: &Map, name: &str) -> Option<Vec<String>> {
    match map.get(name)? {
        Json::Array(items) => items.iter().map(|item| item.as_str().map(str::to_owned)).collect(),
        _ => None,
    }
}

/// A text that may be `null`.
pub(crate) fn text_or_null(map: &Map, name: &str) -> Option<Option<String>> {
    match map.get(name)? {
        Json::Null => Some(None),
        _ => text(map, name).map(Some),
    }
}

pub(crate) fn or_null<T: Into<Json>>(value: Option<T>) -> Json {
    value.map_or(Json::Null, Into::into)
}
