//! The seal: how the keys come into memory and leave it.
//!
//! ```text
//! shares --combine--> unseal key --unwraps--> root key --opens--> keyring
//! ```
//! The wrapped root key and the scheme stand in one record ([`config::SealConfig`]), the sealed
//! keyring in another; both lie beside the barrier's records, under keys that nothing above the
//! barrier can name. Each verb is one file: `init`, `unseal` (and seal), `rotate`, `rekey`,
//! `generate_root`; `undo` takes back what the last two brought about.
//!
//! Invariants:
//! - One of these operations runs at a time ([`Seal::turn`]), to its end even when the client that
//!   asked hangs up.
//! - Shares and keys live in wiped memory, and only until they were tried.
//! - Whether a key is right is decided by its commitment, before anything is opened with it.

mod attempt;
mod config;
mod generate_root;
mod init;
mod rekey;
mod rotate;
mod undo;
mod unseal;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kallisto_store::Record;
use tokio::sync::OwnedMutexGuard;

use crate::api::error::Error;
use crate::pipeline::state::Core;
use crate::storage::keys;

pub(crate) use attempt::parse_share;
pub(crate) use generate_root::{OTP_CHARS, RootProgress, RootResult, decode_token};
pub(crate) use init::put_builtin;
pub use init::{InitSpec, Initialized, KvVersion};
pub(crate) use rekey::{RekeyProgress, RekeyResult, RekeySpec, Target, Verified};
pub(crate) use rotate::{Reencryption, reencryption_due};

use attempt::Attempt;
pub(crate) use config::SealConfig;
use generate_root::RootAttempt;
use rekey::RekeyAttempt;
use undo::Brought;
pub(crate) use unseal::{Opener, Opening};

/// Keeps the unseal key in place of people: something that wraps it and gives it back.
pub trait AutoSeal: Send + Sync {
    /// The name of the scheme, such as `static` or `transit`; part of the stored record.
    fn name(&self) -> &str;

    /// Wraps a key.
    ///
    /// # Errors
    /// What went wrong, without the key.
    fn wrap(&self, key: &[u8]) -> Result<Vec<u8>, String>;

    /// Gives a wrapped key back.
    ///
    /// # Errors
    /// What went wrong, without the key.
    fn unwrap(&self, wrapped: &[u8]) -> Result<zeroize::Zeroizing<Vec<u8>>, String>;

    /// Whether `wrapped`, which [`AutoSeal::unwrap`] opens, should be wrapped again: by a key that
    /// replaced the one behind it.
    fn is_outdated(&self, wrapped: &[u8]) -> bool;
}

/// What is under way at the seal.
#[derive(Default)]
pub(crate) struct Seal {
    turn: Arc<tokio::sync::Mutex<()>>,
    progress: Mutex<Progress>,
}

/// Shares collected so far, per purpose.
#[derive(Default)]
struct Progress {
    unseal: Option<Attempt>,
    rekey: Option<RekeyAttempt>,
    root: Option<RootAttempt>,
    /// What the last shares brought about.
    brought: Option<Brought>,
}

impl Seal {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Waits until no other operation changes the seal.
    pub(crate) async fn turn(&self) -> OwnedMutexGuard<()> {
        Arc::clone(&self.turn).lock_owned().await
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

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
            initialized: config.is_some(),
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

    /// The same, where its absence is a refusal.
    fn expect_seal_config(&self) -> Result<SealConfig, Error> {
        self.seal_config()?.ok_or_else(|| Error::invalid("Vault is not initialized"))
    }
}
