//! The canonical request path: decoded once, checked once, then trusted.
//!
//! Callers: the listener makes one from the bytes of a request target; `core` routes, authorises
//! and stores by it. A path is what follows `/v1/`, percent-decoded.
//!
//! Invariants of every `Path`:
//! - valid UTF-8, at most [`PATH_BYTES_MAX`] bytes and [`SEGMENTS_MAX`] segments;
//! - no segment is empty, `.` or `..` (an ending `/` marks a folder and opens no empty segment);
//! - no control character and no backslash.
//!
//! `%2F` decodes to a separator like any other `/`: the wire contract allows it in names, and since
//! decoding happens here and only here, nobody can see two spellings of one path.

use std::borrow::Cow;
use std::fmt;

/// Longest path, in bytes after decoding.
pub const PATH_BYTES_MAX: usize = 1024;
/// Most segments in a path.
pub const SEGMENTS_MAX: usize = 32;

/// A decoded, checked request path without its leading slash, such as `secret/data/app`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Path<'a>(Cow<'a, str>);

/// Why a request target is not a path. Positions are byte offsets into the decoded path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathError {
    /// Longer than [`PATH_BYTES_MAX`].
    TooLong,
    /// More than [`SEGMENTS_MAX`] segments.
    TooDeep,
    /// A `%` that is not followed by two hexadecimal digits.
    BadEscape(usize),
    /// The decoded bytes are not UTF-8.
    NotUtf8(usize),
    /// A control character.
    Control(usize),
    /// A backslash.
    Backslash(usize),
    /// A segment that is `.` or `..`.
    DotSegment(usize),
    /// Two slashes in a row, or a leading one.
    EmptySegment(usize),
}

impl<'a> Path<'a> {
    /// Decodes and checks `raw`, the percent-encoded target below `/v1/`.
    ///
    /// # Errors
    /// A [`PathError`] naming the first broken rule and where.
    pub fn decode(raw: &'a str) -> Result<Self, PathError> {
        if raw.len() > 3 * PATH_BYTES_MAX {
            return Err(PathError::TooLong);
        }
        let decoded = percent_decode(raw)?;
        check(&decoded)?;
        Ok(Self(decoded))
    }

    /// Checks a path that is not percent-encoded.
    ///
    /// # Errors
    /// A [`PathError`] naming the first broken rule and where.
    pub fn literal(text: &'a str) -> Result<Self, PathError> {
        check(text)?;
        Ok(Self(Cow::Borrowed(text)))
    }

    /// The same path, holding its own text.
    pub fn into_owned(self) -> Path<'static> {
        Path(Cow::Owned(self.0.into_owned()))
    }

    /// The path as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// True when the path ends in a slash (or is empty): it names a folder, not an entry.
    pub fn is_folder(&self) -> bool {
        self.0.is_empty() || self.0.ends_with('/')
    }
}

fn percent_decode(raw: &str) -> Result<Cow<'_, str>, PathError> {
    if !raw.as_bytes().contains(&b'%') {
        return Ok(Cow::Borrowed(raw));
    }
    let bytes = raw.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        if byte == b'%' {
            let pair = bytes.get(at + 1).zip(bytes.get(at + 2));
            let value = pair.and_then(|(&high, &low)| Some((hex(high)? << 4) | hex(low)?));
            decoded.push(value.ok_or(PathError::BadEscape(decoded.len()))?);
            at += 3;
        } else {
            decoded.push(byte);
            at += 1;
        }
    }
    String::from_utf8(decoded)
        .map(Cow::Owned)
        .map_err(|error| PathError::NotUtf8(error.utf8_error().valid_up_to()))
}

const fn hex(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}

/// Bytes that mean nothing wherever they stand: all but the separator, controls and what parts of them may be.
static IS_ORDINARY: [bool; 256] = {
    let mut is_ordinary = [true; 256];
    let mut byte = 0;
    while byte < 256 {
        is_ordinary[byte] = !matches!(byte as u8, b'/' | b'\\' | 0..=0x1f | 0x7f | 0x80..=0x9f);
        byte += 1;
    }
    is_ordinary
};

/// One pass over the bytes: a path is short, and every request has one.
fn check(path: &str) -> Result<(), PathError> {
    if path.len() > PATH_BYTES_MAX {
        return Err(PathError::TooLong);
    }
    let bytes = path.as_bytes();
    let mut start = 0;
    let mut segments = 0;
    for (at, &byte) in bytes.iter().enumerate() {
        if IS_ORDINARY[byte as usize] {
            continue;
        }
        match byte {
            b'/' => {
                check_segment(&bytes[start..at], start)?;
                start = at + 1;
                segments += 1;
            }
            b'\\' => return Err(PathError::Backslash(at)),
            0..=0x1f | 0x7f => return Err(PathError::Control(at)),
            // The C1 controls, U+0080 to U+009F, are the bytes C2 80 to C2 9F.
            0x80..=0x9f if at > 0 && bytes[at - 1] == 0xc2 => {
                return Err(PathError::Control(at - 1));
            }
            _ => {}
        }
    }
    if start < bytes.len() {
        check_segment(&bytes[start..], start)?;
        segments += 1;
    }
    if segments > SEGMENTS_MAX { Err(PathError::TooDeep) } else { Ok(()) }
}

fn check_segment(segment: &[u8], at: usize) -> Result<(), PathError> {
    match segment {
        b"" => Err(PathError::EmptySegment(at)),
        b"." | b".." => Err(PathError::DotSegment(at)),
        _ => Ok(()),
    }
}

impl fmt::Display for PathError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong => write!(f, "path is longer than {PATH_BYTES_MAX} bytes"),
            Self::TooDeep => write!(f, "path has more than {SEGMENTS_MAX} segments"),
            Self::BadEscape(at) => write!(f, "path has a malformed percent escape at byte {at}"),
            Self::NotUtf8(at) => write!(f, "path is not valid UTF-8 at byte {at}"),
            Self::Control(at) => write!(f, "path has a control character at byte {at}"),
            Self::Backslash(at) => write!(f, "path has a backslash at byte {at}"),
            Self::DotSegment(at) => write!(f, "path has a '.' or '..' segment at byte {at}"),
            Self::EmptySegment(at) => write!(f, "path has an empty segment at byte {at}"),
        }
    }
}

impl std::error::Error for PathError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(raw: &str) -> Result<String, PathError> {
        Path::decode(raw).map(|path| path.as_str().to_owned())
    }

    #[test]
    fn plain_paths_are_borrowed_and_kept() {
        for raw in ["", "a", "a/b", "a/b/", "secret/data/é", "a.b/..c/...", "a%2Fb"] {
            assert!(Path::decode(raw).is_ok(), "{raw}");
        }
        assert!(matches!(Path::decode("a/b").unwrap().0, Cow::Borrowed(_)));
        assert_eq!(decoded("a%2Fb%20c").unwrap(), "a/b c");
    }

    #[test]
    fn dot_segments_are_refused() {
        for raw in ["..", "a/../b", "a/.", "%2e%2e/a", "a/%2E./b", "./a", "a%2f..%2fb", "a/../"] {
            assert!(matches!(decoded(raw), Err(PathError::DotSegment(_))), "{raw}");
        }
        for raw in ["a//b", "/a", "/", "a%2f%2fb", "a//", "%2F"] {
            assert!(matches!(decoded(raw), Err(PathError::EmptySegment(_))), "{raw}");
        }
        for (raw, error) in [
            ("a%00", PathError::Control(1)),
            ("a%7f", PathError::Control(1)),
            ("a%c2%85", PathError::Control(1)),
            ("%ff", PathError::NotUtf8(0)),
            ("a%5cb", PathError::Backslash(1)),
            ("a\\b", PathError::Backslash(1)),
            ("a%2", PathError::BadEscape(1)),
            ("a%zz", PathError::BadEscape(1)),
        ] {
            assert_eq!(decoded(raw), Err(error), "{raw}");
        }
    }

    #[test]
    fn a_path_given_as_text_is_taken_as_it_is() {
        assert_eq!(Path::literal("a%2Fb/100%").unwrap().as_str(), "a%2Fb/100%");
        assert_eq!(Path::literal("a/../b"), Err(PathError::DotSegment(2)));
        assert_eq!(Path::literal("/a"), Err(PathError::EmptySegment(0)));
    }

    /// No spelling of a path decodes to anything but that path: decoding is idempotent on results
    /// without `%`, so what is authorised is what is stored.
    #[test]
    fn every_spelling_is_one_path_or_refused() {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let alphabet = ["a", "b", "/", ".", "%2e", "%2F", "%61", "\\", "%00", "é", "%c3%a9", " "];
        for _ in 0..20_000 {
            let mut raw = String::new();
            for _ in 0..8 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                raw.push_str(alphabet[(state >> 33) as usize % alphabet.len()]);
            }
            let Ok(path) = Path::decode(&raw) else { continue };
            let again = Path::decode(path.as_str()).unwrap();
            assert_eq!(again, path);
            let body = path.as_str().strip_suffix('/').unwrap_or(path.as_str());
            assert!(body.split('/').all(|s| !s.is_empty() && s != "." && s != ".."), "{raw}");
        }
    }

    /// The byte pass agrees with `char::is_control` on every character.
    #[test]
    fn controls_are_those_of_unicode() {
        for character in '\0'..=char::MAX {
            let path = format!("a{character}b");
            let refused = check(&path) == Err(PathError::Control(1));
            assert_eq!(refused, character.is_control(), "{character:?}");
        }
    }

    #[test]
    fn limits_hold_at_their_edges() {
        let long = "a".repeat(PATH_BYTES_MAX);
        assert!(Path::decode(&long).is_ok());
        assert_eq!(decoded(&format!("{long}a")), Err(PathError::TooLong));
        assert_eq!(decoded(&"a".repeat(100_000)), Err(PathError::TooLong));
        // Each byte of a path may be escaped.
        assert_eq!(decoded(&"%61".repeat(PATH_BYTES_MAX)), Ok(long.clone()));
        assert_eq!(decoded(&"%61".repeat(PATH_BYTES_MAX + 1)), Err(PathError::TooLong));
        let deep = ["a"; SEGMENTS_MAX].join("/");
        assert!(Path::decode(&deep).is_ok());
        assert_eq!(decoded(&format!("{deep}/a")), Err(PathError::TooDeep));
    }
}
