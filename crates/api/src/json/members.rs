//! Looking into text that is known to be JSON, without building a tree of it.
//!
//! Made for what the server wrote itself: a reply's data, a stored secret. On text that is no JSON it
//! finds less or something else, and never panics or fails to end.

use memchr::memchr2;

/// The members of an object as raw text, in their order.
#[derive(Clone, Debug)]
pub struct RawMembers<'t> {
    rest: &'t [u8],
}

/// The members of the object that `text` is; none when it is something else.
pub fn members(text: &[u8]) -> RawMembers<'_> {
    let rest = text.trim_ascii_start().strip_prefix(b"{").unwrap_or_default();
    RawMembers { rest }
}

/// The raw text of the member called `name`.
pub fn member<'t>(text: &'t [u8], name: &str) -> Option<&'t [u8]> {
    members(text).find(|(key, _)| is_string(key, name)).map(|(_, value)| value)
}

/// Whether raw text is the string `text`.
fn is_string(raw: &[u8], text: &str) -> bool {
    let Some(inner) = raw.strip_prefix(b"\"").and_then(|raw| raw.strip_suffix(b"\"")) else {
        return false;
    };
    if inner.contains(&b'\\') {
        matches!(super::parse(raw), Ok(super::Json::String(given)) if given == text)
    } else {
        inner == text.as_bytes()
    }
}

impl<'t> Iterator for RawMembers<'t> {
    type Item = (&'t [u8], &'t [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let (key, rest) = split_value(self.rest.trim_ascii_start())?;
        let rest = rest.trim_ascii_start().strip_prefix(b":")?;
        let (value, rest) = split_value(rest.trim_ascii_start())?;
        let rest = rest.trim_ascii_start();
        self.rest = rest.strip_prefix(b",").unwrap_or_default();
        Some((key, value))
    }
}

/// The value that `text` starts with, and what follows it; `None` when there is none.
fn split_value(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let length = match text.first()? {
        b'"' => string_bytes(text),
        b'{' | b'[' => nested_bytes(text),
        _ => {
            let is_end = |byte: &u8| matches!(byte, b',' | b'}' | b']' | b':' | b' ' | b'\n');
            text.iter().position(is_end).unwrap_or(text.len())
        }
    };
    (length > 0).then(|| text.split_at(length))
}

/// Bytes of the string that `text` starts with, quotes included.
fn string_bytes(text: &[u8]) -> usize {
    let mut at = 1;
    while let Some(found) = text.get(at..).and_then(|rest| memchr2(b'"', b'\\', rest)) {
        at += found;
        match text[at] {
            b'"' => return at + 1,
            _ => at += 2,
        }
    }
    text.len()
}

/// Bytes of the object or array that `text` starts with.
fn nested_bytes(text: &[u8]) -> usize {
    let (mut at, mut depth) = (0, 0_usize);
    while let Some(&byte) = text.get(at) {
        match byte {
            b'"' => {
                at += string_bytes(&text[at..]);
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' => {
                depth -= 1;
                if depth == 0 {
                    return at + 1;
                }
            }
            _ => {}
        }
        at += 1;
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::super::{Json, parse};
    use super::*;

    #[test]
    fn members_are_those_of_the_tree() {
        for text in [
            r#"{}"#,
            r#"{"a":1}"#,
            r#" { "a" : [1, {"b":"]}"}] , "b\"c":"\\" ,"d":null}"#,
            r#"{"data":{"value":"x","y":{"z":[]}},"metadata":{"version":3}}"#,
            r#"{"":"","\u0061":true}"#,
        ] {
            let Ok(Json::Object(tree)) = parse(text.as_bytes()) else { panic!("{text}") };
            assert_eq!(members(text.as_bytes()).count(), tree.len(), "{text}");
            for (name, value) in &tree {
                let found = member(text.as_bytes(), name).unwrap();
                assert!(parse(found).unwrap() == *value, "{text} {name}");
            }
            assert_eq!(member(text.as_bytes(), "absent"), None);
        }
    }

    #[test]
    fn what_is_no_json_is_looked_at_and_left() {
        let whole = br#"{"a":{"b":"c\"","d":[1,2]},"e":"f"}"#;
        for start in 0..whole.len() {
            for end in start..=whole.len() {
                assert!(members(&whole[start..end]).count() < whole.len());
            }
        }
        for text in ["", "}", "]]", "{]}", "{\"a\":}", "{\"a\":]", "[1]", "{,}", "{:}"] {
            assert!(member(text.as_bytes(), "a").is_none(), "{text}");
        }
    }
}
