//! Where the store's key comes from, and what it looks like.
//!
//! A file, else the environment, else the terminal without echo; never an argument, which every process of the machine could
//! read. The text is wiped, the key is copied into locked memory by the store.

use std::io::IsTerminal;
use std::path::Path;

use data_encoding::{BASE64, BASE64_NOPAD, HEXLOWER_PERMISSIVE};
use zeroize::Zeroizing;

use super::failure::ExecFailure;
use kallisto_command::files;

/// The variable that may hold the key.
const VARIABLE: &str = "KALLISTO_EXEC_KEY";
const KEY_BYTES: usize = 32;

/// The key of the store.
pub(super) fn find(
    file: Option<&Path>,
    stdin_is_taken: bool,
) -> Result<Zeroizing<Vec<u8>>, ExecFailure> {
    if let Some(path) = file {
        let name = path.display();
        files::warn_if_exposed(path, "the key of the store");
        let bytes = files::read(path).map(Zeroizing::new);
        let bytes = bytes.map_err(|e| ExecFailure::mistake(format!("cannot read {name}: {e}")))?;
        return decode(&bytes).ok_or_else(|| ExecFailure::mistake(format!("{name}: {WRONG_FORM}")));
    }
    if let Some(text) = std::env::var_os(VARIABLE) {
        let text = Zeroizing::new(text.into_encoded_bytes());
        return decode(&text)
            .ok_or_else(|| ExecFailure::mistake(format!("{VARIABLE}: {WRONG_FORM}")));
    }
    if stdin_is_taken || !std::io::stdin().is_terminal() {
        return Err(ExecFailure::mistake(format!(
            "no key: give --key-file or set {VARIABLE}; there is no terminal to ask on"
        )));
    }
    let asked = rpassword::prompt_password("Key of the store (will be hidden): ");
    let text = asked.map(Zeroizing::new);
    let text = text.map_err(|e| ExecFailure::mistake(format!("cannot ask for the key: {e}")))?;
    decode(text.as_bytes()).ok_or_else(|| ExecFailure::mistake(WRONG_FORM))
}

const WRONG_FORM: &str = "a key is 32 bytes, 64 hexadecimal digits or 44 characters of base64";

/// The key in a text; 32 bytes are the key itself, whatever they look like.
fn decode(text: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    if text.len() == KEY_BYTES {
        return Some(Zeroizing::new(text.to_vec()));
    }
    let trimmed = text.trim_ascii();
    let encodings = [HEXLOWER_PERMISSIVE, BASE64, BASE64_NOPAD];
    let mut decoded = encodings.iter().filter_map(|code| code.decode(trimmed).ok());
    decoded.find(|key| key.len() == KEY_BYTES).map(Zeroizing::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_may_be_written_in_three_ways() {
        let key: Vec<u8> = (0..32).collect();
        let hex = HEXLOWER_PERMISSIVE.encode(&key);
        for text in [
            key.clone(),
            hex.clone().into_bytes(),
            hex.to_ascii_uppercase().into_bytes(),
            format!("{hex}\n").into_bytes(),
            format!(" {}\r\n", BASE64.encode(&key)).into_bytes(),
            BASE64_NOPAD.encode(&key).into_bytes(),
        ] {
            assert_eq!(decode(&text).unwrap().as_slice(), key);
        }
    }

    #[test]
    fn anything_else_is_no_key() {
        for text in [&b""[..], b"short", &[0; 31], &[0; 33], &[b'a'; 63], &[b'g'; 64], &[b'!'; 44]]
        {
            assert!(decode(text).is_none());
        }
    }
}
