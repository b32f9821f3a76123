//! What a key of a command file is, and how a stored one is printed.
//!
//! With `--keys u64` a key is written as a decimal number and stored as eight bytes, high byte
//! first, so that the order of the bytes is the order of the numbers.

use std::ops::Deref;

use clap::ValueEnum;
use kallisto_lsm::limits::KEY_BYTES_MAX;

use super::failure::EngineFailure;
use super::line::EngineLineError;

/// Length of a number as the store has it, in bytes.
pub(super) const NUMBER_BYTES: usize = size_of::<u64>();

/// What keys are in the text.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyFormat {
    /// Any bytes but blanks; ordered as bytes
    Bytes,
    /// Decimal numbers up to 18446744073709551615; ordered as numbers
    U64,
}

/// A key as the store has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EngineKey<'a> {
    /// The bytes of the text.
    Bytes(&'a [u8]),
    /// A number, high byte first.
    Number([u8; NUMBER_BYTES]),
}

impl Deref for EngineKey<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Number(bytes) => bytes,
        }
    }
}

/// A stored key that is no number although `--keys u64` was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NotANumber;

impl From<NotANumber> for EngineFailure {
    fn from(NotANumber: NotANumber) -> Self {
        Self::mistake("the store holds a key that is no u64; ask with --keys bytes")
    }
}

impl KeyFormat {
    /// Its name, as `--keys` takes it and as a store's record has it.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Bytes => "bytes",
            Self::U64 => "u64",
        }
    }

    /// The stored form of a key.
    pub(super) fn encode(self, text: &[u8]) -> Result<EngineKey<'_>, EngineLineError> {
        match self {
            Self::Bytes if text.len() > KEY_BYTES_MAX => Err(EngineLineError::KeyTooLong),
            Self::Bytes => Ok(EngineKey::Bytes(text)),
            Self::U64 => number(text).map(|number| EngineKey::Number(number.to_be_bytes())),
        }
    }

    /// Writes a stored key as it would stand in a command file.
    pub(super) fn decode(self, key: &[u8], out: &mut Vec<u8>) -> Result<(), NotANumber> {
        match self {
            Self::Bytes => out.extend_from_slice(key),
            Self::U64 => write_number(key, out)?,
        }
        Ok(())
    }

    /// Writes a stored key so that it stays on its line whatever its bytes are.
    pub(super) fn escape(self, key: &[u8], out: &mut Vec<u8>) -> Result<(), NotANumber> {
        match self {
            Self::Bytes => out.extend(key.escape_ascii()),
            Self::U64 => write_number(key, out)?,
        }
        Ok(())
    }
}

fn number(text: &[u8]) -> Result<u64, EngineLineError> {
    if text.is_empty() || !text.iter().all(u8::is_ascii_digit) {
        return Err(EngineLineError::KeyIsNoNumber);
    }
    text.iter()
        .try_fold(0u64, |number, digit| {
            number.checked_mul(10)?.checked_add(u64::from(digit - b'0'))
        })
        .ok_or(EngineLineError::KeyNumberTooLarge)
}

fn write_number(key: &[u8], out: &mut Vec<u8>) -> Result<(), NotANumber> {
    let bytes: [u8; NUMBER_BYTES] = key.try_into().map_err(|_| NotANumber)?;
    // Twenty digits hold every u64.
    let mut digits = [0; 20];
    let mut at = digits.len();
    let mut rest = u64::from_be_bytes(bytes);
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_their_order_and_come_back() {
        let numbers = [0, 1, 9, 10, 99, 100, 255, 256, 65_536, u64::MAX - 1, u64::MAX];
        let mut before: Option<Vec<u8>> = None;
        for number in numbers {
            let text = number.to_string();
            let key = KeyFormat::U64.encode(text.as_bytes()).unwrap();
            assert!(before.is_none_or(|before| before.as_slice() < &*key), "{number}");
            let mut printed = Vec::new();
            KeyFormat::U64.decode(&key, &mut printed).unwrap();
            assert_eq!(printed, text.as_bytes());
            before = Some(key.to_vec());
        }
    }

    #[test]
    fn what_is_no_number_is_refused() {
        for text in ["x", "1x", "-1", "+1", "1.0", "0x10", ""] {
            let refused = KeyFormat::U64.encode(text.as_bytes());
            assert_eq!(refused, Err(EngineLineError::KeyIsNoNumber), "{text}");
        }
        for text in ["18446744073709551616", "99999999999999999999999"] {
            let refused = KeyFormat::U64.encode(text.as_bytes());
            assert_eq!(refused, Err(EngineLineError::KeyNumberTooLarge), "{text}");
        }
        let same = KeyFormat::U64.encode(b"007").unwrap();
        assert_eq!(same, KeyFormat::U64.encode(b"7").unwrap());
    }

    #[test]
    fn stored_keys_of_another_kind_are_told() {
        assert_eq!(KeyFormat::U64.decode(b"short", &mut Vec::new()), Err(NotANumber));
        assert!(KeyFormat::U64.escape(b"not eight", &mut Vec::new()).is_err());
        let mut out = Vec::new();
        KeyFormat::Bytes.escape(b"a\nb\xff", &mut out).unwrap();
        assert_eq!(out, b"a\\nb\\xff");
    }

    #[test]
    fn a_key_is_as_long_as_the_engine_takes() {
        let longest = vec![b'k'; KEY_BYTES_MAX];
        assert!(KeyFormat::Bytes.encode(&longest).is_ok());
        let longer = vec![b'k'; KEY_BYTES_MAX + 1];
        assert_eq!(KeyFormat::Bytes.encode(&longer), Err(EngineLineError::KeyTooLong));
    }
}
