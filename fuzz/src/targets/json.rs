//! Any bytes are a document within bounds or an error that says where; a document's text is a
//! fixed point and reads as the same document.

use kallisto_core::Json;
use kallisto_core::json::{DEPTH_MAX, ParseError, VALUES_MAX, parse, parse_object};

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

/// The target.
pub(crate) fn run(bytes: &[u8]) {
    let parsed = parse(bytes);
    match &parsed {
        Ok(tree) => check_tree(tree),
        Err(error) => check_error(error, bytes),
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
    assert_eq!(again.map(|again| again.to_text()), Ok(text));
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
