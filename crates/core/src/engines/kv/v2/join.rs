//! A write of a secret's fields that is committed together with others: what [`super::data::write`] does when nothing is in its way.
//!
//! Whatever is not that simple (check-and-set, a secret with many versions, a writer who was first, a refusal) is left alone before anything was
//! done: such a request has an answer of its own, which may have to wait.

use std::borrow::Cow;

use kallisto_auth::Operation;
use kallisto_store::Seqno;

use super::commit::{add, decode};
use super::decide;
use crate::api::json::Json;
use crate::api::request::BodyKind;
use crate::caller::call::AuthorizedCall;
use crate::dispatch::server_engine::{JoinAnswer, JoiningWrite};
use crate::engines::kv::access::{caller_as_author, check_entry_path, check_entry_size};
use crate::engines::kv::staged::Staged;
use crate::engines::kv::weight::LIGHT_METADATA_BYTES_MAX;
use crate::records::attribution::Author;
use crate::storage::keys;
use crate::storage::latches::LatchOutcome;
use crate::view::{NamespaceContext, RecentSecret};

/// What a new version of the secret at `path` changes; `None` for a write that goes its own way.
pub(in crate::engines::kv) fn join(
    path: &str,
    mut joining: JoiningWrite<'_>,
) -> Option<JoinAnswer> {
    let call = joining.call;
    let BodyKind::Fields(body) = call.body_kind else { return None };
    let data = match body.get("data") {
        Some(data @ Json::Object(_)) if body.len() == 1 => data.to_text(),
        _ => return None,
    };
    if call.operation != Operation::Update
        || joining.context.store.is_inside()
        || check_entry_path(path).is_err()
        || check_entry_size(&data).is_err()
    {
        return None;
    }
    let key = keys::kv_meta(joining.mount.entry.id, path);
    if joining.held.try_hold(&key) == LatchOutcome::Busy {
        return Some(JoinAnswer::Busy(joining.held.busy(&key)));
    }
    if change(path, &key, &data, &mut joining).is_none() {
        joining.held.let_go(&key);
        return None;
    }
    Some(JoinAnswer::Joined)
}

/// Adds what the write changes, whose latch is held, to the changes of the run; `None` where that is left alone.
fn change(path: &str, key: &[u8], data: &[u8], joining: &mut JoiningWrite<'_>) -> Option<()> {
    let JoiningWrite { context, call, mount, author, changes, .. } = joining;
    let keyring = context.store.keys().load();
    let records = context.store.records(&keyring);
    let (metadata, seqno, records) = match context.view.recent.take(key) {
        Some(known) => (Some(known.metadata), known.seqno, records.knowing(key, &known.storage)),
        None if mount.index.may_contain(path) => {
            let record = context.store.get_within(&records, key, LIGHT_METADATA_BYTES_MAX);
            let (metadata, seqno) = decode(record.ok()?).ok()?;
            (metadata, seqno, records)
        }
        None => (None, Seqno::ABSENT, records),
    };
    let config = mount.kv_config.load();
    let author = match config.is_anonymous {
        true => None,
        false => author_of(context, call, author),
    };
    let decision = decide::put(metadata, &config, (None, author), call.now_ns()).ok()?;
    let id = mount.entry.id;
    let mut staged = Staged::default();
    staged.expect(key.to_vec(), seqno);
    add(&mut staged, id, path, &decision, Some(Cow::Borrowed(data))).ok()?;
    let sealed = records.seal(&staged.into_batch()).ok()?;
    let storage = *sealed.expectations().first()?.key.first_chunk()?;
    let left = RecentSecret { metadata: decision.metadata, seqno, storage };
    changes.add(&context.view, (id, path), (sealed, data), (key.to_vec(), left)).ok()
}

/// Who asks; looked up for the first of the writes, which are all of one token.
fn author_of<'a>(
    context: &NamespaceContext,
    call: &AuthorizedCall<'_, '_>,
    known: &'a mut Option<Author>,
) -> Option<&'a Author> {
    if known.is_none() {
        *known = caller_as_author(context, call);
    }
    known.as_mut().map(|author| author.in_request(call.id.bits()))
}
