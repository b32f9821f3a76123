//! `data/:path`: reading a version, writing one, patching the latest.

use std::borrow::Cow;

use kallisto_cuckoo::Gated;
use kallisto_store::Value;
use zeroize::Zeroize;

use super::commit::{Plan, load, run};
use super::decide::{self, WriteDecision};
use crate::api::error::Error;
use crate::api::etag::Etag;
use crate::api::fields::{Fields, into_map};
use crate::api::json::{self, Json, Map, merge_patch, write_u64};
use crate::api::response::{Logical, Response};
use crate::caller::call::AnswerShape;
use crate::engines::kv::access::Kv;
use crate::engines::kv::access::check_entry_path;
use crate::engines::kv::access::check_entry_size;
use crate::engines::kv::access::damaged;
use crate::engines::kv::time;
use crate::records::kv::{SecretMetadata, VersionInfo, decode_version};
use crate::storage::keys::{self, MountId};
use crate::view::NamespaceContext;
use crate::view::{Hot, hot_key};

/// Bytes of a reply beside data and custom metadata, at the most.
const REPLY_FRAME_BYTES: usize = 224;
/// What stands before the data in a reply.
const DATA_FIELD: &[u8] = b"{\"data\":";

/// A version and what a reply shows of it.
pub(super) struct ShownVersion<'a> {
    pub(super) info: VersionInfo,
    pub(super) custom: &'a [u8],
}

/// Reads the secret at `path`; `None` when it is longer than [`Kv`] lets it be.
pub(in crate::engines::kv) fn read(kv: &Kv<'_>, path: &str) -> Option<Result<Response, Error>> {
    let index = &kv.mount.index;
    match asked_version(kv) {
        Err(refusal) => return Some(Err(refusal)),
        Ok(Some(_)) if !index.may_contain(path) => return Some(Err(Error::NotFound)),
        Ok(Some(version)) => {
            return kv.lets_read().then(|| read_record(kv, path, Some(version)));
        }
        Ok(None) => {}
    }
    // The table's lines are asked for before the gate is, so that both waits are one.
    let hot = &kv.context.view.hot;
    let guard = hot.pin();
    let key = hot_key(kv.mount.entry.id, path);
    match hot.get_gated(&key, &guard, || index.may_contain(path)) {
        Gated::Refused => Some(Err(Error::NotFound)),
        Gated::Found(entry) => {
            let entry = Hot::from(entry);
            (entry.sealed_bytes() <= kv.secret_bytes_max).then(|| read_hot(kv, &entry))
        }
        Gated::Missing => kv.lets_read().then(|| read_record(kv, path, None)),
    }
}

/// The version a request asks for; 0 and below mean the latest.
pub(super) fn asked_version(kv: &Kv<'_>) -> Result<Option<u64>, Error> {
    if kv.call.query.is_empty() {
        return Ok(None);
    }
    let query = kv.call.query_fields();
    let version = Fields::new(&query).int("version")?;
    Ok(version.and_then(|version| u64::try_from(version).ok()).filter(|&version| version > 0))
}

/// Opens the entry into the reply itself: the data is copied nowhere else.
fn read_hot(kv: &Kv<'_>, entry: &Hot<'_>) -> Result<Response, Error> {
    let header = entry.header;
    if header.version == 0 {
        return Err(Error::NotFound);
    }
    let info = VersionInfo {
        version: header.version,
        created_ns: header.created_ns,
        deletion_ns: header.deletion(),
        deleted: header.deleted,
        destroyed: header.destroyed,
        // Such a version is deleted, which the header says.
        has_no_data: false,
    };
    let live = header.is_live(kv.call.now_ns());
    if live && kv.call.knows(header.etag()) {
        return Ok(Response::NotModified { etag: header.etag(), index: None });
    }
    if live && kv.call.shape() == AnswerShape::Fields {
        let mut data = Vec::with_capacity(entry.sealed_bytes());
        entry.open_into(&kv.context.view.cipher, &mut data)?;
        return Ok(fields_alone(header.etag(), data));
    }
    let mut out = Vec::with_capacity(REPLY_FRAME_BYTES + entry.sealed_bytes());
    out.extend_from_slice(DATA_FIELD);
    let custom = entry.open_into(&kv.context.view.cipher, &mut out)?;
    if !live {
        out[DATA_FIELD.len()..].zeroize();
        out.truncate(DATA_FIELD.len());
        out.extend_from_slice(b"null");
    }
    Ok(finish_reply(&ShownVersion { info, custom: &custom }, live.then(|| header.etag()), out))
}

/// Reads a version's record: older versions, and current ones that are not in memory.
fn read_record(kv: &Kv<'_>, path: &str, version: Option<u64>) -> Result<Response, Error> {
    let folds = kv.context.view.folds();
    let metadata = load(kv, path)?.ok_or(Error::NotFound)?;
    let version = version.unwrap_or(metadata.current_version);
    let info = *metadata.version(version).ok_or(Error::NotFound)?;
    let custom = metadata.custom.as_deref().unwrap_or_default().as_bytes();
    let shown = ShownVersion { info, custom };
    if !info.is_live(kv.call.now_ns()) {
        return Ok(reply_gone(&shown));
    }
    let etag = etag(&info, &metadata);
    if kv.call.knows(etag) {
        return Ok(Response::NotModified { etag, index: None });
    }
    let record = load_version(kv, path, version)?;
    if version == metadata.current_version {
        kv.context.view.offer_secret(folds, kv.mount.entry.id, path, &metadata, Some(&record));
    }
    let data = decode_version(&record).map_err(damaged)?;
    Ok(match kv.call.shape() {
        AnswerShape::Whole => reply(&shown, etag, data),
        AnswerShape::Fields => fields_alone(etag, data.to_vec()),
    })
}

/// The data text of a version that exists and was not destroyed.
pub(super) fn load_data(kv: &Kv<'_>, path: &str, version: u64) -> Result<Vec<u8>, Error> {
    let record = load_version(kv, path, version)?;
    Ok(decode_version(&record).map_err(damaged)?.to_vec())
}

/// The record of a version that exists and was not destroyed.
fn load_version(kv: &Kv<'_>, path: &str, version: u64) -> Result<Value, Error> {
    load_data_of(kv.context, kv.mount.entry.id, path, version)
}

/// The same for a secret of any mount.
pub(super) fn load_data_of(
    context: &NamespaceContext,
    id: MountId,
    path: &str,
    version: u64,
) -> Result<Value, Error> {
    let key = keys::kv_version(id, path, version);
    // Between reading the metadata and this the version may have been destroyed.
    Ok(context.store.get(&key)?.ok_or(Error::NotFound)?.value)
}

/// The tag of a read of one version, the same as the hot entry's while it is the current one.
fn etag(info: &VersionInfo, metadata: &SecretMetadata) -> Etag {
    Etag {
        version: info.version,
        created_ns: info.created_ns,
        deletion_ns: info.deletion_ns,
        metadata_version: metadata.metadata_version as u32,
    }
}

/// A live secret without what is said about it.
fn fields_alone(etag: Etag, data: Vec<u8>) -> Response {
    Response::Logical(Logical { data, etag: Some(etag), ..Logical::default() })
}

/// `{"data":…,"metadata":{…}}`
fn reply(shown: &ShownVersion<'_>, etag: Etag, data: &[u8]) -> Response {
    finish_reply(shown, Some(etag), begin_reply(shown, data))
}

/// The same without data, missing.
fn reply_gone(shown: &ShownVersion<'_>) -> Response {
    finish_reply(shown, None, begin_reply(shown, b"null"))
}

fn begin_reply(shown: &ShownVersion<'_>, data: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(REPLY_FRAME_BYTES + shown.custom.len() + data.len());
    out.extend_from_slice(DATA_FIELD);
    out.extend_from_slice(data);
    out
}

/// Closes a reply that holds the data by now: found when it has a tag, missing otherwise.
fn finish_reply(shown: &ShownVersion<'_>, etag: Option<Etag>, mut out: Vec<u8>) -> Response {
    out.extend_from_slice(b",\"metadata\":");
    write_shown(shown, &mut out);
    out.push(b'}');
    let logical = Logical { data: out, etag, ..Logical::default() };
    if etag.is_some() { Response::Logical(logical) } else { Response::Missing(logical) }
}

/// The metadata object of a version, as reads and writes show it.
pub(super) fn write_shown(shown: &ShownVersion<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"created_time\":\"");
    time::write(shown.info.created_ns, out);
    out.extend_from_slice(b"\",\"custom_metadata\":");
    out.extend_from_slice(if shown.custom.is_empty() { b"null" } else { shown.custom });
    out.extend_from_slice(b",\"deletion_time\":\"");
    if let Some(deletion) = shown.info.deletion_ns {
        time::write(deletion, out);
    }
    let destroyed: &[u8] = if shown.info.destroyed { b"true" } else { b"false" };
    out.extend_from_slice(b"\",\"destroyed\":");
    out.extend_from_slice(destroyed);
    out.extend_from_slice(b",\"version\":");
    write_u64(shown.info.version, out);
    out.push(b'}');
}

/// The metadata object of the current version as a reply of its own.
pub(super) fn shown_current(metadata: &SecretMetadata) -> Option<Logical> {
    let info = *metadata.version(metadata.current_version)?;
    let custom = metadata.custom.as_deref().unwrap_or_default().as_bytes();
    let mut data = Vec::with_capacity(REPLY_FRAME_BYTES + custom.len());
    write_shown(&ShownVersion { info, custom }, &mut data);
    Some(Logical { data, ..Logical::default() })
}

pub(super) async fn write(kv: &Kv<'_>, path: &str) -> Result<Response, Error> {
    check_entry_path(path)?;
    let mut body = kv.call.object()?;
    let cas = asked_cas(&body)?;
    let data = body.remove("data").ok_or_else(|| Error::invalid("no data provided"))?;
    let data = into_map("data", data)?.map_or(Json::Null, Json::Object).to_text();
    check_entry_size(&data)?;
    let config = kv.mount.kv_config.load();
    let now_ns = kv.call.now_ns();
    let author = kv.author();
    run(kv, path, |metadata| {
        let decision = decide::put(metadata, &config, (cas, author.as_ref()), now_ns)?;
        Ok(plan_put(decision, Cow::Borrowed(&data)))
    })
    .await
}

fn plan_put(decision: WriteDecision, data: Cow<'_, [u8]>) -> Plan<'_, Response> {
    let reply = shown_current(&decision.metadata).map_or(Response::Empty, Response::Logical);
    Plan::Write { decision, data: Some(data), reply }
}

/// The check-and-set parameter of a write: a whole number or its text.
pub(crate) fn asked_cas(body: &Map) -> Result<Option<i64>, Error> {
    let options = Fields::new(body).map("options")?;
    match options.and_then(|options| options.get("cas")) {
        None => Ok(None),
        // Whoever names it and gives nothing has seen no version: better refused than not guarded.
        Some(Json::Null) => Ok(Some(0)),
        Some(Json::Number(text)) => parse_cas(text).map(Some),
        Some(Json::String(text)) => parse_cas(text).map(Some),
        Some(_) => Err(cas_error()),
    }
}

fn parse_cas(text: &str) -> Result<i64, Error> {
    text.parse().map_err(|_| cas_error())
}

fn cas_error() -> Error {
    Error::invalid("error parsing check-and-set parameter")
}

pub(super) async fn patch(kv: &Kv<'_>, path: &str) -> Result<Response, Error> {
    check_entry_path(path)?;
    let mut body = kv.call.merge_patch()?;
    let cas = asked_cas(&body)?;
    let change = body.remove("data").ok_or_else(|| Error::invalid("no data provided"))?;
    let change = into_map("data", change)?.unwrap_or_default();
    let config = kv.mount.kv_config.load();
    let now_ns = kv.call.now_ns();
    let author = kv.author();
    run(kv, path, |metadata| {
        let Some(metadata) = metadata else { return Ok(Plan::Reply(Response::MissingEmpty)) };
        let Some(info) = metadata.version(metadata.current_version).copied() else {
            return Ok(Plan::Reply(Response::MissingEmpty));
        };
        if !info.is_live(now_ns) {
            let gone = shown_current(&metadata).unwrap_or_default();
            return Ok(Plan::Reply(Response::Missing(gone)));
        }
        let text = load_data(kv, path, info.version)?;
        let mut data = json::parse_object(&text).map_err(|error| Error::internal(&error))?;
        merge_patch(&mut data, change.clone());
        let data = Json::Object(data).to_text();
        check_entry_size(&data)?;
        let put = decide::put(Some(metadata), &config, (cas, author.as_ref()), now_ns)?;
        Ok(plan_put(put, Cow::Owned(data)))
    })
    .await
}

#[cfg(test)]
mod tests {
    use kallisto_auth::Operation::{Patch, Read, Update};

    use super::*;
    use crate::platform::server_info::RouteAccess;
    use crate::routes::tests::{ROOT, ask, open_core};

    /// As everywhere else where an object is asked for.
    #[test]
    fn data_may_be_a_list_of_one_object() {
        let core = open_core(RouteAccess::Open);
        let send = |operation, data: &str| {
            let body = format!(r#"{{"data":{data}}}"#);
            ask(&core, Some(ROOT), operation, "secret/data/a", &body)
        };
        let shown = || match ask(&core, Some(ROOT), Read, "secret/data/a", "").unwrap() {
            Response::Logical(logical) => String::from_utf8(logical.data).unwrap(),
            other => panic!("{other:?}"),
        };
        send(Update, r#"[{"a":"b"}]"#).unwrap();
        assert!(shown().starts_with(r#"{"data":{"a":"b"},"#), "{}", shown());
        send(Patch, r#"[{"c":"d"}]"#).unwrap();
        assert!(shown().starts_with(r#"{"data":{"a":"b","c":"d"},"#), "{}", shown());
        send(Update, "[]").unwrap();
        assert!(shown().starts_with(r#"{"data":{},"#), "{}", shown());
        for operation in [Update, Patch] {
            let why = send(operation, r#"[{"a":1},{"b":2}]"#).unwrap_err().to_string();
            assert!(why.ends_with("a list of more than one object"), "{why}");
            let why = send(operation, "[1]").unwrap_err().to_string();
            assert!(why.ends_with("got unconvertible type 'json.Number'"), "{why}");
        }
    }
}
