//! LIST and SCAN over a mount's index: what both versions of the engine share.

use kallisto_auth::Operation;
use kallisto_index::PathIndex;

use crate::api::error::Error;
use crate::api::fields::Fields;
use crate::api::json::Json;
use crate::engines::kv::access::Kv;
use crate::limits::LIST_ENTRIES_MAX;

/// Which names are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ListDepth {
    /// The direct children: entries, and folders with a trailing slash.
    Children,
    /// Every entry below.
    All,
}

/// A page of names: those after `after`, at most `limit`.
#[derive(Debug, Default)]
pub(super) struct ListPage {
    pub(super) after: Option<String>,
    limit: Option<usize>,
}

impl ListPage {
    /// The page a request asks for with `after` and `limit`; a limit of 0 or less means all that
    /// the caller's policies let it see at once.
    pub(super) fn from_query(kv: &Kv<'_>) -> Result<Self, Error> {
        let most = kv.call.page_entries_max().and_then(|most| usize::try_from(most).ok());
        if kv.call.query.is_empty() {
            return Ok(Self { after: None, limit: most });
        }
        let query = kv.call.query_fields();
        let fields = Fields::new(&query);
        let after = fields.string("after")?.filter(|after| !after.is_empty());
        Ok(Self { after, limit: fields.limit()?.or(most) })
    }
}

impl ListPage {
    /// How many names it may hold; one more than a list without pages, to see that there are more.
    pub(super) fn names_max(&self) -> usize {
        self.limit.unwrap_or(LIST_ENTRIES_MAX + 1).min(LIST_ENTRIES_MAX + 1)
    }
}

impl ListDepth {
    /// What a list asks for, and what a scan.
    pub(super) fn of(operation: Operation) -> Self {
        if operation == Operation::Scan { Self::All } else { Self::Children }
    }

    /// At most `limit` names below `folder`, those after `after`.
    pub(super) fn names(
        self,
        index: &PathIndex,
        folder: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Vec<String> {
        match self {
            Self::Children => index.list(folder, after, limit),
            Self::All => index.scan(folder, after, limit),
        }
    }

    /// Shows the same names to `each`; how many they were.
    pub(super) fn names_each(
        self,
        index: &PathIndex,
        (folder, after): (&str, Option<&str>),
        limit: usize,
        mut each: impl FnMut(&str),
    ) -> usize {
        match self {
            Self::Children => index.list_each(folder, after, limit, each),
            Self::All => {
                let names = index.scan(folder, after, limit);
                names.iter().for_each(|name| each(name));
                names.len()
            }
        }
    }
}

/// The names under `folder`.
///
/// # Errors
/// [`Error::NotFound`] when there are none; [`Error::Invalid`] when there are more than an unpaged
/// list may return.
pub(super) fn names(
    kv: &Kv<'_>,
    folder: &str,
    depth: ListDepth,
    page: &ListPage,
) -> Result<Vec<String>, Error> {
    let names = depth.names(&kv.mount.index, folder, page.after.as_deref(), page.names_max());
    if names.len() > LIST_ENTRIES_MAX {
        return Err(too_many());
    }
    if names.is_empty() { Err(Error::NotFound) } else { Ok(names) }
}

/// The refusal of a list that has to be asked for in pages.
pub(super) fn too_many() -> Error {
    Error::invalid(format!(
        "more than {LIST_ENTRIES_MAX} entries; ask for pages with after and limit"
    ))
}

/// Paging parameters are not part of version 1; they are named in a warning and ignored.
pub(super) fn ignored_page(kv: &Kv<'_>) -> Vec<String> {
    let names = kv.call.query.iter().map(|(name, _)| name.as_str());
    let mut ignored: Vec<&str> = names.filter(|name| matches!(*name, "after" | "limit")).collect();
    ignored.sort_unstable();
    if ignored.is_empty() {
        return Vec::new();
    }
    let ignored = ignored.join(" ");
    vec![format!("Endpoint ignored these unrecognized parameters: [{ignored}]")]
}

/// `{"keys": [...]}`
pub(super) fn keys_object(names: Vec<String>) -> Json {
    Json::object([("keys", Json::strings(names))])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_holds_what_it_is_asked_for_and_a_list_without_pages_one_name_more_than_it_may() {
        let most = |limit| ListPage { after: None, limit }.names_max();
        assert_eq!(most(Some(5)), 5);
        for limit in [None, Some(LIST_ENTRIES_MAX + 2), Some(usize::MAX)] {
            assert_eq!(most(limit), LIST_ENTRIES_MAX + 1);
        }
    }
}
