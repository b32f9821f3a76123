//! Base64 as the wire contract reads it: padded, line breaks ignored, and errors that say where.

use data_encoding::{BASE64, BASE64_MIME_PERMISSIVE, BASE64URL_NOPAD, DecodeError, Encoding};

use crate::error::{Error, Result};

/// Decodes padded base64.
///
/// # Errors
/// [`Error::Invalid`] that names the first byte at fault.
pub fn decode(text: &str) -> Result<Vec<u8>> {
    // Line breaks, and bits past the end, are rare enough to be looked for only after a failure.
    BASE64
        .decode(text.as_bytes())
        .or_else(|error| BASE64_MIME_PERMISSIVE.decode(text.as_bytes()).map_err(|_| illegal(error)))
}

/// Decodes what JWS calls base64url: another alphabet, and no padding.
pub(crate) fn decode_url(text: &str) -> Result<Vec<u8>> {
    BASE64URL_NOPAD.decode(text.as_bytes()).or_else(|error| {
        let line: String = text.chars().filter(|c| !matches!(c, '\r' | '\n')).collect();
        BASE64URL_NOPAD.decode(line.as_bytes()).map_err(|_| illegal(error))
    })
}

fn illegal(error: DecodeError) -> Error {
    Error::invalid(format!("illegal base64 data at input byte {}", error.position))
}

/// Base64 with padding.
pub(crate) fn encode(bytes: &[u8]) -> String {
    BASE64.encode(bytes)
}

/// Appends `bytes` in the given alphabet.
pub(crate) fn append(alphabet: &Encoding, bytes: &[u8], out: &mut String) {
    alphabet.encode_append(bytes, out);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_read_as_clients_write_it() {
        assert_eq!(decode("aGk=").unwrap(), b"hi");
        assert_eq!(decode("aG\r\nk=\n").unwrap(), b"hi");
        assert_eq!(decode("aGl=").unwrap(), b"hi");
        assert_eq!(decode("").unwrap(), b"");
        for (text, at) in [("a", 0), ("aGk", 0), ("aGk!", 3), ("aaaa*aaa", 4), ("aGk=a", 4)] {
            let expected = format!("illegal base64 data at input byte {at}");
            assert_eq!(decode(text).unwrap_err(), Error::Invalid(expected), "{text}");
        }
        assert_eq!(decode_url("-_8").unwrap(), [0xfb, 0xff]);
        assert_eq!(decode_url("-_\r\n8\n").unwrap(), [0xfb, 0xff]);
        assert!(decode_url("-_8=").is_err() && decode_url("-_ 8").is_err());
    }
}
