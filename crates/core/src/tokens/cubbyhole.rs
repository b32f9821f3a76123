//! Where a token has its secrets in the cubbyhole, and clearing them when it is gone.

use crate::api::error::Error;
use crate::records::token::TokenHash;
use crate::storage::engine_storage::EngineStorage;
use crate::storage::keys::MountId;
use crate::view::NamespaceContext;
use data_encoding::HEXLOWER;
use kallisto_store::Batch;

/// Cubbyholes looked at in one step of [`forget_gone`].
pub(crate) const FOLDERS_MAX: usize = 1024;

/// The folder of a token. The engine spells the same name, by what the contract tells it of a token.
pub(crate) fn folder(hash: &[u8]) -> String {
    format!("{}/", HEXLOWER.encode(hash))
}

/// The name of a token's entry in the engine storage.
pub(crate) fn name(hash: &[u8], path: &str) -> String {
    format!("{}{path}", folder(hash))
}

/// Deletes what a token kept, after its end was folded: from then on nothing is added.
///
/// # Errors
/// The store's refusal.
pub(crate) async fn forget(context: &NamespaceContext, hash: &TokenHash) -> Result<(), Error> {
    let storage = EngineStorage::builtin(context, MountId::CUBBYHOLE)?;
    let folder = folder(hash);
    let kept = storage.scan(&folder)?;
    for names in kept.chunks(crate::limits::SWEEP_RECORDS_MAX) {
        let mut batch = Batch::new();
        batch.set_essential();
        for name in names {
            storage.delete_in(&mut batch, &format!("{folder}{name}"));
        }
        context.store.commit(batch).await?;
    }
    Ok(())
}

/// Deletes what was kept by tokens that are gone: a crash came between their end and [`forget`].
///
/// # Errors
/// The store's refusal.
pub(crate) async fn forget_gone(context: &NamespaceContext) -> Result<(), Error> {
    let storage = EngineStorage::builtin(context, MountId::CUBBYHOLE)?;
    let mut after: Option<String> = None;
    loop {
        let folders = storage.list_page("", after.as_deref(), FOLDERS_MAX);
        for folder in &folders {
            let hash = HEXLOWER.decode(folder.trim_end_matches('/').as_bytes()).ok();
            let Some(hash) = hash.and_then(|hash| TokenHash::try_from(hash).ok()) else { continue };
            if !context.view.tokens.contains(&hash) {
                forget(context, &hash).await?;
            }
        }
        match folders.last() {
            Some(last) if folders.len() == FOLDERS_MAX => after = Some(last.clone()),
            _ => return Ok(()),
        }
    }
}
