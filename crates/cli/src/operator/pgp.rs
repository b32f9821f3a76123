//! OpenPGP keys that shares and root tokens are encrypted to, from files named on the command line.

use std::path::Path;

use data_encoding::BASE64;
use kallisto_command::error::Error;
use kallisto_command::files;
use kallisto_command::json::Json;
use kallisto_openpgp::{self as pgp, KEY_BYTES_MAX, armor};

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
    let key = binary(bytes).map_err(|why| refuse(why.to_string()))?;
    Ok(BASE64.encode(&key))
}

/// A key in binary form from the bytes of its file. What is plainly none never leaves this machine: nothing, a private key,
/// and text that is no key.
fn binary(bytes: Vec<u8>) -> Result<Vec<u8>, pgp::Error> {
    let key = match std::str::from_utf8(&bytes) {
        Ok(text) if armor::is_armored(text) => armor::decode(text)?,
        Ok(text) => {
            let text: String = text.split_ascii_whitespace().collect();
            BASE64.decode(text.as_bytes()).map_err(|_| pgp::Error::Malformed)?
        }
        Err(_) => bytes,
    };
    if key.is_empty() {
        // A request with an empty key is one without encryption.
        return Err(pgp::Error::Malformed);
    }
    if pgp::is_private(&key) { Err(pgp::Error::Secret) } else { Ok(key) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_public_key_is_refused_here() {
        for (bytes, expected) in [
            (&b"mQE="[..], Ok(vec![0x99, 1])),
            (b"mQ\nE=\n", Ok(vec![0x99, 1])),
            (b"\x99\x01\xff", Ok(vec![0x99, 1, 0xff])),
            (b"", Err(pgp::Error::Malformed)),
            (b" \n", Err(pgp::Error::Malformed)),
            (b"root:x:0:0", Err(pgp::Error::Malformed)),
            (b"lQE=", Err(pgp::Error::Secret)),
            (b"\x95\x01\xff", Err(pgp::Error::Secret)),
            (b"\xc5\x01\xff", Err(pgp::Error::Secret)),
        ] {
            assert_eq!(binary(bytes.to_vec()), expected, "{bytes:?}");
        }
    }
}
