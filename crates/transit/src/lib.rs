//! Named keys that never leave the server: encryption, signatures and HMACs for whoever may ask.
//!
//! It is pure: bytes in, bytes out, and time is an argument. It knows no store, no path, no token
//! and no HTTP; the engine (`engines::transit`) keeps the records and gives requests and
//! answers their form on the wire. Every primitive comes from `aws-lc-rs`, except XChaCha20, which
//! is the barrier's.
//!
//! ```text
//! Key { kind, settings, versions: number -> Version { material, hmac key, made at } }
//!   encrypt, decrypt   "vault:vN:" base64(nonce | ciphertext | tag)
//!   sign, verify       "vault:vN:" base64(signature)
//!   hmac, verify_hmac  "vault:vN:" base64(tag)
//! ```
//!
//! Invariants:
//! - No caller chooses a nonce: it is drawn from the system, or for convergent keys made from the
//!   plaintext and its associated data under a key of its own.
//! - What fails to open leaves no plaintext behind.
//! - A [`TransitKey`] is never changed in place: a change makes a new one that shares its versions, so a
//!   reader holds either the old or the new one whole.
//! - Key material is wiped on drop, and no type that holds any shows it in `Debug`.
//!
//! The texts of refusals are part of the wire contract. The bytes of a record are described in
//! `docs/format.md`, the choices in `docs/decisions/0055` and `0056`.
#![forbid(unsafe_code)]

mod backup;
mod base64;
mod cipher;
mod codec;
mod convergent;
mod decimal;
mod der;
mod derive;
mod ecdsa;
mod ed25519;
mod encrypt;
mod error;
mod export;
#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz;
mod hash;
mod import;
mod key;
mod key_change;
mod kind;
pub mod limits;
mod mac;
mod material;
mod public;
mod random;
mod rsa;
mod settings;
mod sign;
mod tagged;

#[cfg(test)]
mod vectors;

pub use backup::RestoredKey;
pub use base64::decode as decode_base64;
pub use encrypt::{Decrypt, Encrypt, Encrypted};
pub use error::{Error, Result};
pub use export::{ExportFormat, ExportKind};
pub use hash::HashAlgorithm;
pub use import::{ImportHash, WrappingKey};
pub use key::{KeySpec, Listed, NextVersion, Public, TransitKey};
pub use key_change::KeyChange;
pub use kind::KeyKind;
pub use mac::Mac;
pub use random::fill as fill_random;
pub use settings::{Derivation, Kdf, KeyOrigin, KeySettings, Stamp};
pub use sign::{Marshaling, RsaPadding, SaltBytes, Sign, SignInput, SignOptions, TransitSignature};
