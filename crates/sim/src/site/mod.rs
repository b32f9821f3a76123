//! The core of one simulated server: the request path of the server itself, over its store, with a clock that may be wrong.
//!
//! `far_end` is what an engine of the simulation asks, `watched` the store below a core, `background` runs what takes it long, `chance` draws its keys from the seed, `asks` are
//! requests to it. The world ([`crate::world`]) polls what is under way whenever the server has worked, and tells the core the time.

pub(crate) mod asks;
pub(crate) mod background;
pub(crate) mod chance;
pub(crate) mod far_end;
mod wall;
mod watched;

use std::sync::Arc;
use std::time::Duration;

use kallisto_core::{Core, LeaseTimes, RouteAccess, ServerInfo};

use self::asks::Flight;
use self::background::{BackgroundTasks, RunningTask};
pub(crate) use self::wall::Wall;
use self::watched::MirroredStore;
use crate::mirror::Mirror;
use crate::sabotage::Sabotage;
use crate::server::ServerStore;

/// The longest that a token lives which asks for nothing else.
pub(crate) const LEASE_SECS: u64 = 45;
/// How far in the past a view may be that answers.
pub(crate) const MAX_STALENESS: Duration = Duration::from_secs(1);
/// What the hot table may hold: so little that records leave it.
const HOT_BYTES_MAX: usize = 64 << 10;

/// A core and what runs for it.
pub(crate) struct CoreSite {
    pub(crate) core: Arc<Core>,
    pub(crate) tasks: Arc<BackgroundTasks>,
    /// Tasks that have paused, by number.
    pub(crate) running: Vec<(u64, RunningTask)>,
    /// The pass over the jobs by the clock that is under way.
    pub(crate) due_jobs: Option<Flight>,
    /// The share of the unseal key that is being given.
    pub(crate) opening: Option<Flight>,
}

impl CoreSite {
    /// A sealed core over a store.
    pub(crate) fn open(
        store: &Arc<dyn ServerStore>,
        mirror: &Arc<Mirror>,
        sabotage: Option<Sabotage>,
    ) -> Self {
        let watched = MirroredStore::new(Arc::clone(store), Arc::clone(mirror), sabotage);
        let info = ServerInfo {
            storage_type: "raft".to_owned(),
            leases: LeaseTimes { default_secs: LEASE_SECS, max_secs: LEASE_SECS },
            hot_bytes_max: HOT_BYTES_MAX,
            unauthenticated_rekey: RouteAccess::Token,
            max_staleness: match sabotage {
                Some(Sabotage::NoLease) => Duration::MAX,
                _ => MAX_STALENESS,
            },
            ..ServerInfo::default()
        };
        let tasks = Arc::<BackgroundTasks>::default();
        let core = Core::new(Arc::new(watched), info).with_threads(Arc::clone(&tasks) as _);
        Self { core: Arc::new(core), tasks, running: Vec::new(), due_jobs: None, opening: None }
    }

    /// The machine is gone: what still runs comes to its end, which reaches nobody.
    pub(crate) fn end(self) {
        for (_, task) in self.running {
            task.run_out();
        }
        drop(self.tasks.take());
    }
}
