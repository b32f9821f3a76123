//! Serial numbers.

use std::fmt;

use crate::error::{Error, Result};

/// Bytes of a serial number.
pub const SERIAL_BYTES: usize = 20;

/// A serial number: not negative, at most 20 bytes. Those made here are positive; roots of others have 0, too.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Serial {
    bytes: [u8; SERIAL_BYTES],
    /// Leading zeros that are not of the number.
    skip: u8,
}

impl Serial {
    /// A serial number of random bytes: 159 of their bits count, and it is as long as may be.
    pub fn of_random(mut bytes: [u8; SERIAL_BYTES]) -> Self {
        bytes[0] &= 0x7f;
        // A first byte of zero would make it shorter: one of 128, which is drawn as rarely as any other.
        if bytes[0] == 0 {
            bytes[0] = 0x40;
        }
        Self { bytes, skip: 0 }
    }

    /// A number, big-endian.
    ///
    /// # Errors
    /// [`Error::Invalid`] for no bytes and too many.
    pub fn from_bytes(number: &[u8]) -> Result<Self> {
        let zeros = number.iter().take_while(|byte| **byte == 0).count();
        // The number 0 is a zero.
        let number = &number[zeros.min(number.len().saturating_sub(1))..];
        if number.is_empty() || number.len() > SERIAL_BYTES {
            return Err(Error::invalid("a serial number has 1 to 20 bytes"));
        }
        let skip = SERIAL_BYTES - number.len();
        let mut bytes = [0; SERIAL_BYTES];
        bytes[skip..].copy_from_slice(number);
        Ok(Self { bytes, skip: u8::try_from(skip).unwrap_or(0) })
    }

    /// Hexadecimal digits, in pairs with `:` or `-` between them or without, in any case.
    pub fn parse(text: &str) -> Option<Self> {
        let digits: Vec<u8> = text.bytes().filter(|byte| !matches!(byte, b':' | b'-')).collect();
        if digits.is_empty() || digits.len() % 2 == 1 || digits.len() > 2 * (SERIAL_BYTES + 1) {
            return None;
        }
        let nibble = |digit: u8| char::from(digit).to_digit(16).and_then(|n| u8::try_from(n).ok());
        let bytes: Option<Vec<u8>> = digits
            .chunks_exact(2)
            .map(|pair| Some(nibble(pair[0])? << 4 | nibble(pair[1])?))
            .collect();
        Self::from_bytes(&bytes?).ok()
    }

    /// The number, big-endian, without leading zeros; 0 is one zero.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[usize::from(self.skip)..]
    }

    /// With dashes, as storage and lists have it.
    pub fn dashed(&self) -> String {
        self.joined('-')
    }

    fn joined(&self, between: char) -> String {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut text = String::with_capacity(3 * SERIAL_BYTES);
        for (at, byte) in self.as_bytes().iter().enumerate() {
            if at > 0 {
                text.push(between);
            }
            text.push(char::from(DIGITS[usize::from(byte >> 4)]));
            text.push(char::from(DIGITS[usize::from(byte & 15)]));
        }
        text
    }
}

/// With colons, as replies have it.
impl fmt::Display for Serial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.joined(':'))
    }
}

impl fmt::Debug for Serial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
