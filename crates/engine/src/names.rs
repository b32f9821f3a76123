//! The names of what an engine keeps.

use kallisto_api::Error;

/// Longest name, in bytes.
pub const NAME_BYTES_MAX: usize = 256;

/// Checks a name that stands in a path: ASCII letters, digits and `_`, and `-`, `.` and `@` within.
///
/// # Errors
/// [`Error::UnsupportedPath`]: nothing else is a name, so there is no such path.
pub fn check(name: &str) -> Result<(), Error> {
    let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let fits = name.bytes().all(|byte| word(byte) || matches!(byte, b'-' | b'.' | b'@'));
    let ends = name.bytes().next().is_some_and(word) && name.bytes().next_back().is_some_and(word);
    if fits && ends && name.len() <= NAME_BYTES_MAX { Ok(()) } else { Err(Error::UnsupportedPath) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_words_with_dots_dashes_and_at_signs_inside() {
        for name in ["a", "A_1", "a.b-c", "a@b", "__"] {
            assert_eq!(check(name), Ok(()), "{name}");
        }
        let long = "a".repeat(NAME_BYTES_MAX + 1);
        for name in ["", "-a", "a.", "@", "a b", "a/b", "é", &long] {
            assert_eq!(check(name), Err(Error::UnsupportedPath), "{name}");
        }
    }
}
