//! Any bytes are a document within bounds or an error that says where; a document's text is a
//! fixed point and reads as the same document, which is that of `serde_json`'s own tree.

use kallisto_core::Json;
use kallisto_core::json::{
    DEPTH_MAX, Map, ParseError, VALUES_MAX, member, members, parse, parse_object,
};
use serde_json::Value;

/// What JSON is made of, and what breaks parsers of it.
pub(crate) const WORDS: &[&[u8]] = &[
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b"\"",
    b"\\",
    b"\"a\":",
    b"\"\"",
    b"null",
    b"true",
    b"false",
    b"0",
    b"-0",
    b"1e3",
    b"-1.50e+2",
    b"1E400",
    b"123456789012345678901234567890",
    b"\\u0000",
    b"\\ud83d\\ude00",
    b"\\ud800",
    b"\xc3\xa9",
    b"\xff",
    b" ",
    b"\n",
    b"[[[[[[[[[[[[[[[[",
    b"{\"a\":{\"a\":{\"a\":",
    b"{\"$serde_json::private::Number\":\"5\"}",
];

/// Members of an object that are looked up in its text.
const MEMBERS_LOOKED_UP: usize = 8;

/// The target.
pub(crate) fn run(bytes: &[u8]) {
    let parsed = parse(bytes);
    match &parsed {
        Ok(tree) => check_tree(tree),
        Err(error) => check_error(error, bytes),
    }
    match (&parsed, serde_json::from_slice::<Value>(bytes)) {
        (Ok(tree), Ok(value)) => assert!(is_same(tree, &value), "serde_json reads another tree"),
        (Err(ParseError::Syntax { .. } | ParseError::NotUtf8(_)), read) => assert!(read.is_err()),
        // It nests less deep, and its numbers end where those of floats do.
        (Ok(_), Err(_)) | (Err(_), _) => {}
    }
    let is_blank = bytes.iter().all(u8::is_ascii_whitespace);
    match (parse_object(bytes), &parsed) {
        (Ok(map), Ok(Json::Object(same))) => assert!(map == *same),
        (Ok(map), other) => {
            assert!(map.is_empty());
            assert!(is_blank || matches!(other, Ok(Json::Null)));
        }
        (Err(ParseError::NotAnObject(_)), other) => {
            assert!(matches!(other, Ok(tree) if tree.as_object().is_none()));
        }
        (Err(error), other) => assert_eq!(other.as_ref().err(), Some(&error)),
    }
}

fn check_tree(tree: &Json) {
    let mut values = 0;
    measure(tree, 0, &mut values);
    let text = tree.to_text();
    let again = parse(&text);
    assert!(again.as_ref() == Ok(tree), "the text of a tree reads as another tree");
    if let Json::Object(map) = tree {
        check_members(map, &text);
    }
    assert_eq!(again.map(|again| again.to_text()), Ok(text));
}

fn is_same(tree: &Json, value: &Value) -> bool {
    match (tree, value) {
        (Json::Null, Value::Null) => true,
        (Json::Bool(ours), Value::Bool(theirs)) => ours == theirs,
        (Json::String(ours), Value::String(theirs)) => ours == theirs,
        (Json::Number(ours), Value::Number(theirs)) => {
            // Its floats may be off in the last digit.
            let (ours, theirs) = (ours.parse::<f64>().ok(), theirs.as_f64());
            ours.zip(theirs)
                .is_some_and(|(ours, theirs)| (ours - theirs).abs() <= ours.abs() * 1e-9)
        }
        (Json::Array(ours), Value::Array(theirs)) => {
            ours.len() == theirs.len()
                && ours.iter().zip(theirs).all(|(ours, theirs)| is_same(ours, theirs))
        }
        (Json::Object(ours), Value::Object(theirs)) => {
            ours.len() == theirs.len()
                && ours.iter().all(|(name, ours)| {
                    theirs.get(name).is_some_and(|theirs| is_same(ours, theirs))
                })
        }
        _ => false,
    }
}

/// What is looked up in the text of an object, without a tree, is what the tree has.
fn check_members(map: &Map, text: &[u8]) {
    assert_eq!(members(text).count(), map.len());
    for (name, value) in map.iter().take(MEMBERS_LOOKED_UP) {
        let found = member(text, name).and_then(|raw| parse(raw).ok());
        assert!(found.as_ref() == Some(value), "a member is not found");
    }
}

fn measure(tree: &Json, depth: usize, values: &mut usize) {
    *values += 1;
    assert!(*values <= VALUES_MAX);
    match tree {
        Json::Array(items) => {
            assert!(depth < DEPTH_MAX);
            items.iter().for_each(|item| measure(item, depth + 1, values));
        }
        Json::Object(map) => {
            assert!(depth < DEPTH_MAX);
            map.values().for_each(|item| measure(item, depth + 1, values));
        }
        Json::Number(text) => assert!(text.bytes().any(|byte| byte.is_ascii_digit())),
        Json::Null | Json::Bool(_) | Json::String(_) => {}
    }
}

/// An error points into the input.
fn check_error(error: &ParseError, bytes: &[u8]) {
    match error {
        ParseError::NotUtf8(at)
        | ParseError::TooDeep(at)
        | ParseError::BadString(at)
        | ParseError::Duplicate(_, at) => {
            assert!(*at < bytes.len());
        }
        ParseError::Syntax { what, line, column } => {
            assert!(!what.is_empty());
            let lines = bytes.iter().filter(|&&byte| byte == b'\n').count() + 1;
            assert!(*line <= lines);
            assert!(*column <= bytes.len() + 1);
        }
        ParseError::TooMany => assert!(bytes.len() > VALUES_MAX),
        ParseError::NotAnObject(_) => panic!("parse asks for no object"),
    }
}
