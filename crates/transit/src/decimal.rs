//! Whole numbers between big-endian bytes and decimal digits, as backups write them.
//!
//! Backups are made and taken back by operators, rarely; no request of a client gets here, so the
//! time these take may depend on the numbers.

use zeroize::Zeroizing;

use crate::limits::DECIMAL_DIGITS_MAX;

/// Decimal digits worked off at a time.
const CHUNK_DIGITS: usize = 9;
const CHUNK: u64 = 1_000_000_000;

/// The decimal digits of a number.
pub(crate) fn write(bytes: &[u8]) -> Zeroizing<String> {
    // Little-endian limbs of nine digits; each byte multiplies by 256 and adds.
    let mut limbs = Zeroizing::new(vec![0_u64]);
    for &byte in bytes {
        let mut carry = u64::from(byte);
        for limb in limbs.iter_mut() {
            let value = *limb * 256 + carry;
            *limb = value % CHUNK;
            carry = value / CHUNK;
        }
        if carry > 0 {
            limbs.push(carry);
        }
    }
    let mut text = Zeroizing::new(String::with_capacity(limbs.len() * CHUNK_DIGITS));
    for (at, limb) in limbs.iter().rev().enumerate() {
        let digits = Zeroizing::new(if at == 0 { limb.to_string() } else { format!("{limb:09}") });
        text.push_str(&digits);
    }
    text
}

/// The bytes of decimal digits without leading zeros; `None` for other text or too much of it.
pub(crate) fn parse(digits: &str) -> Option<Zeroizing<Vec<u8>>> {
    let well_formed = !digits.is_empty()
        && digits.len() <= DECIMAL_DIGITS_MAX
        && digits.bytes().all(|byte| byte.is_ascii_digit());
    if !well_formed {
        return None;
    }
    // Little-endian bytes; each digit multiplies by ten and adds.
    let mut bytes = Zeroizing::new(Vec::with_capacity(digits.len() / 2 + 1));
    for digit in digits.bytes() {
        let mut carry = u16::from(digit - b'0');
        for byte in bytes.iter_mut() {
            let value = u16::from(*byte) * 10 + carry;
            *byte = (value & 0xff) as u8;
            carry = value >> 8;
        }
        if carry > 0 {
            bytes.push(carry as u8);
        }
    }
    bytes.reverse();
    Some(bytes)
}

/// `number` led by zeros to `length` bytes; `None` if it is longer.
pub(crate) fn pad(number: &[u8], length: usize) -> Option<Zeroizing<Vec<u8>>> {
    let mut padded = Zeroizing::new(vec![0; length.checked_sub(number.len())?]);
    padded.extend_from_slice(number);
    Some(padded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_128_bit_arithmetic() {
        let mut state = 3_u128;
        for round in 0..2000 {
            state = state.wrapping_mul(0x2360_ed05_1fc6_5da4_4385_df64_9fcc_f645).wrapping_add(1);
            let number = state >> (round % 128);
            let bytes = number.to_be_bytes();
            assert_eq!(*write(&bytes), number.to_string());
            let parsed = parse(&number.to_string()).unwrap();
            assert_eq!(*pad(&parsed, 16).unwrap(), bytes);
        }
    }

    #[test]
    fn long_numbers_lead_back_and_other_text_does_not() {
        let long: Vec<u8> = (0..512).map(|n: u32| 255 - (n % 251) as u8).collect();
        assert_eq!(*parse(&write(&long)).unwrap(), long);
        assert_eq!(*write(&[]), "0");
        assert!(parse("0").unwrap().is_empty());
        for text in ["", "-1", "1e3", "1.5", " 1", &"9".repeat(DECIMAL_DIGITS_MAX + 1)] {
            assert!(parse(text).is_none(), "{text}");
        }
        assert!(pad(&[1, 2, 3], 2).is_none());
    }
}
