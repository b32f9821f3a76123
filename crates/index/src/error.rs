//! Why a path was not taken in.
//!
//! The index refuses what it could not list again: a path it cannot cut into segments, and a path
//! past its limits. The one refusal that is not the path's fault is `Full`. What a path may look like beyond that is decided above, where one is parsed.

use std::error::Error as StdError;
use std::fmt;

use crate::limits::{PATH_BYTES_MAX, SEGMENTS_MAX};

/// A path the index does not hold. But for [`Error::Full`] it never will: the caller answers
/// "invalid".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// The path has no bytes.
    Empty,
    /// Two slashes side by side, or a slash in front.
    EmptySegment,
    /// The last byte is a slash: that names a folder, and the index holds leaves.
    TrailingSlash,
    /// The path holds a NUL byte, which pads a packed path and so cannot be part of one.
    Nul,
    /// More than `PATH_BYTES_MAX` bytes.
    TooLong,
    /// More than `SEGMENTS_MAX` segments.
    TooDeep,
    /// A bulk build met a path that does not come strictly after the one before it.
    NotAscending,
    /// There are no pages left for one more path, of 64 GiB. The caller answers "unavailable";
    /// what is there can still be read and removed.
    Full,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("the path is empty"),
            Self::EmptySegment => f.write_str("the path has an empty segment"),
            Self::TrailingSlash => f.write_str("the path ends in a slash"),
            Self::Nul => f.write_str("the path holds a nul byte"),
            Self::TooLong => write!(f, "the path is longer than {PATH_BYTES_MAX} bytes"),
            Self::TooDeep => write!(f, "the path has more than {SEGMENTS_MAX} segments"),
            Self::NotAscending => f.write_str("the paths are not in strictly ascending order"),
            Self::Full => f.write_str("the index has no room for one more path"),
        }
    }
}

impl StdError for Error {}

/// Whether `path` may be held.
pub(crate) fn validate(path: &str) -> Result<(), Error> {
    if path.is_empty() {
        return Err(Error::Empty);
    }
    if path.len() > PATH_BYTES_MAX {
        return Err(Error::TooLong);
    }
    if path.ends_with('/') {
        return Err(Error::TrailingSlash);
    }
    // One pass without a branch per byte: every insert pays for it. A slash before the first byte
    // makes a slash in front the second of two.
    let (mut previous, mut slashes, mut has_empty, mut has_nul) = (b'/', 0, false, false);
    for &byte in path.as_bytes() {
        has_empty |= byte == b'/' && previous == b'/';
        has_nul |= byte == 0;
        slashes += usize::from(byte == b'/');
        previous = byte;
    }
    if has_empty {
        return Err(Error::EmptySegment);
    }
    if has_nul {
        return Err(Error::Nul);
    }
    if slashes >= SEGMENTS_MAX {
        return Err(Error::TooDeep);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_refusal_has_its_own_name() {
        assert_eq!(validate(""), Err(Error::Empty));
        assert_eq!(validate("/"), Err(Error::TrailingSlash));
        assert_eq!(validate("a/"), Err(Error::TrailingSlash));
        assert_eq!(validate("/a"), Err(Error::EmptySegment));
        assert_eq!(validate("a//b"), Err(Error::EmptySegment));
        assert_eq!(validate("a\0b"), Err(Error::Nul));
        assert_eq!(validate(&"x".repeat(PATH_BYTES_MAX)), Ok(()));
        assert_eq!(validate(&"x".repeat(PATH_BYTES_MAX + 1)), Err(Error::TooLong));
        let deep = vec!["s"; SEGMENTS_MAX].join("/");
        assert_eq!(validate(&deep), Ok(()));
        assert_eq!(validate(&format!("{deep}/s")), Err(Error::TooDeep));
    }

    #[test]
    fn no_message_repeats_the_path() {
        for error in [
            Error::Empty,
            Error::EmptySegment,
            Error::TrailingSlash,
            Error::Nul,
            Error::TooLong,
            Error::TooDeep,
            Error::NotAscending,
            Error::Full,
        ] {
            let text = error.to_string();
            assert!(!text.is_empty() && !text.ends_with('.'), "{text}");
        }
    }
}
