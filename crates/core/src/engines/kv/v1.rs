//! KV version 1: one value per path, replaced whole.

use crate::engines::kv::access::damaged;
use kallisto_store::Batch;

use super::list::{ListDepth, ListPage, ignored_page, keys_object, names};
use super::staged::Staged;
use super::upgrade::refuse_if_begun;
use crate::api::Span;
use crate::api::error::Error;
use crate::api::etag::Etag;
use crate::api::fields::scalar_text;
use crate::api::json::{Json, Map};
use crate::api::response::{Logical, Response};
use crate::engines::kv::access::Kv;
use crate::engines::kv::access::check_entry_path;
use crate::engines::kv::access::check_entry_size;
use crate::records::kv::encode_one;
use crate::storage::keys;
use crate::view::NamespaceContext;
use crate::view::{Hot, HotHeader, Mount, hot_key};

/// Reads the secret at `path`; `None` when it is longer than [`Kv`] lets it be.
pub(super) fn read(kv: &Kv<'_>, path: &str) -> Option<Result<Response, Error>> {
    if path.ends_with('/') || !kv.mount.index.may_contain(path) {
        return Some(Err(Error::NotFound));
    }
    let hot = &kv.context.view.hot;
    let guard = hot.pin();
    let Some(entry) = hot.get(&hot_key(kv.mount.entry.id, path), &guard).map(Hot::from) else {
        return kv.lets_read().then(|| read_cold(kv, path));
    };
    (entry.sealed_bytes() <= kv.secret_bytes_max).then(|| read_hot(kv, &entry))
}

fn read_hot(kv: &Kv<'_>, entry: &Hot<'_>) -> Result<Response, Error> {
    let lease = entry.header.lease_secs;
    let own = (lease != HotHeader::NO_LEASE).then_some(lease);
    let etag = entry.header.etag();
    if kv.call.knows(etag) {
        return Ok(Response::NotModified { etag, index: None });
    }
    let mut data = Vec::with_capacity(entry.sealed_bytes());
    entry.open_into(&kv.context.view.cipher, &mut data)?;
    Ok(reply(kv, own, etag, data))
}

/// The entry is not in memory: reads its record.
fn read_cold(kv: &Kv<'_>, path: &str) -> Result<Response, Error> {
    let key = keys::kv_one(kv.mount.entry.id, path);
    let folds = kv.context.view.folds();
    let record = kv.context.store.get(&key)?.ok_or(Error::NotFound)?;
    let (own, data) = crate::records::kv::decode_one(&record.value).map_err(damaged)?;
    kv.context.view.offer_one(folds, kv.mount.entry.id, path, &record);
    let etag =
        Etag { version: record.seqno.0, created_ns: 0, deletion_ns: None, metadata_version: 0 };
    if kv.call.knows(etag) {
        return Ok(Response::NotModified { etag, index: None });
    }
    Ok(reply(kv, own, etag, data.to_vec()))
}

fn reply(kv: &Kv<'_>, own_lease: Option<u32>, etag: Etag, data: Vec<u8>) -> Response {
    let mount = kv.mount.entry.config.default_lease_ttl_secs;
    let default = if mount > 0 { mount } else { kv.context.leases.default_secs };
    let lease_secs = own_lease.map_or(default, u64::from);
    Response::Logical(Logical { data, lease_secs, etag: Some(etag), ..Logical::default() })
}

pub(super) async fn put(kv: &Kv<'_>, path: &str) -> Result<Response, Error> {
    check_entry_path(path)?;
    let body = kv.call.object()?;
    let mut staged = Staged::default();
    stage(kv.mount, path, body, &mut staged)?;
    kv.context.store.commit(staged.into_batch()).await?;
    refuse_if_begun(kv.context, kv.mount)?;
    Ok(Response::Empty)
}

/// The JSON text of a secret; `None` when there is none.
///
/// # Errors
/// When the record cannot be read.
pub(crate) fn data(
    context: &NamespaceContext,
    mount: &Mount,
    path: &str,
) -> Result<Option<Vec<u8>>, Error> {
    let Some(record) = context.store.get(&keys::kv_one(mount.entry.id, path))? else {
        return Ok(None);
    };
    let (_, data) = crate::records::kv::decode_one(&record.value).map_err(damaged)?;
    Ok(Some(data.to_vec()))
}

/// Adds the write of one secret to a batch.
///
/// # Errors
/// [`Error::Invalid`] for a body of nothing, [`Error::TooLarge`] past the limits.
pub(crate) fn stage(
    mount: &Mount,
    path: &str,
    body: Map,
    staged: &mut Staged,
) -> Result<(), Error> {
    if body.is_empty() {
        return Err(Error::invalid("missing data fields"));
    }
    let lease = own_lease(&body);
    let text = Json::Object(body).to_text();
    check_entry_size(&text)?;
    staged.put(keys::kv_one(mount.entry.id, path), encode_one(lease, &text))
}

/// The lease a secret asks for by its own `ttl` or `lease` field, if that reads as a duration.
fn own_lease(body: &Map) -> Option<u32> {
    let field = body.get("ttl").or_else(|| body.get("lease"))?;
    let span = Span::parse(&scalar_text(field)?)?;
    u32::try_from(span.secs()).ok().filter(|&secs| secs != HotHeader::NO_LEASE)
}

pub(super) async fn delete(kv: &Kv<'_>, path: &str) -> Result<Response, Error> {
    if kv.mount.index.may_contain(path) {
        let mut batch = Batch::new();
        batch.delete(keys::kv_one(kv.mount.entry.id, path)).set_essential();
        kv.context.store.commit(batch).await?;
        refuse_if_begun(kv.context, kv.mount)?;
    }
    Ok(Response::Empty)
}

/// Lists what is directly in a folder, or all that is below.
pub(super) fn list(kv: &Kv<'_>, folder: &str) -> Option<Result<Response, Error>> {
    Some(listed(kv, folder))
}

fn listed(kv: &Kv<'_>, folder: &str) -> Result<Response, Error> {
    let names = names(kv, folder, ListDepth::of(kv.call.operation), &ListPage::default())?;
    let data = keys_object(names).to_text();
    Ok(Response::Logical(Logical { data, warnings: ignored_page(kv), ..Logical::default() }))
}

#[cfg(test)]
mod tests {
    use kallisto_auth::Operation::{Read, Update};

    use super::*;
    use crate::api::json::parse_object;
    use crate::platform::server_info::RouteAccess;
    use crate::routes::tests::{ROOT, ask, open_core};

    #[test]
    fn a_read_says_the_lease_of_the_secret_or_else_of_the_mount_or_else_of_the_server() {
        let core = open_core(RouteAccess::Token);
        for (path, body) in [("one/own", r#"{"ttl":"1h"}"#), ("one/none", r#"{"v":"x"}"#)] {
            ask(&core, Some(ROOT), Update, path, body).unwrap();
        }
        let default = core.context.load_full().unwrap().leases.default_secs;
        assert!(![0, 90, 3600].contains(&default));
        let told = |path: &str| match ask(&core, Some(ROOT), Read, path, "").unwrap() {
            Response::Logical(logical) => logical.lease_secs,
            other => panic!("{other:?}"),
        };
        for mount in [default, 90] {
            if mount != default {
                let tuned = r#"{"default_lease_ttl":"90s"}"#;
                ask(&core, Some(ROOT), Update, "sys/mounts/one/tune", tuned).unwrap();
            }
            // From memory, and from records.
            for _ in 0..2 {
                assert_eq!((told("one/own"), told("one/none")), (3600, mount));
                core.context.load_full().unwrap().view.hot.clear();
            }
        }
        // What is read from its record is in memory again.
        assert_eq!((told("one/own"), told("one/none")), (3600, 90));
        assert_eq!(core.context.load_full().unwrap().view.hot_stats().0, 2);
    }

    #[test]
    fn a_secret_asks_for_its_lease_by_ttl_then_lease() {
        for (body, lease) in [
            (r#"{"ttl":"1h"}"#, Some(3600)),
            (r#"{"lease":90}"#, Some(90)),
            (r#"{"ttl":"2s","lease":"1h"}"#, Some(2)),
            (r#"{"lease":"bogus"}"#, None),
            (r#"{"ttl":"-1s"}"#, None),
            (r#"{"ttl":{}}"#, None),
            ("{}", None),
        ] {
            assert_eq!(own_lease(&parse_object(body.as_bytes()).unwrap()), lease, "{body}");
        }
    }
}
