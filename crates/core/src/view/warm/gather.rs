//! Secrets on their way from a scan into the hot table: complete, and sealed for it.
//!
//! Records come a secret at a time, metadata first and its versions by number (see `keys`), so a
//! secret is complete when its current version comes, or when something else does.

use std::ops::Range;

use kallisto_store::Seqno;

use super::super::fold::{one_header, secret_header};
use super::super::{HotHeader, View};
use crate::records::kv::{SecretMetadata, decode_one, decode_version};
use crate::storage::keys::{MountId, ParsedKey};
use crate::view::damaged::DamagedRecord;

/// Secrets as the hot table takes them.
#[derive(Default)]
pub(in crate::view) struct GatheredSecrets {
    secrets: Vec<HotSecret>,
    /// Their keys in the table and their sealed values.
    bytes: Vec<u8>,
}

struct HotSecret {
    header: HotHeader,
    key: Range<usize>,
    value: Range<usize>,
}

impl GatheredSecrets {
    pub(super) const fn len(&self) -> usize {
        self.secrets.len()
    }

    /// The bytes of their keys and values.
    pub(in crate::view) const fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Header, key and value of each.
    pub(in crate::view) fn iter(&self) -> impl Iterator<Item = (HotHeader, &[u8], &[u8])> {
        self.secrets.iter().map(|secret| {
            (secret.header, &self.bytes[secret.key.clone()], &self.bytes[secret.value.clone()])
        })
    }

    /// The key of one of them, if there are so many.
    pub(in crate::view) fn key(&self, at: usize) -> Option<&[u8]> {
        self.secrets.get(at).map(|secret| &self.bytes[secret.key.clone()])
    }

    fn push(
        &mut self,
        view: &View,
        (mount, path): (MountId, &str),
        header: HotHeader,
        parts: &[&[u8]],
    ) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&mount.0.to_be_bytes());
        self.bytes.extend_from_slice(path.as_bytes());
        let key = start..self.bytes.len();
        let sealed = view.sealed_hot(&self.bytes[key.clone()], parts);
        self.bytes.extend_from_slice(&sealed);
        self.secrets.push(HotSecret { header, value: key.end..self.bytes.len(), key });
    }
}

/// Makes secrets of the records of one mount.
#[derive(Default)]
pub(super) struct Gatherer {
    pending: Option<PendingSecret>,
}

/// A secret whose metadata was met and whose current version comes next.
struct PendingSecret {
    mount: MountId,
    path: String,
    metadata: SecretMetadata,
}

impl Gatherer {
    /// Takes a record of the mount, and adds the secret that it completes. Before one that is no version, the secret before it is
    /// settled.
    pub(super) fn take(
        &mut self,
        view: &View,
        (key, value): (ParsedKey<'_>, &[u8]),
        seqno: Seqno,
        out: &mut GatheredSecrets,
    ) -> Result<(), DamagedRecord> {
        match key {
            ParsedKey::KvVersion(mount, path, version) => {
                self.take_version(view, (mount, path, version), value, out)
            }
            ParsedKey::KvMeta(mount, path) => {
                let metadata =
                    SecretMetadata::decode(value).map_err(|_| DamagedRecord("kv metadata"))?;
                self.pending = Some(PendingSecret { mount, path: path.to_owned(), metadata });
                Ok(())
            }
            ParsedKey::KvOne(mount, path) => {
                let (lease, data) = decode_one(value).map_err(|_| DamagedRecord("kv secret"))?;
                out.push(view, (mount, path), one_header(seqno, lease), &[data]);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Completes the pending secret if this is its current version; others stay in the store.
    fn take_version(
        &mut self,
        view: &View,
        (mount, path, version): (MountId, &str, u64),
        value: &[u8],
        out: &mut GatheredSecrets,
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
        out: &mut GatheredSecrets,
    ) -> Result<(), DamagedRecord> {
        let Some(pending) = self.pending.take() else { return Ok(()) };
        let current = pending.metadata.version(pending.metadata.current_version);
        if current.is_some_and(|info| !info.destroyed) {
            return Err(DamagedRecord("kv version missing"));
        }
        complete(view, &pending, None, out)
    }

    /// Whether a version with this number would complete a secret.
    pub(super) fn waits_for(&self, version: u64) -> bool {
        self.pending.as_ref().is_some_and(|pending| pending.metadata.current_version == version)
    }

    /// Forgets the secret that is not complete.
    pub(super) fn forget(&mut self) {
        self.pending = None;
    }
}

fn complete(
    view: &View,
    pending: &PendingSecret,
    record: Option<&[u8]>,
    out: &mut GatheredSecrets,
) -> Result<(), DamagedRecord> {
    let PendingSecret { mount, path, metadata } = pending;
    let data = record.map_or(Ok(&[][..]), decode_version);
    let data = data.map_err(|_| DamagedRecord("kv version"))?;
    let custom = metadata.custom.as_deref().unwrap_or_default();
    out.push(view, (*mount, path), secret_header(metadata)?, &[data, custom.as_bytes()]);
    Ok(())
}
