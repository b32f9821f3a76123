//! What handlers run with: the view of a namespace, its side of the store, and the keys.
//!
//! A [`NamespaceContext`] exists while the server is unsealed. Handlers take one, so that none can run against a sealed server. The
//! contexts of namespaces are made of the root one's ([`NamespaceContext::inside`]) and share all but the view and the store.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Weak};
use std::time::Duration;

use kallisto_auth::{AclSet, Denied};
use kallisto_barrier::{RootKey, SecretKey};
use kallisto_store::AsOf;

use super::outdated::Outdated;
use super::{Mount, View};
use crate::api::error::Error;
use crate::platform::engine_services::EngineServices;
use crate::platform::server_info::ServerInfo;
use crate::platform::threads::Threads;
use crate::records::mount::LeaseTimes;
use crate::storage::barrier_store::{BarrierStore, NamespaceLife};
use crate::storage::engine_storage::EngineStorage;
use crate::storage::keys::MountId;
use crate::storage::latches::Latches;
use crate::storage::reencryption::Reencryption;

/// What a server has while it is unsealed, as one namespace sees it.
pub(crate) struct NamespaceContext {
    pub(crate) view: Arc<View>,
    pub(crate) store: BarrierStore,
    pub(crate) latches: Arc<Latches>,
    pub(crate) root: Arc<RootKey>,
    /// What tickets of TLS sessions are sealed by; the same on every server of the cluster.
    pub(crate) ticket_secret: Arc<SecretKey>,
    pub(crate) info: Arc<ServerInfo>,
    pub(crate) leases: LeaseTimes,
    /// What engines use of the server.
    pub(crate) services: Arc<EngineServices>,
    pub(crate) reencryption: Reencryption,
    /// Who runs its long work.
    pub(crate) threads: Arc<dyn Threads>,
    /// Set once the view is of the past: a snapshot or a backup took the place of what it shows, or the server was sealed.
    pub(crate) outdated: Arc<Outdated>,
    /// The term in which revocations that were cut short were last taken up; 0 while there may be new ones.
    pub(crate) swept: AtomicU64,
    /// The term in which upgrades of mounts that were cut short were last taken up.
    pub(crate) upgraded: AtomicU64,
    /// What the root namespace has, itself there.
    pub(crate) top: Weak<Self>,
}

impl NamespaceContext {
    /// How far in the past its view may be; `None` if that is not known.
    pub(crate) fn age(&self) -> Option<Duration> {
        let Some(cluster) = self.store.below().replicated() else { return Some(Duration::ZERO) };
        // First the store's word: a view that is behind it was called outdated before.
        match self.outdated.limit(cluster.as_of()) {
            AsOf::ALWAYS => Some(Duration::ZERO),
            as_of => as_of.age(cluster.now()),
        }
    }

    /// Whether its view may answer.
    pub(crate) fn is_fresh(&self) -> bool {
        self.age().is_some_and(|age| age <= self.info.max_staleness)
    }

    /// Refuses stale reads to those under a policy that forbids them.
    pub(crate) fn check_stale(&self, acl: &AclSet) -> Result<(), Denied> {
        if acl.denies_stale_reads() && !self.is_fresh() { Err(Denied) } else { Ok(()) }
    }

    /// Refuses to go on where the view shows nothing new any more: whoever asks it again and again what is left would do so for ever.
    ///
    /// # Errors
    /// [`Error::Unavailable`].
    pub(crate) fn check_follows(&self) -> Result<(), Error> {
        match self.outdated.is_set() {
            true => Err(Error::Unavailable(
                "this server was sealed, or is taking over another state: ask again".into(),
            )),
            false => Ok(()),
        }
    }

    /// What handlers of a namespace run with, asked of the root namespace.
    pub(super) fn inside(&self, view: Arc<View>, life: NamespaceLife) -> Arc<Self> {
        Arc::new(Self {
            view,
            store: self.store.inside(life),
            latches: Arc::clone(&self.latches),
            root: Arc::clone(&self.root),
            ticket_secret: Arc::clone(&self.ticket_secret),
            info: Arc::clone(&self.info),
            leases: self.leases,
            services: Arc::clone(&self.services),
            reencryption: Reencryption::default(),
            threads: Arc::clone(&self.threads),
            outdated: Arc::clone(&self.outdated),
            swept: 0.into(),
            upgraded: 0.into(),
            top: self.top.clone(),
        })
    }
}

impl<'u> EngineStorage<'u> {
    /// The engine storage of a mount.
    pub(crate) fn of(context: &'u NamespaceContext, mount: &Mount) -> Self {
        Self::new(&context.store, &context.latches, mount.entry.id, Arc::clone(&mount.index))
    }

    /// The engine storage of a mount of the server itself.
    ///
    /// # Errors
    /// When that mount is missing, which is damage.
    pub(crate) fn builtin(context: &'u NamespaceContext, id: MountId) -> Result<Self, Error> {
        let mount = context.view.mounts.with_id(id);
        let mount = mount.ok_or_else(|| Error::internal(&"a built-in mount is missing"))?;
        Ok(Self::of(context, &mount))
    }
}
