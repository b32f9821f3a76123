//! The cubbyhole: what a token keeps for itself.
//!
//! A store like KV v1 in which every token sees its own entries and nobody else's: names are kept
//! under the token's hash. A write depends on its token being there, and the token's end deletes its
//! entries ([`forget`]), so nothing is left behind by a race of the two.

mod routes;

use crate::engines::route_handler::{self, RouteCall};
use crate::engines::server_engine::{
    Answer, BuiltinMount, EngineFacts, Run, ServerEngine, Weighed,
};
use data_encoding::HEXLOWER;
use kallisto_auth::{Operation, TokenKind};
use kallisto_engine::{Class, Routes};
use kallisto_store::Batch;

use crate::api::error::{Denial, Error};
use crate::api::json::Json;
use crate::api::response::{Logical, Response};
use crate::pipeline::policies::Caller;
use crate::pipeline::state::NamespaceContext;
use crate::pipeline::wrapping;
use crate::storage::engine_storage::EngineStorage;
use crate::storage::keys::{self, MountId};
use crate::storage::transact::transact;
use crate::tokens::Hash;

/// Cubbyholes looked at in one step of [`forget_gone`].
const FOLDERS_MAX: usize = 1024;

/// The cubbyhole of the token that asks, by that token's hash.
fn owner(run: &RouteCall<'_>) -> Result<Caller, Error> {
    let caller = Caller::of(&run.unsealed, run.call)?;
    if caller.token().kind == TokenKind::Batch {
        return Err(Error::invalid(
            "cubbyhole operations are only supported by 'service' type tokens",
        ));
    }
    if caller.above().is_some() {
        return Err(Error::invalid("a token has its cubbyhole in its own namespace only"));
    }
    Ok(caller)
}

fn folder(hash: &[u8]) -> String {
    format!("{}/", HEXLOWER.encode(hash))
}

/// The name of a token's entry in the engine storage.
pub(crate) fn name(hash: &[u8], path: &str) -> String {
    format!("{}{path}", folder(hash))
}

fn read(run: &RouteCall<'_>) -> Result<Response, Error> {
    let owner = owner(run)?;
    if run.path == wrapping::RESPONSE && wrapping::is_wrapping(owner.entry()) {
        return read_wrapped(&run.unsealed, &owner.hash);
    }
    let storage = EngineStorage::builtin(&run.unsealed, MountId::CUBBYHOLE)?;
    let record = storage.get(&name(&owner.hash, run.path))?.ok_or(Error::NotFound)?;
    Ok(Response::Logical(Logical { data: record.value.to_vec(), ..Logical::default() }))
}

/// What a wrapping token holds, as it was taken out before there was a route for it.
fn read_wrapped(unsealed: &NamespaceContext, hash: &Hash) -> Result<Response, Error> {
    let storage = EngineStorage::builtin(unsealed, MountId::CUBBYHOLE)?;
    let record = storage.get(&name(hash, wrapping::RESPONSE))?.ok_or(Error::NotFound)?;
    let envelope = wrapping::envelope(&record.value);
    let envelope = envelope.ok_or_else(|| Error::internal(&"a wrapped answer is damaged"))?;
    let data = Json::object([("response", envelope.into())]).to_text();
    let warnings = vec![
        "Reading 'cubbyhole/response' is deprecated: sys/wrapping/unwrap does the same and checks \
         more."
            .to_owned(),
    ];
    Ok(Response::Logical(Logical { data, warnings, ..Logical::default() }))
}

fn list(run: &RouteCall<'_>) -> Result<Response, Error> {
    let owner = owner(run)?;
    let storage = EngineStorage::builtin(&run.unsealed, MountId::CUBBYHOLE)?;
    let names = storage.list(&name(&owner.hash, run.path))?;
    if names.is_empty() {
        return Err(Error::NotFound);
    }
    Ok(Response::data(&Json::object([("keys", Json::strings(names))])))
}

async fn delete(run: &RouteCall<'_>) -> Result<Response, Error> {
    let owner = owner(run)?;
    let storage = EngineStorage::builtin(&run.unsealed, MountId::CUBBYHOLE)?;
    storage.delete(&name(&owner.hash, run.path)).await?;
    Ok(Response::Empty)
}

async fn write(run: &RouteCall<'_>) -> Result<Response, Error> {
    let owner = owner(run)?;
    if run.path.is_empty() || run.path.ends_with('/') {
        return Err(Error::invalid("cannot write to a path ending in '/'"));
    }
    let body = run.call.object()?;
    if body.is_empty() {
        return Err(Error::invalid("missing data fields"));
    }
    put(&run.unsealed, &owner.hash, run.path, Json::Object(body).to_text()).await?;
    Ok(Response::Empty)
}

/// Keeps JSON text for a token, as long as that token lives.
///
/// # Errors
/// [`Denial::BadToken`] when it has ended; what [`EngineStorage::put_in`] says of the entry.
pub(crate) async fn put(
    unsealed: &NamespaceContext,
    hash: &Hash,
    path: &str,
    text: Vec<u8>,
) -> Result<(), Error> {
    let storage = EngineStorage::builtin(unsealed, MountId::CUBBYHOLE)?;
    let owner = keys::token(hash);
    // Its token may be renewed or used meanwhile, or go.
    transact(&unsealed.store, |batch| {
        let record = unsealed.store.get(&owner)?;
        let record = record.ok_or(Error::Denied(Denial::BadToken))?;
        batch.expect(owner.clone(), record.seqno);
        storage.put_in(batch, &name(hash, path), text.clone())
    })
    .await
}

/// Deletes what a token kept, after its end was folded: from then on nothing is added.
///
/// # Errors
/// The store's refusal.
pub(crate) async fn forget(unsealed: &NamespaceContext, hash: &Hash) -> Result<(), Error> {
    let storage = EngineStorage::builtin(unsealed, MountId::CUBBYHOLE)?;
    let folder = folder(hash);
    let kept = storage.scan(&folder)?;
    for names in kept.chunks(crate::limits::SWEEP_RECORDS_MAX) {
        let mut batch = Batch::new();
        batch.set_essential();
        for name in names {
            storage.delete_in(&mut batch, &format!("{folder}{name}"));
        }
        unsealed.store.commit(batch).await?;
    }
    Ok(())
}

/// Deletes what was kept by tokens that are gone: a crash came between their end and [`forget`].
///
/// # Errors
/// The store's refusal.
pub(crate) async fn forget_gone(unsealed: &NamespaceContext) -> Result<(), Error> {
    let storage = EngineStorage::builtin(unsealed, MountId::CUBBYHOLE)?;
    let mut after: Option<String> = None;
    loop {
        let folders = storage.list_page("", after.as_deref(), FOLDERS_MAX);
        for folder in &folders {
            let hash = HEXLOWER.decode(folder.trim_end_matches('/').as_bytes()).ok();
            let Some(hash) = hash.and_then(|hash| Hash::try_from(hash).ok()) else { continue };
            if !unsealed.view.tokens.lives(&hash) {
                forget(unsealed, &hash).await?;
            }
        }
        match folders.last() {
            Some(last) if folders.len() == FOLDERS_MAX => after = Some(last.clone()),
            _ => return Ok(()),
        }
    }
}

/// What a token keeps for itself, at `cubbyhole/`.
pub(crate) struct Cubbyhole;

/// Where it is.
const MOUNT: BuiltinMount = BuiltinMount {
    id: MountId::CUBBYHOLE,
    path: "cubbyhole/",
    description: "per-token private secret storage",
};

impl ServerEngine for Cubbyhole {
    fn facts(&self) -> EngineFacts {
        EngineFacts { has_folders: true, ..EngineFacts::builtin("cubbyhole", Class::Secret, MOUNT) }
    }

    fn routes(&self) -> &'static dyn Routes {
        &routes::CUBBYHOLE
    }

    fn handle<'a>(&self, run: Run<'a>) -> Answer<'a> {
        route_handler::answer(&routes::CUBBYHOLE, run)
    }

    /// Its secrets are in the engine storage, and as long as anywhere.
    fn is_light(&self, weighed: &Weighed<'_>) -> bool {
        !weighed.lists && weighed.request.operation != Operation::Read
    }
}
