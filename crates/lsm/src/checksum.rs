//! Masked checksums, which every file of the engine carries.
//!
//! They are CRC-32C, rotated and offset ("masked") so that a run of zeros does not carry a valid one and a checksum of
//! bytes that hold checksums stays strong.
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
