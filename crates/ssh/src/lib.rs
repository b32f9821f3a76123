//! Public keys and certificates of SSH, as pure functions of what they are to say.
//!
//! Nothing here reads a clock, a store or a socket, or knows who asks: the engine `ssh` does. The forms are those of RFC 4251 (data
//! types), RFC 4253, 5656 and 8709 (keys), 8332 (RSA with SHA-2), and of OpenSSH's `PROTOCOL.certkeys`, `PROTOCOL.key` and `PROTOCOL.u2f`.
//! Private keys, signatures and hashes are those of `kallisto_pki` and `aws-lc-rs`.
//!
//! ```text
//! certificate = string type | string nonce | the key's own fields | uint64 serial | uint32 user or host | string key id
//!             | string principals | uint64 valid after | uint64 valid before | string critical options | string extensions
//!             | string reserved | string key of the CA | string signature
//! ```
//!
//! Invariants:
//! - What is read of others has one spelling: a public key that is read and written again is the same bytes.
//! - A principal is one name: it has no comma, no space and no control character, so no server takes it for two.
//! - Private keys are printed nowhere, and cleared when they are dropped.
//! - Everything that is read has a named limit.
#![forbid(unsafe_code)]

pub mod certificate;
mod openssh;
pub mod public_key;
pub mod signing_key;
pub mod wire;

pub use certificate::{CertificateKind, OptionMap, SshContents};
pub use kallisto_pki::{Error, PkiKeyKind, PrivateKey, Result};
pub use public_key::{KeyType, SshPublicKey};
pub use signing_key::{RsaHash, SshSigningKey};
