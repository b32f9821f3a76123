//! The one spelling of names of users and roles, and lists of them.

use kallisto_api::{Error, Json, Response};
use kallisto_engine::Call;

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

/// The names in a folder of the method's storage, as a listing.
///
/// # Errors
/// [`Error::NotFound`] when there are none.
pub(crate) fn list(call: &Call<'_>, folder: &str) -> Result<Response, Error> {
    let names = call.storage.list_page(folder, &call.page()?)?;
    if names.is_empty() {
        return Err(Error::NotFound);
    }
    Ok(Response::data(&Json::object([("keys", Json::strings(names))])))
}
