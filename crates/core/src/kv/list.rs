//! LIST and SCAN over a mount's index: what both versions of the engine share.

use super::Kv;
use crate::error::Error;
use crate::fields::Fields;
use crate::json::Json;
use crate::limits::LIST_ENTRIES_MAX;

/// Which names are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Depth {
    /// The direct children: entries, and folders with a trailing slash.
    Children,
    /// Every entry below.
    All,
}

/// A page of names: those after `after`, at most `limit`.
#[derive(Debug, Default)]
pub(super) struct Page {
    after: Option<String>,
    limit: Option<usize>,
}

impl Page {
    /// The page a request asks for with `after` and `limit`; a limit of 0 or less means all that
    /// the caller's policies let it see at once.
    pub(super) fn from_query(kv: &Kv<'_, '_, '_>) -> Result<Self, Error> {
        let most = kv.call.page_entries_max().and_then(|most| usize::try_from(most).ok());
        if kv.call.query.is_empty() {
            return Ok(Self { after: None, limit: most });
        }
        let query = kv.call.query_fields();
        let fields = Fields::new(&query);
        let limit = fields.int("limit")?.and_then(|limit| usize::try_from(limit).ok());
        let after = fields.string("after")?.filter(|after| !after.is_empty());
        Ok(Self { after, limit: limit.filter(|&limit| limit > 0).or(most) })
    }
}

/// The names under `folder`.
///
/// # Errors
/// [`Error::NotFound`] when there are none; [`Error::Invalid`] when there are more than an unpaged
/// list may return.
pub(super) fn names(
    kv: &Kv<'_, '_, '_>,
    folder: &str,
    depth: Depth,
    page: &Page,
) -> Result<Vec<String>, Error> {
    let limit = page.limit.unwrap_or(LIST_ENTRIES_MAX + 1).min(LIST_ENTRIES_MAX + 1);
    let index = &kv.mount.index;
    let after = page.after.as_deref();
    let names = match depth {
        Depth::Children => index.list(folder, after, limit),
        Depth::All => index.scan(folder, after, limit),
    };
    if names.len() > LIST_ENTRIES_MAX {
        return Err(Error::invalid(format!(
            "more than {LIST_ENTRIES_MAX} entries; ask for pages with after and limit"
        )));
    }
    if names.is_empty() { Err(Error::NotFound) } else { Ok(names) }
}

/// `{"keys": [...]}`
pub(super) fn keys_object(names: Vec<String>) -> Json {
    Json::object([("keys", Json::strings(names))])
}
