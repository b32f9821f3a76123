//! Rekey: the same root key under a new unseal key, in new shares. With auto-unseal, the same for
//! the recovery key. Data is not touched.
//!
//! Holders of the old shares prove themselves first. If verification was asked for, the new shares
//! must come back before they count; until then the old ones do.

use std::sync::Arc;

use kallisto_barrier::{RootKey, UnsealKey};
use kallisto_store::Batch;
use zeroize::Zeroizing;

use super::init::{check_scheme, split, unavailable};
use super::unseal::prove;
use crate::api::error::Error;
use crate::api::request_id::RequestId;
use crate::state::Core;
use crate::state::seal::attempt::{ShareAttempt, ShareBytes};
use crate::state::seal::config::{SealConfig, SealScheme};
use crate::state::seal::progress::RekeyAttempt;
use crate::state::seal::progress::RekeySpec;
use crate::state::seal::progress::SealOutcome;
use crate::state::seal::progress::ShareOutcome;
use crate::state::seal::progress::ShareTarget;
use crate::state::seal::progress::Unverified;
use crate::state::seal::recipients::{KeptShares, ShareRecipients};
use crate::storage::keys;

/// What is known of a rekey.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RekeyProgress {
    pub(crate) spec: RekeySpec,
    pub(crate) nonce: String,
    /// Shares given, and shares that are enough.
    pub(crate) given: usize,
    pub(crate) required: u8,
    /// The nonce, shares given and shares needed of a verification that waits.
    pub(crate) verification: Option<(String, usize, u8)>,
    /// The fingerprints of the keys that the new shares are encrypted to.
    pub(crate) fingerprints: Option<Vec<String>>,
    /// Whether the encrypted shares are kept.
    pub(crate) are_kept: bool,
}

/// What giving a share led to.
pub(crate) enum RekeyResult {
    /// More are needed.
    Progress(RekeyProgress),
    /// Here are the new shares; with verification, under this nonce.
    Keys {
        nonce: String,
        /// Encrypted, where they have holders.
        keys: Vec<Zeroizing<Vec<u8>>>,
        holders: Option<Arc<ShareRecipients>>,
        verification: Option<String>,
    },
}

/// What giving a new share back led to.
pub(crate) enum VerifyOutcome {
    /// More are needed.
    Waiting,
    /// The new shares count now; the nonce of the verification.
    Done(String),
}

const NOT_STARTED: &str = "no barrier rekey in progress";

impl Core {
    /// Begins a rekey.
    ///
    /// # Errors
    /// [`Error::Invalid`] when one is under way, or the scheme or target is wrong.
    pub(crate) async fn start_rekey(
        &self,
        spec: RekeySpec,
        holders: Option<ShareRecipients>,
    ) -> Result<RekeyProgress, Error> {
        let _turn = self.seal.turn().await;
        let config = self.expect_seal_config()?;
        check_target(&config, spec.target)?;
        check_scheme(spec.shares, spec.threshold)?;
        if spec.shares == 1 && spec.requires_verification {
            return Err(Error::invalid("a single share needs no verification"));
        }
        let mut progress = self.seal.progress();
        if progress.rekey.is_some() {
            return Err(Error::invalid("rekey already in progress"));
        }
        let attempt = RekeyAttempt {
            spec,
            attempt: ShareAttempt::start()?,
            unverified: None,
            holders: holders.map(Arc::new),
        };
        let started = attempt.progress(config.threshold);
        progress.rekey = Some(attempt);
        Ok(started)
    }

    /// The rekey under way.
    ///
    /// # Errors
    /// When the seal's record cannot be read.
    pub(crate) fn rekey_progress(&self) -> Result<Option<RekeyProgress>, Error> {
        let required = self.seal_config()?.map_or(0, |config| config.threshold);
        Ok(self.seal.progress().rekey.as_ref().map(|rekey| rekey.progress(required)))
    }

    /// Ends a rekey; `nonce` must be its own unless the caller is known (`None`).
    ///
    /// # Errors
    /// [`Error::Invalid`] for another nonce.
    pub(crate) fn cancel_rekey(&self, nonce: Option<&str>) -> Result<(), Error> {
        let mut progress = self.seal.progress();
        if let (Some(rekey), Some(given)) = (&progress.rekey, nonce)
            && rekey.attempt.nonce != given
        {
            return Err(Error::invalid("cancelling a rekey needs its nonce"));
        }
        progress.rekey = None;
        Ok(())
    }

    /// Takes an old share; with enough of them, makes the new ones.
    ///
    /// # Errors
    /// [`Error::Invalid`] without a rekey, for another nonce, and when the shares make the wrong
    /// key (they are forgotten then).
    pub(crate) async fn give_rekey_share(
        &self,
        share: ShareBytes,
        nonce: &str,
        by: RequestId,
    ) -> Result<RekeyResult, Error> {
        let _turn = self.seal.turn().await;
        let config = self.expect_seal_config()?;
        let (spec, key, own_nonce, holders) = {
            let mut progress = self.seal.progress();
            let rekey = progress.rekey.as_mut().ok_or_else(|| Error::invalid(NOT_STARTED))?;
            check_nonce(&rekey.attempt.nonce, nonce, "rekey")?;
            rekey.attempt.add(share);
            if rekey.attempt.count() < usize::from(config.threshold) {
                return Ok(RekeyResult::Progress(rekey.progress(config.threshold)));
            }
            let key = rekey.attempt.combine();
            rekey.attempt.clear();
            (rekey.spec, key?, rekey.attempt.nonce.clone(), rekey.holders.clone())
        };
        let proven = prove(config.proof(), &key)?;
        let fresh = UnsealKey::generate().map_err(unavailable)?;
        let keys = split(&fresh, spec.shares, spec.threshold)?;
        let keys = match &holders {
            None => keys,
            Some(holders) => holders.encrypt(&keys)?,
        };
        let before = config.clone();
        let config = rewrap(config, spec, &proven, &fresh)?;
        let kept = holders.as_deref().filter(|holders| holders.are_kept);
        let kept = kept.map(|holders| KeptShares::of(spec.target, &own_nonce, holders, &keys));
        if spec.requires_verification {
            let attempt = ShareAttempt::start()?;
            let verification = Some(attempt.nonce.clone());
            if let Some(rekey) = &mut self.seal.progress().rekey {
                let kept = kept.map(Arc::new);
                rekey.unverified = Some(Unverified { before, config, attempt, kept });
            }
            return Ok(RekeyResult::Keys { nonce: own_nonce, keys, holders, verification });
        }
        let what = self.adopt(&before, &config, kept.as_ref()).await?;
        self.seal.progress().brought = Some(ShareOutcome { by, what });
        Ok(RekeyResult::Keys { nonce: own_nonce, keys, holders, verification: None })
    }

    /// Takes a new share back; with enough of them, they count.
    ///
    /// # Errors
    /// [`Error::Invalid`] when nothing waits for verification, for another nonce, and when the
    /// shares make the wrong key.
    pub(crate) async fn verify_rekey(
        &self,
        share: ShareBytes,
        nonce: &str,
    ) -> Result<VerifyOutcome, Error> {
        let _turn = self.seal.turn().await;
        let (before, config, kept, key, own_nonce) = {
            let mut progress = self.seal.progress();
            let rekey = progress.rekey.as_mut().ok_or_else(|| Error::invalid(NOT_STARTED))?;
            let unverified = rekey.unverified.as_mut();
            let waiting =
                unverified.ok_or_else(|| Error::invalid("no rekey verification in progress"))?;
            check_nonce(&waiting.attempt.nonce, nonce, "verify")?;
            waiting.attempt.add(share);
            if waiting.attempt.count() < usize::from(waiting.config.threshold) {
                return Ok(VerifyOutcome::Waiting);
            }
            let key = waiting.attempt.combine();
            waiting.attempt.clear();
            let Unverified { before, config, kept, attempt } = waiting;
            (before.clone(), config.clone(), kept.clone(), key?, attempt.nonce.clone())
        };
        prove(config.proof(), &key)?;
        self.adopt(&before, &config, kept.as_deref()).await?;
        Ok(VerifyOutcome::Done(own_nonce))
    }

    /// Forgets the new shares given back so far; the verification starts over under a new nonce.
    ///
    /// # Errors
    /// [`Error::Invalid`] when nothing waits for verification.
    pub(crate) fn restart_verification(&self) -> Result<(), Error> {
        let mut progress = self.seal.progress();
        let waiting = progress.rekey.as_mut().and_then(|rekey| rekey.unverified.as_mut());
        let waiting = waiting.ok_or_else(|| Error::invalid("no rekey verification in progress"))?;
        waiting.attempt = ShareAttempt::start()?;
        Ok(())
    }

    /// Makes a new configuration the one that counts. Before it does, what was to be kept is kept. `before` is what the new one was made of: where
    /// another server rekeyed meanwhile, its shares stay the ones that count, and this rekey ends.
    async fn adopt(
        &self,
        before: &SealConfig,
        config: &SealConfig,
        kept: Option<&KeptShares>,
    ) -> Result<SealOutcome, Error> {
        if self.expect_seal_config()? != *before {
            self.seal.progress().rekey = None;
            return Err(Error::invalid(
                "the seal was changed meanwhile, the new shares count for nothing: begin a new rekey",
            ));
        }
        let kept = match kept {
            Some(shares) => Some(self.keep_shares(shares).await?),
            None => None,
        };
        let record = self.seal_record()?.ok_or_else(|| Error::internal(&"no seal record"))?;
        if SealConfig::decode(&record.value).as_ref() != Some(before) {
            return Err(Error::Conflict);
        }
        let mut batch = Batch::new();
        batch.expect(keys::seal_config(), record.seqno);
        let after = config.encode();
        batch.put(keys::seal_config(), after.clone());
        self.commit_seal(batch).await?;
        self.seal.progress().rekey = None;
        tracing::info!(shares = config.shares, threshold = config.threshold, "rekeyed");
        Ok(SealOutcome::Rekey { before: record.value.to_vec(), after, kept })
    }
}

impl RekeyAttempt {
    fn progress(&self, required: u8) -> RekeyProgress {
        let verification = self.unverified.as_ref().map(|waiting| {
            (waiting.attempt.nonce.clone(), waiting.attempt.count(), waiting.config.threshold)
        });
        RekeyProgress {
            spec: self.spec,
            nonce: self.attempt.nonce.clone(),
            given: self.attempt.count(),
            required,
            verification,
            fingerprints: self.holders.as_ref().map(|holders| holders.fingerprints()),
            are_kept: self.holders.as_ref().is_some_and(|holders| holders.are_kept),
        }
    }
}

fn check_target(config: &SealConfig, target: ShareTarget) -> Result<(), Error> {
    match (&config.scheme, target) {
        (SealScheme::Shamir, ShareTarget::Unseal)
        | (SealScheme::Auto { .. }, ShareTarget::Recovery) => Ok(()),
        (SealScheme::Shamir, ShareTarget::Recovery) => {
            Err(Error::invalid("recovery rekeying not supported"))
        }
        (SealScheme::Auto { .. }, ShareTarget::Unseal) => {
            Err(Error::invalid("this seal has no unseal shares; rekey its recovery key instead"))
        }
    }
}

/// The configuration under the new key. `proven` is what the old shares opened.
fn rewrap(
    config: SealConfig,
    spec: RekeySpec,
    proven: &RootKey,
    fresh: &UnsealKey,
) -> Result<SealConfig, Error> {
    let wrapped_anew = proven.wrap(fresh).map_err(unavailable)?;
    let (shares, threshold) = (spec.shares, spec.threshold);
    Ok(match config.scheme {
        SealScheme::Shamir => {
            SealConfig { scheme: SealScheme::Shamir, shares, threshold, root: wrapped_anew }
        }
        SealScheme::Auto { name, wrapped, .. } => {
            let scheme = SealScheme::Auto { name, wrapped, proof: wrapped_anew };
            SealConfig { scheme, shares, threshold, root: config.root }
        }
    })
}

/// Refuses a nonce of another attempt.
pub(super) fn check_nonce(own: &str, given: &str, what: &str) -> Result<(), Error> {
    if own == given {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "incorrect nonce supplied; nonce for this {what} operation is {own:?}"
    )))
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use kallisto_store::MemoryStore;

    use super::*;
    use crate::platform::server_info::ServerInfo;

    /// New shares, and the nonce under which they are verified, if they are.
    fn rekey(core: &Core, share: &[u8], requires_verification: bool) -> (Vec<Vec<u8>>, String) {
        let spec = RekeySpec {
            target: ShareTarget::Unseal,
            shares: 2,
            threshold: 2,
            requires_verification,
        };
        let started = pollster::block_on(core.start_rekey(spec, None)).unwrap();
        let share = Zeroizing::new(share.to_vec());
        let by = RequestId::make();
        let given = pollster::block_on(core.give_rekey_share(share, &started.nonce, by));
        let Ok(RekeyResult::Keys { keys, verification, .. }) = given else {
            panic!("one share is enough");
        };
        (keys.iter().map(|key| key.to_vec()).collect(), verification.unwrap_or_default())
    }

    /// The lead went to another server and came back.
    #[test]
    fn new_shares_that_wait_for_verification_count_for_nothing_once_another_server_rekeyed() {
        let store = Arc::new(MemoryStore::new());
        let open = || Core::new(Arc::clone(&store) as _, ServerInfo::default());
        let first = open();
        let made = pollster::block_on(first.initialize_dev(None, Timestamp::UNIX_EPOCH)).unwrap();
        let (waiting, nonce) = rekey(&first, &made.keys[0], true);
        // A rekey needs the shares alone.
        rekey(&open(), &made.keys[0], false);
        let counting = first.seal_config().unwrap();
        let verified = waiting.into_iter().map(|share| {
            pollster::block_on(first.verify_rekey(Zeroizing::new(share), &nonce)).map(drop)
        });
        let verified: Vec<_> = verified.collect();
        assert!(matches!(verified[..], [Ok(()), Err(Error::Invalid(_))]), "{verified:?}");
        assert_eq!(first.seal_config().unwrap(), counting);
        assert_eq!(first.rekey_progress().map(|progress| progress.is_some()), Ok(false));
    }
}
