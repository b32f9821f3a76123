//! Every bound of the index in one place.

/// The longest path the index holds, in bytes. Callers are stricter.
pub const PATH_BYTES_MAX: usize = 4096;

/// The most segments a path may have. Callers are stricter.
pub const SEGMENTS_MAX: usize = 256;
