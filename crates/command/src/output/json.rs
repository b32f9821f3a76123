//! Indented JSON, two spaces a level, escaped as Go's encoder does: `<`, `>`, `&` and the two line
//! separators too, so that the text is the same as that of Vault's command line.

use std::fmt::Write;

use super::Document;
use crate::json::{Json, Map};

/// The document without a line break at its end.
pub fn pretty(document: &Document<'_>) -> String {
    let mut out = String::new();
    write_document(&mut out, document, 0);
    out
}

/// Nesting is bounded: values come from a parser that bounds it, ours are three deep.
fn write_document(out: &mut String, document: &Document<'_>, depth: usize) {
    match document {
        Document::Value(value) => write_value(out, value, depth),
        Document::Own(value) => write_value(out, value, depth),
        Document::Object(map) => write_object(out, map, depth),
        Document::Record(members) => {
            write_all(out, "{}", members, depth, |out, (name, member)| {
                write_string(out, name);
                out.push_str(": ");
                write_document(out, member, depth + 1);
            });
        }
    }
}

fn write_value(out: &mut String, value: &Json, depth: usize) {
    match value {
        Json::Null => out.push_str("null"),
        Json::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
        Json::Number(text) => out.push_str(text),
        Json::String(text) => write_string(out, text),
        Json::Object(map) => write_object(out, map, depth),
        Json::Array(items) => {
            write_all(out, "[]", items, depth, |out, item| write_value(out, item, depth + 1));
        }
    }
}

fn write_object(out: &mut String, map: &Map, depth: usize) {
    write_all(out, "{}", map, depth, |out, (name, member)| {
        write_string(out, name);
        out.push_str(": ");
        write_value(out, member, depth + 1);
    });
}

fn write_all<T>(
    out: &mut String,
    brackets: &str,
    items: impl IntoIterator<Item = T>,
    depth: usize,
    mut write_item: impl FnMut(&mut String, T),
) {
    let (open, close) = brackets.split_at(1);
    let indent = |depth| "  ".repeat(depth);
    let mut empty = true;
    out.push_str(open);
    for item in items {
        out.push_str(if empty { "\n" } else { ",\n" });
        out.push_str(&indent(depth + 1));
        write_item(out, item);
        empty = false;
    }
    if !empty {
        out.push('\n');
        out.push_str(&indent(depth));
    }
    out.push_str(close);
}

fn write_string(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\0'..='\u{1f}' | '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            _ => out.push(c),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::parse;

    fn shown(text: &str) -> String {
        pretty(&Document::Own(parse(text.as_bytes()).unwrap()))
    }

    #[test]
    fn values_keep_their_text() {
        for text in ["1.50", "1e3", "123456789012345678901234567890", "null", "true", "\"a\""] {
            assert_eq!(shown(text), text);
        }
    }

    #[test]
    fn nesting_is_indented_and_empty_things_are_short() {
        let wanted = "{\n  \"a\": [\n    1,\n    {}\n  ],\n  \"b\": []\n}";
        assert_eq!(shown(r#"{"a":[1,{}],"b":[]}"#), wanted);
    }

    #[test]
    fn strings_are_escaped_as_go_does() {
        let wanted = r#""\u003ca\u003e \u0026 \n\t\"\\\u0001é""#;
        assert_eq!(shown(r#""<a> & \n\t\"\\\u0001é""#), wanted);
    }

    #[test]
    fn what_is_shown_can_be_read_again() {
        let text = r#"{"a":{"b":[1.0,"x\u2028y",null,{"c":[]}]},"z":"\u0000"}"#;
        let shown = shown(text);
        let again = parse(shown.as_bytes()).unwrap();
        assert!(again == parse(text.as_bytes()).unwrap());
    }
}
