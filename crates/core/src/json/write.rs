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

/// Appends `text` as a JSON string.
pub fn write_string(text: &str, out: &mut Vec<u8>) {
    if text.bytes().all(|byte| byte >= 0x20 && byte != b'"' && byte != b'\\') {
        out.push(b'"');
        out.extend_from_slice(text.as_bytes());
        out.push(b'"');
        return;
    }
    // A `Vec` takes every byte and a `str` is always a JSON string, so this cannot fail.
    serde_json::to_writer(out, text).expect("writing a string to memory");
}
