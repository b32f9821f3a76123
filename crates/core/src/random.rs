//! Randomness: secrets, straight from the operating system.

use crate::Error;
use crate::api::request_id::uuid_text;

const BASE62: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// Fills `bytes` from the operating system.
///
/// # Errors
/// [`Error::Unavailable`] when it has none to give.
pub(crate) fn fill(bytes: &mut [u8]) -> Result<(), Error> {
    kallisto_barrier::random::fill(bytes)
        .map_err(|error| Error::Unavailable(format!("no randomness: {error}")))
}

/// `count` characters drawn uniformly from base 62.
///
/// # Errors
/// [`Error::Unavailable`] when the operating system gives no randomness.
pub(crate) fn make_base62(count: usize) -> Result<String, Error> {
    let mut text = String::with_capacity(count);
    let mut pool = zeroize::Zeroizing::new([0_u8; 64]);
    while text.len() < count {
        fill(&mut *pool)?;
        // 248 is the largest multiple of 62 in a byte; bytes above it would favour low digits.
        let fair = pool.iter().filter(|&&byte| byte < 248);
        for &byte in fair.take(count - text.len()) {
            text.push(char::from(BASE62[usize::from(byte) % BASE62.len()]));
        }
    }
    Ok(text)
}

/// Random bytes.
///
/// # Errors
/// [`Error::Unavailable`] when the operating system gives none.
pub(crate) fn make_bytes<const N: usize>() -> Result<[u8; N], Error> {
    let mut bytes = [0; N];
    fill(&mut bytes)?;
    Ok(bytes)
}

/// A random (version 4) UUID, RFC 9562 section 5.4, from the operating system.
///
/// # Errors
/// [`Error::Unavailable`] when the operating system gives no randomness.
pub(crate) fn make_uuid() -> Result<String, Error> {
    let mut bytes = [0; 16];
    fill(&mut bytes)?;
    Ok(uuid_text(u128::from_be_bytes(bytes)))
}

/// The bytes of a UUID's text; zeros for text that is none.
pub(crate) fn uuid_bytes(text: &str) -> [u8; 16] {
    let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
    u128::from_str_radix(&digits, 16).unwrap_or_default().to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base62_is_uniform() {
        assert_ne!(make_base62(24).unwrap(), make_base62(24).unwrap());
        let text = make_base62(62_000).unwrap();
        assert_eq!(text.len(), 62_000);
        let mut counts = [0_i64; 128];
        text.bytes().for_each(|byte| counts[usize::from(byte)] += 1);
        // Chi-squared with 61 degrees of freedom: 130 is far past the 1e-6 tail.
        let chi: i64 = BASE62.iter().map(|&c| (counts[usize::from(c)] - 1000).pow(2)).sum();
        assert!(chi / 1000 < 130, "{}", chi / 1000);
    }
}
