//! How much a policy may hold.

/// Most rules in one policy.
pub const RULES_MAX: usize = 16_384;
/// Longest name of a policy, in bytes.
pub const NAME_BYTES_MAX: usize = 256;
