//! Fixed integers, varints and masked checksums: the alphabet of every file the engine writes.
//!
//! All integers are little-endian. [`Reader`] is a cursor over hostile bytes: it answers `None` past the end and never
//! panics. Checksums are CRC-32C, rotated and offset ("masked") so that a run of zeros does not carry a valid one and a
//! checksum of bytes that hold checksums stays strong.
#![warn(clippy::indexing_slicing, clippy::cast_possible_truncation)]

/// Added to a rotated checksum; any constant that keeps zero from mapping to zero will do.
const MASK_DELTA: u32 = 0xa282_ead8;
/// The longest varint, in bytes.
pub(crate) const VARINT_BYTES_MAX: usize = 10;

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

/// Appends a varint: seven bits a byte, low bits first.
pub(crate) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    out.push(value.to_le_bytes()[0]);
}

/// Appends a length-prefixed byte string.
pub(crate) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// A cursor over bytes that may be anything.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// A cursor at the start of `bytes`.
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// How many bytes are left.
    pub(crate) fn len(&self) -> usize {
        self.rest.len()
    }

    /// The next `n` bytes.
    #[inline]
    pub(crate) fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.rest.split_at_checked(n)?;
        self.rest = rest;
        Some(head)
    }

    /// The next byte.
    #[inline]
    pub(crate) fn u8(&mut self) -> Option<u8> {
        let (&first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(first)
    }

    /// The next four bytes.
    pub(crate) fn u32(&mut self) -> Option<u32> {
        let (head, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(u32::from_le_bytes(*head))
    }

    /// The next eight bytes.
    pub(crate) fn u64(&mut self) -> Option<u64> {
        let (head, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(u64::from_le_bytes(*head))
    }

    /// The next varint; longer ones than needed are fine, larger ones than 64 bits are not.
    #[inline]
    pub(crate) fn varint(&mut self) -> Option<u64> {
        let first = self.u8()?;
        if first < 0x80 {
            return Some(u64::from(first));
        }
        self.varint_rest(u64::from(first & 0x7f))
    }

    fn varint_rest(&mut self, mut value: u64) -> Option<u64> {
        for place in 1..VARINT_BYTES_MAX {
            let byte = self.u8()?;
            let bits = u64::from(byte & 0x7f);
            let shift = 7 * place;
            if (bits << shift) >> shift != bits {
                return None;
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    /// The next varint as a length.
    #[inline]
    pub(crate) fn varint_len(&mut self) -> Option<usize> {
        usize::try_from(self.varint()?).ok()
    }

    /// The next length-prefixed byte string of at most `bytes_max` bytes.
    pub(crate) fn bytes(&mut self, bytes_max: usize) -> Option<&'a [u8]> {
        let len = self.varint_len()?;
        if len > bytes_max { None } else { self.take(len) }
    }
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
    fn varints_come_back() {
        for shift in 0..64 {
            for value in [1u64 << shift, (1u64 << shift) - 1, u64::MAX >> shift] {
                let mut out = Vec::new();
                put_varint(&mut out, value);
                let mut reader = Reader::new(&out);
                assert_eq!(reader.varint(), Some(value));
                assert_eq!(reader.len(), 0);
            }
        }
    }

    #[test]
    fn hostile_varints_are_refused() {
        assert_eq!(Reader::new(&[0x80; 20]).varint(), None);
        assert_eq!(Reader::new(&[0xff; 20]).varint(), None);
        assert_eq!(Reader::new(&[]).varint(), None);
        let mut too_large = [0xff; 10];
        too_large[9] = 0x02;
        assert_eq!(Reader::new(&too_large).varint(), None);
    }

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
