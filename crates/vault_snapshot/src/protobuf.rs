//! The wire form of protocol buffers, as much of it as is met: fields with numbers and with bytes.
//!
//! A message is a list of fields, and whoever reads it says what each number means; [`WireField::unknown`] is the answer to any other.

use crate::error::{Error, Result};
use crate::limits::FIELDS_MAX;

/// Bytes of a number at the most: 64 bits, seven at a time.
const VARINT_BYTES_MAX: usize = 10;
/// Forms of a field that are met.
const NUMBER: u64 = 0;
const BYTES: u64 = 2;

/// A field of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WireField<'a> {
    pub(crate) number: u64,
    pub(crate) value: WireValue<'a>,
}

/// What a field holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WireValue<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

impl<'a> WireField<'a> {
    pub(crate) fn bytes(&self) -> Result<&'a [u8]> {
        match self.value {
            WireValue::Bytes(bytes) => Ok(bytes),
            WireValue::Number(_) => Err(self.misformed()),
        }
    }

    pub(crate) fn text(&self) -> Result<String> {
        let text = std::str::from_utf8(self.bytes()?);
        text.map(str::to_owned).map_err(|_| self.misformed())
    }

    pub(crate) fn number(&self) -> Result<u64> {
        match self.value {
            WireValue::Number(number) => Ok(number),
            WireValue::Bytes(_) => Err(self.misformed()),
        }
    }

    /// The error for a field that the reader of a message does not know.
    pub(crate) fn unknown<T>(&self, message: &str) -> Result<T> {
        Err(Error::record(format!("field {} of {message} is not understood", self.number)))
    }

    fn misformed(&self) -> Error {
        Error::record(format!("field {} has another form than it should", self.number))
    }
}

/// The number at the front of `bytes`, and what follows it; `None` where there is none.
pub(crate) fn varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut number = 0_u64;
    for (at, byte) in bytes.iter().take(VARINT_BYTES_MAX).enumerate() {
        let bits = u64::from(byte & 0x7f);
        let shift = 7 * u32::try_from(at).ok()?;
        let shifted = bits << shift;
        if shifted >> shift != bits {
            return None;
        }
        number |= shifted;
        if byte & 0x80 == 0 {
            return Some((number, bytes.get(at + 1..)?));
        }
    }
    None
}

/// The fields of a message.
pub(crate) fn fields(mut bytes: &[u8]) -> Result<Vec<WireField<'_>>> {
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let Some((field, rest)) = next(bytes) else {
            return Err(Error::record("a message is damaged, or of a form that is not understood"));
        };
        if fields.len() >= FIELDS_MAX {
            return Err(Error::record(format!("a message has more than {FIELDS_MAX} fields")));
        }
        fields.push(field);
        bytes = rest;
    }
    Ok(fields)
}

fn next(bytes: &[u8]) -> Option<(WireField<'_>, &[u8])> {
    let (tag, rest) = varint(bytes)?;
    let number = tag >> 3;
    let (value, rest) = match tag & 7 {
        NUMBER => {
            let (number, rest) = varint(rest)?;
            (WireValue::Number(number), rest)
        }
        BYTES => {
            let (len, rest) = varint(rest)?;
            let (bytes, rest) = rest.split_at_checked(usize::try_from(len).ok()?)?;
            (WireValue::Bytes(bytes), rest)
        }
        _ => return None,
    };
    (number > 0).then_some((WireField { number, value }, rest))
}

/// A pair of a map: both are empty where they are not said.
pub(crate) fn text_pair(bytes: &[u8]) -> Result<(String, String)> {
    let mut pair = (String::new(), String::new());
    for field in fields(bytes)? {
        match field.number {
            1 => pair.0 = field.text()?,
            2 => pair.1 = field.text()?,
            _ => return field.unknown("a pair"),
        }
    }
    Ok(pair)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::indexing_slicing, reason = "tests index what they built")]
    use super::*;
    use crate::testing::{put_bytes, put_number};

    #[test]
    fn fields_read_back_and_damage_is_told() {
        let mut message = Vec::new();
        put_number(&mut message, 7, u64::MAX);
        put_bytes(&mut message, 401, b"text");
        let read = fields(&message).unwrap();
        assert_eq!(read.len(), 2);
        assert_eq!(read.first().unwrap().number().unwrap(), u64::MAX);
        assert_eq!(read.last().unwrap().text().unwrap(), "text");
        assert!(read.first().unwrap().bytes().is_err() && read.last().unwrap().number().is_err());
        for end in 1..message.len() {
            let cut = fields(&message[..end]);
            assert!(cut.is_err() || cut.unwrap().len() == 1, "{end}");
        }
        // A number of more than 64 bits, one without an end, a field zero, a form that is not met.
        for bad in [
            &[8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2][..],
            &[8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1],
            &[0, 1],
            &[9, 0, 0, 0, 0, 0, 0, 0, 0],
            &[10, 0xff, 0xff, 0xff, 0xff, 0x7f],
        ] {
            assert!(fields(bad).is_err(), "{bad:?}");
        }
    }
}
