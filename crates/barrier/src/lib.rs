//! Keys and ciphers: everything above this crate is plaintext, everything below it ciphertext.
//!
//! It is pure: bytes in, bytes out. It knows no store, no path grammar, no HTTP and no token; who calls it (the server's
//! core, the embedded `SecureDb`) keeps what it returns and says what a record is called.
//!
//! ```text
//! shares -(shamir)-> UnsealKey -wraps-> RootKey -seals-> Keyring { base key, data keys by key_version }
//!                                                          |            |
//!                                 names (PRF), tokens, audit            records (XChaCha20-Poly1305)
//! ```
//!
//! Invariants:
//! - No key has two purposes: a stored key is only ever an input of HMAC or HKDF, and what encrypts is derived from it.
//! - Whether a key is the right one is decided by its commitment, never by a tag, and before anything is decrypted.
//! - No nonce is used twice under one key: 128 bits from the system per process, key and 2^32 records, and a counter; or a
//!   counter alone, under a key that is as old as the unseal (`MemoryCipher`).
//! - A record opens only under the storage key, the cluster and the key version it was made for.
//! - What fails to open leaves no plaintext behind.
//! - Keys lie in memory of their own that is locked, left out of dumps and wiped on drop; `Debug` shows none of it.
//!
//! The bytes are described in `docs/format.md`, the choices in `docs/decisions/0020`, `0021` and `0145`.
#![forbid(unsafe_code)]

mod counted;
mod derive;
mod error;
#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz;
mod keyring;
pub mod limits;
mod memory;
pub mod random;
mod root;
mod secret;
pub mod shamir;
mod wrap;
pub mod xchacha;

#[cfg(test)]
mod hygiene;
#[cfg(test)]
mod vectors;

pub use error::{Error, Result};
pub use keyring::{ENVELOPE_OVERHEAD, KeyVersion, Keyring, NAME_HASH_BYTES, envelope_key_version};
pub use memory::{MEMORY_OVERHEAD, MemoryCipher};
pub use root::{RootKey, TagKey, UnsealKey};
pub use secret::SecretKey;
