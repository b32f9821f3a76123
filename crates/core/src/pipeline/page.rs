//! A page of a list: what `after` and `limit` of a request ask for.
//!
//! The names of login methods and transit keys are listed in pages; KV has its own, since it lists
//! in depth too. A limit of zero or less, and none at all, mean all that the caller's policies let
//! it see at once.

use crate::api::error::Error;
use crate::api::fields::Fields;
use crate::limits::LIST_ENTRIES_MAX;
use crate::pipeline::state::Call;

/// Which of the names of a list are asked for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Page {
    /// The name after which it goes on; it need not exist.
    pub(crate) after: Option<String>,
    /// `None` for as many as a list may have.
    pub(crate) limit: Option<usize>,
}

impl Page {
    /// The page that a request asks for.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the limit is no number.
    pub(crate) fn asked(call: &Call<'_, '_>) -> Result<Self, Error> {
        let allowed = call.page_entries_max().and_then(|most| usize::try_from(most).ok());
        let query = call.query_fields();
        let fields = Fields::new(&query);
        let after = fields.string("after")?.filter(|after| !after.is_empty());
        let limit = fields.int("limit")?.and_then(|limit| usize::try_from(limit).ok());
        let limit = limit.filter(|&limit| limit > 0).or(allowed);
        Ok(Self { after, limit: limit.filter(|&limit| limit <= LIST_ENTRIES_MAX) })
    }
}
