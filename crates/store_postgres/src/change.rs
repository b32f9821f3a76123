//! What a change row holds: the batches of one transaction, without their preconditions, which were judged.
//!
//! ```text
//! group := format u8 (1) | count varint | (length varint | batch)*
//! ```
//!
//! The batches have the positions from the row's `first` to its `position`, in order. The decoder is total.

use bytes::Bytes;
use kallisto_codec::{ByteReader, put_bytes, put_varint};
use kallisto_store::{BATCH_BYTES_MAX, Batch, Position, decode_batch, encode_batch};

use crate::limits::GROUP_BATCHES_MAX;

const FORMAT: u8 = 1;
/// A batch with what its encoding adds.
const ENCODED_BYTES_MAX: usize = 2 * BATCH_BYTES_MAX;

/// The bytes of a group.
pub(crate) fn encode<'b>(batches: impl ExactSizeIterator<Item = &'b Batch>) -> Vec<u8> {
    let mut out = vec![FORMAT];
    put_varint(&mut out, batches.len() as u64);
    for batch in batches {
        put_bytes(&mut out, &encode_batch(batch));
    }
    out
}

/// The batches of a group that begins at `first` and ends at `last`, with their positions; `None` if the bytes are no such group.
#[must_use]
pub fn decode(bytes: &[u8], first: u64, last: u64) -> Option<Vec<(Position, Batch)>> {
    let mut reader = ByteReader::new(bytes);
    if reader.u8()? != FORMAT {
        return None;
    }
    let count = reader.varint_len().filter(|&count| count <= GROUP_BATCHES_MAX)?;
    if last.checked_sub(first)?.checked_add(1)? != count as u64 {
        return None;
    }
    let mut batches = Vec::new();
    for position in first..=last {
        let bytes = Bytes::copy_from_slice(reader.bytes(ENCODED_BYTES_MAX)?);
        batches.push((Position(position), decode_batch(&bytes)?));
    }
    reader.is_empty().then_some(batches)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_comes_back_and_a_cut_one_does_not() {
        let mut one = Batch::new();
        one.put(b"k".to_vec(), b"v".to_vec());
        let mut two = Batch::new();
        two.delete_noted(b"k".to_vec(), b"note".to_vec());
        let all = [one, two];
        let bytes = encode(all.iter());
        let found = decode(&bytes, 7, 8).unwrap();
        assert_eq!(found.iter().map(|(at, _)| at.0).collect::<Vec<_>>(), [7, 8]);
        assert!(found.iter().map(|(_, batch)| batch).eq(all.iter()));
        assert!(decode(&bytes, 7, 9).is_none() && decode(&bytes, 8, 7).is_none());
        for len in 0..bytes.len() {
            assert!(decode(&bytes[..len], 7, 8).is_none());
        }
    }
}
