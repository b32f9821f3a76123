//! Join tokens: something besides the unseal key that a server has to show, once, to be taken in.
//!
//! Whoever holds the shares may join a cluster, which is what Vault asks for too. Where that is not enough, an operator sets
//! `require_token`; from then on each server that joins shows a token that a caller with `sudo` made, and that is gone
//! with it. Only hashes of tokens are kept, each with its end; those that ended go with a job, so that no clock that is set back makes them good again.

use data_encoding::{BASE64URL_NOPAD, HEXLOWER};
use jiff::Timestamp;
use kallisto_store::{Batch, Error as StoreError, Seqno};

use crate::api::error::Error;
use crate::api::fields::Fields;
use crate::api::json::{self, Json};
use crate::api::response::Response;
use crate::caller::call::AuthorizedCall;
use crate::storage::engine_storage::EngineStorage;
use crate::storage::keys::MountId;
use crate::view::NamespaceContext;

/// Where the hashes are.
const TOKENS: &str = "raft/join-tokens/";
/// What a server that joins has to show.
const ADMISSION: &str = "raft/admission";
/// What a token begins with, for those who look for secrets.
const PREFIX: &str = "kjt.";
/// Tokens that have not ended.
const TOKENS_MAX: usize = 64;
/// How long a token is good for, unless somebody says, and at the most, in seconds.
const TTL_SECS: i64 = 60 * 60;
const TTL_SECS_MAX: i64 = 7 * 24 * 60 * 60;

fn storage(context: &NamespaceContext) -> Result<EngineStorage<'_>, Error> {
    EngineStorage::builtin(context, MountId::SYSTEM)
}

/// Under what a token is kept.
pub(crate) fn join_token_record(token: &str) -> String {
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, token.as_bytes());
    format!("{TOKENS}{}", HEXLOWER.encode(digest.as_ref()))
}

/// The route that makes a token.
pub(crate) const JOIN_TOKEN: &str = "sys/storage/raft/bootstrap/token";

/// Forgets a token that nobody will hear of.
///
/// # Errors
/// What the store says.
pub(crate) async fn forget_join_token(
    context: &NamespaceContext,
    token: &str,
) -> Result<(), Error> {
    storage(context)?.delete(&join_token_record(token)).await?;
    Ok(())
}

/// Deletes tokens that have ended.
///
/// # Errors
/// What the store says; the next run tries again.
pub(crate) async fn end_join_tokens(
    context: &NamespaceContext,
    now: Timestamp,
) -> Result<(), Error> {
    let storage = storage(context)?;
    let mut batch = Batch::new();
    for hash in storage.list_some(TOKENS, TOKENS_MAX) {
        let name = format!("{TOKENS}{hash}");
        if end_of(&storage, &name)?.is_none_or(|(end, _)| end <= now.as_second()) {
            storage.delete_in(&mut batch, &name);
        }
    }
    if !batch.ops().is_empty() {
        context.store.commit(batch).await?;
    }
    Ok(())
}

/// Makes a token.
///
/// # Errors
/// [`Error::Invalid`] for a lifetime out of its bounds or one token too many.
pub(crate) async fn make_join_token(
    context: &NamespaceContext,
    call: &AuthorizedCall<'_, '_>,
) -> Result<Response, Error> {
    let body = call.object()?;
    let ttl = Fields::new(&body).span("ttl")?.map_or(TTL_SECS, |span| span.secs());
    if !(1..=TTL_SECS_MAX).contains(&ttl) {
        return Err(Error::invalid(format!("ttl must be 1 to {TTL_SECS_MAX} seconds")));
    }
    let storage = storage(context)?;
    let now = call.now.as_second();
    let mut batch = Batch::new();
    let mut kept = 0;
    for hash in storage.scan(TOKENS)? {
        let name = format!("{TOKENS}{hash}");
        match end_of(&storage, &name)? {
            Some((end, _)) if end > now => kept += 1,
            _ => storage.delete_in(&mut batch, &name),
        }
    }
    if kept >= TOKENS_MAX {
        return Err(Error::invalid(format!("{TOKENS_MAX} join tokens have not ended yet")));
    }
    let token = format!("{PREFIX}{}", BASE64URL_NOPAD.encode(&crate::random::make_bytes::<32>()?));
    let end = now.saturating_add(ttl);
    let record = Json::object([("end", Json::Number(end.to_string().into()))]).to_text();
    storage.put_in(&mut batch, &join_token_record(&token), record)?;
    context.store.commit(batch).await?;
    let end = Timestamp::from_second(end).unwrap_or(Timestamp::MAX);
    Ok(Response::data(&Json::object([
        ("token", token.into()),
        ("expire_time", end.to_string().into()),
    ])))
}

fn end_of(storage: &EngineStorage<'_>, name: &str) -> Result<Option<(i64, Seqno)>, Error> {
    let Some(record) = storage.get(name)? else { return Ok(None) };
    let end = json::parse_object(&record.value).ok();
    let end = end.and_then(|map| Fields::new(&map).int("end").ok().flatten());
    Ok(end.map(|end| (end, record.seqno)))
}

fn is_required(context: &NamespaceContext) -> Result<bool, Error> {
    let Some(record) = storage(context)?.get(ADMISSION)? else { return Ok(false) };
    let map = json::parse_object(&record.value);
    let map = map.map_err(|_| Error::internal(&"the rule of admission is damaged"))?;
    Ok(Fields::new(&map).boolean("require_token")?.unwrap_or(false))
}

/// Whether servers that join have to show a token.
///
/// # Errors
/// When the record cannot be read.
pub(crate) fn read_admission(context: &NamespaceContext) -> Result<Response, Error> {
    let required = is_required(context)?;
    Ok(Response::data(&Json::object([("require_token", required.into())])))
}

/// Says whether they have to.
///
/// # Errors
/// [`Error::Invalid`] without `require_token`.
pub(crate) async fn write_admission(
    context: &NamespaceContext,
    call: &AuthorizedCall<'_, '_>,
) -> Result<Response, Error> {
    let body = call.object()?;
    let required = Fields::new(&body).boolean("require_token")?;
    let required = required.ok_or_else(|| Error::invalid("missing require_token"))?;
    let record = Json::object([("require_token", required.into())]).to_text();
    storage(context)?.put(ADMISSION, record).await?;
    Ok(Response::Empty)
}

/// Refuses a server that has to show a token and shows none that is good.
///
/// # Errors
/// [`Error::Invalid`], which says nothing about which tokens there are.
pub(super) fn check(context: &NamespaceContext, token: &str, now: Timestamp) -> Result<(), Error> {
    if token.is_empty() && !is_required(context)? {
        return Ok(());
    }
    match end_of(&storage(context)?, &join_token_record(token))? {
        Some((end, _)) if !token.is_empty() && end > now.as_second() => Ok(()),
        _ => Err(refused()),
    }
}

/// Uses a token up. Of two servers that show the same one is refused.
///
/// # Errors
/// [`Error::Invalid`] if it is gone; what the store says.
pub(super) async fn take(context: &NamespaceContext, token: &str) -> Result<(), Error> {
    if token.is_empty() {
        return Ok(());
    }
    let (storage, name) = (storage(context)?, join_token_record(token));
    let (_, seqno) = end_of(&storage, &name)?.ok_or_else(refused)?;
    let mut batch = Batch::new();
    storage.expect_in(&mut batch, &name, seqno);
    storage.delete_in(&mut batch, &name);
    match context.store.commit(batch).await {
        Ok(_) => Ok(()),
        Err(StoreError::Conflict) => Err(refused()),
        Err(error) => Err(error.into()),
    }
}

fn refused() -> Error {
    Error::invalid("a join token is needed here, and this one is not good (any more)")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use kallisto_store::MemoryStore;

    use super::*;
    use crate::platform::server_info::ServerInfo;
    use crate::state::Core;

    #[test]
    fn a_token_that_has_ended_is_deleted_by_the_job() {
        let core = Core::new(Arc::new(MemoryStore::new()), ServerInfo::default());
        pollster::block_on(core.initialize_dev(None, Timestamp::UNIX_EPOCH)).unwrap();
        let context = core.context.load_full().unwrap();
        let (token, at) = ("kjt.a", |secs| Timestamp::from_second(secs).unwrap());
        let put = |name: &str, record: &[u8]| {
            pollster::block_on(storage(&context).unwrap().put(name, record.to_vec())).unwrap();
        };
        put(&join_token_record(token), br#"{"end":60}"#);
        put(ADMISSION, br#"{"require_token":true}"#);
        pollster::block_on(core.run_due_jobs(at(59))).unwrap();
        assert!(check(&context, token, at(59)).is_ok());
        pollster::block_on(core.run_due_jobs(at(60))).unwrap();
        assert!(check(&context, token, at(1)).is_err(), "a clock that was set back");
    }
}
