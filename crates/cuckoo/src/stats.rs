//! What a table tells about itself.

/// Bytes a table holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableMemory {
    /// Buckets, of both arrays while the table grows.
    pub table_bytes: usize,
    /// Blocks of all entries, live and retired.
    pub entry_bytes: usize,
    /// The part of `entry_bytes` that left the table and waits for readers to go.
    pub retired_bytes: usize,
    /// What was taken from the system for entries; `entry_bytes` is the used part.
    pub reserved_bytes: usize,
}

/// Counts since the table was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableStats {
    /// Entries that came in under a new key.
    pub inserted: u64,
    /// Entries that took the place of another of the same key.
    pub replaced: u64,
    /// Entries removed, by `clear` too.
    pub removed: u64,
    /// Entries pushed from one bucket to their other one.
    pub moved: u64,
    /// Longest eviction path so far, in moves.
    pub path_moves_max: u64,
    /// Times the table began to move to a new array under a fresh hash key.
    pub growths: u64,
    /// Times a whole new array was built at once because a growth itself found no place.
    pub rebuilds: u64,
    /// Buckets of the old array still to be moved; zero when the table is not growing.
    pub buckets_to_move: usize,
    /// Retired things that wait for readers to go.
    pub retired: usize,
}
