//! From decision to commit: read the metadata, decide, write one batch that expects the metadata
//! unchanged, and decide again when another writer came first.
//!
//! A decision to write nothing, such as the refusal of a check-and-set, has no commit that would find out
//! that another server leads by now and has written since: it stands once the members confirm that this
//! server still leads.

use std::borrow::Cow;

use kallisto_store::{Error as StoreError, Record, Seqno};

use super::decide::WriteDecision;
use super::stage::remove_known;
use crate::api::error::Error;
use crate::engines::kv::access::Kv;
use crate::engines::kv::access::damaged;
use crate::engines::kv::staged::Staged;
use crate::limits::CONFLICT_RETRIES_MAX;
use crate::records::kv::{SecretMetadata, encode_version};
use crate::storage::keys::{self, MountId};
use crate::view::NamespaceContext;

/// What to do about a secret, decided from its metadata.
pub(super) enum Plan<'d, T> {
    /// Nothing to write.
    Reply(T),
    /// Write the decision and the data of the new current version, if there is one.
    Write { decision: WriteDecision, data: Option<Cow<'d, [u8]>>, reply: T },
    /// Write the decision and the data of these versions.
    WriteVersions { decision: WriteDecision, data: Vec<(u64, Cow<'d, [u8]>)>, reply: T },
    /// Write a decision that takes data away: a full disk does not stand in its way.
    TakeAway { decision: WriteDecision, reply: T },
    /// Remove the secret with all its versions.
    Remove { metadata: SecretMetadata, reply: T },
}

/// The metadata of `path`.
pub(super) fn load(kv: &Kv<'_>, path: &str) -> Result<Option<SecretMetadata>, Error> {
    load_record(kv.context, &keys::kv_meta(kv.mount.entry.id, path)).map(|(metadata, _)| metadata)
}

/// The version that a secret's record says is its current one.
pub(in crate::engines::kv) fn current_version(
    context: &NamespaceContext,
    id: MountId,
    path: &str,
) -> Result<Option<u64>, Error> {
    let (metadata, _) = load_record(context, &keys::kv_meta(id, path))?;
    Ok(metadata.map(|metadata| metadata.current_version))
}

/// The metadata under `key` and its sequence number.
pub(super) fn load_record(
    context: &NamespaceContext,
    key: &[u8],
) -> Result<(Option<SecretMetadata>, Seqno), Error> {
    decode(context.store.get(key)?)
}

/// The metadata that a record holds and its sequence number.
pub(super) fn decode(record: Option<Record>) -> Result<(Option<SecretMetadata>, Seqno), Error> {
    let Some(record) = record else { return Ok((None, Seqno::ABSENT)) };
    let metadata = SecretMetadata::decode(&record.value).map_err(damaged)?;
    Ok((Some(metadata), record.seqno))
}

/// Adds a decision, and the data of the new current version if there is one.
pub(super) fn add(
    staged: &mut Staged,
    id: MountId,
    path: &str,
    decision: &WriteDecision,
    data: Option<Cow<'_, [u8]>>,
) -> Result<(), Error> {
    // In the order in which the engine keeps them, whose inserts begin where the last one ended.
    staged.put(keys::kv_meta(id, path), decision.metadata.encode())?;
    for &version in &decision.dropped {
        staged.delete(keys::kv_version(id, path, version))?;
    }
    if let Some(data) = data {
        let version = keys::kv_version(id, path, decision.metadata.current_version);
        staged.put(version, encode_version(&data))?;
    }
    Ok(())
}

/// Decides with `decide` and commits, again and again while others win the race, up to
/// [`CONFLICT_RETRIES_MAX`] times.
pub(super) async fn run<'d, T>(
    kv: &Kv<'_>,
    path: &str,
    mut decide: impl FnMut(Option<SecretMetadata>) -> Result<Plan<'d, T>, Error>,
) -> Result<T, Error> {
    let id = kv.mount.entry.id;
    let meta_key = keys::kv_meta(id, path);
    let _latch = kv.context.latches.hold(&meta_key).await;
    // A loop of its own: it waits for the members where nothing is written.
    for attempt in 0..CONFLICT_RETRIES_MAX {
        // The first write of a path need not ask the store; the expectation still judges it.
        let (metadata, seqno) = match attempt {
            0 if !kv.mount.index.may_contain(path) => (None, Seqno::ABSENT),
            _ => load_record(kv.context, &meta_key)?,
        };
        let mut staged = Staged::default();
        staged.expect(meta_key.clone(), seqno);
        let reply = match decide(metadata) {
            Ok(Plan::Write { decision, data, reply }) => {
                add(&mut staged, id, path, &decision, data)?;
                reply
            }
            Ok(Plan::WriteVersions { decision, data, reply }) => {
                for (version, data) in data {
                    staged.put(keys::kv_version(id, path, version), encode_version(&data))?;
                }
                add(&mut staged, id, path, &decision, None)?;
                reply
            }
            Ok(Plan::TakeAway { decision, reply }) => {
                add(&mut staged, id, path, &decision, None)?;
                staged.set_essential();
                reply
            }
            Ok(Plan::Remove { metadata, reply }) => {
                staged.set_essential();
                remove_known(kv.mount, path, &metadata, &mut staged)?;
                reply
            }
            Ok(Plan::Reply(reply)) => match stands(kv.context, &meta_key, seqno).await? {
                true => return Ok(reply),
                false => continue,
            },
            Err(refusal) => match stands(kv.context, &meta_key, seqno).await? {
                true => return Err(refusal),
                false => continue,
            },
        };
        match kv.context.store.commit(staged.into_batch()).await {
            Ok(_) => return Ok(reply),
            Err(StoreError::Conflict) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(Error::Conflict)
}

/// Whether what was decided on the record as it was at `seqno` still holds, with all that was committed anywhere before.
async fn stands(context: &NamespaceContext, key: &[u8], seqno: Seqno) -> Result<bool, Error> {
    let Some(cluster) = context.store.below().replicated() else { return Ok(true) };
    if cluster.is_alone() {
        return Ok(true);
    }
    cluster.read_index().await?;
    Ok(load_record(context, key)?.1 == seqno)
}
