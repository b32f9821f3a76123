//! A batch as bytes: what the replicated log carries.
//!
//! ```text
//! batch       := format u8 (1) | expectations varint | operations varint | expectation* | operation*
//! expectation := key length varint | key | seqno varint
//! operation   := kind u8 (1 put, 0 delete) | key length varint | key | length varint | value or note
//! ```
//!
//! Encoding happens once, where the batch is committed; every node decodes the same bytes. The decoder is total: any
//! bytes give a batch within its limits or nothing, and nothing is allocated for a count that the bytes cannot hold.
//! Values and notes of a decoded batch share the memory of the bytes. Integers are little-endian; a varint has seven
//! bits a byte, low bits first.
#![warn(clippy::indexing_slicing, clippy::cast_possible_truncation)]

use std::ops::{Deref, DerefMut};

use bytes::Bytes;
use kallisto_codec::{ByteReader, put_bytes, put_varint};

use crate::batch::{BATCH_OPS_MAX, Batch, Expectation, KEY_BYTES_MAX, Seqno, StoreOp};
use crate::batch::{NOTE_BYTES_MAX, VALUE_BYTES_MAX};

/// The number of this layout.
const BATCH_FORMAT: u8 = 1;
const DELETE: u8 = 0;
const PUT: u8 = 1;
/// Fewest bytes of an expectation and of an operation.
const EXPECTATION_BYTES_MIN: usize = 2;
const OPERATION_BYTES_MIN: usize = 3;

/// The bytes of a batch.
pub fn encode_batch(batch: &Batch) -> Vec<u8> {
    let mut out = Vec::with_capacity(encoded_bytes_max(batch));
    out.push(BATCH_FORMAT);
    put_varint(&mut out, batch.expectations().len() as u64);
    put_varint(&mut out, batch.ops().len() as u64);
    for expectation in batch.expectations() {
        put_bytes(&mut out, &expectation.key);
        put_varint(&mut out, expectation.seqno.0);
    }
    for op in batch.ops() {
        let (kind, key, rest) = match op {
            StoreOp::Put { key, value } => (PUT, key, value),
            StoreOp::Delete { key, note } => (DELETE, key, note),
        };
        out.push(kind);
        put_bytes(&mut out, key);
        put_bytes(&mut out, rest);
    }
    out
}

/// The batch in `bytes`; `None` if they are not one, or one over a limit.
pub fn decode_batch(bytes: &Bytes) -> Option<Batch> {
    let mut reader = SharedReader::new(bytes);
    if reader.u8()? != BATCH_FORMAT {
        return None;
    }
    let expectations = read_count(&mut reader, EXPECTATION_BYTES_MIN)?;
    let ops = read_count(&mut reader, OPERATION_BYTES_MIN)?;
    let mut batch = Batch::with_capacity(expectations, ops);
    for _ in 0..expectations {
        let key = read_key(&mut reader)?;
        let seqno = Seqno(reader.varint()?);
        batch.push_expectation(Expectation { key, seqno });
    }
    for _ in 0..ops {
        let kind = reader.u8()?;
        let key = read_key(&mut reader)?;
        batch.push(match kind {
            PUT => StoreOp::Put { key, value: reader.bytes_shared(VALUE_BYTES_MAX)? },
            DELETE => StoreOp::Delete { key, note: reader.bytes_shared(NOTE_BYTES_MAX)? },
            _ => return None,
        });
    }
    let whole = reader.is_empty() && batch.check_limits().is_ok();
    whole.then_some(batch)
}

fn encoded_bytes_max(batch: &Batch) -> usize {
    const OVERHEAD: usize = 1 + 2 * 5;
    let ops = batch.ops().iter().map(|op| match op {
        StoreOp::Put { key, value: rest } | StoreOp::Delete { key, note: rest } => {
            key.len() + rest.len()
        }
    });
    let expectations = batch.expectations().iter().map(|expectation| expectation.key.len());
    let counted = batch.ops().len() + batch.expectations().len() + 1;
    ops.chain(expectations).sum::<usize>() + counted * OVERHEAD
}

/// A cursor over bytes that may be anything, which can share their memory.
pub(crate) struct SharedReader<'a> {
    bytes: &'a Bytes,
    reader: ByteReader<'a>,
}

impl<'a> SharedReader<'a> {
    /// A cursor at the start of `bytes`.
    pub(crate) fn new(bytes: &'a Bytes) -> Self {
        Self { bytes, reader: ByteReader::new(bytes) }
    }

    /// How far it has come, in bytes.
    pub(crate) fn at(&self) -> usize {
        self.bytes.len() - self.reader.len()
    }

    /// The next `len` bytes, sharing memory.
    pub(crate) fn take_shared(&mut self, len: usize) -> Option<Bytes> {
        self.reader.take(len).map(|taken| self.bytes.slice_ref(taken))
    }

    /// The next byte string, of at most `bytes_max` bytes, sharing memory.
    pub(crate) fn bytes_shared(&mut self, bytes_max: usize) -> Option<Bytes> {
        self.reader.bytes(bytes_max).map(|taken| self.bytes.slice_ref(taken))
    }
}

impl<'a> Deref for SharedReader<'a> {
    type Target = ByteReader<'a>;

    fn deref(&self) -> &ByteReader<'a> {
        &self.reader
    }
}

impl DerefMut for SharedReader<'_> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.reader
    }
}

/// A count of things that take at least `bytes_min` bytes each.
fn read_count(reader: &mut ByteReader<'_>, bytes_min: usize) -> Option<usize> {
    let count = reader.varint_len()?;
    let possible = reader.len() / bytes_min;
    (count <= BATCH_OPS_MAX && count <= possible).then_some(count)
}

fn read_key(reader: &mut ByteReader<'_>) -> Option<Vec<u8>> {
    reader.bytes(KEY_BYTES_MAX).map(<[u8]>::to_vec)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::indexing_slicing, reason = "tests index what they built")]
    use super::*;

    fn random_batch(dice: &mut fastrand::Rng) -> Batch {
        let mut batch = Batch::new();
        let bytes = |dice: &mut fastrand::Rng| -> Vec<u8> {
            (0..dice.usize(..40)).map(|_| dice.u8(..)).collect()
        };
        for _ in 0..dice.usize(..4) {
            let key = bytes(dice);
            batch.expect(key, Seqno(dice.u64(..) >> dice.u32(..64)));
        }
        for _ in 0..dice.usize(..6) {
            let (key, rest) = (bytes(dice), bytes(dice));
            match dice.u8(..3) {
                0 => batch.delete_noted(key, rest),
                1 => batch.delete(key),
                _ => batch.put(key, rest),
            };
        }
        batch
    }

    #[test]
    fn batches_come_back() {
        let mut dice = fastrand::Rng::with_seed(1);
        for _ in 0..2000 {
            let batch = random_batch(&mut dice);
            let bytes = Bytes::from(encode_batch(&batch));
            assert!(bytes.len() <= encoded_bytes_max(&batch));
            assert_eq!(decode_batch(&bytes), Some(batch));
        }
    }

    #[test]
    fn format_1_is_these_bytes() {
        let mut batch = Batch::new();
        batch.expect(b"k".to_vec(), Seqno(300)).put(b"k".to_vec(), b"v1".to_vec());
        batch.delete_noted(b"old".to_vec(), b"n".to_vec());
        let bytes = b"\x01\x01\x02\x01k\xac\x02\x01\x01k\x02v1\x00\x03old\x01n";
        assert_eq!(encode_batch(&batch), bytes);
        assert_eq!(decode_batch(&Bytes::from_static(bytes)), Some(batch));
    }

    #[test]
    fn cut_or_longer_bytes_are_no_batch() {
        let mut dice = fastrand::Rng::with_seed(2);
        for _ in 0..200 {
            let mut bytes = encode_batch(&random_batch(&mut dice));
            for len in 0..bytes.len() {
                assert_eq!(decode_batch(&Bytes::copy_from_slice(&bytes[..len])), None);
            }
            bytes.push(0);
            assert_eq!(decode_batch(&Bytes::from(bytes)), None);
        }
    }

    #[test]
    fn a_count_is_what_the_bytes_behind_it_can_hold_and_the_limit_lets_it() {
        let read = |count: usize, bytes: usize| {
            let mut encoded = Vec::new();
            put_varint(&mut encoded, count as u64);
            encoded.resize(encoded.len() + bytes, 0);
            read_count(&mut ByteReader::new(&encoded), OPERATION_BYTES_MIN)
        };
        assert_eq!(read(2, 2 * OPERATION_BYTES_MIN), Some(2));
        assert_eq!(read(2, 2 * OPERATION_BYTES_MIN - 1), None);
        let enough = (BATCH_OPS_MAX + 1) * OPERATION_BYTES_MIN;
        assert_eq!(read(BATCH_OPS_MAX, enough), Some(BATCH_OPS_MAX));
        assert_eq!(read(BATCH_OPS_MAX + 1, enough), None);
    }

    #[test]
    fn a_count_without_bytes_behind_it_allocates_nothing() {
        let mut bytes = vec![BATCH_FORMAT];
        put_varint(&mut bytes, 0);
        put_varint(&mut bytes, BATCH_OPS_MAX as u64);
        assert_eq!(decode_batch(&Bytes::from(bytes)), None);
    }
}
