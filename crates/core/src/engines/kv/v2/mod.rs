//! KV version 2: versions, check-and-set, soft delete, metadata.
//!
//! Each file is one noun of the API. What a write means is decided in `decide`, a pure function of
//! (metadata, settings, request, now); `commit` runs a decision against the store and decides again
//! when another writer came first.

mod commit;
mod config;
mod custom;
pub(super) mod data;
mod decide;
mod import;
mod join;
mod metadata;
pub(crate) mod recover;
pub(super) mod routes;
pub(crate) mod stage;
mod subkeys;
mod versions;

use kallisto_auth::Operation;

pub(super) use commit::current_version;
pub(crate) use custom::to_json as custom_json;
pub(crate) use data::asked_cas;
pub(super) use join::join;
pub(super) use metadata::detail;

use crate::api::error::Error;
use crate::api::response::{Logical, Response};
use crate::engines::kv::access::Kv;

/// The noun that leads a path, and what follows its slash.
pub(super) fn split(path: &str) -> (&str, Option<&str>) {
    match path.split_once('/') {
        Some((noun, rest)) => (noun, Some(rest)),
        None => (path, None),
    }
}

/// Answers a read of a path without one of the engine's nouns.
fn read_invalid(kv: &Kv<'_>, _path: &str) -> Option<Result<Response, Error>> {
    Some(Ok(invalid_path(kv.call.operation)))
}

/// The reply to a path without one of the engine's nouns: clients of version 1 land here.
fn invalid_path(operation: Operation) -> Response {
    let verb = match operation {
        Operation::Read => "get",
        Operation::Update | Operation::Recover => "put",
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
