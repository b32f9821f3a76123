//! What is made of a record before it goes into the view: decoded, and sealed for the hot table.
//!
//! This is most of the work of a load and touches nothing of the view but what any thread may use, the
//! table's cipher and the shapes of tokens; so it is done on the thread that opens the records, while
//! the one that writes the view (`load`) puts in what was made before. Records inside a namespace are
//! handed on as they are: its view, and with it its cipher, may not be there yet.
//!
//! Records come a secret at a time, metadata first and its versions by number (see `keys`), so a
//! secret is complete when its current version comes, or when something else does.

use std::ops::Range;

use bytes::Bytes;
use kallisto_store::{Record, Seqno};

use super::super::fold::{one_header, secret_header};
use super::super::{CachedToken, HotHeader, View};
use crate::records::kv::{SecretMetadata, decode_one, decode_version};
use crate::records::token::TokenEntry;
use crate::records::token::TokenHash;
use crate::storage::keys::{self, MountId, ParsedKey};
use crate::view::damaged::DamagedRecord;

/// What some records come to, in their order.
#[derive(Default)]
pub(super) struct PreparedRecords {
    /// Records that were opened for it.
    pub(super) records: u64,
    pub(super) items: Vec<PreparedItem>,
    /// The table keys and sealed values of its secrets.
    bytes: Vec<u8>,
}

/// What a record, or a secret's records together, come to.
pub(super) enum PreparedItem {
    /// A secret of a KV v2 mount.
    Versioned(HotSecret),
    /// A secret of a KV v1 mount; of one that was upgraded it is nobody's.
    One(HotSecret),
    /// A token and the hash it is stored under.
    Token(TokenHash, CachedToken),
    /// Any other record, as it is.
    Other(Vec<u8>, Record),
}

/// A secret as the hot table takes it.
pub(super) struct HotSecret {
    pub(super) mount: MountId,
    pub(super) header: HotHeader,
    key: Range<usize>,
    value: Range<usize>,
}

impl PreparedRecords {
    /// The key in the hot table, and the value there.
    pub(super) fn entry(&self, sealed: &HotSecret) -> (&[u8], &[u8]) {
        (&self.bytes[sealed.key.clone()], &self.bytes[sealed.value.clone()])
    }

    /// Nothing yet, with room for about as much as this holds.
    pub(super) fn like(&self) -> Self {
        let (items, bytes) = (self.items.len(), self.bytes.len());
        let (items, bytes) = (items + items / 16, bytes + bytes / 16);
        Self { records: 0, items: Vec::with_capacity(items), bytes: Vec::with_capacity(bytes) }
    }

    /// Forgets everything and keeps its memory.
    pub(super) fn clear(&mut self) {
        self.records = 0;
        self.items.clear();
        self.bytes.clear();
    }
}

/// Prepares the records of one view.
#[derive(Default)]
pub(super) struct Preparer {
    pending: Option<PendingSecret>,
}

/// A secret whose metadata was met and whose current version comes next.
struct PendingSecret {
    mount: MountId,
    path: String,
    metadata: SecretMetadata,
}

impl Preparer {
    /// Prepares a record for `view`, and what it completes.
    pub(super) fn take(
        &mut self,
        view: &View,
        key: &[u8],
        seqno: Seqno,
        value: &[u8],
        out: &mut PreparedRecords,
    ) -> Result<(), DamagedRecord> {
        let parsed = keys::parse(key);
        if let ParsedKey::KvVersion(mount, path, version) = parsed {
            return self.take_version(view, (mount, path, version), value, out);
        }
        self.settle(view, out)?;
        match parsed {
            ParsedKey::KvMeta(mount, path) => {
                let metadata =
                    SecretMetadata::decode(value).map_err(|_| DamagedRecord("kv metadata"))?;
                self.pending = Some(PendingSecret { mount, path: path.to_owned(), metadata });
            }
            ParsedKey::KvOne(mount, path) => {
                let (lease, data) = decode_one(value).map_err(|_| DamagedRecord("kv secret"))?;
                let sealed = seal(view, (mount, path), one_header(seqno, lease), &[data], out);
                out.items.push(PreparedItem::One(sealed));
            }
            ParsedKey::Token(hash) => {
                let hash = TokenHash::try_from(hash).map_err(|_| DamagedRecord("token"))?;
                let entry = TokenEntry::decode(value).ok_or(DamagedRecord("token"))?;
                out.items.push(PreparedItem::Token(hash, view.tokens.live(entry)));
            }
            _ => {
                let record = Record { value: Bytes::copy_from_slice(value), seqno };
                out.items.push(PreparedItem::Other(key.to_vec(), record));
            }
        }
        Ok(())
    }

    /// Completes the pending secret if this is its current version; others stay in the store.
    fn take_version(
        &mut self,
        view: &View,
        (mount, path, version): (MountId, &str, u64),
        value: &[u8],
        out: &mut PreparedRecords,
    ) -> Result<(), DamagedRecord> {
        let current = self.pending.take_if(|pending| {
            pending.mount == mount
                && pending.path == path
                && pending.metadata.current_version == version
        });
        let Some(pending) = current else { return Ok(()) };
        let live = pending.metadata.version(version).is_some_and(|info| !info.destroyed);
        complete(view, &pending, live.then_some(value), out)
    }

    /// Ends a secret whose current version has no record: destroyed, or metadata alone.
    pub(super) fn settle(
        &mut self,
        view: &View,
        out: &mut PreparedRecords,
    ) -> Result<(), DamagedRecord> {
        let Some(pending) = self.pending.take() else { return Ok(()) };
        let current = pending.metadata.version(pending.metadata.current_version);
        if current.is_some_and(|info| !info.destroyed) {
            return Err(DamagedRecord("kv version missing"));
        }
        complete(view, &pending, None, out)
    }
}

fn complete(
    view: &View,
    pending: &PendingSecret,
    record: Option<&[u8]>,
    out: &mut PreparedRecords,
) -> Result<(), DamagedRecord> {
    let PendingSecret { mount, path, metadata } = pending;
    let data = record.map_or(Ok(&[][..]), decode_version);
    let data = data.map_err(|_| DamagedRecord("kv version"))?;
    let custom = metadata.custom.as_deref().unwrap_or_default();
    let parts = [data, custom.as_bytes()];
    let sealed = seal(view, (*mount, path), secret_header(metadata)?, &parts, out);
    out.items.push(PreparedItem::Versioned(sealed));
    Ok(())
}

fn seal(
    view: &View,
    (mount, path): (MountId, &str),
    header: HotHeader,
    parts: &[&[u8]],
    out: &mut PreparedRecords,
) -> HotSecret {
    let start = out.bytes.len();
    out.bytes.extend_from_slice(&mount.0.to_be_bytes());
    out.bytes.extend_from_slice(path.as_bytes());
    let key = start..out.bytes.len();
    let sealed = view.sealed_hot(&out.bytes[key.clone()], parts);
    out.bytes.extend_from_slice(&sealed);
    HotSecret { mount, header, value: key.end..out.bytes.len(), key }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_records_have_room_for_a_little_more_and_those_that_are_done_leave_theirs() {
        let record = || Record { value: Bytes::new(), seqno: Seqno(1) };
        let mut prepared = PreparedRecords { records: 3, ..PreparedRecords::default() };
        prepared.items.extend((0..32).map(|_| PreparedItem::Other(Vec::new(), record())));
        prepared.bytes.resize(320, 1);
        let next = prepared.like();
        assert_eq!((next.records, next.items.len(), next.bytes.len()), (0, 0, 0));
        assert!((34..50).contains(&next.items.capacity()), "{}", next.items.capacity());
        assert!((340..360).contains(&next.bytes.capacity()), "{}", next.bytes.capacity());
        prepared.clear();
        assert_eq!((prepared.records, prepared.items.len(), prepared.bytes.len()), (0, 0, 0));
        assert!(prepared.items.capacity() >= 32 && prepared.bytes.capacity() >= 320);
    }
}
