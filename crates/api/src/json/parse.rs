//! From text to tree: `serde_json` judges, the walker builds.
//!
//! The walker runs only over text that `serde_json` accepted whole, so it looks for the end of a
//! token and never for its correctness. Depth is checked before anything recurses.

use std::collections::btree_map::Entry;
use std::fmt;

use memchr::memchr2;
use serde_json::value::RawValue;

use super::{Json, Map};

/// Deepest nesting of arrays and objects.
pub const DEPTH_MAX: usize = 300;
/// Most values in one document; bounds the memory a body can turn into.
pub const VALUES_MAX: usize = 1 << 19;

/// Bytes of a key that an error shows.
const SHOWN_BYTES_MAX: usize = 100;

/// Why a text is not a document we take. Never shows the text, but for a key that is there twice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ParseError {
    /// Not UTF-8, from this byte on.
    NotUtf8(usize),
    /// Deeper than [`DEPTH_MAX`], at this byte.
    TooDeep(usize),
    /// More than [`VALUES_MAX`] values.
    TooMany,
    /// Not JSON: what was wrong, and where.
    Syntax {
        /// What, in the parser's words (they name no input).
        what: String,
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
    },
    /// A string holds an escape that is no character, such as half a surrogate pair.
    BadString(usize),
    /// An object has this key twice, the second time at this byte: readers differ in which one counts.
    Duplicate(String, usize),
    /// JSON, but this kind instead of an object.
    NotAnObject(&'static str),
}

/// Parses one document.
///
/// # Errors
/// A [`ParseError`] naming what and where.
pub fn parse(bytes: &[u8]) -> Result<Json, ParseError> {
    let text =
        std::str::from_utf8(bytes).map_err(|error| ParseError::NotUtf8(error.valid_up_to()))?;
    check_depth(text.as_bytes())?;
    let valid: &RawValue = serde_json::from_str(text).map_err(|error| syntax(&error))?;
    let mut walker = Walker { text: valid.get(), at: 0, values: 0 };
    walker.value()
}

/// Parses a document that must be an object; empty input is the empty object.
///
/// # Errors
/// A [`ParseError`] naming what and where.
pub fn parse_object(bytes: &[u8]) -> Result<Map, ParseError> {
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Ok(Map::new());
    }
    match parse(bytes)? {
        Json::Object(map) => Ok(map),
        Json::Null => Ok(Map::new()),
        Json::Array(_) => Err(ParseError::NotAnObject("an array")),
        Json::String(_) => Err(ParseError::NotAnObject("a string")),
        Json::Number(_) => Err(ParseError::NotAnObject("a number")),
        Json::Bool(_) => Err(ParseError::NotAnObject("a boolean")),
    }
}

fn syntax(error: &serde_json::Error) -> ParseError {
    let text = error.to_string();
    let what = text.split(" at line ").next().unwrap_or_default().to_owned();
    ParseError::Syntax { what, line: error.line(), column: error.column() }
}

fn duplicate(key: &str, at: usize) -> ParseError {
    let shown = &key[..key.floor_char_boundary(SHOWN_BYTES_MAX)];
    ParseError::Duplicate(shown.chars().filter(|c| !c.is_control()).collect(), at)
}

/// Brackets outside strings, counted without recursion.
fn check_depth(bytes: &[u8]) -> Result<(), ParseError> {
    // Most documents have fewer brackets than levels allowed, which a counting pass sees at once.
    if bytes.iter().filter(|&&byte| byte == b'[' || byte == b'{').count() <= DEPTH_MAX {
        return Ok(());
    }
    let mut depth = 0_usize;
    let mut in_string = false;
    let mut escaped = false;
    for (at, &byte) in bytes.iter().enumerate() {
        if in_string {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => in_string = false,
                _ => {}
            }
            continue;
        }
        match byte {
            b'"' => in_string = true,
            b'[' | b'{' => {
                depth += 1;
                if depth > DEPTH_MAX {
                    return Err(ParseError::TooDeep(at));
                }
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    Ok(())
}

/// Walks valid JSON; recursion is bounded by [`DEPTH_MAX`].
struct Walker<'a> {
    text: &'a str,
    at: usize,
    values: usize,
}

impl Walker<'_> {
    fn peek(&mut self) -> u8 {
        let bytes = self.text.as_bytes();
        while bytes.get(self.at).is_some_and(u8::is_ascii_whitespace) {
            self.at += 1;
        }
        bytes.get(self.at).copied().unwrap_or_default()
    }

    fn value(&mut self) -> Result<Json, ParseError> {
        self.values += 1;
        if self.values > VALUES_MAX {
            return Err(ParseError::TooMany);
        }
        match self.peek() {
            b'{' => self.object(),
            b'[' => self.array(),
            b'"' => self.string().map(Json::String),
            b't' => Ok(self.literal(4, Json::Bool(true))),
            b'f' => Ok(self.literal(5, Json::Bool(false))),
            b'n' => Ok(self.literal(4, Json::Null)),
            _ => Ok(self.number()),
        }
    }

    fn literal(&mut self, bytes: usize, value: Json) -> Json {
        self.at += bytes;
        value
    }

    fn number(&mut self) -> Json {
        let rest = &self.text[self.at..];
        let end = rest
            .find(|c: char| !matches!(c, '0'..='9' | '-' | '+' | '.' | 'e' | 'E'))
            .unwrap_or(rest.len());
        self.at += end;
        Json::Number(rest[..end].into())
    }

    fn string(&mut self) -> Result<String, ParseError> {
        let start = self.at;
        let bytes = self.text.as_bytes();
        let mut end = start + 1;
        let mut plain = true;
        while let Some(found) = bytes.get(end..).and_then(|rest| memchr2(b'"', b'\\', rest)) {
            end += found;
            if bytes[end] == b'"' {
                break;
            }
            plain = false;
            end += 2;
        }
        self.at = end + 1;
        if plain {
            return Ok(self.text[start + 1..end].to_owned());
        }
        serde_json::from_str(&self.text[start..=end]).map_err(|_| ParseError::BadString(start))
    }

    fn array(&mut self) -> Result<Json, ParseError> {
        let mut items = Vec::new();
        self.at += 1;
        while self.peek() != b']' {
            items.push(self.value()?);
            self.skip_comma();
        }
        self.at += 1;
        Ok(Json::Array(items))
    }

    fn object(&mut self) -> Result<Json, ParseError> {
        let mut map = Map::new();
        self.at += 1;
        while self.peek() != b'}' {
            let start = {
                self.peek();
                self.at
            };
            let key = self.string()?;
            let colon = self.peek();
            assert_eq!(colon, b':', "the walker runs over valid JSON only");
            self.at += 1;
            let value = self.value()?;
            match map.entry(key) {
                Entry::Vacant(place) => place.insert(value),
                Entry::Occupied(place) => return Err(duplicate(place.key(), start)),
            };
            self.skip_comma();
        }
        self.at += 1;
        Ok(Json::Object(map))
    }

    fn skip_comma(&mut self) {
        if self.peek() == b',' {
            self.at += 1;
        }
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotUtf8(at) => write!(f, "invalid UTF-8 at byte {at}"),
            Self::TooDeep(at) => write!(f, "nesting deeper than {DEPTH_MAX} at byte {at}"),
            Self::TooMany => write!(f, "more than {VALUES_MAX} values"),
            Self::Syntax { what, line, column } => {
                write!(f, "{what} at line {line} column {column}")
            }
            Self::BadString(at) => write!(f, "string at byte {at} has an invalid escape"),
            Self::Duplicate(key, at) => write!(f, "duplicate key {key:?} at byte {at}"),
            Self::NotAnObject(kind) => write!(f, "expected an object, found {kind}"),
        }
    }
}

impl std::error::Error for ParseError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(text: &str) -> String {
        String::from_utf8(parse(text.as_bytes()).unwrap().to_text()).unwrap()
    }

    #[test]
    fn numbers_keep_their_text_and_keys_are_sorted() {
        for text in ["1e3", "1E+3", "1.0", "-0.0", "123456789012345678901234567890", "1e-07"] {
            assert_eq!(round_trip(text), text);
        }
        assert_eq!(
            round_trip(r#" { "b" : 1 , "a" : [ 1.0 , {} , [] ] } "#),
            r#"{"a":[1.0,{},[]],"b":1}"#
        );
        assert_eq!(round_trip(r#""<a>&\u00e9\u0000\"\\\/""#), r#""<a>&é\u0000\"\\/""#);
        assert_eq!(round_trip("[true,false,null]"), "[true,false,null]");
    }

    #[test]
    fn a_key_that_is_there_twice_is_named_and_its_values_are_not() {
        let refused = |text: &str| parse(text.as_bytes()).unwrap_err();
        assert_eq!(refused(r#"{"a":1, "a":2}"#), ParseError::Duplicate("a".into(), 8));
        // However it is written, and however deep.
        assert_eq!(refused(r#"{"a":1,"\u0061":2}"#), ParseError::Duplicate("a".into(), 7));
        let text = r#"{"data":{"b":"secret","c":[{"k":1,"k":"secret"}]}}"#;
        assert_eq!(refused(text).to_string(), "duplicate key \"k\" at byte 34");
        let long = "k".repeat(1_000);
        let text = refused(&format!(r#"{{"{long}":1,"{long}":2}}"#)).to_string();
        assert!(text.len() < 200, "{text}");
        assert_eq!(round_trip(r#"[{"a":1},{"a":2}]"#), r#"[{"a":1},{"a":2}]"#);
    }

    #[test]
    fn a_magic_key_is_a_key_like_any_other() {
        let text = r#"{"$serde_json::private::Number":"5"}"#;
        assert_eq!(round_trip(text), text);
    }

    #[test]
    fn depth_is_bounded_and_brackets_in_strings_do_not_count() {
        let nested = |n: usize| "[".repeat(n) + &"]".repeat(n);
        assert!(parse(nested(DEPTH_MAX).as_bytes()).is_ok());
        assert_eq!(parse(nested(DEPTH_MAX + 1).as_bytes()), Err(ParseError::TooDeep(DEPTH_MAX)));
        assert_eq!(parse(nested(10_000).as_bytes()), Err(ParseError::TooDeep(DEPTH_MAX)));
        let quoted = format!("\"{}\\\"[\"", "[".repeat(400));
        assert!(parse(quoted.as_bytes()).is_ok());
    }

    #[test]
    fn values_are_bounded() {
        let many = format!("[{}1]", "1,".repeat(VALUES_MAX));
        assert_eq!(parse(many.as_bytes()), Err(ParseError::TooMany));
    }

    #[test]
    fn errors_say_where_and_never_what_was_given() {
        for text in
            ["canary", "{\"canary\":}", "{\"a\":\"canary", "[1] canary", "\"\\ud800canary\""]
        {
            let error = parse(text.as_bytes()).unwrap_err().to_string();
            assert!(!error.contains("canary"), "{error}");
        }
        assert_eq!(
            parse(b"not json").unwrap_err().to_string(),
            "expected ident at line 1 column 2"
        );
        assert_eq!(parse(b"\"a\xff\"").unwrap_err(), ParseError::NotUtf8(2));
    }

    #[test]
    fn an_object_is_asked_for_and_empty_input_is_one() {
        assert!(parse_object(b"").unwrap().is_empty());
        assert!(parse_object(b" \n").unwrap().is_empty());
        assert_eq!(parse_object(b"[1]").unwrap_err(), ParseError::NotAnObject("an array"));
        assert_eq!(parse_object(b"\"x\"").unwrap_err(), ParseError::NotAnObject("a string"));
    }

    /// Whatever the bytes are: a tree or an error, and a tree's text is a fixed point that
    /// `serde_json` reads as the same document.
    #[test]
    fn any_bytes_parse_or_err_and_output_is_a_fixed_point() {
        let pieces = [
            "{",
            "}",
            "[",
            "]",
            ",",
            ":",
            "\"a\"",
            "\"\\u00e9\"",
            "1",
            "-1.50e+2",
            "null",
            "true",
            " ",
            "\"",
            "\\",
            "{\"k\":",
            "\u{e9}",
        ];
        let mut state = 7_u64;
        let mut trees = 0;
        for _ in 0..200_000 {
            let mut text = String::new();
            for _ in 0..(state >> 60) {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                text.push_str(pieces[(state >> 33) as usize % pieces.len()]);
            }
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let Ok(tree) = parse(text.as_bytes()) else { continue };
            trees += 1;
            let once = tree.to_text();
            assert_eq!(parse(&once).unwrap().to_text(), once);
            let ours: serde_json::Value = serde_json::from_slice(&once).unwrap();
            assert_eq!(ours, serde_json::from_str::<serde_json::Value>(&text).unwrap());
        }
        assert!(trees > 1_000, "the generator makes documents too: {trees}");
    }
}
