//! Unsealing and sealing.
//!
//! Unsealing finds the root key: from shares, or through the auto-seal. [`Opener`] then reads everything committed
//! once, which takes seconds on a large store. It runs on a thread of its own, so that the listener's threads go on
//! answering, and to its end, whoever hangs up meanwhile.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use kallisto_barrier::{Error as BarrierError, RootKey, UnsealKey};
use kallisto_store::{Batch, Candidacy, Store};
use tokio::sync::oneshot;

use super::init::unavailable;
use super::open::{Opener, Opening};
use crate::api::error::Error;
use crate::cluster::{self, removed};
use crate::platform::auto_seal::AutoSeal;
use crate::platform::cluster_port::ClusterPort;
use crate::platform::threads::Threads;
use crate::state::Core;
use crate::state::joining::Joining;
use crate::state::seal::attempt::{ShareAttempt, ShareBytes};
use crate::state::seal::config::{SealConfig, SealScheme};
use crate::storage::candidacy;
use crate::storage::keys;
use crate::timers::Timer;
use crate::view::NamespaceContext;

/// How often and how long sealing looks whether the last request that uses the keys has ended.
const LAST_REQUEST_CHECKS: u32 = 200;
const LAST_REQUEST_PAUSE: Duration = Duration::from_millis(10);

/// Whether an unseal attempt is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unsealing {
    /// More shares are needed.
    Collecting,
    /// The server is unsealed.
    Done,
}

impl Core {
    /// Takes a share; with enough of them, unseals.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the shares make the wrong key (they are forgotten then), or there is
    /// nothing to unseal; what [`Core::open`] says.
    pub(crate) async fn give_share(&self, share: ShareBytes) -> Result<Unsealing, Error> {
        let turn = self.seal.turn().await;
        if !self.is_sealed() {
            return Ok(Unsealing::Done);
        }
        removed::check(&*self.store)?;
        let config = self.expect_seal_config()?;
        let key = {
            let mut progress = self.seal.progress();
            let attempt = match &mut progress.unseal {
                Some(attempt) => attempt,
                none => none.insert(ShareAttempt::start()?),
            };
            attempt.add(share);
            if attempt.count() < usize::from(config.threshold) {
                return Ok(Unsealing::Collecting);
            }
            // Right or wrong, these shares have done their part.
            let attempt = progress.unseal.take();
            attempt.map(|attempt| attempt.combine()).transpose()?
        };
        let Some(key) = key else { return Ok(Unsealing::Collecting) };
        if let SealScheme::Auto { name, .. } = &config.scheme {
            return Err(match &self.auto_seal {
                Some(_) => Error::invalid(
                    "recovery keys do not unseal; this seal opens by itself when the server is started",
                ),
                None => no_seal_configured(name),
            });
        }
        let root = unwrap_root(&config, &key)?;
        self.open(root, turn).await?;
        Ok(Unsealing::Done)
    }

    /// Forgets the shares given so far.
    pub(crate) fn forget_shares(&self) {
        self.seal.progress().unseal = None;
    }

    /// Unseals through the auto-seal, if there is one and the store is initialised.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when the auto-seal does not give the key back, or this server joined a cluster that has sent it nothing yet;
    /// what opening says.
    pub async fn auto_unseal(&self) -> Result<(), Error> {
        let turn = self.seal.turn().await;
        // Of one that was removed the tick says so, and trying again would not help.
        if !self.is_sealed() || self.is_removed() {
            return Ok(());
        }
        // Asked first: what is sent between the two is found by the second.
        let is_unsent = self.auto_seal.is_some() && self.is_unsent();
        let Some(config) = self.seal_config()? else {
            return if is_unsent { Err(cluster::unsent(self.port.as_deref())) } else { Ok(()) };
        };
        let (auto, name, wrapped) = match (&self.auto_seal, &config.scheme) {
            (None, SealScheme::Shamir) => return Ok(()),
            (None, SealScheme::Auto { name, .. }) => return Err(no_seal_configured(name)),
            (Some(_), SealScheme::Shamir) => {
                return Err(Error::invalid(
                    "the storage was initialised with unseal shares, the configuration names a seal",
                ));
            }
            (Some(auto), SealScheme::Auto { name, wrapped, .. }) => (auto, name, wrapped),
        };
        if name != auto.name() {
            return Err(Error::invalid(format!(
                "the storage was initialised with the seal {name}, the configuration names {}",
                auto.name()
            )));
        }
        let bytes = auto.unwrap(wrapped).map_err(Error::Unavailable)?;
        let key = UnsealKey::from_bytes(&bytes).map_err(unavailable)?;
        let root = unwrap_root(&config, &key)?;
        if auto.is_outdated(wrapped) {
            self.renew_wrapping(&config, auto.as_ref(), &key).await;
        }
        self.open(root, turn).await
    }

    /// Whether a seal that opens by itself is to be tried as at a start, since this was asked last: a state that came, as a backup of another cluster,
    /// sealed this server, or the seal did not open when the server was initialised or was to join. It was no operator who sealed it.
    pub fn take_due_seal(&self) -> bool {
        self.seal_is_due.swap(false, Ordering::AcqRel)
    }

    /// Has the seal tried again by whoever asks [`Core::take_due_seal`].
    pub fn try_seal_again(&self) {
        self.seal_is_due.store(true, Ordering::Release);
    }

    /// Has the unseal key wrapped anew where the seal's key was replaced since, while this server is unsealed and leads: of a
    /// cluster no server leads while it is unsealed, so none of them could write it then. Asks the seal, which may take long.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when the seal does not give the key back or take it, and what the store says.
    pub async fn renew_seal_wrapping(&self) -> Result<(), Error> {
        if self.is_sealed() || !self.store.leads() {
            return Ok(());
        }
        let (Some(auto), Some(config)) = (&self.auto_seal, self.seal_config()?) else {
            return Ok(());
        };
        let SealScheme::Auto { name, wrapped, .. } = &config.scheme else { return Ok(()) };
        if name != auto.name() || !auto.is_outdated(wrapped) {
            return Ok(());
        }
        let bytes = auto.unwrap(wrapped).map_err(Error::Unavailable)?;
        let key = UnsealKey::from_bytes(&bytes).map_err(unavailable)?;
        unwrap_root(&config, &key)?;
        // What was changed meanwhile stays: the record is expected as it was read.
        self.try_renew_wrapping(&config, auto.as_ref(), &key).await?;
        tracing::info!(seal = auto.name(), "unseal key wrapped by the seal's new key");
        Ok(())
    }

    /// Wraps the unseal key again, so that the seal's key before is needed no more. Failing leaves
    /// the record as it was, which opens as before: the next start tries again.
    async fn renew_wrapping(&self, config: &SealConfig, auto: &dyn AutoSeal, key: &UnsealKey) {
        match self.try_renew_wrapping(config, auto, key).await {
            Ok(()) => {
                tracing::info!(seal = auto.name(), "unseal key wrapped by the seal's new key")
            }
            Err(error) => tracing::warn!(%error, "the unseal key stays under the seal's old key"),
        }
    }

    async fn try_renew_wrapping(
        &self,
        config: &SealConfig,
        auto: &dyn AutoSeal,
        key: &UnsealKey,
    ) -> Result<(), Error> {
        let (SealScheme::Auto { name, proof, .. }, Some(record)) =
            (&config.scheme, self.seal_record()?)
        else {
            return Err(Error::internal(&"the seal's configuration is gone"));
        };
        if SealConfig::decode(&record.value).as_ref() != Some(config) {
            return Err(Error::Conflict);
        }
        let wrapped = auto.wrap(key.expose()).map_err(Error::Unavailable)?;
        let scheme = SealScheme::Auto { name: name.clone(), wrapped, proof: proof.clone() };
        let renewed = SealConfig { scheme, ..config.clone() };
        let mut batch = Batch::new();
        batch.expect(keys::seal_config(), record.seqno);
        batch.put(keys::seal_config(), renewed.encode());
        self.commit_seal(batch).await?;
        Ok(())
    }

    /// Opens with the right root key, on a thread of its own.
    async fn open(
        &self,
        root: RootKey,
        turn: tokio::sync::OwnedMutexGuard<()>,
    ) -> Result<(), Error> {
        let opener = Opener {
            root: Arc::new(root),
            info: Arc::clone(&self.info),
            audit: Arc::clone(&self.audit),
            services: Arc::clone(&self.services),
            threads: Arc::clone(&self.threads),
            seal_is_due: Arc::clone(&self.seal_is_due),
            turns: self.seal.turns(),
            sealings: self.sealings.clone(),
        };
        let store = Arc::clone(&self.store);
        let slot = Arc::clone(&self.context);
        let (joining, port) = (Arc::clone(&self.joining), self.port.clone());
        let (tell, told) = oneshot::channel();
        let begin = self.services.timers.now();
        let run = move || {
            let joined = join_first(&joining, port.as_deref(), &opener.root, &*store);
            let outcome = joined.and_then(|()| opener.open(store, &slot, Opening::First));
            // Nobody may be left to hear it; the slot says how it went.
            let _ = tell.send(outcome);
            drop(turn);
        };
        let started = self.threads.start("unseal", Box::new(run));
        started.map_err(|error| Error::Unavailable(format!("no thread to unseal on: {error}")))?;
        told.await.map_err(|_| Error::internal(&"unsealing ended early"))??;
        self.services.timers.end(Timer::Unseal, begin);
        Ok(())
    }

    /// Drops keys and view. The same for a server that is sealed already. Resolves when the last
    /// request that began before has ended and the keys are wiped, or after a bounded wait.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when there is no thread to wait on; the server is sealed even so.
    pub async fn seal(&self) -> Result<(), Error> {
        let _turn = self.seal.turn().await;
        let begin = self.services.timers.now();
        let last = self.context.swap(None);
        if let Some(last) = &last {
            last.view.feed.notify_watchers();
            // Work that waits for a commit may go on after a seal and an unsealing; this view will not show it what it did.
            last.outdated.set(self.store.replicated());
        }
        // Without a context too: a view may be about to be built again in the place of one that was given up.
        self.store.detach();
        self.loaded.clear();
        self.audit.clear();
        candidacy::stand(&*self.store, Candidacy::Reluctant);
        self.seal_is_due.store(false, Ordering::Release);
        self.sealings.send_modify(|count| *count += 1);
        let Some(last) = last else { return Ok(()) };
        *self.seal.progress() = Default::default();
        let (tell, told) = oneshot::channel();
        let threads = Arc::clone(&self.threads);
        let run = move || {
            drop_behind_last_request(last, &*threads);
            // Nobody may be left to hear it.
            let _ = tell.send(());
        };
        let started = self.threads.start("seal", Box::new(run));
        started.map_err(|error| Error::Unavailable(format!("no thread to seal on: {error}")))?;
        told.await.map_err(|_| Error::internal(&"sealing ended early"))?;
        self.services.timers.end(Timer::SealInternal, begin);
        tracing::info!("sealed");
        Ok(())
    }
}

/// Requests that began before a seal end with the keys they have.
fn drop_behind_last_request(mut last: Arc<NamespaceContext>, threads: &dyn Threads) {
    for _ in 0..LAST_REQUEST_CHECKS {
        // Who holds it weakly gets it no more from here on.
        match Arc::try_unwrap(last) {
            Ok(context) => return drop(context),
            Err(held) => last = held,
        }
        threads.pause(LAST_REQUEST_PAUSE);
    }
    tracing::warn!("a request still runs; the keys go with it");
}

/// What is said of storage whose key a seal keeps that the configuration does not name.
fn no_seal_configured(name: &str) -> Error {
    Error::invalid(format!(
        "the storage was initialised with the seal {name}, and the configuration names none: add seal {name:?} \
         and start the server again; recovery keys do not unseal"
    ))
}

/// The root key, if the unseal key is the right one.
///
/// # Errors
/// [`Error::Invalid`] in the words of the contract when it is not.
pub(super) fn unwrap_root(config: &SealConfig, key: &UnsealKey) -> Result<RootKey, Error> {
    prove(&config.root, key)
}

/// Opens `wrapped`, which proves that the shares behind `key` are right.
pub(super) fn prove(wrapped: &[u8], key: &UnsealKey) -> Result<RootKey, Error> {
    RootKey::unwrap(wrapped, key).map_err(|error| match error {
        BarrierError::WrongKey => Error::invalid(
            "unable to retrieve stored keys: invalid key: failed to decrypt keys from storage: \
             the shares make another key",
        ),
        other => Error::internal(&other),
    })
}

/// Joins the cluster that this server was told to join, if it was.
fn join_first(
    joining: &Joining,
    port: Option<&dyn ClusterPort>,
    root: &RootKey,
    store: &dyn Store,
) -> Result<(), Error> {
    let (Some(pending), Some(port)) = (joining.pending(), port) else { return Ok(()) };
    if store.get(&keys::seal_config())?.is_none() {
        pending.finish(root, port, store)?;
    }
    joining.done();
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU8;

    use jiff::Timestamp;
    use kallisto_store::MemoryStore;
    use zeroize::Zeroizing;

    use super::*;
    use crate::platform::server_info::ServerInfo;
    use crate::seal::InitSpec;

    /// Keeps the key in the open behind the version that wrapped it.
    #[derive(Default)]
    struct Versioned(AtomicU8);

    impl AutoSeal for Versioned {
        fn name(&self) -> &str {
            "test"
        }

        fn wrap(&self, key: &[u8]) -> Result<Vec<u8>, String> {
            Ok([&[self.0.load(Ordering::SeqCst)], key].concat())
        }

        fn unwrap(&self, wrapped: &[u8]) -> Result<Zeroizing<Vec<u8>>, String> {
            Ok(Zeroizing::new(wrapped[1..].to_vec()))
        }

        fn is_outdated(&self, wrapped: &[u8]) -> bool {
            wrapped[0] < self.0.load(Ordering::SeqCst)
        }
    }

    #[test]
    fn a_server_that_runs_has_its_key_wrapped_anew_once_the_seals_key_was_rotated() {
        let (store, seal) = (Arc::new(MemoryStore::new()), Arc::<Versioned>::default());
        let core = Core::new(Arc::clone(&store) as _, ServerInfo::default());
        let core = core.with_auto_seal(Arc::clone(&seal) as _);
        let spec = InitSpec { shares: 1, threshold: 1, root_token: None, mount_kv: None };
        pollster::block_on(core.initialize_unsealed(&spec, Timestamp::UNIX_EPOCH)).unwrap();
        let wrapped_by = || match core.seal_config().unwrap().unwrap().scheme {
            SealScheme::Auto { wrapped, .. } => wrapped[0],
            SealScheme::Shamir => panic!("the seal opens by itself"),
        };
        let before = core.seal_record().unwrap().unwrap().seqno;
        pollster::block_on(core.renew_seal_wrapping()).unwrap();
        assert_eq!(core.seal_record().unwrap().unwrap().seqno, before, "there is nothing to do");
        seal.0.store(2, Ordering::SeqCst);
        assert_eq!(wrapped_by(), 0);
        pollster::block_on(core.renew_seal_wrapping()).unwrap();
        assert_eq!(wrapped_by(), 2);
        pollster::block_on(core.seal()).unwrap();
        seal.0.store(3, Ordering::SeqCst);
        pollster::block_on(core.renew_seal_wrapping()).unwrap();
        assert_eq!(wrapped_by(), 2, "a sealed server writes nothing");
        pollster::block_on(core.auto_unseal()).unwrap();
        assert_eq!((wrapped_by(), core.is_sealed()), (3, false));
    }
}
