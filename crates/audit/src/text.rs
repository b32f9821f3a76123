//! Pieces of JSON text, written by hand: a record is made for every request.

use data_encoding::HEXLOWER;

/// Appends `text` as a JSON string.
pub(crate) fn push_string(text: &str, out: &mut Vec<u8>) {
    let special = |byte: u8| (byte < 0x20) | (byte == b'"') | (byte == b'\\');
    if !text.bytes().fold(false, |found, byte| found | special(byte)) {
        out.push(b'"');
        out.extend_from_slice(text.as_bytes());
        out.push(b'"');
        return;
    }
    // A `Vec` takes every byte and a `str` is always a JSON string, so this cannot fail.
    serde_json::to_writer(out, text).expect("writing a string to memory");
}

/// Appends a number in decimal.
pub(crate) fn push_number(number: i64, out: &mut Vec<u8>) {
    out.extend_from_slice(number.to_string().as_bytes());
}

/// Appends bytes as lower-case hexadecimal text.
pub(crate) fn push_hex(bytes: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    out.resize(start + HEXLOWER.encode_len(bytes.len()), 0);
    HEXLOWER.encode_mut(bytes, &mut out[start..]);
}

/// Writes the members of one object, with commas between.
pub(crate) struct ObjectWriter<'o> {
    out: &'o mut Vec<u8>,
    empty: bool,
}

impl<'o> ObjectWriter<'o> {
    /// Opens an object at the end of `out`.
    pub(crate) fn open(out: &'o mut Vec<u8>) -> Self {
        out.push(b'{');
        Self { out, empty: true }
    }

    /// Writes a name, and gives the place of its value. Names are ours and need no escapes.
    pub(crate) fn name(&mut self, name: &str) -> &mut Vec<u8> {
        if !self.empty {
            self.out.push(b',');
        }
        self.empty = false;
        self.out.push(b'"');
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b"\":");
        self.out
    }

    /// Writes a member, unless it is empty.
    pub(crate) fn text(&mut self, name: &str, text: &str) {
        if !text.is_empty() {
            push_string(text, self.name(name));
        }
    }

    /// Writes a member, unless it is zero.
    pub(crate) fn number(&mut self, name: &str, number: i64) {
        if number != 0 {
            push_number(number, self.name(name));
        }
    }

    /// Writes a member, unless the list is empty.
    pub(crate) fn texts<S: AsRef<str>>(&mut self, name: &str, texts: &[S]) {
        if texts.is_empty() {
            return;
        }
        let out = self.name(name);
        out.push(b'[');
        for (at, text) in texts.iter().enumerate() {
            if at > 0 {
                out.push(b',');
            }
            push_string(text.as_ref(), out);
        }
        out.push(b']');
    }

    /// Closes the object.
    pub(crate) fn close(self) {
        self.out.push(b'}');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A name with a quote in it would write members of its own into a record.
    #[test]
    fn a_string_is_written_as_a_json_library_writes_it() {
        let written = |text: &str| {
            let mut out = Vec::new();
            push_string(text, &mut out);
            String::from_utf8(out).unwrap()
        };
        let characters = (0..0x300).chain([0x2028, 0x2029, 0xfeff, 0x1f600]);
        for character in characters.filter_map(char::from_u32) {
            for text in [format!("{character}"), format!("a{character}b"), format!("\"{character}")]
            {
                assert_eq!(written(&text), serde_json::to_string(&text).unwrap());
            }
        }
        assert_eq!(written(""), "\"\"");
    }

    #[test]
    fn the_members_of_an_object_are_those_that_say_something() {
        for count in 0..4 {
            let texts: Vec<String> = (0..count).map(|at| format!("t{at}")).collect();
            let mut out = Vec::new();
            let mut members = ObjectWriter::open(&mut out);
            members.text("empty", "");
            members.text("text", "a");
            members.number("zero", 0);
            members.number("number", -7);
            members.texts("texts", &texts);
            members.close();
            let read: serde_json::Value = serde_json::from_slice(&out).unwrap();
            let mut wanted = serde_json::json!({"text": "a", "number": -7});
            if count > 0 {
                wanted["texts"] = texts.into();
            }
            assert_eq!(read, wanted);
        }
    }
}
