//! The named limits of keys.

/// Fewest bytes of an HMAC key.
pub const HMAC_KEY_BYTES_MIN: usize = 32;
/// Most bytes of an HMAC key.
pub const HMAC_KEY_BYTES_MAX: usize = 512;
/// Most versions one key may keep; older ones are trimmed before it can be rotated again.
pub const VERSIONS_MAX: usize = 4096;
/// Largest record of a key, in bytes: what some hundred RSA-4096 versions take.
pub const RECORD_BYTES_MAX: usize = 1 << 20;
/// Largest backup taken back, in bytes of its JSON: its numbers are decimal, and twice there.
pub const BACKUP_BYTES_MAX: usize = 8 << 20;
/// Most decimal digits of one number in a backup: an RSA-4096 modulus has 1,234.
pub const DECIMAL_DIGITS_MAX: usize = 1500;
/// Largest wrapped key taken for import, in bytes.
pub const IMPORT_BYTES_MAX: usize = 16 << 10;
/// Shortest period after which keys may rotate by themselves, in seconds.
pub const AUTO_ROTATE_SECS_MIN: u64 = 3600;

const _: () = assert!(HMAC_KEY_BYTES_MIN < HMAC_KEY_BYTES_MAX);
const _: () = assert!(RECORD_BYTES_MAX < BACKUP_BYTES_MAX);
