//! Percent signs in texts that others write: variables of OpenTelemetry, paths that are logged.

use zeroize::Zeroizing;

/// The bytes of a text in which `%XX` stands for one of them; a percent sign without two digits stands for itself. They are wiped, since the text
/// may hold a token.
pub(crate) fn decoded(text: &str) -> Zeroizing<Vec<u8>> {
    let digit = |byte: Option<&u8>| byte.and_then(|byte| char::from(*byte).to_digit(16));
    let (bytes, mut at) = (text.as_bytes(), 0);
    let mut out = Zeroizing::new(Vec::with_capacity(bytes.len()));
    while let Some(byte) = bytes.get(at) {
        let digits = (digit(bytes.get(at + 1)), digit(bytes.get(at + 2)));
        let (byte, length) = match (byte, digits) {
            (b'%', (Some(high), Some(low))) => (u8::try_from(high * 16 + low).unwrap_or(b'%'), 3),
            _ => (*byte, 1),
        };
        out.push(byte);
        at += length;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_stand_for_bytes_and_what_is_none_for_itself() {
        for (text, bytes) in [
            ("", &b""[..]),
            ("a%20b%2Fc", b"a b/c"),
            ("%c3%A9%ff", b"\xc3\xa9\xff"),
            ("%", b"%"),
            ("%4", b"%4"),
            ("%zz%4", b"%zz%4"),
            ("%%41", b"%A"),
            ("%2541", b"%41"),
        ] {
            assert_eq!(*decoded(text), bytes, "{text}");
        }
    }
}
