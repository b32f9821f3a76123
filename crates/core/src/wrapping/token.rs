//! What a wrapping token is: how it is known, where its content lies, and the one refusal of a token that is none.
//!
//! Called by all of this room. A wrapping token that does not exist, was opened or is none is refused in the same words, so that
//! guesses tell nothing.

use kallisto_auth::policy::RESPONSE_WRAPPING_NAME;
use kallisto_engine::wrapped::RESPONSE;

use crate::api::error::Error;
use crate::records::token::TokenEntry;
use crate::storage::keys::{self, MountId};
use crate::tokens::cubbyhole;

/// The key of the content of a wrapping token with this hash.
pub(super) fn content_key(hash: &[u8]) -> Vec<u8> {
    keys::storage(MountId::CUBBYHOLE, &cubbyhole::name(hash, RESPONSE))
}

/// The same for every way in which a wrapping token can be of no use.
pub(super) fn invalid() -> Error {
    Error::invalid("wrapping token is not valid or does not exist")
}

/// Whether a token wraps an answer.
pub(crate) fn is_wrapping(entry: &TokenEntry) -> bool {
    matches!(entry.auth.policies.as_slice(), [only] if only == RESPONSE_WRAPPING_NAME)
}
