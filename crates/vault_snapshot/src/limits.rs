//! What a snapshot may hold at the most.

/// Bytes of `meta.json` and of the sums.
pub const SMALL_MEMBER_BYTES_MAX: u64 = 1 << 20;
/// Bytes of one entry of the state, key and value. Servers refuse values over one mebibyte unless told otherwise.
pub const ENTRY_BYTES_MAX: u64 = 64 << 20;
/// Entries that are kept.
pub const ENTRIES_MAX: usize = 50_000_000;
/// Memory for the entries that are kept, where nobody says otherwise: as much as a machine has to spare that servers are looked after from. Whoever has
/// a longer snapshot says so, and finds a machine for it, before memory runs out and not by it.
pub const MEMORY_BYTES_DEFAULT: u64 = 2 << 30;
/// What an entry takes in memory besides its path and its value: two pointers with lengths, its place in the tree, and what the allocator adds to both.
pub const ENTRY_OVERHEAD_BYTES: u64 = 96;
/// Bytes that come out of each byte of the file at the most, after the first [`EXPANSION_FREE_BYTES`]. Values are encrypted, and do not become shorter
/// by compression; paths and the blocks of the tar do.
pub const EXPANSION_MAX: u64 = 64;
/// Bytes that come out before the file is held to [`EXPANSION_MAX`].
pub const EXPANSION_FREE_BYTES: u64 = 4 << 20;
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
