//! KV version 2: versions, check-and-set, soft delete, metadata.
//!
//! Each file is one noun of the API. What a write means is decided in `decide`, a pure function of
//! (metadata, settings, request, now); `commit` runs a decision against the store and decides again
//! when another writer came first.

mod commit;
mod config;
mod custom;
mod data;
mod decide;
mod metadata;
pub(crate) mod stage;
mod subkeys;
mod versions;

use kallisto_auth::Operation;

pub(super) use commit::current_version;
pub(crate) use custom::to_json as custom_json;
pub(crate) use data::asked_cas;
pub(super) use metadata::detail;

use super::Kv;
use crate::api::error::Error;
use crate::api::response::{Logical, Response};

/// Answers a read; `None` when it takes more than [`Kv`] lets it.
pub(super) fn read(kv: &Kv<'_, '_, '_>, path: &str) -> Option<Result<Response, Error>> {
    match (split(path), kv.call.operation) {
        (("data", Some(secret)), Operation::Read) => data::read(kv, path, secret),
        _ => kv.lets_read(path).then(|| read_other(kv, path)),
    }
}

fn read_other(kv: &Kv<'_, '_, '_>, path: &str) -> Result<Response, Error> {
    use Operation::{List, Read, Scan};
    let (noun, rest) = split(path);
    match (noun, rest, kv.call.operation) {
        ("config", None, Read) => Ok(config::read(kv)),
        ("config", None, _) => Err(Error::UnsupportedOperation),
        ("metadata" | "detailed-metadata", rest, List | Scan) => {
            metadata::list(kv, noun, rest.unwrap_or_default())
        }
        ("subkeys", Some(path), Read) => subkeys::read(kv, path),
        ("metadata", Some(path), Read) => metadata::read(kv, path),
        _ => other(kv, noun, rest),
    }
}

pub(super) async fn write(kv: &Kv<'_, '_, '_>, path: &str) -> Result<Response, Error> {
    use Operation::{Delete, Patch, Update};
    use versions::Change;
    let (noun, rest) = split(path);
    match (noun, rest, kv.call.operation) {
        ("config", None, Update) => config::write(kv).await,
        ("config", None, _) => Err(Error::UnsupportedOperation),
        ("data", Some(path), Update) => data::write(kv, path).await,
        ("data", Some(path), Patch) => data::patch(kv, path).await,
        ("data", Some(path), Delete) => versions::delete_latest(kv, path).await,
        ("metadata", Some(path), Update) => metadata::write(kv, path).await,
        ("metadata", Some(path), Patch) => metadata::patch(kv, path).await,
        ("metadata", Some(path), Delete) => metadata::delete(kv, path).await,
        ("delete", Some(path), Update) => versions::change(kv, path, Change::Delete).await,
        ("undelete", Some(path), Update) => versions::change(kv, path, Change::Undelete).await,
        ("destroy", Some(path), Update) => versions::change(kv, path, Change::Destroy).await,
        _ => other(kv, noun, rest),
    }
}

/// The noun that leads a path, and what follows its slash.
pub(super) fn split(path: &str) -> (&str, Option<&str>) {
    match path.split_once('/') {
        Some((noun, rest)) => (noun, Some(rest)),
        None => (path, None),
    }
}

/// A noun of ours that does not take this operation, or no noun of ours.
fn other(kv: &Kv<'_, '_, '_>, noun: &str, rest: Option<&str>) -> Result<Response, Error> {
    match noun {
        "data" | "subkeys" | "metadata" | "detailed-metadata" | "delete" | "undelete"
        | "destroy"
            if rest.is_some() =>
        {
            Err(Error::UnsupportedOperation)
        }
        _ => Ok(invalid_path(kv)),
    }
}

/// The reply to a path without one of the engine's nouns: clients of version 1 land here.
fn invalid_path(kv: &Kv<'_, '_, '_>) -> Response {
    let verb = match kv.call.operation {
        Operation::Read => "get",
        Operation::Update => "put",
        Operation::Patch => "patch",
        Operation::Delete => "delete",
        Operation::List | Operation::Scan => "list",
    };
    let warning = format!(
        "Invalid path for a versioned K/V secrets engine. See the API docs for the appropriate \
         API endpoints to use. If using the Vault CLI, use 'vault kv {verb}' for this operation."
    );
    Response::Missing(Logical { warnings: vec![warning], ..Logical::default() })
}
