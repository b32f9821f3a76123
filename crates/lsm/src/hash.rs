//! The hash of a key, for Bloom filters on disk and in memory.
//!
//! A chain of 64 x 64 -> 128-bit multiplications folded by exclusive or, over the little-endian 8-byte words of the
//! key (the last one padded with zeros), seeded with its length. It is part of the file format. It is not keyed:
//! whoever chooses keys can choose false positives, which cost a disk read and never a wrong answer.

const SEED: u64 = 0x51_7c_c1_b7_27_22_0a_95;
const STEP: u64 = 0x9e_37_79_b9_7f_4a_7c_15;
const LAST: u64 = 0xbf_58_47_6d_1c_e4_e5_b9;

/// The hash of `key`.
#[inline]
pub(crate) fn key_hash(key: &[u8]) -> u64 {
    let mut state = SEED ^ (key.len() as u64).wrapping_mul(LAST);
    let (words, tail) = key.as_chunks::<8>();
    for word in words {
        state = fold(state ^ u64::from_le_bytes(*word), STEP);
    }
    if !tail.is_empty() {
        let mut word = [0; 8];
        word[..tail.len()].copy_from_slice(tail);
        state = fold(state ^ u64::from_le_bytes(word), STEP);
    }
    fold(state, LAST)
}

/// The high half of the product over the low one.
#[inline]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    let high = u64::try_from(product >> 64).expect("64 bits are left");
    let low = u64::try_from(product & u128::from(u64::MAX)).expect("64 bits are left");
    high ^ low
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_format_keeps_its_hash() {
        assert_eq!(key_hash(b""), GOLDEN[0]);
        assert_eq!(key_hash(b"a"), GOLDEN[1]);
        assert_eq!(key_hash(b"12345678"), GOLDEN[2]);
        assert_eq!(key_hash(b"123456789"), GOLDEN[3]);
    }

    const GOLDEN: [u64; 4] =
        [0xc8951561e1f64f77, 0xffb5dc74234060cb, 0x2a88434ab6c70714, 0x1176e3b700666589];

    #[test]
    fn padding_does_not_collide() {
        assert_ne!(key_hash(b"a"), key_hash(b"a\0"));
        assert_ne!(key_hash(b""), key_hash(b"\0"));
    }

    #[test]
    fn every_bit_of_the_hash_moves_with_counters() {
        let mut ones = [0u32; 64];
        for n in 0..4096u64 {
            let hash = key_hash(&n.to_be_bytes());
            for (bit, count) in ones.iter_mut().enumerate() {
                *count += u32::from(hash >> bit & 1 == 1);
            }
        }
        assert!(ones.iter().all(|&count| (1850..2250).contains(&count)), "{ones:?}");
    }
}
