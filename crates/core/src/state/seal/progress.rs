//! What is under way at the seal.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kallisto_openpgp::Recipient;
use secrecy::SecretString;
use tokio::sync::OwnedMutexGuard;

use super::attempt::ShareAttempt;
use super::config::SealConfig;
use super::recipients::{KeptShares, ReplacedShares, ShareRecipients};
use crate::api::request_id::RequestId;

/// What is under way at the seal.
#[derive(Default)]
pub(crate) struct Seal {
    turn: Arc<tokio::sync::Mutex<()>>,
    progress: Mutex<ShareProgress>,
}

/// Shares collected so far, per purpose.
#[derive(Default)]
pub(crate) struct ShareProgress {
    pub(crate) unseal: Option<ShareAttempt>,
    pub(crate) rekey: Option<RekeyAttempt>,
    pub(crate) root: Option<RootAttempt>,
    /// What the last shares brought about.
    pub(crate) brought: Option<ShareOutcome>,
}

/// Turns of those who change what is served: one opens a state or seals it at a time.
#[derive(Clone)]
pub(crate) struct SealTurns(Arc<tokio::sync::Mutex<()>>);

impl SealTurns {
    /// As [`Seal::turn`].
    pub(crate) async fn next(&self) -> OwnedMutexGuard<()> {
        Arc::clone(&self.0).lock_owned().await
    }
}

impl Seal {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Waits until no other operation changes the seal.
    pub(crate) async fn turn(&self) -> OwnedMutexGuard<()> {
        Arc::clone(&self.turn).lock_owned().await
    }

    /// The same for whoever is no part of a core.
    pub(crate) fn turns(&self) -> SealTurns {
        SealTurns(Arc::clone(&self.turn))
    }

    pub(crate) fn progress(&self) -> MutexGuard<'_, ShareProgress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a generated token is hidden by.
#[derive(Clone, Debug)]
pub(crate) enum TokenHiding {
    /// A one-time password.
    Password(SecretString),
    /// Encryption to somebody.
    Recipient(Recipient),
}

/// A generation under way.
pub(crate) struct RootAttempt {
    pub(crate) attempt: ShareAttempt,
    pub(crate) hiding: TokenHiding,
}

/// Which shares are made anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ShareTarget {
    /// Those of the unseal key.
    Unseal,
    /// Those of the recovery key.
    Recovery,
}

impl ShareTarget {
    /// The names of all records of kept shares.
    pub(crate) const KEPT_RECORDS: [&str; 2] =
        [Self::Unseal.kept_record(), Self::Recovery.kept_record()];

    /// The record of `sys/` that keeps shares of this kind, encrypted to OpenPGP keys (`seal::kept_shares`).
    pub(crate) const fn kept_record(self) -> &'static str {
        match self {
            Self::Unseal => "rekey/kept/unseal",
            Self::Recovery => "rekey/kept/recovery",
        }
    }
}

/// How the new shares shall be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RekeySpec {
    pub(crate) target: ShareTarget,
    pub(crate) shares: u8,
    pub(crate) threshold: u8,
    /// Whether new shares must come back before they count.
    pub(crate) requires_verification: bool,
}

/// A rekey under way.
pub(crate) struct RekeyAttempt {
    pub(crate) spec: RekeySpec,
    pub(crate) attempt: ShareAttempt,
    pub(crate) unverified: Option<Unverified>,
    /// Whom the new shares are encrypted to, if that was asked for.
    pub(crate) holders: Option<Arc<ShareRecipients>>,
}

/// New shares that were handed out and do not count yet.
pub(crate) struct Unverified {
    /// What they take the place of.
    pub(crate) before: SealConfig,
    pub(crate) config: SealConfig,
    pub(crate) attempt: ShareAttempt,
    /// What is kept once they count.
    pub(crate) kept: Option<Arc<KeptShares>>,
}

/// What a request's share brought about.
pub(crate) struct ShareOutcome {
    pub(crate) by: RequestId,
    pub(crate) what: SealOutcome,
}

/// What there is to be undone.
pub(crate) enum SealOutcome {
    /// A root token, by its accessor.
    Root(String),
    /// A seal configuration in place of another, and shares that are kept in the place of others.
    Rekey { before: Vec<u8>, after: Vec<u8>, kept: Option<ReplacedShares> },
}
