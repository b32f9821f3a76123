//! Raft snapshots of Vault and OpenBao: the file, the keys that unseal shares lead to, and the records inside.
//!
//! It knows no server and no API: bytes in, plaintext of records out, by the paths that they have in that storage. `kallisto migrate` makes of them
//! what the API of the server would have answered.
//!
//! ```text
//! file        := gzip(tar(meta.json, state.bin, SHA256SUMS, SHA256SUMS.sealed))
//! state.bin   := (length varint | entry)*            entry: protobuf, 1 = path, 2 = value
//! shares      -(shamir)-> key -opens-> core/hsm/barrier-unseal-keys -> root key -opens-> core/keyring -> keys by term
//! value       := term u32 | version u8 | nonce 12 | ciphertext | tag 16        AES-256-GCM; version 2 vouches for the path
//! ```
//!
//! Invariants:
//! - Bytes are foreign until a key vouched for them: every length is bounded before memory is taken for it.
//! - A file that was cut off or changed is refused as a whole: sums are checked, and what seals the sums opens with the shares' key.
//! - What is not understood is refused by name. A field that this crate does not know is an error and not passed by, which is why
//!   messages are read by a reader of its own (`protobuf`): libraries drop such fields silently.
//! - Plaintext is wiped on drop; no error holds a value.
#![forbid(unsafe_code)]
#![warn(clippy::indexing_slicing, clippy::cast_possible_truncation)]

mod error;
mod expand;
mod file;
#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz;
pub mod identity;
pub mod kv;
pub mod limits;
mod open;
mod protobuf;
mod seal;
#[cfg(test)]
mod testing;

pub use error::{Error, Result};
pub use expand::expand;
pub use file::{PassedBy, SnapshotFile};
pub use open::OpenSnapshot;
pub use seal::SnapshotSeal;
