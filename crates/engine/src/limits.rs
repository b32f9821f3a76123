//! The named limits of what engines keep.

/// Largest stored entry, in bytes: a record of an engine, or the canonical text of one secret version.
pub const ENTRY_BYTES_MAX: usize = 1 << 20;
/// Most names one unpaged list returns; past it the client is told to page.
pub const LIST_ENTRIES_MAX: usize = 1 << 20;
/// How often a write that lost a race decides again before the client hears of it.
pub const CONFLICT_RETRIES_MAX: usize = 64;
/// Most records that one transaction reads or writes.
pub const TRANSACTION_RECORDS_MAX: usize = 4096;
/// Most policies of one token, role or user.
pub const TOKEN_POLICIES_MAX: usize = 256;
