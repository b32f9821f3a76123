//! `kv/read`: many reads in one request.
//!
//! Each path is a request of its own in all but the bytes on the wire: it is checked, judged, routed and
//! answered by what would do so for that request, and has its own status in the answer.

use kallisto_auth::{Operation, Path};

use super::meter::Meter;
use crate::api::error::Error;
use crate::api::fields::Fields;
use crate::api::json::{Json, Map};
use crate::api::request::{BodyKind, Headers, Request};
use crate::api::response::{BatchAnswer, BatchPart, Response};
use crate::authz::judge;
use crate::caller::call::AuthorizedCall;
use crate::caller::policies::CallerPolicies;
use crate::dispatch;
use crate::limits::{BULK_BYTES_MAX, BULK_PATHS_MAX};
use crate::view::NamespaceContext;

/// One read asked for.
struct BatchRead {
    path: String,
    version: Option<String>,
}

pub(in crate::engines) fn read(
    meter: Meter<'_>,
    context: &NamespaceContext,
    call: &AuthorizedCall<'_, '_>,
) -> Result<Response, Error> {
    let body = call.object()?;
    let items = items(&body)?;
    let caller = CallerPolicies::of(context, call)?;
    let mut bytes = 0;
    let mut answers = Vec::with_capacity(items.len());
    for item in items {
        let answer = if bytes < BULK_BYTES_MAX {
            read_one(meter, context, call, &caller, &item).and_then(BatchPart::of)
        } else {
            Err(Error::TooLarge("the answer is full; ask for this path again".into()))
        };
        bytes += answer.as_ref().map_or(0, |part| part.data().len());
        answers.push(BatchAnswer { operation: Operation::Read, path: item.path, answer });
    }
    Ok(Response::Each(answers))
}

/// The list `paths`: texts, or objects with `path` and `version`.
fn items(body: &Map) -> Result<Vec<BatchRead>, Error> {
    let Some(Json::Array(given)) = body.get("paths") else {
        return Err(Error::invalid("'paths' must be a list of paths"));
    };
    if given.is_empty() || given.len() > BULK_PATHS_MAX {
        return Err(Error::invalid(format!(
            "'paths' must name 1 to {BULK_PATHS_MAX} paths, and names {}",
            given.len()
        )));
    }
    given
        .iter()
        .enumerate()
        .map(|(at, item)| match item {
            Json::String(path) => Ok(BatchRead { path: path.clone(), version: None }),
            Json::Object(map) => {
                let fields = Fields::new(map);
                let path = fields.string("path")?;
                let path =
                    path.ok_or_else(|| Error::invalid(format!("paths[{at}] has no 'path'")))?;
                Ok(BatchRead { path, version: fields.string("version")? })
            }
            _ => Err(Error::invalid(format!("paths[{at}] is neither a path nor an object"))),
        })
        .collect()
}

fn read_one(
    meter: Meter<'_>,
    context: &NamespaceContext,
    call: &AuthorizedCall<'_, '_>,
    caller: &CallerPolicies,
    item: &BatchRead,
) -> Result<Response, Error> {
    let path = Path::literal(item.path.as_str());
    let request = Request {
        operation: Operation::Read,
        path: path.map_err(|error| Error::invalid(error.to_string()))?,
        namespace: call.namespace,
        token: call.token,
        query: item.version.iter().map(|text| ("version".to_owned(), text.clone())).collect(),
        body: &[],
        body_kind: BodyKind::Json,
        wrap_ttl_secs: 0,
        now: call.now,
        remote: call.remote,
        client_chain: call.client_chain,
        id: call.id,
        // Those of a condition (`If-None-Match`) are about the whole answer.
        headers: Headers::default(),
    };
    meter.take(request.operation, request.path.as_str())?;
    let call = judge::authorize_caller(context, caller, &request)?;
    // What has to wait, and what is no secret, is not read in bulk.
    dispatch::read(context, &call).unwrap_or(Err(Error::UnsupportedPath))
}
