//! What a server holds, sealed and unsealed: the [`Core`].
//!
//! A [`Core`] always has its store of ciphertext and its seal; while it is unsealed it has a
//! [`NamespaceContext`] besides: keys, view and the clear side of the store. What acts on this state is above: `seal` opens and closes it, `pipeline` takes
//! requests through it, `jobs` keeps it in order by the clock.
//!
//! Invariants:
//! - Nothing here asks who calls, or changes a record.
//! - `context` is empty exactly while the keys are not in memory.

mod attempts;
pub(crate) mod compute_pools;
pub(crate) mod joining;
pub(crate) mod loaded;
pub(crate) mod metrics;
pub(crate) mod seal;
pub(crate) mod versions;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use kallisto_engine::{FarEnds, Pod, ProbeRunner};
use kallisto_store::{Candidacy, Store};
use tokio::sync::{Semaphore, watch};

use crate::admission::{Admission, AdmissionLimits};
use crate::api::error::Error;
use crate::audit::{Audit, AuditSettings};
use crate::limits::{RECORD_READS_MAX, SAVES_MAX};
use crate::metrics::Metrics;
use crate::platform::auto_seal::AutoSeal;
use crate::platform::cluster_port::ClusterPort;
use crate::platform::engine_services::EngineServices;
use crate::platform::host::Host;
use crate::platform::outbound::OutboundCalls;
use crate::platform::server_info::ServerInfo;
use crate::platform::snapshot_storage::SnapshotStorage;
use crate::platform::threads::{OwnThreads, Threads};
use crate::records::engine_kind::EngineKind;
use crate::state::compute_pools::Compute;
use crate::state::joining::Joining;
use crate::state::loaded::LoadedSnapshots;
use crate::state::seal::progress::Seal;
use crate::timers::Timer;
use crate::view::outdated::LastHeard;
use crate::view::{NamespaceContext, View};

/// A server's state. Requests come in by [`Core::serve`].
pub struct Core {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) info: Arc<ServerInfo>,
    pub(crate) seal: Seal,
    pub(crate) auto_seal: Option<Arc<dyn AutoSeal>>,
    /// What engines use of it.
    pub(crate) services: Arc<EngineServices>,
    pub(crate) compute: Compute,
    pub(crate) admission: Arc<Admission>,
    /// The cluster port, on a server that has one.
    pub(crate) port: Option<Arc<dyn ClusterPort>>,
    pub(crate) joining: Arc<Joining>,
    pub(crate) context: Arc<ArcSwapOption<NamespaceContext>>,
    pub(crate) audit: Arc<Audit>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) host: Option<Arc<dyn Host>>,
    /// Who runs what takes long.
    pub(crate) threads: Arc<dyn Threads>,
    /// Places for those who read a backup.
    pub(crate) saves: Arc<Semaphore>,
    /// What was loaded to be read beside the state.
    pub(crate) loaded: Arc<LoadedSnapshots>,
    /// Turns of those who follow audit records to read a block of a file.
    pub(crate) record_reads: Arc<Semaphore>,
    /// Whether a seal that opens by itself is to be tried: see [`Core::take_due_seal`].
    pub(crate) seal_is_due: Arc<AtomicBool>,
    /// How often the keys were dropped.
    pub(crate) sealings: watch::Sender<u64>,
    /// What was said of how old the view is.
    pub(crate) told: LastHeard,
    /// Time since some fixed point, to measure how long jobs take.
    pub(crate) stopwatch: Stopwatch,
}

/// A clock that is never set: time since some fixed point.
pub(crate) type Stopwatch = Arc<dyn Fn() -> Duration + Send + Sync>;

impl Core {
    /// A sealed core over `store`. What is sealed serves nobody, so it does not stand for leadership.
    pub fn new(store: Arc<dyn Store>, info: ServerInfo) -> Self {
        crate::storage::candidacy::stand(&*store, Candidacy::Reluctant);
        let admission = Arc::<Admission>::default();
        let metrics = Arc::new(Metrics::default());
        if info.metrics.usage_period.is_some() {
            metrics.routes.turn_on();
        }
        Self {
            store,
            info: Arc::new(info),
            seal: Seal::new(),
            auto_seal: None,
            services: Arc::new(EngineServices::new(&admission)),
            compute: Compute::new(&admission),
            admission,
            port: None,
            joining: Arc::default(),
            context: Arc::default(),
            audit: Arc::default(),
            metrics,
            host: None,
            threads: Arc::new(OwnThreads),
            saves: Arc::new(Semaphore::new(SAVES_MAX)),
            loaded: Arc::default(),
            record_reads: Arc::new(Semaphore::new(RECORD_READS_MAX)),
            seal_is_due: Arc::default(),
            sealings: watch::Sender::new(0),
            told: LastHeard::default(),
            stopwatch: Arc::new(|| Duration::ZERO),
        }
    }

    /// The same, with a machine to ask about.
    pub fn with_host(self, host: Arc<dyn Host>) -> Self {
        Self { host: Some(host), ..self }
    }

    /// The same, with a clock that is never set, by which jobs are measured; without one they take no time.
    pub fn with_stopwatch(self, stopwatch: impl Fn() -> Duration + Send + Sync + 'static) -> Self {
        let stopwatch: Stopwatch = Arc::new(stopwatch);
        self.services.timers.measure_by(Arc::clone(&stopwatch));
        Self { stopwatch, ..self }
    }

    /// The same, with others to run what takes long.
    pub fn with_threads(self, threads: Arc<dyn Threads>) -> Self {
        Self { threads, ..self }
    }

    /// The counters, for those who count outside.
    pub const fn metrics(&self) -> &Arc<Metrics> {
        &self.metrics
    }

    /// Counts a request that the leader answered for this server in that time; `None` for one whose answer did not come.
    pub fn count_forwarded(&self, took: Option<Duration>) {
        match took {
            Some(took) => self.services.timers.record(Timer::Forward, took),
            None => self.services.timers.forward_errors.count(),
        }
    }

    /// The same, with a seal that opens by itself.
    pub fn with_auto_seal(self, auto: Arc<dyn AutoSeal>) -> Self {
        Self { auto_seal: Some(auto), ..self }
    }

    /// The same, holding no more for its clients than this.
    pub fn with_limits(self, limits: &AdmissionLimits) -> Self {
        let admission = Arc::new(Admission::new(limits));
        let services = Arc::new(EngineServices::new(&admission));
        services.take_after(&self.services);
        Self { services, compute: Compute::new(&admission), admission, ..self }
    }

    /// What clients make the server hold, for those who let them in.
    pub const fn admission(&self) -> &Arc<Admission> {
        &self.admission
    }

    /// The same, with what the configuration says of auditing.
    pub fn with_audit(self, settings: AuditSettings) -> Self {
        Self { audit: Arc::new(Audit::new(settings)), ..self }
    }

    /// Makes every audit device open its destination anew: files were moved away.
    pub fn reopen_audit(&self) {
        self.audit.devices.reopen();
    }

    /// Ends all audit devices, when nobody asks any more: what they wrote is signed and kept before this returns,
    /// or a bounded wait is over.
    pub fn end_audit(&self) {
        self.audit.devices.end();
    }

    /// The same, with something that asks other servers for the engines.
    pub fn with_outbound(self, outbound: Arc<dyn OutboundCalls>) -> Self {
        self.services.set_outbound(outbound);
        self
    }

    /// The same, with something that looks at names and addresses for the engines.
    pub fn with_probes(self, probes: Arc<dyn ProbeRunner>) -> Self {
        self.services.set_probes(probes);
        self
    }

    /// The same, with something that asks databases, directories and brokers for the engines.
    pub fn with_far_ends(self, far_ends: Arc<dyn FarEnds>) -> Self {
        self.services.set_far_ends(far_ends);
        self
    }

    /// The same, in a pod.
    pub fn with_pod(self, pod: Arc<dyn Pod>) -> Self {
        self.services.set_pod(pod);
        self
    }

    /// The same, with something that stores scheduled snapshots.
    pub fn with_snapshots(self, snapshots: Arc<dyn SnapshotStorage>) -> Self {
        self.services.set_snapshots(snapshots);
        self
    }

    /// The same, with a cluster port.
    pub fn with_port(self, port: Arc<dyn ClusterPort>) -> Self {
        Self { port: Some(port), ..self }
    }

    /// The view while unsealed, for measurements.
    pub fn view(&self) -> Option<Arc<View>> {
        self.context.load().as_ref().map(|context| Arc::clone(&context.view))
    }

    /// The engine mounted at exactly `path` (which ends in a slash and may lead into a namespace), while unsealed.
    pub fn engine_at(&self, path: &str) -> Option<EngineKind> {
        let context = self.context.load();
        let root = &context.as_ref()?.view;
        // Without a lock where there are none: commands of the Redis protocol ask each time.
        let space = if root.namespaces.is_empty() { None } else { root.namespaces.around(path) };
        let mount = match space {
            None => root.mounts.at(path)?,
            Some(space) => {
                let view = root.namespaces.view(space.namespace.number)?;
                view.mounts.at(&path[space.namespace.path.len()..])?
            }
        };
        Some(mount.entry.kind)
    }

    /// Whether the keys are not in memory.
    pub fn is_sealed(&self) -> bool {
        self.context.load().is_none()
    }

    /// How far in the past the view of this server may be; `None` while sealed, or if that is not known.
    pub fn age(&self) -> Option<Duration> {
        self.context.load().as_ref()?.age()
    }

    /// Whether this server answers from its view; one that is sealed does not.
    pub fn is_fresh(&self) -> bool {
        self.context.load().as_ref().is_some_and(|context| context.is_fresh())
    }

    /// Changes whenever the server is sealed: what connections remember of who asks and of what was asked is to be
    /// forgotten with the keys.
    pub fn sealings(&self) -> watch::Receiver<u64> {
        self.sealings.subscribe()
    }

    /// Up to where in the order of all writes the view goes; `None` while sealed, or while the view is of the past.
    pub fn shown(&self) -> Option<u64> {
        // The position first: a view is called outdated before the position moves past it.
        let position = self.store.position();
        let context = self.context.load();
        let outdated = context.as_ref()?.outdated.is_set();
        (!outdated).then_some(position.0)
    }

    /// Whether the view, if there is one, is of the state that was restored last.
    pub fn follows_restore(&self) -> bool {
        let context = self.context.load();
        context.as_ref().is_none_or(|context| context.store.generation() == self.store.generation())
    }

    /// Resolves when this server's view shows everything that was committed anywhere before the call, as far as the store
    /// is concerned: see [`Core::shown`].
    ///
    /// # Errors
    /// [`Error::NotLeader`] while nobody is known to lead, or when a question was lost: ask again.
    pub async fn catch_up(&self) -> Result<(), Error> {
        match self.store.replicated() {
            Some(cluster) => Ok(cluster.read_index().await.map(|_| ())?),
            None => Ok(()),
        }
    }

    /// The store as one of which other servers may be part; `None` where it is one server's alone. A database that one server has for
    /// itself knows of no other one, nor ever will.
    pub(crate) fn cluster(&self) -> Option<&dyn kallisto_store::Replicated> {
        self.store.replicated().filter(|cluster| !(cluster.shares_records() && cluster.is_alone()))
    }

    /// The id of the cluster, while unsealed.
    pub fn cluster_id(&self) -> Option<String> {
        let context = self.context.load();
        Some(context.as_ref()?.view.cluster()?.id.clone())
    }

    /// The store of ciphertext.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }
}
