//! From tree to text: compact, sorted, escaping only what JSON demands.

use super::Json;

impl Json {
    /// Appends the compact text of this value. Recursion is bounded by the depth of the tree.
    pub fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Null => out.extend_from_slice(b"null"),
            Self::Bool(true) => out.extend_from_slice(b"true"),
            Self::Bool(false) => out.extend_from_slice(b"false"),
            Self::Number(text) => out.extend_from_slice(text.as_bytes()),
            Self::String(text) => write_string(text, out),
            Self::Array(items) => {
                out.push(b'[');
                for (at, item) in items.iter().enumerate() {
                    if at > 0 {
                        out.push(b',');
                    }
                    item.write(out);
                }
                out.push(b']');
            }
            Self::Object(map) => {
                out.push(b'{');
                for (at, (key, value)) in map.iter().enumerate() {
                    if at > 0 {
                        out.push(b',');
                    }
                    write_string(key, out);
                    out.push(b':');
                    value.write(out);
                }
                out.push(b'}');
            }
        }
    }
}

/// Appends `number` in decimal.
pub fn write_u64(number: u64, out: &mut Vec<u8>) {
    let mut digits = [0_u8; 20];
    let mut at = digits.len();
    let mut rest = number;
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

/// Bytes that are looked at together for one that has to be escaped: PEM has a line end after each 64.
const RUN_BYTES: usize = 16;

/// Whether a run has a byte that has to be escaped. Without an early end, so that the compiler looks at many bytes at a time.
fn has_special(run: &[u8]) -> bool {
    let special = |byte: u8| (byte < 0x20) | (byte == b'"') | (byte == b'\\');
    run.iter().fold(false, |found, &byte| found | special(byte))
}

/// Appends `texts` as a JSON array of strings, and `null` for none.
pub fn write_strings(texts: &[String], out: &mut Vec<u8>) {
    if texts.is_empty() {
        out.extend_from_slice(b"null");
        return;
    }
    out.push(b'[');
    for (at, text) in texts.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        write_string(text, out);
    }
    out.push(b']');
}

/// Appends `text` as a JSON string.
pub fn write_string(text: &str, out: &mut Vec<u8>) {
    out.reserve(text.len() + 2);
    out.push(b'"');
    if !has_special(text.as_bytes()) {
        out.extend_from_slice(text.as_bytes());
        out.push(b'"');
        return;
    }
    for run in text.as_bytes().chunks(RUN_BYTES) {
        if has_special(run) {
            run.iter().for_each(|&byte| write_escaped(byte, out));
        } else {
            out.extend_from_slice(run);
        }
    }
    out.push(b'"');
}

/// Appends a byte of a JSON string.
fn write_escaped(byte: u8, out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let short = match byte {
        b'"' | b'\\' => byte,
        b'\n' => b'n',
        b'\r' => b'r',
        b'\t' => b't',
        0x08 => b'b',
        0x0c => b'f',
        0..0x20 => {
            out.extend_from_slice(b"\\u00");
            out.push(DIGITS[usize::from(byte >> 4)]);
            out.push(DIGITS[usize::from(byte & 15)]);
            return;
        }
        _ => {
            out.push(byte);
            return;
        }
    };
    out.extend_from_slice(&[b'\\', short]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_written_as_the_library_writes_them() {
        let mut texts: Vec<String> =
            (0..=0x2100).filter_map(char::from_u32).map(String::from).collect();
        for at in 0..40 {
            for special in ["\n", "\"", "\\", "\u{1}", "\u{7f}", "é", "\u{2028}", "😀"] {
                texts.push(format!("{}{special}{}", "a".repeat(at), "b".repeat(40 - at)));
                texts.push(special.repeat(at));
            }
        }
        for text in texts {
            let mut out = b"x".to_vec();
            write_string(&text, &mut out);
            assert_eq!(out[1..], serde_json::to_vec(&text).unwrap(), "{text:?}");
        }
    }

    #[test]
    fn numbers_are_written_in_decimal() {
        for number in [0, 1, 9, 10, 99, 100, 12_345, u64::from(u32::MAX), u64::MAX] {
            let mut out = Vec::new();
            write_u64(number, &mut out);
            assert_eq!(out, number.to_string().as_bytes());
        }
    }
}
