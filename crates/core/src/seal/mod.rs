//! The seal: how the keys come into memory and leave it.
//!
//! ```text
//! shares --combine--> unseal key --unwraps--> root key --opens--> keyring
//! ```
//! The wrapped root key and the scheme stand in one record ([`SealConfig`]), the sealed
//! keyring in another; both lie beside the barrier's records, under keys that nothing above the
//! barrier can name. Each verb is one file: `init`, `unseal` (and seal), `rotate`, `rekey`,
//! `generate_root`; `undo` takes back what the last two brought about. `open` loads the view once the root key is
//! known, and `rebuild` has it loaded again when another state took the store's place.
//!
//! Invariants:
//! - One of these operations runs at a time ([`Seal::turn`](crate::state::seal::progress::Seal::turn)), to its end even when the client that
//!   asked hangs up.
//! - Shares and keys live in wiped memory, and only until they were tried.
//! - Whether a key is right is decided by its commitment, before anything is opened with it.

mod generate_root;
mod init;
mod kept_shares;
mod open;
pub(crate) mod rebuild;
mod rekey;
mod rotate;
pub(crate) mod tickets;
mod undo;
mod unseal;

use kallisto_store::{Batch, Record};

use crate::api::error::Error;
use crate::cluster;
use crate::state::Core;
use crate::state::seal::SealConfig;
use crate::storage::keys;

pub(crate) use generate_root::{OTP_CHARS, RootProgress, RootResult, decode_token};
pub(crate) use init::put_builtin;
pub use init::{InitSpec, Initialized, KvVersion};
pub(crate) use rekey::{RekeyProgress, RekeyResult, VerifyOutcome};
pub(crate) use rotate::reencryption_due;

/// What `seal-status` tells.
pub(crate) struct SealStatus {
    /// The scheme; `shamir` before initialisation, unless the configuration names another.
    pub(crate) scheme: String,
    pub(crate) initialized: bool,
    /// Whether shares are those of a recovery key.
    pub(crate) recovery: bool,
    pub(crate) threshold: u8,
    pub(crate) shares: u8,
    /// Shares given so far, and the nonce of the attempt.
    pub(crate) given: usize,
    pub(crate) nonce: String,
}

impl Core {
    /// What is known of the seal without a key.
    ///
    /// # Errors
    /// When its record cannot be read.
    pub(crate) fn seal_status(&self) -> Result<SealStatus, Error> {
        let (given, nonce) = match &self.seal.progress().unseal {
            Some(attempt) => (attempt.count(), attempt.nonce.clone()),
            None => (0, String::new()),
        };
        let config = self.seal_config()?;
        let configured = self.auto_seal.as_ref().map_or("shamir", |auto| auto.name());
        let scheme = config.as_ref().map_or(configured, SealConfig::name).to_owned();
        Ok(SealStatus {
            // A member is, whatever it was sent.
            initialized: config.is_some() || self.is_unsent(),
            // Before there is a seal too: by this clients know which shares to ask for.
            recovery: scheme != "shamir",
            scheme,
            threshold: config.as_ref().map_or(0, |config| config.threshold),
            shares: config.as_ref().map_or(0, |config| config.shares),
            given,
            nonce,
        })
    }

    /// The seal's configuration; `None` before initialisation.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when the record cannot be read, [`Error::Internal`] when it is no
    /// configuration.
    pub(crate) fn seal_config(&self) -> Result<Option<SealConfig>, Error> {
        match self.seal_record()? {
            // A server that is to join a cluster has that cluster's seal.
            None => Ok(self.joining.pending().map(|pending| pending.config)),
            Some(record) => match SealConfig::decode(&record.value) {
                Some(config) => Ok(Some(config)),
                None => Err(Error::internal(&"the seal's configuration is damaged")),
            },
        }
    }

    fn seal_record(&self) -> Result<Option<Record>, Error> {
        Ok(self.store.get(&keys::seal_config())?)
    }

    /// Commits a change of the seal's record, and returns when most servers have it written down as committed: with that they
    /// begin if all of them are killed, since sealed servers elect nobody who could tell them.
    async fn commit_seal(&self, batch: Batch) -> Result<(), Error> {
        self.store.commit(batch).await?;
        let others = self.store.replicated().filter(|cluster| !cluster.is_alone());
        // Each entry of the log comes with how far it is committed before.
        if others.is_some_and(|cluster| !cluster.shares_records())
            && let Err(error) = self.store.commit(Batch::new()).await
        {
            // The change counts. A new leader writes down the same, a moment later.
            tracing::warn!(%error, "other servers may not know yet that the seal was changed");
        }
        Ok(())
    }

    /// The same, where its absence is a refusal.
    fn expect_seal_config(&self) -> Result<SealConfig, Error> {
        self.seal_config()?.ok_or_else(|| cluster::without_seal(self))
    }
}
