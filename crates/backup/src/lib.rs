//! The file of a backup: how it is written, read, and examined without a server.
//!
//! It is the file that clients of Vault know: a tar in a gzip, and what tells that it is whole.
//!
//! ```text
//! meta.json            the store, its term and index, and the number of this layout
//! state/00000001 ...   the store's chunks: envelopes under storage keys, as on the disk
//! SHA256SUMS           a line for each of the above, as `sha256sum` checks them
//! SHA256SUMS.sealed    a tag over SHA256SUMS under the root key
//! ```
//!
//! So names and values are as hidden as in the store, and only who holds the unseal key opens them. The gzip compresses
//! nothing, ciphertext being what it is; one that does is refused, which leaves a bomb nothing to blow up.
//!
//! The server writes and restores with it (`core::backup`), and examines what it wrote by the clock; the command line
//! examines files offline. It knows no server, no HTTP and no disk: bytes in, bytes out.
//!
//! Invariants:
//! - A file that ends early, or of which a byte was changed, is never called whole.
//! - A reader holds one chunk at a time ([`kallisto_store::CHUNK_BYTES_MAX`]), and the sums of those that it read.

#![forbid(unsafe_code)]

mod contents;
mod examine;
mod file;
mod gzip;
mod tar;

use aws_lc_rs::digest;

pub use contents::{BackupContents, SealFacts};
pub use examine::{Examiner, KeyGiven, Report};
pub use file::{FilePart, FileReader, FileWriter, NotWhole};

/// What the tag of a backup is for.
pub const TAG: &[u8] = b"backup/v1";
/// The number of the layout above.
pub const FORMAT: u64 = 1;
const META: &str = "meta.json";
const STATE: &str = "state/";
const SUMS: &str = "SHA256SUMS";
const SEALED: &str = "SHA256SUMS.sealed";

/// The name of a chunk.
fn chunk_name(number: u64) -> String {
    format!("{STATE}{number:08}")
}

/// A member's line in the sums.
fn sum_line(name: &str, bytes: &[u8]) -> String {
    let digest = digest::digest(&digest::SHA256, bytes);
    format!("{}  {name}\n", data_encoding::HEXLOWER.encode(digest.as_ref()))
}
