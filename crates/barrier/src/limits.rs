//! Every limit of the barrier, with the relations between them.

/// Length of every key, in bytes.
pub const KEY_BYTES: usize = 32;
/// Length of a cluster's id, in bytes.
pub const CLUSTER_ID_BYTES: usize = 16;
/// The longest storage key a record can be bound to, in bytes. It is built on the stack with what else is bound.
pub const STORAGE_KEY_BYTES_MAX: usize = 107;
/// The longest plaintext of a record, in bytes: with its envelope it is the largest value of the engine.
pub const PLAIN_BYTES_MAX: usize = (64 << 20) - crate::ENVELOPE_OVERHEAD;
/// Records under one nonce prefix. XChaCha20-Poly1305 would bear many more; a fresh prefix costs microseconds.
pub const RECORDS_PER_PREFIX_MAX: u64 = 1 << 32;
/// Data keys in one keyring. Rotating once an hour fills it in a year if no old key is ever dropped.
pub const DATA_KEYS_MAX: usize = 8_760;
/// The most shares of one key: the points of GF(256) without zero.
pub const SHARES_MAX: u8 = 255;

const _: () = assert!(KEY_BYTES == aws_lc_rs::digest::SHA256_OUTPUT_LEN);
