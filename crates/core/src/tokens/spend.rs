//! Tokens for a limited number of requests: each takes one, whether it is granted or not.

use crate::api::error::{Denial, Error};
use crate::records::token::TokenEntry;
use crate::records::token::TokenHash;
use crate::storage::keys;
use crate::storage::transact::transact;
use crate::view::NamespaceContext;

/// What stands in a token while its last request runs.
pub(crate) const LAST: i64 = -1;

/// What is left after a request took its use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UsesLeft {
    /// More.
    Some,
    /// Nothing: the token ends with this request.
    Nothing,
}

/// Takes one use off a token, exactly: of two requests for the last one, one is refused.
///
/// # Errors
/// [`Denial::BadToken`] when none is left.
pub(crate) async fn spend(context: &NamespaceContext, hash: &TokenHash) -> Result<UsesLeft, Error> {
    let key = keys::token(hash);
    transact(&context.store, |batch| {
        let record = context.store.get(&key)?.ok_or(Error::Denied(Denial::BadToken))?;
        let entry = TokenEntry::decode(&record.value);
        let mut entry = entry.ok_or_else(|| Error::internal(&"a token record is damaged"))?;
        let left = match entry.uses_left {
            0 => return Ok(UsesLeft::Some),
            LAST => return Err(Error::Denied(Denial::BadToken)),
            1 => {
                entry.uses_left = LAST;
                UsesLeft::Nothing
            }
            more => {
                entry.uses_left = more - 1;
                UsesLeft::Some
            }
        };
        batch.expect(key.clone(), record.seqno);
        batch.put(key.clone(), entry.encode());
        Ok(left)
    })
    .await
}
