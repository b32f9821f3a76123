//! Every limit of the engine, with the relations between them.
//!
//! What comes from a caller is checked against these at the API; what comes from a disk is checked before anything is
//! allocated for it.

/// The longest key, in bytes.
pub const KEY_BYTES_MAX: usize = 64 << 10;
/// The longest value, in bytes.
pub const VALUE_BYTES_MAX: usize = 64 << 20;
/// The largest encoded batch, in bytes: one largest value with room beside it.
pub const BATCH_BYTES_MAX: usize = 96 << 20;
/// The most operations in one batch.
pub const BATCH_OPS_MAX: usize = 1 << 20;
/// A forming commit group at least this large takes no further batch, in bytes.
pub(crate) const GROUP_BYTES_MAX: usize = 1 << 20;
/// How many groups one leader commits before it hands over, so that no caller works for others for ever.
pub(crate) const LEADER_ROUNDS_MAX: u32 = 16;
/// The largest payload of a WAL frame, in bytes.
pub(crate) const FRAME_BYTES_MAX: usize = GROUP_BYTES_MAX + BATCH_BYTES_MAX;
/// The largest data block in an SST, in bytes: one entry of the largest size and a block of the usual one.
pub(crate) const BLOCK_BYTES_MAX: usize = VALUE_BYTES_MAX + KEY_BYTES_MAX + (1 << 20);
/// The largest filter, block index or properties section in an SST, in bytes.
pub(crate) const SECTION_BYTES_MAX: usize = 1 << 30;
/// The largest record in a manifest, in bytes.
pub(crate) const EDIT_BYTES_MAX: usize = 64 << 20;
/// A manifest larger than this is replaced by a fresh one, in bytes.
pub(crate) const MANIFEST_BYTES_ROTATE: u64 = 4 << 20;
/// The largest manifest that is read, in bytes.
pub(crate) const MANIFEST_BYTES_MAX: u64 = 1 << 30;
/// The largest WAL segment that is read, in bytes.
pub(crate) const SEGMENT_BYTES_MAX: u64 = 1 << 30;
/// Levels of the tree, L0 included.
pub(crate) const LEVELS: usize = 7;
/// The largest sequence number; the low bit of a tag holds the kind.
pub(crate) const SEQNO_MAX: u64 = (1 << 56) - 1;
/// Spare WAL segments kept for recycling: what a flush gives back at a time. An open reads them all.
pub(crate) const SPARE_SEGMENTS_MAX: usize = 4;
/// Pooled write buffers kept, and the largest that is kept, in bytes.
pub(crate) const POOLED_BUFFERS_MAX: usize = 64;
/// The largest pooled buffer, in bytes.
pub(crate) const POOLED_BUFFER_BYTES_MAX: usize = 4 << 20;

const _: () = assert!(BATCH_BYTES_MAX > VALUE_BYTES_MAX + KEY_BYTES_MAX);
const _: () = assert!(FRAME_BYTES_MAX < u32::MAX as usize);
const _: () = assert!(BLOCK_BYTES_MAX < u32::MAX as usize);
const _: () = assert!((FRAME_BYTES_MAX as u64) < SEGMENT_BYTES_MAX);
