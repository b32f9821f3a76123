//! The end of an SST: properties, and the footer that says where the parts are.
//!
//! ```text
//! footer, 64 bytes := filter offset u64 | filter length u64 | index offset u64 | index length u64
//!                   | properties offset u64 | properties length u64 | format u32 | checksum u32 | magic 8 bytes
//! properties       := entries varint | deletes varint | lowest seqno varint | highest seqno varint
//!                   | key bytes varint | value bytes varint | smallest key | largest key (each length varint, bytes)
//! ```
//!
//! The parts follow each other without gaps, so the footer's offsets can be checked and not only believed.
#![warn(clippy::indexing_slicing, clippy::cast_possible_truncation)]

use kallisto_codec::{ByteReader, put_bytes, put_varint};

use super::CHECKSUM_BYTES;
use super::block::DamagedBlock;
use crate::checksum::checksum;
use crate::limits::{KEY_BYTES_MAX, SECTION_BYTES_MAX};

/// The length of the footer, in bytes.
pub(crate) const FOOTER_BYTES: usize = 64;
/// The number of this layout.
pub(crate) const SST_FORMAT: u32 = 1;
const MAGIC: [u8; 8] = *b"KALLSST\n";
/// What the footer's checksum covers, in bytes.
const COVERED_BYTES: usize = 52;

/// What a whole file says about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Properties {
    /// How many entries it has, deletes included.
    pub(crate) entries: u64,
    /// How many of them are deletes.
    pub(crate) deletes: u64,
    /// The lowest sequence number.
    pub(crate) seqno_min: u64,
    /// The highest sequence number.
    pub(crate) seqno_max: u64,
    /// The bytes of all keys.
    pub(crate) key_bytes: u64,
    /// The bytes of all values.
    pub(crate) value_bytes: u64,
    /// The first key.
    pub(crate) smallest: Vec<u8>,
    /// The last key.
    pub(crate) largest: Vec<u8>,
}

impl Properties {
    /// Its bytes in a file.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let numbers = [
            self.entries,
            self.deletes,
            self.seqno_min,
            self.seqno_max,
            self.key_bytes,
            self.value_bytes,
        ];
        numbers.into_iter().for_each(|number| put_varint(&mut out, number));
        put_bytes(&mut out, &self.smallest);
        put_bytes(&mut out, &self.largest);
        out
    }

    /// Reads them back.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, DamagedBlock> {
        let mut reader = ByteReader::new(bytes);
        let this = Self::read(&mut reader).ok_or(DamagedBlock)?;
        if reader.is_empty() && this.smallest <= this.largest {
            Ok(this)
        } else {
            Err(DamagedBlock)
        }
    }

    fn read(reader: &mut ByteReader<'_>) -> Option<Self> {
        Some(Self {
            entries: reader.varint()?,
            deletes: reader.varint()?,
            seqno_min: reader.varint()?,
            seqno_max: reader.varint()?,
            key_bytes: reader.varint()?,
            value_bytes: reader.varint()?,
            smallest: reader.bytes(KEY_BYTES_MAX)?.to_vec(),
            largest: reader.bytes(KEY_BYTES_MAX)?.to_vec(),
        })
    }
}

/// A part of a file without its checksum, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileSection {
    /// Where it starts.
    pub(crate) offset: u64,
    /// How long it is.
    pub(crate) len: u64,
}

impl FileSection {
    fn end(self) -> Option<u64> {
        self.offset.checked_add(self.len)?.checked_add(CHECKSUM_BYTES as u64)
    }
}

/// Where the parts are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Footer {
    /// The Bloom filter; the data ends where it starts.
    pub(crate) filter: FileSection,
    /// The block index.
    pub(crate) index: FileSection,
    /// The properties.
    pub(crate) properties: FileSection,
}

/// Why a footer cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FooterError {
    /// It is no footer of this file.
    Damaged,
    /// It is one of another layout.
    Format(u32),
}

impl Footer {
    /// Its bytes at `offset` of file `number`.
    pub(crate) fn encode(&self, number: u64, offset: u64) -> Vec<u8> {
        let mut out = Vec::with_capacity(FOOTER_BYTES);
        for section in [self.filter, self.index, self.properties] {
            out.extend_from_slice(&section.offset.to_le_bytes());
            out.extend_from_slice(&section.len.to_le_bytes());
        }
        out.extend_from_slice(&SST_FORMAT.to_le_bytes());
        let sum = checksum([number, offset], &out);
        out.extend_from_slice(&sum.to_le_bytes());
        out.extend_from_slice(&MAGIC);
        assert_eq!(out.len(), FOOTER_BYTES);
        out
    }

    /// Reads the footer found at `offset` of file `number`.
    pub(crate) fn decode(bytes: &[u8], number: u64, offset: u64) -> Result<Self, FooterError> {
        let covered = bytes.get(..COVERED_BYTES).ok_or(FooterError::Damaged)?;
        let mut reader = ByteReader::new(bytes);
        let (this, format, sum) = Self::read(&mut reader).ok_or(FooterError::Damaged)?;
        if reader.take(MAGIC.len()) != Some(&MAGIC) || sum != checksum([number, offset], covered) {
            return Err(FooterError::Damaged);
        }
        if format != SST_FORMAT {
            return Err(FooterError::Format(format));
        }
        let gapless = this.filter.end() == Some(this.index.offset)
            && this.index.end() == Some(this.properties.offset)
            && this.properties.end() == Some(offset);
        let bounded = [this.filter, this.index, this.properties]
            .iter()
            .all(|section| section.len <= SECTION_BYTES_MAX as u64);
        if gapless && bounded { Ok(this) } else { Err(FooterError::Damaged) }
    }

    fn read(reader: &mut ByteReader<'_>) -> Option<(Self, u32, u32)> {
        let mut section = || Some(FileSection { offset: reader.u64()?, len: reader.u64()? });
        let this = Self { filter: section()?, index: section()?, properties: section()? };
        Some((this, reader.u32()?, reader.u32()?))
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::indexing_slicing, reason = "tests index what they built")]
    use super::*;

    fn footer() -> Footer {
        Footer {
            filter: FileSection { offset: 100, len: 65 },
            index: FileSection { offset: 169, len: 20 },
            properties: FileSection { offset: 193, len: 30 },
        }
    }

    #[test]
    fn a_footer_comes_back_and_every_flipped_byte_is_seen() {
        let bytes = footer().encode(7, 227);
        assert_eq!(Footer::decode(&bytes, 7, 227), Ok(footer()));
        assert!(Footer::decode(&bytes, 8, 227).is_err());
        assert!(Footer::decode(&bytes, 7, 228).is_err());
        for at in 0..bytes.len() {
            let mut bad = bytes.clone();
            bad[at] ^= 0x10;
            assert!(Footer::decode(&bad, 7, 227).is_err(), "byte {at}");
        }
    }

    #[test]
    fn properties_come_back() {
        let properties = Properties {
            entries: 9,
            deletes: 2,
            seqno_min: 3,
            seqno_max: 1 << 40,
            key_bytes: 10,
            value_bytes: 11,
            smallest: b"a".to_vec(),
            largest: vec![b'b'; 300],
        };
        let bytes = properties.encode();
        assert_eq!(Properties::decode(&bytes), Ok(properties));
        for len in 0..bytes.len() {
            assert!(Properties::decode(&bytes[..len]).is_err());
        }
    }

    #[test]
    fn parts_follow_each_other_and_have_a_limit() {
        let most = SECTION_BYTES_MAX as u64;
        let parts = |lens: [u64; 3], gap_at: usize| {
            let mut at = 100;
            let [filter, index, properties] = [0, 1, 2].map(|n| {
                let section = FileSection { offset: at, len: lens[n] };
                at += lens[n] + CHECKSUM_BYTES as u64 + u64::from(n == gap_at);
                section
            });
            let footer = Footer { filter, index, properties };
            Footer::decode(&footer.encode(7, at), 7, at)
        };
        for lens in [[1, 2, 3], [most, 2, 3], [1, most, 3], [1, 2, most]] {
            assert!(parts(lens, 3).is_ok(), "{lens:?}");
        }
        for lens in [[most + 1, 2, 3], [1, most + 1, 3], [1, 2, most + 1]] {
            assert_eq!(parts(lens, 3), Err(FooterError::Damaged), "{lens:?}");
        }
        for gap_at in 0..3 {
            assert_eq!(parts([1, 2, 3], gap_at), Err(FooterError::Damaged), "a gap at {gap_at}");
        }
    }

    #[test]
    fn a_footer_of_another_format_says_which() {
        let mut bytes = footer().encode(7, 227);
        bytes[48..52].copy_from_slice(&2u32.to_le_bytes());
        let sum = checksum([7, 227], &bytes[..COVERED_BYTES]);
        bytes[COVERED_BYTES..COVERED_BYTES + 4].copy_from_slice(&sum.to_le_bytes());
        assert_eq!(Footer::decode(&bytes, 7, 227), Err(FooterError::Format(2)));
        assert_eq!(Footer::decode(&bytes, 7, 228), Err(FooterError::Damaged));
    }

    #[test]
    fn properties_end_where_they_end_and_their_keys_are_in_order() {
        let of = |smallest: &[u8], largest: &[u8]| {
            let (smallest, largest) = (smallest.to_vec(), largest.to_vec());
            Properties { entries: 1, smallest, largest, ..Properties::default() }
        };
        let one = of(b"a", b"a");
        assert_eq!(Properties::decode(&one.encode()), Ok(one.clone()));
        assert_eq!(Properties::decode(&of(b"b", b"a").encode()), Err(DamagedBlock));
        assert_eq!(Properties::decode(&[one.encode(), vec![0]].concat()), Err(DamagedBlock));
    }
}
