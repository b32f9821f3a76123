//! What several tests share: a store small enough that little data reaches every level.

use kallisto_lsm::{Background, Options};

/// Limits so small that a few thousand operations flush, compact and recycle many times.
#[must_use]
pub(crate) fn small(background: Background) -> Options {
    Options {
        background,
        memtable_bytes: 4 << 10,
        wal_segment_bytes: 4 << 10,
        block_bytes: 256,
        sst_bytes: 4 << 10,
        level_base_bytes: 16 << 10,
        cache_bytes: 16 << 10,
        open_files_max: 4,
        ..Options::default()
    }
}
