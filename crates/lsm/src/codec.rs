//! Masked checksums, which every file of the engine carries, and how far two keys agree.
//!
//! Checksums are CRC-32C, rotated and offset ("masked") so that a run of zeros does not carry a valid one and a checksum of
//! bytes that hold checksums stays strong. Integers and varints are `kallisto_codec`'s.
#![warn(clippy::indexing_slicing, clippy::cast_possible_truncation)]

/// Added to a rotated checksum; any constant that keeps zero from mapping to zero will do.
const MASK_DELTA: u32 = 0xa282_ead8;

/// Masks a CRC-32C for storing.
pub(crate) fn mask(crc: u32) -> u32 {
    crc.rotate_right(15).wrapping_add(MASK_DELTA)
}

/// The masked checksum of `bytes` in the context of `place` (a file number and an offset, say), which is not stored: a
/// block that was read from the wrong place fails.
pub(crate) fn checksum(place: [u64; 2], bytes: &[u8]) -> u32 {
    let [file, offset] = place;
    let crc = crc32c::crc32c(&file.to_le_bytes());
    let crc = crc32c::crc32c_append(crc, &offset.to_le_bytes());
    mask(crc32c::crc32c_append(crc, bytes))
}

/// How many leading bytes are equal.
#[inline]
pub(crate) fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    let (a_words, _) = a.as_chunks::<8>();
    let (b_words, _) = b.as_chunks::<8>();
    let mut at = 0;
    for (x, y) in a_words.iter().zip(b_words) {
        let difference = u64::from_le_bytes(*x) ^ u64::from_le_bytes(*y);
        if difference != 0 {
            return at + (difference.trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    let tails = a.get(at..).unwrap_or_default().iter().zip(b.get(at..).unwrap_or_default());
    at + tails.take_while(|(x, y)| x == y).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_of_zeros_never_carries_its_checksum() {
        for len in 0..128 {
            assert_ne!(checksum([0, 0], &vec![0; len]), 0);
        }
    }

    #[test]
    fn a_checksum_knows_its_place() {
        assert_ne!(checksum([1, 2], b"block"), checksum([2, 1], b"block"));
    }
}
