//! Every bound of the index in one place, and what they owe each other.

/// The longest path the index holds, in bytes. Callers are stricter.
pub const PATH_BYTES_MAX: usize = 4096;

/// The most segments a path may have. Callers are stricter.
pub const SEGMENTS_MAX: usize = 256;

/// The most paths in a leaf page. A split copies one leaf, a read scans one leaf's fingerprints.
pub(crate) const LEAF_PATHS_MAX: usize = 128;

/// A leaf with fewer paths than this, and few bytes, is joined with a neighbour.
pub(crate) const LEAF_PATHS_MIN: usize = LEAF_PATHS_MAX / 4;

/// A leaf of two paths or more is split before it grows past this many words.
pub(crate) const LEAF_WORDS_MAX: usize = 1024;

/// The most children of an inner page. Wide: two levels of these carry a million paths, and a
/// binary search touches few of a page's lines.
pub(crate) const INNER_KIDS_MAX: usize = 256;

/// An inner page with fewer children than this, and few bytes, is joined with a neighbour.
pub(crate) const INNER_KIDS_MIN: usize = INNER_KIDS_MAX / 4;

/// An inner page of [`INNER_KIDS_SPLIT`] children or more is split before it grows past this.
pub(crate) const INNER_WORDS_MAX: usize = 4096;

/// The fewest children an inner page is split at, however long its separators.
pub(crate) const INNER_KIDS_SPLIT: usize = 4;

/// The most pages on the way from the root to a leaf. Pages that are split have at least two
/// children on either side, so 32 levels take more pages than a page reference can name.
pub(crate) const HEIGHT_MAX: usize = 32;

/// Words of a packed path at most.
pub(crate) const PATH_WORDS_MAX: usize = PATH_BYTES_MAX.div_ceil(8);

/// Words of the largest page: an inner page at its bound, two longest separators on top.
pub(crate) const PAGE_WORDS_MAX: usize = 8192;

const _: () = assert!(LEAF_PATHS_MIN >= 2 && INNER_KIDS_MIN >= 2);
const _: () = assert!(INNER_WORDS_MAX >= INNER_KIDS_SPLIT * PATH_WORDS_MAX);
const _: () = assert!(INNER_WORDS_MAX + 6 * PATH_WORDS_MAX <= PAGE_WORDS_MAX);
const _: () = assert!(LEAF_WORDS_MAX + 6 * PATH_WORDS_MAX <= PAGE_WORDS_MAX);
// Lanes of sixteen bits hold word offsets within a page and prefix lengths.
const _: () = assert!(PAGE_WORDS_MAX < 1 << 16 && PATH_BYTES_MAX < 1 << 16);
