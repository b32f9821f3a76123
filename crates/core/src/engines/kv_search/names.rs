//! `kv/list`: the names in a folder that the caller may do something with.
//!
//! Unlike a list at the folder itself it asks for no right to the folder: a name is in the answer when a
//! request of its own would let the caller read or change that secret, and a folder when there is such
//! a secret in it. With `detail=true` each name comes with what its metadata says ([`detail`]).

use super::walk::{SearchPage, WalkStep, seal_cursor, walk};
use super::{detail, parameters};
use crate::api::error::Error;
use crate::api::fields::Fields;
use crate::api::json::Json;
use crate::api::response::Response;
use crate::caller::call::AuthorizedCall;
use crate::engines::kv_batch::judge::BatchJudge;
use crate::engines::kv_batch::meter::Meter;
use crate::engines::kv_batch::place::SecretPlace;
use crate::limits::PAGE_DETAILS_MAX;
use crate::view::NamespaceContext;
use kallisto_engine::pace::{ITEMS_PER_TURN, cooperative_yield};

pub(in crate::engines) async fn list(
    meter: Meter<'_>,
    context: &NamespaceContext,
    call: &AuthorizedCall<'_, '_>,
) -> Result<Response, Error> {
    let parameters = parameters(call)?;
    let fields = Fields::new(&parameters);
    let mut folder = SecretPlace::from_field(context, call, fields, "path")?;
    if !folder.is_folder() {
        folder.path.push('/');
    }
    meter.take_list(&folder)?;
    let is_deep = fields.boolean("recursive")?.unwrap_or(false);
    let mut page = SearchPage::from_fields(context, fields, &folder)?;
    let has_details = fields.boolean("detail")?.unwrap_or(false);
    if has_details {
        page.limit = page.limit.min(PAGE_DETAILS_MAX);
    }
    let judge = BatchJudge::of(context, call)?;
    let mut names = Vec::new();
    let next = walk(&folder, &page, |name| {
        let path = format!("{}{name}", folder.path);
        let below = name.find('/').filter(|_| !is_deep);
        if let Some(at) = below
            && !judge.reaches(&folder.mount, &path[..=folder.path.len() + at])
        {
            return Ok(WalkStep::PastFolder(at + 1));
        }
        if !judge.may_see(&folder.mount, &path) {
            return Ok(WalkStep::Next);
        }
        if names.len() == page.limit {
            return Ok(WalkStep::Stop);
        }
        match below {
            Some(at) => {
                names.push(name[..=at].to_owned());
                Ok(WalkStep::PastFolder(at + 1))
            }
            None => {
                names.push(name.to_owned());
                Ok(WalkStep::Next)
            }
        }
    })
    .await?;
    if names.is_empty() && next.is_none() {
        return Err(Error::NotFound);
    }
    let next = next.map_or(Json::Null, |at| seal_cursor(context, &folder, &at).into());
    if !has_details {
        return Ok(Response::data(&Json::object([("keys", Json::strings(names)), ("next", next)])));
    }
    let mut entries = Vec::with_capacity(names.len());
    for (at, name) in names.iter().enumerate() {
        let shown = detail::shown(context, (meter, &judge), &folder, name, call.now_ns())?;
        entries.push(shown.into());
        if at % ITEMS_PER_TURN == 0 {
            cooperative_yield().await;
        }
    }
    Ok(Response::data(&Json::object([("entries", Json::Array(entries)), ("next", next)])))
}
