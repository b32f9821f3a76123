//! The id of a request: from a fast generator that the operating system seeded, since an id must be unique, not unguessable.

use std::cell::RefCell;

const HEX: &[u8; 16] = b"0123456789abcdef";
/// Characters of a UUID's text.
const UUID_CHARS: usize = 36;

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

    /// Its bits, of which [`uuid_text`] makes its text.
    pub const fn bits(self) -> u128 {
        self.0
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
    match kallisto_barrier::random::fill(&mut seed) {
        Ok(()) => fastrand::Rng::with_seed(u64::from_le_bytes(seed)),
        Err(_) => fastrand::Rng::new(),
    }
}

/// The text of a version 4 UUID (RFC 9562, section 5.4) that has these bits.
pub fn uuid_text(bits: u128) -> String {
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
        let (a, b) = (RequestId::make().text(), RequestId::make().text());
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
    }
}
