//! JSON as a secrets manager needs it: what was stored comes back, byte for byte where it matters.
//!
//! [`Json`] keeps the text of every number, sorts the keys of every object (the last of two equal
//! keys wins, as the wire contract says) and knows nothing of floats. `serde_json` decides what is
//! JSON; our walker then builds the tree from text that is already known to be valid. Its own tree
//! would not do: with arbitrary precision it rewrites `1e3` to `1e+3` and takes an object with one
//! magic key for a number (see `docs/decisions/0005-json.md`).
//!
//! Invariants: nesting is at most [`DEPTH_MAX`], values at most [`VALUES_MAX`]; errors carry a
//! position and never the input, which may hold secrets and would reach a log; output is compact and escapes only what it must.

mod members;
mod parse;
mod patch;
mod write;

use std::collections::BTreeMap;

pub use members::{RawMembers, member, members};
pub use parse::{DEPTH_MAX, ParseError, VALUES_MAX, parse, parse_object};
pub use patch::merge_patch;
pub use write::{write_string, write_strings, write_u64};

/// Bytes set aside for the text of a value: what a small secret takes.
const TEXT_BYTES_USUAL: usize = 256;

/// An object: keys sorted bytewise.
pub type Map = BTreeMap<String, Json>;

/// Bytes of the texts and numbers in an object and of their names, at every depth. What is in memory nests no deeper than what was parsed.
pub fn text_bytes(map: &Map) -> usize {
    fn of(value: &Json) -> usize {
        match value {
            Json::Null | Json::Bool(_) => 1,
            Json::Number(text) => text.len(),
            Json::String(text) => text.len(),
            Json::Array(items) => items.iter().map(of).sum(),
            Json::Object(map) => text_bytes(map),
        }
    }
    map.iter().map(|(name, value)| name.len() + of(value)).sum()
}

/// A JSON value whose numbers keep their text.
#[derive(Clone, PartialEq, Eq)]
pub enum Json {
    /// `null`
    Null,
    /// `true`, `false`
    Bool(bool),
    /// The text of a number, as it came.
    Number(Box<str>),
    /// A string, unescaped.
    String(String),
    /// An array.
    Array(Vec<Self>),
    /// An object.
    Object(Map),
}

impl Json {
    /// An object made of pairs.
    pub fn object<const N: usize>(pairs: [(&str, Self); N]) -> Self {
        Self::Object(pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
    }

    /// An array of strings.
    pub fn strings<S: Into<String>>(items: impl IntoIterator<Item = S>) -> Self {
        Self::Array(items.into_iter().map(|item| Self::String(item.into())).collect())
    }

    /// Compact text with sorted keys.
    pub fn to_text(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(TEXT_BYTES_USUAL);
        self.write(&mut out);
        out
    }

    /// The object behind this value, if it is one.
    pub const fn as_object(&self) -> Option<&Map> {
        match self {
            Self::Object(map) => Some(map),
            _ => None,
        }
    }

    /// The text behind this value, if it is a string.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text),
            _ => None,
        }
    }
}

impl std::fmt::Debug for Json {
    /// The kind only: a value may be a secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Null => "Null",
            Self::Bool(_) => "Bool",
            Self::Number(_) => "Number",
            Self::String(_) => "String",
            Self::Array(_) => "Array",
            Self::Object(_) => "Object",
        })
    }
}

impl From<&str> for Json {
    fn from(text: &str) -> Self {
        Self::String(text.to_owned())
    }
}

impl From<String> for Json {
    fn from(text: String) -> Self {
        Self::String(text)
    }
}

impl From<bool> for Json {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<u64> for Json {
    fn from(value: u64) -> Self {
        Self::Number(value.to_string().into())
    }
}

impl From<i64> for Json {
    fn from(value: i64) -> Self {
        Self::Number(value.to_string().into())
    }
}

impl From<Map> for Json {
    fn from(map: Map) -> Self {
        Self::Object(map)
    }
}
