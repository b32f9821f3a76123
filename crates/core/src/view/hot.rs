//! The hot entry: what a read of a secret's current version copies from.
//!
//! The header holds what decides (version, times, flags); the value holds, sealed under the view's
//! own key and side by side, the data and the custom metadata as JSON text, both canonical since
//! they were written, so that a read parses nothing and opens them into its reply.

use std::sync::atomic::{AtomicBool, Ordering};

use kallisto_barrier::MemoryCipher;
use kallisto_cuckoo::Entry;

use crate::api::error::Error;
use crate::api::etag::Etag;
use crate::storage::keys::MountId;

/// The fixed part of a hot entry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HotHeader {
    /// The current version; 0 for a v2 entry without data. A v1 secret has no versions: the place of its
    /// last write stands here.
    pub(crate) version: u64,
    /// When that version was written (nanoseconds since 1970).
    pub(crate) created_ns: i64,
    /// When it is or was deleted; `i64::MAX` for never.
    pub(crate) deletion_ns: i64,
    /// Bytes of custom metadata at the end of the value; 0 for none.
    pub(crate) custom_bytes: u32,
    /// Counts changes of the custom metadata.
    pub(crate) metadata_version: u32,
    /// The lease a v1 secret asks for, in seconds; `u32::MAX` for none.
    pub(crate) lease_secs: u32,
    /// How many versions the secret's metadata holds: what reading or changing that takes. 0 for a v1 secret.
    pub(crate) versions: u16,
    /// True when somebody deleted it: it is gone whatever this server's clock says.
    pub(crate) deleted: bool,
    /// True when the version's data is gone for good.
    pub(crate) destroyed: bool,
}

impl HotHeader {
    /// Never deleted.
    pub(crate) const NEVER: i64 = i64::MAX;
    /// No lease of its own.
    pub(crate) const NO_LEASE: u32 = u32::MAX;

    /// The deletion time, if there is one.
    pub(crate) const fn deletion(self) -> Option<i64> {
        if self.deletion_ns == Self::NEVER { None } else { Some(self.deletion_ns) }
    }

    /// The tag of a read of this entry.
    pub(crate) const fn etag(self) -> Etag {
        Etag {
            version: self.version,
            created_ns: self.created_ns,
            deletion_ns: self.deletion(),
            metadata_version: self.metadata_version,
        }
    }

    /// True when the data may be shown at `now_ns`.
    pub(crate) const fn is_live(self, now_ns: i64) -> bool {
        !self.destroyed && !self.deleted && self.deletion_ns > now_ns
    }
}

/// What a hot entry's slot holds beside key and value.
pub(crate) struct HotSlot {
    pub(crate) header: HotHeader,
    /// Set by reads, cleared by the hand that makes room: an entry whose bit is clear was not read
    /// for a whole round.
    used: AtomicBool,
}

impl HotSlot {
    pub(crate) fn new(header: HotHeader) -> Self {
        Self { header, used: AtomicBool::new(true) }
    }

    /// Clears the bit; true when it was set.
    pub(crate) fn take_used(&self) -> bool {
        // Relaxed: a hint, and nothing else hangs on it.
        self.used.swap(false, Ordering::Relaxed)
    }

    /// Sets the bit. The line it is in was read anyway; writing it only when needed keeps it
    /// shared between cores.
    fn note_use(&self) {
        if !self.used.load(Ordering::Relaxed) {
            self.used.store(true, Ordering::Relaxed);
        }
    }
}

// An entry of the hot table is as large as its header: what is added to it fits into what was padding.
const _: () = assert!(size_of::<HotHeader>() == 40);

/// A hot entry with its value sealed; borrowed from the table.
#[derive(Clone, Copy)]
pub(crate) struct Hot<'g> {
    pub(crate) header: HotHeader,
    key: &'g [u8],
    sealed: &'g [u8],
}

impl Hot<'_> {
    /// Bytes of the sealed value: a little more than its data and custom metadata.
    pub(crate) const fn sealed_bytes(&self) -> usize {
        self.sealed.len()
    }

    /// Appends the data to `out` and returns the custom metadata, both as JSON text, each empty
    /// for none.
    ///
    /// # Errors
    /// [`Error::Internal`] when the value does not open: memory was damaged.
    pub(crate) fn open_into(
        &self,
        cipher: &MemoryCipher,
        out: &mut Vec<u8>,
    ) -> Result<Vec<u8>, Error> {
        cipher.open(self.key, self.sealed, out).map_err(|error| Error::internal(&error))?;
        let custom = self.header.custom_bytes as usize;
        Ok(out.split_off(out.len().saturating_sub(custom)))
    }
}

impl<'g> From<Entry<'g, HotSlot>> for Hot<'g> {
    fn from(entry: Entry<'g, HotSlot>) -> Self {
        let slot = entry.header();
        slot.note_use();
        Self { header: slot.header, key: entry.key(), sealed: entry.value() }
    }
}

/// The table key of `path` in a mount.
pub(crate) fn hot_key(mount: MountId, path: &str) -> Vec<u8> {
    let mut key = Vec::with_capacity(4 + path.len());
    key.extend_from_slice(&mount.0.to_be_bytes());
    key.extend_from_slice(path.as_bytes());
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_that_was_read_is_kept_for_one_round_more() {
        let header = HotHeader {
            version: 1,
            created_ns: 0,
            deletion_ns: HotHeader::NEVER,
            custom_bytes: 0,
            metadata_version: 0,
            lease_secs: HotHeader::NO_LEASE,
            versions: 1,
            deleted: false,
            destroyed: false,
        };
        let slot = HotSlot::new(header);
        assert!(slot.take_used() && !slot.take_used());
        slot.note_use();
        slot.note_use();
        assert!(slot.take_used() && !slot.take_used());
    }

    #[test]
    fn each_path_of_each_mount_has_a_key_of_its_own() {
        assert_eq!(hot_key(MountId(0x0102), "ab"), b"\0\0\x01\x02ab");
        let keys = [(1, "a"), (1, "b"), (2, "a"), (1, ""), (1, "a/b")];
        let keys = keys.map(|(mount, path)| hot_key(MountId(mount), path));
        assert!((0..keys.len()).all(|at| !keys[..at].contains(&keys[at])));
    }
}
