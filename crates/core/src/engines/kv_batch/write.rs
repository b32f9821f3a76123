//! `kv/write`: many secrets written as one, with check-and-set: all of them, or none.

use std::collections::HashSet;
use std::sync::Arc;

use kallisto_auth::{Operation, Path};

use super::meter::Meter;
use super::together;
use crate::api::error::{Denial, Error};
use crate::api::json::{Json, Map};
use crate::api::request::{BodyKind, Request};
use crate::api::response::{BatchAnswer, BatchPart, Response};
use crate::authz::judge;
use crate::caller::call::AuthorizedCall;
use crate::caller::policies::CallerPolicies;
use crate::dispatch;
use crate::engines::kv::access::caller_as_author;
use crate::engines::kv::access::check_entry_path;
use crate::engines::kv::access::check_entry_size;
use crate::engines::kv::staged::Staged;
use crate::engines::kv::{v1, v2};
use crate::limits::TOGETHER_SECRETS_MAX;
use crate::records::attribution::Author;
use crate::records::engine_kind::EngineKind;
use crate::records::engine_kind::KvState;
use crate::view::Mount;
use crate::view::NamespaceContext;

/// One write that was let in.
struct BatchWrite {
    /// Where a request of its own would write.
    api_path: String,
    mount: Arc<Mount>,
    /// The secret's path inside the mount.
    path: String,
    content: WriteContent,
}

enum WriteContent {
    /// A new version: its data as text, and check-and-set.
    Version { text: Vec<u8>, cas: Option<i64> },
    /// A secret without versions.
    Whole(Map),
}

pub(in crate::engines) async fn write(
    meter: Meter<'_>,
    context: &NamespaceContext,
    call: &AuthorizedCall<'_, '_>,
) -> Result<Response, Error> {
    let mut body = call.object()?;
    let Some(Json::Array(given)) = body.remove("writes") else {
        return Err(Error::invalid("'writes' must be a list of objects with 'path' and 'data'"));
    };
    if given.is_empty() || given.len() > TOGETHER_SECRETS_MAX {
        return Err(Error::invalid(format!(
            "'writes' must name 1 to {TOGETHER_SECRETS_MAX} secrets, and names {}",
            given.len()
        )));
    }
    let caller = CallerPolicies::of(context, call)?;
    let items = given
        .into_iter()
        .enumerate()
        .map(|(at, item)| admit(meter, context, call, &caller, at, item))
        .collect::<Result<Vec<_>, _>>()?;
    let keys: Vec<_> =
        items.iter().map(|item| together::record_key(&item.mount, &item.path)).collect();
    let distinct: HashSet<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    if distinct.len() < keys.len() {
        return Err(Error::invalid("a secret is named twice in 'writes'"));
    }
    let now_ns = call.now_ns();
    let author = caller_as_author(context, call);
    let told = together::commit(context, &keys, items.len(), |at, staged| {
        let item = &items[at];
        stage(context, item, (author.as_ref(), now_ns), staged)
            .map_err(|error| named(error, &item.api_path))
    })
    .await?;
    let answer = |(item, answer): (BatchWrite, Response)| BatchAnswer {
        operation: Operation::Update,
        path: item.api_path,
        answer: BatchPart::of(answer),
    };
    Ok(Response::Each(items.into_iter().zip(told).map(answer).collect()))
}

fn stage(
    context: &NamespaceContext,
    item: &BatchWrite,
    (author, now_ns): (Option<&Author>, i64),
    staged: &mut Staged,
) -> Result<Response, Error> {
    match &item.content {
        WriteContent::Version { text, cas } => {
            let author = author.filter(|_| !item.mount.kv_config.load().is_anonymous);
            let write = (text.as_slice(), *cas, author);
            let put = v2::stage::put(context, &item.mount, &item.path, write, now_ns, staged);
            put.map(Response::Logical)
        }
        WriteContent::Whole(map) => {
            v1::stage(&item.mount, &item.path, map.clone(), staged).map(|()| Response::Empty)
        }
    }
}

/// Checks one write and judges it as a request of its own, which is made for that.
fn admit(
    meter: Meter<'_>,
    context: &NamespaceContext,
    call: &AuthorizedCall<'_, '_>,
    caller: &CallerPolicies,
    at: usize,
    item: Json,
) -> Result<BatchWrite, Error> {
    let wrong = |what: &str| Error::invalid(format!("writes[{at}]: {what}"));
    let Json::Object(mut item) = item else { return Err(wrong("is no object")) };
    let Some(Json::String(api_path)) = item.remove("path") else {
        return Err(wrong("'path' must be a text"));
    };
    let path = Path::literal(api_path.as_str()).map_err(|error| wrong(&error.to_string()))?;
    let kind =
        context.view.mounts.route(path.as_str()).and_then(|(mount, _)| mount.entry.kind.kv());
    let own = match (kind, item) {
        (Some(KvState::V1), mut item) => match item.remove("data") {
            Some(Json::Object(data)) => data,
            _ => return Err(wrong("'data' must be an object")),
        },
        (_, item) => item,
    };
    let own = Json::Object(own).to_text();
    let request = Request {
        operation: Operation::Update,
        path,
        namespace: call.namespace,
        token: call.token,
        query: Vec::new(),
        body: &own,
        body_kind: BodyKind::Json,
        wrap_ttl_secs: 0,
        now: call.now,
        remote: call.remote,
        client_chain: call.client_chain,
        id: call.id,
        headers: call.headers,
    };
    meter.take(request.operation, request.path.as_str())?;
    let refused = |_| Error::Denied(Denial::At(api_path.clone()));
    let call = judge::authorize_caller(context, caller, &request).map_err(refused)?;
    let routed = context.view.mounts.route(call.path.as_str());
    let (mount, inside) = routed.ok_or_else(|| dispatch::no_route(context, &call))?;
    let path = match (mount.entry.kind.kv(), inside.split_once('/')) {
        (Some(KvState::V1), _) => inside,
        (Some(KvState::V2), Some(("data", path))) => path,
        _ => return Err(wrong("'path' is none at which a secret is written")),
    };
    check_entry_path(path).map_err(|error| named(error, &api_path))?;
    let content =
        content(mount.entry.kind, call.object()?).map_err(|error| named(error, &api_path))?;
    let path = path.to_owned();
    Ok(BatchWrite { api_path, mount, path, content })
}

fn content(kind: EngineKind, mut body: Map) -> Result<WriteContent, Error> {
    if kind == EngineKind::KV_V1 {
        return Ok(WriteContent::Whole(body));
    }
    let cas = v2::asked_cas(&body)?;
    let text = match body.remove("data") {
        Some(data @ Json::Object(_)) => data.to_text(),
        _ => return Err(Error::invalid("'data' must be an object")),
    };
    check_entry_size(&text)?;
    Ok(WriteContent::Version { text, cas })
}

/// The same error, saying where.
fn named(error: Error, path: &str) -> Error {
    match error {
        Error::Invalid(message) => Error::Invalid(format!("{path}: {message}")),
        error @ Error::CasMismatch => Error::Invalid(format!("{path}: {error}")),
        Error::TooLarge(message) => Error::TooLarge(format!("{path}: {message}")),
        other => other,
    }
}
