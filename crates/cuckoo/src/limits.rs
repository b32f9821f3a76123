//! Every bound of the table, with the relations between them.
//!
//! Nothing in this crate grows, loops or waits past one of these. The public ones are what a
//! caller can run into; the others bound the work of a single write.

use crate::bucket::SLOTS;

/// Longest key, in bytes.
pub const KEY_BYTES_MAX: usize = 64 << 10;

/// Longest value, in bytes.
pub const VALUE_BYTES_MAX: usize = 64 << 20;

/// Most buckets one array may have; at eight slots each, room for two thousand million entries.
pub const BUCKETS_MAX: usize = 1 << 28;

/// Fewest buckets: a key needs two different ones.
pub(crate) const BUCKETS_MIN: usize = 2;

/// The table grows rather than fill more than this share of its slots, in percent.
pub const LOAD_MAX_PERCENT: usize = 95;

/// Below this load, in percent, a key without a path means a bad hash key and not a full table:
/// the key is redrawn and the size stays.
pub(crate) const REDRAW_LOAD_PERCENT: usize = 50;

/// Buckets one search for an eviction path may look at.
pub(crate) const PATH_BUCKETS_MAX: usize = 1024;

/// Old buckets that each write moves to the new array while the table grows.
pub(crate) const MIGRATE_BUCKETS: usize = 4;

/// Fresh hash keys tried when even a whole rebuild leaves an entry without a place.
pub(crate) const REBUILD_TRIES_MAX: usize = 4;

/// Buckets one eviction may look at before it gives up for now.
pub(crate) const EVICT_BUCKETS_MAX: usize = 4096;

/// Retired things gathered before the writer asks which of them are free.
pub(crate) const RETIRE_BATCH: usize = if cfg!(loom) {
    1
} else if cfg!(miri) {
    8
} else {
    64
};

/// Bytes of retired entries gathered before the writer asks which of them are free.
pub(crate) const RETIRE_BYTES: usize = 1 << 20;

/// Keys hashed and prefetched together by `get_many`.
pub(crate) const LOOKUP_BATCH: usize = 16;

// Lengths are stored in 32 bits each.
const _: () = assert!(KEY_BYTES_MAX <= u32::MAX as usize);
const _: () = assert!(VALUE_BYTES_MAX <= u32::MAX as usize);
// The bucket comes from the low 48 bits of the hash, the tag from the rest.
const _: () = assert!(BUCKETS_MAX <= 1 << 48);
const _: () = assert!(BUCKETS_MAX.is_power_of_two() && BUCKETS_MIN.is_power_of_two());
// Growth ends long before the doubled array is full: a bucket of room per bucket moved.
const _: () = assert!(MIGRATE_BUCKETS * SLOTS >= 2);
