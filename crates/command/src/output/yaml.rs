//! YAML in block style, quoted only where a reader would take the text for something else.
//!
//! A small emitter of our own: what we print is a tree of JSON, which needs a tenth of YAML, and
//! the general crates are either unmaintained or lay it out differently from Vault's command line.
//! Its promise is one-sided and testable: quote too much rather than too little.
//!
//! - keys are in natural order (`2` before `10`);
//! - text with line breaks is a literal block, unless a line ends in a space or holds a control;
//! - what could be a number, a date, a truth value or null is in double quotes;
//! - what holds YAML's own signs is in single quotes.
//!
//! Unlike Vault's command line, long text is not folded and numbers keep their text.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt::Write;

use super::Document;
use crate::json::Json;

/// Words that YAML readers of one version or another take for true, false or null.
const WORDS: [&str; 11] = ["y", "n", "yes", "no", "on", "off", "true", "false", "null", "~", "nan"];

/// The document, with a line break at its end.
pub fn block(document: &Document<'_>) -> String {
    let mut out = String::new();
    write_node(&mut out, &node(document), 0, NodeStart::Line);
    out
}

/// The document seen as YAML sees it.
enum YamlNode<'a> {
    Scalar(Cow<'a, str>),
    Block(&'a str),
    List(Vec<Self>),
    Map(Vec<(&'a str, Self)>),
}

/// Where a node begins.
#[derive(Clone, Copy, PartialEq, Eq)]
enum NodeStart {
    /// On a line of its own (or after `- `), already indented.
    Line,
    /// After `key:`.
    AfterKey,
}

fn node<'a>(document: &'a Document<'_>) -> YamlNode<'a> {
    match document {
        Document::Value(value) => value_node(value),
        Document::Own(value) => value_node(value),
        Document::Object(map) => {
            YamlNode::Map(sorted(map.iter().map(|(key, value)| (key.as_str(), value_node(value)))))
        }
        Document::Record(members) => {
            YamlNode::Map(sorted(members.iter().map(|(name, member)| (*name, node(member)))))
        }
    }
}

/// Recursion is bounded by the parser the value came from.
fn value_node(value: &Json) -> YamlNode<'_> {
    match value {
        Json::Null => YamlNode::Scalar("null".into()),
        Json::Bool(value) => YamlNode::Scalar(if *value { "true" } else { "false" }.into()),
        Json::Number(text) => YamlNode::Scalar(Cow::Borrowed(text)),
        Json::String(text) if is_block(text) => YamlNode::Block(text),
        Json::String(text) => YamlNode::Scalar(scalar(text)),
        Json::Array(items) => YamlNode::List(items.iter().map(value_node).collect()),
        Json::Object(map) => {
            YamlNode::Map(sorted(map.iter().map(|(key, value)| (key.as_str(), value_node(value)))))
        }
    }
}

fn sorted<'a>(
    members: impl Iterator<Item = (&'a str, YamlNode<'a>)>,
) -> Vec<(&'a str, YamlNode<'a>)> {
    let mut members: Vec<_> = members.collect();
    members.sort_by(|a, b| natural(a.0, b.0));
    members
}

fn write_node(out: &mut String, node: &YamlNode<'_>, depth: usize, place: NodeStart) {
    let after_key = place == NodeStart::AfterKey;
    match node {
        YamlNode::List(items) if items.is_empty() => write_inline(out, "[]", after_key),
        YamlNode::Map(members) if members.is_empty() => write_inline(out, "{}", after_key),
        YamlNode::Scalar(text) => write_inline(out, text, after_key),
        YamlNode::Block(text) => write_block(out, text, depth.max(1), after_key),
        YamlNode::List(items) => {
            // A list under a key stands at the key's own depth.
            let depth = if after_key { depth - 1 } else { depth };
            write_members(out, items, depth, after_key, |out, item| {
                out.push_str("- ");
                write_node(out, item, depth + 1, NodeStart::Line);
            });
        }
        YamlNode::Map(members) => {
            write_members(out, members, depth, after_key, |out, (key, member)| {
                let _ = write!(out, "{}:", scalar(key));
                write_node(out, member, depth + 1, NodeStart::AfterKey);
            })
        }
    }
}

fn write_inline(out: &mut String, text: &str, after_key: bool) {
    if after_key {
        out.push(' ');
    }
    out.push_str(text);
    out.push('\n');
}

fn write_members<T>(
    out: &mut String,
    members: &[T],
    depth: usize,
    after_key: bool,
    mut write: impl FnMut(&mut String, &T),
) {
    if after_key {
        out.push('\n');
    }
    for (at, member) in members.iter().enumerate() {
        // The first member of something inside a list follows its dash on the same line.
        if at > 0 || after_key {
            out.push_str(&"  ".repeat(depth));
        }
        write(out, member);
    }
}

/// A literal block: `|`, an indentation mark if the text begins with a space, and how it ends.
fn write_block(out: &mut String, text: &str, depth: usize, after_key: bool) {
    let mark = if text.starts_with([' ', '\n']) { "2" } else { "" };
    let end = match text.strip_suffix('\n') {
        None => "-",
        Some(rest) if rest.ends_with('\n') || rest.is_empty() => "+",
        Some(_) => "",
    };
    write_inline(out, &format!("|{mark}{end}"), after_key);
    let body = text.strip_suffix('\n').unwrap_or(text);
    for line in body.split('\n') {
        if !line.is_empty() {
            out.push_str(&"  ".repeat(depth));
            out.push_str(line);
        }
        out.push('\n');
    }
}

/// Whether text is shown as a literal block.
fn is_block(text: &str) -> bool {
    let tidy = |line: &str| !line.ends_with(' ') && !line.chars().any(is_special);
    text.contains('\n') && text.split('\n').all(tidy)
}

/// Text on one line, in the quotes it needs.
fn scalar(text: &str) -> Cow<'_, str> {
    if text.chars().any(|c| is_special(c) || c == '\n') {
        return Cow::Owned(double_quoted(text));
    }
    if text.is_empty() || is_word(text) || looks_like_number(text) {
        return Cow::Owned(format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"")));
    }
    if has_signs(text) {
        return Cow::Owned(format!("'{}'", text.replace('\'', "''")));
    }
    Cow::Borrowed(text)
}

/// What only double quotes can show.
fn is_special(c: char) -> bool {
    let outside = matches!(c, '\u{2028}' | '\u{2029}' | '\u{85}' | '\u{a0}' | '\u{feff}');
    (c.is_control() && c != '\n') || outside || u32::from(c) > 0xffff
}

fn is_word(text: &str) -> bool {
    WORDS.contains(&text.to_ascii_lowercase().as_str())
}

/// Anything a reader of YAML 1.1 or 1.2 might take for a number, a date or a time of day.
fn looks_like_number(text: &str) -> bool {
    let body = text.strip_prefix(['-', '+']).unwrap_or(text);
    let lower = body.to_ascii_lowercase();
    let based = [("0x", 16), ("0o", 8), ("0b", 2)].iter().any(|(prefix, radix)| {
        let digits = lower.strip_prefix(prefix);
        digits.is_some_and(|digits| digits.chars().all(|c| c.is_digit(*radix) || c == '_'))
    });
    let infinite = matches!(lower.as_str(), ".inf" | ".nan");
    based || infinite || is_decimal(&lower) || is_sexagesimal(&lower) || is_date(text)
}

/// `12`, `1_000`, `1.5`, `.5`, `1.`, `1e+5`: digits with at most one point and one exponent.
fn is_decimal(text: &str) -> bool {
    let (mantissa, exponent) = text.split_once('e').unwrap_or((text, "0"));
    let exponent = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = |part: &str| part.chars().all(|c| c.is_ascii_digit() || c == '_');
    let some_digit = mantissa.contains(|c: char| c.is_ascii_digit());
    some_digit && digits(whole) && digits(fraction) && digits(exponent) && !exponent.is_empty()
}

/// `12:30:45`: numbers to the base of sixty, in YAML 1.1.
fn is_sexagesimal(text: &str) -> bool {
    text.contains(':')
        && text.split(':').all(|part| {
            !part.is_empty() && part.chars().all(|c| c.is_ascii_digit() || c == '.' || c == '_')
        })
}

/// `2020-01-01`, alone or before a time.
fn is_date(text: &str) -> bool {
    let bytes = text.as_bytes();
    let shape = bytes.len() >= 10 && bytes[4] == b'-' && bytes[7] == b'-';
    let digits = |range: std::ops::Range<usize>| bytes[range].iter().all(u8::is_ascii_digit);
    shape && digits(0..4) && digits(5..7) && digits(8..10)
}

/// Whether YAML's own signs stand where they would mean something.
fn has_signs(text: &str) -> bool {
    let first_is_sign = text.starts_with([
        '!', '&', '*', '%', '@', '`', '#', '|', '>', '{', '}', '[', ']', ',', '\'', '"', ' ',
    ]);
    let dash = text == "-" || text == "?" || text.starts_with("- ") || text.starts_with("? ");
    let marker = text.starts_with("---") || text.starts_with("...");
    let colon = text.contains(": ") || text.ends_with(':') || text.starts_with(':');
    first_is_sign
        || dash
        || marker
        || colon
        || text.contains(" #")
        || text.ends_with(' ')
        || text == "="
        || text == "<<"
}

fn double_quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if is_special(c) && u32::from(c) > 0xffff => {
                let _ = write!(out, "\\U{:08X}", u32::from(c));
            }
            c if is_special(c) => {
                let _ = write!(out, "\\u{:04X}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// Natural order: digits by value, other signs before letters.
fn natural(a: &str, b: &str) -> Ordering {
    let (left, right): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let Some(at) = left.iter().zip(&right).position(|(l, r)| l != r) else {
        return left.len().cmp(&right.len());
    };
    let digits_before = left[..at].iter().rev().take_while(|c| c.is_ascii_digit()).count();
    let start = at - digits_before;
    let run = |chars: &[char]| -> String {
        chars[start..].iter().take_while(|c| c.is_ascii_digit()).collect()
    };
    let (l, r) = (run(&left), run(&right));
    if !l.is_empty() && !r.is_empty() {
        let (l, r) = (l.trim_start_matches('0'), r.trim_start_matches('0'));
        return l.len().cmp(&r.len()).then_with(|| l.cmp(r)).then_with(|| a.cmp(b));
    }
    let rank = |c: char| (c.is_alphabetic(), c);
    rank(left[at]).cmp(&rank(right[at]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::parse;

    fn shown(text: &str) -> String {
        block(&Document::Own(parse(text.as_bytes()).unwrap()))
    }

    #[test]
    fn nesting() {
        let wanted = "a:\n- - 1\n  - 2\n- - a: 1\n    b: []\nb: {}\nc:\n  d:\n    e: null\n  f:\n  - x: 1\n    y: 2\n";
        // `y` as a key is a truth value to old readers, so it is quoted.
        let wanted = wanted.replace("    y: 2", "    \"y\": 2");
        let given =
            r#"{"a":[[1,2],[{"a":1,"b":[]}]],"b":{},"c":{"d":{"e":null},"f":[{"x":1,"y":2}]}}"#;
        assert_eq!(shown(given), wanted);
        assert_eq!(shown("[\"a\",\"b\"]"), "- a\n- b\n");
        assert_eq!(shown("\"t<>&\""), "t<>&\n");
    }

    #[test]
    fn text_with_line_breaks() {
        let table = [
            (r#"{"a":"l1\nl2\n"}"#, "a: |\n  l1\n  l2\n"),
            (r#"{"a":"l1\nl2"}"#, "a: |-\n  l1\n  l2\n"),
            (r#"{"a":"l1\n\nl2\n\n"}"#, "a: |+\n  l1\n\n  l2\n\n"),
            (r#"{"a":" x\ny"}"#, "a: |2-\n   x\n  y\n"),
            (r#"{"a":"\nlead"}"#, "a: |2-\n\n  lead\n"),
            (r#"{"a":"trail \nx\n"}"#, "a: \"trail \\nx\\n\"\n"),
            (r#"{"a":"a\tb\nc"}"#, "a: \"a\\tb\\nc\"\n"),
        ];
        for (given, wanted) in table {
            assert_eq!(shown(given), wanted, "{given}");
        }
    }

    #[test]
    fn quotes() {
        let double = [
            "",
            "yes",
            "1.5",
            "null",
            "~",
            "0x1f",
            "2020-01-01",
            "2020-01-01T00:00:00Z",
            "true",
            "on",
            ".5",
            "1e5",
            "1_000",
            "012",
            "12:30:45",
            "+1",
            ".inf",
            "y",
            "N",
            "Yes",
            "0o7",
            "0b1",
            "1.",
            "-1",
            "0",
            "NaN",
        ];
        for text in double {
            assert_eq!(scalar(text), format!("\"{text}\""));
        }
        let single = [
            "a: b", "a #b", "- x", " lead", "trail ", "@x", "*x", "&x", "!x", "%x", "`x", "{a}",
            "[a]", "-", "?", "? x", ":", "a:", "#x", "|", ">", "---", "...", "--- x", "]", "}x",
            ",", "=", "<<",
        ];
        for text in single {
            assert_eq!(scalar(text), format!("'{text}'"));
        }
        for text in [
            "http://x/y",
            "a\\b",
            "q\"x",
            "it's",
            "a,b",
            "\u{e9}",
            "=x",
            "a]",
            "12ab3z",
            "s.abc",
            "2.7.2",
            "753d3456-e853-d7a9-6031-6bce0f7fb078",
            "1e",
            "0xyz",
            "2020-1-1",
        ] {
            assert_eq!(scalar(text), text);
        }
        assert_eq!(scalar("tab\tx"), "\"tab\\tx\"");
        assert_eq!(scalar("\u{1f600}"), "\"\\U0001F600\"");
        assert_eq!(scalar("'x"), "'''x'");
    }

    #[test]
    fn keys_are_in_natural_order() {
        let given = r#"{"10":1,"9":1,"1":1,"b":1,"B":1,"a_b":1,"ab":1,"a":1,",":1}"#;
        let keys: Vec<String> =
            shown(given).lines().map(|line| line.trim_end_matches(": 1").to_owned()).collect();
        assert_eq!(keys, ["','", "\"1\"", "\"9\"", "\"10\"", "B", "a", "a_b", "ab", "b"]);
    }
}
