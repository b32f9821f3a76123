//! `kv/search`: secrets by name, custom metadata and keys of their data ([`wanted`](super::wanted)), among those the caller may see.
//!
//! It looks through one folder, or through every KV mount that the caller reaches. No value is shown, and none is compared: of a
//! secret's data only the names of its keys are looked at, where the caller may read them.
//!
//! Bounds: [`EXAMINED_PATHS_MAX`] paths and [`SEARCH_DATA_BYTES_MAX`] bytes of data in one question; `next` goes on.

use std::sync::Arc;

use kallisto_auth::Operation;
use kallisto_cuckoo::Table;
use zeroize::Zeroizing;

use super::parameters;
use super::walk::{
    SearchPage, WalkStep, limit, seal_cursor, seal_everywhere, unseal_everywhere, walk_within,
};
use super::wanted::SearchPattern;
use crate::api::error::Error;
use crate::api::fields::Fields;
use crate::api::json::{self, Json, Map};
use crate::api::response::Response;
use crate::caller::call::AuthorizedCall;
use crate::engines::kv::{v1, v2};
use crate::engines::kv_batch::judge::BatchJudge;
use crate::engines::kv_batch::meter::Meter;
use crate::engines::kv_batch::place::{SecretName, SecretPlace};
use crate::limits::{EXAMINED_PATHS_MAX, SEARCH_DATA_BYTES_MAX};
use crate::records::engine_kind::KvState;
use crate::view::NamespaceContext;
use crate::view::{Hot, HotSlot, Mount, hot_key};

/// A search under way.
struct SecretSearch<'a> {
    context: &'a NamespaceContext,
    meter: Meter<'a>,
    judge: BatchJudge<'a>,
    wanted: SearchPattern,
    limit: usize,
    now_ns: i64,
    /// Paths that may still be looked at.
    paths_left: usize,
    /// Bytes of data that may still be looked through.
    bytes_left: usize,
    found: Vec<Json>,
}

pub(in crate::engines) async fn search(
    meter: Meter<'_>,
    context: &NamespaceContext,
    call: &AuthorizedCall<'_, '_>,
) -> Result<Response, Error> {
    let parameters = parameters(call)?;
    let fields = Fields::new(&parameters);
    let mut search = SecretSearch {
        context,
        meter,
        judge: BatchJudge::of(context, call)?,
        wanted: SearchPattern::from_fields(fields)?,
        limit: limit(fields)?,
        now_ns: call.now_ns(),
        paths_left: EXAMINED_PATHS_MAX,
        bytes_left: SEARCH_DATA_BYTES_MAX,
        found: Vec::new(),
    };
    let next = match fields.string("path")?.is_none_or(|path| path.is_empty()) {
        true => search.everywhere(fields).await?,
        false => {
            let mut folder = SecretPlace::from_field(context, call, fields, "path")?;
            if !folder.is_folder() {
                folder.path.push('/');
            }
            let page = SearchPage::from_fields(context, fields, &folder)?;
            let next = search.folder(&folder, page.after()).await?;
            next.map(|at| seal_cursor(context, &folder, &at))
        }
    };
    let next = next.map_or(Json::Null, Json::from);
    Ok(Response::data(&Json::object([("results", Json::Array(search.found)), ("next", next)])))
}

impl SecretSearch<'_> {
    /// Looks through every KV mount that the caller reaches, in the order of their paths.
    async fn everywhere(&mut self, fields: Fields<'_>) -> Result<Option<String>, Error> {
        let from = match fields.string("next")?.filter(|next| !next.is_empty()) {
            None => (String::new(), String::new()),
            Some(next) => unseal_everywhere(self.context, &next)?,
        };
        let is_kv = |mount: &Arc<Mount>| {
            matches!(mount.entry.kind.kv(), Some(KvState::V1 | KvState::V2))
                && mount.entry.path >= from.0
        };
        let mounts = self.context.view.mounts.all().into_iter().filter(is_kv);
        for mount in mounts {
            if !self.judge.reaches(&mount, "") {
                continue;
            }
            let path = mount.entry.path.clone();
            let after = if path == from.0 { from.1.as_str() } else { "" };
            if let Some(at) = self.folder(&SecretPlace::whole(mount), after).await? {
                return Ok(Some(seal_everywhere(self.context, &path, &at)));
            }
        }
        Ok(None)
    }

    /// Looks through one folder. Returns where to go on, or `None` at its end.
    async fn folder(&mut self, folder: &SecretPlace, after: &str) -> Result<Option<String>, Error> {
        self.meter.take_list(folder)?;
        let mut paths_left = self.paths_left;
        let next = walk_within(folder, after, &mut paths_left, |name| {
            if !self.wanted.names(name) {
                return Ok(WalkStep::Next);
            }
            if self.found.len() == self.limit || self.bytes_left == 0 {
                return Ok(WalkStep::Stop);
            }
            let path = format!("{}{name}", folder.path);
            if let Some(shown) = self.look(&folder.mount, &path)? {
                self.found.push(shown);
            }
            Ok(WalkStep::Next)
        })
        .await;
        self.paths_left = paths_left;
        next
    }

    /// What the answer shows of a secret with a fitting name; `None` when it does not fit, or the caller
    /// may not see what it would fit by.
    fn look(&mut self, mount: &Mount, path: &str) -> Result<Option<Json>, Error> {
        let mut shown = Map::new();
        shown.insert("path".into(), format!("{}{path}", mount.entry.path).into());
        let is_plain = !self.wanted.asks_metadata() && !self.wanted.asks_keys();
        if is_plain && !self.judge.may_see(mount, path) {
            return Ok(None);
        }
        if self.wanted.asks_metadata() {
            if !self.judge.may_see_metadata(mount, path) {
                return Ok(None);
            }
            let custom = custom_metadata(self.context, mount, path)?;
            if !self.wanted.fits(custom.as_ref()) {
                return Ok(None);
            }
            // What the answer shows of it, a read of its metadata would.
            self.meter.take(Operation::Read, &SecretName::api_path(mount, "metadata", path))?;
            shown.insert("custom_metadata".into(), custom.map_or(Json::Null, Json::Object));
        }
        if self.wanted.asks_keys() {
            if !self.judge.may_see_keys(mount, path) || !self.has_key(mount, path)? {
                return Ok(None);
            }
            self.meter.take(Operation::Read, &SecretName::api_path(mount, "subkeys", path))?;
        }
        Ok(Some(shown.into()))
    }

    /// Whether the current data of a secret has the wanted key.
    fn has_key(&mut self, mount: &Mount, path: &str) -> Result<bool, Error> {
        let data = match mount.entry.kind.has_versions() {
            true => v2::stage::current_data(self.context, mount, path, self.now_ns)?,
            false => v1::data(self.context, mount, path)?,
        };
        let Some(data) = data.map(Zeroizing::new) else { return Ok(false) };
        self.bytes_left = self.bytes_left.saturating_sub(data.len());
        Ok(json::parse_object(&data).is_ok_and(|data| self.wanted.has_key(&data)))
    }
}

/// The custom metadata of a secret: from memory if it is there.
fn custom_metadata(
    context: &NamespaceContext,
    mount: &Mount,
    path: &str,
) -> Result<Option<Map>, Error> {
    if !mount.entry.kind.has_versions() {
        return Ok(None);
    }
    let text = match hot_custom(context, &context.view.hot, mount, path)? {
        Some(text) => text,
        None => {
            let (metadata, _) = v2::stage::metadata(context, mount, path)?;
            metadata
                .and_then(|metadata| metadata.custom)
                .map_or_else(Vec::new, |text| text.into_string().into_bytes())
        }
    };
    if text.is_empty() {
        return Ok(None);
    }
    let text = std::str::from_utf8(&text).map_err(|error| Error::internal(&error))?;
    Ok(v2::custom_json(Some(text))?.as_object().cloned())
}

/// The text of it in the hot table; empty for none, `None` when the secret is not in the table.
fn hot_custom(
    context: &NamespaceContext,
    table: &Table<HotSlot>,
    mount: &Mount,
    path: &str,
) -> Result<Option<Vec<u8>>, Error> {
    let guard = table.pin();
    let Some(entry) = table.get(&hot_key(mount.entry.id, path), &guard).map(Hot::from) else {
        return Ok(None);
    };
    if entry.header.custom_bytes == 0 {
        return Ok(Some(Vec::new()));
    }
    let mut data = zeroize::Zeroizing::new(Vec::with_capacity(entry.sealed_bytes()));
    entry.open_into(&context.view.cipher, &mut data).map(Some)
}
