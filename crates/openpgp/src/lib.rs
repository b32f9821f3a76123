//! Encrypts shares and root tokens to OpenPGP public keys (RFC 4880, RFC 6637), so that only who holds the private key reads
//! them. `core` calls it for `pgp_keys` and their like; the command line for keys in ASCII armor ([`armor`]).
//!
//! Only what that takes is here: reading a public key and what its owner says of it, and writing a message. Nothing is
//! decrypted, and no private key is read. The ciphers are those of aws-lc-rs.
//!
//! | taken | |
//! |---|---|
//! | keys | version 4; RSA of 2,048 to 8,192 bits; ECDH on Curve25519, P-256, P-384 and P-521 with AES-128 or AES-256 (GnuPG's on P-384 ask for AES-192) |
//! | signatures | version 4 by RSA, Ed25519 or ECDSA, over SHA-256, SHA-384 or SHA-512 |
//! | message | AES-256 with a modification detection code, as GnuPG and all others read it |
//!
//! Invariants:
//! - A subkey is encrypted to only if the primary key signed for it: whoever compares a fingerprint has compared all.
//! - A key that is revoked, has expired or is not for encryption is refused, and so is whatever is not understood.
//! - Bytes of a key are input: bounded, never indexed past their end, and never a panic.
#![forbid(unsafe_code)]
#![warn(clippy::indexing_slicing, clippy::cast_possible_truncation)]

pub mod armor;
mod certificate;
mod encrypt;
mod packet;
mod public_key;
mod signature;

pub use certificate::Recipient;

/// Most bytes of a key with its names and signatures.
pub const KEY_BYTES_MAX: usize = 64 << 10;
/// Most bytes of a text that is encrypted: shares and tokens are far shorter.
pub const TEXT_BYTES_MAX: usize = 8 << 10;

/// Why a key cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// It is longer than [`KEY_BYTES_MAX`].
    TooLong,
    /// It is no OpenPGP key, or damaged.
    Malformed,
    /// It is a private key.
    Secret,
    /// It is more than one key.
    Several,
    /// Its version is not 4.
    Version(u8),
    /// It cannot be encrypted to: no part of it is for that, or of a kind that is known here.
    Unusable,
    /// Its owner revoked it.
    Revoked,
    /// Its time is over.
    Expired,
    /// A signature that it needs is missing or wrong, or of a kind that is not trusted.
    Unsigned,
    /// It has more signatures of its own than are verified.
    TooManySignatures,
    /// The library of ciphers refused.
    Cipher,
}

/// Whether `bytes` begin as a private key does, in binary form: the byte of its packet's tag.
pub fn is_private(bytes: &[u8]) -> bool {
    let tag = match bytes.first() {
        Some(&first) if first & 0xc0 == 0xc0 => first & 63,
        Some(&first) if first & 0x80 != 0 => (first >> 2) & 15,
        _ => return false,
    };
    matches!(tag, packet::SECRET_KEY | packet::SECRET_SUBKEY)
}

impl std::fmt::Display for Error {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(match self {
            Self::TooLong => "the key is longer than 64 KiB",
            Self::Malformed => "it is no OpenPGP public key, or damaged",
            Self::Secret => "it is a private key: export the public one",
            Self::Several => "it is more than one key: export one",
            Self::Version(version) => {
                return write!(out, "keys of version {version} are not supported, only of version 4");
            }
            Self::Unusable => {
                "it has no part that is for encryption and RSA (2,048 bits or more), Curve25519, P-256 or P-521"
            }
            Self::Revoked => "the key, or the part of it that is for encryption, is revoked",
            Self::Expired => "the key, or the part of it that is for encryption, has expired",
            Self::Unsigned => {
                "it has no valid signature of its own over its part for encryption (by RSA, Ed25519 or ECDSA with SHA-2)"
            }
            Self::TooManySignatures => {
                "it has too many signatures of its own: export it with --export-options export-minimal"
            }
            Self::Cipher => "the key was refused by the cipher",
        })
    }
}

impl std::error::Error for Error {}
