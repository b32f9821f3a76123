//! OpenPGP keys that shares and root tokens are encrypted to, from files named on the command line.

use std::path::Path;

use data_encoding::BASE64;
use kallisto_command::error::Error;
use kallisto_command::files;
use kallisto_command::json::Json;
use kallisto_openpgp::{KEY_BYTES_MAX, armor};

/// How the names of keys at Keybase begin.
const KEYBASE: &str = "keybase:";
/// Most bytes of a file: a key in base64, with room for the lines of its armor.
const FILE_BYTES_MAX: usize = 2 * KEY_BYTES_MAX;

/// The keys in these files, as a request has them.
///
/// # Errors
/// A usage error naming the file that cannot be read or is no key.
pub(super) fn keys(flag: &str, names: &[String]) -> Result<Json, Error> {
    let keys = names.iter().map(|name| key(flag, name));
    Ok(Json::strings(keys.collect::<Result<Vec<_>, _>>()?))
}

/// The key in a file: in ASCII armor, in binary form, or in base64.
///
/// # Errors
/// A usage error naming the file when it cannot be read or is no key.
pub(super) fn key(flag: &str, name: &str) -> Result<String, Error> {
    let name = name.trim();
    if name.starts_with(KEYBASE) {
        return Err(Error::usage(format!(
            "{flag}: keys are not fetched from Keybase: save the public key of {name} to a file, check its \
             fingerprint, and name that file"
        )));
    }
    let path = Path::new(name.strip_prefix('@').unwrap_or(name));
    let refuse = |why: String| Error::usage(format!("{flag}: {}: {why}", path.display()));
    let bytes = files::read(path).map_err(|error| refuse(error.to_string()))?;
    if bytes.len() > FILE_BYTES_MAX {
        return Err(refuse("it is longer than a key".to_owned()));
    }
    let Ok(text) = std::str::from_utf8(&bytes) else { return Ok(BASE64.encode(&bytes)) };
    if armor::is_armored(text) {
        return armor::decode(text)
            .map(|key| BASE64.encode(&key))
            .map_err(|why| refuse(why.to_string()));
    }
    let text: String = text.split_ascii_whitespace().collect();
    match BASE64.decode(text.as_bytes()) {
        Ok(_) if !text.is_empty() => Ok(text),
        _ => Ok(BASE64.encode(&bytes)),
    }
}
