//! The parts that records on disks and messages between servers are made of: fixed integers, varints and byte strings.
//!
//! `lsm`, `store`, `barrier`, `transit` and `core` describe their formats with these parts. What the parts mean, and which
//! limits hold for them, the formats say; here is only how a part becomes bytes and comes back.
//!
//! ```text
//! u32, u64, i64 := little-endian
//! varint        := seven bits a byte, low bits first; the high bit says that another byte follows
//! byte string   := length varint | bytes
//! ```
//!
//! Invariants:
//! - Reading is total: past the end, and for a varint over 64 bits, the answer is `None`. Nothing panics, nothing is
//!   allocated.
//! - These layouts are on the disks of every release and never change.
#![forbid(unsafe_code)]
#![warn(clippy::indexing_slicing, clippy::cast_possible_truncation)]

/// The longest varint, in bytes.
pub const VARINT_BYTES_MAX: usize = 10;
/// Bits of a number in each byte of a varint.
const VARINT_BITS: usize = 7;
/// Set in each byte of a varint but the last.
const MORE: u8 = 0x80;

/// Appends a varint.
#[inline]
pub fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= u64::from(MORE) {
        out.push(value.to_le_bytes()[0] | MORE);
        value >>= VARINT_BITS;
    }
    out.push(value.to_le_bytes()[0]);
}

/// Appends a byte string.
pub fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// A cursor over bytes that may be anything. A read that answers `None` may have moved it: what follows is not to be read.
#[derive(Clone, Copy, Debug)]
pub struct ByteReader<'a> {
    rest: &'a [u8],
}

impl<'a> ByteReader<'a> {
    /// A cursor at the start of `bytes`.
    #[inline]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// How many bytes are left.
    #[inline]
    pub const fn len(&self) -> usize {
        self.rest.len()
    }

    /// Whether nothing is left.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// What is left.
    #[inline]
    pub const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// The next `len` bytes.
    #[inline]
    pub fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.rest.split_at_checked(len)?;
        self.rest = rest;
        Some(head)
    }

    /// The next `N` bytes where they lie: key material is not copied.
    #[inline]
    pub fn array_ref<const N: usize>(&mut self) -> Option<&'a [u8; N]> {
        let (head, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(head)
    }

    /// The next `N` bytes.
    #[inline]
    pub fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.array_ref().copied()
    }

    /// The next byte.
    #[inline]
    pub fn u8(&mut self) -> Option<u8> {
        let (&first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(first)
    }

    /// The next two bytes.
    #[inline]
    pub fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    /// The next four bytes.
    #[inline]
    pub fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    /// The next eight bytes.
    #[inline]
    pub fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// The next eight bytes, with a sign.
    #[inline]
    pub fn i64(&mut self) -> Option<i64> {
        self.array().map(i64::from_le_bytes)
    }

    /// The next varint; longer ones than needed are fine, larger ones than 64 bits are not.
    #[inline]
    pub fn varint(&mut self) -> Option<u64> {
        let first = self.u8()?;
        if first < MORE {
            return Some(u64::from(first));
        }
        self.varint_rest(u64::from(first & !MORE))
    }

    fn varint_rest(&mut self, mut value: u64) -> Option<u64> {
        for nth in 1..VARINT_BYTES_MAX {
            let byte = self.u8()?;
            let bits = u64::from(byte & !MORE);
            let shift = VARINT_BITS * nth;
            if (bits << shift) >> shift != bits {
                return None;
            }
            value |= bits << shift;
            if byte < MORE {
                return Some(value);
            }
        }
        None
    }

    /// The next varint as a length.
    #[inline]
    pub fn varint_len(&mut self) -> Option<usize> {
        usize::try_from(self.varint()?).ok()
    }

    /// The next byte string, of at most `bytes_max` bytes.
    pub fn bytes(&mut self, bytes_max: usize) -> Option<&'a [u8]> {
        let len = self.varint_len()?;
        if len > bytes_max { None } else { self.take(len) }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::indexing_slicing, reason = "tests index what they built")]
    use super::*;

    /// One part of a record, as a test writes it.
    #[derive(Debug)]
    enum Part {
        U8(u8),
        U16(u16),
        U32(u32),
        U64(u64),
        I64(i64),
        Varint(u64),
        Bytes(Vec<u8>),
        Raw(Vec<u8>),
    }

    impl Part {
        fn make(dice: &mut fastrand::Rng) -> Self {
            let text =
                |dice: &mut fastrand::Rng| (0..dice.usize(..200)).map(|_| dice.u8(..)).collect();
            match dice.u8(..8) {
                0 => Self::U8(dice.u8(..)),
                1 => Self::U16(dice.u16(..)),
                2 => Self::U32(dice.u32(..)),
                3 => Self::U64(dice.u64(..)),
                4 => Self::I64(dice.i64(..)),
                5 => Self::Varint(dice.u64(..) >> dice.u32(..64)),
                6 => Self::Bytes(text(dice)),
                _ => Self::Raw(text(dice)),
            }
        }

        fn put(&self, out: &mut Vec<u8>) {
            match self {
                Self::U8(value) => out.push(*value),
                Self::U16(value) => out.extend_from_slice(&value.to_le_bytes()),
                Self::U32(value) => out.extend_from_slice(&value.to_le_bytes()),
                Self::U64(value) => out.extend_from_slice(&value.to_le_bytes()),
                Self::I64(value) => out.extend_from_slice(&value.to_le_bytes()),
                Self::Varint(value) => put_varint(out, *value),
                Self::Bytes(bytes) => put_bytes(out, bytes),
                Self::Raw(bytes) => out.extend_from_slice(bytes),
            }
        }

        /// Whether the reader gives this part next.
        fn is_next(&self, reader: &mut ByteReader<'_>) -> Option<bool> {
            Some(match self {
                Self::U8(value) => reader.u8()? == *value,
                Self::U16(value) => reader.u16()? == *value,
                Self::U32(value) => reader.u32()? == *value,
                Self::U64(value) => reader.u64()? == *value,
                Self::I64(value) => reader.i64()? == *value,
                Self::Varint(value) => reader.varint()? == *value,
                Self::Bytes(bytes) => reader.bytes(200)? == bytes,
                Self::Raw(bytes) => reader.take(bytes.len())? == bytes,
            })
        }
    }

    #[test]
    fn every_sequence_of_parts_comes_back_and_no_cut_one_does() {
        let mut dice = fastrand::Rng::with_seed(1);
        for _ in 0..300 {
            let parts: Vec<Part> = (0..dice.usize(1..8)).map(|_| Part::make(&mut dice)).collect();
            let mut bytes = Vec::new();
            parts.iter().for_each(|part| part.put(&mut bytes));
            let read = |bytes: &[u8]| {
                let mut reader = ByteReader::new(bytes);
                let as_written = parts.iter().all(|part| part.is_next(&mut reader) == Some(true));
                as_written && reader.is_empty()
            };
            assert!(read(&bytes), "{parts:?}");
            for len in 0..bytes.len() {
                assert!(!read(&bytes[..len]), "{parts:?} cut at {len}");
            }
        }
    }

    #[test]
    fn any_bytes_are_read_without_a_panic_and_never_past_their_end() {
        let mut dice = fastrand::Rng::with_seed(2);
        for _ in 0..3000 {
            let bytes: Vec<u8> = (0..dice.usize(..40)).map(|_| dice.u8(..)).collect();
            let mut reader = ByteReader::new(&bytes);
            for _ in 0..20 {
                let before = reader.len();
                match dice.u8(..7) {
                    0 => reader.varint().map(|_| ()),
                    1 => reader.bytes(dice.usize(..64)).map(|_| ()),
                    2 => reader.take(dice.usize(..)).map(|_| ()),
                    3 => reader.array::<3>().map(|_| ()),
                    4 => reader.u64().map(|_| ()),
                    5 => reader.u32().map(|_| ()),
                    _ => reader.u8().map(|_| ()),
                };
                assert!(reader.len() <= before);
                assert_eq!(reader.len(), reader.rest().len());
                assert_eq!(reader.is_empty(), reader.rest().is_empty());
                assert!(bytes.ends_with(reader.rest()));
            }
        }
    }

    #[test]
    fn the_layouts_are_these_bytes() {
        let varint = |value| {
            let mut out = Vec::new();
            put_varint(&mut out, value);
            out
        };
        assert_eq!(varint(0), [0x00]);
        assert_eq!(varint(127), [0x7f]);
        assert_eq!(varint(128), [0x80, 0x01]);
        assert_eq!(varint(300), [0xac, 0x02]);
        assert_eq!(varint(1 << 35), [0x80, 0x80, 0x80, 0x80, 0x80, 0x01]);
        let largest = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
        assert_eq!(varint(u64::MAX), largest);
        let mut out = Vec::new();
        put_bytes(&mut out, b"key");
        assert_eq!(out, b"\x03key");
        let mut reader =
            ByteReader::new(&[1, 2, 3, 0, 4, 0, 0, 0, 0xfe, 255, 255, 255, 255, 255, 255, 255]);
        assert_eq!((reader.u8(), reader.u16(), reader.u8()), (Some(1), Some(0x0302), Some(0)));
        assert_eq!((reader.u32(), reader.i64()), (Some(4), Some(-2)));
    }

    #[test]
    fn varints_of_every_length_come_back() {
        for shift in 0..64 {
            for value in [1_u64 << shift, (1_u64 << shift) - 1, u64::MAX >> shift] {
                let mut out = Vec::new();
                put_varint(&mut out, value);
                assert!(out.len() <= VARINT_BYTES_MAX);
                let mut reader = ByteReader::new(&out);
                assert_eq!(reader.varint(), Some(value));
                assert!(reader.is_empty());
            }
        }
    }

    #[test]
    fn varints_over_64_bits_are_refused_and_longer_ones_than_needed_are_read() {
        assert_eq!(ByteReader::new(&[0x80; 20]).varint(), None);
        assert_eq!(ByteReader::new(&[0xff; 20]).varint(), None);
        assert_eq!(ByteReader::new(&[]).varint(), None);
        let mut too_large = [0xff; 10];
        too_large[9] = 0x02;
        assert_eq!(ByteReader::new(&too_large).varint(), None);
        assert_eq!(ByteReader::new(&[0x81, 0x80, 0x00]).varint(), Some(1));
    }

    #[test]
    fn a_byte_string_over_its_limit_is_refused() {
        assert_eq!(ByteReader::new(b"\x03key").bytes(3), Some(&b"key"[..]));
        assert_eq!(ByteReader::new(b"\x03key").bytes(2), None);
        assert_eq!(ByteReader::new(b"\x04key").bytes(9), None);
    }
}
