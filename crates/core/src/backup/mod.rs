//! Backups of everything: `sys/storage/raft/snapshot`.
//!
//! A backup is the file that clients of Vault know: a tar in a gzip, and what tells that it is whole.
//!
//! ```text
//! meta.json            the store, its term and index, and the number of this layout
//! state/00000001 ...   the store's chunks: envelopes under storage keys, as on the disk
//! SHA256SUMS           a line for each of the above, as `sha256sum` checks them
//! SHA256SUMS.sealed    a tag over SHA256SUMS under the root key
//! ```
//!
//! So names and values are as hidden as in the store, and only who holds the unseal key opens them. The gzip compresses
//! nothing, ciphertext being what it is ([`gzip`]); one that does is refused, which leaves a bomb nothing to blow up.
//!
//! [`save()`] streams; it reads one moment of this server's own state, which holds everything committed before the request.
//! [`restore`] streams too: records are staged beside those in use, on every member, and take their place by one entry of
//! the log once everything was verified. Nothing has changed before, and a crash leaves the old or the new.

mod gzip;
mod restore;
mod save;
mod tar;

use aws_lc_rs::digest;

pub(crate) use restore::{Check, begin, begin_check};
pub(crate) use save::save;

/// What the tag of a backup is for.
const TAG: &[u8] = b"backup/v1";
/// The number of the layout above.
const FORMAT: u64 = 1;
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
