//! The cubbyhole: what a token keeps for itself.
//!
//! A store like KV v1 in which every token sees its own entries and nobody else's: names are kept below what tells its token from others.
//! A write depends on that token being there ([`Transaction::need_caller`](kallisto_engine::Transaction::need_caller)), and the server
//! deletes the entries of a token that ends, so nothing is left behind by a race of the two.

#[cfg(test)]
mod tests;

use data_encoding::HEXLOWER;
use kallisto_api::{Error, Json, Logical, Response};
use kallisto_engine::FieldKind::Text;
use kallisto_engine::route::{Field, field};
use kallisto_engine::wrapped::{self, RESPONSE};
use kallisto_engine::{
    BuiltinMount, Call, CallerToken, EngineSpec, Handler, Multiplicity, RouteRows, RowIndex,
    Stored, handler, row,
};

/// The engine.
pub(crate) static ENGINE: EngineSpec = EngineSpec {
    multiplicity: Multiplicity::Builtin,
    builtin: Some(BuiltinMount {
        number: 2,
        path: "cubbyhole/",
        description: "per-token private secret storage",
    }),
    has_folders: true,
    ..EngineSpec::secret("cubbyhole", &ROUTES)
};

const PATH: Field = field("path", Text, "Path of the secret inside the mount.");

static ROUTES: RouteRows<Handler> = RouteRows {
    name: "cubbyhole",
    tag: "secrets",
    about: "What a token keeps for itself: no other token sees it, and it goes when the token does.",
    groups: &[&[row!("{path..}", &[PATH], {
        Read => "Read an entry.", handler!(read);
        Update => "Store an entry, replacing what was there.", handler!(write);
        Delete => "Delete an entry.", handler!(delete);
        List => "List the entries and folders in a folder.", handler!(list);
    } .with_root().creating(|to| Some(name(to.token?, to.params.get("path")))).more("The body of a write is the entry itself."))]],
    index: RowIndex::new(),
};

/// The token that asks, if it has a cubbyhole here.
fn owner(call: &Call<'_>) -> Result<CallerToken, Error> {
    let caller = call.caller.ok_or_else(|| Error::internal(&"a cubbyhole without a token"))?;
    if !caller.token.is_stored {
        return Err(Error::invalid(
            "cubbyhole operations are only supported by 'service' type tokens",
        ));
    }
    if caller.token.is_from_above {
        return Err(Error::invalid("a token has its cubbyhole in its own namespace only"));
    }
    Ok(caller.token)
}

/// The name of an entry, or of a folder, of the token with this id.
fn name(owner: &[u8; 32], path: &str) -> String {
    format!("{}/{path}", HEXLOWER.encode(owner))
}

async fn read(call: Call<'_>) -> Result<Response, Error> {
    let (owner, path) = (owner(&call)?, call.params.get("path"));
    let record = call.storage.get(&name(&owner.id, path))?.ok_or(Error::NotFound)?;
    if path == RESPONSE && owner.is_wrapping {
        return wrapped_answer(&record);
    }
    Ok(Response::Logical(Logical { data: record.value.to_vec(), ..Logical::default() }))
}

/// What a wrapping token holds, as it was taken out before there was a route for it.
fn wrapped_answer(record: &Stored) -> Result<Response, Error> {
    let envelope = wrapped::envelope(&record.value).ok_or_else(|| record.damaged())?;
    let data = Json::object([("response", envelope.into())]).to_text();
    let warnings = vec![
        "Reading 'cubbyhole/response' is deprecated: sys/wrapping/unwrap does the same and checks \
         more."
            .to_owned(),
    ];
    Ok(Response::Logical(Logical { data, warnings, ..Logical::default() }))
}

async fn list(call: Call<'_>) -> Result<Response, Error> {
    let owner = owner(&call)?;
    let names = call.storage.list(&name(&owner.id, call.params.get("path")))?;
    if names.is_empty() {
        return Err(Error::NotFound);
    }
    Ok(Response::data(&Json::object([("keys", Json::strings(names))])))
}

async fn delete(call: Call<'_>) -> Result<Response, Error> {
    let owner = owner(&call)?;
    let name = name(&owner.id, call.params.get("path"));
    if call.storage.get(&name)?.is_some() {
        call.storage.delete(&name).await?;
    }
    Ok(Response::Empty)
}

async fn write(call: Call<'_>) -> Result<Response, Error> {
    let (owner, path) = (owner(&call)?, call.params.get("path"));
    if path.is_empty() || path.ends_with('/') {
        return Err(Error::invalid("cannot write to a path ending in '/'"));
    }
    let body = call.request.object()?;
    if body.is_empty() {
        return Err(Error::invalid("missing data fields"));
    }
    let (name, text) = (name(&owner.id, path), Json::Object(body).to_text());
    call.storage
        .transact(&name, |transaction| {
            transaction.need_caller();
            transaction.put(&name, text.clone())
        })
        .await?;
    Ok(Response::Empty)
}
