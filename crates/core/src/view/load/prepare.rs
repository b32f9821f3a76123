//! What is made of a record before it goes into the view: decoded, or the path that it has.
//!
//! This is most of the work of a load and touches nothing of the view but what any thread may use, the
//! shapes of tokens; so it is done on the thread that opens the records, while the one that writes the
//! view (`load`) puts in what was made before. Records inside a namespace are handed on as they are: its
//! view may not be there yet.

use std::ops::Range;

use bytes::Bytes;
use kallisto_store::{Record, Seqno};

use super::super::{CachedToken, View};
use crate::records::token::{TokenEntry, TokenHash};
use crate::storage::keys::{self, MountId, ParsedKey};
use crate::view::damaged::DamagedRecord;

/// What some records come to, in their order.
#[derive(Default)]
pub(super) struct PreparedRecords {
    /// Records that were opened for it.
    pub(super) records: u64,
    pub(super) items: Vec<PreparedItem>,
    /// The paths of its secrets.
    paths: String,
}

/// What a record comes to.
pub(super) enum PreparedItem {
    /// A secret of a KV v2 mount.
    Versioned(SecretPath),
    /// A secret of a KV v1 mount; of one that was upgraded it is nobody's.
    One(SecretPath),
    /// A token and the hash it is stored under.
    Token(TokenHash, CachedToken),
    /// Any other record, as it is.
    Other(Vec<u8>, Record),
}

/// Where a secret is; its value stays in the store until it is asked for or `warm` comes to it.
pub(super) struct SecretPath {
    pub(super) mount: MountId,
    path: Range<usize>,
}

impl PreparedRecords {
    /// The path of a secret.
    pub(super) fn path(&self, secret: &SecretPath) -> &str {
        &self.paths[secret.path.clone()]
    }

    /// Nothing yet, with room for about as much as this holds.
    pub(super) fn like(&self) -> Self {
        let (items, paths) = (self.items.len(), self.paths.len());
        let (items, paths) = (items + items / 16, paths + paths / 16);
        Self { records: 0, items: Vec::with_capacity(items), paths: String::with_capacity(paths) }
    }

    /// Forgets everything and keeps its memory.
    pub(super) fn clear(&mut self) {
        self.records = 0;
        self.items.clear();
        self.paths.clear();
    }

    /// Prepares a record for `view`.
    pub(super) fn take(
        &mut self,
        view: &View,
        key: &[u8],
        seqno: Seqno,
        value: &[u8],
    ) -> Result<(), DamagedRecord> {
        let item = match keys::parse(key) {
            // The fold has no use for it either.
            ParsedKey::KvVersion(..) => return Ok(()),
            ParsedKey::KvMeta(mount, path) => PreparedItem::Versioned(self.keep(mount, path)),
            ParsedKey::KvOne(mount, path) => PreparedItem::One(self.keep(mount, path)),
            ParsedKey::Token(hash) => {
                let hash = TokenHash::try_from(hash).map_err(|_| DamagedRecord("token"))?;
                let entry = TokenEntry::decode(value).ok_or(DamagedRecord("token"))?;
                PreparedItem::Token(hash, view.tokens.live(entry))
            }
            _ => {
                let record = Record { value: Bytes::copy_from_slice(value), seqno };
                PreparedItem::Other(key.to_vec(), record)
            }
        };
        self.items.push(item);
        Ok(())
    }

    fn keep(&mut self, mount: MountId, path: &str) -> SecretPath {
        let start = self.paths.len();
        self.paths.push_str(path);
        SecretPath { mount, path: start..self.paths.len() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_records_have_room_for_a_little_more_and_those_that_are_done_leave_theirs() {
        let record = || Record { value: Bytes::new(), seqno: Seqno(1) };
        let mut prepared = PreparedRecords { records: 3, ..PreparedRecords::default() };
        prepared.items.extend((0..32).map(|_| PreparedItem::Other(Vec::new(), record())));
        prepared.paths.push_str(&"a".repeat(320));
        let next = prepared.like();
        assert_eq!((next.records, next.items.len(), next.paths.len()), (0, 0, 0));
        assert!((34..50).contains(&next.items.capacity()), "{}", next.items.capacity());
        assert!((340..360).contains(&next.paths.capacity()), "{}", next.paths.capacity());
        prepared.clear();
        assert_eq!((prepared.records, prepared.items.len(), prepared.paths.len()), (0, 0, 0));
        assert!(prepared.items.capacity() >= 32 && prepared.paths.capacity() >= 320);
    }
}
