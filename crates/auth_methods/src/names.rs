//! The one spelling of names of users and roles.

use kallisto_api::Error;

/// Longest name of a role, in bytes.
const ROLE_NAME_BYTES_MAX: usize = 256;

/// The one spelling of a role's name: ASCII letters in lower case, digits, `_`, and `-`, `.`, `@` within.
///
/// # Errors
/// [`Error::UnsupportedPath`]: nothing else is a role.
pub(crate) fn role_name(name: &str) -> Result<String, Error> {
    canonical(name, ROLE_NAME_BYTES_MAX).ok_or(Error::UnsupportedPath)
}

/// The one spelling of a name; `None` for what is no name.
pub(crate) fn canonical(name: &str, bytes_max: usize) -> Option<String> {
    let name = name.to_ascii_lowercase();
    let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let fits = name.bytes().all(|byte| word(byte) || matches!(byte, b'-' | b'.' | b'@'));
    let (first, last) = (name.bytes().next()?, name.bytes().next_back()?);
    (fits && word(first) && word(last) && name.len() <= bytes_max).then_some(name)
}
