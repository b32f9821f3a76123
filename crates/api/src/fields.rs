//! Reading request fields the way the wire contract does: weakly typed, with its messages.
//!
//! Clients send `"3"` for an int, `"true"` for a boolean and `"a,b"` for a list; all are taken, and
//! what cannot be taken is refused in the words clients match on. Handlers read their body and
//! query parameters through [`Fields`] and nothing else.

use crate::Span;
use crate::error::Error;
use crate::json::{Json, Map, parse_object};

/// The object of an empty list.
static EMPTY: Map = Map::new();

/// The fields of a request body or query.
#[derive(Clone, Copy)]
pub struct Fields<'a>(&'a Map);

impl<'a> Fields<'a> {
    /// The fields of an object.
    pub const fn new(map: &'a Map) -> Self {
        Self(map)
    }

    /// The field as it came; an absent one is `None`, a `null` is `Some(Json::Null)`.
    pub fn raw(self, name: &str) -> Option<&'a Json> {
        self.0.get(name)
    }

    /// A string; numbers and booleans are taken by their text.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an array or an object.
    pub fn string(self, name: &str) -> Result<Option<String>, Error> {
        match self.raw(name) {
            None | Some(Json::Null) => Ok(None),
            Some(value) => match scalar_text(value) {
                Some(text) => Ok(Some(text)),
                None => Err(unconvertible(name, value, "string")),
            },
        }
    }

    /// A whole number, or its text.
    ///
    /// # Errors
    /// [`Error::Invalid`] for anything else.
    pub fn int(self, name: &str) -> Result<Option<i64>, Error> {
        match self.raw(name) {
            None | Some(Json::Null) => Ok(None),
            Some(value) => match int_of(value) {
                Some(number) => Ok(Some(number)),
                None => Err(Error::invalid(format!(
                    "Field validation failed: error converting input for field \"{name}\": '' \
                     cannot parse value as 'int': strconv.ParseInt: invalid syntax"
                ))),
            },
        }
    }

    /// A boolean, its text, or a number (zero is false).
    ///
    /// # Errors
    /// [`Error::Invalid`] for anything else.
    pub fn boolean(self, name: &str) -> Result<Option<bool>, Error> {
        let parsed = match self.raw(name) {
            None | Some(Json::Null) => return Ok(None),
            Some(Json::Bool(value)) => Some(*value),
            Some(Json::String(text)) if text.is_empty() => Some(false),
            Some(Json::String(text)) => parse_bool(text),
            Some(Json::Number(text)) => text.parse::<i64>().ok().map(|number| number != 0),
            Some(_) => None,
        };
        parsed.map(Some).ok_or_else(|| {
            Error::invalid(format!(
                "Field validation failed: error converting input for field \"{name}\": '' cannot \
                 parse value as 'bool': strconv.ParseBool: invalid syntax"
            ))
        })
    }

    /// A span of time: seconds, or text as [`Span::parse`] reads it.
    ///
    /// # Errors
    /// [`Error::Invalid`] for anything else.
    pub fn span(self, name: &str) -> Result<Option<Span>, Error> {
        let text = match self.raw(name) {
            None | Some(Json::Null) => return Ok(None),
            Some(Json::String(text)) if text.is_empty() => return Ok(Some(Span::ZERO)),
            Some(Json::String(text)) => text.clone(),
            Some(Json::Number(text)) => text.to_string(),
            Some(value) => return Err(unconvertible(name, value, "duration")),
        };
        Span::parse(&text).map(Some).ok_or_else(|| {
            Error::invalid(format!(
                "error converting input for field \"{name}\": time: invalid duration \"{text}\""
            ))
        })
    }

    /// An object, or a list of one, as HCL writes it and many guides have it; `null` is `None`, and an empty list has nothing in it.
    ///
    /// # Errors
    /// [`Error::Invalid`] for anything else.
    pub fn map(self, name: &str) -> Result<Option<&'a Map>, Error> {
        match self.raw(name) {
            None | Some(Json::Null) => Ok(None),
            Some(Json::Object(map)) => Ok(Some(map)),
            Some(value @ Json::Array(items)) => match items.as_slice() {
                [] => Ok(Some(&EMPTY)),
                [Json::Object(map)] => Ok(Some(map)),
                _ => Err(no_object(name, value)),
            },
            Some(value) => Err(no_object(name, value)),
        }
    }

    /// Names with values: an object, a text of one (as from a file), a text `name=value`, or a list of these; an empty text has none.
    ///
    /// # Errors
    /// [`Error::Invalid`] for anything else.
    pub fn pairs(self, name: &str) -> Result<Option<Map>, Error> {
        let one = [match self.raw(name) {
            None | Some(Json::Null) => return Ok(None),
            Some(Json::String(text)) if text.is_empty() => return Ok(Some(Map::new())),
            Some(value) => value,
        }];
        let items: Vec<&Json> = match one {
            [Json::Array(items)] => items.iter().collect(),
            one => one.to_vec(),
        };
        let mut pairs = Map::new();
        for (index, item) in items.into_iter().enumerate() {
            match item {
                Json::Object(map) => pairs.extend(map.clone()),
                // Before pairs: a PEM inside an object has `=` in it too.
                Json::String(text) if text.trim_start().starts_with('{') => {
                    pairs.extend(parse_object(text.as_bytes()).map_err(|error| {
                        Error::invalid(format!("invalid object in field \"{name}\": {error}"))
                    })?);
                }
                Json::String(text) if text.contains('=') => {
                    let (key, value) = text.split_once('=').unwrap_or_default();
                    pairs.insert(key.to_owned(), value.into());
                }
                _ => {
                    return Err(Error::invalid(format!(
                        "Field validation failed: error converting input for field \"{name}\": \
                         invalid key pair at index {index} in field \"{name}\""
                    )));
                }
            }
        }
        Ok(Some(pairs))
    }

    /// How many names a list is asked for with `limit`. `None` for as many as the caller may see at once: where it is absent, `max`, or 0
    /// or less.
    ///
    /// # Errors
    /// [`Error::Invalid`] when it is no number.
    pub fn limit(self) -> Result<Option<usize>, Error> {
        if self.raw("limit").and_then(Json::as_str) == Some("max") {
            return Ok(None);
        }
        let limit = self.int("limit")?.and_then(|limit| usize::try_from(limit).ok());
        Ok(limit.filter(|limit| *limit > 0))
    }

    /// A list of strings, one string with commas, or one number or boolean.
    ///
    /// # Errors
    /// [`Error::Invalid`] for anything else.
    pub fn strings(self, name: &str) -> Result<Option<Vec<String>>, Error> {
        match self.raw(name) {
            None | Some(Json::Null) => Ok(None),
            Some(Json::String(text)) => Ok(Some(split_list(text))),
            Some(Json::Array(items)) => items
                .iter()
                .map(|item| scalar_text(item).ok_or_else(|| unconvertible(name, item, "string")))
                .collect::<Result<_, _>>()
                .map(Some),
            Some(value) => match scalar_text(value) {
                Some(text) => Ok(Some(vec![text])),
                None => Err(unconvertible(name, value, "[]string")),
            },
        }
    }

    /// A list of whole numbers, of their texts, or one string with commas.
    ///
    /// # Errors
    /// [`Error::Invalid`] naming the first item that is none.
    pub fn ints(self, name: &str) -> Result<Option<Vec<i64>>, Error> {
        let items: Vec<Json> = match self.raw(name) {
            None | Some(Json::Null) => return Ok(None),
            Some(Json::String(text)) => split_list(text).into_iter().map(Json::String).collect(),
            Some(Json::Array(items)) => items.clone(),
            Some(value) => vec![value.clone()],
        };
        let convert = |(at, item): (usize, &Json)| {
            int_of(item).ok_or_else(|| {
                Error::invalid(format!(
                    "Field validation failed: error converting input for field \"{name}\": \
                     decoding failed due to the following error(s):\n\n'[{at}]' cannot parse \
                     value as 'int': strconv.ParseInt: invalid syntax"
                ))
            })
        };
        items.iter().enumerate().map(convert).collect::<Result<_, _>>().map(Some)
    }
}

/// Names that are compared in lower case, in their one spelling: trimmed, sorted, each once.
pub fn sorted_in_lower_case(given: &[String]) -> Vec<String> {
    let mut names: Vec<String> = given.iter().map(|name| name.trim().to_lowercase()).collect();
    names.retain(|name| !name.is_empty());
    names.sort();
    names.dedup();
    names
}

/// A boolean's text, as Go's `strconv.ParseBool` takes it.
pub fn parse_bool(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

/// The text of a string, number or boolean.
pub fn scalar_text(value: &Json) -> Option<String> {
    match value {
        Json::String(text) => Some(text.clone()),
        Json::Number(text) => Some(text.to_string()),
        Json::Bool(true) => Some("1".to_owned()),
        Json::Bool(false) => Some("0".to_owned()),
        Json::Null | Json::Array(_) | Json::Object(_) => None,
    }
}

/// The refusal of a value of the wrong kind, in the wire contract's words.
pub fn unconvertible(name: &str, value: &Json, expected: &str) -> Error {
    Error::invalid(format!(
        "error converting input for field \"{name}\": {}",
        kind_mismatch(value, expected)
    ))
}

/// The error for what is neither an object nor a list of one.
fn no_object(name: &str, value: &Json) -> Error {
    if matches!(value, Json::Array(items) if matches!(items[..], [Json::Object(_), _, ..])) {
        return Error::invalid(format!(
            "error converting input for field \"{name}\": a list of more than one object"
        ));
    }
    unconvertible(name, value, "map[string]interface {}")
}

/// What [`Fields::map`] reads, as its own.
///
/// # Errors
/// [`Error::Invalid`] for what is neither an object nor a list of one.
pub fn into_map(name: &str, value: Json) -> Result<Option<Map>, Error> {
    match value {
        Json::Null => Ok(None),
        Json::Object(map) => Ok(Some(map)),
        Json::Array(mut items) if items.len() <= 1 => match items.pop() {
            None => Ok(Some(Map::new())),
            Some(Json::Object(map)) => Ok(Some(map)),
            Some(item) => Err(no_object(name, &Json::Array(vec![item]))),
        },
        value => Err(no_object(name, &value)),
    }
}

/// What was expected and what came, without the value.
pub fn kind_mismatch(value: &Json, expected: &str) -> String {
    let (place, found) = match value {
        Json::Array(items) => ("[0]", items.first().map_or("[]interface {}", go_kind)),
        other => ("", go_kind(other)),
    };
    format!("'{place}' expected type '{expected}', got unconvertible type '{found}'")
}

const fn go_kind(value: &Json) -> &'static str {
    match value {
        Json::Null => "nil",
        Json::Bool(_) => "bool",
        Json::Number(_) => "json.Number",
        Json::String(_) => "string",
        Json::Array(_) => "[]interface {}",
        Json::Object(_) => "map[string]interface {}",
    }
}

fn int_of(value: &Json) -> Option<i64> {
    match value {
        Json::Number(text) => text.parse().ok(),
        Json::String(text) if text.is_empty() => Some(0),
        Json::String(text) => text.parse().ok(),
        Json::Bool(value) => Some(i64::from(*value)),
        Json::Null | Json::Array(_) | Json::Object(_) => None,
    }
}

fn split_list(text: &str) -> Vec<String> {
    text.split(',').map(str::trim).filter(|item| !item.is_empty()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::parse_object;

    fn with<T>(body: &str, read: impl Fn(Fields<'_>) -> T) -> T {
        read(Fields::new(&parse_object(body.as_bytes()).unwrap()))
    }

    #[test]
    fn values_are_weakly_typed() {
        for body in [r#"{"x":3}"#, r#"{"x":"3"}"#] {
            assert_eq!(with(body, |f| f.int("x").unwrap()), Some(3), "{body}");
        }
        for body in [r#"{"x":true}"#, r#"{"x":"true"}"#, r#"{"x":1}"#, r#"{"x":"1"}"#] {
            assert_eq!(with(body, |f| f.boolean("x").unwrap()), Some(true), "{body}");
        }
        for body in [r#"{"x":"a, b"}"#, r#"{"x":["a","b"]}"#] {
            assert_eq!(with(body, |f| f.strings("x").unwrap()), Some(vec!["a".into(), "b".into()]));
        }
        for body in [r#"{"x":"3,4"}"#, r#"{"x":["3",4]}"#] {
            assert_eq!(with(body, |f| f.ints("x").unwrap()), Some(vec![3, 4]), "{body}");
        }
        for (body, text) in [(r#"{"x":94105}"#, "94105"), (r#"{"x":true}"#, "1")] {
            assert_eq!(with(body, |f| f.strings("x").unwrap()), Some(vec![text.into()]), "{body}");
        }
        for body in [r#"{"x":{"a":""}}"#, r#"{"x":[{"a":""}]}"#] {
            let names = |map: Option<&Map>| map.unwrap().keys().cloned().collect::<Vec<_>>();
            assert_eq!(with(body, |f| names(f.map("x").unwrap())), ["a"], "{body}");
        }
        assert!(with(r#"{"x":[]}"#, |f| f.map("x").unwrap().unwrap().is_empty()));
        for (body, secs) in [(r#"{"x":90}"#, 90), (r#"{"x":"1h"}"#, 3600), (r#"{"x":"90"}"#, 90)] {
            assert_eq!(with(body, |f| f.span("x").unwrap().unwrap().secs()), secs, "{body}");
        }
    }

    #[test]
    fn bad_values_are_refused_by_name() {
        assert!(with(r#"{"x":"y"}"#, |f| f.int("x")).unwrap_err().to_string().contains("\"x\""));
        let pairs = |text: &str| with(text, |f| f.pairs("x").map(|map| map.map(|map| map.len())));
        assert_eq!(pairs(r#"{"x":{"a":1,"b":2}}"#).unwrap(), Some(2));
        assert_eq!(pairs(r#"{"x":"a=b=c"}"#).unwrap(), Some(1));
        assert_eq!(pairs(r#"{"x":["a=b",{"c":"d"}]}"#).unwrap(), Some(2));
        assert_eq!(pairs(r#"{"x":" {\"a\":\"b=\",\"c\":2}\n"}"#).unwrap(), Some(2));
        assert!(pairs(r#"{"x":"{\"a\":=}"}"#).unwrap_err().to_string().contains("field \"x\""));
        assert_eq!((pairs("{}").unwrap(), pairs(r#"{"x":[]}"#).unwrap()), (None, Some(0)));
        assert_eq!(pairs(r#"{"x":""}"#).unwrap(), Some(0));
        for bad in [r#"{"x":"ab"}"#, r#"{"x":5}"#, r#"{"x":[["a=b"]]}"#] {
            assert!(pairs(bad).unwrap_err().to_string().contains("invalid key pair at index 0"));
        }
        assert!(with(r#"{"x":[1]}"#, |f| f.map("x").err()).unwrap().to_string().contains(
            "'[0]' expected type 'map[string]interface {}', got unconvertible type 'json.Number'"
        ));
        for bad in [r#"{"x":[{},{}]}"#, r#"{"x":"{}"}"#, r#"{"x":[[]]}"#] {
            assert!(with(bad, |f| f.map("x").is_err()), "{bad}");
        }
        assert!(with(r#"{"x":{}}"#, |f| f.strings("x")).is_err());
        assert!(with(r#"{"x":["x"]}"#, |f| f.ints("x")).unwrap_err().to_string().contains("'[0]'"));
        assert!(with(r#"{"x":"maybe"}"#, |f| f.boolean("x")).is_err());
        assert!(with(r#"{"x":{}}"#, |f| f.span("x")).is_err());
    }
}
