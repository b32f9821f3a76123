//! An SST: a sorted file of entries that never changes.
//!
//! ```text
//! file    := (block | checksum u32)* | filter | checksum | block index | checksum | properties | checksum | footer
//! ```
//!
//! Each checksum also covers the file's number and the part's offset, so a part that was read from the wrong place or
//! the wrong file is refused. [`SstBuilder`] writes (flush and compaction), [`Sst`] answers single keys, [`SstCursor`]
//! reads in order. Blocks live in `block.rs`, the filter in `filter.rs`, the block index in `index.rs`, the rest of the
//! layout in `footer.rs`. Diagrams: `docs/format.md`.
//!
//! Invariants:
//! - filter and block index of an open SST stay in memory, so a missing key costs no disk read in about 99 of 100
//!   cases and a present one costs at most one;
//! - an SST is complete and synced before a manifest names it.

pub(crate) mod block;
mod builder;
mod cursor;
pub(crate) mod filter;
pub(crate) mod footer;
pub(crate) mod index;
mod reader;

pub(crate) use builder::SstBuilder;
pub(crate) use cursor::{ReadMode, SstCursor};
pub(crate) use reader::{Sst, SstShared};

/// Bytes of the checksum behind each part.
pub(crate) const CHECKSUM_BYTES: usize = 4;
