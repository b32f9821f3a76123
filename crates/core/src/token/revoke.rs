//! Ending tokens: one, and everything that hangs on it.
//!
//! The token itself goes first, so that it stops at once; those below follow in bounded batches. A
//! sweep that is cut short is taken up again at the next unseal: a child whose parent is gone is
//! found by the load.

use kallisto_store::Batch;

use super::entry::Hash;
use crate::cubbyhole;
use crate::error::Error;
use crate::keys;
use crate::limits::SWEEP_RECORDS_MAX;
use crate::state::Unsealed;

/// What becomes of the tokens below one that ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Children {
    /// They end too.
    Revoke,
    /// They live on as orphans.
    Orphan,
}

/// Ends a token and all below it.
///
/// # Errors
/// [`Error::Unavailable`] when the store refuses.
pub(crate) async fn revoke_tree(unsealed: &Unsealed, hash: Hash) -> Result<(), Error> {
    revoke_all(unsealed, vec![hash]).await
}

/// Ends tokens and all below them, a bounded batch at a time.
///
/// Whose children there are is asked after its own end was folded: from then on none can be made,
/// since making one expects its parent.
pub(super) async fn revoke_all(unsealed: &Unsealed, mut ending: Vec<Hash>) -> Result<(), Error> {
    while !ending.is_empty() {
        let round = ending.split_off(ending.len().saturating_sub(SWEEP_RECORDS_MAX));
        let mut batch = Batch::new();
        for hash in &round {
            batch.delete(keys::token(hash));
        }
        unsealed.store.commit(batch).await?;
        for hash in &round {
            ending.extend(unsealed.view.tokens.children_of(hash));
            cubbyhole::forget(unsealed, hash).await?;
        }
    }
    Ok(())
}

/// Ends the tokens that a login method at `mount` made, and all below them.
///
/// # Errors
/// [`Error::Unavailable`] when the store refuses.
pub(crate) async fn revoke_made_at(unsealed: &Unsealed, mount: &str) -> Result<(), Error> {
    revoke_all(unsealed, unsealed.view.tokens.made_at(mount)).await
}

/// Ends a token; `children` says what becomes of those below.
pub(super) async fn revoke(
    unsealed: &Unsealed,
    hash: Hash,
    children: Children,
) -> Result<(), Error> {
    match children {
        Children::Revoke => revoke_tree(unsealed, hash).await,
        Children::Orphan => {
            let mut batch = Batch::new();
            batch.delete(keys::token(&hash));
            unsealed.store.commit(batch).await?;
            cubbyhole::forget(unsealed, &hash).await?;
            orphan(unsealed, &unsealed.view.tokens.children_of(&hash)).await
        }
    }
}

/// Takes the parent off tokens.
async fn orphan(unsealed: &Unsealed, hashes: &[Hash]) -> Result<(), Error> {
    for hash in hashes {
        let key = keys::token(hash);
        let Some(record) = unsealed.store.get(&key)? else { continue };
        let Some(mut entry) = super::TokenEntry::decode(&record.value) else { continue };
        entry.parent = None;
        entry.auth.orphan = true;
        let mut batch = Batch::new();
        batch.expect(key.clone(), record.seqno);
        batch.put(key, entry.encode());
        match unsealed.store.commit(batch).await {
            // Gone or renewed meanwhile: what is gone needs nothing.
            Ok(_) | Err(kallisto_store::Error::Conflict) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
