//! KV version 2: versions, check-and-set, soft delete, metadata (API.md A11).
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
mod subkeys;
mod versions;

use kallisto_auth::Operation;

use super::Kv;
use crate::error::Error;
use crate::response::{Logical, Response};

pub(super) async fn handle(kv: &Kv<'_, '_, '_>, path: &str) -> Result<Response, Error> {
    use Operation::{Delete, List, Patch, Read, Scan, Update};
    let (noun, rest) = path.split_once('/').unwrap_or((path, ""));
    let has_rest = path.len() > noun.len();
    let outcome = match (noun, kv.call.operation) {
        ("config", Read) if !has_rest => Ok(config::read(kv)),
        ("config", Update) if !has_rest => config::write(kv).await,
        ("config", _) if !has_rest => Err(Error::UnsupportedOperation),
        ("metadata" | "detailed-metadata", List | Scan) => metadata::list(kv, noun, rest),
        _ if !has_rest => Err(Error::UnsupportedPath),
        ("data", Read) => data::read(kv, rest),
        ("data", Update) => data::write(kv, rest).await,
        ("data", Patch) => data::patch(kv, rest).await,
        ("data", Delete) => versions::delete_latest(kv, rest).await,
        ("subkeys", Read) => subkeys::read(kv, rest),
        ("metadata", Read) => metadata::read(kv, rest),
        ("metadata", Update) => metadata::write(kv, rest).await,
        ("metadata", Patch) => metadata::patch(kv, rest).await,
        ("metadata", Delete) => metadata::delete(kv, rest).await,
        ("delete", Update) => versions::change(kv, rest, versions::Change::Delete).await,
        ("undelete", Update) => versions::change(kv, rest, versions::Change::Undelete).await,
        ("destroy", Update) => versions::change(kv, rest, versions::Change::Destroy).await,
        ("data" | "subkeys" | "detailed-metadata" | "delete" | "undelete" | "destroy", _) => {
            Err(Error::UnsupportedOperation)
        }
        _ => Err(Error::UnsupportedPath),
    };
    match outcome {
        Err(Error::UnsupportedPath) => Ok(invalid_path(kv)),
        outcome => outcome,
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
