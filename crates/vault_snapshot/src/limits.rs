//! What a snapshot may hold at the most.

/// Bytes of `meta.json` and of the sums.
pub const SMALL_MEMBER_BYTES_MAX: u64 = 1 << 20;
/// Bytes of one entry of the state, key and value. Servers refuse values over one mebibyte unless told otherwise.
pub const ENTRY_BYTES_MAX: u64 = 64 << 20;
/// Entries that are kept.
pub const ENTRIES_MAX: usize = 50_000_000;
/// Bytes of all entries that are kept, in memory.
pub const KEPT_BYTES_MAX: u64 = 16 << 30;
/// Bytes behind the last member: what fills the blocks of a tar.
pub const FILL_BYTES_MAX: u64 = 1 << 20;
/// Bytes that a compressed value becomes.
pub const EXPANDED_BYTES_MAX: u64 = 64 << 20;
/// Fields of one message.
pub const FIELDS_MAX: usize = 1 << 20;
/// Keys of a keyring.
pub const KEYS_MAX: usize = 10_000;
/// Shares of a key: their points are bytes that are not zero.
pub const SHARES_MAX: u64 = 255;
/// Slots of a wrapped key.
pub const SLOTS_MAX: usize = 16;
