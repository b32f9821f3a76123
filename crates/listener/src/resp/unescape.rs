//! The characters of a JSON string, without making a tree of it.
//!
//! A value with line breaks, as every PEM file is, has escapes in its text. Its characters are copied to where they go in
//! one pass: how many they are is known at its end.

use memchr::{memchr, memchr2};

/// Appends the characters between a string's quotes, no more bytes than `inner` has. `None` if that is no text of a string; a
/// part may have been appended then.
pub(crate) fn unescape_into(mut inner: &[u8], out: &mut Vec<u8>) -> Option<()> {
    out.reserve(inner.len());
    while let Some(at) = memchr(b'\\', inner) {
        inner = &inner[push_escaped(inner, at, out)?..];
    }
    out.extend_from_slice(inner);
    Some(())
}

/// The same up to the quote that ends the string, which is found in the same pass. `None` also when there is none.
pub(crate) fn unescape_to_quote(mut text: &[u8], out: &mut Vec<u8>) -> Option<()> {
    out.reserve(text.len());
    loop {
        let at = memchr2(b'"', b'\\', text)?;
        if text[at] == b'"' {
            out.extend_from_slice(&text[..at]);
            return Some(());
        }
        text = &text[push_escaped(text, at, out)?..];
    }
}

/// Appends what stands before the escape at `at`, and the character that this is; where it ends.
fn push_escaped(text: &[u8], at: usize, out: &mut Vec<u8>) -> Option<usize> {
    out.extend_from_slice(&text[..at]);
    Some(match *text.get(at + 1)? {
        b'u' => {
            let (character, used) = escape_by_number(&text[at..])?;
            out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
            at + used
        }
        letter => {
            out.push(escaped_by(letter)?);
            at + 2
        }
    })
}

/// The character that a letter behind a backslash stands for.
fn escaped_by(letter: u8) -> Option<u8> {
    Some(match letter {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'b' => 0x08,
        b'f' => 0x0c,
        b'"' | b'\\' | b'/' => letter,
        _ => return None,
    })
}

/// `\\uXXXX`, or two of them that are a surrogate pair.
fn escape_by_number(bytes: &[u8]) -> Option<(char, usize)> {
    let first = unit(bytes)?;
    if let Some(character) = char::from_u32(first.into()) {
        return Some((character, 6));
    }
    let pair = [first, unit(bytes.get(6..)?)?];
    let character = char::decode_utf16(pair).next()?.ok()?;
    Some((character, 12))
}

fn unit(bytes: &[u8]) -> Option<u16> {
    let digits = bytes.strip_prefix(b"\\u")?.get(..4)?;
    if !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use kallisto_core::json::{self, Json};

    use super::*;

    /// What comes of a string's text, quotes and all.
    fn unescaped(raw: &str) -> Option<String> {
        let inner = raw.strip_prefix('"')?.strip_suffix('"')?.as_bytes();
        let mut out = Vec::new();
        unescape_into(inner, &mut out)?;
        assert!(out.len() <= inner.len(), "{raw}");
        Some(String::from_utf8(out).unwrap())
    }

    #[test]
    fn what_is_unescaped_is_what_a_parser_reads() {
        let pieces = [
            "a",
            "\u{e9}",
            "\\n",
            "\\r",
            "\\t",
            "\\b",
            "\\f",
            "\\\\",
            "\\\"",
            "\\/",
            "\\u0000",
            "\\u00e9",
            "\\uFFFF",
            "\\ud83d\\udd11",
            "\u{1f511}",
            "-----BEGIN-----",
        ];
        let count = pieces.len();
        // Every three of them, one after another.
        for at in 0..count * count * count {
            let inner = [at % count, at / count % count, at / count / count].map(|at| pieces[at]);
            let inner = inner.concat();
            let raw = format!("\"{inner}\"");
            let Ok(Json::String(parsed)) = json::parse(raw.as_bytes()) else { panic!("{raw}") };
            assert_eq!(unescaped(&raw), Some(parsed.clone()), "{raw}");
            // Up to its quote, whatever stands behind it.
            for behind in ["\"", "\"}", "\",\"a\":\"\\\\\"}"] {
                let mut out = b"before".to_vec();
                let text = format!("{inner}{behind}");
                assert_eq!(unescape_to_quote(text.as_bytes(), &mut out), Some(()), "{text}");
                assert_eq!(out, format!("before{parsed}").as_bytes());
            }
        }
    }

    #[test]
    fn what_is_no_escape_is_not_read_as_one() {
        for inner in [
            "\\",
            "a\\x",
            "\\u12",
            "\\u12g4",
            "\\u+123",
            "\\ud83d",
            "\\ud83dabcdef",
            "\\ud83d\\u0041",
            "\\udc00\\ud83d",
        ] {
            assert_eq!(unescape_into(inner.as_bytes(), &mut Vec::new()), None, "{inner}");
            let quoted = format!("{inner}\"");
            assert_eq!(unescape_to_quote(quoted.as_bytes(), &mut Vec::new()), None, "{quoted}");
        }
        for without_end in ["", "a", "a\\\"", "\\n"] {
            assert_eq!(unescape_to_quote(without_end.as_bytes(), &mut Vec::new()), None);
        }
    }
}
