//! `kv/list`: the names in a folder that the caller may do something with.
//!
//! Unlike a list at the folder itself it asks for no right to the folder: a name is in the answer when a
//! request of its own would let the caller read or change that secret, and a folder when there is such
//! a secret in it.

use super::parameters;
use super::walk::{Page, Step, seal_cursor, walk};
use crate::api::error::Error;
use crate::api::fields::Fields;
use crate::api::json::Json;
use crate::api::response::Response;
use crate::caller::call::Call;
use crate::engines::kv_batch::judge::Judge;
use crate::engines::kv_batch::meter::Meter;
use crate::engines::kv_batch::place::Place;
use crate::view::NamespaceContext;

pub(in crate::engines) async fn list(
    meter: Meter<'_>,
    unsealed: &NamespaceContext,
    call: &Call<'_, '_>,
) -> Result<Response, Error> {
    let parameters = parameters(call)?;
    let fields = Fields::new(&parameters);
    let mut folder = Place::from_field(unsealed, call, fields, "path")?;
    if !folder.is_folder() {
        folder.path.push('/');
    }
    meter.take_list(&folder)?;
    let is_deep = fields.boolean("recursive")?.unwrap_or(false);
    let page = Page::from_fields(unsealed, fields, &folder)?;
    let judge = Judge::of(unsealed, call)?;
    let mut names = Vec::new();
    let next = walk(&folder, &page, |name| {
        let path = format!("{}{name}", folder.path);
        let below = name.find('/').filter(|_| !is_deep);
        if let Some(at) = below
            && !judge.reaches(&folder.mount, &path[..=folder.path.len() + at])
        {
            return Ok(Step::PastFolder(at + 1));
        }
        if !judge.may_see(&folder.mount, &path) {
            return Ok(Step::Next);
        }
        if names.len() == page.limit {
            return Ok(Step::Stop);
        }
        match below {
            Some(at) => {
                names.push(name[..=at].to_owned());
                Ok(Step::PastFolder(at + 1))
            }
            None => {
                names.push(name.to_owned());
                Ok(Step::Next)
            }
        }
    })
    .await?;
    if names.is_empty() && next.is_none() {
        return Err(Error::NotFound);
    }
    let next = next.map_or(Json::Null, |at| seal_cursor(unsealed, &folder, &at).into());
    Ok(Response::data(&Json::object([("keys", Json::strings(names)), ("next", next)])))
}
