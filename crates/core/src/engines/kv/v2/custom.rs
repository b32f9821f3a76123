//! Custom metadata: an object of strings, kept as canonical JSON text.

use crate::api::error::Error;
use crate::api::fields::{kind_mismatch, scalar_text};
use crate::api::json::{self, Json, Map};
use crate::limits::{CUSTOM_KEY_BYTES_MAX, CUSTOM_KEYS_MAX, CUSTOM_VALUE_BYTES_MAX};

/// The text of custom metadata that replaces what was there; `None` for an empty object.
///
/// # Errors
/// [`Error::Invalid`] naming the key that breaks a limit or is no string.
pub(super) fn replace(given: &Map) -> Result<Option<Box<str>>, Error> {
    let mut map = Map::new();
    for (key, value) in given {
        let text = scalar_text(value).ok_or_else(|| {
            let mismatch = kind_mismatch(value, "string");
            Error::invalid(format!("custom_metadata validation failed: {mismatch}"))
        })?;
        map.insert(key.clone(), Json::String(text));
    }
    check(&map)?;
    to_text(map)
}

/// Merges a patch into what was there: a `null` removes its key.
///
/// # Errors
/// As for [`replace`].
pub(super) fn merge(current: Option<&str>, patch: &Map) -> Result<Option<Box<str>>, Error> {
    let mut map = match current {
        Some(text) => {
            json::parse_object(text.as_bytes()).map_err(|error| Error::internal(&error))?
        }
        None => Map::new(),
    };
    json::merge_patch(&mut map, patch.clone());
    replace(&map)
}

/// The object behind stored custom metadata; `null` for none.
pub(crate) fn to_json(custom: Option<&str>) -> Result<Json, Error> {
    custom.map_or(Ok(Json::Null), |text| {
        json::parse(text.as_bytes()).map_err(|error| Error::internal(&error))
    })
}

fn to_text(map: Map) -> Result<Option<Box<str>>, Error> {
    if map.is_empty() {
        return Ok(None);
    }
    let text = String::from_utf8(Json::Object(map).to_text());
    text.map(|text| Some(text.into())).map_err(|error| Error::internal(&error))
}

fn check(map: &Map) -> Result<(), Error> {
    if map.len() > CUSTOM_KEYS_MAX {
        return Err(refuse(&format!(
            "payload must contain at most {CUSTOM_KEYS_MAX} keys, provided {}",
            map.len()
        )));
    }
    for (key, value) in map {
        let value = value.as_str().unwrap_or_default();
        if key.is_empty() || key.len() > CUSTOM_KEY_BYTES_MAX {
            return Err(refuse(&format!(
                "length of key \"{key}\" is {} but must be 0 < len(key) <= {CUSTOM_KEY_BYTES_MAX}",
                key.len()
            )));
        }
        if value.is_empty() || value.len() > CUSTOM_VALUE_BYTES_MAX {
            return Err(refuse(&format!(
                "length of value for key \"{key}\" is {} but must be 0 < len(value) <= \
                 {CUSTOM_VALUE_BYTES_MAX}",
                value.len()
            )));
        }
        if key.chars().chain(value.chars()).any(char::is_control) {
            return Err(refuse("keys and values must consist of printable characters"));
        }
    }
    Ok(())
}

fn refuse(what: &str) -> Error {
    Error::invalid(format!("1 error occurred:\n\t* custom_metadata validation failed: {what}\n\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(key_bytes: usize, value_bytes: usize) -> Map {
        Map::from([("k".repeat(key_bytes), "v".repeat(value_bytes).into())])
    }

    #[test]
    fn keys_and_values_are_as_many_and_as_long_as_their_limits_let_them() {
        let many = |count: usize| -> Map {
            (0..count).map(|at| (format!("{at}"), Json::from("v"))).collect()
        };
        assert!(replace(&many(CUSTOM_KEYS_MAX)).is_ok());
        assert!(replace(&many(CUSTOM_KEYS_MAX + 1)).is_err());
        assert!(replace(&pair(CUSTOM_KEY_BYTES_MAX, CUSTOM_VALUE_BYTES_MAX)).is_ok());
        for (key, value) in
            [(CUSTOM_KEY_BYTES_MAX + 1, 1), (1, CUSTOM_VALUE_BYTES_MAX + 1), (0, 1), (1, 0)]
        {
            assert!(replace(&pair(key, value)).is_err(), "{key} {value}");
        }
        for unprintable in
            [Map::from([("k".to_owned(), "\n".into())]), Map::from([("\t".to_owned(), "v".into())])]
        {
            assert!(replace(&unprintable).is_err());
        }
        assert_eq!(replace(&Map::new()), Ok(None));
    }
}
