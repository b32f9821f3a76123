//! The cubbyhole: what a token keeps for itself.
//!
//! A store like KV v1 in which every token sees its own entries and nobody else's: names are kept
//! under the token's hash. A write depends on its token being there, and the token's end deletes its
//! entries ([`forget`](records::forget)), so nothing is left behind by a race of the two.

mod routes;

use crate::dispatch::route_handler::{self, RouteCall};
use crate::dispatch::server_engine::{Answer, Run, ServerEngine, Weighed};
use crate::tokens::cubbyhole::name;
use crate::tokens::cubbyhole::owner;
use kallisto_auth::Operation;
use kallisto_engine::Routes;

use crate::api::error::{Denial, Error};
use crate::api::json::Json;
use crate::api::response::{Logical, Response};
use crate::records::token::Hash;
use crate::storage::engine_storage::EngineStorage;
use crate::storage::keys::{self, MountId};
use crate::storage::transact::transact;
use crate::view::NamespaceContext;
use crate::wrapping;

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

/// What a token keeps for itself, at `cubbyhole/`.
pub(crate) struct Cubbyhole;

impl ServerEngine for Cubbyhole {
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
