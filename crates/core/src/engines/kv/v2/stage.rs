//! What a write of one secret adds to a batch, for those that write several at once.

use std::borrow::Cow;

use kallisto_store::Seqno;

use super::commit::{add, load_record};
use super::data::{load_data_of, shown_current};
use super::decide;
use crate::api::error::Error;
use crate::api::response::Logical;
use crate::engines::kv::access::damaged;
use crate::engines::kv::staged::Staged;
use crate::records::attribution::Author;
use crate::records::kv::{SecretMetadata, decode_version};
use crate::storage::keys;
use crate::view::Mount;
use crate::view::NamespaceContext;

/// A secret's metadata and its place in the order of writes; an absent one has a place too.
pub(crate) fn metadata(
    context: &NamespaceContext,
    mount: &Mount,
    path: &str,
) -> Result<(Option<SecretMetadata>, Seqno), Error> {
    load_record(context, &keys::kv_meta(mount.entry.id, path))
}

/// The data text of the current version; `None` when there is none that lives.
pub(crate) fn current_data(
    context: &NamespaceContext,
    mount: &Mount,
    path: &str,
    now_ns: i64,
) -> Result<Option<Vec<u8>>, Error> {
    let (metadata, _) = metadata(context, mount, path)?;
    let current = metadata.and_then(|metadata| metadata.version(metadata.current_version).copied());
    let Some(info) = current.filter(|info| info.is_live(now_ns)) else { return Ok(None) };
    match load_data_of(context, mount.entry.id, path, info.version) {
        Ok(record) => Ok(Some(decode_version(&record).map_err(damaged)?.to_vec())),
        // Destroyed in between.
        Err(Error::NotFound) => Ok(None),
        Err(error) => Err(error),
    }
}

/// A new version with `data`. Returns what the writer is told of it.
///
/// # Errors
/// [`Error::Invalid`] when check-and-set does not match or is missing.
pub(crate) fn put(
    context: &NamespaceContext,
    mount: &Mount,
    path: &str,
    (data, cas, author): (&[u8], Option<i64>, Option<&Author>),
    now_ns: i64,
    staged: &mut Staged,
) -> Result<Logical, Error> {
    let (metadata, seqno) = metadata(context, mount, path)?;
    let decision = decide::put(metadata, &mount.kv_config.load(), (cas, author), now_ns)?;
    let told = shown_current(&decision.metadata).unwrap_or_default();
    staged.expect(keys::kv_meta(mount.entry.id, path), seqno);
    add(staged, mount.entry.id, path, &decision, Some(Cow::Borrowed(data)))?;
    Ok(told)
}

/// Whether a secret has a latest version that lives.
pub(crate) fn lives(
    context: &NamespaceContext,
    mount: &Mount,
    path: &str,
    now_ns: i64,
) -> Result<bool, Error> {
    let (metadata, _) = metadata(context, mount, path)?;
    let current = metadata.and_then(|metadata| metadata.version(metadata.current_version).copied());
    Ok(current.is_some_and(|info| info.is_live(now_ns)))
}

/// Soft-deletes the latest version; false when there is none that lives.
pub(crate) fn delete_latest(
    context: &NamespaceContext,
    mount: &Mount,
    path: &str,
    (author, now_ns): (Option<&Author>, i64),
    staged: &mut Staged,
) -> Result<bool, Error> {
    let (metadata, seqno) = metadata(context, mount, path)?;
    let decision = metadata.and_then(|metadata| {
        let current = metadata.current_version;
        decide::delete(metadata, &[current], author, now_ns)
    });
    let Some(decision) = decision else { return Ok(false) };
    staged.expect(keys::kv_meta(mount.entry.id, path), seqno);
    add(staged, mount.entry.id, path, &decision, None)?;
    Ok(true)
}

/// Removes the secret with all its versions; false when there is none.
pub(crate) fn remove(
    context: &NamespaceContext,
    mount: &Mount,
    path: &str,
    staged: &mut Staged,
) -> Result<bool, Error> {
    let (Some(metadata), seqno) = metadata(context, mount, path)? else { return Ok(false) };
    staged.expect(keys::kv_meta(mount.entry.id, path), seqno);
    remove_known(mount, path, &metadata, staged)?;
    Ok(true)
}

/// The same, of a secret whose metadata is known and expected already.
pub(crate) fn remove_known(
    mount: &Mount,
    path: &str,
    metadata: &SecretMetadata,
    staged: &mut Staged,
) -> Result<(), Error> {
    for info in &metadata.versions {
        staged.delete(keys::kv_version(mount.entry.id, path, info.version))?;
    }
    staged.delete(keys::kv_meta(mount.entry.id, path))
}

/// Writes a copy of the secret at `from` to `to`: every version that has data, with its number and
/// times, then the metadata as it is.
pub(crate) fn copy(
    context: &NamespaceContext,
    (from, path): (&Mount, &str),
    (to, target): (&Mount, &str),
    metadata: &SecretMetadata,
    staged: &mut Staged,
) -> Result<(), Error> {
    for info in metadata.versions.iter().filter(|info| !info.destroyed) {
        let record = load_data_of(context, from.entry.id, path, info.version)?;
        staged.put(keys::kv_version(to.entry.id, target, info.version), record)?;
    }
    staged.put(keys::kv_meta(to.entry.id, target), metadata.encode())
}
