//! Randomness: secrets straight from the operating system, request ids from a fast generator that
//! was seeded by it (an id must be unique, not unguessable).

use std::cell::RefCell;

use crate::Error;

const HEX: &[u8; 16] = b"0123456789abcdef";
/// Characters of a UUID's text.
const UUID_CHARS: usize = 36;
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

/// The id of a request, which its answer and its audit records carry: a version 4 UUID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestId(u128);

impl RequestId {
    /// A new id, from a per-thread generator.
    pub fn make() -> Self {
        thread_local! {
            static IDS: RefCell<fastrand::Rng> = RefCell::new(seeded());
        }
        Self(IDS.with_borrow_mut(|ids| ids.u128(..)))
    }

    /// Its text on the wire.
    pub fn text(self) -> String {
        uuid_text(self.0)
    }

    /// Appends the same text to `out`.
    pub fn write(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&uuid_digits(self.0));
    }
}

fn seeded() -> fastrand::Rng {
    let mut seed = [0; 8];
    match fill(&mut seed) {
        Ok(()) => fastrand::Rng::with_seed(u64::from_le_bytes(seed)),
        Err(_) => fastrand::Rng::new(),
    }
}

fn uuid_text(bits: u128) -> String {
    uuid_digits(bits).map(char::from).iter().collect()
}

fn uuid_digits(bits: u128) -> [u8; UUID_CHARS] {
    const VERSION: u128 = 0xf000 << 64;
    const VARIANT: u128 = 0xc000 << 48;
    let bits = (bits & !VERSION & !VARIANT) | (0x4000 << 64) | (0x8000 << 48);
    let mut text = [b'-'; UUID_CHARS];
    let mut at = 0;
    for (number, byte) in bits.to_be_bytes().into_iter().enumerate() {
        at += usize::from(matches!(number, 4 | 6 | 8 | 10));
        text[at] = HEX[usize::from(byte >> 4)];
        text[at + 1] = HEX[usize::from(byte & 15)];
        at += 2;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_have_the_shape_of_a_version_4_uuid_and_differ() {
        let (a, b) = (RequestId::make().text(), make_uuid().unwrap());
        for id in [&a, &b] {
            assert_eq!(id.len(), 36);
            assert_eq!(&id[14..15], "4");
            assert!("89ab".contains(&id[19..20]), "{id}");
            assert_eq!(id.matches('-').count(), 4);
        }
        assert_ne!(a, b);
        let (id, mut written) = (RequestId::make(), Vec::new());
        id.write(&mut written);
        assert_eq!(written, id.text().as_bytes());
        assert_ne!(make_base62(24).unwrap(), make_base62(24).unwrap());
    }

    #[test]
    fn base62_is_uniform() {
        let text = make_base62(62_000).unwrap();
        assert_eq!(text.len(), 62_000);
        let mut counts = [0_i64; 128];
        text.bytes().for_each(|byte| counts[usize::from(byte)] += 1);
        // Chi-squared with 61 degrees of freedom: 130 is far past the 1e-6 tail.
        let chi: i64 = BASE62.iter().map(|&c| (counts[usize::from(c)] - 1000).pow(2)).sum();
        assert!(chi / 1000 < 130, "{}", chi / 1000);
    }
}
