//! What the shares of a quorum changed last, to be undone when the answer that reports it cannot be sent.
//!
//! A rekey without verification hands the only copy of the new shares to one client, and a root token is
//! shown to no other client. If that answer is lost to a broken audit device, neither may stand: without its
//! new shares a cluster could never be unsealed again. Kept in memory, for the last request alone.

use crate::state::seal::progress::SealOutcome;
use kallisto_store::Batch;

use crate::api::error::Error;
use crate::api::request_id::RequestId;
use crate::state::Core;
use crate::storage::keys;
use crate::tokens;

impl Core {
    /// Undoes what the shares of this request brought about, if it was the last to bring about something.
    ///
    /// # Errors
    /// What the store says; [`Error::Conflict`] when the seal changed since.
    pub(crate) async fn undo_shares(&self, by: RequestId) -> Result<(), Error> {
        let _turn = self.seal.turn().await;
        let brought = self.seal.progress().brought.take_if(|brought| brought.by == by);
        match brought.map(|brought| brought.what) {
            None => Ok(()),
            Some(SealOutcome::Root(accessor)) => {
                let context = self.context.load_full().ok_or(Error::Sealed)?;
                match context.view.tokens.with_accessor(&accessor) {
                    Some(hash) => tokens::revoke_tree(&context, hash).await,
                    None => Ok(()),
                }
            }
            Some(SealOutcome::Rekey { before, after, kept }) => {
                let record = self.seal_record()?.filter(|record| *record.value == *after);
                let record = record.ok_or(Error::Conflict)?;
                let mut batch = Batch::new();
                batch.expect(keys::seal_config(), record.seqno);
                batch.put(keys::seal_config(), before);
                self.commit_seal(batch).await?;
                if let Some(kept) = kept {
                    self.keep_replaced(kept).await?;
                }
                tracing::warn!("a rekey was undone: its new shares could not be told");
                Ok(())
            }
        }
    }
}
