//! Opening the store's state with the root key: loads a view and has it serve.
//!
//! Unsealing opens for the first time; [`Rebuild`] opens again when a snapshot or a backup replaced the state.
//!
//! Invariants:
//! - No request is served before the audit devices of the state are there, and a view that is built again keeps its
//!   devices: nothing goes unaudited.
//! - The slot gets the new view as the last step; until then the view before it serves, or nothing does.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use arc_swap::{ArcSwap, ArcSwapOption};
use kallisto_barrier::{Keyring, RootKey, SecretKey};
use kallisto_store::{AsOf, Candidacy, Fold, Seqno, Store};
use tokio::sync::watch;

use super::rotate::start_reencryption;
use crate::api::error::Error;
use crate::audit::{Audit, declare};
use crate::cluster::removed;
use crate::platform::engine_services::EngineServices;
use crate::platform::server_info::ServerInfo;
use crate::platform::threads::Threads;
use crate::registry;
use crate::seal::rebuild::Rebuild;
use crate::seal::tickets;
use crate::state::seal::progress::SealTurns;
use crate::storage::barrier_store::{BarrierStore, KeysInUse};
use crate::storage::candidacy;
use crate::storage::engine_storage::EngineStorage;
use crate::storage::keys::{self, MountId};
use crate::storage::latches::Latches;
use crate::storage::reencryption::Reencryption;
use crate::view::outdated::Outdated;
use crate::view::{NamespaceContext, View, ViewFold, start_warming};

/// How often and how long a server that unseals asks what was committed before.
const CATCH_UP_CHECKS: u32 = 600;
const CATCH_UP_PAUSE: Duration = Duration::from_millis(5);

/// Whether a view is built for the first time, or in place of one that serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Opening {
    /// Nothing is served yet.
    First,
    /// In place of a view that serves, of the same history.
    Again,
    /// In place of one that serves a state that is no more.
    Restored,
}

/// What a view is opened with, besides the store. It is kept for opening again.
#[derive(Clone)]
pub(crate) struct Opener {
    pub(crate) root: Arc<RootKey>,
    pub(crate) info: Arc<ServerInfo>,
    pub(crate) audit: Arc<Audit>,
    pub(crate) services: Arc<EngineServices>,
    pub(crate) threads: Arc<dyn Threads>,
    /// Set once what came does not open under these keys, and sealed the server.
    pub(crate) seal_is_due: Arc<AtomicBool>,
    /// A view that is built again takes the place of one that may be sealed meanwhile.
    pub(crate) turns: SealTurns,
    /// How often the keys were dropped.
    pub(crate) sealings: watch::Sender<u64>,
}

/// The keys of the state, and what is derived from them.
struct OpenedKeys {
    in_use: KeysInUse,
    ticket_secret: SecretKey,
}

impl Opener {
    /// Builds a view of the state, and has it serve. The caller has the turn: nobody seals or opens meanwhile.
    ///
    /// # Errors
    /// [`Error::Internal`] when the state does not open under this root key, [`Error::Unavailable`] when it cannot be read, or
    /// a batch that does not open came meanwhile.
    pub(crate) fn open(
        &self,
        store: Arc<dyn Store>,
        slot: &Arc<ArcSwapOption<NamespaceContext>>,
        opening: Opening,
    ) -> Result<(), Error> {
        let keys = self.open_keys(&*store)?;
        let in_use = Arc::clone(&keys.in_use);
        let unlimited = registry::unlimited_paths();
        let view = Arc::new(View::new(self.info.hot_bytes_max, in_use, unlimited)?);
        let rebuild = Arc::new(Rebuild::new(self.clone(), &store, slot));
        if opening != Opening::Again {
            // What an earlier try, or another state, left behind is no part of this one.
            self.audit.clear();
        }
        let latches = Latches::new()?;
        let fold = self.fold(&view, &keys.in_use, &rebuild);
        let generation = attach(&*store, Arc::new(fold))?;
        let barrier = BarrierStore::new(Arc::clone(&store), keys.in_use, generation);
        let outdated = Arc::clone(&rebuild.outdated);
        let context = self.context(view, barrier, latches, keys.ticket_secret, outdated);
        if opening != Opening::Again
            && let Err(error) = declare_audit(&self.audit, &context)
        {
            store.detach();
            self.audit.clear();
            return Err(error);
        }
        candidacy::stand(&*store, Candidacy::Willing);
        if opening == Opening::First {
            catch_up(&*store, &*self.threads);
        }
        // It may have been told meanwhile.
        let is_member = match opening {
            Opening::First => removed::check(&*store),
            Opening::Again | Opening::Restored => Ok(()),
        };
        if let Err(error) = is_member.and_then(|()| rebuild.serve(&context, slot)) {
            candidacy::stand(&*store, Candidacy::Reluctant);
            store.detach();
            self.audit.clear();
            return Err(error);
        }
        start_warming(&context);
        // A rotation may have been cut short by a restart.
        if let Err(error) = start_reencryption(&context) {
            tracing::warn!(%error, "old records stay under their keys for now");
        }
        tracing::info!("unsealed");
        Ok(())
    }

    fn open_keys(&self, store: &dyn Store) -> Result<OpenedKeys, Error> {
        let record = store.get(&keys::keyring())?;
        let record = record.ok_or_else(|| Error::internal(&"the keyring is missing"))?;
        let keyring = Keyring::open(&record.value, &self.root);
        let keyring = keyring.map_err(|error| Error::internal(&error))?;
        let ticket_secret = keyring.derive(tickets::PURPOSE);
        let ticket_secret = ticket_secret.map_err(|error| Error::internal(&error))?;
        Ok(OpenedKeys { in_use: Arc::new(ArcSwap::from_pointee(keyring)), ticket_secret })
    }

    /// What writes the view: first the whole state, then every change.
    fn fold(&self, view: &Arc<View>, keys: &KeysInUse, rebuild: &Arc<Rebuild>) -> ViewFold {
        let rebuild = Arc::clone(rebuild);
        ViewFold {
            view: Arc::clone(view),
            keys: Arc::clone(keys),
            root: Arc::clone(&self.root),
            audit: Arc::clone(&self.audit),
            ask_rebuild: Box::new(move |why| rebuild.start(why)),
        }
    }

    /// What requests of the root namespace run with.
    fn context(
        &self,
        view: Arc<View>,
        store: BarrierStore,
        latches: Latches,
        ticket_secret: SecretKey,
        outdated: Arc<Outdated>,
    ) -> Arc<NamespaceContext> {
        Arc::new_cyclic(|top| NamespaceContext {
            ticket_secret: Arc::new(ticket_secret),
            view,
            store,
            latches: Arc::new(latches),
            root: Arc::clone(&self.root),
            leases: self.info.leases,
            info: Arc::clone(&self.info),
            services: Arc::clone(&self.services),
            reencryption: Reencryption::default(),
            threads: Arc::clone(&self.threads),
            outdated,
            swept: 0.into(),
            upgraded: 0.into(),
            top: top.clone(),
        })
    }
}

/// Brings the records of audit devices in line with the configuration.
fn declare_audit(audit: &Audit, root: &NamespaceContext) -> Result<(), Error> {
    let storage = EngineStorage::builtin(root, MountId::SYSTEM)?;
    pollster::block_on(declare(audit, &storage, &root.store))
}

/// Attaches a fold and says which restore it was loaded after.
fn attach(store: &dyn Store, fold: Arc<dyn Fold>) -> Result<Seqno, Error> {
    loop {
        let before = store.generation();
        store.attach(Arc::clone(&fold))?;
        if store.generation() == before {
            return Ok(before);
        }
    }
}

/// Waits until everything that was committed before is applied here, so that whoever asks next is answered. Where nobody
/// leads in time it is unsealed all the same: the pipeline refuses what needs a recent view until a leader was heard.
fn catch_up(store: &dyn Store, threads: &dyn Threads) {
    let Some(cluster) = store.replicated() else { return };
    // Who is alone and has applied what it committed in an earlier run.
    if cluster.as_of() == AsOf::ALWAYS {
        return;
    }
    let mut context = Context::from_waker(Waker::noop());
    let mut reading = cluster.read_index();
    for _ in 0..CATCH_UP_CHECKS {
        // No leader tells one anything that it let go, and it is not unsealed.
        if cluster.is_removed() {
            return;
        }
        match Pin::new(&mut reading).poll(&mut context) {
            Poll::Ready(Ok(position)) => {
                tracing::info!(index = position.0, "everything committed before is here");
                return;
            }
            Poll::Ready(Err(_)) => reading = cluster.read_index(),
            Poll::Pending => {}
        }
        threads.pause(CATCH_UP_PAUSE);
    }
    tracing::warn!(
        index = store.position().0,
        "no leader said what was committed: unsealed, and refusing what needs to be recent until one does"
    );
}
