//! Pieces of JSON text, written by hand: a record is made for every request.

use std::io::Write;
use std::net::IpAddr;
use std::ops::Range;

use data_encoding::HEXLOWER;
use jiff::Timestamp;
use kallisto_duration::rfc3339;

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

/// Puts `text` as a JSON string in the place of another; how many bytes it has there.
pub(crate) fn put_string(bytes: &mut Vec<u8>, place: Range<usize>, text: &str) -> usize {
    let end = bytes.len();
    push_string(text, bytes);
    let len = bytes.len() - end;
    if len == place.len() {
        bytes.copy_within(end.., place.start);
        bytes.truncate(end);
    } else {
        let string = bytes.split_off(end);
        bytes.splice(place, string);
    }
    len
}

/// Appends a number in decimal.
pub(crate) fn push_number(number: i64, out: &mut Vec<u8>) {
    const DIGITS_MAX: usize = 20;
    let (mut digits, mut at) = ([0; DIGITS_MAX], DIGITS_MAX);
    let mut rest = number.unsigned_abs();
    loop {
        at -= 1;
        digits[at] = digit(rest);
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if number < 0 {
        out.push(b'-');
    }
    out.extend_from_slice(&digits[at..]);
}

/// The last digit of a number.
fn digit(number: u64) -> u8 {
    b'0' + u8::try_from(number % 10).unwrap_or_default()
}

/// Appends a time as RFC 3339 has it, in UTC and with as many digits of a second as it takes.
pub(crate) fn push_time(time: Timestamp, out: &mut Vec<u8>) {
    let nanos = u32::try_from(time.subsec_nanosecond());
    let is_written = nanos.is_ok_and(|nanos| rfc3339::push_secs(time.as_second(), nanos, out));
    if !is_written {
        out.extend_from_slice(time.to_string().as_bytes());
    }
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

    /// The same; where the value stands, with its quotes, and an empty place for one that does not.
    pub(crate) fn placed_text(&mut self, name: &str, text: &str) -> Range<usize> {
        if text.is_empty() {
            return 0..0;
        }
        let out = self.name(name);
        let start = out.len();
        push_string(text, out);
        start..out.len()
    }

    /// Writes an address.
    pub(crate) fn address(&mut self, name: &str, address: IpAddr) {
        let out = self.name(name);
        out.push(b'"');
        // Memory takes all that is written.
        let _ = write!(out, "{address}");
        out.push(b'"');
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
    fn a_number_is_written_as_a_formatter_writes_it() {
        for number in [0, 1, 9, 10, -1, -10, 1_234_567_890, i64::MAX, i64::MIN] {
            let mut out = Vec::new();
            push_number(number, &mut out);
            assert_eq!(out, number.to_string().as_bytes());
        }
    }

    #[test]
    fn a_time_is_written_as_a_time_library_writes_it() {
        let check = |secs: i64, nanos: i32| {
            let time = Timestamp::new(secs, nanos).unwrap();
            let mut out = b"x".to_vec();
            push_time(time, &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), format!("x{time}"));
        };
        // Each day of four hundred years and more, at changing times of the day.
        for day in 0..160_000 {
            check(day * 86_400 + (day * 7_919) % 86_400, 0);
        }
        for nanos in [0, 1, 10, 100, 120_000_000, 100_000_000, 999_999_999, 5_000, 10_000_000] {
            for secs in [0, 1, 86_399, 86_400, 951_782_399, 1_795_966_859, 253_402_207_200] {
                check(secs, nanos);
            }
        }
        for (secs, nanos) in
            [(-1, 0), (-1, -5), (0, -1), (-62_135_596_800, 0), (-377_705_023_201, 0)]
        {
            check(secs, nanos);
        }
        for time in [Timestamp::MIN, Timestamp::MAX] {
            check(time.as_second(), time.subsec_nanosecond());
        }
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
