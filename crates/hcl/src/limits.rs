//! How much a file may hold. A file past one of these is refused with a position.

/// Longest file, in bytes.
pub const BYTES_MAX: usize = 1 << 20;
/// Deepest nesting of lists and blocks.
pub const DEPTH_MAX: usize = 64;
/// Most values in one file; blocks, lists and scalars count one each.
pub const VALUES_MAX: usize = 200_000;
/// Most labels before a block's brace. The longest form in use has two (`plugin "type" "name"`).
pub const LABELS_MAX: usize = 8;
