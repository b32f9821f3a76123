//! Paths and queries as they go on the wire.
//!
//! A path given by a person is taken literally: `%41` is four characters and goes out as `%2541`,
//! a `?` is part of a name, and so are blanks, at its ends too: the server keeps `a` and `a ` apart, and
//! who names one means no other. Empty segments vanish; `..` is refused rather than resolved, because a
//! secret's name must not decide which endpoint is called.

use std::fmt::Write;

use crate::error::Error;

pub use kallisto_api::request::parse_query;
pub use kallisto_auth::Path;

/// Bytes that stand for themselves in a path, besides letters and digits.
const PATH_PLAIN: &[u8] = b"-_.~$&+,/:;=@";
/// The same in a query's key or value.
const QUERY_PLAIN: &[u8] = b"-_.~";

/// Cleans a path: no empty segments, no surrounding slashes.
pub fn clean(path: &str) -> Result<String, Error> {
    let segments: Vec<&str> =
        path.split('/').filter(|segment| !segment.is_empty() && *segment != ".").collect();
    if segments.contains(&"..") {
        return Err(Error::usage(format!("path {path:?}: '..' names no place here")));
    }
    Ok(segments.join("/"))
}

/// Percent-encodes a clean path.
pub fn encode_path(path: &str) -> String {
    encode(path, PATH_PLAIN)
}

/// Percent-encodes a query, sorted by key; a space is a `+`.
pub fn encode_query(query: &[(String, String)]) -> String {
    let mut query = query.to_vec();
    query.sort_by(|a, b| a.0.cmp(&b.0));
    let pairs: Vec<String> = query
        .iter()
        .map(|(key, value)| format!("{}={}", encode(key, QUERY_PLAIN), encode(value, QUERY_PLAIN)))
        .collect();
    pairs.join("&").replace("%20", "+")
}

fn encode(text: &str, plain: &[u8]) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || plain.contains(&byte) {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_cleaned_and_taken_literally() {
        let table = [
            ("secret/a", "secret/a"),
            ("/secret//a/", "secret/a"),
            ("secret/./a", "secret/a"),
            ("secret/sp ace", "secret/sp%20ace"),
            (" secret/ a /b ", "%20secret/%20a%20/b%20"),
            ("secret/p%41", "secret/p%2541"),
            ("secret/q?x=1", "secret/q%3Fx=1"),
            ("secret/\u{e9}#", "secret/%C3%A9%23"),
            ("", ""),
        ];
        for (given, wanted) in table {
            let cleaned = clean(given).map(|path| encode_path(&path));
            assert_eq!(cleaned.ok().as_deref(), Some(wanted), "{given}");
        }
        assert!(clean("secret/../sys").is_err());
    }

    #[test]
    fn queries_are_sorted() {
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        let query = [pair("list", "true"), pair("after", "a b/&"), pair("limit", "-1")];
        assert_eq!(encode_query(&query), "after=a+b%2F%26&limit=-1&list=true");
    }
}
