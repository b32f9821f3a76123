//! The bodies of the fuzz targets: decoders as plain functions of bytes.
//!
//! Each takes any bytes and panics when a promise breaks; what it returns does not matter.

use bytes::Bytes;

/// Decodes a batch; one that was understood is encoded to something that decodes to the same.
pub fn batch_codec(bytes: &[u8]) {
    let Some(batch) = crate::decode_batch(&Bytes::copy_from_slice(bytes)) else { return };
    let again = Bytes::from(crate::encode_batch(&batch));
    assert!(again.len() <= bytes.len(), "the encoding is the shortest");
    assert_eq!(crate::decode_batch(&again), Some(batch));
}

/// Reads the records of a frame of the Raft log.
pub fn raft_log_payload(bytes: &[u8]) {
    let _ = crate::raft::read_hostile_payload(bytes);
}

/// Decodes a message of a peer; what is understood is encoded to the same bytes.
pub fn raft_message(bytes: &[u8]) {
    let _ = crate::raft::read_hostile_message(bytes);
}

/// Reads a chunk of a snapshot, behind one with the checksum in the first four bytes.
pub fn raft_snapshot_chunk(bytes: &[u8]) {
    let _ = crate::raft::read_hostile_chunk(bytes);
}
