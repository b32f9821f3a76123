//! The engine's decoders over bytes that a disk may have damaged: an answer or an error.
//!
//! Where a decoder searches for a key, the first byte of the input says how many of the next ones
//! are that key.

use kallisto_lsm::internals;

/// Numbers that lengths and counts are made of, little-endian and as varints.
pub(crate) const WORDS: &[&[u8]] = &[
    b"\x00\x00\x00\x00",
    b"\x01\x00\x00\x00",
    b"\x00\x00\x00\x01",
    b"\xff\xff\xff\xff",
    b"\xff\xff\xff\x7f",
    b"\x00\x10\x00\x00",
    b"\x80\x01",
    b"\xff\xff\xff\xff\x0f",
    b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
    b"key",
    b"value",
];

/// A data block.
pub(crate) fn sst_block(bytes: &[u8]) {
    let (key, rest) = split_key(bytes);
    internals::read_hostile_block(rest, key);
}

/// A filter; the first eight bytes are the hash it is asked for.
pub(crate) fn sst_filter(bytes: &[u8]) {
    let (hash, rest) = bytes.split_first_chunk::<8>().unwrap_or((&[0; 8], bytes));
    internals::read_hostile_filter(rest, u64::from_le_bytes(*hash));
}

/// A block index, properties, a footer.
pub(crate) fn sst_index(bytes: &[u8]) {
    let (key, rest) = split_key(bytes);
    internals::read_hostile_index(rest, key);
}

/// Encoded operations.
pub(crate) fn batch(bytes: &[u8]) {
    internals::read_hostile_operations(bytes);
}

/// A frame of the WAL and the operations in it.
pub(crate) fn wal_record(bytes: &[u8]) {
    internals::read_hostile_frame(bytes);
}

/// A manifest.
pub(crate) fn manifest(bytes: &[u8]) {
    internals::read_hostile_manifest(bytes);
}

fn split_key(bytes: &[u8]) -> (&[u8], &[u8]) {
    let Some((&len, rest)) = bytes.split_first() else { return (&[], &[]) };
    rest.split_at(usize::from(len).min(rest.len()))
}
