//! Where in a snapshot a fetch broke off: what the fetcher says to be sent the rest.
//!
//! ```text
//! place := format u8 (1) | index u64 | term u64 | checksum u32 | records u64 | key        the key of the last record that came
//! ```
//!
//! Index and term name the moment: what travels of it is the same on every member. Checksum and count are those of the
//! last chunk that came, and go on from there, so that the end still speaks for the whole. No key is there when nothing
//! but the head came.
#![warn(clippy::indexing_slicing, clippy::cast_possible_truncation)]

use kallisto_codec::ByteReader;

use crate::batch::KEY_BYTES_MAX;
use crate::raft::machine::ENGINE_KEY_OVERHEAD;

/// The number of this layout.
const PLACE_FORMAT: u8 = 1;

/// A place between two chunks of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ResumePoint {
    pub(crate) index: u64,
    pub(crate) term: u64,
    pub(crate) checksum: u32,
    pub(crate) records: u64,
    pub(crate) last_key: Vec<u8>,
}

impl ResumePoint {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = vec![PLACE_FORMAT];
        out.extend_from_slice(&self.index.to_le_bytes());
        out.extend_from_slice(&self.term.to_le_bytes());
        out.extend_from_slice(&self.checksum.to_le_bytes());
        out.extend_from_slice(&self.records.to_le_bytes());
        out.extend_from_slice(&self.last_key);
        out
    }

    /// The place in `bytes`; `None` if they are none.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut reader = ByteReader::new(bytes);
        if reader.u8()? != PLACE_FORMAT {
            return None;
        }
        let (index, term) = (reader.u64()?, reader.u64()?);
        let (checksum, records) = (reader.u32()?, reader.u64()?);
        let last_key = reader.rest().to_vec();
        let fits = last_key.len() <= KEY_BYTES_MAX + ENGINE_KEY_OVERHEAD
            && last_key.is_empty() == (records == 0);
        fits.then_some(Self { index, term, checksum, records, last_key })
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::indexing_slicing, reason = "tests index what they built")]
    use super::*;

    #[test]
    fn a_place_comes_back_and_one_that_makes_no_sense_does_not() {
        let place =
            ResumePoint { index: 7, term: 3, checksum: 9, records: 2, last_key: vec![1, 5, 5] };
        let bytes = place.encode();
        assert_eq!(ResumePoint::decode(&bytes), Some(place.clone()));
        for cut in 0..bytes.len() - 3 {
            assert_eq!(ResumePoint::decode(&bytes[..cut]), None);
        }
        let no_key = ResumePoint { last_key: Vec::new(), ..place.clone() };
        let of = |bytes: usize| ResumePoint { last_key: vec![1; bytes], ..place.clone() };
        let longest = of(KEY_BYTES_MAX + ENGINE_KEY_OVERHEAD);
        assert_eq!(ResumePoint::decode(&longest.encode()), Some(longest));
        let too_long = of(KEY_BYTES_MAX + ENGINE_KEY_OVERHEAD + 1);
        for wrong in [no_key, too_long] {
            assert_eq!(ResumePoint::decode(&wrong.encode()), None);
        }
        assert_eq!(ResumePoint::decode(&[&[2], &bytes[1..]].concat()), None, "another format");
    }
}
